"""Events through a real broker that is killed and started again meanwhile."""

import asyncio
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid

from compare import replay, said_and_written
from runs import AGENTS
from server import connector, serving
from workload import run

BLOCKS = 900
WORKLOAD = dataclasses.replace(AGENTS, sessions=30)
RUN_SECONDS = 20


def create_topic(brokers, topic):
    from confluent_kafka.admin import AdminClient, NewTopic

    # The client must outlive its answers.
    client = AdminClient({"bootstrap.servers": brokers})
    for created in client.create_topics([NewTopic(topic, 3, 1)]).values():
        created.result(60)


def read_topic(brokers, topic):
    """All records of a topic, each with its key."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": brokers, "group.id": str(uuid.uuid4()), "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    records, ended = [], 0
    while ended < len(partitions):
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("the broker gives no end of the topic")
        if message.error():
            ended += 1
            continue
        records.append((message.key().decode(), json.loads(message.value())))
    consumer.close()
    return records


async def served_while_killed(address):
    """Runs the workload; the broker is killed half a minute into it, and started again."""
    control = os.environ.get("KVSET_TEST_BROKER_CONTROL")

    async def kill():
        if control is None:
            print("left out, for the broker is not this script's: killing it", file=sys.stderr)
            return
        await asyncio.sleep(30)
        process = await asyncio.create_subprocess_exec(control, "restart", "--kill", stdout=subprocess.DEVNULL)
        if await process.wait() != 0:
            raise SystemExit("the broker does not come back")

    return (await asyncio.gather(run(WORKLOAD, address), kill()))[0]


def service_estimates(kvset, brokers, topic, folder, longest_ms):
    """The estimates of a topic by key: of `kvset backfill`, which ends with it, and of `kvset run`, which waits for more."""
    settings = {
        "KAFKA__BROKERS": brokers,
        "KAFKA__GROUP": topic,
        "INPUT__TOPIC": topic,
        "OUTPUT__TOPIC": f"{topic}.live",
        "OUTPUT__DEAD_LETTER_TOPIC": f"{topic}.dead-letters",
        "STATE__DIRECTORY": str(folder / "state"),
        "HTTP__LISTEN": "127.0.0.1:0",
        "ESTIMATE__ENGINE": "vllm",
        "ESTIMATE__CAPACITIES": f"{BLOCKS}p",
        "ESTIMATE__WINDOWS": "all",
        # The workload lasts half a minute.
        "ESTIMATE__PUBLISH_EVERY": "2s",
        "ESTIMATE__GRACE": "1s",
        "ESTIMATE__HOLD_BACK": f"{longest_ms // 1000 + 1}s",
    }
    environment = os.environ | {f"KVSET__{name}": value for name, value in settings.items()}
    backfill = [kvset, "backfill", "--from=earliest", "--create-topics", f"--output-topic={topic}.whole", "--run-id=live"]
    subprocess.run(backfill, env=environment, check=True, stdout=subprocess.DEVNULL)
    live = subprocess.Popen([kvset, "run", "--create-topics"], env=environment, stdout=subprocess.DEVNULL)
    time.sleep(RUN_SECONDS)
    live.send_signal(signal.SIGINT)
    if live.wait(60) != 0:
        raise SystemExit("kvset run does not end in order")
    return dict(read_topic(brokers, f"{topic}.whole")), dict(read_topic(brokers, f"{topic}.live"))


def compare_estimates(whole, live, hits):
    """What is wrong with the service's estimates: those of both ways differ, or say other hits than the replay."""
    faults = [f"kvset run and kvset backfill differ in {key}" for key, estimate in live.items() if whole.get(key) != estimate]
    for key, estimate in whole.items():
        found = next(point["page_hits"] for point in estimate["capacities"] if point["pages"] == BLOCKS)
        if found != sum(hits[: estimate["requests"]]):
            faults.append(f"the service and the replay differ in {key}")
    return faults if live and whole else ["the service has no estimate"]


def run_and_compare(home):
    brokers = os.environ.get("KVSET_TEST_BROKERS")
    if not brokers:
        raise SystemExit("no broker: run me as scripts/kafka.sh run -- scripts/engines/live.sh --kafka")
    topic = f"live-{uuid.uuid4().hex[:8]}"
    folder = home / "runs" / "kafka"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    create_topic(brokers, topic)
    transfer = connector(path=str(folder / "events"), topic=topic, kafka={"bootstrap.servers": brokers})
    with serving(folder, BLOCKS, transfer) as server:
        client, _ = asyncio.run(served_while_killed(server.address))
    records = read_topic(brokers, topic)
    events = [event for _, event in records]
    written = [json.loads(line) for file in sorted((folder / "events").iterdir()) for line in file.open()]
    faults = said_and_written(client.answers, events)
    if any(key != event["pool"] for key, event in records):
        faults.append("a record is not keyed by its pool")
    if events != written:
        faults.append("the topic and the files differ")
    for name, rows in (("topic", events), ("files", written)):
        rows.sort(key=lambda event: event["event_time"])
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in rows))
    kvset = os.environ["KVSET"]
    hits, *_ = replay(kvset, folder / "topic.jsonl", BLOCKS)
    whole, live = service_estimates(kvset, brokers, topic, folder, max(event["duration_ms"] for event in events))
    faults += compare_estimates(whole, live, hits)
    if (hits, sum(hits) > 0) != (replay(kvset, folder / "files.jsonl", BLOCKS)[0], True):
        faults.append("a replay of the topic is not that of the files")
    found = f"{len(client.answers)} answers, {len(events)} events in the topic, none twice or lost"
    most = max(estimate["requests"] for estimate in whole.values())
    found += f"; {len(whole)} estimates of kvset backfill, {len(live)} of them of kvset run too, have the replay's hits; "
    found += f"the last is of {most} requests, which hit {sum(hits[:most])} blocks"
    print("\n".join(faults) or found)
    return bool(faults)
