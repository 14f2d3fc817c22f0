"""Results as a notebook, a prompt and a plot show them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import matplotlib.axes

    from .results import Capacity, Recommendation, Result

# Models of a log that are shown, each by itself.
_MOST_POOLS = 10
# Lines nearer to each other than this, as a share of the axis, share a label.
_LABEL_WIDTH = 0.04


def in_a_line(result: Result) -> str:
    """What was replayed, and the answer."""
    if result.pools:
        names = [pool.pool or "?" for pool in result.pools]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{len(names)} pools: {', '.join(names[:3])}{more}"
    sentences = result.answer.sentences if result.answer else ()
    of = f" of {result.pool}" if result.pool else ""
    return f"{result.trace.requests:,} requests{of}, {result.trace.engine}: {' '.join(sentences[:1])}"


def as_html(result: Result) -> str:
    """The answer, and what to buy by coverage."""
    if result.pools:
        more = len(result.pools) - _MOST_POOLS
        rest = f"<p>and {more} more pools: <code>.pools</code></p>" if more > 0 else ""
        return "".join(f"<h4>{html.escape(pool.pool or '?')}</h4>{as_html(pool)}" for pool in result.pools[:_MOST_POOLS]) + rest
    sentences = [html.escape(sentence) for sentence in (result.answer.sentences if result.answer else ())]
    first = "".join(f"<b>{sentence}</b>" for sentence in sentences[:1])
    notes = "".join(f"<br><i>note: {html.escape(note)}</i>" for note in result.notes)
    return f"<p>{' '.join([first, *sentences[1:]])}{notes}</p>{_table(result.recommended)}"


def _table(recommended: Sequence[Recommendation]) -> str:
    if not recommended:
        return ""
    columns = ("requests covered", "capacity", "pages", "hit rate")
    rows = [
        (
            one.coverage,
            "–" if one.bytes is None else f"{one.bytes / (1 << 30):,.2f} GiB",
            html.escape(one.why or one.status) if one.pages is None else f"{one.pages:,}",
            "–" if one.hit_rate is None else f"{100 * one.hit_rate:.2f} %",
        )
        for one in recommended
    ]
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def plot(result: Result, axes: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Draws the curve of each pool. Raises ValueError for axes that have another unit."""
    results = result.pools or (result,)
    in_bytes = all(one.trace.page_bytes for one in results)
    unit = "capacity (GiB)" if in_bytes else "capacity (pages)"
    if axes is None:
        import matplotlib.pyplot as pyplot

        axes = pyplot.subplots(figsize=(8, 4.8), layout="constrained")[1]
    elif axes.lines and axes.get_xlabel() not in ("", unit):
        raise ValueError(f"the axes are of {axes.get_xlabel()}, and this result is of {unit}: bytes per token make pages sizes")
    for one in results:
        _plot_curve(axes, one, 1 << 30 if in_bytes else 1, in_bytes)
    axes.set_xscale("log")
    axes.set_xlabel(unit)
    axes.set_ylabel("share of page accesses that hit")
    axes.set_ylim(0, 1)
    if not axes.get_title():
        axes.set_title(f"Hits by cache size, {_title(results)}")
    axes.legend(loc="upper left")
    return axes


def _title(results: Sequence[Result]) -> str:
    requests = sum(one.trace.requests for one in results)
    engines = " and ".join(sorted({one.trace.engine for one in results}))
    return f"{requests:,} requests, {engines}"


def _plot_curve(axes: matplotlib.axes.Axes, result: Result, unit: int, in_bytes: bool) -> None:
    def size(of: Capacity | Recommendation) -> float:
        return (of.bytes if in_bytes else of.pages) / unit  # type: ignore[operator]

    name = result.pool or result.trace.engine
    points = sorted((size(at), at.page_hit_rate) for at in result.capacities if size(at) > 0)
    [line] = axes.plot([x for x, _ in points], [y for _, y in points], marker=".", label=name)
    color = line.get_color()
    axes.axhline(result.theoretical.page_hit_rate, color=color, linestyle=":", label=f"{name}, unlimited")
    marks = [(size(one), one.coverage) for one in result.recommended if one.pages]
    for number, (x, _) in enumerate(marks):
        axes.axvline(x, color=color, alpha=0.4, label=None if number else f"{name}, recommended by share of requests")
    ends = [x for x, _ in points] + [x for x, _ in marks]
    for x, label in _merged(marks, math.log(max(ends) / min(ends)) if ends else 0.0):
        place = {"xytext": (-3, 4), "textcoords": "offset points", "xycoords": axes.get_xaxis_transform()}
        axes.annotate(label, (x, 0), rotation=90, va="bottom", ha="right", color=color, **place)  # type: ignore[arg-type]


def _merged(marks: Iterable[tuple[float, str]], width: float) -> list[tuple[float, str]]:
    """Labels with their places; those that would lie on each other are one, at the first of their places."""
    labels: list[tuple[float, str]] = []
    for x, label in sorted(marks):
        if labels and math.log(x / labels[-1][0]) <= _LABEL_WIDTH * width:
            labels[-1] = (labels[-1][0], f"{labels[-1][1]}, {label}")
        else:
            labels.append((x, label))
    return labels
