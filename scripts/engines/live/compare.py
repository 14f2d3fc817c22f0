"""What the server said, what the connector wrote, and what the model makes of it, compared request by request."""

import dataclasses
import json
import subprocess

from server import BLOCK


@dataclasses.dataclass
class Comparison:
    """A row of the table, and what is wrong."""

    row: str
    faults: list


def heading():
    return (
        "| run | requests | in flight, mean and most | preempted | blocks | blocks hit | requests that differ "
        "| one after another | behaves like | verdict | notes |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---|"
    )


def compare(kvset, run, clients, preemptions, events, home):
    """Compares one run, each replica with its own history."""
    answers = [answer for client in clients for answer in client.answers]
    faults = said_and_written(answers, events)
    events = sorted(events, key=lambda event: event["event_time"])
    found, modelled, serial = [], [], []
    for replica in sorted({event["replica"] for event in events}):
        own = [event for event in events if event["replica"] == replica]
        path = written(home / "runs" / f"{run.name}-{replica}.jsonl", own)
        found += [event["cached_tokens"] // BLOCK for event in own]
        modelled += replay(kvset, path, run.blocks)[0]
        serial += replay(kvset, path, run.blocks, "--overlap=off")[0]
    all_events = written(home / "runs" / f"{run.name}.jsonl", events)
    _, result, notes = replay(kvset, all_events, run.blocks, caches=run.ranks)
    differ = sum(one != other for one, other in zip(found, modelled, strict=True))
    measured = result["measured"]
    effective = measured["effective_capacity"] or {}
    if preemptions == 0 and run.starts == 1 and differ > max(1, len(events) // 1000):
        faults.append(f"{differ} requests differ")
    total, expected = sum(modelled), max(1, sum(found))
    in_flight = sum(client.in_flight_sum for client in clients) / max(1, len(answers))
    most = max(client.most_in_flight for client in clients)
    row = (
        f"| {run.name} | {len(events):,} | {in_flight:.0f}, {most} | {preemptions} | {run.blocks:,} "
        f"| {expected:,} | {differ}, hits {total / expected - 1:+.2%} | {sum(serial) / expected - 1:+.2%} "
        f"| {effective.get('pages_from')} to {effective.get('pages_to')}, {effective.get('agreement', 0):.1%} agree "
        f"| {measured['verdict']} | {'; '.join(notes) or 'none'} |"
    )
    return Comparison(row, [f"{run.name}: {fault}" for fault in faults])


def written(path, events):
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def said_and_written(answers, events):
    """Whether each answer has one event that says the same."""
    # A completion's request in the engine has the answer's name, a number and a word of its own behind it.
    by_answer = {}
    for event in events:
        by_answer.setdefault("-".join(event["request_id"].split("-")[:2]), []).append(event)
    faults = []
    for answer in answers:
        own = by_answer.pop(answer.id, [])
        said = [(answer.prompt_tokens, answer.output_tokens, answer.cached_tokens)]
        written = [(event["input_tokens"], event["output_tokens"], event["cached_tokens"]) for event in own]
        if said != written:
            faults.append(f"the server said {said} and the connector wrote {written}")
    faults += [f"{len(by_answer)} events are of no answer"] if by_answer else []
    return faults[:5] + ([f"and {len(faults) - 5} more like these"] if len(faults) > 5 else [])


def replay(kvset, path, blocks, *options, caches=1):
    """Blocks that each request finds, the whole result, and the notes about the log; of so many caches of so many blocks."""
    rows, together = path.with_suffix(".rows"), caches * blocks
    sizes = f"{blocks}p" if caches == 1 else f"{blocks}p,{together}p"
    command = [kvset, "replay", "--json", "--engine=vllm", f"--capacities={sizes}", f"--provisioned={together}p"]
    command += ["--min-requests=1", "--measured", f"--per-request={rows}", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    hits = [json.loads(row)["prefix_hits"][0] for row in rows.read_text().splitlines()]
    notes = [line.removeprefix("note: ") for line in done.stderr.splitlines() if line.startswith("note: ")]
    return hits, json.loads(done.stdout), notes
