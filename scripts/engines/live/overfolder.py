"""Events through a folder: the server and `kvset run --folder` are killed again and again while both work."""

import asyncio
import collections
import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import aiohttp
from compare import replay
from runs import AGENTS
from server import connector, free_port, serving
from workload import Client, converse

BLOCKS = 900
LIVES = 10
WORKLOAD = dataclasses.replace(AGENTS, sessions=10_000)


class Follower:
    """`kvset run --folder`, started anew after each kill."""

    def __init__(self, kvset, home, events, name):
        self.estimates = home / f"{name}.jsonl"
        self.kills, self.page = 0, f"http://127.0.0.1:{free_port()}"
        settings = {
            "STATE__DIRECTORY": str(home / f"{name}-state"),
            "STATE__CHECKPOINT_EVERY": "1s",
            "COMMIT__EVERY": "100ms",
            "HTTP__LISTEN": self.page.removeprefix("http://"),
            "ESTIMATE__ENGINE": "vllm",
            "ESTIMATE__CAPACITIES": f"{BLOCKS}p",
            "ESTIMATE__WINDOWS": "tumbling:5s,last:100,all",
            "ESTIMATE__PUBLISH_EVERY": "1s",
        }
        self._environment = os.environ | {f"KVSET__{key}": value for key, value in settings.items()}
        self._command = [kvset, "run", "--folder", str(events), "--estimates", str(self.estimates)]
        self._log = home / f"{name}.log"
        self._process = None

    def start(self):
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def kill(self):
        if self._process.poll() is not None:
            raise SystemExit(f"kvset ended by itself:\n{self._log.read_text()}")
        self._process.kill()
        self._process.wait()
        self.kills += 1

    def end(self):
        """Reads to the end of what is there; gives the estimates."""
        with self._log.open("ab") as log:
            subprocess.run([*self._command, "--until-end"], env=self._environment, stdout=log, stderr=log, check=True)
        return self.estimates.read_text().splitlines()

    def has_page(self):
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return urllib.request.urlopen(self.page, timeout=5).status == 200
        return False


async def asked_until_killed(server, seconds, seed, answers):
    """Asks a server until its group is killed with requests in flight."""
    connections = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connections) as http:
        client = Client(http, server.address)
        asking = asyncio.create_task(converse(dataclasses.replace(WORKLOAD, seed=seed), client))
        await asyncio.sleep(seconds)
        os.killpg(server.group, signal.SIGKILL)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError, aiohttp.ClientError):
            await asking
        # Those of turns that asked two questions.
        left = [task for task in asyncio.all_tasks() if task.get_coro().__name__ == "ask"]
        await asyncio.gather(*left, return_exceptions=True)
    answers += client.answers


async def killed_now_and_then(follower, chance):
    while follower.kills < LIVES:
        await asyncio.sleep(chance.uniform(1, 12))
        follower.kill()
        follower.start()


async def first_estimate(follower):
    """Seconds from the first event to the first estimate, and whether there was a page."""
    began = time.monotonic()
    while not (follower.estimates.exists() and follower.estimates.stat().st_size):
        await asyncio.sleep(0.1)
    return time.monotonic() - began, await asyncio.to_thread(follower.has_page)


def log_of(follower, events):
    """The lines of the folder, in the order in which the journal says they were taken."""
    journal = (follower.estimates.parent / f"{follower.estimates.name}.positions/journal").read_text().splitlines()
    entries = [json.loads(line.split(" ", 1)[1])["advance"] for line in journal]
    names = {file["id"]: file["name"] for entry in entries for file in entry["files"]}
    stretches = [stretch for entry in entries for stretch in entry["stretches"]]
    return b"".join((events / names[at["file"]]).read_bytes()[at["start"] : at["end"]] for at in stretches)


async def serve_and_kill(home, follower, transfer):
    chance, answers, first = random.Random(1), [], None
    killing = asyncio.create_task(killed_now_and_then(follower, chance))
    for life in range(LIVES):
        serving_now = contextlib.ExitStack()
        server = await asyncio.to_thread(serving_now.enter_context, serving(home, BLOCKS, transfer, log=f"server-{life}.log"))
        timing = asyncio.create_task(first_estimate(follower)) if first is None else None
        await asked_until_killed(server, chance.uniform(20, 30), life, answers)
        first = await timing if timing else first
        await asyncio.to_thread(serving_now.close)
    await killing
    return answers, first


def differences(found, expected):
    """Estimates that are missing, doubled and different."""
    found, known = collections.Counter(found), collections.Counter(expected)
    doubled = sum((found - known)[line] for line in found if line in known)
    return sum((known - found).values()), doubled, sum(line not in known for line in found)


def run_and_compare(home):
    kvset, home = os.environ["KVSET"], home / "runs" / "folder"
    shutil.rmtree(home, ignore_errors=True)
    events, whole = home / "events", home / "whole"
    for folder in (events, whole):
        folder.mkdir(parents=True)
    follower = Follower(kvset, home, events, "killed")
    follower.start()
    answers, (seconds, has_page) = asyncio.run(serve_and_kill(home, follower, connector(path=str(events))))
    follower.kill()
    found = follower.end()
    (whole / "log.jsonl").write_bytes(log_of(follower, events))
    expected = Follower(kvset, home, whole, "once").end()
    wrong = differences(found, expected)
    lines = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    # A completion's request in the engine has the answer's name, and more behind it.
    written = {"-".join(line["request_id"].split("-")[:2]) for line in lines}
    hits, *_ = replay(kvset, whole / "log.jsonl", BLOCKS)
    last = [estimate for estimate in map(json.loads, found) if estimate["window"] == "all"][-1]
    of_service = next(point["page_hits"] for point in last["capacities"] if point["pages"] == BLOCKS)
    lost = sum(answer.id not in written for answer in answers)
    print(
        f"{LIVES} kills of the server, {follower.kills} of kvset: {len(answers)} answers, {len(lines)} events, of {lost} "
        f"answers the server had not written the event; {len(found)} estimates, {wrong[0]} missing, {wrong[1]} doubled, "
        f"{wrong[2]} different; the last is of {last['requests']} requests, which hit {of_service} blocks in the order in which they "
        f"ended, and {sum(hits[: last['requests']])} in the order in which they came (kvset replay); first estimate {seconds:.1f} s after the server answered, page: {has_page}"
    )
    return wrong != (0, 0, 0) or not has_page
