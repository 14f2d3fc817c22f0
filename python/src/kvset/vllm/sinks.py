"""Where events go: files of JSON lines, and a Kafka topic."""

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .settings import FileSettings, KafkaSettings, SettingsError

# After a failure, so that a full disk is not asked for each event.
RETRY_SECONDS = 1.0


class FileSink:
    """Files of JSON lines in a folder, which a replay reads in any order. A file never ends within a line.

    Names are `requests-REPLICA-START-NUMBER.jsonl`: of one replica they sort by time. The oldest are removed. A file
    that somebody else removed is followed by the next one, and a folder is made again.
    """

    def __init__(self, settings: FileSettings, replica: str) -> None:
        self._settings = settings
        self._prefix = f"requests-{replica}-"
        self._own = re.compile(re.escape(self._prefix) + r"\d{13}-\d{6}\.jsonl")
        self._start = f"{int(time.time() * 1000):013d}"
        self._number = 0
        self._file: int | None = None
        self._path = settings.folder
        self._bytes = 0
        self._retry_at = 0.0
        self.fault = ""

    def write(self, events: Sequence[bytes]) -> int:
        if not events:
            return 0
        if time.monotonic() < self._retry_at:
            return len(events)
        lines = b"".join([line + b"\n" for line in events])
        try:
            if not self._has_room(len(lines)):
                self._rotate()
            self._append(lines)
        except OSError:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            raise
        return 0

    def _has_room(self, more: int) -> bool:
        """Whether the file takes so many bytes more: it is open, still has its name, and its size allows for them."""
        if self._file is None:
            return False
        try:
            # By its name: a file that was removed over a network keeps a link of another name.
            self._bytes = os.stat(self._path).st_size
        except FileNotFoundError:
            return False
        return self._bytes + more <= self._settings.file_bytes

    def _append(self, lines: bytes) -> None:
        """Appends whole lines, or none of them."""
        assert self._file is not None
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._file, lines[written:])
        except OSError:
            os.ftruncate(self._file, self._bytes)
            raise
        self._bytes += written

    def _rotate(self) -> None:
        self.close(0)
        self._settings.folder.mkdir(parents=True, exist_ok=True)
        while self._file is None:
            self._number += 1
            self._path = self._settings.folder / f"{self._prefix}{self._start}-{self._number:06d}.jsonl"
            # A sink of this replica that began in the same millisecond has files of these names.
            with contextlib.suppress(FileExistsError):
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._bytes = 0
        for old in self._files()[: -self._settings.files]:
            old.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        found = [path for path in self._settings.folder.iterdir() if self._own.fullmatch(path.name)]
        return sorted(found, key=lambda path: path.name)

    def lost(self) -> int:
        return 0

    def close(self, seconds: float) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class KafkaSink:
    """A topic of request events in JSON, keyed by pool. librdkafka sends them from threads of its own, from a bounded queue."""

    def __init__(self, settings: KafkaSettings, pool: str, producer: Any = None) -> None:
        self._topic = settings.topic
        self._key = pool.encode()
        self._lost = 0
        self.fault = ""
        self._producer = producer if producer is not None else _producer(settings.properties)

    def write(self, events: Sequence[bytes]) -> int:
        refused = 0
        for event in events:
            try:
                self._producer.produce(self._topic, event, self._key, on_delivery=self._delivered)
            except Exception as error:  # noqa: BLE001: one event that is refused says nothing of the others
                refused += 1
                self.fault = "the client's queue is full" if isinstance(error, BufferError) else _name(error)
        self._producer.poll(0)
        return refused

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._lost += 1
            self.fault = _name(error)

    def lost(self) -> int:
        self._producer.poll(0)
        lost, self._lost = self._lost, 0
        return lost

    def close(self, seconds: float) -> None:
        # What is still there is told to nobody once the process ends.
        self._lost += self._producer.flush(seconds)


def _name(error: Any) -> str:
    """What the client calls an error; its words may quote more."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    name = getattr(inner, "name", None)
    return str(name()) if callable(name) else type(error).__name__


def _producer(properties: Mapping[str, Any]) -> Any:
    """A client; raises SettingsError where the library is missing or refuses a property."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise SettingsError("Kafka needs confluent-kafka: pip install 'kvset[kafka]'") from error
    defaults = {
        "client.id": "kvset-vllm",
        # One partition a pool, the one that kvset's own producers choose.
        "partitioner": "murmur2_random",
        # Keeps the order, and writes nothing twice.
        "enable.idempotence": True,
        "compression.type": "zstd",
        "linger.ms": 100,
        "message.max.bytes": 16 << 20,
        "queue.buffering.max.kbytes": 64 << 10,
        # The client would log each attempt to reach a broker that is away; what is lost is reported all the same.
        "log_level": 2,
    }
    try:
        return confluent_kafka.Producer(defaults | dict(properties))
    except confluent_kafka.KafkaException as error:
        # Its words name the property, and may quote the value.
        named = re.search(r'property:? "([^"]+)"', str(error))
        what = f"the property {named[1]} or its value" if named else f"its properties ({_name(error)})"
        raise SettingsError(f"the Kafka client refuses {what}: see librdkafka's list of properties") from None
