"""Missing values: refused with a count and a place, or dealt with in the way the user chose, which is then noted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.encoding import level_name, unused_name
from invariscope.reading.named_table import some
from invariscope.reading.options import MISSING_CHOICES
from invariscope.reading.read_table import kind_of
from invariscope.rows.spelling import spelt

#: Columns listed with their counts before "and N more".
COUNT_LIMIT = 30
#: Columns to leave out are proposed until no larger share of the rows has a gap.
COSTLY = 0.25


def fill(
    frame: pd.DataFrame,
    how: str,
    *,
    env: pd.Series | None = None,
    protected: Sequence[str] = (),
    for_model: bool = False,
    optional: bool = False,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Deal with missing values, and say in plain sentences what was done.

    ========================  =======================================================================================
    ``"refuse"``              raise :class:`InputError` with the count in every column and the environment hit worst
    ``"drop-rows"``           leave out rows in which anything is missing
    ``"drop-columns"``        leave out columns in which anything is missing
    ``"impute-median"``       put in the column's median; in text and true/false its most frequent value
    ``"indicator"``           the same for numbers, with a column "chol missing" (0/1) beside; in text a level "missing"
    ``"keep"``                leave gaps where they are, for a model that fills them in by itself
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
    protected : columns that are never filled nor left out (target, environments): where one is missing, every choice
        but "refuse" leaves out the row, which is of no use
    for_model : the columns go to a model that reads the table as it is: only then they may keep their gaps
    optional : predictions are given, so that nothing has to be made of the columns: "refuse" leaves gaps where they
        are, and "drop-rows" leaves out rows for gaps in protected columns alone

    Returns
    -------
    frame : the table without missing values, unless they are kept; filled columns of numbers are float64
    notes : what was done, with counts; none if nothing was missing

    >>> table = pd.DataFrame({"age": [50, 61, None], "sex": ["f", "m", "f"]})
    >>> fill(table, "impute-median")[0]["age"].tolist()
    [50.0, 61.0, 55.5]
    >>> fill(table, "indicator")[0].columns.tolist(), fill(table, "drop-rows")[1]
    (['age', 'age missing', 'sex'], ('Left out 1 of 3 rows with missing values (age 1).',))
    """
    if how not in MISSING_CHOICES:
        raise InputError(f"{spelt('missing')} is {how!r}: choose one of {', '.join(MISSING_CHOICES)}")
    gaps = frame.isna()
    useless = gaps[list(protected)].any(axis=1).to_numpy()
    notes: tuple[str, ...] = ()
    if useless.any() and how != "drop-rows":
        lacking = _counts(gaps[list(protected)])
        if how == "refuse":
            raise InputError(
                f'column "{lacking.index[0]}" has {_values(lacking.iloc[0])}, and it is not one that can be filled in '
                f"or left out: pass {spelt('missing', 'drop-rows')}"
            )
        if useless.all():
            which = " or ".join(map(str, lacking.index))
            raise InputError(f"every row lacks {which}: there would be no row left, name another column")
        which = " or ".join(f"{name} ({count:,})" for name, count in lacking.items())
        notes = (f"Left out {useless.sum():,} of {len(frame):,} rows that lack {which}.",)
        frame, gaps = frame[~useless], gaps[~useless]
        env = None if env is None else env[~useless]
    if optional and how == "drop-rows" and useless.any():
        frame, notes = _without_rows(frame, gaps[list(protected)], env, protected)
        gaps = frame.isna()
    counts = _counts(gaps)
    if counts.empty:
        return frame, notes
    if optional and how in ("refuse", "keep", "drop-rows"):
        looked_at = f"with {spelt('missing', 'impute-median')} these columns are looked at as well"
        return frame, (*notes, f"Predictions are given, so missing values stay ({_listed(counts)}); {looked_at}.")
    if how == "refuse":
        raise InputError(_refusal(gaps, counts, env, for_model))
    if how == "keep" and not for_model:
        raise InputError(
            f"{spelt('missing', how)} is for a model that fills gaps in by itself, and here is none "
            f"({_listed(counts)}): choose drop-rows or impute-median"
        )
    if how == "keep":
        return frame, (*notes, f"Left to the model, which fills in what is missing: {_listed(counts)}.")
    if how == "drop-rows":
        return _without_rows(frame, gaps, env, protected)
    if how == "drop-columns":
        note = f"Left out because values are missing: {_listed(counts)}."
        return frame.drop(columns=counts.index), (*notes, note)
    filled, note = _imputed(frame, gaps, counts, indicate=how == "indicator")
    return filled, (*notes, note)


def _counts(gaps: pd.DataFrame) -> pd.Series:
    """Missing values of every column that has some, most first."""
    counts = gaps.sum().sort_values(ascending=False, kind="stable")
    return counts[counts > 0]


