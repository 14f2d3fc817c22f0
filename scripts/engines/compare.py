"""Compares recordings with the committed ones: `compare.py COMMITTED RECORDED...`; a row a file, as Markdown.

Ends with 1 where a request differs, so that a newer version that behaves differently is noticed. Two runs of an engine with
a clock of its own differ: there its hits in all must, at each capacity, be within 3 % of the committed ones.
"""

import glob
import os
import sys

import fixture
from workloads import unpacked

CLOCKED = {"mooncake"}
MOST_OFF = 0.03


def answers(fixture):
    """Every answer of a file, by capacity: of the engine, of its host and of a tier below, where there are such."""
    for result in fixture["results"]:
        tiers = (result.get(f"per_request_{tier}_hit_pages", []) for tier in ("host", "below"))
        yield sum(tiers, result["per_request_hit_pages"])


def rows(committed, folder):
    """(engine, version, version before, name, answers compared, differing, largest difference of hits in all) of every
    recording in `folder`."""
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        name = os.path.basename(path)
        new = fixture.read(path)
        old = fixture.read(os.path.join(committed, name))
        same_task = [new.get(key) == old.get(key) for key in ("generate", "trace", "settings", "page_size", "requests")]
        if trace := new.get("trace"):
            same_task.append(unpacked(os.path.join(folder, "traces", trace)) == unpacked(os.path.join(committed, "traces", trace)))
        capacities = [
            [(result["capacity_pages"], result.get("host_pages")) for result in each["results"]] for each in (new, old)
        ]
        if not all(same_task) or capacities[0] != capacities[1]:
            raise SystemExit(f"{name}: another workload or other capacities than the committed file's; record it anew")
        capacities = list(zip(answers(new), answers(old)))
        pairs = [pair for ours, theirs in capacities for pair in zip(ours, theirs)]
        differing = sum(a != b for a, b in pairs)
        off = max(abs(sum(ours) - sum(theirs)) / max(sum(theirs), 1) for ours, theirs in capacities)
        yield new["engine"], new["version"], old["version"], name, len(pairs), differing, off


def main():
    committed, *folders = sys.argv[1:]
    print("| engine | version | recorded with | workload and settings | answers compared | differing | hits in all |")
    print("|---|---|---|---|---:|---:|---:|")
    differing, failed = 0, False
    for folder in folders:
        for engine, version, recorded, name, compared, differs, off in rows(committed, folder):
            label = name.removesuffix(".json")
            print(f"| {engine} | {version} | {recorded} | {label} | {compared:,} | {differs:,} | {off:.2%} |")
            differing += differs
            failed |= off > MOST_OFF if engine in CLOCKED else differs > 0
    print(f"\n{differing:,} answers differ.")
    sys.exit(1 if failed else 0)


main()
