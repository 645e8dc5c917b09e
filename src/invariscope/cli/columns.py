"""Names of columns as a user types them: found in the table, or refused with the names that come closest."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from invariscope.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: Names listed before "and N more".
NAME_LIMIT = 12


@dataclass(frozen=True, eq=False)
class NamedTable:
    """A table and the file it came from, so that every complaint can say where to look."""

    frame: pd.DataFrame
    path: Path

    def column(self, name: str, option: str) -> str:
        """The name itself if there is such a column."""
        if name in self.frame.columns:
            return name
        raise InputError(f'column "{name}" ({option}) is not in {self.path.name}: {self._closest(name)}')

    def columns(self, values: Sequence[str], option: str) -> list[str]:
        """The columns a repeatable, comma-separated option names, each once, in the order given.

        A value that is the name of a column is taken whole, commas and all; double quotes do the same inside a list.
        """
        names: list[str] = []
        for value in values:
            parts = [value] if value in self.frame.columns else next(csv.reader([value], skipinitialspace=True), [])
            names += [part.strip() for part in parts if part.strip()]
        return [self.column(name, option) for name in dict.fromkeys(names)]

    def kinds(self, names: Sequence[str]) -> dict[str, str]:
        """What each column holds: numbers, text, dates or nested values."""
        from invariscope.read_table import kind_of

        return {name: kind_of(self.frame[name]) for name in names}

    def _closest(self, name: str) -> str:
        known = [str(column) for column in self.frame.columns]
        lowered = {column.lower(): column for column in reversed(known)}
        close = [lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
        return f"did you mean {' or '.join(quoted(close))}?" if close else f"it has {some(known)}"


def quoted(names: Sequence[str]) -> list[str]:
    """Names in double quotes."""
    return [f'"{name}"' for name in names]


def some(names: Sequence[str]) -> str:
    """Names in one line: the first dozen, and how many more there are.

    >>> some(["a", "b"]), some([f"x{j}" for j in range(14)])[-19:]
    ('a, b', 'x10, x11 and 2 more')
    """
    shown = ", ".join(names[:NAME_LIMIT])
    return shown if len(names) <= NAME_LIMIT else f"{shown} and {len(names) - NAME_LIMIT} more"
