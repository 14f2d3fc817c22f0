"""The runs: a workload, and the blocks that the server has for it."""

import dataclasses

from workload import Benchmark, Sessions

# Answers of some sixty tokens, pauses of seconds: what people type.
CONVERSATION = Sessions(
    seed=1, sessions=64, at_once=36, turns=6, system_prompts=4, system_tokens=300, turn_tokens=90, output_tokens=60,
    pause_seconds=2.0,
)
# Long system prompts, short pauses, sub-agents that share what was there when they began.
AGENTS = Sessions(
    seed=2, sessions=60, at_once=24, turns=6, system_prompts=6, system_tokens=900, turn_tokens=160, output_tokens=40,
    pause_seconds=0.6, forks=0.25,
)
# More at once than the blocks of the runs below have room for: requests wait and are preempted.
CROWDED_CONVERSATION = dataclasses.replace(CONVERSATION, sessions=110, at_once=90)
CROWDED_AGENTS = dataclasses.replace(AGENTS, sessions=90, at_once=80)
# Prompts of four whole blocks, more than the blocks below hold at a time.
BENCHMARK = Benchmark(seed=3, requests=900, prompts=200, prompt_tokens=128, output_tokens=8, at_once=6)
# Prompts that all find room, so that a second look at them misses only what a restart took.
AGAIN = Benchmark(seed=4, requests=250, prompts=60, prompt_tokens=150, output_tokens=8, at_once=4)


@dataclasses.dataclass(frozen=True)
class Run:
    """A workload on a server with so many usable blocks."""

    name: str
    workload: Sessions | Benchmark
    blocks: int
    is_recorded: bool = False
    """Whether its log is kept as a fixture."""
    beside_another: bool = False
    """Whether another connector is loaded alongside."""
    ranks: int = 1
    """Data-parallel ranks, each with so many blocks."""
    starts: int = 1
    """How often the server is started; each time it is asked the same."""


RUNS = [
    Run("conversation-1500", CONVERSATION, 1500, is_recorded=True),
    Run("conversation-2500", CONVERSATION, 2500),
    Run("agents-2500", AGENTS, 2500, is_recorded=True),
    Run("agents-4000", AGENTS, 4000),
    # Few blocks, all of them in use.
    Run("conversation-700", CONVERSATION, 700),
    Run("agents-900", AGENTS, 900),
    Run("crowded-conversation-700", CROWDED_CONVERSATION, 700, is_recorded=True),
    Run("crowded-agents-900", CROWDED_AGENTS, 900, is_recorded=True),
    Run("multi-2500", AGENTS, 2500, beside_another=True),
    Run("fixed-length-500", BENCHMARK, 500, is_recorded=True),
    Run("restarted-600", AGAIN, 600, starts=2, is_recorded=True),
    Run("ranks-900", AGENTS, 900, ranks=2, is_recorded=True),
]
