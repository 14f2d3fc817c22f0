#!/usr/bin/env python3
"""What an operator lives through with kvset, step by step, on a real Kafka.

    scripts/kafka.sh run -- python3 scripts/operators_life.py [PROGRAM]

Start, load, kill, second instance, scale down, change of configuration, broker away, full disk, topic made anew,
backfill. Each step prints what the operator does and what kvset says, checks what must be true, and ends the script with
exit code 1 if it is not. PROGRAM is target/debug/kvset unless given. Topics, group and files are the run's own; the
directory with all configurations, logs and snapshots is named at the end.

The broker is only disturbed, and the topic only made anew, where scripts/kafka.sh started the broker (from Maven's
artifacts). The disk is only filled as root on Linux, where a small file system can be mounted.
"""

import atexit
import json
import os
import pathlib
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
    print(f"\n== {title}\n   {does}", flush=True)


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

    def metric(self, name):
        """The sum of a metric's samples."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

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


def finals(topic=None):
    """The last final estimate of each pool and window."""
    options = ["--topic", topic] if topic else []
    lines = kvset("watch", "--from-beginning", "--until-end", "--json", *options).splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return {
        (record["pool"], record["window"], record["end_ms"]): record
        for record in records
        if record["status"] == "final"
    }


def admin(*arguments):
    """Kafka's own tool for topics."""
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{KAFKA}/libs/*"]
    command += ["org.apache.kafka.tools.TopicCommand", "--bootstrap-server", BROKERS, *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


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
