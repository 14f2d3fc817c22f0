#!/usr/bin/env python3
"""What an operator lives through with kvset, step by step, on a real Kafka.

    scripts/kafka.sh run -- python3 scripts/operators_life.py [PROGRAM]

Start, load, kill, second instance, scale down, strangers beside healthy pools, two groups on one output, a compacted
input, change of configuration, broker away, full disk, topic made anew, backfill. Each step prints what the operator does and what kvset says, checks what must be true, and ends the script with
exit code 1 if it is not. PROGRAM is target/debug/kvset unless given. Topics, group and files are the run's own; the
directory with all configurations, logs and snapshots is named at the end.

The broker is only disturbed, and the topic only made anew, where scripts/kafka.sh started the broker (from Maven's
artifacts), and so are Kafka's own tools. The disk is only filled as root on Linux, where a small file system can be
mounted. An output that may not be written to needs a broker with rights: tests/security has that.
"""

import atexit
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/kvset").resolve()
BROKERS = os.environ.get("KVSET_TEST_BROKERS") or sys.exit("run me as: scripts/kafka.sh run -- python3 " + sys.argv[0])
CONTROL = os.environ.get("KVSET_TEST_BROKER_CONTROL")
KAFKA = pathlib.Path(os.environ.get("KVSET_KAFKA_DIR", ROOT / "target/kafka"))
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="kvset-life-"))
NAME = f"life-{os.getpid()}"
PATIENCE = 120
BEGAN = time.monotonic()

CONFIGURATION = f"""
[kafka]
brokers = "{BROKERS}"
group = "{NAME}"
properties = {{ "session.timeout.ms" = 10000 }}

[input]
topic = "{NAME}.requests"

[output]
topic = "{NAME}.estimates"
dead_letter_topic = "{NAME}.dead-letters"

[estimate]
kv_bytes_per_token = 61464
windows = ["tumbling:30m", "last:3000"]
act_on = "last:3000"
idle_timeout = "5s"

[state]
checkpoint_every = "2s"

[http]
ready_max_lag = 100
"""


def step(title, does):
    print(f"\n== {title} (at {time.monotonic() - BEGAN:.0f} s)\n   {does}", flush=True)


def says(text):
    for line in str(text).strip().splitlines():
        print(f"   | {line[:200]}", flush=True)


def must(holds, what):
    if not holds:
        sys.exit(f"\nFAILED: {what}\nSee {FOLDER}")
    print(f"   ok: {what}", flush=True)


