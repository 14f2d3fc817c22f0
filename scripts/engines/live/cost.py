"""What the connector costs: throughput with and without it, time on the scheduler's thread, memory while a broker is away."""

import asyncio
import logging
import random
import resource
import shutil
import statistics
import sys
import time
from pathlib import Path

import aiohttp
from server import connector, serving
from workload import Client, tokens

REQUESTS, AT_ONCE, PROMPT, OUTPUT = 400, 24, 400, 8
ROUNDS = 3
BROKER_AWAY_SECONDS = 60


async def throughput(address):
    """Requests a second, of prompts that share half of their tokens."""
    chance = random.Random(5)
    shared = [tokens(chance, PROMPT // 2) for _ in range(8)]
    prompts = [chance.choice(shared) + tokens(chance, PROMPT // 2) for _ in range(REQUESTS)]
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=600), connector=aiohttp.TCPConnector(limit=0, force_close=True)
    ) as http:
        client, waiting = Client(http, address), iter(prompts)

        async def worker():
            for prompt in waiting:
                await client.ask(prompt, OUTPUT)

        # What is compiled on the way is not counted.
        for _ in range(AT_ONCE):
            await client.ask(next(waiting), OUTPUT)
        began = time.monotonic()
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        return (REQUESTS - AT_ONCE) / (time.monotonic() - began)


def calls(pages=250):
    """Microseconds that the calls of a request take on the scheduler's thread, while the connector's own thread writes."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/tests"))
    import fakes

    fakes.install()
    import tempfile

    from kvset.vllm import KvsetConnector

    with tempfile.TemporaryDirectory() as folder:
        connector = KvsetConnector(fakes.config({"path": folder}), fakes.Role.SCHEDULER, None)
        requests = [fakes.Request(str(number), 16 * pages, range(pages)) for number in range(5_000)]
        spent = []
        for request in requests:
            began = time.perf_counter()
            fakes.serve(connector, request, cached=16)
            spent.append((time.perf_counter() - began) * 1e6)
            # As far apart as on a busy server.
            time.sleep(0.001)
        connector.shutdown()
        assert connector.counts()["written"] == len(requests), connector.counts()
    spent.sort()
    return statistics.mean(spent), spent[len(spent) // 2], spent[len(spent) * 99 // 100]


def memory():
    """MiB that the connector takes while no broker answers, at up to 500 events of 250 pages a second."""
    from kvset.vllm.events import encode, event_of
    from kvset.vllm.recorder import Recorder
    from kvset.vllm.settings import KafkaSettings, Settings
    from kvset.vllm.sinks import KafkaSink
    from kvset.vllm.tracking import Finished, Followed

    kafka = KafkaSettings("absent", {"bootstrap.servers": "127.0.0.1:1"})
    settings = Settings("pool", "replica", kafka=kafka)
    recorder = Recorder(
        lambda finished: encode(event_of(finished, settings, 16)),
        [KafkaSink(kafka, "pool")],
        settings.queue_bytes,
        logging.getLogger("kvset"),
    )

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

    before, most, number = resident(), 0.0, 0
    until = time.monotonic() + BROKER_AWAY_SECONDS
    while time.monotonic() < until:
        for number in range(number + 1, number + 26):
            hashes = [(number * 1000 + page).to_bytes(32, "little") for page in range(250)]
            recorder.offer(Finished(hashes, 4000, 1, Followed(number, 0, 0, is_admitted=True), number, None, None))
        most = max(most, resident() - before)
        time.sleep(0.05)
    counts = recorder.counts()
    recorder.close()
    return most, number, counts["dropped"]


def measure(home):
    """Prints all three."""
    mean, median, p99 = calls()
    print(f"scheduler's thread: {mean:.1f} us a request of 250 pages (median {median:.1f}, 99 % {p99:.1f})", flush=True)
    most, offered, dropped = memory()
    print(f"no broker for {BROKER_AWAY_SECONDS} s: {most:.0f} MiB at most, {dropped:,} of {offered:,} events dropped", flush=True)
    rates = {False: [], True: []}
    for number in range(2 * ROUNDS):
        is_on = number % 2 == 1
        folder = home / "runs" / "cost"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        transfer = connector(path=str(folder / "events")) if is_on else None
        with serving(folder, 2_000, transfer) as address:
            rates[is_on].append(asyncio.run(throughput(address)))
        print(f"{'with' if is_on else 'without'}: {rates[is_on][-1]:.1f} requests a second", flush=True)
    without, own = (statistics.mean(rates[is_on]) for is_on in (False, True))
    print(f"with the connector {own / without - 1:+.1%} on average")
    return False
