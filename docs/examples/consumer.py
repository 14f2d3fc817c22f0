#!/usr/bin/env python3
"""Resizes caches: runs COMMAND POOL BYTES where a pool needs more than it has, or has needed much less for a day.

    pip install confluent-kafka
    python consumer.py localhost:9092 kvset.estimates ./resize.sh
"""

import json
import signal
import subprocess
import sys
import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

HOUR = 3_600_000


class Pool:
    """The newest number to hold, and the size that the pool was given."""

    def __init__(self):
        self.ends, self.to_act_on, self.size = {}, None, 0

    def take(self, estimate):
        self.ends[estimate["partition"]] = estimate["end_ms"]
        for entry in estimate["recommended"]:
            # One number of one window is the one to act on. What is held of it rises at once, and falls after a day.
            if entry.get("act_on") and entry.get("held_pages") is not None and not estimate["warm_up"]:
                self.to_act_on = entry

    def wanted(self):
        """The size to resize to, or why there is none, or neither."""
        if self.to_act_on is None:
            return None, None
        size = self.to_act_on.get("held_bytes")
        if size is None:  # Pages are no bytes: nothing says how large one is.
            return None, "has no bytes: set estimate.kv_bytes_per_token"
        newest = max(self.ends.values())
        if sum(end > newest - HOUR for end in self.ends.values()) > 1:  # No number is of the whole pool.
            return None, f"is in partitions {sorted(self.ends)}"
        if size > self.size:  # By a third at least, so that a slow rise takes few steps.
            return max(size, self.size * 4 // 3), None
        return (size if size < self.size * 2 // 3 else None), None


def main():
    stopped = threading.Event()  # Looked at between records: what runs meanwhile is not broken off.
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    brokers, topic, *command = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "kvset-resize",
                         "isolation.level": "read_committed", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions or sys.exit(f"no topic {topic}")
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    pools, told = {}, {}
    while not stopped.is_set():
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None and message.value() is not None:
            estimate = json.loads(message.value())
            pools.setdefault(estimate["pool"], Pool()).take(estimate)
        elif message.error() is not None and message.error().code() != KafkaError._PARTITION_EOF:
            sys.exit(str(message.error()))
        elif message.error() is not None:  # Caught up.
            for name, pool in pools.items():
                size, why = pool.wanted()
                if why and told.get(name) != why:
                    print(f"{name} {why}: not resized", file=sys.stderr)
                told[name] = why
                if size is not None:
                    subprocess.run([*command, name, str(size)], check=True)
                    pool.size = size


if __name__ == "__main__":
    main()
