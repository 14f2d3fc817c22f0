"""SGLang's HiCache: its own UnifiedRadixCache with its own cache controller and host pool, on the CPU; one request at a time, or,
where the settings say how long a step takes, requests that overlap.

The steps are those of its scheduler, each by the engine's own function: `check_hicache_events` first in every step,
`init_next_round_input` matches, `PrefillAdder.add_one_req` admits, loads back and pins, `ready_to_load_host_cache`
starts the load, then pages are taken and given as in `drive_sglang`, and `flush_pending_backups` ends the step. The
tensors of keys and values do not exist on either side: copies between them are done as soon as they are asked for.
"""

from types import SimpleNamespace

import torch
from sglang.srt.managers.schedule_policy import PrefillAdder
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.hybrid_cache import hybrid_pool_assembler as assembler
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.l2_transfer import TransferCompletion
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.pool_host import HostPoolGroup
from sglang.srt.mem_cache.pool_host.base import HostKVCache
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.runtime_context import get_memory
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang_steps import MAX_CONTEXT, allocator_of, answer, begin, decode, prefill, serve_together


class Done:
    """An event that has happened."""

    def query(self):
        return True

    def synchronize(self):
        pass

    def record(self, stream=None):
        pass

    def wait(self, stream=None):
        pass


class DevicePool:
    """Stands for the tensors of keys and values on the device."""

    device = torch.device("cpu")
    layer_num = 1

    def host_pool_decls(self):
        return []

    def register_layer_transfer_counter(self, counter):
        pass


class HostPool(HostKVCache):
    """The engine's host pool, its slots and no tensors behind them: so many pages, or those that so many GB hold."""

    def __init__(self, page_size, pages=1, gigabytes=0, bytes_per_token=1):
        super().__init__(
            dtype=torch.float16,
            # The engine adds a page to what it is asked for.
            device_capacity_tokens=(pages - 1) * page_size,
            size_per_token=bytes_per_token,
            start_layer=0,
            end_layer=0,
            host_to_device_ratio=1.0,
            host_size=gigabytes,
            page_size=page_size,
            layout="layer_first",
            pin_memory=False,
            device="cpu",
            is_dummy=True,
        )

    def get_size_per_token(self):
        return self.size_per_token

    def init_kv_buffer(self):
        return None

    def load_to_device_per_layer(self, *_):
        pass

    def backup_from_device_all_layer(self, *_):
        pass

    def get_data_page(self, *_):
        raise NotImplementedError

    def get_dummy_flat_data_page(self):
        raise NotImplementedError

    def set_from_flat_data_page(self, *_):
        raise NotImplementedError


class Copies:
    """Copies between device and host that are done at once."""

    def submit_device_to_host(self, _):
        return TransferCompletion(Done(), Done(), False)

    def submit_host_to_device(self, _, *, transfer_layer_id_max, start_event=None, on_layer_done=None):
        return TransferCompletion(Done(), Done(), False)


def split(blocks, page_size, pools):
    """The host pools of so many blocks of one group's layers, by the engine's own rule. Each is named, with its page, the bytes of
    a token of it and those of the device's pool; a byte holds a token of one group's layers."""
    # The engine counts in GB.
    gigabytes = blocks * page_size / 1e9
    sizes = [SimpleNamespace(get_kv_size_bytes=lambda size=size: size) for _, _, _, size in pools]
    shares = assembler._split_hicache_size(gigabytes, tuple(sizes))
    return {name: HostPool(page, gigabytes=share, bytes_per_token=each) for (name, page, each, _), share in zip(pools, shares)}


