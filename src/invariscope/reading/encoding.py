"""Categories as columns of 0 and 1, under names that say what they stand for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.read_table import plain_numbers
from invariscope.rows.arrays import Floats


def one_hot(column: pd.Series, levels: Sequence[Any] | None = None) -> pd.DataFrame:
    """One column per level, named "workclass=Private", which is 1 in the rows that have it and 0 elsewhere.

    Every level has its column, so that none is the silent reference; the columns of a row add up to 1, and a head with
    an intercept sees one column more than it needs, which changes no prediction.

    Parameters
    ----------
    column : (n,) categories: text, numbers that are codes, true/false, or a pandas categorical
    levels : what becomes a column, in which order (default: what is there, sorted)

    Returns
    -------
    (n, number of levels) float64, with the index of ``column``

    It cannot tell an order of the levels ("low", "high"): it is lost.

    Raises
    ------
    InputError : values are missing, or not among ``levels``

    >>> one_hot(pd.Series(["b", "a", "b"], name="site"))
       site=a  site=b
    0     0.0     1.0
    1     1.0     0.0
    2     0.0     1.0
    """
    if column.isna().any():
        raise InputError(f'column "{column.name}" has {int(column.isna().sum())} missing values: fill them in first')
    chosen = sorted_levels(column) if levels is None else list(levels)
    # rows of numpy are columns of pandas: this way round nothing is copied
    indicators = np.zeros((len(chosen), len(column)))
    write_indicators(column, chosen, indicators)
    names = pd.Index([f"{column.name}={level_name(level)}" for level in chosen], dtype=object)
    return pd.DataFrame(indicators.T, index=column.index, columns=names, copy=False)


class Origin(NamedTuple):
    """Where an encoded column comes from: a column of the table, and what is put behind its name ("=Private")."""

    column: str
    rest: str = ""


def encoded(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[Origin]]:
    """Numbers as they are and categories as :func:`one_hot` has them, in one piece of memory; and where each is from.

    What stood in the table keeps its name; a level that would have the same is put in brackets. Where a category is
    missing, so are all its columns.

    >>> table = pd.DataFrame({"sex": pd.Categorical(["f", "m"]), "sex=m": [0.5, 1.5]})
    >>> encoded(table)[0].columns.tolist(), encoded(table)[1][1]
    (['sex=f', '(sex=m)', 'sex=m'], Origin(column='sex', rest='=m'))
    """
    numbers = plain_numbers(frame)
    levels_of = {
        str(name): None if number else _levels(frame[name]) for name, number in zip(frame, numbers, strict=True)
    }
    origins: list[Origin] = []
    places: dict[str, int] = {}
    for name, levels in levels_of.items():
        places[name] = len(origins)
        origins += [Origin(name)] if levels is None else [Origin(name, f"={level_name(level)}") for level in levels]
    values = np.zeros((len(origins), len(frame)))
    plain = frame.columns[numbers]
    values[[places[name] for name in plain]] = frame[plain].to_numpy(dtype=np.float64).T
    names = [origin.column for origin in origins]
    for name, levels in levels_of.items():
        rows = slice(places[name], places[name] + (1 if levels is None else len(levels)))
        if levels is not None:
            write_indicators(frame[name], levels, values[rows])
            taken = {*levels_of, *names[: rows.start]}
            names[rows] = [unused_name(column + rest, taken) for column, rest in origins[rows]]
        elif name not in plain:
            values[rows] = frame[name].to_numpy(dtype=np.float64)
    return pd.DataFrame(values.T, index=frame.index, columns=pd.Index(names, dtype=object), copy=False), origins


def _levels(column: pd.Series) -> list[Hashable] | None:
    """The levels of a column of categories, in order; of numbers ``None``."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return None
    codes = column.cat.codes
    used = np.bincount(codes[codes >= 0], minlength=len(column.cat.categories)) > 0
    levels: list[Hashable] = column.cat.categories[used].tolist()
    return levels


def write_indicators(column: pd.Series, levels: Sequence[Any], out: Floats) -> None:
    """Write 1 into row k of ``out`` (levels × n, all 0) where the column has level k, NaN where it has none."""
    codes, present = pd.factorize(column)
    positions = pd.Index(levels, dtype=object).get_indexer(pd.Index(present, dtype=object))
    if (positions < 0).any():
        stranger = present[int(np.argmax(positions < 0))]
        raise InputError(
            f'column "{column.name}" holds "{stranger}", which is not among the {len(levels)} levels given: add it'
        )
    known = codes >= 0
    out[positions[codes[known]], np.flatnonzero(known)] = 1.0
    out[:, ~known] = np.nan


def sorted_levels(column: pd.Series) -> list[Hashable]:
    """The distinct values of a column in their own order; those of mixed types in that of their names.

    >>> sorted_levels(pd.Series([10, 2, 2, None])), sorted_levels(pd.Series(["b", "a"]))
    ([2.0, 10.0], ['a', 'b'])
    """
    levels = column.dropna().unique().tolist()
    try:
        return sorted(levels)
    except TypeError:
        return sorted(levels, key=str)


def level_name(level: Any) -> str:
    """A level as people write it: codes that became floats because some were missing lose their ".0".

    >>> level_name(3.0), level_name(2.5), level_name("Private"), level_name(True)
    ('3', '2.5', 'Private', 'True')
    """
    if isinstance(level, float | np.floating):
        return str(int(level)) if float(level).is_integer() else repr(float(level))
    return str(level)


def unused_name(name: str, taken: Iterable[Hashable]) -> str:
    """The name itself, or in brackets if something is called so already.

    >>> unused_name("age missing", ["age"]), unused_name("age missing", ["age", "age missing"])
    ('age missing', '(age missing)')
    """
    known = set(taken)
    while name in known:
        name = f"({name})"
    return name
