"""Missing values: refused with a count and a place, or dealt with in the way the user chose, which is then noted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.encoding import unused_name
from invariscope.reading.read_table import kind_of
from invariscope.reading.spelling import PYTHON, Spelling

CHOICES = ("refuse", "drop-rows", "drop-columns", "impute-median", "indicator")
#: Columns listed with their counts before "and N more".
COUNT_LIMIT = 30


def fill(
    frame: pd.DataFrame,
    how: str,
    *,
    env: pd.Series | None = None,
    protected: Sequence[str] = (),
    spell: Spelling = PYTHON,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Deal with missing values, and say in plain sentences what was done.

    ========================  =======================================================================================
    ``"refuse"``              raise :class:`InputError` with the count in every column and the environment hit worst
    ``"drop-rows"``           leave out rows in which anything is missing
    ``"drop-columns"``        leave out columns in which anything is missing
    ``"impute-median"``       put in the column's median; in text and true/false its most frequent value
    ``"indicator"``           the same for numbers, with a column "chol missing" (0/1) beside; in text a level "missing"
    ========================  =======================================================================================

    Medians and frequencies are those of all rows together, whatever their environment.

    What it cannot tell: why values are missing. Where that has to do with the target, every choice but "indicator"
    hides it. An imputation can itself make environments look different: if Switzerland never measured cholesterol, all
    its patients get the median of the other hospitals, and the column means something else there.

    Parameters
    ----------
    frame : columns of numbers and text
    how : one of the above
    env : the environment of every row, for the message
    protected : columns that are never filled nor left out (target, environments): only "drop-rows" helps there

    Returns
    -------
    frame : the table without missing values; filled columns of numbers are float64
    notes : what was done, with counts; none if nothing was missing

    >>> table = pd.DataFrame({"age": [50, 61, None], "sex": ["f", "m", "f"]})
    >>> fill(table, "impute-median")[0]["age"].tolist()
    [50.0, 61.0, 55.5]
    >>> fill(table, "indicator")[0].columns.tolist(), fill(table, "drop-rows")[1]
    (['age', 'age missing', 'sex'], ('Left out 1 of 3 rows with missing values (age 1).',))
    """
    if how not in CHOICES:
        raise InputError(f"{spell('missing')} is {how!r}: choose one of {', '.join(CHOICES)}")
    gaps = frame.isna()
    counts = gaps.sum().sort_values(ascending=False, kind="stable")
    counts = counts[counts > 0]
    if counts.empty:
        return frame, ()
    if how == "drop-rows":
        return _without_rows(frame, gaps.any(axis=1).to_numpy(), counts, env)
    untouchable = [name for name in counts.index if name in protected]
    if untouchable:
        name = untouchable[0]
        raise InputError(
            f'column "{name}" has {_values(counts[name])}, and it is not one that can be filled in or left out: '
            f"pass {spell('missing', 'drop-rows')}"
        )
    if how == "refuse":
        raise InputError(_refusal(gaps, counts, env, spell))
    if how == "drop-columns":
        note = f"Left out because values are missing: {_listed(counts)}."
        return frame.drop(columns=counts.index), (note,)
    return _imputed(frame, gaps, counts, spell, indicate=how == "indicator")


def _refusal(gaps: pd.DataFrame, counts: pd.Series, env: pd.Series | None, spell: Spelling) -> str:
    worst = counts.index[0]
    where = "" if env is None else _worst_place(gaps[worst], env)
    remedy = spell("missing", "impute-median")
    if len(counts) == 1:
        return f'column "{worst}" has {_values(counts[worst])}{where and f" ({where})"}. Drop it, or pass {remedy}.'
    return (
        f"{len(counts)} columns have missing values: {_listed(counts)}{where and f' ({worst} in {where})'}. "
        f"Drop them, or pass {remedy}."
    )


def _worst_place(gap: pd.Series, env: pd.Series) -> str:
    """The environment in which the largest share of a column is missing."""
    found = pd.DataFrame({"gap": gap.to_numpy(), "env": env.to_numpy()}).groupby("env", observed=True)["gap"]
    missing, rows = found.sum(), found.size()
    if missing.empty:
        return ""
    worst = int((missing / rows).argmax())
    return f"{missing.index[worst]}: {missing.iloc[worst]} of {rows.iloc[worst]}"


def _without_rows(
    frame: pd.DataFrame, hit: np.ndarray[Any, np.dtype[np.bool_]], counts: pd.Series, env: pd.Series | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    if hit.all():
        raise InputError(
            f"every row has a missing value ({_listed(counts)}): there would be no row left. Drop these columns."
        )
    notes = [f"Left out {hit.sum():,} of {len(frame):,} rows with missing values ({_listed(counts)})."]
    if env is not None:
        before, after = env.value_counts(), env[~hit].value_counts()
        gone = [str(label) for label in before.index if label not in after.index]
        if gone:
            notes.append(f"No row is left of {', '.join(sorted(gone))}.")
        alone = [label for label in after.index if after[label] == 1 < before[label]]
        if alone:
            raise InputError(
                f"without the rows that have a missing value, 1 of {before[alone[0]]} rows of {alone[0]} is left, and "
                f"environments need several: drop the columns that miss most instead ({_listed(counts)})"
            )
    return frame[~hit], tuple(notes)


def _imputed(
    frame: pd.DataFrame, gaps: pd.DataFrame, counts: pd.Series, spell: Spelling, *, indicate: bool
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    empty = [str(name) for name in counts.index if counts[name] == len(frame)]
    if empty:
        raise InputError(
            f'column "{empty[0]}" has no value at all, so none can be filled in: pass {spell("drop", empty[0])}'
        )
    columns: dict[str, pd.Series] = {}
    told: dict[str, str] = {}
    for name, column in frame.items():
        assert isinstance(name, str)
        if name not in counts.index:
            columns[name] = column
            continue
        columns[name], told[name] = _filled(column, indicate=indicate)
        if indicate and kind_of(column) == "numbers":
            columns[unused_name(f"{name} missing", frame.columns)] = gaps[name].astype(np.float64)
    rows = {name: "1 row" if count == 1 else f"{count:,} rows" for name, count in counts.iloc[:COUNT_LIMIT].items()}
    shown = [f"{name} {told[str(name)]} ({count})" for name, count in rows.items()]
    more = f" and {len(counts) - COUNT_LIMIT} more columns" if len(counts) > COUNT_LIMIT else ""
    return pd.DataFrame(columns), (f"Filled in for missing values: {', '.join(shown)}{more}.",)


def _filled(column: pd.Series, *, indicate: bool) -> tuple[pd.Series, str]:
    """The column without gaps, and what was put into them."""
    if kind_of(column) == "numbers":
        truths = pd.api.types.infer_dtype(column, skipna=True) == "boolean"
        numbers = column.astype(np.float64)
        value = float(numbers.mode()[0] if truths else numbers.median())
        return numbers.fillna(value), f"{value:.6g}"
    level = column.mode()[0]
    if indicate:
        level = unused_name("missing", column.unique())
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.cat.add_categories([level])
    return column.fillna(level), f'"{level}"'


def _values(count: int) -> str:
    return f"{count} missing value{'' if count == 1 else 's'}"


def _listed(counts: pd.Series) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in counts.iloc[:COUNT_LIMIT].items())
    return shown if len(counts) <= COUNT_LIMIT else f"{shown} and {len(counts) - COUNT_LIMIT} more"
