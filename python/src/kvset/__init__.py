"""How much KV cache does this LLM traffic need?

`replay` sizes the cache for a log; `kvset.vllm` has vLLM write such a log. Everything is computed by the program that comes
with the package, so results equal those of the command line.
"""

from ._program import ProgramError, find_program
from ._replay import replay
from .results import (
    Answer,
    Capacity,
    CapacityInFlight,
    Coverage,
    EffectiveCapacity,
    InFlight,
    Ledger,
    Loss,
    Measured,
    Recommendation,
    Required,
    Result,
    Theoretical,
    Trace,
    Window,
)

__all__ = [
    "Answer",
    "Capacity",
    "CapacityInFlight",
    "Coverage",
    "EffectiveCapacity",
    "InFlight",
    "Ledger",
    "Loss",
    "Measured",
    "ProgramError",
    "Recommendation",
    "Required",
    "Result",
    "Theoretical",
    "Trace",
    "Window",
    "find_program",
    "replay",
]
