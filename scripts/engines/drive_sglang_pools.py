"""SGLang with a pool of its own for windows: its own UnifiedRadixCache with the window's component, both allocators and the
split of memory between them, one request at a time, on the CPU.

The steps are those of its scheduler, each by the engine's own function: `init_next_round_input` matches, `PrefillAdder`
admits and cuts the prompt into chunks, `checkpoint_kv_cache` inserts after each of them, `maybe_evict_swa` gives back what a
window has passed before each token, `release_kv_cache` at the end. The tensors of keys and values do not exist.
"""

import torch
from drive_hicache import STEP, DevicePool, attach
from drive_hicache import split as host_split
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.managers.schedule_policy import PrefillAdder
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.common import checkpoint_kv_cache
from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.model_executor.pool_configurator import HybridSWAPoolConfigurator
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang_steps import MAX_CONTEXT, answer, begin, decode, nothing, prefill


class WindowPool(DevicePool, BaseSWAKVPool):
    """Stands for the tensors of both pools: the indices that lead from one to the other, and nothing behind them."""

    def __init__(self):
        self.full_to_swa_index_mapping = None

    def register_mapping(self, full_to_swa_index_mapping):
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices):
        return self.full_to_swa_index_mapping[kv_indices]


# The methods left out move tensors.
WindowPool.__abstractmethods__ = frozenset()


def split(blocks, page_size, groups, window, ratio):
    """Tokens of the full pool and of the window's, by the engine's own rule, in the memory of so many blocks of one group."""
    rule = object.__new__(HybridSWAPoolConfigurator)
    rule._full_layers_num = groups.count("full")
    rule._swa_layers_num = len(groups) - rule._full_layers_num
    rule._draft_full_layers_num = rule._draft_swa_layers_num = rule._draft_swa_full_layers_num = 0
    rule._draft_cell_size = 0
    rule._fused_full_entry = rule._fused_swa_entry = None
    rule._full_per_token = rule._swa_per_token = 1
    rule._swa_full_tokens_ratio = ratio
    rule._sliding_window_size = window
    rule._page_size = page_size
    rule._enable_unified_memory = False
    rule._recompute_cell_size()
    sizes = rule.calculate_pool_sizes(blocks * page_size, page_size)
    return sizes.full_max_total_num_tokens, sizes.swa_max_total_num_tokens


def tree_of(rows, allocator, settings, component, server_args, host_pools, **told):
    """A tree over the pool of full attention and another one, and over these pools of a host, where there are any."""
    params = CacheInitParams(
        disable=False,
        req_to_token_pool=rows,
        token_to_kv_pool_allocator=allocator,
        page_size=allocator.page_size,
        chunked_prefill_size=settings["prefill_chunk_tokens"],
        tree_components=(ComponentType.FULL, component),
        **told,
    )
    tree = UnifiedRadixCache(params)
    return attach(tree, params, server_args, host_pools) if host_pools else tree


def cache(page_size, blocks, settings, server_args, host_blocks=None):
    """A tree over a full pool and a window's in the memory of so many blocks, and with HiCache in that of the host."""
    [kind] = {group for group in settings["groups"] if group != "full"}
    # Models give the tokens before the one that looks.
    window = int(kind.removeprefix("window:")) - 1
    full, own = split(blocks, page_size, settings["groups"], window, settings["swa_full_tokens_ratio"])
    rows = ReqToTokenPool(size=1, max_context_len=MAX_CONTEXT, device="cpu", enable_memory_saver=False)
    allocator = SWATokenToKVPoolAllocator(
        size=full,
        size_swa=own,
        page_size=page_size,
        dtype=torch.float16,
        device="cpu",
        kvcache=WindowPool(),
        need_sort=False,
    )
    host_pools = {}
    if host_blocks is not None:
        layers = {PoolName.KV: settings["groups"].count("full"), PoolName.SWA: settings["groups"].count(kind)}
        # Both pools have a page more than they use.
        sizes = {PoolName.KV: full + page_size, PoolName.SWA: own + page_size}
        pools = [(name, page_size, layers[name], layers[name] * sizes[name]) for name in sizes]
        host_pools = host_split(host_blocks, page_size, pools)
        told = [full // page_size, own // page_size] + [pool.page_num for pool in host_pools.values()]
        print("{} and {} pages, on the host {} and {}".format(*told), flush=True)
    return tree_of(rows, allocator, settings, ComponentType.SWA, server_args, host_pools, sliding_window_size=window)


def adder(tree, chunk):
    return PrefillAdder(
        page_size=tree.page_size,
        tree_cache=tree,
        token_to_kv_pool_allocator=tree.token_to_kv_pool_allocator,
        running_batch=None,
        new_token_ratio=1.0,
        rem_input_tokens=MAX_CONTEXT,
        rem_chunk_tokens=chunk,
    )


def prefill_in_chunks(tree, req, chunk, run, begins=nothing, ends=nothing):
    """Admits a request, and computes its prompt a chunk at a time, each in a step that `run` takes pages in; what else a step
    begins and ends with is given."""
    first = adder(tree, chunk)
    first.add_one_req(req, has_chunked_req=False, truncation_align_size=None)
    if first.can_run_list != [req]:
        raise SystemExit("a request does not fit: give it a larger capacity")
    tree.ready_to_load_host_cache()
    run(tree, req)
    while req.extend_end < len(req.full_untruncated_fill_ids):
        ends(tree)
        begins(tree)
        checkpoint_kv_cache(req, tree)
        req.init_next_round_input()
        again = adder(tree, chunk)
        again.add_chunked_req(req)
        if again.can_run_list != [req]:
            raise SystemExit("a chunk does not fit: give it a larger capacity")
        run(tree, req)


def step(tree, req):
    """One token more: first what the window has passed goes back."""
    batch = object.__new__(ScheduleBatch)
    batch.reqs, batch.tree_cache = [req], tree
    batch.token_to_kv_pool_allocator = tree.token_to_kv_pool_allocator
    batch.forward_mode, batch.forward_iter = ForwardMode.DECODE, None
    batch.maybe_evict_swa()
    decode(tree, req)
    req.decode_batch_idx += 1


def serve(tree, request, settings, name, run=prefill, step=step):
    """Serves one request to its end; pages found in the cache, and with HiCache those that came from the host."""
    req, wanted = begin(request, settings["outputs"] == "cached", name)
    around = STEP if "write" in settings else (nothing, nothing)
    around[0](tree)
    req.init_next_round_input(tree)
    found, is_wanted = req.prefix_len, req.needs_host_load_back()
    prefill_in_chunks(tree, req, settings["prefill_chunk_tokens"], run, *around)
    if is_wanted and not req.host_loaded_length:
        raise SystemExit("nothing was loaded back of what the host has: the model leaves that out")
    loaded = req.host_loaded_length
    answer(tree, req, wanted, request.answer, step, *around)
    pages = request.page_size
    return (found // pages, loaded // pages) if "write" in settings else found // pages


def policy(settings):
    """What the engine is told of its host tier, where it has one."""
    return {"hicache_write_policy": settings["write"]} if "write" in settings else {}


def drive(requests, settings, capacity):
    """Pages each request found in the cache, in order; with HiCache, whose capacity comes along, pairs of those on the device
    and those from the host."""
    blocks, *host = capacity if isinstance(capacity, tuple) else (capacity,)
    told = ServerArgs(model_path="none", device="cpu", **policy(settings))
    set_global_server_args_for_scheduler(told)
    tree = cache(requests[0].page_size, blocks, settings, told, *host)
    with torch.inference_mode():
        return [serve(tree, request, settings, str(at)) for at, request in enumerate(requests)]
