"""LMCache: its own LocalCPUBackend with its own eviction policy and allocator, one request at a time, or, where the settings say
how long a step of the engine takes, requests that overlap; and, where the settings say `process`, what keeps the chunks where
LMCache is a process of its own.

The calls are those of LMCache's engine: lookup pins the leading run of chunks that are there, `touch_cache` moves them,
room is allocated for every chunk past them, then they are put. Of requests that overlap, all that come in a step are looked up
and loaded before the first of them is stored, as vLLM's steps do it. Memory objects are of the smallest size the allocator
aligns to, so that its buffer holds exactly `capacity` of them.

The process has its own L1Manager, eviction policy and eviction loop; the loop looks once at each whole second of the
workload. Its calls are those of its storage manager and lookup module: lookup reserves and touches the leading run, the
missing chunks are reserved in one call and written, and all of the request's are touched as it ends.
"""

import inspect
import itertools
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
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.config import EvictionConfig, L1ManagerConfig, L1MemoryManagerConfig
from lmcache.v1.distributed.error import L1Error
from lmcache.v1.distributed.l1_manager import L1Manager
from lmcache.v1.distributed.storage_controllers import eviction_controller
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

VERSION = version("lmcache")
OBJECT_BYTES = 4_096
SHAPE = torch.Size([OBJECT_BYTES])


def chunk_keys(request, chunk_pages):
    """Keys of the full chunks. A generated page id stands for its whole prefix, so a chunk's last one names it."""
    last_pages = request.pages[chunk_pages - 1 :: chunk_pages]
    return [CacheEngineKey("model", 1, 0, page, torch.uint8) for page in last_pages]


def load(backend, keys):
    """Looks up, touches and loads one request; chunks found."""
    found = 0
    for key in keys:
        if not backend.contains(key, pin=True):
            break
        found += 1
    backend.touch_cache()
    for key in keys[:found]:
        backend.unpin(key)
    return found


def save(backend, keys):
    """Stores the chunks behind those that were found."""
    objects = []
    for _ in keys:
        room = backend.allocate(SHAPE, torch.uint8, fmt=MemoryFormat.KV_2LTD, eviction=True, busy_loop=False)
        if room is None:
            raise SystemExit("a request does not fit: give it a larger capacity")
        objects.append(room)
    backend.batched_submit_put_task(keys, objects)
    for memory in objects:
        memory.ref_count_down()


def serve(backend, requests):
    """Looks up and stores requests whose look-ups come before the first of their stores; chunks found of each."""
    found = [load(backend, keys) for keys in requests]
    for keys, hits in zip(requests, found):
        save(backend, keys[hits:])
    return found


def steps(requests, step_ms):
    """Requests that are looked up in the same step: each by itself where no step is given."""
    if step_ms is None:
        return [[request] for request in requests]
    first = lambda request: -(-request.time_ms // step_ms)
    return [list(together) for _, together in itertools.groupby(requests, first)]


class Once:
    """Stops a loop after one turn."""

    def __init__(self):
        self.turns = 0

    def is_set(self):
        self.turns += 1
        return self.turns > 1


def look(controller):
    """Lets the eviction loop look once, without waiting for its second."""
    controller._stop_flag = Once()
    eviction_controller.time.sleep = lambda _: None
    controller.eviction_loop()


def begin_in_process(manager, keys):
    """Looks up, touches and stores one request; chunks found."""
    reserved = manager.reserve_read(keys)
    found = next((at for at, key in enumerate(keys) if reserved[key][0] != L1Error.SUCCESS), len(keys))
    manager.finish_read([key for key in keys if reserved[key][0] == L1Error.SUCCESS])
    manager.touch_keys(keys[:found])
    # Versions before 0.5.6 do not ask who writes.
    asked = inspect.signature(manager.reserve_write).parameters
    tag = {"tag": "engine"} if "tag" in asked else {}
    layout = MemoryLayoutDesc(shapes=[SHAPE], dtypes=[torch.uint8])
    room = manager.reserve_write(keys[found:], [False] * (len(keys) - found), layout, **tag)
    manager.finish_write([key for key, (error, _) in room.items() if error == L1Error.SUCCESS], **tag)
    return found


def happenings(requests, step_ms):
    """What happens in the process, in order: times, and requests that begin or end. One after another, where no step is given;
    else a request begins with the first step at its time or later, and is over just before the one behind its last token's."""
    for at, request in enumerate(requests):
        begin = -(-request.time_ms // step_ms) * step_ms if step_ms else request.time_ms
        end = begin + max(request.output_length, 1) * step_ms - 1 if step_ms else begin
        # Arrivals come first at one moment, but where one request ends before the next begins.
        yield begin, at if step_ms is None else -1, at, True
        yield end, at, at, False


def drive_process(requests, settings, capacity):
    """Pages each request found in the process, in order."""
    chunk_pages = settings["chunk_tokens"] // requests[0].page_size
    size = capacity // chunk_pages * OBJECT_BYTES
    memory = L1MemoryManagerConfig(size_in_bytes=size, use_lazy=False, align_bytes=OBJECT_BYTES, shm_name="")
    manager = L1Manager(L1ManagerConfig(memory_config=memory))
    batches = EvictionConfig("LRU", settings["watermark"], settings["eviction_ratio"])
    controller = eviction_controller.L1EvictionController(manager, batches)
    hits, looked = [], None
    order = sorted(happenings(requests, settings.get("step_ms")), key=lambda each: each[:2])
    for time_ms, _, at, begins in order:
        second = time_ms // 1000
        for _ in range(second if looked is None else looked, second):
            look(controller)
        looked = second if looked is None else max(looked, second)
        last_pages = requests[at].pages[chunk_pages - 1 :: chunk_pages]
        keys = [ObjectKey(page.to_bytes(8, "big"), "model", 0) for page in last_pages]
        if begins:
            hits.append(begin_in_process(manager, keys) * chunk_pages)
        else:
            manager.touch_keys(keys)
    return hits


def drive(requests, settings, capacity):
    """Pages each request found in the cache, in order."""
    if settings.get("process"):
        return drive_process(requests, settings, capacity)
    chunk_pages = settings["chunk_tokens"] // requests[0].page_size
    config = LMCacheEngineConfig.from_defaults(chunk_size=settings["chunk_tokens"], local_cpu=True)
    PinMonitor.GetOrCreate(config)
    chunks = capacity // chunk_pages
    allocator = MixedMemoryAllocator(chunks * OBJECT_BYTES)
    backend = LocalCPUBackend(config, memory_allocator=allocator)
    hits = []
    for together in steps(requests, settings.get("step_ms")):
        found = serve(backend, [chunk_keys(request, chunk_pages) for request in together])
        hits += [chunks * chunk_pages for chunks in found]
    if len(backend.hot_cache) > chunks:
        raise SystemExit(f"{len(backend.hot_cache)} chunks are held where {chunks} should fit")
    allocator.close()
    return hits
