#!/usr/bin/env python3
"""Request log lines to request events on Kafka.

    pip install confluent-kafka xxhash
    python producer.py --brokers localhost:9092 --topic kvset.requests < requests.jsonl

A line: {"event_time": ms, "pool": "llama-70b/eu", "tokens": [..], "output_tokens": 90, "duration_ms": 1200,
"namespace": "tenant-a"}; the last three may be left out. Page ids are made as schemas/page-ids.md says.
"""

import argparse
import base64
import json
import struct
import sys

import xxhash
from confluent_kafka import Producer

NAMESPACE_SEED = 0x6B7673657473636F


def page_ids(tokens, page_size, namespace=None):
    """Ids of the full pages, each chained with every page before it."""
    previous = 0
    if namespace is not None:
        previous = max(1, xxhash.xxh3_64_intdigest(namespace.encode(), NAMESPACE_SEED))
    ids = []
    for start in range(0, len(tokens) - page_size + 1, page_size):
        page = struct.pack(f"<Q{page_size}I", previous, *tokens[start : start + page_size])
        previous = xxhash.xxh3_64_intdigest(page)
        ids.append(previous)
    return ids


def event(line, page_size):
    ids = page_ids(line["tokens"], page_size, line.get("namespace"))
    return {
        "event_time": line["event_time"],
        "page_size": page_size,
        "page_ids": base64.b64encode(struct.pack(f"<{len(ids)}Q", *ids)).decode(),
        # They are, by the way they are made: a long request is then known by a few of its ids.
        "ids_chained": True,
        "input_tokens": len(line["tokens"]),
        "output_tokens": line.get("output_tokens"),
        "duration_ms": line.get("duration_ms"),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--brokers", default="localhost:9092")
    options.add_argument("--topic", default="kvset.requests")
    options.add_argument("--page-size", type=int, default=64)
    args = options.parse_args()

    failed = []
    producer = Producer(
        {
            "bootstrap.servers": args.brokers,
            # Keeps a pool's requests in order and free of doubles when the producer retries.
            "enable.idempotence": True,
            "compression.type": "zstd",
            # Kafka's own hash of the key, so that pools go where other clients put them.
            "partitioner": "murmur2_random",
            "linger.ms": 50,
        }
    )
    for text in sys.stdin:
        line = json.loads(text)
        value = json.dumps(event(line, args.page_size), separators=(",", ":"))
        # The key is the pool: requests of one pool stay in one partition, in order.
        while True:
            try:
                producer.produce(
                    args.topic,
                    key=line["pool"],
                    value=value,
                    on_delivery=lambda error, _: error and failed.append(error),
                )
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)
    producer.flush()
    if failed:
        sys.exit(f"{len(failed)} records were not delivered: {failed[0]}")


if __name__ == "__main__":
    main()
