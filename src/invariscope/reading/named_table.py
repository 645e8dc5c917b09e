"""Names of columns as a user types them: found in the table, or refused with the names that come closest."""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.errors import InputError
from invariscope.reading.options import ReadOptions
from invariscope.rows.settings import shown
from invariscope.rows.spelling import spelling, spelt

if TYPE_CHECKING:
    import pandas as pd

#: Names listed before "and N more".
NAME_LIMIT = 12


@dataclass(frozen=True, eq=False)
class NamedTable:
    """A table and what to call it, so that every complaint can say where to look."""

    frame: pd.DataFrame
    name: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: str | os.PathLike[str] | Any, options: ReadOptions) -> NamedTable:
        """The table in a file, without a first column that has no name; or a pandas, polars or pyarrow table."""
        from invariscope.reading import read_table

        if not isinstance(source, str | os.PathLike):
            return cls(read_table.frame_of(source), "the table")
        frame = read_table.read_table(source, na=options.na)
        name = Path(source).name
        if frame.shape[1] > 1 and not frame.columns[0]:
            note = "Left out because it has no name: the first column."
            return cls(frame.iloc[:, 1:], name, (note,))
        return cls(frame, name)

    def column(self, name: str, option: str) -> str:
        """The name itself if there is such a column."""
        if not isinstance(name, str):
            raise InputError(f"{spelt(option)} is {shown(name)}: give the name of a column, as text")
        if name in self.frame.columns:
            return name
        raise InputError(f'column "{name}" ({spelt(option)}) is not in {self.name}: {self._closest(name)}')

    def columns(self, given: Sequence[str], option: str) -> list[str]:
        """The columns an option names, each once, in the order given."""
        return [self.column(name, option) for name in dict.fromkeys(listed(given, self.frame.columns))]

    def check_roles(self, options: ReadOptions) -> None:
        """Refuse target, environments and the like that are no columns, or one column with two parts."""
        roles: dict[str, str] = {}
        self.column(options.target, "target")
        self.column(options.env, "env")
        for option, name in options.parts:
            self.column(name, option)
            if name in roles:
                raise InputError(f'column "{name}" is both {spelt(roles[name])} and {spelt(option)}: name two columns')
            roles[name] = option

    def features(self, options: ReadOptions) -> list[str]:
        """The columns named as features, or else all that have no other part and are not dropped."""
        roles = options.roles
        dropped = self.columns(options.drop, "drop")
        named = self.columns(options.features or (), "features")
        if options.features is not None and not named:
            raise InputError(f"{spelt('features')} names no column: name some, or leave it out to use all")
        for names, option in ((named, "features"), (dropped, "drop")):
            both = [name for name in names if name in roles]
            if both:
                raise InputError(f'column "{both[0]}" is {spelt(roles[both[0]])}: take it out of {spelt(option)}')
        both = [name for name in named if name in dropped]
        if both:
            raise InputError(f'column "{both[0]}" is in {spelt("features")} and in {spelt("drop")}: take it out of one')
        return named or [name for name in self.frame.columns if name not in roles and name not in dropped]

    def _closest(self, name: str) -> str:
        known = [str(column) for column in self.frame.columns]
        lowered = {column.lower(): column for column in reversed(known)}
        close = [f'"{lowered[match]}"' for match in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
        return f"did you mean {' or '.join(close)}?" if close else f"it has {some(known)}"


def listed(values: Sequence[str], known: Collection[str]) -> list[str]:
    """The names that an option lists: in a shell each value may hold several, separated by commas.

    There a value that is known is taken whole, commas and all, as is what is in double quotes.

    >>> from invariscope.rows.spelling import SHELL, typed_in
    >>> with typed_in(SHELL):
    ...     listed(["a, b", 'c,"d,e"'], ["a, b"]), listed(["a, b"], ["a", "b"])
    (['a, b', 'c', 'd,e'], ['a', 'b'])
    >>> listed(["a, b"], ["a", "b"])
    ['a, b']
    """
    if not spelling().shell:
        return list(values)
    names: list[str] = []
    for value in values:
        if value in known:
            names.append(value)
        else:
            parts = next(csv.reader([value], skipinitialspace=True), [])
            names += [part.strip() for part in parts if part.strip()]
    return names


def some(names: Sequence[str], limit: int = NAME_LIMIT) -> str:
    """Names in one line: the first dozen, and how many more there are.

    >>> some(["a", "b"]), some([f"x{j}" for j in range(14)])[-19:]
    ('a, b', 'x10, x11 and 2 more')
    """
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
