"""`kvset.replay`: the program's `replay`, from Python."""

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ._program import run
from .results import Result

Row: TypeAlias = Mapping[str, Any]
Traces: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Iterable[Row]"


def replay(
    traces: Traces,
    *,
    engine: str = "paper",
    page_size: int | None = None,
    kv_bytes_per_token: float | None = None,
    model_config: str | os.PathLike[str] | None = None,
    capacities: Sequence[int | str] = (),
    provisioned: int | str | None = None,
    target_ratios: Sequence[float] = (),
    coverage: Sequence[float] = (),
    windows: Sequence[str] = (),
    routers: Sequence[str] = (),
    outputs: str | None = None,
    overlap: bool | None = None,
    measured: bool = False,
    warm_up: int | str | None = None,
    min_requests: int | None = None,
    format: str | None = None,
    pool: str | None = None,
    per_request: bool = False,
    options: Sequence[str] = (),
) -> Result:
    """Sizes the KV cache for a log, as `kvset replay --json` does.

    traces: a path, several paths (of one log; `.zst` and `.gz` are opened as they are), or rows. Rows are dicts of any format
        that a trace file may have, for example `{"timestamp": 0, "input_length": 1024, "hash_ids": [1, 2]}` (milliseconds,
        tokens), or request events; they are read once, so a generator will do.
    engine: whose cache is modelled: paper, leaf-first, vllm, sglang, lmcache, lmcache-mp, mooncake or trtllm.
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

    Raises ProgramError with the program's own message where it refuses.
    """
    if "," in engine:
        raise ValueError("one engine at a time: call replay once for each and compare the results")
    given: list[tuple[str, Any]] = [
        ("--engine", engine),
        ("--page-size", page_size),
        ("--kv-bytes-per-token", kv_bytes_per_token),
        ("--model-config", model_config),
        ("--capacities", ",".join(map(_size, capacities)) or None),
        ("--provisioned", provisioned if provisioned is None else _size(provisioned)),
        ("--coverage", ",".join(map(str, coverage)) or None),
        ("--outputs", outputs),
        ("--overlap", overlap if overlap is None else ("off", "on")[overlap]),
        ("--warm-up", warm_up),
        ("--min-requests", min_requests),
        ("--format", format),
        ("--pool", pool),
        *(("--target-ratio", ratio) for ratio in target_ratios),
        *(("--window", window) for window in windows),
        *(("--router", router) for router in routers),
    ]
    arguments = [f"{name}={value}" for name, value in given if value is not None]
    arguments += ["--measured"] if measured else []
    with _paths(traces) as paths, tempfile.TemporaryDirectory(prefix="kvset-") as folder:
        rows = Path(folder, "requests.jsonl")
        arguments += [f"--per-request={rows}"] if per_request else []
        output = run(["replay", "--json", *arguments, *options, "--", *paths])
        result = Result.from_json(json.loads(output))
        if not per_request:
            return result
        with rows.open(encoding="utf-8") as lines:
            return dataclasses.replace(result, per_request=tuple(json.loads(line) for line in lines))


def _size(capacity: int | str) -> str:
    """A capacity as the command line takes it: a number is one of pages."""
    return capacity if isinstance(capacity, str) else f"{capacity}p"


@contextlib.contextmanager
def _paths(traces: Traces) -> Iterator[list[str]]:
    """The files to replay; rows are written to one that is gone afterwards."""
    if isinstance(traces, (str, os.PathLike)):
        yield [os.fspath(traces)]
        return
    if isinstance(traces, Mapping):
        raise TypeError("a row is no log: give a list of rows")
    items = iter(traces)
    first = next(items, None)
    if isinstance(first, (str, os.PathLike)):
        yield [os.fspath(first), *(os.fspath(path) for path in items)]  # type: ignore[arg-type]
        return
    if first is not None and not isinstance(first, Mapping):
        raise TypeError(f"traces are paths or rows (dicts), not {type(first).__name__}")
    with tempfile.TemporaryDirectory(prefix="kvset-") as folder:
        path = Path(folder, "rows.jsonl")
        with path.open("w", encoding="utf-8") as file:
            for row in [] if first is None else [first, *items]:
                file.write(json.dumps(row, default=_plain) + "\n")
        yield [str(path)]


def _plain(value: Any) -> Any:
    """What numpy and pandas put in rows, as JSON has it."""
    for method in ("tolist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"a row holds a {type(value).__name__}, which JSON has no form for")
