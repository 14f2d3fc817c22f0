"""vLLM with LMCache below it, one request at a time or, where the settings say how long a step takes, requests that overlap: vLLM's own Scheduler as in drive_vllm.py, and LMCache's own connector
on its two sides, the scheduler's and the worker's, with its cache engine, storage manager and LocalCPUBackend.

What stands in: LMCache's own mock of the copies between accelerator and memory, and a lookup that calls the cache engine
instead of writing to its socket, since both sides are one process.
"""

import os

os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")

import logging
from importlib.metadata import version
from types import SimpleNamespace

import drive_vllm

logging.disable(logging.WARNING)

import torch
from lmcache.integration.vllm import vllm_v1_adapter
from lmcache.integration.vllm.utils import ENGINE_NAME
from lmcache.integration.vllm.vllm_service_factory import VllmServiceFactory
from lmcache.v1.cache_engine import LMCacheEngineBuilder
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.gpu_connector.mock_gpu_connector import MockGPUConnector
from lmcache.v1.lookup_client.lmcache_lookup_client_bypass import LMCacheBypassLookupClient
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.lmcache_connector import LMCacheConnectorV1

VERSION = f"{drive_vllm.VERSION}+{version('lmcache')}"


class Lookup(LMCacheBypassLookupClient):
    """Asks the cache engine of this process."""

    def lookup_cache(self, lookup_id):
        # Nothing has been asked for this request; one is asked once.
        return -1


class Services(VllmServiceFactory):
    """One cache engine for both sides, and no servers."""

    def get_or_create_lmcache_engine(self):
        metadata = self.get_or_create_metadata()
        self.lmcache_engine = LMCacheEngineBuilder.get(ENGINE_NAME)
        if self.role == "worker":
            copies = MockGPUConnector(metadata.kv_shape)
            alone = (lambda tensor, source: tensor, lambda value, source: value)
            self.lmcache_engine = LMCacheEngineBuilder.get_or_create(
                ENGINE_NAME, self.lmcache_config, metadata, copies, *alone
            )
        return self.lmcache_engine

    def maybe_create_lookup_client(self):
        if self.role == "worker":
            return None
        return Lookup(self.lmcache_config, self.metadata, self.lmcache_engine)

    def nothing(self, *_, **__):
        return None

    maybe_create_lookup_server = nothing
    maybe_create_offload_server = nothing
    maybe_create_runtime_plugin_launcher = nothing
    maybe_create_internal_api_server = nothing
    maybe_create_health_monitor = nothing


class Connector(LMCacheConnectorV1):
    """LMCache's connector, which notes what the engine and what LMCache had of each request, in tokens."""

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config, role, kv_cache_config)
        self.found = {}

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        answer = super().get_num_new_matched_tokens(request, num_computed_tokens)
        in_lmcache = self._lmcache_engine.load_specs[request.request_id].lmcache_cached_tokens
        # One that was preempted comes again.
        self.found.setdefault(request.request_id, (num_computed_tokens, in_lmcache))
        return answer


def chunk_bytes(config, settings):
    """Bytes of a chunk of the small model's keys and values."""
    model = config.model_config
    heads = model.get_num_kv_heads(config.parallel_config) * model.get_head_size()
    layers = model.get_num_layers(config.parallel_config)
    return 2 * layers * settings["chunk_tokens"] * heads * model.dtype.itemsize


def worker_of(config, pool):
    """The worker's side, which does in a step what vLLM's model runner asks of it."""
    worker = LMCacheConnectorV1(config, KVConnectorRole.WORKER, pool)
    worker.register_kv_caches({"layer0": torch.empty(0)})
    step_context = SimpleNamespace(attn_metadata={})

    def work(step):
        worker.bind_connector_metadata(step.kv_connector_metadata)
        worker.start_load_kv(step_context)
        worker.wait_for_save()
        worker.clear_connector_metadata()

    return worker, work


def drive(requests, settings, capacity):
    """Pages each request found in vLLM's cache, and those that only LMCache had, in order."""
    page_size = requests[0].page_size
    hasher = drive_vllm.block_hasher(page_size)
    transfer = KVTransferConfig(kv_connector="Connector", kv_connector_module_path=__name__, kv_role="kv_both")
    config, pool = drive_vllm.configuration(settings, page_size, capacity, transfer)
    chunks = settings["below_pages"] * page_size // settings["chunk_tokens"]
    gigabytes = chunks * chunk_bytes(config, settings) / 2**30
    cache = LMCacheEngineConfig.from_defaults(
        chunk_size=settings["chunk_tokens"], local_cpu=True, max_local_cpu_size=gigabytes
    )
    vllm_v1_adapter.lmcache_get_or_create_config = lambda: cache
    vllm_v1_adapter.VllmServiceFactory = Services
    vllm_v1_adapter.get_pp_group = lambda: SimpleNamespace(is_last_rank=True)
    # First the worker, for it makes the cache engine.
    worker, work = worker_of(config, pool)
    engine = drive_vllm.scheduler(config, pool, page_size)
    cached = settings["outputs"] == "cached"
    if "step_ms" in settings:
        drive_vllm.serve_together(engine, requests, cached, hasher, settings["step_ms"], work)
    else:
        for at, request in enumerate(requests):
            drive_vllm.serve(engine, request, cached, hasher, str(at), work)
    hits, below = [], []
    for at in range(len(requests)):
        in_engine, in_lmcache = engine.connector.found[str(at)]
        hits.append(in_engine // page_size)
        below.append(max(in_lmcache - in_engine, 0) // page_size)
    backend = worker._lmcache_engine.lmcache_engine.storage_manager.storage_backends["LocalCPUBackend"]
    print(f"{capacity} blocks over {chunks} chunks, of which LMCache holds {len(backend.hot_cache)}", flush=True)
    if len(backend.hot_cache) > chunks:
        raise SystemExit(f"{len(backend.hot_cache)} chunks are held where {chunks} should fit")
    LMCacheEngineBuilder.destroy(ENGINE_NAME)
    return hits, below