def until(what, holds, patience=PATIENCE):
    """Waits until `holds` gives something; ends the script where it never does."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = holds()
        if found:
            print(f"   ok: {what}", flush=True)
            return found
        time.sleep(0.2)
    sys.exit(f"\nFAILED within {patience} s: {what}\nSee {FOLDER}")


def kvset(*arguments, code=0, config="kvset.toml"):
    """Runs a command to its end and returns what it printed."""
    environment = {**os.environ, "KVSET_CONFIG": str(FOLDER / config)}
    command = [PROGRAM, *arguments]
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode != code:
        says(done.stdout[-2000:] + done.stderr[-2000:])
        sys.exit(f"\nFAILED: kvset {' '.join(map(str, arguments))} ended with {done.returncode}, not {code}")
    return done.stdout + done.stderr


class Instance:
    """A running service."""

    count = 0

    def __init__(self, name, config="kvset.toml", state=None):
        Instance.count += 1
        self.name, self.port = name, 29600 + (os.getpid() + Instance.count) % 400
        self.log = FOLDER / f"{Instance.count}-{name}.log"
        environment = {
            **os.environ,
            "KVSET_CONFIG": str(FOLDER / config),
            "KVSET__KAFKA__INSTANCE": name,
            "KVSET__STATE__DIRECTORY": str(state or FOLDER / f"state-{name}"),
            "KVSET__HTTP__LISTEN": f"127.0.0.1:{self.port}",
        }
        command = [PROGRAM, "run", "--create-topics"]
        self.process = subprocess.Popen(command, cwd=FOLDER, env=environment, stderr=self.log.open("wb"))
        atexit.register(self.process.kill)

    def get(self, path):
        """Status and text of a page; status 0 where nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self):
        if self.process.poll() is not None:
            says(self.last())
            sys.exit(f"\nFAILED: {self.name} ended by itself, with exit code {self.process.returncode}")
        return self.get("/readyz")[0] == 200

    def metric(self, name, label=""):
        """The sum of a metric's samples that have this label."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if label in line)

    def partitions(self):
        return int(self.metric("kvset_assigned_partitions"))

    def said(self, *words):
        """The first line of its log with all of these words."""
        lines = self.log.read_text(errors="replace").splitlines()
        return next((line for line in lines if all(word in line for word in words)), None)

    def last(self):
        return "\n".join(self.log.read_text(errors="replace").strip().splitlines()[-1:])

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


def produce(trace, pool):
    says(kvset("produce", "--create-topics=4", "--pool", pool, trace))


def finals(topic=None, config="kvset.toml"):
    """The last final estimate of each pool and window."""
    options = ["--topic", topic] if topic else []
    lines = kvset("watch", "--from-beginning", "--until-end", "--json", *options, config=config).splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return {
        (record["pool"], record["window"], record["end_ms"]): record
        for record in records
        if record["status"] == "final"
    }


def tool(name, *arguments, lines=None):
    """One of Kafka's own tools, which reads these lines."""
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{KAFKA}/libs/*"]
    command += [f"org.apache.kafka.tools.{name}", "--bootstrap-server", BROKERS, *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=120, input="\n".join(lines or []), text=True)


def admin(*arguments):
    """Kafka's own tool for topics."""
    tool("TopicCommand", *arguments)


def configure(name, of, **changed):
    """Writes a configuration: the first one's with names of `of` in place of the run's, and these values changed."""
    text = CONFIGURATION.replace(f'"{NAME}', f'"{NAME}-{of}')
    for key, value in changed.items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
    (FOLDER / name).write_text(text)


def send(topic, records):
    """Writes JSON events, keyed by pool, in this order."""
    how = ["--topic", topic, "--property", "parse.key=true", "--property", "key.separator=|"]
    tool("ConsoleProducer", *how, lines=[f"{pool}|{json.dumps(event)}" for pool, event in records])


def main():
    (FOLDER / "kvset.toml").write_text(CONFIGURATION)

    step("A configuration and a load", "kvset config check; kvset generate; kvset produce")
    says(kvset("config", "check"))
    options = ["--duration", "6h", "--start", "1767600000000", "--sessions-per-day", "600"]
    for part, pool in enumerate(["chat", "code", "batch"]):
        kvset("generate", *options, "--seed", str(part + 1), "--output", f"{pool}.jsonl.zst")
    produce("chat.jsonl.zst", "chat")
    says(kvset("config", "check", "--connect", code=1))

    step("The first instance starts", "kvset run")
    first = Instance("a")
    until("it is ready", first.ready)
    says(kvset("config", "check", "--connect"))
    says(kvset("health", "--url", f"http://127.0.0.1:{first.port}"))

    step("It is killed under load", "kvset produce; kill -9; kvset run")
    produce("code.jsonl.zst", "code")
    first.end(signal.SIGKILL)
    first = Instance("a")
    until("it goes on from its snapshot", lambda: first.said("snapshot"))
    until("it is ready again", first.ready)
    says(first.said("snapshot"))

    step("A second instance joins", "kvset run on another host")
    second = Instance("b")
    until("both have two partitions", lambda: (first.partitions(), second.partitions()) == (2, 2))
    produce("batch.jsonl.zst", "batch")
    until("both are ready", lambda: first.ready() and second.ready())

    step("Scaled down", "SIGTERM to the second")
    must(second.end() == 0, "it ends in order, with exit code 0")
    says(second.last())
    until("the first has all four partitions", lambda: first.partitions() == 4)
    until("it is ready", first.ready)
    says(kvset("watch", "--from-beginning", "--until-end").strip()[-900:])

    step("Estimates against an undisturbed run", "kvset backfill from the beginning")
    lived = until("the last window of every pool is there", lambda: len({pool for pool, *_ in finals()}) == 3 and finals())
    says(kvset("backfill", "--from", "earliest", "--run-id", "check", "--create-topics"))
    undisturbed = finals(f"{NAME}.estimates.backfill.check")
    same = [key for key, record in lived.items() if record == undisturbed.get(key)]
    must(len(lived) > 500 and len(same) == len(lived), f"{len(lived)} final estimates, {len(same)} the same in both")

    step("The configuration changes", "another page of coverages; SIGTERM; kvset run")
    first.end()
    changed = CONFIGURATION.replace("[estimate]", "[estimate]\ntarget_ratios = [0.9, 0.99]")
    (FOLDER / "kvset.toml").write_text(changed)
    first = Instance("a")
    says(until("it says why it rebuilds", lambda: first.said("fingerprint")))
    until("it is ready", first.ready)

    if CONTROL:
        strangers()
        compacted()
        step("The broker is away", "kill -9 of the broker; some time later it is back")
        os.kill(int((KAFKA / "broker.pid").read_text()), signal.SIGKILL)
        until("it is not ready", lambda: first.get("/readyz")[0] == 503)
        says(first.get("/readyz")[1])
        must(first.get("/livez")[0] == 200, "it is alive: a restart would cure nothing")
        subprocess.run([CONTROL, "restart"], check=True, capture_output=True)
        until("it is ready again by itself", first.ready)

    if os.geteuid() == 0 and sys.platform == "linux":
        full_disk(first)
        first = Instance("a")
        until("with room it is ready", first.ready)

    if CONTROL:
        step("The input topic is made anew", "kafka-topics --delete; --create; more records than before")
        admin("--delete", "--topic", f"{NAME}.requests")
        time.sleep(2)
        admin("--create", "--topic", f"{NAME}.requests", "--partitions", "4")
        produce("chat.jsonl.zst", "chat")
        code = until("it ends and says so", lambda: first.process.poll() is not None and first)
        says(code.last())
        must(first.process.returncode == 1, "exit code 1")
    else:
        must(first.end() == 0, "it ends in order")

    print(f"\nAll of it held. Configurations, logs and states: {FOLDER}")


LIVE = ["live-0", "live-3"]
"""Healthy pools, one in each partition."""


def crowd():
    """Requests of the healthy pools every two seconds, with strangers' in between."""
    event = lambda at, pages: {"event_time": at, "page_ids": pages, "page_size": 16}
    begin, day, apart = 1767600000000, 86_400_000, 2000
    for at in range(2000):
        now = begin + apart * at
        for pool in LIVE:
            yield pool, event(now, [1, 2 + at % 7, 100 + at % (150 + at // 10)])
        if 200 <= at < 500:  # A producer without page_size.
            yield from (("newcomer", {"event_time": now, "page_ids": [1]}) for _ in range(20))
        if 600 <= at < 1000:  # A day's backlog, drained at 120 times real time.
            yield from ((f"backlog-{of}", event(now - day + 120 * apart * (at - 600), [1, at])) for of in range(4))
        if 1100 <= at < 1600:
            yield from ((f"small-{20 * (at - 1100) + of}", event(now, [1, 2])) for of in range(20))


def strangers():
    """Healthy pools beside strangers, and the same pools alone."""
    step("Strangers beside healthy pools", "6,000 records without page_size, a drained backlog, 10,000 small pools")
    records = list(crowd())
    # The first silence beside a stranger counts by the stranger's time: 240 s pass in it.
    settings = {"windows": '["tumbling:5m", "last:3000"]', "idle_timeout": '"5m"'}
    configure("crowd.toml", "crowd", **settings)
    configure("alone.toml", "alone", **settings)
    topics = [f"{NAME}-crowd.requests", f"{NAME}-alone.requests"]
    for topic in topics:
        admin("--create", "--topic", topic, "--partitions", "2")
    both = [Instance(name, "crowd.toml") for name in ["left", "right"]]
    until("each has a partition", lambda: [each.partitions() for each in both] == [1, 1])
    send(topics[0], records)
    send(topics[1], [(pool, event) for pool, event in records if pool in LIVE])
    taken = lambda: sum(each.metric("kvset_consumed_records_total") for each in both)
    until("they took all of it", lambda: taken() >= len(records) and all([each.ready() for each in both]))
    refused = lambda of="": sum(each.metric("kvset_pool_refused", of) for each in both)
    must(refused() == refused('pool="newcomer"') == 1, "the newcomer is named as refused, and nobody else")
    letters = kvset("dead-letters", "--from-beginning", "--until-end", "--json", config="crowd.toml")
    must(letters.count('"code"') == 6000, "6,000 dead letters")
    healthy = lambda found: {key: record for key, record in found.items() if key[0] in LIVE}
    says(kvset("backfill", "--from", "earliest", "--run-id", "alone", "--create-topics", config="alone.toml"))
    alone = healthy(finals(f"{NAME}-alone.estimates.backfill.alone", "alone.toml"))
    beside = healthy(finals(config="crowd.toml"))
    for record in [*alone.values(), *beside.values()]:
        del record["first_offset"], record["next_offset"]  # Strangers have some.
    same = [key for key, record in alone.items() if record == beside.get(key)]
    must({record["partition"] for record in alone.values()} == {0, 1}, "the healthy pools are in both partitions")
    must(len(alone) > 100 and len(same) == len(alone), f"{len(alone)} final estimates of them, {len(same)} the same alone")

    step("Two groups on one output", "kvset run of another group")
    configure("staging.toml", "crowd", group=f'"{NAME}-staging"')
    staging = Instance("staging", "staging.toml")
    says(until("it names the group that writes there", lambda: staging.said(f"`{NAME}-crowd`", "WARN")))
    must(all([each.ready() for each in both]), "the others go on")
    for each in [*both, staging]:
        each.end()


def compacted():
    """Brokers keep one request of each pool."""
    step("A compacted input", "kafka-topics --create --config cleanup.policy=compact; kvset run")
    admin("--create", "--topic", f"{NAME}-compacted.requests", "--partitions", "1", "--config", "cleanup.policy=compact")
    configure("compacted.toml", "compacted")
    service = Instance("compacted", "compacted.toml")
    must(service.process.wait(timeout=60) == 1, "it does not start")
    says(until("it says why", lambda: service.said("cleanup.policy", f"{NAME}-compacted.requests")))


def full_disk(service):
    """Snapshots on a file system of two megabytes."""
    step("The disk is full", "the directory of snapshots has 2 MB, and a file fills it")
    must(service.end() == 0, "it stops in order")
    disk = FOLDER / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    try:
        service = Instance("a", state=disk)
        until("it is ready", service.ready)
        with (disk / "filler").open("wb") as filler:
            try:
                filler.write(b"x" * (4 << 20))
            except OSError:
                pass
        produce("chat.jsonl.zst", "chat")
        says(until("it says so and goes on", lambda: service.said("No space left") or service.said("no space")))
        must(service.process.poll() is None, "it runs")
        (disk / "filler").unlink()
        service.end()
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


if __name__ == "__main__":
    main()
