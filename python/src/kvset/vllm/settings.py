"""The settings of the connector in `kv_connector_extra_config`, checked when the engine starts."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
# Properties of the Kafka client whose values are secrets: vLLM prints the configuration when it starts.
_SECRET = re.compile(r"password|secret|\.key$|\.pem$|sasl\.oauthbearer\.config")
_REPLICA = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TENANT = re.compile(r"cache_salt|vllm_xargs:[A-Za-z0-9_.-]{1,64}")


class SettingsError(ValueError):
    """A setting asks for what the connector cannot do. The message names the setting and the cure, never a secret."""


@dataclass(frozen=True)
class FileSettings:
    """A folder of JSON-lines files, which `kvset replay FOLDER/*.jsonl` reads."""

    folder: Path
    file_bytes: int = 64 * MIB
    """Size at which the next file is begun."""
    files: int = 16
    """Files of this replica that are kept; older ones are removed."""


@dataclass(frozen=True)
class KafkaSettings:
    """A topic of request events, keyed by pool."""

    topic: str
    properties: Mapping[str, Any] = field(repr=False)
    """Of librdkafka, secrets filled in."""


@dataclass(frozen=True)
class Settings:
    """All settings of the connector."""

    pool: str
    replica: str
    file: FileSettings | None = None
    kafka: KafkaSettings | None = None
    tenant: str | None = None
    """`cache_salt`, or `vllm_xargs:NAME`: a field of the request's `vllm_xargs`. Written as a hash."""
    request_ids: bool = False
    queue_bytes: int = 64 * MIB
    """Most memory that events take which no sink has taken yet; beyond, events are dropped."""

    @classmethod
    def read(cls, told: Mapping[str, Any], model: str, data_parallel_rank: int | None) -> "Settings":
        """Checks the extra configuration. `model` is the pool where it names none, and the host the replica.

        A data-parallel rank is part of the replica's name in any case: all ranks read one configuration.

        Raises SettingsError.
        """
        values = _Values(told)
        replica = values.text("replica") or host_name()
        if data_parallel_rank is not None:
            replica = f"{replica}-dp{data_parallel_rank}"
        if not _REPLICA.fullmatch(replica):
            raise SettingsError(f"replica is {replica!r}: up to 128 letters, digits, `.`, `_` and `-`")
        tenant = values.text("tenant")
        if tenant is not None and not _TENANT.fullmatch(tenant):
            raise SettingsError(f"tenant is {tenant!r}: `cache_salt`, or `vllm_xargs:NAME`")
        pool = values.text("pool") or model
        if len(pool.encode()) > 256:
            raise SettingsError("pool is longer than 256 bytes: name a shorter one")
        settings = cls(
            pool=pool,
            replica=replica,
            file=_file(values),
            kafka=_kafka(values),
            tenant=tenant,
            request_ids=values.flag("request_ids"),
            queue_bytes=values.count("queue_bytes", 64 * MIB, 1 * MIB),
        )
        values.check_all_read()
        if settings.file is None and settings.kafka is None:
            raise SettingsError("no sink: name a folder with `path`, or a topic with `topic` and `kafka`")
        return settings

    def in_words(self) -> str:
        """The settings in one line, without secrets."""
        sinks = []
        if self.file is not None:
            sinks.append(f"{self.file.folder} ({self.file.files} files of {self.file.file_bytes // MIB} MiB)")
        if self.kafka is not None:
            brokers = self.kafka.properties.get("bootstrap.servers")
            sinks.append(f"topic {self.kafka.topic} at {brokers}")
        tenant = f", tenant from {self.tenant} (hashed)" if self.tenant else ""
        return (
            f"request events of pool {self.pool}, replica {self.replica}{tenant} go to {' and '.join(sinks)}; "
            f"at most {self.queue_bytes // MIB} MiB wait"
        )


def host_name() -> str:
    """The host's name, in characters that a replica's may have."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:100] or "vllm"


def _file(values: "_Values") -> FileSettings | None:
    path = values.text("path")
    file_bytes = values.count("file_bytes", 64 * MIB, MIB)
    files = values.count("files", 16, 1)
    if path is None:
        return None
    folder = _expanded(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"path {path} is no folder that can be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingsError(f"path {path} cannot be written to by the user that runs vLLM")
    return FileSettings(folder, file_bytes, files)


def _expanded(path: str) -> Path:
    """A path as a shell takes it: `~` is the home of who runs vLLM."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise SettingsError(f"{path} begins in a home folder that is not known: write the whole path") from error


def _kafka(values: "_Values") -> KafkaSettings | None:
    topic, told = values.text("topic"), values.mapping("kafka")
    if topic is None and told is None:
        return None
    if topic is None or not (told and told.get("bootstrap.servers")):
        raise SettingsError("Kafka needs both: `topic`, and `kafka` with `bootstrap.servers`")
    return KafkaSettings(topic, {name: _property(name, value) for name, value in told.items()})


def _property(name: str, value: Any) -> Any:
    """A property of the client; `env:NAME` and `file:PATH` stand for what is there."""
    if isinstance(value, str) and value.startswith("env:"):
        found = os.environ.get(value.removeprefix("env:"))
        if found is None:
            raise SettingsError(f"kafka.{name} refers to an environment variable that is not set")
        return found
    if isinstance(value, str) and value.startswith("file:"):
        try:
            return _expanded(value.removeprefix("file:")).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"kafka.{name} refers to a file that cannot be read") from error
    if _SECRET.search(name):
        raise SettingsError(
            f"kafka.{name} is a secret, and vLLM prints its configuration: write `env:NAME` or `file:PATH` in its place"
        )
    if not isinstance(value, (str, int, float, bool)):
        raise SettingsError(f"kafka.{name} is neither a text nor a number")
    return value


class _Values:
    """Settings by name, each of its type; remembers which were read."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told
        self._known: set[str] = set()

    def _get(self, name: str, kind: Any, what: str) -> Any:
        self._known.add(name)
        value = self._told.get(name)
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise SettingsError(f"{name} is no {what}")
        return value

    def text(self, name: str) -> str | None:
        value: str | None = self._get(name, str, "text")
        if value == "":
            raise SettingsError(f"{name} is empty: leave it out, or say something")
        return value

    def flag(self, name: str) -> bool:
        return bool(self._get(name, bool, "true or false"))

    def count(self, name: str, default: int, least: int) -> int:
        value = self._get(name, int, "whole number")
        if value is not None and value < least:
            raise SettingsError(f"{name} is {value}: at least {least}")
        return default if value is None else value

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        value: Mapping[str, Any] | None = self._get(name, Mapping, "object of names and values")
        return value

    def check_all_read(self) -> None:
        unknown = sorted(set(self._told) - self._known)
        if unknown:
            raise SettingsError(f"unknown settings {', '.join(unknown)}; known are {', '.join(sorted(self._known))}")
