"""Mooncake: a running store, `mooncake_master` and one client over TCP on this machine, at the trace's own speed.

Each capacity has a master and a segment of its own, and all of them run at once: they wait for the trace most of the
time. An object is a page. The calls are those of vLLM's connector: ask for all pages of the prompt, get the leading
run, ask for the rest, put what is missing. A put without room is not tried again.

The store evicts by its clock, so two runs of one trace differ a little.
"""

import ctypes
import itertools
import multiprocessing
import os
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version

# Errors only: a put without room is a warning for every page of it.
os.environ.setdefault("GLOG_minloglevel", "3")

VERSION = version("mooncake-transfer-engine-non-cuda")
OBJECT_BYTES = 65_536
LOCAL_BUFFER_BYTES = 16 << 20
# What a batch of calls says of an object that found no room.
NO_ROOM = -200
# A client that is so much later than the trace measures this machine.
MOST_LATE_SECONDS = 0.5


def free_ports(count):
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def master(settings):
    """A master with these settings; its address."""
    import mooncake

    rpc, metrics = free_ports(2)
    program = os.path.join(os.path.dirname(mooncake.__file__), "mooncake_master")
    options = {
        "rpc_address": "127.0.0.1",
        "rpc_port": rpc,
        "metrics_host": "127.0.0.1",
        "metrics_port": metrics,
        "default_kv_lease_ttl": settings["lease_ms"],
        "eviction_high_watermark_ratio": settings["watermark"],
        "eviction_ratio": settings["eviction_ratio"],
    }
    with tempfile.TemporaryFile() as log:
        command = [program, *(f"--{name}={value}" for name, value in options.items())]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            began = time.monotonic()
            while not listens(rpc):
                if process.poll() is not None or time.monotonic() > began + 20:
                    log.seek(0)
                    raise SystemExit(f"mooncake_master does not listen: {log.read().decode()[-2000:]}")
                time.sleep(0.05)
            yield f"127.0.0.1:{rpc}"
        finally:
            process.terminate()
            process.wait(20)


class Client:
    """A client with the store's one segment and a page of memory that all objects are copied from and to."""

    def __init__(self, address, capacity):
        from mooncake.store import MooncakeDistributedStore

        self.store = MooncakeDistributedStore()
        size = capacity * OBJECT_BYTES
        error = self.store.setup("127.0.0.1", "P2PHANDSHAKE", size, LOCAL_BUFFER_BYTES, "tcp", "", address)
        if error:
            raise SystemExit(f"the client cannot give the store {size} bytes: error {error}")
        self.page = ctypes.create_string_buffer(OBJECT_BYTES)
        self.address = ctypes.addressof(self.page)
        if error := self.store.register_buffer(self.address, OBJECT_BYTES):
            raise SystemExit(f"the client cannot use its own memory: error {error}")

    def ask(self, keys):
        answers = self.store.batch_is_exist(keys) if keys else []
        if any(answer < 0 for answer in answers):
            raise SystemExit(f"the store does not answer: {answers}")
        return [answer == 1 for answer in answers]

    def memory(self, keys):
        return keys, [self.address] * len(keys), [OBJECT_BYTES] * len(keys)

    def serve(self, keys):
        """Asks for, gets and puts the pages of one request; pages found."""
        found = sum(1 for _ in itertools.takewhile(bool, self.ask(keys)))
        got = self.store.batch_get_into(*self.memory(keys[:found])) if found else []
        if any(size != OBJECT_BYTES for size in got):
            raise SystemExit(f"an object that is leased cannot be read: {got}")
        rest = keys[found:]
        missing = [key for key, there in zip(rest, self.ask(rest)) if not there]
        errors = self.store.batch_put_from(*self.memory(missing)) if missing else []
        if any(error not in (0, NO_ROOM) for error in errors):
            raise SystemExit(f"the store takes no objects: {errors}")
        return found


def drive(requests, settings, capacity):
    """Pages each request found in the store, in order."""
    with master(settings) as address:
        client = Client(address, capacity)
        try:
            hits, latest = [], 0.0
            burst_ms = settings.get("burst_ms", 1)
            times = [request.time_ms // burst_ms * burst_ms / 1000 for request in requests]
            began = time.monotonic() - times[0]
            for request, at in zip(requests, times):
                wait = began + at - time.monotonic()
                latest = max(latest, -wait)
                if wait > 0:
                    time.sleep(wait)
                hits.append(client.serve([f"page-{page}" for page in request.pages]))
            print(f"{capacity} pages: at most {latest * 1000:.0f} ms later than the trace", flush=True)
            if latest > MOST_LATE_SECONDS:
                raise SystemExit("this machine is too busy to keep to the trace's speed")
            return hits
        finally:
            client.store.close()


def drive_all(requests, settings, capacities):
    """The same at every capacity, at once."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(capacities), mp_context=spawned) as pool:
        runs = [pool.submit(drive, requests, settings, capacity) for capacity in capacities]
        return [run.result() for run in runs]
