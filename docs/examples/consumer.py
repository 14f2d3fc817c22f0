#!/usr/bin/env python3
"""Resizes caches: runs COMMAND POOL BYTES wherever kvset recommends another size for a pool.

    pip install confluent-kafka
    python consumer.py localhost:9092 kvset.estimates ./resize.sh
"""

import json
import signal
import subprocess
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
brokers, topic, *command = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": brokers, "group.id": "kvset-resize",
                     "isolation.level": "read_committed", "enable.partition.eof": True})
partitions = consumer.list_topics(topic, 30).topics[topic].partitions or sys.exit(f"no topic {topic}")
consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
wanted, sizes, ends = {}, {}, {}
while True:
    message = consumer.poll(1)
    if message is None:
        continue
    if message.error() is None and message.value() is not None:
        estimate = json.loads(message.value())
        ends.setdefault(estimate["pool"], {})[estimate["partition"]] = estimate["end_ms"]
        for entry in estimate["recommended"]:
            # One number of one window is the one to act on; it is none while `status` is not `ready`.
            if entry.get("act_on") and entry["status"] == "ready" and not estimate["warm_up"]:
                wanted[estimate["pool"]] = entry["bytes"] or entry["pages"]
    elif message.error() is not None and message.error().code() != KafkaError._PARTITION_EOF:
        sys.exit(str(message.error()))
    elif message.error() is not None:  # Caught up: act on the newest, where it moved by more than a tenth.
        for pool, size in wanted.items():
            newest = sorted(ends[pool].values())[-2:]
            if len(newest) == 2 and newest[1] - newest[0] < 3_600_000:  # Neither number is of the whole pool.
                print(f"{pool} is in partitions {sorted(ends[pool])}: not resized", file=sys.stderr)
            elif abs(size - sizes.get(pool, 0)) > size / 10:
                subprocess.run([*command, pool, str(size)], check=True)
                sizes[pool] = size
