"""The workloads that are recorded, and how a trace becomes prompts of tokens.

No trace of page ids is stored: `kvset generate` makes the same bytes of the same options, on every platform. Traces of tokens
are, for nothing but Python makes them (`chats.py`).
"""

import json
import os
import subprocess

from chats import MADE

COMMON = ["--requests", "600", "--day", "1h", "--start", "0"]

# Small on purpose. One prompt in 16 (64) ends at a page boundary exactly; retries, edits and sub-agents share
# prefixes; each capacity list goes from what hardly holds the longest request to what holds everything.
WORKLOADS = {
    "agents-16": {
        "generate": COMMON
        + ["--seed", "11", "--page-size", "16", "--system-prompts", "4", "--system-tokens", "600"]
        + ["--turns", "6", "--turn-tokens", "90", "--output-tokens", "40"],
        "capacities": [220, 350, 700, 1500, 3000, 6000],
    },
    "short-turns-16": {
        "generate": COMMON
        + ["--seed", "13", "--page-size", "16", "--system-prompts", "8", "--system-tokens", "900"]
        + ["--turns", "10", "--turn-tokens", "60", "--output-tokens", "24"],
        "capacities": [180, 280, 550, 1100, 2200, 5000],
    },
    "agents-64": {
        "generate": COMMON
        + ["--seed", "12", "--page-size", "64", "--system-prompts", "4", "--system-tokens", "2400"]
        + ["--turns", "6", "--turn-tokens", "300", "--output-tokens", "90"],
        "capacities": [230, 400, 800, 1600, 3000, 6000],
    },
    # SGLang's default: a page is a token.
    "agents-1": {
        "generate": COMMON
        + ["--seed", "31", "--page-size", "1", "--system-prompts", "4", "--system-tokens", "150"]
        + ["--turns", "6", "--turn-tokens", "30", "--output-tokens", "16"],
        "capacities": [1400, 2200, 4000, 7000, 13000, 30000],
    },
    # Small pages, where the model of an engine counts tokens.
    "short-turns-4": {
        "generate": COMMON
        + ["--seed", "14", "--page-size", "4", "--system-prompts", "4", "--system-tokens", "120"]
        + ["--turns", "8", "--turn-tokens", "16", "--output-tokens", "10"],
        "capacities": [240, 480, 960, 2000, 4000],
    },
}

# For engines with a clock of their own, which are driven at the trace's speed: minutes long, pauses included.
PACED = {
    "paced-16": {
        "generate": ["--requests", "600", "--day", "4m", "--start", "0"]
        + ["--seed", "17", "--page-size", "16", "--system-prompts", "4", "--system-tokens", "600"]
        + ["--turns", "6", "--turn-tokens", "90", "--output-tokens", "40"],
        "capacities": [400, 800, 1500, 5000],
    },
    "paced-1": {
        "generate": ["--requests", "600", "--day", "4m", "--start", "0"]
        + ["--seed", "32", "--page-size", "1", "--system-prompts", "4", "--system-tokens", "150"]
        + ["--turns", "6", "--turn-tokens", "30", "--output-tokens", "16"],
        "capacities": [4000, 6000, 9000, 15000, 30000],
    },
    "paced-64": {
        "generate": ["--requests", "600", "--day", "5m", "--start", "0"]
        + ["--seed", "18", "--page-size", "64", "--system-prompts", "6", "--system-tokens", "3000"]
        + ["--turns", "8", "--turn-tokens", "300", "--output-tokens", "90"],
        "capacities": [400, 800, 1500, 5000],
    },
}

BY_NAME = WORKLOADS | PACED | {name: {"capacities": capacities} for name, (_, capacities) in MADE.items()}


class Request:
    """One request of a workload: page ids, and the tokens that stand for them."""

    def __init__(self, row, page_number, unique_token):
        self.page_size = row["block_size"]
        self.pages = [page_number(page) for page in row["hash_ids"]]
        self.prompt_length = row["input_length"]
        self.output_length = row["output_length"]
        self.time_ms = row["timestamp"]
        # A token that no other request has: the partial last page and the answer are nobody else's.
        self.unique_token = unique_token
        full = self.prompt_length // self.page_size
        if len(self.pages) != full:
            raise ValueError(f"{len(self.pages)} page ids for {full} full pages")

    def prompt(self):
        """The prompt's token ids: a page is its number, repeated; equal pages are equal tokens."""
        tokens = [page for page in self.pages for _ in range(self.page_size)]
        return tokens + [self.unique_token] * (self.prompt_length - len(tokens))

    def answer(self, at):
        """A token of the answer."""
        return self.unique_token


class Talk:
    """The same of a workload of tokens."""

    def __init__(self, made, page_size, numbers):
        self.time_ms, self.tokens, self.answered = made
        self.page_size = page_size
        self.prompt_length, self.output_length = len(self.tokens), len(self.answered)
        self.pages, above = [], 0
        for first in range(0, self.prompt_length - page_size + 1, page_size):
            page = (above, *self.tokens[first : first + page_size])
            above = numbers.setdefault(page, len(numbers) + 1)
            self.pages.append(above)

    def prompt(self):
        return self.tokens

    def answer(self, at):
        return self.answered[at]

    def row(self):
        return {"timestamp": self.time_ms, "token_ids": self.tokens, "output_ids": self.answered}


def load(kvset, name):
    """The requests of a workload."""
    if name in MADE:
        made, numbers = MADE[name][0], {}
        return [Talk(each, made.page_size, numbers) for each in made.make()]
    return generate(kvset, name)


def trace_of(name):
    """What a fixture says of where its trace is: the options that make it, or the file that keeps it."""
    return {"trace": f"{name}.jsonl.zst"} if name in MADE else {"generate": BY_NAME[name]["generate"]}


def keep(folder, name, requests):
    """Writes a trace of tokens, where it is not there as it is."""
    path = os.path.join(folder, "traces", f"{name}.jsonl.zst")
    rows = "".join(json.dumps(request.row(), separators=(",", ":")) + "\n" for request in requests).encode()
    if not os.path.exists(path) or unpacked(path) != rows:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run(["zstd", "--quiet", "--force", "-19", "--long=24", "-o", path], input=rows, check=True)


def unpacked(path):
    return subprocess.run(["zstd", "--quiet", "--decompress", "--stdout", path], check=True, capture_output=True).stdout


def generate(kvset, name):
    """Runs `kvset generate` twice, to see that it is deterministic, and reads what it writes."""
    command = [kvset, "generate", *BY_NAME[name]["generate"]]
    written = subprocess.run(command, check=True, capture_output=True).stdout
    if subprocess.run(command, check=True, capture_output=True).stdout != written:
        raise SystemExit(f"{' '.join(command)} writes other bytes when it runs again")
    rows = [json.loads(line) for line in written.splitlines()]
    numbers = {}

    def page_number(page):
        return numbers.setdefault(page, len(numbers) + 1)

    return [Request(row, page_number, 10_000_000 + at) for at, row in enumerate(rows)]