def _refusal(gaps: pd.DataFrame, counts: pd.Series, env: pd.Series | None, for_model: bool) -> str:
    worst = counts.index[0]
    where = "" if env is None else _worst_place(gaps[worst], env)
    remedy = spelt("missing", "impute-median")
    if for_model:
        remedy += f", or {spelt('missing', 'keep')} if the model fills them in by itself"
    if len(counts) == 1:
        return f'column "{worst}" has {_values(counts[worst])}{where and f" ({where})"}. Drop it, or pass {remedy}.'
    return (
        f"{len(counts)} columns have missing values: {_listed(counts)}{where and f' ({worst} in {where})'}. "
        f"Drop them, or pass {remedy}."
    )


def _worst_place(gap: pd.Series, env: pd.Series) -> str:
    """The environment in which the largest share of a column is missing."""
    gaps = pd.DataFrame({"gap": gap.to_numpy(), "env": env.to_numpy()}).groupby("env", observed=True)["gap"]
    missing, rows = gaps.sum(), gaps.size()
    if missing.empty:
        return ""
    worst = int((missing / rows).argmax())
    return f"{missing.index[worst]}: {missing.iloc[worst]} of {rows.iloc[worst]}"


def _without_rows(
    frame: pd.DataFrame, gaps: pd.DataFrame, env: pd.Series | None, protected: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    hit, counts = gaps.any(axis=1).to_numpy(), _counts(gaps)
    costly = _costly(gaps, [name for name in counts.index if name not in protected])
    if hit.all():
        remedy = f"Leave out columns with {spelt('drop', costly)}." if costly else "Name other columns."
        raise InputError(f"every row has a missing value ({_listed(counts)}): there would be no row left. {remedy}")
    saving = ""
    if costly and hit.mean() > 0.5:
        left = int(gaps.drop(columns=costly).any(axis=1).sum())
        saving = f" With {spelt('drop', costly)} it would be {left:,}."
    notes = [f"Left out {hit.sum():,} of {len(frame):,} rows with missing values ({_listed(counts)}).{saving}"]
    if env is not None:
        before, after = env.value_counts(), env[~hit].value_counts()
        gone = [str(label) for label in before.index if label not in after.index]
        if gone:
            notes.append(f"No row is left of {', '.join(sorted(gone))}.")
        alone = [label for label in after.index if after[label] == 1 < before[label]]
        if alone:
            most = f"leave out the columns that miss most with {spelt('drop', costly)}"
            remedy = most if costly else f"leave it out with {spelt('drop_env', level_name(alone[0]))}"
            raise InputError(
                f"without the rows that have a missing value, 1 of {before[alone[0]]} rows of {alone[0]} is left, and "
                f"environments need several: {remedy} ({_listed(counts)})"
            )
    return frame[~hit], tuple(notes)


def _costly(gaps: pd.DataFrame, droppable: list[str]) -> list[str]:
    """The columns that miss most, without which less than a quarter of the rows would go; none if it is less anyhow."""
    if not droppable:
        return []
    at_last = gaps.drop(columns=droppable).any(axis=1).to_numpy()  # in columns that stay
    holes = gaps[droppable].to_numpy()[:, ::-1]
    # the last of the droppable columns in which a row has a gap: without so many of them it has none
    needed = np.where(holes.any(axis=1), len(droppable) - holes.argmax(axis=1), 0)
    needed[at_last] = len(droppable) + 1
    hit = np.cumsum(np.bincount(needed, minlength=len(droppable) + 2)[::-1])[::-1] / len(gaps)
    enough = np.flatnonzero(hit[1 : len(droppable) + 1] < COSTLY)
    return droppable[: int(enough[0])] if len(enough) else droppable


def _imputed(frame: pd.DataFrame, gaps: pd.DataFrame, counts: pd.Series, *, indicate: bool) -> tuple[pd.DataFrame, str]:
    empty = [str(name) for name in counts.index if counts[name] == len(frame)]
    if empty:
        raise InputError(
            f'column "{empty[0]}" has no value at all, so none can be filled in: pass {spelt("drop", empty[0])}'
        )
    columns: dict[str, pd.Series] = {}
    values: dict[str, str] = {}
    for name, column in frame.items():
        assert isinstance(name, str)
        if name not in counts.index:
            columns[name] = column
            continue
        columns[name], values[name] = _filled(column, indicate=indicate)
        if indicate and kind_of(column) == "numbers":
            columns[unused_name(f"{name} missing", frame.columns)] = gaps[name].astype(np.float64)
    rows = {name: "1 row" if count == 1 else f"{count:,} rows" for name, count in counts.iloc[:COUNT_LIMIT].items()}
    shown = [f"{name} {values[str(name)]} ({count})" for name, count in rows.items()]
    more = f" and {len(counts) - COUNT_LIMIT} more columns" if len(counts) > COUNT_LIMIT else ""
    return pd.DataFrame(columns), f"Filled in for missing values: {', '.join(shown)}{more}."


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
    return some([f"{name} {count:,}" for name, count in counts.items()], COUNT_LIMIT)
