"""Where the program is, and how it is run."""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

PROGRAM_VARIABLE = "KVSET_PROGRAM"
"""Environment variable that names another program than the installed one."""


class ProgramError(RuntimeError):
    """The program failed; the message is its own.

    `status` is its exit code: 1 for a failure at run time, 2 for wrong usage; below zero the signal that ended it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def find_program() -> str:
    """Path of the `kvset` program: `KVSET_PROGRAM`, what was installed with this package, or what is on the path.

    Raises FileNotFoundError where there is none.
    """
    named = os.environ.get(PROGRAM_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise FileNotFoundError(f"{PROGRAM_VARIABLE} names {named}, which is no file")
        return named
    for folder in _script_folders():
        program = folder / "kvset"
        if program.is_file():
            return str(program)
    found = shutil.which("kvset")
    if found is None:
        raise FileNotFoundError(
            "no kvset program: install the wheel (pip install kvset), or name the program in KVSET_PROGRAM"
        )
    return found


def _script_folders() -> list[Path]:
    """Where pip puts programs: in this environment, for this user, and below `pip install --target`."""
    user = sysconfig.get_preferred_scheme("user")
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme=user)]
    package = Path(__file__).resolve().parent
    return [Path(folder) for folder in folders if folder] + [package.parent / "bin"]


def run(arguments: Sequence[str]) -> str:
    """Runs the program and gives its standard output; raises ProgramError where it fails."""
    command = [find_program(), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ProgramError(done.returncode, done.stderr.strip() or f"kvset ended with status {done.returncode}")
    return done.stdout
