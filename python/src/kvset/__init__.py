"""How much KV cache does this LLM traffic need?

`replay` sizes the cache for a log; `kvset.vllm` has vLLM write such a log. Everything is computed by the program that comes
with the package, so results equal those of the command line.
"""

from typing import Any

from ._program import ProgramError, find_program, run
from ._replay import Engine, Outputs, replay
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
    Part,
    Recommendation,
    Required,
    Result,
    Status,
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
    "Engine",
    "InFlight",
    "Ledger",
    "Loss",
    "Measured",
    "Outputs",
    "Part",
    "ProgramError",
    "Recommendation",
    "Required",
    "Result",
    "Status",
    "Theoretical",
    "Trace",
    "Window",
    "__version__",
    "find_program",
    "replay",
]

__version__: str


def __getattr__(name: str) -> Any:
    """`__version__`: of the installed package, else of the program."""
    if name != "__version__":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from importlib import metadata

    try:
        return metadata.version("kvset")
    except metadata.PackageNotFoundError:
        return run(["--version"]).split()[1]
