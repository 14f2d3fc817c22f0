"""Records one engine: `run.py ENGINE KVSET FOLDER`, with the engine's package in PYTHONPATH.

ONLY in the environment, patterns such as `vllm_agents-16_*`, leaves out the files that none of them matches.
"""

import fnmatch
import importlib
import os
import sys
import time

import fixture
import workloads
from recordings import recordings


def drive_all(driver, requests, recording):
    """What the engine answers at every capacity: one after the other, where it does not run them at once."""
    if hasattr(driver, "drive_all"):
        return driver.drive_all(requests, recording.settings, recording.capacities)
    return [driver.drive(requests, recording.settings, pages) for pages in recording.capacities]


def main():
    engine, kvset, folder = sys.argv[1:]
    driver = importlib.import_module(f"drive_{engine}")
    os.makedirs(folder, exist_ok=True)
    loaded = {}
    only = os.environ.get("ONLY", "*").split()
    for recording in recordings(engine):
        if not any(fnmatch.fnmatch(recording.name, pattern) for pattern in only):
            continue
        began = time.monotonic()
        if recording.workload not in loaded:
            loaded[recording.workload] = workloads.load(kvset, recording.workload)
        requests = loaded[recording.workload]
        answers = list(zip(recording.capacities, drive_all(driver, requests, recording)))
        trace = workloads.trace_of(recording.workload)
        if "trace" in trace:
            workloads.keep(folder, recording.workload, requests)
        made = fixture.build(recording, driver.VERSION, trace, requests[0].page_size, answers)
        fixture.write(folder, recording.name, made)
        print(f"{recording.name}: {len(requests)} requests at {len(answers)} capacities,", end=" ")
        print(f"{time.monotonic() - began:.1f} s", flush=True)


# Processes that a driver starts read this file, too.
if __name__ == "__main__":
    main()
