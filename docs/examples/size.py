"""Sizes a cache for a log: `size.py TRACE`."""

import sys

import kvset

# 64 KiB of KV state a token.
result = kvset.replay(sys.argv[1], engine="vllm", kv_bytes_per_token=65_536)
print(f"{result.trace.requests:,} requests, {result.trace.distinct_pages:,} pages of {result.trace.page_size} tokens")
for recommended in result.recommended:
    size = "not known yet" if recommended.bytes is None else f"{recommended.bytes / 2**30:.1f} GiB"
    print(f"{recommended.coverage}: {size}")
