"""What the connector costs: the server's throughput and processor time with and without it, time on the scheduler's thread, memory
while a broker is away."""

import asyncio
import logging
import os
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

REQUESTS, AT_ONCE, PROMPT, OUTPUT = 600, 24, 400, 8
ROUNDS = 3
BROKER_AWAY_SECONDS = 600


def processor_seconds(group):
    """What the processes of a group have taken so far: seconds on processors."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # Behind the name, which is in brackets and may hold anything.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def throughput(address, group):
    """Requests a second, of prompts that share half of their tokens, and the server's processor seconds a thousand requests."""
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
        began, spent = time.monotonic(), processor_seconds(group)
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        seconds, spent = time.monotonic() - began, processor_seconds(group) - spent
        return (REQUESTS - AT_ONCE) / seconds, 1000 * spent / (REQUESTS - AT_ONCE)


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


def rounds(home):
    """Requests a second and processor seconds a thousand requests, of each alternating round, without the connector and with it."""
    found = {False: [], True: []}
    for number in range(2 * ROUNDS):
        is_on = number % 2 == 1
        folder = home / "runs" / "cost"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        transfer = connector(path=str(folder / "events")) if is_on else None
        with serving(folder, 2_000, transfer) as server:
            rate, spent = asyncio.run(throughput(server.address, server.group))
        found[is_on].append((rate, spent))
        name = "with" if is_on else "without"
        print(f"{name}: {rate:.1f} requests a second, {spent:.2f} processor seconds a thousand", flush=True)
    return found


def measure(home):
    """Prints all three."""
    mean, median, p99 = calls()
    print(f"scheduler's thread: {mean:.1f} us a request of 250 pages (median {median:.1f}, 99 % {p99:.1f})", flush=True)
    found = rounds(home)
    for index, what in enumerate(["requests a second", "processor seconds"]):
        without, own = (statistics.mean(each[index] for each in found[is_on]) for is_on in (False, True))
        print(f"{what} with the connector: {own / without - 1:+.1%} on average", flush=True)
    most, offered, dropped = memory()
    print(f"no broker for {BROKER_AWAY_SECONDS} s: {most:.0f} MiB at most, {dropped:,} of {offered:,} events dropped")
    return False
