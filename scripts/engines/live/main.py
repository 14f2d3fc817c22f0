"""Runs workloads on a live server and compares: see scripts/engines/live.sh."""

import argparse
import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cost
import overfolder
import overkafka
from compare import compare, heading
from runs import RUNS
from server import BLOCK, beside_another, connector, metric, serving
from workload import run

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests/fixtures/engines/live"
VERSION = "0.32.0"


def events_of(folder):
    """The events that the connector wrote, in the order of its files."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def live(chosen, home):
    """One run: the server's answers and the connector's events."""
    folder = home / "runs" / chosen.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    transfer = connector(path=str((folder / "events").resolve()))
    if chosen.beside_another:
        transfer = beside_another(transfer, (folder / "other").resolve())
    clients, preemptions = [], 0
    for start in range(chosen.starts):
        with serving(folder, chosen.blocks, transfer, log=f"server-{start}.log", ranks=chosen.ranks) as server:
            client, _ = asyncio.run(run(chosen.workload, server.address))
            clients.append(client)
            preemptions += int(metric(server.address, "vllm:num_preemptions_total"))
    return clients, preemptions, events_of(folder / "events")


def record(chosen, events, preemptions):
    """Keeps a log as a fixture: ids numbered from 1 in the order in which they appear, times from 0, no name of a request."""
    numbers = {}

    def numbered(packed):
        raw = base64.b64decode(packed)
        return [numbers.setdefault(raw[at : at + 8], len(numbers) + 1) for at in range(0, len(raw), 8)]

    first = min(event["event_time"] for event in events)
    lines = []
    for event in sorted(events, key=lambda event: event["event_time"]):
        kept = {
            "event_time": event["event_time"] - first,
            "page_size": BLOCK,
            "ids_chained": True,
            "page_ids": numbered(event["page_ids"]),
            "output_page_ids": numbered(event.get("output_page_ids", "")),
        }
        kept |= {name: event[name] for name in ("input_tokens", "output_tokens", "duration_ms", "cached_tokens")}
        kept |= {"replica": event["replica"]} if chosen.ranks > 1 else {}
        lines.append(json.dumps(kept, separators=(",", ":")))
    workload = chosen.name.rpartition("-")[0] + ("_preempted" if preemptions else "")
    path = FIXTURES / f"vllm-{VERSION}_{workload}-{chosen.blocks}_connector.jsonl.zst"
    subprocess.run(["zstd", "--quiet", "--force", "-19", "-o", path], input="\n".join(lines).encode() + b"\n", check=True)
    print(f"recorded {path.relative_to(ROOT)}, {path.stat().st_size >> 10} KiB", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--folder", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    asked.home = asked.home.resolve()
    if asked.cost:
        return cost.measure(asked.home)
    if asked.kafka:
        return overkafka.run_and_compare(asked.home)
    if asked.folder:
        return overfolder.run_and_compare(asked.home)
    chosen = [each for each in RUNS if not asked.names or each.name in asked.names]
    if len(chosen) < len(asked.names):
        parser.error(f"runs are {', '.join(each.name for each in RUNS)}")
    print(heading(), flush=True)
    faults = []
    for each in chosen:
        clients, preemptions, events = live(each, asked.home)
        comparison = compare(os.environ["KVSET"], each, clients, preemptions, events, asked.home)
        print(comparison.row, flush=True)
        faults += comparison.faults
        if asked.record and each.is_recorded and not comparison.faults:
            record(each, events, preemptions)
    print("\n".join(faults), file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
