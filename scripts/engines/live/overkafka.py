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
    """All events of a topic; keys must name the pool."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": brokers, "group.id": str(uuid.uuid4()), "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    events, ended = [], 0
    while ended < len(partitions):
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("the broker gives no end of the topic")
        if message.error():
            ended += 1
            continue
        event = json.loads(message.value())
        if message.key().decode() != event["pool"]:
            raise SystemExit("a record is not keyed by its pool")
        events.append(event)
    consumer.close()
    return events


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
    with serving(folder, BLOCKS, transfer) as address:
        client, _ = asyncio.run(served_while_killed(address))
    events = read_topic(brokers, topic)
    written = [json.loads(line) for file in sorted((folder / "events").iterdir()) for line in file.open()]
    faults = said_and_written(client.answers, events)
    if events != written:
        faults.append("the topic and the files differ")
    for name, rows in (("topic", events), ("files", written)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in rows))
    kvset = os.environ["KVSET"]
    hits, _ = replay(kvset, folder / "topic.jsonl", BLOCKS)
    if (hits, sum(hits) > 0) != (replay(kvset, folder / "files.jsonl", BLOCKS)[0], True):
        faults.append("a replay of the topic is not that of the files")
    print(f"{len(client.answers)} answers, {len(events)} events in the topic, none twice or lost" if not faults else "\n".join(faults))
    return bool(faults)
