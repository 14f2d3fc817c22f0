#!/usr/bin/env python3
"""The speed of two commits side by side: each bench of both, in turn, on one machine in one run.

    python3 scripts/compare.py v0.1.0 HEAD
    python3 scripts/compare.py --rounds 3 --bench worker 709b36a HEAD

Builds both commits in worktrees of their own below target/compare, which are kept for the next time. The benches run by
turns, so that what else the machine does falls on both. Each line of a bench is printed once with the second commit's
median figures, and behind each figure its ratio to the first commit's: `1.42 (0.93)`. A bench or a line that one of the
commits does not have is named. The worker's is the service's speed without client and broker.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCHES = ["engine", "worker", "replay", "caches"]
# With its unit behind it, or none: `332.18ms`, `1.4x`.
NUMBER = re.compile(r"(?<![\w.:])\d[\d,]*(?:\.\d+)?")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def checked_out(commit):
    """A worktree of the commit; made where there is none yet."""
    digits = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    folder = ROOT / "target/compare" / digits[:12]
    if not folder.exists():
        git("worktree", "prune")
        git("worktree", "add", "--detach", str(folder), digits)
    return folder


def built(folder, bench):
    """The bench's program; None where the commit does not have it."""
    if f'name = "{bench}"' not in (folder / "Cargo.toml").read_text():
        return None
    command = ["cargo", "bench", "--locked", "--bench", bench, "--no-run"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "CARGO_TARGET_DIR": str(folder / "target")})
    found = re.search(r"Executable .*\((.*)\)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{folder.name}: {' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return folder / found[1]


def reading(folder, program):
    """The lines that a run prints: each one's words, and its figures."""
    # The shared traces lie beside the repository, not beside its worktree.
    shared = os.environ.get("KVSET_SHARED", str(ROOT.parent / "shared"))
    done = subprocess.run([program, "--bench"], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "KVSET_SHARED": shared})
    if done.returncode != 0:
        sys.exit(f"{folder.name}: {program.name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    lines, seen = {}, {}
    for line in done.stdout.splitlines():
        words = " ".join(NUMBER.sub("#", line).split())
        seen[words] = seen.get(words, 0) + 1
        lines[words, seen[words]] = (line, [float(text.replace(",", "")) for text in NUMBER.findall(line)])
    return lines


def medians(readings, key):
    return [statistics.median(column) for column in zip(*(lines[key][1] for lines in readings if key in lines))]


def ratios(line, before, after):
    """The line with its figures, each with its ratio to what it was."""
    figures = iter(zip(before, after))

    def figure(found):
        was, now = next(figures)
        return f"{now:g} ({now / was:.2f})" if was else f"{now:g}"

    return NUMBER.sub(figure, line)


def compare(bench, folders, rounds):
    print(f"\n== {bench}", flush=True)
    programs = [built(folder, bench) for folder in folders]
    for folder, program in zip(folders, programs):
        if program is None:
            return print(f"   {folder.name} does not have it")
    readings = [[], []]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            readings[side].append(reading(folders[side], programs[side]))
    before, after = readings
    for key, (line, figures) in after[-1].items():
        if figures and any(key in lines for lines in before):
            line = ratios(line, medians(before, key), medians(after, key))
        elif figures:
            line = f"{line}   (new)"
        print(line, flush=True)
    for key, (line, _) in before[-1].items():
        if key not in after[-1]:
            print(f"{line}   (gone)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--bench", action="append", help=f"may be given again; {', '.join(BENCHES)} where left out")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the median is taken")
    asked = parser.parse_args()
    folders = [checked_out(commit) for commit in (asked.before, asked.after)]
    print(f"{asked.before} ({folders[0].name}) before, {asked.after} ({folders[1].name}) after")
    for bench in asked.bench or BENCHES:
        compare(bench, folders, asked.rounds)


if __name__ == "__main__":
    main()
