"""What is asked of the server: sessions whose prompts go on behind the server's own answers, and a trace of independent requests."""

import asyncio
import dataclasses
import random
import time

import aiohttp
from server import MODEL_NAME, VOCABULARY


@dataclasses.dataclass(frozen=True)
class Sessions:
    """Sessions, so many at once; each turn's prompt is the one before it, its answer, and new tokens."""

    seed: int
    sessions: int
    at_once: int
    """A session begins when one ends, so that what is in flight does not depend on how fast the machine is."""
    turns: int
    system_prompts: int
    system_tokens: int
    turn_tokens: int
    output_tokens: int
    pause_seconds: float
    """Between an answer and the next turn, on average."""
    forks: float = 0.0
    """Share of the turns that ask another question alongside, as sub-agents do."""


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Prompts of one length, asked again and again, so many at once."""

    seed: int
    requests: int
    prompts: int
    prompt_tokens: int
    output_tokens: int
    at_once: int


@dataclasses.dataclass(slots=True)
class Answer:
    """What the server said of a request."""

    id: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int


class Client:
    """Sends requests, and keeps what the server said of each."""

    def __init__(self, http, address):
        self._http, self._address = http, address
        self.answers = []
        self.in_flight, self.in_flight_sum, self.most_in_flight = 0, 0, 0

    async def ask(self, prompt, output_tokens, **extra):
        """Asks for so many tokens behind a prompt of token ids; gives them."""
        body = {
            "model": MODEL_NAME,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "temperature": 1.0,
            "ignore_eos": True,
            "detokenize": False,
            "return_token_ids": True,
        } | extra
        self.in_flight += 1
        self.in_flight_sum += self.in_flight
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with self._http.post(f"{self._address}/v1/completions", json=body) as response:
                answer = await response.json()
                if response.status != 200:
                    raise SystemExit(f"the server answers {response.status}: {str(answer)[:300]}")
        finally:
            self.in_flight -= 1
        usage = answer["usage"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        self.answers.append(Answer(answer["id"], usage["prompt_tokens"], usage["completion_tokens"], cached))
        return answer["choices"][0]["token_ids"]


def tokens(chance, count):
    return [chance.randrange(10, VOCABULARY) for _ in range(count)]


def around(chance, mean):
    """A length about the mean, of a wide spread."""
    return max(1, int(mean * chance.uniform(0.4, 1.6)))


async def session(client, workload, chance, system):
    prompt = system + tokens(chance, around(chance, workload.turn_tokens))
    side = []
    for _ in range(around(chance, workload.turns)):
        if chance.random() < workload.forks:
            question = prompt + tokens(chance, around(chance, workload.turn_tokens))
            side.append(asyncio.create_task(client.ask(question, around(chance, workload.output_tokens))))
        answer = await client.ask(prompt, around(chance, workload.output_tokens))
        prompt = prompt + answer + tokens(chance, around(chance, workload.turn_tokens))
        await asyncio.sleep(chance.expovariate(1 / workload.pause_seconds))
    await asyncio.gather(*side)


async def converse(workload, client):
    """Runs sessions, so many at once."""
    chance = random.Random(workload.seed)
    systems = [tokens(chance, around(chance, workload.system_tokens)) for _ in range(workload.system_prompts)]
    waiting = iter([(random.Random(chance.random()), chance.choice(systems)) for _ in range(workload.sessions)])

    async def one_after_another(delay):
        await asyncio.sleep(delay)
        for own, system in waiting:
            await session(client, workload, own, system)

    delays = [workload.pause_seconds * number / 4 for number in range(workload.at_once)]
    await asyncio.gather(*map(one_after_another, delays))


async def ask_again(workload, client):
    """Asks the prompts of a benchmark, some more often than others."""
    chance = random.Random(workload.seed)
    prompts = [tokens(chance, workload.prompt_tokens) for _ in range(workload.prompts)]
    waiting = iter([prompts[int(len(prompts) * chance.random() ** 1.5)] for _ in range(workload.requests)])

    async def one_after_another():
        for prompt in waiting:
            await client.ask(prompt, workload.output_tokens)

    await asyncio.gather(*(one_after_another() for _ in range(workload.at_once)))


async def run(workload, address):
    """Runs a workload; gives the client and the seconds it took."""
    play = converse if isinstance(workload, Sessions) else ask_again
    limits = aiohttp.ClientTimeout(total=600)
    # A connection for each request: one that was idle may be closed by the server just when it is used.
    connections = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(timeout=limits, connector=connections) as http:
        client, began = Client(http, address), time.monotonic()
        await play(workload, client)
        return client, time.monotonic() - began
