"""SGLang with a pool of its own for states: its own UnifiedRadixCache with the component of states, its request table with
their slots, the split of memory between them, one request at a time, on the CPU.

The steps are those of its scheduler, each by the engine's own function: `init_next_round_input` matches and takes a slot for
the state that is found, `PrefillAdder` admits and cuts the prompt into chunks, `_mamba_radix_cache_v2_req_prepare_for_extend`
says which state a step keeps, `checkpoint_kv_cache` inserts after it, `_mamba_prefix_cache_update` keeps states of the answer,
`release_kv_cache` inserts at the end. The tensors of keys, values and states do not exist.
"""

from types import SimpleNamespace

import torch
from drive_hicache import DevicePool
from drive_hicache import split as host_split
from drive_sglang_pools import policy, serve, tree_of
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.kv_cache_configurator import KVCacheConfigurator
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.runtime_context import get_schedule
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang_steps import MAX_CONTEXT, allocator_of, decode, prefill


class States:
    """Stands for the tensors of states."""

    replayssm_write_pos = replayssm_spec_write_pos = None

    def __init__(self, size, **_):
        self.size = size


class Rows(HybridReqToTokenPool):
    mamba_pool_cls = States


class Split(KVCacheConfigurator):
    """The rule that splits the memory, of a model without a head that drafts."""

    def fused_entry_bytes(self, _):
        return None


def split(blocks, page_size, settings):
    """Pages of full attention and slots of states, by the engine's own rule, in the memory of so many blocks of one group."""
    groups = settings["groups"]
    full = groups.count("full")
    # A byte for a token of one group's layers.
    state = settings["state_tokens"] * (len(groups) - full)
    rule = object.__new__(Split)
    rule.mambaish_config = SimpleNamespace(mamba2_cache_params=SimpleNamespace(layers=[0], mamba_cache_per_req=state))
    rule.pp_size, rule.spec_algorithm, rule.extra_mamba_cache_bytes_per_req = 1, SpeculativeAlgorithm.NONE, 0
    # The engine counts in GiB.
    rest = rule._handle_max_mamba_cache(blocks * page_size / (1 << 30)) * (1 << 30)
    return round(rest) // full // page_size, get_schedule().max_mamba_cache_size


def cache(page_size, blocks, settings, server_args, host_blocks=None):
    """A tree over a full pool and one of states in the memory of so many blocks, and with HiCache in that of the host."""
    pages, states = split(blocks, page_size, settings)
    told = f"{pages} pages, {states} states"
    device_pool, host_pools = None, {}
    if host_blocks is not None:
        groups = settings["groups"]
        full = groups.count("full")
        state = settings["state_tokens"] * (len(groups) - full)
        # Both pools have a row more than they use.
        pools = [(PoolName.KV, page_size, full, full * (pages + 1) * page_size), (PoolName.MAMBA, 1, state, state * (states + 1))]
        device_pool, host_pools = DevicePool(), host_split(host_blocks, page_size, pools)
        told += f", on the host {host_pools[PoolName.KV].page_num} pages, {host_pools[PoolName.MAMBA].page_num} states"
    print(told, flush=True)
    rows = Rows(
        size=1,
        mamba_size=states,
        mamba_spec_state_size=1,
        max_context_len=MAX_CONTEXT,
        device="cpu",
        enable_memory_saver=False,
        cache_params=SimpleNamespace(dtype=SimpleNamespace(conv=torch.float32)),
        mamba_layer_ids=[0],
        enable_mamba_extra_buffer=True,
    )
    allocator = allocator_of(pages * page_size, page_size, device_pool)
    return tree_of(rows, allocator, settings, ComponentType.MAMBA, server_args, host_pools, enable_mamba_extra_buffer=True)


def batch_of(tree, req):
    """A batch of one request, as far as states need it."""
    batch = object.__new__(ScheduleBatch)
    batch.reqs, batch.tree_cache, batch.req_to_token_pool = [req], tree, tree.req_to_token_pool
    batch.model_config = SimpleNamespace(hf_text_config=SimpleNamespace())
    batch.spec_algorithm, batch.mamba_track_buffer_indices = SpeculativeAlgorithm.NONE, None
    return batch


def run(tree, req):
    """One step of a prompt: takes what it needs, and says which state is kept."""
    prefill(tree, req)
    batch_of(tree, req)._mamba_radix_cache_v2_req_prepare_for_extend(req)


def step(tree, req):
    """One token more, whose state is kept where it is the engine's turn."""
    decode(tree, req)
    req.decode_batch_idx += 1
    batch = batch_of(tree, req)
    batch.mamba_decode_batch_idx_cpu = [req.decode_batch_idx]
    results = object.__new__(SchedulerBatchResultProcessor)
    # It cannot be made without the rest of the scheduler, nor changed.
    object.__setattr__(results, "tree_cache", tree)
    results._mamba_prefix_cache_update(req, batch, None, 0)


def drive(requests, settings, capacity):
    """Pages each request found in the cache, in order; with HiCache, whose capacity comes along, pairs of those on the device
    and those from the host."""
    page_size = requests[0].page_size
    blocks, *host = capacity if isinstance(capacity, tuple) else (capacity,)
    told = ServerArgs(
        model_path="none",
        device="cpu",
        page_size=page_size,
        mamba_radix_cache_strategy="extra_buffer",
        mamba_full_memory_ratio=settings["mamba_full_memory_ratio"],
        # Each capacity is split anew.
        max_mamba_cache_size=None,
        **policy(settings),
    )
    # The grid of a model that says nothing of its own.
    told._mamba_cache_chunk_size = max(64, page_size)
    set_global_server_args_for_scheduler(told)
    tree = cache(page_size, blocks, settings, told, *host)
    with torch.inference_mode():
        return [serve(tree, request, settings, str(at), run, step) for at, request in enumerate(requests)]
