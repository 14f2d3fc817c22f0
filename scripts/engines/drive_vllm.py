"""vLLM: its own Scheduler and KVCacheManager, without an accelerator; one request at a time, or, where the settings say how long a
step takes, requests that overlap.

Nothing of the scheduler, the managers, the coordinator or the block pool is replaced. What stands in for the model is
a config.json of a small one (written here) and `ModelRunnerOutput`s with one sampled token a step.
"""

import json
import os
import tempfile

import fixture

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import vllm
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
)
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request as EngineRequest
from vllm.v1.structured_output import StructuredOutputManager

VERSION = vllm.__version__
MAX_MODEL_LEN = 65_536
DEFAULT_CHUNK = 8_192
MOST_IN_FLIGHT = 600
# Steps in a row in which nothing is computed: what a connector loads takes one.
MOST_IDLE = 9

# Smallest model whose configuration vLLM reads; no weights are loaded.
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": MAX_MODEL_LEN,
    "vocab_size": 1024,
    "torch_dtype": "float16",
}


def group(kind, block_size, at, marked):
    """A cache group: `full`, `window:TOKENS` or `mamba`; one of a kind that is `marked` has layers of a draft head."""
    attention = {"block_size": block_size, "num_kv_heads": 1, "head_size": 64, "dtype": torch.float16}
    if kind == "full":
        spec = FullAttentionSpec(**attention)
    elif kind.startswith("window:"):
        spec = SlidingWindowSpec(**attention, sliding_window=int(kind.removeprefix("window:")))
    else:
        # Shapes of no consequence: the manager counts blocks.
        spec = MambaSpec(
            block_size=block_size, shapes=((4, 4),), dtypes=(torch.float16,), mamba_cache_mode="align"
        )
    return KVCacheGroupSpec([f"layer{at}"], spec, is_eagle_group=kind.split(":")[0] in marked)


def drafting(folder, model, draft_tokens):
    """A head that drafts in the same cache, and no hashes of the tokens behind a block in its place."""
    return SpeculativeConfig(
        method="eagle",
        model=folder,
        num_speculative_tokens=draft_tokens,
        target_model_config=model,
        target_parallel_config=ParallelConfig(),
        disable_lookahead_block_hashes=True,
    )


# Kinds of groups that hold layers of a draft head, by what a recording says of them.
MARKED = {"all": ("full", "window"), "full": ("full",), "windows": ("window",)}


def configuration(settings, page_size, capacity, connector=None):
    """What a scheduler over `capacity` usable blocks is told; vLLM's null block comes on top."""
    kinds = settings.get("groups", ["full"])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(MODEL, file)
        model = ModelConfig(model=folder, skip_tokenizer_init=True, dtype="float16", max_model_len=MAX_MODEL_LEN)
        draft_tokens = settings.get("draft_tokens", 0)
        draft = drafting(folder, model, draft_tokens) if draft_tokens else None
    cache = CacheConfig(block_size=page_size, enable_prefix_caching=True)
    if "retention" in settings:
        cache.prefix_cache_retention_interval = settings["retention"]
    if "mamba" in kinds:
        cache.mamba_cache_mode = "align"
    config = VllmConfig(
        model_config=model,
        cache_config=cache,
        device_config=DeviceConfig(device="cpu"),
        scheduler_config=SchedulerConfig(
            max_num_seqs=MOST_IN_FLIGHT if "step_ms" in settings else 1,
            max_num_batched_tokens=settings.get("prefill_chunk_tokens", DEFAULT_CHUNK),
            max_model_len=MAX_MODEL_LEN,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            async_scheduling=False,
        ),
        kv_transfer_config=connector,
        speculative_config=draft,
    )
    cache.num_gpu_blocks = capacity + 1
    marked = MARKED[settings.get("draft_layers", "all")] if draft_tokens else ()
    pool = KVCacheConfig(
        num_blocks=capacity + 1,
        kv_cache_tensors=[],
        kv_cache_groups=[group(kind, page_size, at, marked) for at, kind in enumerate(kinds)],
    )
    if "retention" in settings:
        pool.prefix_cache_retention_interval = settings["retention"]
    return config, pool


def scheduler(config, pool, page_size):
    """A scheduler that has seen nothing."""
    return Scheduler(
        vllm_config=config,
        kv_cache_config=pool,
        structured_output_manager=StructuredOutputManager(config),
        block_size=page_size,
    )


