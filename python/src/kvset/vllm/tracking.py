"""What the scheduler does with a request, from its look-up to its finish. Everything here runs on the scheduler's thread."""

from dataclasses import dataclass
from typing import Any

from .clock import EventClock
from .settings import Settings

# Requests that are followed at a time: far above any engine's limit of sequences.
MOST_FOLLOWED = 1 << 20


@dataclass(slots=True)
class Followed:
    """A request that was looked up and has not finished."""

    lookup_ms: int
    queue_ms: int
    """From its arrival to its look-up."""
    own_tokens: int
    """Prompt tokens found in the engine's own cache."""
    below_tokens: int = 0
    """Prompt tokens that another connector brings from a tier below, or from the worker that prefilled them."""
    is_admitted: bool = False


@dataclass(slots=True)
class Finished:
    """What one event is made of. Holds the engine's own list of hashes, which grows no more, and no token."""

    block_hashes: list[bytes]
    prompt_tokens: int
    output_tokens: int
    followed: Followed
    finish_ms: int
    complete_before: int
    """The earliest look-up among those that have not finished: what was looked up before has its event."""
    tenant: str | None
    """Who asked, in clear; it leaves the process as a hash only."""
    request_id: str | None

    @property
    def bytes(self) -> int:
        """Memory it keeps from being freed, about: a hash of 32 bytes, its object and its place in the list."""
        return 1024 + 80 * len(self.block_hashes)


class Tracker:
    """Follows requests through the calls that a connector gets."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = EventClock()
        self._followed: dict[str, Followed] = {}

    def looked_up(self, request: Any, own_tokens: int, seconds: float) -> None:
        """The scheduler looked a request up, at `seconds` since the epoch.

        It does so again while there is no room for it, and after it was preempted: the look-up that admitted it counts.
        """
        followed = self._followed.get(request.request_id)
        if followed is not None and followed.is_admitted:
            return
        if followed is None and len(self._followed) >= MOST_FOLLOWED:
            raise OverflowError("more requests are followed than an engine can run")
        # Those that are followed stay in the order of their look-ups.
        self._followed.pop(request.request_id, None)
        queue_ms = max(0, int((seconds - request.arrival_time) * 1000))
        self._followed[request.request_id] = Followed(self._clock.looked_up(seconds), queue_ms, own_tokens)

    def admitted(self, request: Any, below_tokens: int) -> None:
        """The scheduler gave a request its blocks."""
        followed = self._followed.get(request.request_id)
        if followed is None or followed.is_admitted:
            return
        followed.is_admitted = True
        followed.below_tokens = below_tokens
        # What the engine itself will report. It knows of hits within a block, and of other connectors' hits.
        stats = getattr(request, "prefill_stats", None)
        if stats is not None and getattr(request, "num_preemptions", 0) == 0:
            followed.own_tokens = stats.num_local_cached_tokens
            followed.below_tokens = stats.num_external_cached_tokens

    def finished(self, request: Any, seconds: float) -> Finished | None:
        """The scheduler is done with a request; nothing where it never had a place in the cache."""
        followed = self._followed.pop(request.request_id, None)
        if followed is None or not followed.is_admitted:
            return None
        finish_ms = self._clock.finished(seconds)
        earliest = next(iter(self._followed.values()), None)
        return Finished(
            block_hashes=request.block_hashes,
            prompt_tokens=request.num_prompt_tokens,
            output_tokens=request.num_output_tokens,
            followed=followed,
            finish_ms=finish_ms,
            complete_before=finish_ms if earliest is None else earliest.lookup_ms,
            tenant=self._tenant(request),
            request_id=request.request_id if self._settings.request_ids else None,
        )

    def _tenant(self, request: Any) -> str | None:
        source = self._settings.tenant
        if source is None:
            return None
        if source == "cache_salt":
            named = request.cache_salt
        else:
            extra = getattr(request.sampling_params, "extra_args", None) or {}
            named = extra.get(source.partition(":")[2])
        return None if named is None else str(named)
