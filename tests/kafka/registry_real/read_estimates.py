"""Reads a topic of estimates as a consumer in Python would: Confluent's Avro deserialiser, which takes the
schema from the registry by the id in front of each record. Writes one JSON object a record.

    read_estimates.py BROKERS TOPIC PARTITIONS RECORDS REGISTRY
"""

import json
import sys
import time
from datetime import datetime, timedelta, timezone

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

SECONDS = 60
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def milliseconds(moment):
    """The schema's timestamp-millis, which the deserialiser gives as a moment."""
    if not isinstance(moment, datetime):
        raise TypeError(f"{moment!r} is no moment")
    return (moment - EPOCH) // timedelta(milliseconds=1)


brokers, topic, partitions, records, registry = sys.argv[1:]
deserialise = AvroDeserializer(SchemaRegistryClient({"url": registry}))
consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reader", "isolation.level": "read_committed"})
consumer.assign([TopicPartition(topic, number, 0) for number in range(int(partitions))])
wanted, until = int(records), time.monotonic() + SECONDS
while wanted > 0:
    if time.monotonic() > until:
        sys.exit(f"{wanted} records of {topic} did not come within {SECONDS} s")
    message = consumer.poll(0.2)
    if message is None:
        continue
    if message.error():
        sys.exit(f"reading {topic}: {message.error()}")
    value = deserialise(message.value(), SerializationContext(topic, MessageField.VALUE))
    record = {"partition": message.partition(), "offset": message.offset(), "value": value}
    print(json.dumps(record, default=milliseconds))
    wanted -= 1
consumer.close()
