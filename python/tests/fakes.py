"""Stand-ins for vLLM: base classes made of its recorded interface, requests, and a scheduler's calls."""

import abc
import enum
import json
import sys
import types
from pathlib import Path

INTERFACE = json.loads((Path(__file__).parent / "vllm_interface.json").read_text())
NEWEST = sorted(INTERFACE, key=lambda version: tuple(map(int, version.split("."))))[-1]


class Role(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


def base_class(name):
    """A class with the recorded abstract methods, so that what does not define them cannot be made."""
    recorded = INTERFACE[NEWEST]["classes"][name]
    body = {method: lambda self, *args, **kwargs: None for method in recorded["methods"] if method != "__init__"}
    for method in recorded["abstract"]:
        body[method] = abc.abstractmethod(lambda self, *args, **kwargs: None)
    if name == "KVConnectorBase_V1":
        body["__init__"] = lambda self, vllm_config, role, kv_cache_config: None
    return abc.ABCMeta(name, (), body)


def install():
    """Puts the stand-ins where the connector imports vLLM from."""
    names = "vllm vllm.distributed vllm.distributed.kv_transfer vllm.distributed.kv_transfer.kv_connector " \
        "vllm.distributed.kv_transfer.kv_connector.v1 vllm.distributed.kv_transfer.kv_connector.v1.base " \
        "vllm.v1 vllm.v1.core vllm.v1.core.kv_cache_utils"
    for name in names.split():
        sys.modules[name] = types.ModuleType(name)
    base = sys.modules["vllm.distributed.kv_transfer.kv_connector.v1.base"]
    base.KVConnectorBase_V1 = base_class("KVConnectorBase_V1")
    base.SupportsHMA = base_class("SupportsHMA")
    base.KVConnectorMetadata = type("KVConnectorMetadata", (abc.ABC,), {})
    base.KVConnectorRole = Role
    utils = sys.modules["vllm.v1.core.kv_cache_utils"]
    utils.resolve_kv_cache_block_sizes = lambda kv_cache_config, vllm_config: (16, 16)


def config(extra, served="org/model", ranks=1, rank=0, experts=False):
    """An engine core's configuration as it is when the connector is made, as far as the connector reads it.

    `rank` counts over all hosts. vLLM's `run_engine_core` gives each of several ranks an id of its own. Ranks of a model
    with experts are coordinated, and keep the size of all; one of a dense model reconfigures itself to be independent.
    """
    space = types.SimpleNamespace
    facts = INTERFACE[NEWEST]["data_parallel"]
    parallel = space(data_parallel_size=ranks, data_parallel_size_local=1, data_parallel_rank=rank, data_parallel_index=rank)
    if ranks == 1 or not experts:
        vars(parallel).update(facts["independent"])
    [suffix] = facts["suffixes"]
    return space(
        kv_transfer_config=space(
            kv_connector_extra_config=extra,
            engine_id="3e7c5a1e-55f3-4d4c-9d39-ce63b1f4a3d5" + (f"{suffix}{rank}" if ranks > 1 else ""),
        ),
        model_config=space(served_model_name=served, model="org/model"),
        cache_config=space(prefix_caching_hash_algo="sha256"),
        parallel_config=parallel,
    )


def digest(number, length=32):
    """A block hash."""
    return number.to_bytes(8, "little") + bytes([number % 251] * (length - 8))


class Request:
    """A request of the engine's, with the attributes that the connector reads and with what it must never write."""

    def __init__(self, name, prompt, hashes, salt=None, extra=None, arrival=0.0):
        self.request_id = name
        self.arrival_time = arrival
        self.num_prompt_tokens = prompt
        self.num_output_tokens = 0
        self.block_hashes = [digest(number) for number in hashes]
        self.cache_salt = salt
        self.sampling_params = types.SimpleNamespace(extra_args=extra)
        self.prompt_token_ids = [424242] * prompt
        self.num_preemptions = 0
        self.prefill_stats = types.SimpleNamespace(num_local_cached_tokens=0, num_external_cached_tokens=0)


def serve(connector, request, cached=0, below=0, outputs=1, hashes=()):
    """The calls of a request's whole life."""
    connector.get_num_new_matched_tokens(request, cached)
    request.prefill_stats.num_local_cached_tokens = cached
    request.prefill_stats.num_external_cached_tokens = below
    connector.update_state_after_alloc(request, None, below)
    finish(connector, request, outputs, hashes)


def finish(connector, request, outputs=1, hashes=()):
    request.num_output_tokens = outputs
    request.block_hashes += [digest(number) for number in hashes]
    return connector.request_finished_all_groups(request, ([1, 2],))
