"""The connector that vLLM loads."""

import dataclasses
import functools
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)

from .events import encode, event_of
from .recorder import Recorder, Sink, reason_of
from .replicas import ClaimedName
from .settings import Settings
from .sinks import FileSink, KafkaSink
from .tracking import Finished, Tracker

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("vllm.kvset")

Method = TypeVar("Method", bound=Callable[..., Any])


class KvsetMetadata(KVConnectorMetadata):
    """Nothing: the workers have nothing to do."""


def guarded(answer: Any) -> Callable[[Method], Method]:
    """Has a method give `answer` where it fails: an error here must not reach the engine. It is counted, and logged once."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def call(self: "KvsetConnector", *arguments: Any, **named: Any) -> Any:
            try:
                return method(self, *arguments, **named)
            except Exception as error:  # noqa: BLE001
                self._note_fault(error)
                return answer

        return call  # type: ignore[return-value]

    return decorate


class KvsetConnector(KVConnectorBase_V1, SupportsHMA):
    """Looks at what the scheduler does, and writes a request event for each request. Matches, transfers and holds nothing.

    `kv_connector_extra_config` is documented in `settings.Settings`, and on the page docs/vllm.md. It is checked here, when the
    engine starts; from then on nothing is raised.
    """

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        self._faults = 0
        self._recorder: Recorder | None = None
        self._claimed: ClaimedName | None = None
        # Workers have no scheduler to look at.
        if role != KVConnectorRole.SCHEDULER:
            return
        settings = settings_of(vllm_config)
        page_size = hash_block_size(vllm_config, kv_cache_config)
        scheme = id_scheme(vllm_config, page_size)
        sinks: list[Sink] = []
        if settings.kafka is not None:
            sinks.append(KafkaSink(settings.kafka, settings.pool))
        # Last of what may be refused, so that no name is kept by a server that does not start.
        self._claimed = ClaimedName(settings.replica)
        if self._claimed.name != settings.replica:
            words = "kvset: a server on this host is replica %s already, so this one is %s; `replica` names each"
            logger.warning(words, settings.replica, self._claimed.name)
            settings = dataclasses.replace(settings, replica=self._claimed.name)
        if settings.file is not None:
            sinks.append(FileSink(settings.file, settings.replica))

        def encoded(finished: Finished) -> bytes:
            return encode(event_of(finished, settings, page_size, scheme))

        self._tracker = Tracker(settings)
        self._recorder = Recorder(encoded, sinks, settings.queue_bytes, logger)
        ids = f", ids of scheme {scheme}" if scheme else ""
        logger.info("kvset: %s; pages of %d tokens%s", settings.in_words(), page_size, ids)

    def _note_fault(self, error: Exception) -> None:
        self._faults += 1
        if self._faults == 1:
            logger.warning("kvset: a request event is lost, the engine goes on: %s", reason_of(error))

    def counts(self) -> dict[str, int]:
        """Events so far: `offered`, `written`, `dropped`; and `faults`, calls of the engine that this could not follow."""
        counts = self._recorder.counts() if self._recorder is not None else {}
        return counts | {"faults": self._faults}

    # What else the engine does stays as it is without this connector.

    @property
    def requires_kv_delivery(self) -> bool:
        """No: a preempted request has nothing to hand over."""
        return False

    @property
    def supports_divergent_local_hybrid_hits(self) -> bool:
        """Yes, so that another connector alongside, which does support them, still may: the engine asks for all."""
        return True

    # The scheduler's side.

    @guarded((0, False))
    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        self._tracker.looked_up(request, num_computed_tokens, time.time())
        return 0, False

    @guarded(None)
    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        self._tracker.admitted(request, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        return KvsetMetadata()

    @guarded((False, None))
    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        self._finished(request)
        return False, None

    @guarded((False, None))
    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        self._finished(request)
        return False, None

    def _finished(self, request: Any) -> None:
        finished = self._tracker.finished(request, time.time())
        if finished is not None and self._recorder is not None:
            self._recorder.offer(finished)

    @guarded(None)
    def shutdown(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
        if self._claimed is not None:
            self._claimed.release()

    # The workers' side: nothing to load, nothing to save.

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        return

    def wait_for_layer_load(self, layer_name: str) -> None:
        return

    def save_kv_layer(self, layer_name: str, kv_layer: "torch.Tensor", attn_metadata: Any, **kwargs: Any) -> None:
        return

    def wait_for_save(self) -> None:
        return


def settings_of(vllm_config: Any) -> Settings:
    """The settings of this replica; the model's served name is the pool where they name none."""
    transfer, model = vllm_config.kv_transfer_config, vllm_config.model_config
    served = model.served_model_name or model.model
    pool = served if isinstance(served, str) else served[0]
    return Settings.read(transfer.kv_connector_extra_config, pool, data_parallel_rank(vllm_config))


def data_parallel_rank(vllm_config: Any) -> int | None:
    """Which of several data-parallel engines this is, counted over all hosts; None where there is one.

    Engines of a dense model are independent: before it makes its connector each one sets its data-parallel size to 1,
    which leaves its index, and the end of the name that it has for transfers.
    """
    parallel, transfer = vllm_config.parallel_config, vllm_config.kv_transfer_config
    index = int(parallel.data_parallel_index)
    is_one_of_several = parallel.data_parallel_size > 1 or index > 0 or f"{transfer.engine_id}".endswith(f"_dp{index}")
    return index if is_one_of_several else None


def id_scheme(vllm_config: Any, page_size: int) -> str | None:
    """How the engine makes its page ids: `vllm:ALGORITHM:TOKENS`. None where it does not say its algorithm."""
    algorithm = getattr(getattr(vllm_config, "cache_config", None), "prefix_caching_hash_algo", None)
    return f"vllm:{algorithm}:{page_size}" if isinstance(algorithm, str) and algorithm else None


def hash_block_size(vllm_config: Any, kv_cache_config: Any) -> int:
    """Tokens that one of `Request.block_hashes` covers, as the engine itself works it out, for hybrid models too."""
    from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes

    return int(resolve_kv_cache_block_sizes(kv_cache_config, vllm_config)[1])
