"""Compares recordings with the committed ones: `compare.py COMMITTED RECORDED...`; a row a file, as Markdown.

Ends with 1 where a request differs, so that a newer version that behaves differently is noticed.
"""

import glob
import os
import sys

import fixture


def rows(committed, folder):
    """(engine, version, name, requests compared, differing) of every recording in `folder`."""
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        name = os.path.basename(path)
        new = fixture.read(path)
        old = fixture.read(os.path.join(committed, name))
        same_task = [new[key] == old[key] for key in ("generate", "settings", "page_size", "requests")]
        capacities = [[result["capacity_pages"] for result in each["results"]] for each in (new, old)]
        if not all(same_task) or capacities[0] != capacities[1]:
            raise SystemExit(f"{name}: another workload or other capacities than the committed file's; record it anew")
        pairs = [
            (a, b)
            for ours, theirs in zip(new["results"], old["results"])
            for a, b in zip(ours["per_request_hit_pages"], theirs["per_request_hit_pages"])
        ]
        yield new["engine"], new["version"], old["version"], name, len(pairs), sum(a != b for a, b in pairs)


def main():
    committed, *folders = sys.argv[1:]
    print("| engine | version | recorded with | workload and settings | answers compared | differing |")
    print("|---|---|---|---|---:|---:|")
    differing = 0
    for folder in folders:
        for engine, version, recorded, name, compared, differs in rows(committed, folder):
            label = name.removesuffix(".json")
            print(f"| {engine} | {version} | {recorded} | {label} | {compared:,} | {differs:,} |")
            differing += differs
    print(f"\n{differing:,} answers differ.")
    sys.exit(1 if differing else 0)


main()
