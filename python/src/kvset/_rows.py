"""Rows of the caller's, written to a file for the program, and its words about them told in the caller's terms."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]


class RowsFile:
    """A file of rows, one a line. `told` gives the program's words with the caller's rows in the place of its lines."""

    def __init__(self, path: Path, rows: Iterable[Any], name: str) -> None:
        """Writes the rows; `name` is what a row is called, such as `rows[{}]`, with its number from 0 in the braces.

        Raises TypeError for what is no row, or holds what JSON has no form for.
        """
        self.path = path
        self._name = name
        with path.open("w", encoding="utf-8") as file:
            for number, row in enumerate(rows):
                file.write(self._line(number, row) + "\n")

    def _line(self, number: int, row: Any) -> str:
        if not isinstance(row, Mapping):
            raise TypeError(f"{self._name.format(number)} is of type {type(row).__name__}: traces are paths, or rows (dicts)")
        try:
            return json.dumps({name: value for name, value in row.items() if not is_nan(value)}, default=_plain)
        except TypeError as error:
            raise TypeError(f"{self._name.format(number)}: {error}") from error

    def told(self, text: str) -> str:
        """Words of the program that name a line of the file, or the file."""
        file = re.escape(str(self.path))
        text = re.sub(rf"{file}, line (\d+)", lambda found: self._numbered(found[1]), text)
        text = re.sub(rf"(?:trace )?{file} from line (\d+)", lambda found: f"the rows from {self._numbered(found[1])}", text)
        return re.sub(rf"(?:trace )?{file}", "the rows", text)

    def _numbered(self, line: str) -> str:
        return self._name.format(int(line) - 1)


def frame_rows(frame: Any) -> Iterator[Row] | None:
    """The rows of a DataFrame of pandas' or polars', without what is missing in them; None for anything else.

    Of pandas' index the levels that have a name are columns, too.
    """
    if hasattr(frame, "iter_rows") and hasattr(frame, "columns"):
        return (_present(row) for row in frame.iter_rows(named=True))
    if not (hasattr(frame, "itertuples") and hasattr(frame, "columns")):
        return None
    levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
    if levels:
        frame = frame.reset_index(levels)
    names = [str(name) for name in frame.columns]
    return (_present(dict(zip(names, values))) for values in frame.itertuples(index=False, name=None))


def _present(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def is_nan(value: Any) -> bool:
    """Whether a value is one that numpy and pandas have for what is missing: NaN, NaT or NA."""
    kind = type(value)
    if kind.__name__ in ("NaTType", "NAType"):
        return True
    # A number of numpy's has no length either, and is unequal to itself where it is none.
    return kind not in (str, list, dict, int, bool) and not hasattr(value, "__len__") and value != value


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """A path; of a folder, the files in it that are not hidden, by name. Raises ValueError where there is none."""
    path = os.path.expanduser(os.fspath(path))
    if not os.path.isdir(path):
        return [path]
    found = sorted(str(file) for file in Path(path).iterdir() if file.is_file() and not file.name.startswith("."))
    if not found:
        raise ValueError(f"the folder {path} holds no file")
    return found


def _plain(value: Any) -> Any:
    """What numpy and pandas put in rows, as JSON has it."""
    for method in ("tolist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
