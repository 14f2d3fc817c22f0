"""`kvset.replay`: the program's `replay`, from Python."""

import contextlib
import dataclasses
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._program import ProgramError, run
from ._rows import Row, RowsFile, files_of, frame_rows
from .results import Result

if TYPE_CHECKING:
    import pandas

TracePath: TypeAlias = "str | os.PathLike[str]"
Traces: TypeAlias = "TracePath | Iterable[TracePath] | Iterable[Row] | pandas.DataFrame"
Engine: TypeAlias = Literal["paper", "leaf-first", "vllm", "sglang", "lmcache", "lmcache-mp", "mooncake", "trtllm"]
Outputs: TypeAlias = Literal["cached", "ignored"]


def replay(
    traces: Traces,
    *,
    engine: Engine = "paper",
    page_size: int | None = None,
    kv_bytes_per_token: float | None = None,
    model_config: str | os.PathLike[str] | None = None,
    capacities: Sequence[int | str] | int | str = (),
    provisioned: int | str | None = None,
    target_ratios: Sequence[float] | float = (),
    coverage: Sequence[float] | float = (),
    windows: Sequence[str] | str = (),
    routers: Sequence[str] | str = (),
    outputs: Outputs | None = None,
    overlap: bool | None = None,
    measured: bool = False,
    warm_up: int | str | None = None,
    min_requests: int | None = None,
    format: str | None = None,
    pool: str | None = None,
    per_request: bool = False,
    options: Sequence[str] | str = (),
) -> Result:
    """Sizes the KV cache for a log, as `kvset replay --json` does.

    traces: a path, several paths (of one log; `.zst` and `.gz` are opened as they are; a folder is the files in it), or rows.
        Rows are dicts of any format that a trace file may have, for example
        `{"timestamp": 0, "input_length": 1024, "hash_ids": [1, 2]}` (milliseconds, tokens), or request events; they are read
        once, so a generator will do. A DataFrame is its rows. A field that is NaN is absent.
    engine: whose cache is modelled; one. Call `replay` once for each, and compare the results.
    page_size: tokens per page, where the rows do not say.
    kv_bytes_per_token: bytes of KV state per token; or `model_config`, the config.json (or its folder) to compute it from.
    capacities: where to tell hit rates: pages as numbers, or sizes such as "10GiB".
    provisioned: what the cache holds today, in the same forms.
    target_ratios: shares of its reusable prefix that a request must find; coverage: shares of the requests that must.
    windows: such as "tumbling:5m", "last:3000" or "all"; routers: such as "logged" or "prefix:4".
    outputs: "cached" or "ignored": whether generated tokens enter the cache.
    overlap: False takes requests one after another, though the log says how long they took.
    measured: compare with the cached tokens that rows report even where no row has any; on by itself where one has.
    warm_up: leading requests that do not count, a number or a share such as "20%".
    min_requests: requests that it takes to recommend a capacity.
    per_request: keep a row for each request in `Result.per_request`.
    options: further arguments of `kvset replay --help`, as they stand there.

    Where one value is all that a list has, it may stand alone.

    Raises ProgramError with the program's own message where it refuses; lines of rows are named as the caller's rows.
    """
    further = [str(option) for option in _listed(options)]
    if "," in engine or any(option.partition("=")[0] == "--engine" for option in further):
        raise ValueError("one engine at a time, as `engine`: call replay once for each and compare the results")
    given: list[tuple[str, Any]] = [
        ("--engine", engine),
        ("--page-size", page_size),
        ("--kv-bytes-per-token", kv_bytes_per_token),
        ("--model-config", model_config),
        ("--capacities", ",".join(map(_size, _listed(capacities))) or None),
        ("--provisioned", provisioned if provisioned is None else _size(provisioned)),
        ("--coverage", ",".join(map(str, _listed(coverage))) or None),
        ("--outputs", outputs),
        ("--overlap", overlap if overlap is None else ("off", "on")[overlap]),
        ("--warm-up", warm_up),
        ("--min-requests", min_requests),
        ("--format", format),
        ("--pool", pool),
        *(("--target-ratio", ratio) for ratio in _listed(target_ratios)),
        *(("--window", window) for window in _listed(windows)),
        *(("--router", router) for router in _listed(routers)),
    ]
    arguments = [f"{name}={value}" for name, value in given if value is not None]
    arguments += ["--measured"] if measured else []
    with _opened(traces) as (paths, told), tempfile.TemporaryDirectory(prefix="kvset-") as folder:
        rows = Path(folder, "requests.jsonl")
        arguments += [f"--per-request={rows}"] if per_request else []
        try:
            output = run(["replay", "--json", *arguments, *further, "--", *paths])
        except ProgramError as error:
            raise ProgramError(error.status, told(str(error))) from None
        result = Result.from_json(json.loads(told(output)))
        if not per_request:
            return result
        with rows.open(encoding="utf-8") as lines:
            return dataclasses.replace(result, per_request=tuple(json.loads(line) for line in lines))


def _listed(given: Any) -> list[Any]:
    """Several values; one that stands alone is a list of one."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def _size(capacity: int | str) -> str:
    """A capacity as the command line takes it: a number is one of pages."""
    return capacity if isinstance(capacity, str) else f"{capacity}p"


@contextlib.contextmanager
def _opened(traces: Any) -> Iterator[tuple[list[str], Callable[[str], str]]]:
    """The files to replay, and what the program says of them in the caller's terms.

    Rows are written to a file that is gone afterwards.
    """
    if isinstance(traces, (str, os.PathLike)):
        yield files_of(traces), str
        return
    rows, name = frame_rows(traces), "frame.iloc[{}]"
    if rows is None:
        if isinstance(traces, Mapping):
            raise TypeError("a row is no log: give a list of rows")
        if not isinstance(traces, Iterable):
            raise TypeError(f"traces are paths, rows (dicts) or a DataFrame, not of type {type(traces).__name__}")
        items = iter(traces)
        first = list(itertools.islice(items, 1))
        if first and isinstance(first[0], (str, os.PathLike)):
            yield [file for path in (*first, *items) for file in files_of(path)], str
            return
        rows, name = itertools.chain(first, items), "rows[{}]"
    with tempfile.TemporaryDirectory(prefix="kvset-") as folder:
        file = RowsFile(Path(folder, "rows.jsonl"), rows, name)
        yield [str(file.path)], file.told
