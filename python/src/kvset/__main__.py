"""`python -m kvset`: the program, with the arguments as they are."""

import os
import sys

from ._program import find_program


def main() -> None:
    """Becomes the program, so that signals and exit codes are its own."""
    try:
        program = find_program()
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
