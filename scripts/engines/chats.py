"""Workloads of tokens, for what traces of page ids cannot show.

Answers come back in the next prompt. Turns begin alike and use few tokens, so that different pages begin with the same ones and
prompts part in the middle of a page. Prompts of whole pages are asked again, and equal prompts come in bursts.
"""

import dataclasses
import random

# A turn begins as chat templates do: a mark, and who speaks.
USER, ASSISTANT = [1, 2], [1, 3]
WORDS = range(4, 12)


@dataclasses.dataclass(frozen=True)
class Chats:
    """Conversations over shared system prompts; shares are of the requests."""

    seed: int
    page_size: int
    requests: int
    systems: int
    system_tokens: int
    turn_tokens: int
    answer_tokens: int
    interval_ms: int
    """Between two requests or bursts, on average."""
    new: float = 0.2
    """Begin a conversation; others go on with one, and its prompt has the answer before it."""
    edited: float = 0.15
    """Go back to an arbitrary token of an earlier prompt, and on from there with a turn."""
    again: float = 0.15
    """Ask an earlier prompt again."""
    whole: float = 0.35
    """Of the prompts that are not asked again, those that are of whole pages."""
    bursts: float = 0.0
    """Of the prompts, those that are asked by several at one moment."""
    burst: int = 8
    """How many at most."""
    token_ms: int = 0
    """How long a token of an answer takes: nobody goes on with an answer before it is there."""
    greedy: bool = False
    """Whether a prompt is answered in the same way each time."""

    def make(self):
        """(time in milliseconds, prompt, answer) of each request."""
        chance = random.Random(self.seed)
        systems = [USER + words(chance, around(chance, self.system_tokens)) for _ in range(self.systems)]
        # What can be gone on with: prompts with their answers and when those are there, and prompts alone.
        chats, asked, answers, made, time_ms = [], [], {}, [], 0.0
        while len(made) < self.requests:
            time_ms += chance.expovariate(1 / self.interval_ms)
            prompt = self.prompt(chance, systems, chats, asked, time_ms)
            asked = (asked + [prompt])[-60:]
            times = chance.randint(2, self.burst) if chance.random() < self.bursts else 1
            for _ in range(min(times, self.requests - len(made))):
                answer = words(chance, around(chance, self.answer_tokens))
                if self.greedy:
                    answer = answers.setdefault(tuple(prompt), answer)
                chats.append((time_ms + len(answer) * self.token_ms, prompt + answer))
                del chats[:-40]
                made.append((int(time_ms), prompt, answer))
        return made

    def prompt(self, chance, systems, chats, asked, time_ms):
        kind = chance.random()
        there = [at for at, (ready_ms, _) in enumerate(chats) if ready_ms <= time_ms]
        if asked and kind < self.again:
            return chance.choice(asked)
        if asked and kind < self.again + self.edited:
            before = chance.choice(asked)
            before = before[: chance.randint(len(before) // 2, len(before))]
        elif there and kind < 1 - self.new:
            _, before = chats.pop(there[chance.randrange(len(there))])
        else:
            before = systems[int(len(systems) * chance.random() ** 2)]
        prompt = before + USER + words(chance, around(chance, self.turn_tokens)) + ASSISTANT
        if chance.random() < self.whole:
            prompt += words(chance, -len(prompt) % self.page_size)
        return prompt


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A benchmark of prompts that are all of so many whole pages, each asked again and again; some are as many pages longer."""

    seed: int
    page_size: int
    requests: int
    prompts: int
    pages: int
    answer_tokens: int
    interval_ms: int

    def make(self):
        """(time in milliseconds, prompt, answer) of each request."""
        chance = random.Random(self.seed)
        prompts = []
        for _ in range(self.prompts):
            longer = prompts and chance.random() < 0.2
            before = chance.choice(prompts) if longer else []
            prompts.append(before + words(chance, self.pages * self.page_size))
        made, time_ms = [], 0.0
        for _ in range(self.requests):
            time_ms += chance.expovariate(1 / self.interval_ms)
            prompt = prompts[int(self.prompts * chance.random() ** 2)]
            made.append((int(time_ms), prompt, words(chance, self.answer_tokens)))
        return made


def words(chance, count):
    return [WORDS[int(len(WORDS) * chance.random())] for _ in range(count)]


def around(chance, mean):
    """A length about the mean, of a wide spread."""
    return max(1, int(mean * (0.3 + 1.4 * chance.random())))


# Few requests, for a trace of tokens is kept as it is. Capacities go from just above the longest request on; `crowd` and `rush`
# overlap, and have more in flight than the smallest holds.
MADE = {
    "chats-16": (Chats(41, 16, 300, 4, 300, 60, 50, 6_000), [80, 150, 300, 700, 2500]),
    "chats-64": (Chats(42, 64, 300, 4, 1200, 200, 150, 6_000), [100, 200, 400, 800, 2500]),
    "chats-1": (Chats(43, 1, 250, 4, 80, 20, 16, 6_000), [510, 900, 1800, 3500, 12000]),
    "fixed-16": (Fixed(45, 16, 400, 60, 5, 12, 6_000), [40, 120, 250, 400, 800]),
    "crowd-16": (Chats(46, 16, 300, 4, 300, 60, 40, 500, bursts=0.12, token_ms=300, greedy=True), [250, 400, 700, 1200, 3000]),
    "crowd-64": (Chats(47, 64, 300, 4, 1200, 200, 60, 500, bursts=0.12, token_ms=300, greedy=True), [300, 500, 900, 1500, 3000]),
    "rush-16": (Fixed(48, 16, 400, 60, 5, 12, 150), [60, 120, 250, 400, 800]),
}
