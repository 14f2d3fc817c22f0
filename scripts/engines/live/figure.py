"""Draws docs/images/live.svg: what a live server found of each request, and what the model says. `figure.py RECORDING...`

KVSET is the program. A point is a request; on the right, the same log taken one request after another.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import replay
from server import BLOCK

ROOT = Path(__file__).resolve().parents[3]
SIDE, MARGIN, GAP = 250, 60, 70


def panel(left, title, pairs, most):
    """Points of (found, modelled), darker where they differ, with the line on which both are equal."""

    def at(found, modelled):
        return left + found / most * SIDE, MARGIN + SIDE - modelled / most * SIDE

    differ = [pair for pair in pairs if pair[0] != pair[1]]
    (x1, y1), (x2, y2) = at(0, 0), at(most, most)
    parts = [
        f'<rect x="{left}" y="{MARGIN}" width="{SIDE}" height="{SIDE}" class="frame"/>',
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="equal"/>',
        f'<text x="{left}" y="{MARGIN - 26}" class="title">{title}</text>',
        f'<text x="{left}" y="{MARGIN - 9}">{len(differ):,} of {len(pairs):,} requests differ</text>',
        f'<text x="{left + SIDE / 2}" y="{MARGIN + SIDE + 36}" class="middle">blocks that the server found</text>',
    ]
    for value in (0, most):
        x, y = at(value, value)
        parts.append(f'<text x="{x}" y="{MARGIN + SIDE + 17}" class="middle">{value}</text>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" class="end">{value}</text>')
    for name, points in (("same", set(pairs) - set(differ)), ("differs", sorted(set(differ)))):
        for point in sorted(points):
            x, y = at(*point)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" class="{name}"/>')
    return parts


def answers(path):
    """Blocks that the server found, and what the model says with and without overlap, request by request."""
    text = subprocess.run(["zstd", "--decompress", "--stdout", path], check=True, capture_output=True, text=True).stdout
    found = [json.loads(line)["cached_tokens"] // BLOCK for line in text.splitlines()]
    blocks = int(re.search(r"-(\d+)_", Path(path).name)[1])
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.jsonl")
        trace.write_text(text)
        modelled = [replay(os.environ["KVSET"], trace, blocks, f"--overlap={overlap}")[0] for overlap in ("on", "off")]
    return [list(zip(found, hits, strict=True)) for hits in modelled]


def main():
    recorded = [answers(path) for path in sys.argv[1:]]
    together, one_by_one = ([pair for run in recorded for pair in run[which]] for which in (0, 1))
    most = max(max(pair) for pair in together + one_by_one)
    width, height = 2 * SIDE + GAP + 2 * MARGIN, SIDE + 2 * MARGIN
    parts = panel(MARGIN, "requests that overlap, modelled", together, most)
    parts += panel(MARGIN + SIDE + GAP, "one request after another", one_by_one, most)
    middle = MARGIN + SIDE / 2
    parts.append(f'<text transform="translate(22 {middle}) rotate(-90)" class="middle">blocks that the model says</text>')
    style = (
        "text{font:12px sans-serif;fill:#444}.title{font-weight:bold;fill:#222}.middle{text-anchor:middle}"
        ".end{text-anchor:end}.frame{fill:#fff;stroke:#bbb}.equal{stroke:#bbb}.same{fill:#4477aa;fill-opacity:.5}"
        ".differs{fill:#cc3311}"
    )
    drawing = "\n".join(parts)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"><style>{style}</style>\n{drawing}\n</svg>\n'
    (ROOT / "docs/images/live.svg").write_text(svg)


if __name__ == "__main__":
    main()
