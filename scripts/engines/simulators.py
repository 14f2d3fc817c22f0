"""What other simulators answer on the recorded workloads, alongside what the engines' own classes answered:
`simulators.py KVSET FIXTURES`; two tables as Markdown.

LMCache's own simulator answers request by request, as LMCache's classes were recorded. kvcache-simulator has sums over the
second half of a trace alone, and only of sizes that the first half fills; so those are what is compared with it.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
logging.disable(logging.WARNING)

from kvcache_sim.plan import build_execution_plan
from kvcache_sim.policies import simulate_policy
from kvcache_sim.trace import TraceData
from lmcache.tools.cache_simulator.simulator import simulate

import fixture
import workloads

LMCACHE = [("agents-16", 16), ("agents-16", 256), ("agents-64", 64), ("agents-64", 256), ("short-turns-16", 256)]
ENGINES = ["sglang_{}_ignored", "sglang_{}_cached", "vllm_{}_ignored", "vllm_{}_cached"]


def recorded(folder, name):
    """A recorded file's hits of each request, by capacity in pages."""
    results = fixture.read(os.path.join(folder, f"{name}.json"))["results"]
    return {result["capacity_pages"]: result["per_request_hit_pages"] for result in results}


def lmcache(kvset, folder):
    """Rows: a recorded file, and how far LMCache's simulator is from it."""
    for name, chunk in LMCACHE:
        requests = workloads.load(kvset, name)
        pages = chunk // requests[0].page_size
        events = [
            {"chunk_hashes": request.pages[pages - 1 :: pages], "seq_len": request.prompt_length, "chunk_size": chunk}
            for request in requests
        ]
        answers, differing, off = 0, 0, 0.0
        for capacity, theirs in recorded(folder, f"lmcache_{name}_chunk-{chunk}").items():
            found = simulate(events, capacity // pages, 1)["hit_prefix_lengths"]
            ours = [chunks * pages for chunks in found]
            answers += len(ours)
            differing += sum(a != b for a, b in zip(ours, theirs))
            off = min(off, sum(ours) / sum(theirs) - 1)
        yield f"`{name}`, chunks of {chunk}", answers, differing, f"{off:.1%}"


def trace(requests):
    """A workload as kvcache-simulator reads it: full pages."""
    ids = [page for request in requests for page in request.pages]
    starts = [0]
    for request in requests:
        starts.append(starts[-1] + len(request.pages))
    size = requests[0].page_size
    total = len(ids) * size
    tokens = [size] * len(ids)
    return TraceData(ids, tokens, starts, size, len(requests), len(set(ids)), total, total / len(requests), 0, 0)


def leaf_first(kvset, name, half):
    """Hit pages of kvset's `leaf-first`, and of the optimum, by capacity."""
    workload = workloads.WORKLOADS[name]
    trace = subprocess.run([kvset, "generate", *workload["generate"]], check=True, capture_output=True).stdout
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(trace)
        file.flush()
        capacities = ",".join(f"{pages}p" for pages in workload["capacities"])
        options = ["--engine", "leaf-first", "--outputs", "ignored", "--overlap", "off", "--optimal"]
        command = [kvset, "replay", "--json", *options, "--capacities", capacities, "--warm-up", str(half), file.name]
        found = subprocess.run(command, check=True, capture_output=True).stdout
    points = json.loads(found)["capacities"]
    return {point["pages"]: (point["page_hits"], point["optimal_page_hits"]) for point in points}


def kvcache_simulator(kvset, folder):
    """Rows: hit pages of the second half of a workload, of kvcache-simulator and of the engines."""
    for name in ["agents-16", "short-turns-16", "agents-64"]:
        requests = workloads.load(kvset, name)
        plan, half = build_execution_plan(trace(requests)), len(requests) // 2
        own = leaf_first(kvset, name, half)
        files = {of: f"{of.format(name)}" for of in ENGINES}
        known = {of: recorded(folder, file) for of, file in files.items() if os.path.exists(os.path.join(folder, f"{file}.json"))}
        for capacity in workloads.WORKLOADS[name]["capacities"]:
            found = [simulate_policy(plan, policy, capacity) for policy in ("lru", "optimal")]
            if any(result.measurementMode != "fixed_window" for result in found):
                continue
            hits = [result.hitTokens // plan.block_size for result in found]
            of_engines = [sum(known[of][capacity][half:]) if of in known else None for of in ENGINES]
            yield f"`{name}`", capacity, hits[0], own[capacity][0], *of_engines, hits[1], own[capacity][1]


def shown(cell):
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) else cell


def table(columns, rows):
    print("| " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * (len(columns) - 1))
    before = None
    for workload, *cells in rows:
        print("| " + " | ".join(["" if workload == before else workload, *map(shown, cells)]) + " |")
        before = workload
    print()


def main():
    kvset, folder = sys.argv[1:]
    table(["workload", "answers", "differing", "hits in all, at most"], lmcache(kvset, folder))
    columns = ["workload, its second half", "pages", "`lru`", "kvset's `leaf-first`", "SGLang", "and answers"]
    columns += ["vLLM", "and answers", "`optimal`", "kvset's optimum"]
    table(columns, kvcache_simulator(kvset, folder))


main()
