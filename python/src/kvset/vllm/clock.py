"""Whole milliseconds that keep the order in which the scheduler looked requests up and finished them."""

MOST_AHEAD_MS = 1_000


class EventClock:
    """Turns wall-clock times into milliseconds for events.

    Events carry whole milliseconds, and a scheduler looks several requests up within one. Of two events at one moment a
    replay takes look-ups before finishes, and look-ups in the order of their lines, which are written at the finish. So a
    look-up gets a millisecond of its own, after whatever was before it, and a finish none before its predecessor. In a burst
    the clock runs ahead of the wall, by a second at most; from there on look-ups share a millisecond.
    """

    def __init__(self) -> None:
        self._last_ms = 0

    def looked_up(self, seconds: float) -> int:
        """The moment of a look-up, in milliseconds."""
        now = int(seconds * 1000)
        last = self._last_ms
        if now > last:
            self._last_ms = now
        elif last - now < MOST_AHEAD_MS:
            self._last_ms = last + 1
        elif last - now > 2 * MOST_AHEAD_MS:
            # The wall clock was set back.
            self._last_ms = now
        return self._last_ms

    def finished(self, seconds: float) -> int:
        """The moment of a finish, in milliseconds."""
        now = int(seconds * 1000)
        if now > self._last_ms:
            self._last_ms = now
        return self._last_ms
