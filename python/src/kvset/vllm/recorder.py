"""Takes finished requests off the scheduler's thread, and events to their sinks."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from .tracking import Finished

# How long events wait for others to be written with. A thread that wakes by itself costs the scheduler no signal.
PAUSE_SECONDS = 0.05
# How often losses are told of.
REPORT_SECONDS = 60.0
MOST_AT_ONCE = 256

Answer = TypeVar("Answer")


class Sink(Protocol):
    """Where events go. Its calls come from one thread; they may raise, and must come back soon."""

    fault: str
    """Why it refused or lost events the last time it did without raising; empty where it never did."""

    def write(self, events: Sequence[bytes]) -> int:
        """Writes events, lines of JSON without their ends; returns how many it refused."""
        ...

    def lost(self) -> int:
        """How many events it had taken and lost since it was asked last."""
        ...

    def close(self, seconds: float) -> None:
        """Writes what waits, for so long at most."""


class Recorder:
    """A bounded queue, and a thread that empties it.

    `offer` is all that the scheduler's thread calls: it appends to a queue, or counts a loss where that is full, and waits for
    nothing. Whatever fails behind it is counted, and told of once a minute at most.
    """

    def __init__(
        self,
        encode: Callable[[Finished], bytes],
        sinks: Sequence[Sink],
        queue_bytes: int,
        logger: logging.Logger,
    ) -> None:
        self._encode = encode
        self._sinks = sinks
        self._limit = queue_bytes
        self._logger = logger
        self._queue: deque[tuple[Finished, int]] = deque()
        # Each is written by one thread only.
        self._bytes_in = self._bytes_out = 0
        self._offered = self._dropped_full = 0
        self._dropped_behind = self._written = 0
        self._reason = ""
        self._reported = 0
        self._report_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvset-events", daemon=True)
        self._thread.start()

    def offer(self, finished: Finished) -> None:
        """Queues an event, or counts it as dropped."""
        size = finished.bytes
        self._offered += 1
        if self._bytes_in - self._bytes_out + size > self._limit:
            self._dropped_full += 1
            return
        self._bytes_in += size
        self._queue.append((finished, size))

    @property
    def waiting_bytes(self) -> int:
        """Memory of what no sink has taken yet, in bytes."""
        return self._bytes_in - self._bytes_out

    def counts(self) -> dict[str, int]:
        """Events so far: `offered`, `written` (once for each sink), and `dropped`."""
        dropped = self._dropped_full + self._dropped_behind
        return {"offered": self._offered, "written": self._written, "dropped": dropped}

    def close(self, seconds: float = 5.0) -> None:
        """Writes what waits, for so long at most, and ends the thread."""
        self._stop.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            self._drain()
            self._report()
        self._drain()
        for sink in self._sinks:
            self._guard(partial(sink.close, 2.0))
        self._drain_losses()
        self._report(is_last=True)

    def _drain(self) -> None:
        while self._queue:
            lines: list[bytes] = []
            size = 0
            while self._queue and len(lines) < MOST_AT_ONCE:
                finished, taken = self._queue.popleft()
                size += taken
                line = self._guard(partial(self._encode, finished))
                if line is not None:
                    lines.append(line)
                else:
                    self._dropped_behind += 1
                # Lets the scheduler's thread go on, which may wait for the interpreter.
                time.sleep(0)
            for sink in self._sinks:
                refused = self._guard(partial(sink.write, lines))
                refused = len(lines) if refused is None else refused
                self._dropped_behind += refused
                self._written += len(lines) - refused
            self._bytes_out += size
        self._drain_losses()

    def _drain_losses(self) -> None:
        for sink in self._sinks:
            lost = self._guard(sink.lost) or 0
            self._dropped_behind += lost
            self._written -= lost

    def _guard(self, call: Callable[[], Answer]) -> Answer | None:
        """Calls; None where that fails, whose reason is kept for the report."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001: whatever a sink raises must not end the thread
            self._reason = reason_of(error)
            return None

    def _report(self, is_last: bool = False) -> None:
        """Logs what was dropped, where that is more than was logged, a minute after the last time."""
        counts, now = self.counts(), time.monotonic()
        is_due = counts["dropped"] > self._reported and now >= self._report_at
        if not is_due and not is_last:
            return
        self._reported, self._report_at = counts["dropped"], now + REPORT_SECONDS
        level = logging.WARNING if counts["dropped"] else logging.INFO
        faults = [reason for reason in [self._reason, *(sink.fault for sink in self._sinks)] if reason]
        why = f"; last faults: {', '.join(faults)}" if faults else ""
        words = "kvset: of %d request events %d were written and %d dropped%s"
        self._logger.log(level, words, counts["offered"], counts["written"], counts["dropped"], why)


def reason_of(error: BaseException) -> str:
    """An error in words that quote no payload."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__
