"""The one shape of every recorded file; tests/fixtures/engines/README.md describes it."""

import json
import os
from typing import NamedTuple

FORMAT = 1


class Lasting(NamedTuple):
    """What requests that overlap found, and the steps that each took from its coming to its end."""

    hits: list
    steps: list


def result(capacity, hits):
    """What one capacity gave: hit pages of each request; with a host tier, whose capacity comes along, pairs of those on
    the device and on the host; with a tier below two lists, the engine's and that tier's."""
    if isinstance(capacity, tuple):
        (device, host), (found, loaded) = capacity, map(list, zip(*hits))
        return result(device, found) | {"host_pages": host} | tier("host", loaded)
    if isinstance(hits, Lasting):
        return result(capacity, hits.hits) | {"per_request_steps": hits.steps}
    if isinstance(hits, tuple):
        found, below = hits
        return result(capacity, found) | tier("below", below)
    return {"capacity_pages": capacity, "hit_pages": sum(hits), "per_request_hit_pages": hits}


def tier(name, hits):
    return {f"{name}_hit_pages": sum(hits), f"per_request_{name}_hit_pages": hits}


def build(recording, version, trace, page_size, answers):
    """A fixture from `answers`: (capacity, what each request found) pairs."""
    results = [result(capacity, hits) for capacity, hits in answers]
    return {
        "format": FORMAT,
        "engine": recording.engine,
        "version": version,
        "workload": recording.workload,
        **trace,
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
