"""The one shape of every recorded file; tests/fixtures/engines/README.md describes it."""

import json
import os

FORMAT = 1


def build(recording, version, generate, page_size, answers):
    """A fixture from `answers`: (capacity, hit pages of each request) pairs; the hits are a pair of the engine's and of
    the tier's below, where there is one."""
    results = []
    for capacity, hits in answers:
        hits, below = hits if isinstance(hits, tuple) else (hits, None)
        result = {"capacity_pages": capacity, "hit_pages": sum(hits), "per_request_hit_pages": hits}
        if below is not None:
            result |= {"below_hit_pages": sum(below), "per_request_below_hit_pages": below}
        results.append(result)
    return {
        "format": FORMAT,
        "engine": recording.engine,
        "version": version,
        "workload": recording.workload,
        "generate": generate,
        "page_size": page_size,
        "settings": recording.settings,
        "requests": len(results[0]["per_request_hit_pages"]),
        "results": results,
    }


def write(folder, name, fixture):
    """Writes a field, or a capacity's result, a line: a change shows as few lines."""
    lines = [f" {json.dumps(key)}: {json.dumps(fixture[key])}" for key in fixture if key != "results"]
    rows = [f"  {json.dumps(result, separators=(',', ':'))}" for result in fixture["results"]]
    lines.append(' "results": [\n' + ",\n".join(rows) + "\n ]")
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def read(path):
    with open(path) as file:
        return json.load(file)