def engine_request(request, outputs_cached, hasher, name):
    """The request as the engine takes it."""
    params = SamplingParams(
        max_tokens=request.output_length if outputs_cached else 1, ignore_eos=True, temperature=0.0
    )
    params.update_from_generation_config({}, None)
    return EngineRequest(
        request_id=name,
        prompt_token_ids=request.prompt(),
        sampling_params=params,
        pooling_params=None,
        block_hasher=hasher,
    )


def serve(engine, request, outputs_cached, hasher, name, work=lambda step: None):
    """Serves one request to its end, each step with what `work` does beside the model; pages found in the cache."""
    asked = engine_request(request, outputs_cached, hasher, name)
    engine.add_request(asked)
    hits = None
    while name in engine.requests:
        step = engine.schedule()
        if not step.num_scheduled_tokens:
            raise SystemExit(f"request {name} does not fit: give it a larger capacity")
        for new in step.scheduled_new_reqs:
            hits = new.num_computed_tokens
        work(step)
        decoding = asked.num_computed_tokens >= asked.num_tokens
        sampled = [request.answer(asked.num_output_tokens)] if decoding else []
        engine.update_from_output(
            step,
            ModelRunnerOutput(req_ids=[name], req_id_to_index={name: 0}, sampled_token_ids=[sampled]),
        )
    return hits // request.page_size


def serve_together(engine, requests, outputs_cached, hasher, step_ms, work=lambda step: None):
    """Serves requests that overlap, each from the first step that begins at its time or later: a clock that goes on by
    `step_ms` a step, with what `work` does beside the model, stands in for the time that a model takes. Pages that each found as
    it was first scheduled, and the steps from its coming to its end, with those that it waited."""
    waiting = [(-(-request.time_ms // step_ms), str(at), request) for at, request in enumerate(requests)]
    served, hits, come, ended, at, most, preempted, idle = {}, {}, {}, {}, 0, 0, set(), 0
    while waiting or engine.requests:
        at = max(at, waiting[0][0]) if not engine.requests else at
        while waiting and waiting[0][0] <= at:
            come[waiting[0][1]] = waiting[0][0]
            _, name, request = waiting.pop(0)
            served[name] = (request, engine_request(request, outputs_cached, hasher, name))
            engine.add_request(served[name][1])
        step = engine.schedule()
        for new in step.scheduled_new_reqs:
            # One that was preempted comes again.
            hits.setdefault(new.req_id, new.num_computed_tokens // served[new.req_id][0].page_size)
        preempted |= step.preempted_req_ids or set()
        names = list(step.num_scheduled_tokens)
        idle = 0 if names else idle + 1
        if idle > MOST_IDLE:
            raise SystemExit("nothing can be scheduled: give a larger capacity")
        most = max(most, len(engine.running))
        connected = work(step)
        sampled = []
        for name in names:
            request, own = served[name]
            decoding = own.num_computed_tokens >= own.num_tokens
            sampled.append([request.answer(own.num_output_tokens)] if decoding else [])
        places = {name: place for place, name in enumerate(names)}
        engine.update_from_output(
            step,
            ModelRunnerOutput(
                req_ids=names,
                req_id_to_index=places,
                sampled_token_ids=sampled,
                kv_connector_output=connected,
            ),
        )
        at += 1
        ended |= {name: at for name in names if name not in engine.requests}
    print(f"at most {most} in flight, {len(preempted)} preempted", flush=True)
    names = [str(at) for at in range(len(requests))]
    return fixture.Lasting([hits[name] for name in names], [ended[name] - come[name] for name in names])


def block_hasher(page_size):
    """vLLM's own hashes of blocks."""
    init_none_hash(sha256)
    return get_request_block_hasher(page_size, sha256)


def drive(requests, settings, capacity):
    """Pages each request found in the cache, in order."""
    page_size = requests[0].page_size
    hasher = block_hasher(page_size)
    engine = scheduler(*configuration(settings, page_size, capacity), page_size)
    cached = settings["outputs"] == "cached"
    if "step_ms" in settings:
        lasting = serve_together(engine, requests, cached, hasher, settings["step_ms"])
        # A pool with groups of its own is modelled at each capacity by itself, which finds out who waits.
        return lasting.hits if "groups" in settings else lasting
    return [serve(engine, request, cached, hasher, str(at)) for at, request in enumerate(requests)]
