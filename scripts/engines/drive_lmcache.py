"""LMCache: its own LocalCPUBackend with its own eviction policy and allocator, one request at a time.

The calls are those of LMCache's engine: lookup pins the leading run of chunks that are there, `touch_cache` moves them,
room is allocated for every chunk past them, then they are put. Memory objects are of the smallest size the allocator
aligns to, so that its buffer holds exactly `capacity` of them.
"""

import logging
import os

os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
logging.disable(logging.WARNING)

from importlib.metadata import version

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_allocators.mixed_memory_allocator import MixedMemoryAllocator
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.pin_monitor import PinMonitor
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

VERSION = version("lmcache")
OBJECT_BYTES = 4_096
SHAPE = torch.Size([OBJECT_BYTES])


def chunk_keys(request, chunk_pages):
    """Keys of the full chunks. A generated page id stands for its whole prefix, so a chunk's last one names it."""
    last_pages = request.pages[chunk_pages - 1 :: chunk_pages]
    return [CacheEngineKey("model", 1, 0, page, torch.uint8) for page in last_pages]


def serve(backend, keys):
    """Looks up, touches and stores one request; chunks found."""
    found = 0
    for key in keys:
        if not backend.contains(key, pin=True):
            break
        found += 1
    backend.touch_cache()
    for key in keys[:found]:
        backend.unpin(key)
    objects = []
    for key in keys[found:]:
        room = backend.allocate(SHAPE, torch.uint8, fmt=MemoryFormat.KV_2LTD, eviction=True, busy_loop=False)
        if room is None:
            raise SystemExit("a request does not fit: give it a larger capacity")
        objects.append(room)
    backend.batched_submit_put_task(keys[found:], objects)
    for memory in objects:
        memory.ref_count_down()
    return found


def drive(requests, settings, capacity):
    """Pages each request found in the cache, in order."""
    chunk_pages = settings["chunk_tokens"] // requests[0].page_size
    config = LMCacheEngineConfig.from_defaults(chunk_size=settings["chunk_tokens"], local_cpu=True)
    PinMonitor.GetOrCreate(config)
    chunks = capacity // chunk_pages
    allocator = MixedMemoryAllocator(chunks * OBJECT_BYTES)
    backend = LocalCPUBackend(config, memory_allocator=allocator)
    hits = [serve(backend, chunk_keys(request, chunk_pages)) * chunk_pages for request in requests]
    if len(backend.hot_cache) > chunks:
        raise SystemExit(f"{len(backend.hot_cache)} chunks are held where {chunks} should fit")
    allocator.close()
    return hits
