#!/usr/bin/env python3
"""Keeps the newest final estimate of every pool, and prints what its recommendation is.

    pip install confluent-kafka
    python consumer.py --brokers localhost:9092 --topic kvset.estimates --window tumbling:5m

Reads committed records only, upserts by key, and ignores provisional estimates. With --until-end it stops at
what is the end of the topic now.
"""

import argparse
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition


def recommendation(estimate, coverage):
    """Bytes (or pages, without a cost a token) that cover this share of the requests; None beyond the bound."""
    for entry in estimate["required"][0]["coverage"]:
        if float(entry["coverage"]) == coverage:
            return entry["bytes"] if entry["bytes"] is not None else entry["pages"]
    return None


def upsert(table, key, value, window):
    """Keeps the estimate if it is final, of the window asked for, and not older than the pool's known one."""
    if value is None:  # A tombstone: what had this key was deleted.
        for pool in [pool for pool, (known_key, _) in table.items() if known_key == key]:
            del table[pool]
        return None
    estimate = json.loads(value)
    if estimate["status"] != "final" or estimate["window"] != window or estimate["warm_up"]:
        return None
    pool = estimate["pool"]
    _, known = table.get(pool, (None, None))
    if known and (known["next_offset"], known["end_ms"]) > (estimate["next_offset"], estimate["end_ms"]):
        return None
    table[pool] = (key, estimate)
    return estimate


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--brokers", default="localhost:9092")
    options.add_argument("--topic", default="kvset.estimates")
    options.add_argument("--window", default="tumbling:5m")
    options.add_argument("--coverage", type=float, default=0.99)
    options.add_argument("--until-end", action="store_true")
    args = options.parse_args()

    consumer = Consumer(
        {
            "bootstrap.servers": args.brokers,
            "group.id": "kvset-recommendations",
            # Estimates of a transaction that was aborted were never published.
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    # The topic is compacted: reading it from the start is how the table is built.
    partitions = consumer.list_topics(args.topic, timeout=30).topics[args.topic].partitions
    if not partitions:
        sys.exit(f"topic {args.topic} does not exist")
    consumer.assign([TopicPartition(args.topic, number, OFFSET_BEGINNING) for number in partitions])

    table, open_partitions = {}, set(partitions)
    while not (args.until_end and not open_partitions):
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            if message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
                continue
            sys.exit(f"reading {args.topic}: {message.error()}")
        estimate = upsert(table, message.key(), message.value(), args.window)
        if estimate and not args.until_end:
            print(estimate["pool"], recommendation(estimate, args.coverage), flush=True)
    for pool, (_, estimate) in sorted(table.items()):
        print(pool, recommendation(estimate, args.coverage))
    consumer.close()


if __name__ == "__main__":
    main()
