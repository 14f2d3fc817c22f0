"""Events through a real broker that is killed and started again meanwhile."""

import asyncio
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import uuid

from compare import replay, said_and_written
from runs import AGENTS
from server import connector, serving
from workload import run

BLOCKS = 900
WORKLOAD = dataclasses.replace(AGENTS, sessions=30)


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


def service_hits(kvset, brokers, topic, folder):
    """The requests of the service's last estimate over all of them, and the blocks that it says they hit."""
    output = f"{topic}.estimates"
    settings = {
        "KAFKA__BROKERS": brokers,
        "INPUT__TOPIC": topic,
        "ESTIMATE__ENGINE": "vllm",
        "ESTIMATE__CAPACITIES": f"{BLOCKS}p",
        "ESTIMATE__WINDOWS": "all",
    }
    command = [kvset, "backfill", "--from=earliest", "--create-topics", f"--output-topic={output}"]
    command += [f"--state-dir={folder / 'state'}", "--run-id=live"]
    environment = os.environ | {f"KVSET__{name}": value for name, value in settings.items()}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    last = max((estimate for _, estimate in read_topic(brokers, output)), key=lambda estimate: estimate["end_ms"])
    return last["requests"], next(point["page_hits"] for point in last["capacities"] if point["pages"] == BLOCKS)


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
    hits, _ = replay(kvset, folder / "topic.jsonl", BLOCKS)
    requests, by_service = service_hits(kvset, brokers, topic, folder)
    if by_service != sum(hits[:requests]) or not by_service:
        faults.append("the service's estimate of the topic is not the replay's")
    if (hits, sum(hits) > 0) != (replay(kvset, folder / "files.jsonl", BLOCKS)[0], True):
        faults.append("a replay of the topic is not that of the files")
    found = f"{len(client.answers)} answers, {len(events)} events in the topic, none twice or lost"
    found += f"; {by_service} blocks hit by the first {requests}, by the service as by the replay"
    print("\n".join(faults) or found)
    return bool(faults)
