"""Features that are the environment or the target under another name."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd

from invariscope.reading.named_table import some
from invariscope.reading.read_table import kind_of, plain_numbers
from invariscope.rows.arrays import Integers
from invariscope.rows.spelling import spelt

#: A target with more different values is an amount, of which every amount is a one-to-one relabelling.
CLASS_LIMIT = 100
#: Rows in which most columns show already that they tell neither; and those in which nearly all do.
GLANCE, BEGINNING = 100, 1000
#: Pairs up to this number are counted one by one, which is faster than sorting them.
COUNTABLE = 10_000_000


def stand_ins(features: pd.DataFrame, target: pd.Series, env: pd.Series) -> list[str]:
    """Say which features tell the environment or the target, and how to leave them out.

    A feature tells the environment if each of its categories occurs in one environment only, or if it is a number that
    is the same within every environment and differs between them. A shared head then gives every environment an
    intercept of its own, and no difference between their levels is left to be found. A feature is the target if it
    has the same numbers, or other names for the same classes.

    It cannot tell a feature that merely follows the target closely.

    Parameters
    ----------
    features : (n, d) columns of numbers and categories, without gaps
    target : (n,) the target
    env : (n,) the environments, as they are compared

    >>> table = pd.DataFrame({"dose": [1.0, 2.0, 1.5, 1.0], "town": ["Bern", "Bern", "Oslo", "Oslo"]})
    >>> stand_ins(table, pd.Series([0.1, 0.3, 0.2, 0.4]), pd.Series([1, 1, 2, 2], name="site"))[0].partition(":")[0]
    'town tells the environment (site)'
    """
    places = pd.factorize(env)[0]
    first = np.unique(places, return_index=True)[1]
    classes = pd.factorize(target)[0]
    by_env, by_target = _worth_a_look(features, places), _worth_a_look(features, classes, target)
    tell_env = [str(name) for name in by_env if _tells(features[name], places, first)]
    tell_target = [str(name) for name in by_target if _is_target(features[name], target, classes)]
    notes = []
    if tell_env:
        tell = "tells" if len(tell_env) == 1 else "tell"
        notes.append(
            f"{some(tell_env)} {tell} the environment ({env.name}): a head that knows it can fit each environment by "
            f"itself, which hides how they differ. Leave out with {spelt('drop', tell_env)}."
        )
    if tell_target:
        notes.append(
            f"The target {target.name} under another name: {some(tell_target)}. "
            f"Leave out with {spelt('drop', tell_target)}."
        )
    return notes


def _worth_a_look(features: pd.DataFrame, codes: Integers, target: pd.Series | None = None) -> list[Hashable]:
    """All columns but plain numbers that differ within some code, and from the target, in the first rows already."""
    numbers, codes = plain_numbers(features), codes[:GLANCE]
    head = features.iloc[:GLANCE].loc[:, numbers].to_numpy(dtype=np.float64)
    first = np.full(codes.max(initial=-1) + 1, -1)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    same = (head == head[first[codes]]).all(axis=0)
    if target is not None and len(np.unique(codes)) > min(CLASS_LIMIT, len(codes) // 2):  # amounts: equal, or nothing
        values = target.iloc[:GLANCE].to_numpy(dtype=np.float64) if _is_number(target) else np.full(len(codes), np.nan)
        same = (head == values[:, None]).all(axis=0)
    wanted = ~numbers
    wanted[numbers] = same
    return list(features.columns[wanted])


def _tells(column: pd.Series, places: Integers, first: Integers) -> bool:
    """Whether the column says in which place a row is; ``first`` is a row of every place."""
    if not places.any():
        return False
    if _is_number(column):
        values = column.to_numpy(dtype=np.float64)
        return bool((values == values[first][places]).all() and (values != values[0]).any())
    codes = pd.factorize(column)[0]
    return bool(codes.any()) and _pairs(codes, places) == codes.max() + 1


def _is_target(column: pd.Series, target: pd.Series, classes: Integers) -> bool:
    both_numbers = _is_number(column) and _is_number(target)
    if both_numbers and np.array_equal(column.to_numpy(dtype=np.float64), target.to_numpy(dtype=np.float64)):
        return True
    count = int(classes.max(initial=-1)) + 1
    if not 2 <= count <= min(CLASS_LIMIT, len(classes) // 2):
        return False
    # what fails in the first rows need not be looked at in all
    return all(_one_to_one(pd.factorize(column.iloc[:rows])[0], classes[:rows]) for rows in (BEGINNING, len(classes)))


def _one_to_one(first: Integers, second: Integers) -> bool:
    return len(np.unique(first)) == len(np.unique(second)) == _pairs(first, second)


def _pairs(first: Integers, second: Integers) -> int:
    """How many different pairs there are."""
    pairs = first * (second.max() + 1) + second
    return len(np.unique(pairs)) if pairs.max() > COUNTABLE else int(np.count_nonzero(np.bincount(pairs)))


def _is_number(column: pd.Series) -> bool:
    return kind_of(column) == "numbers" and not isinstance(column.dtype, pd.CategoricalDtype)
