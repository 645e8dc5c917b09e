"""Columns of a model that was fitted on what `invariscope.read` made: traced back to a table, and made of it again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.encoding import Origin, encoded, level_name
from invariscope.reading.named_table import NamedTable, some
from invariscope.reading.read_table import kind_of


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """The columns a model was fitted on (by name, in its order), and where each comes from in a table.

    A column of the same name is the number it was for the fit. Else "sex=f" is a level of ``sex``, "chol missing" says
    where ``chol`` is missing, and a name in brackets is one of these, from a table in which another column had it.
    It cannot tell a level from a column of that name that the table lacks by now.
    """

    origins: Mapping[str, Origin]
    table: NamedTable
    model_name: str

    @classmethod
    def traced(cls, fitted: Sequence[str], names: Collection[str], table: NamedTable, model_name: str) -> FittedColumns:
        """Find each among the columns that may be read; refuse those that come from none of them."""
        origins = {name: Origin(name) for name in fitted if name in names}
        possible = candidates(fitted, names)
        # most brackets first: what has the name without them was the column it collided with
        for name in sorted(possible, key=lambda name: -len(list(_without_brackets(name)))):
            free = [origin for origin in possible[name] if origin not in origins.values()]
            if len(free) > 1:  # "a=b=c" may be a level of "a" or of "a=b": of the one that has it, if only one can
                shown = [origin for origin in free if origin.rest[1:] in _texts(table.frame[origin.column])]
                free = shown if list(possible.values()).count(free) == 1 else []
            if len(free) == 1:
                origins[name] = free[0]
        refuse_absent(table, fitted, origins, model_name)
        return cls({name: origins[name] for name in fitted}, table, model_name)

    @property
    def reads(self) -> list[str]:
        """The columns of the table that it needs: gaps in others are nobody's business."""
        sources = {origin.column for origin in self.origins.values()}
        return [name for name in self.table.frame.columns if name in sources]

    @property
    def levels(self) -> dict[str, list[str]]:
        """Columns that were categories for the fit, and the levels that the model knows ("=f")."""
        return _levels(self.origins.values())

    @property
    def codes(self) -> list[str]:
        """Columns that hold a level the model knows, and so are categories, whatever they look like in this table."""
        texts = {column: _texts(self.table.frame[column]) for column in self.levels}
        return [column for column, known in self.levels.items() if any(rest[1:] in texts[column] for rest in known)]

    def encode(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
        """The columns as the model knows them, 0 for levels that no row has; and a word on levels it does not know."""
        columns, made = encoded(frame)
        reads, levels = set(self.reads), self.levels
        for k, (before, origin) in enumerate(pairwise(made), start=1):
            if origin.column not in reads:  # `fill` puts it behind the column whose gaps it shows
                made[k] = Origin(before.column, " missing")
        self._refuse_other_kinds(frame, made)
        names = {origin: name for name, origin in self.origins.items()}
        positions = {names[origin]: k for k, origin in enumerate(made) if origin in names}
        absent = [name for name in self.origins if name not in positions]
        new = [columns.columns[k] for k, origin in enumerate(made) if origin.column in levels and origin not in names]
        notes = [f"No row has {some(absent)}, which the model knows: columns of 0."] if absent else []
        notes += [f"The model has never seen {some(new)}: those rows have none of the levels it knows."] if new else []
        known = columns.iloc[:, list(positions.values())].set_axis(list(positions), axis=1)
        return known.reindex(columns=pd.Index(self.origins, dtype=object), fill_value=0.0), notes

    def _refuse_other_kinds(self, frame: pd.DataFrame, made: Sequence[Origin]) -> None:
        """A column that is not what it was for the fit would be nothing but zeros to the model."""
        levels, shown_levels = self.levels, _levels(made)
        for name in self.reads:
            given, known, shown = self.table.frame[name], levels.get(name, []), shown_levels.get(name, [])
            holds, wanted = kind_of(given), some([name + rest for rest in known]) or "numbers"
            if known:
                # one unknown level may be the one that was left out for the fit, because the others tell it
                fits = len(shown) == 1 or not set(shown).isdisjoint(known)
                holds = some([rest[1:] for rest in shown]) or holds
            else:
                fits = name in frame and not shown
                holds = "categories" if holds == "numbers" else holds
            if not fits:
                holds = "missing values" if name not in frame and given.isna().any() else holds
                raise InputError(
                    f'column "{name}" holds {holds}, but {self.model_name} was fitted on {wanted}: write it as it was '
                    "for the fit"
                )


def candidates(fitted: Collection[str], columns: Collection[str]) -> dict[str, list[Origin]]:
    """What names that a table lacks can stand for: a level of a column ("sex=f"), or where one is missing.

    >>> candidates(["age", "age=3", "(sex=f)"], ["age", "sex"])
    {'age=3': [], '(sex=f)': [Origin(column='sex', rest='=f')]}
    """

    def origins(bare: str) -> list[Origin]:
        rests = [Origin(column, bare[len(column) :]) for column in columns if bare.startswith(column)]
        # a column is numbers or categories, never both
        return [o for o in rests if o.rest == " missing" or (o.rest[:1] == "=" != o.rest and o.column not in fitted)]

    lacking = [name for name in fitted if name not in columns]
    found = {name: next(filter(None, map(origins, _without_brackets(name))), []) for name in lacking}
    categories = {column for possible in found.values() for column, rest in possible if rest != " missing"}
    return {
        name: [origin for origin in possible if origin.rest != " missing" or origin.column not in categories]
        for name, possible in found.items()
    }


def refuse_absent(table: NamedTable, fitted: Sequence[str], there: Collection[str], model_name: str) -> None:
    """Name the columns of the fit that are not there."""
    absent = [name for name in fitted if name not in there]
    if absent:
        raise InputError(
            f"{model_name} was fitted on columns that {table.name} lacks: {some(absent)}. Give a table with all of them"
        )


def _levels(origins: Iterable[Origin]) -> dict[str, list[str]]:
    levels: dict[str, list[str]] = {}
    for column, rest in origins:
        if rest.startswith("="):
            levels.setdefault(column, []).append(rest)
    return levels


def _without_brackets(name: str) -> Iterator[str]:
    """The name, and what is left of it without one pair of brackets after the other."""
    yield name
    while name.startswith("(") and name.endswith(")"):
        name = name[1:-1]
        yield name


def _texts(column: pd.Series) -> set[str]:
    """The values of a column as levels are called."""
    values = column.dropna().unique().tolist() if kind_of(column) in ("text", "numbers") else []
    return {level_name(value).strip() for value in values}
