"""vLLM with its own tier in host memory, one request at a time or, where the settings say how long a step takes, requests that
overlap: vLLM's own Scheduler as in drive_vllm.py, and its OffloadingConnector on its two sides, with its CPUOffloadingManager
and policies.

What stands in: the copies between device and host, which are done as soon as the connector submits them. Between two
requests the engine takes steps until no copy is left, as a live one does.
"""

from types import SimpleNamespace

import drive_vllm
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.v1.kv_cache_interface import KVCacheTensor
from vllm.v1.kv_offload.base import TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput

VERSION = drive_vllm.VERSION

# Bytes of a chunk of the tier, as large as chunks are aligned to.
CHUNK_BYTES = CPUOffloadingSpec.BLOCK_SIZE_ALIGNMENT


class Copies:
    """Copies between device and host that are done at once."""

    def __init__(self):
        self.done = []

    def submit_store(self, job_id, source, target):
        self.done.append(TransferResult(job_id=job_id, success=True))
        return True

    def submit_load(self, job_id, source, target, expedited=False):
        self.done.append(TransferResult(job_id=job_id, success=True))
        return True

    def get_finished(self):
        done, self.done = self.done, []
        return done

    def wait(self, jobs):
        pass

    def shutdown(self):
        pass


class Connector(OffloadingConnector):
    """vLLM's connector, which notes what the device and what the tier had of each request as it found room, in tokens."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.answers, self.found = {}, {}

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        answer = super().get_num_new_matched_tokens(request, num_computed_tokens)
        if answer[0] is not None:
            self.answers[request.request_id] = (num_computed_tokens, answer[0])
        return answer

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        super().update_state_after_alloc(request, blocks, num_external_tokens)
        # One that was preempted comes again.
        self.found.setdefault(request.request_id, self.answers[request.request_id])


def transfer(settings):
    """The settings of the connector."""
    chunks = settings["below_pages"] // settings["blocks_per_chunk"]
    extra = {"cpu_bytes_to_use": chunks * CHUNK_BYTES, "eviction_policy": settings["policy"]}
    extra["blocks_per_chunk"] = settings["blocks_per_chunk"]
    extra["store_threshold"] = settings["store_threshold"]
    return KVTransferConfig(
        kv_connector="Connector",
        kv_connector_module_path=__name__,
        kv_role="kv_both",
        kv_connector_extra_config=extra,
    )


def worker_of(config, pool):
    """The worker's side, and what vLLM's model runner asks of it in a step."""
    worker = OffloadingConnector(config, KVConnectorRole.WORKER, pool)
    worker.connector_worker.worker = Copies()

    def work(step):
        metadata = step.kv_connector_metadata
        worker.bind_connector_metadata(metadata)
        worker.handle_preemptions(metadata)
        worker.start_load_kv(SimpleNamespace())
        worker.wait_for_save()
        sent, received = worker.get_finished(step.finished_req_ids)
        worker.clear_connector_metadata()
        return KVConnectorOutput(
            finished_sending=sent or None,
            finished_recving=received or None,
            kv_connector_worker_meta=worker.build_connector_worker_meta(),
        )

    return work


def step(engine, work, sampled_of=lambda step: {}):
    """One step of the engine; the tokens that `sampled_of` says are sampled."""
    scheduled = engine.schedule()
    output = work(scheduled)
    sampled = sampled_of(scheduled)
    names = list(scheduled.num_scheduled_tokens)
    engine.update_from_output(
        scheduled,
        ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: at for at, name in enumerate(names)},
            sampled_token_ids=[sampled.get(name, []) for name in names],
            kv_connector_output=output,
        ),
    )


def serve(engine, request, cached, hasher, name, work):
    """Serves one request to its end, and waits for its copies."""
    asked = drive_vllm.engine_request(request, cached, hasher, name)
    engine.add_request(asked)

    def sampled_of(scheduled):
        ends = name in scheduled.num_scheduled_tokens and asked.num_computed_tokens >= asked.num_tokens
        return {name: [request.answer(asked.num_output_tokens)]} if ends else {}

    for _ in range(100_000):
        step(engine, work, sampled_of)
        if name not in engine.requests:
            break
    else:
        raise SystemExit(f"request {name} does not end: give it a larger capacity")
    # The end of a request reaches the connector in the next step, its last copies two later.
    step(engine, work)
    while engine.connector.has_pending_push_work():
        step(engine, work)


def drive(requests, settings, capacity):
    """Pages each request found in vLLM's cache, and after them in its tier, in order."""
    page_size = requests[0].page_size
    hasher = drive_vllm.block_hasher(page_size)
    config, pool = drive_vllm.configuration(settings, page_size, capacity, transfer(settings))
    # The layers of every group begin at the same byte, for a block is one group's at a time; a chunk of the tier holds a block
    # or more.
    block = CHUNK_BYTES // settings["blocks_per_chunk"]
    layers = [group.layer_names for group in pool.kv_cache_groups]
    pool.kv_cache_tensors = [
        KVCacheTensor(size=block * pool.num_blocks, layers=each, layer_stride=0, block_stride=block) for each in layers
    ]
    work = worker_of(config, pool)
    engine = drive_vllm.scheduler(config, pool, page_size)
    cached = settings["outputs"] == "cached"
    if "step_ms" in settings:
        drive_vllm.serve_together(engine, requests, cached, hasher, settings["step_ms"], work)
    else:
        for at, request in enumerate(requests):
            serve(engine, request, cached, hasher, str(at), work)
    hits, below = [], []
    for at in range(len(requests)):
        on_device, in_tier = engine.connector.found[str(at)]
        hits.append(on_device // page_size)
        below.append(in_tier // page_size)
    print(f"{capacity} blocks over {engine.connector.scheduler.manager._num_chunks} chunks", flush=True)
    engine.connector.shutdown()
    return hits, below
