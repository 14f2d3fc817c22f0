"""SGLang: its own UnifiedRadixCache, page allocator, request table and `Req`, on the CPU; one request at a time, or, where the
settings say how long a step takes, requests that overlap.

The steps are those of its scheduler, each by the engine's own function (`sglang_steps.py`). The scheduler process itself needs
an accelerator and a model; its order of these calls for a batch of one request is written out there, and that for a batch
that computes a token of each request in flight. The tensors of keys and values do not exist (`kvcache=None`).
"""

import logging

logging.disable(logging.WARNING)

import sglang
import torch
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang_steps import MAX_CONTEXT, allocator_of, answer, begin, decode, match_and_prefill, serve_together

VERSION = sglang.__version__


def cache(page_size, capacity, drafts=False, requests=1):
    """A tree over `capacity` usable pages, for so many requests in flight."""
    rows = ReqToTokenPool(size=requests, max_context_len=MAX_CONTEXT, device="cpu", enable_memory_saver=False)
    allocator = allocator_of(capacity * page_size, page_size)
    return UnifiedRadixCache(
        CacheInitParams(
            disable=False,
            req_to_token_pool=rows,
            token_to_kv_pool_allocator=allocator,
            page_size=page_size,
            is_eagle=drafts,
            tree_components=(ComponentType.FULL,),
        )
    )


def serve(tree, request, outputs_cached, name):
    """Serves one request to its end; pages found in the cache."""
    req, wanted = begin(request, outputs_cached, name)
    hits = match_and_prefill(tree, req)
    answer(tree, req, wanted, request.answer, decode)
    return hits // request.page_size


def drive(requests, settings, capacity):
    """Pages each request found in the cache, in order; with HiCache, those on the device and those on the host."""
    if "mamba" in settings.get("groups", []):
        import drive_sglang_states

        return drive_sglang_states.drive(requests, settings, capacity)
    if "groups" in settings:
        import drive_sglang_pools

        return drive_sglang_pools.drive(requests, settings, capacity)
    if "write" in settings:
        import drive_hicache

        return drive_hicache.drive(requests, settings, capacity)
    set_global_server_args_for_scheduler(ServerArgs(model_path="none", device="cpu"))
    together = "step_ms" in settings
    tree = cache(requests[0].page_size, capacity, "draft_tokens" in settings, len(requests) if together else 1)
    cached = settings["outputs"] == "cached"
    with torch.inference_mode():
        if together:
            found = serve_together(tree, requests, cached, settings["step_ms"])
            return [tokens // requests[0].page_size for tokens in found]
        return [serve(tree, request, cached, str(at)) for at, request in enumerate(requests)]
