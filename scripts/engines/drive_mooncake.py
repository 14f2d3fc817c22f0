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
        self.skipped = set()

    def ask(self, keys):
        answers = self.store.batch_is_exist(keys) if keys else []
        if any(answer < 0 for answer in answers):
            raise SystemExit(f"the store does not answer: {answers}")
        return [answer == 1 for answer in answers]

    def memory(self, keys):
        return keys, [self.address] * len(keys), [OBJECT_BYTES] * len(keys)

    def load(self, keys):
        """Asks for all pages and gets the leading run of those that are there; how many they are."""
        found = sum(1 for _ in itertools.takewhile(bool, self.ask(keys)))
        got = self.store.batch_get_into(*self.memory(keys[:found])) if found else []
        if any(size != OBJECT_BYTES for size in got):
            raise SystemExit(f"an object that is leased cannot be read: {got}")
        return found

    def save(self, keys):
        """Asks for the pages and puts what is missing; whether all of it found room."""
        missing = [key for key, there in zip(keys, self.ask(keys)) if not there]
        errors = self.store.batch_put_from(*self.memory(missing)) if missing else []
        if any(error not in (0, NO_ROOM) for error in errors):
            raise SystemExit(f"the store takes no objects: {errors}")
        if missing and not any(errors):
            self.skipped.clear()
        return not any(errors)

    def serve(self, keys):
        """Asks for, gets and puts the pages of one request; pages found."""
        found = self.load(keys)
        self.save(keys[found:])
        return found


class Pace:
    """The clock of the trace, from its first moment on."""

    def __init__(self, first):
        self.began, self.latest = time.monotonic() - first, 0.0

    def wait_for(self, at):
        wait = self.began + at - time.monotonic()
        self.latest = max(self.latest, -wait)
        if wait > 0:
            time.sleep(wait)


def serve_in_turn(client, requests, settings):
    """Serves one request after another at its time, or at the beginning of its burst."""
    burst_ms = settings.get("burst_ms", 1)
    times = [request.time_ms // burst_ms * burst_ms / 1000 for request in requests]
    pace, hits = Pace(times[0]), []
    for request, at in zip(requests, times):
        pace.wait_for(at)
        hits.append(client.serve(keys_of(request)))
    return hits, pace.latest


class Prompt:
    """The prompt of a request that was looked up, as far as it was computed and saved."""

    def __init__(self, request, found, step):
        self.keys, self.length = keys_of(request), request.prompt_length
        self.page_size = request.page_size
        # The last token is computed in any case.
        self.computed = min(found * request.page_size, request.prompt_length - 1)
        self.saved = 0
        # What was found is loaded meanwhile.
        self.first_step = step + (1 if found else 0)

    def compute(self, client, tokens):
        """Ends a step that computes so many tokens; whether that was the last."""
        self.computed = min(self.computed + tokens, self.length)
        pages = self.computed // self.page_size
        # One whose pages found no room puts no more until those of another have found some.
        if pages > self.saved and self not in client.skipped:
            if client.save(self.keys[self.saved : pages]):
                self.saved = pages
            else:
                client.skipped.add(self)
        return self.computed == self.length


def serve_together(client, requests, settings):
    """Serves requests that overlap, each from the first step that begins at its time or later."""
    step_ms, chunk = settings["step_ms"], settings.get("prefill_chunk_tokens", 1 << 30)
    waiting = [(-(-request.time_ms // step_ms), request) for request in requests]
    pace, hits, prompts, step = Pace(waiting[0][0] * step_ms / 1000), [], [], 0
    while waiting or prompts:
        step = step if prompts else waiting[0][0]
        pace.wait_for(step * step_ms / 1000)
        # What the step before computed.
        prompts = [each for each in prompts if each.first_step >= step or not each.compute(client, chunk)]
        while waiting and waiting[0][0] <= step:
            request = waiting.pop(0)[1]
            hits.append(client.load(keys_of(request)))
            prompts.append(Prompt(request, hits[-1], step))
        step += 1
    return hits, pace.latest


def keys_of(request):
    return [f"page-{page}" for page in request.pages]


def drive(requests, settings, capacity):
    """Pages each request found in the store, in order."""
    with master(settings) as address:
        client = Client(address, capacity)
        try:
            serve = serve_together if "step_ms" in settings else serve_in_turn
            hits, latest = serve(client, requests, settings)
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