class Stack(assembler.StackStrategy):
    """The engine's controller over these host pools; registered as the engine lets forks do it."""

    host_pools = {}

    def matches(self, kvcache, components):
        return isinstance(kvcache, DevicePool)

    def entries(self, cache, kvcache, params):
        """Each host pool with the device's, and how both make room, as the engine's own strategies have it."""
        mamba = getattr(params.req_to_token_pool, "mamba_allocator", None)
        windows = getattr(params.token_to_kv_pool_allocator, "swa_attn_allocator", None)
        ways = {
            PoolName.MAMBA: (ComponentType.MAMBA, mamba, assembler._evict_mamba_for_device_alloc),
            PoolName.SWA: (ComponentType.SWA, windows, assembler._evict_swa_for_device_alloc),
        }
        for name, host_pool in self.host_pools.items():
            told = {"is_anchor": name == PoolName.KV}
            if name in ways:
                component, allocator, evict = ways[name]
                told |= {
                    "host_evict_fn": lambda n, component=component: cache.evict_host(n, component),
                    "device_evict_fn": lambda n, evict=evict: evict(cache, n),
                    "device_alloc_fn": allocator.alloc,
                    "device_free_fn": allocator.free,
                }
            yield assembler.build_pool_entry(
                name=name, host_pool=host_pool, device_pool=kvcache, layer_mapping={0: 0}, transfer_layer_id_max=1, **told
            )

    def build(self, *, cache, kvcache, params, load_cache_event, **_):
        group = HostPoolGroup(list(self.entries(cache, kvcache, params)))
        controller = HybridCacheController(
            params.token_to_kv_pool_allocator,
            group,
            params.page_size,
            params.tp_cache_group,
            load_cache_event=load_cache_event,
            write_policy=get_memory().hicache_write_policy,
            io_backend="direct",
            transfer_layer_id_max=1,
        )
        controller.l2_transfer_engine = Copies()
        components = {PoolName.KV: ComponentType.FULL, PoolName.MAMBA: ComponentType.MAMBA, PoolName.SWA: ComponentType.SWA}
        return assembler.StackBuildResult(
            host_pool_group=group,
            cache_controller=controller,
            component_host_pools={components[name]: group.get_pool(name) for name in self.host_pools},
            pools_desc=" + ".join(self.host_pools),
        )


STACK = Stack()
assembler.register_stack_strategy(STACK)

# What else a step of the scheduler begins and ends with.
STEP = (UnifiedRadixCache.check_hicache_events, UnifiedRadixCache.flush_pending_backups)


def attach(tree, params, server_args, host_pools):
    """Puts host pools under a tree."""
    STACK.host_pools = host_pools
    tree.init_hicache(server_args, params)
    return tree


def cache(server_args, page_size, device_pages, host_pages, requests=1):
    """A tree over so many usable pages of the device and of the host, for so many requests in flight."""
    rows = ReqToTokenPool(size=requests, max_context_len=MAX_CONTEXT, device="cpu", enable_memory_saver=False)
    allocator = allocator_of(device_pages * page_size, page_size, DevicePool())
    params = CacheInitParams(
        disable=False,
        req_to_token_pool=rows,
        token_to_kv_pool_allocator=allocator,
        page_size=page_size,
        tree_components=(ComponentType.FULL,),
    )
    return attach(UnifiedRadixCache(params), params, server_args, {PoolName.KV: HostPool(page_size, host_pages)})


def admit(tree, req):
    """Lets the scheduler's own adder load back what the host has, and pin the request's prefix."""
    adder = PrefillAdder(
        page_size=tree.page_size,
        tree_cache=tree,
        token_to_kv_pool_allocator=tree.token_to_kv_pool_allocator,
        running_batch=None,
        new_token_ratio=1.0,
        rem_input_tokens=MAX_CONTEXT,
        rem_chunk_tokens=None,
    )
    adder.add_one_req(req, has_chunked_req=False, truncation_align_size=None)
    if adder.can_run_list != [req]:
        raise SystemExit("a request does not fit: give it a larger capacity")


def load_and_prefill(tree, req):
    """Matches a request, loads back what the host has of it and takes pages for the rest of its prompt; tokens found on the
    device, and those loaded back."""
    req.init_next_round_input(tree)
    found = req.prefix_len
    admit(tree, req)
    tree.ready_to_load_host_cache()
    prefill(tree, req)
    return found, req.host_loaded_length


def serve(tree, request, outputs_cached, name):
    """Serves one request to its end; pages found on the device, and pages loaded back from the host."""
    req, wanted = begin(request, outputs_cached, name)
    tree.check_hicache_events()
    found, loaded = load_and_prefill(tree, req)
    answer(tree, req, wanted, request.answer, decode, *STEP)
    return found // request.page_size, loaded // request.page_size


def drive(requests, settings, capacity):
    """Pages each request found on the device and on the host, in order; `capacity` are the pages of both."""
    device_pages, host_pages = capacity
    server_args = ServerArgs(model_path="none", device="cpu", hicache_write_policy=settings["write"])
    set_global_server_args_for_scheduler(server_args)
    step_ms, page_size = settings.get("step_ms"), requests[0].page_size
    tree = cache(server_args, page_size, device_pages, host_pages, len(requests) if step_ms else 1)
    cached = settings["outputs"] == "cached"
    with torch.inference_mode():
        if step_ms:
            found = serve_together(tree, requests, cached, step_ms, load_and_prefill, *STEP)
            return [(device // page_size, host // page_size) for device, host in found]
        return [serve(tree, request, cached, str(at)) for at, request in enumerate(requests)]
