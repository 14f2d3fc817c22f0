"""What a replay answers, as `kvset replay --json` writes it.

Pages are the engine's blocks of `Trace.page_size` tokens; `bytes` fields are None where the bytes per token are not known.
Rates and shares lie between 0 and 1. Times are milliseconds. A field that the program leaves out is None, or empty.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _shown

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas


Status: TypeAlias = Literal["ready", "too_few", "beyond_bound"]
"""Whether there is a number to act on."""
Part: TypeAlias = Literal["capacities", "recommended", "required", "windows", "per_request"]
"""What there are tables of."""


@dataclass(frozen=True)
class Answer:
    """The answer in words, and the number in it."""

    sentences: tuple[str, ...] = ()
    target_ratio: float | None = None
    coverage: float | None = None
    status: Status | None = None
    pages: int | None = None
    """Recommended capacity; None unless the status is `ready`."""
    bytes: int | None = None
    beyond_bound: bool | None = None
    hit_rate: float | None = None
    hit_rate_tokens: float | None = None
    relative_prefill_throughput: float | None = None
    """How many times as fast as without a cache prefill is at that capacity."""


@dataclass(frozen=True)
class Trace:
    """What was read."""

    requests: int = 0
    warm_up_requests: int = 0
    page_accesses: int = 0
    prompt_tokens: int | None = None
    distinct_pages: int = 0
    page_size: int = 0
    """Tokens."""
    page_bytes: int | None = None
    rejected_rows: int = 0
    chain_violations: int = 0
    engine: str = ""
    sample_rate: float = 1.0


@dataclass(frozen=True)
class Theoretical:
    """What unlimited capacity would find."""

    page_hits: int = 0
    prefix_hits: int = 0
    page_hit_rate: float = 0.0
    prefix_hit_rate: float = 0.0
    hit_rate_tokens: float | None = None


@dataclass(frozen=True)
class CapacityInFlight:
    """Pages that requests in flight held at one capacity."""

    mean: float = 0.0
    p99: int = 0
    max: int = 0


@dataclass(frozen=True)
class Capacity:
    """What a cache of one capacity finds."""

    label: str = ""
    pages: int = 0
    bytes: int | None = None
    page_hits: int = 0
    prefix_hits: int = 0
    page_hit_rate: float = 0.0
    reuse_hit_rate: float = 0.0
    """Of the page accesses that unlimited capacity would have found."""
    prefix_hit_rate: float = 0.0
    hit_rate_tokens: float | None = None
    relative_prefill_throughput: float | None = None
    optimal_page_hits: int | None = None
    in_flight: CapacityInFlight | None = None


@dataclass(frozen=True)
class Coverage:
    """The smallest capacity that is enough for a share of the requests."""

    coverage: float = 0.0
    pages: int | None = None
    """None where more than the tracked pages are needed."""
    bytes: int | None = None
    tokens: int | None = None
    convergence: str | None = None
    beyond_bound: bool = False


@dataclass(frozen=True)
class Required:
    """What requests need at one target ratio."""

    target_ratio: float = 0.0
    """The share of its reusable prefix that a request must find."""
    requests: int = 0
    requests_with_reuse: int = 0
    mean_pages: float | None = None
    max_pages: int | None = None
    coverage: tuple[Coverage, ...] = ()


@dataclass(frozen=True)
class Recommendation:
    """A capacity to buy, or why there is none yet."""

    coverage: str = ""
    """Such as `p99`."""
    target_ratio: float = 0.0
    status: Status = "too_few"
    pages: int | None = None
    bytes: int | None = None
    required_pages: int | None = None
    hit_rate: float | None = None
    hit_rate_tokens: float | None = None
    why: str | None = None


@dataclass(frozen=True)
class InFlight:
    """What requests in flight held; `modelled` where the model serves requests that overlap as an engine does."""

    modelled: bool = False
    max_requests: int | None = None
    max_pages: int | None = None
    max_bytes: int | None = None
    mean_pages: float | None = None
    p99_pages: int | None = None


@dataclass(frozen=True)
class EffectiveCapacity:
    """The capacity that explains most of what the engine found."""

    pages_from: int = 0
    pages_to: int | None = None
    """None where there is no upper bound: nothing was missed."""
    bytes_from: int | None = None
    agreement: float = 0.0
    """Share of the requests that it explains."""
    agreement_by_pages: float | None = None


@dataclass(frozen=True)
class Loss:
    """Hits lost to one cause."""

    pages: int = 0
    tokens: int = 0
    share: float = 0.0
    """Of all page accesses."""
    relative_prefill_throughput: float | None = None


@dataclass(frozen=True)
class Ledger:
    """From the best case to what happened, in pages; each step down is lost to something."""

    page_accesses: int | None = None
    unlimited_pages: int = 0
    shared_pages: int | None = None
    routed_pages: int | None = None
    measured_pages: int = 0
    total_capacity_pages: int | None = None
    capacity_pages: int | None = None
    lost_to_capacity: Loss | None = None
    lost_to_routing: Loss | None = None
    lost_in_engine: Loss | None = None


@dataclass(frozen=True)
class Measured:
    """What the log's engine found, compared with the model."""

    requests: int = 0
    cached_pages: int = 0
    effective_capacity: EffectiveCapacity | None = None
    ledger: Ledger | None = None
    replicas: int = 0
    pages_beyond_log: int | None = None
    verdict: str | None = None
    in_words: str | None = None
    try_first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Window:
    """The requirement of one window of event time, or of so many requests."""

    kind: str = ""
    start_ms: int = 0
    end_ms: int = 0
    requests: int = 0
    coverage: tuple[Coverage, ...] = ()
    """At the first target ratio."""
    required: tuple[Required, ...] = ()
    recommended: tuple[Recommendation, ...] = ()
    in_flight: InFlight | None = None


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a replay. `raw` has everything the program wrote, what these types leave out too."""

    answer: Answer | None = None
    trace: Trace = Trace()
    theoretical: Theoretical = Theoretical()
    capacities: tuple[Capacity, ...] = ()
    recommended: tuple[Recommendation, ...] = ()
    required: tuple[Required, ...] = ()
    in_flight: InFlight | None = None
    windows: tuple[Window, ...] = ()
    measured: Measured | None = None
    notes: tuple[str, ...] = ()
    pool: str | None = None
    pools: tuple[Result, ...] = ()
    """Each model's own result where the log names several; the other fields then say what they have in common."""
    per_request: tuple[Mapping[str, Any], ...] | None = None
    """A row for each request, in the order of arrival, where the replay requested them."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Result:
        """Reads what `kvset replay --json` wrote of one engine."""
        result: Result = _read(cls, value)
        return result

    def __repr__(self) -> str:
        """One line: what was replayed, and the answer."""
        return f"<kvset.Result of {_shown.in_a_line(self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer, and what to buy by coverage."""
        return _shown.as_html(self)

    def to_pandas(self, part: Part = "capacities") -> pandas.DataFrame:
        """A table with a row for each capacity, recommendation, window, requirement (by target ratio and coverage), or request.

        A window's row has its requirement, a column for each coverage (`p99_pages`; with bytes per token `p99_bytes`), at the
        first target ratio. With several pools a column `pool` leads. Needs pandas.
        """
        import pandas

        if self.pools:
            frames = {result.pool: result.to_pandas(part) for result in self.pools}
            return pandas.concat(frames, names=["pool"]).reset_index("pool").reset_index(drop=True)
        return pandas.DataFrame(self._rows(part))

    def _rows(self, part: Part) -> list[dict[str, Any]]:
        if part == "required":
            return [
                {"target_ratio": required.target_ratio} | _flat(coverage)
                for required in self.required
                for coverage in required.coverage
            ]
        if part == "per_request":
            if self.per_request is None:
                raise ValueError("the replay kept no rows: replay with per_request=True")
            return [dict(row) for row in self.per_request]
        if part == "windows":
            return [_flat(window) | _requirement(window.coverage) for window in self.windows]
        if part not in typing.get_args(Part):
            raise ValueError(f"no part `{part}`: {', '.join(typing.get_args(Part))}")
        return [_flat(row) for row in getattr(self, part)]

    def plot(self, axes: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draws the hit rate by capacity, with what unlimited capacity would find and what is recommended. Needs matplotlib.

        The capacity axis is in GiB where the bytes per token are known, else in pages. Several results may share `axes` of
        one unit.
        """
        return _shown.plot(self, axes)


def _requirement(coverage: tuple[Coverage, ...]) -> dict[str, int | None]:
    """A column of pages for each coverage, and one of bytes where these are known."""
    pages = {f"p{100 * one.coverage:.10g}_pages": one.pages for one in coverage}
    in_bytes = {f"p{100 * one.coverage:.10g}_bytes": one.bytes for one in coverage}
    return pages | (in_bytes if any(size is not None for size in in_bytes.values()) else {})


def _flat(row: Any) -> dict[str, Any]:
    """The fields of a dataclass that are single values."""
    hints = typing.get_type_hints(type(row))
    return {item.name: getattr(row, item.name) for item in dataclasses.fields(row) if _is_single(hints[item.name])}


def _is_single(hint: Any) -> bool:
    return typing.get_origin(hint) is not tuple and not any(map(dataclasses.is_dataclass, (hint, *typing.get_args(hint))))


def _read(cls: Any, value: Mapping[str, Any]) -> Any:
    """A dataclass from a JSON object: what is absent keeps its default, what the class does not name is left out."""
    hints = typing.get_type_hints(cls)
    known = {item.name: _value(hints[item.name], value[item.name]) for item in dataclasses.fields(cls) if item.name in value}
    return cls(**known, raw=value) if cls is Result else cls(**known)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    if typing.get_origin(hint) is tuple:
        return tuple(_value(arguments[0], item) for item in value)
    if dataclasses.is_dataclass(hint):
        return _read(hint, value)
    if len(arguments) == 1:
        return _value(arguments[0], value)
    return value
