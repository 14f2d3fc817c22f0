"""Names of replicas that no two servers of one host share."""

import errno
import hashlib
import itertools
import socket


class ClaimedName:
    """A replica's name, this server's until it is released or its process ends.

    Servers that each have a cache of their own may be given one name: of the host where several run on it, or by a
    configuration that all of them read. The first keeps it, the next is `NAME-server2`. An abstract socket holds a
    name: it is seen by whoever shares the host's network, leaves no file, and ends with its process.
    """

    def __init__(self, wanted: str) -> None:
        self.name = wanted
        self._socket: socket.socket | None = None
        if not hasattr(socket, "AF_UNIX"):
            return
        for number in itertools.count(1):
            self.name = wanted if number == 1 else f"{wanted}-server{number}"
            holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                holder.bind(_address(self.name))
            except OSError as error:
                holder.close()
                if error.errno == errno.EADDRINUSE:
                    continue
                # No such sockets here: the name is taken on trust.
                self.name = wanted
                return
            self._socket = holder
            return

    def release(self) -> None:
        """Leaves the name to others."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _address(name: str) -> bytes:
    digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"kvset-replica").hexdigest()
    return b"\0kvset-replica-" + digest.encode()
