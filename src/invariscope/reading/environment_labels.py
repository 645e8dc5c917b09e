"""Environments by their labels: which cannot be one as they are, and which to leave out."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.encoding import level_name, sorted_levels
from invariscope.reading.environment_bins import PROPOSED
from invariscope.reading.named_table import listed, some
from invariscope.reading.options import ReadOptions
from invariscope.reading.read_table import kind_of
from invariscope.reading.written_values import look_like_dates, mostly_numbers
from invariscope.rows.arrays import Booleans
from invariscope.rows.spelling import spelling, spelt


def refuse_unbinned(column: pd.Series) -> None:
    """Refuse numbers or dates, also as text, of which (nearly) every row has its own, and say how to group them.

    A single row of some other label is refused as well: no environment consists of one.
    """
    kind = kind_of(column)
    counts = column.value_counts()
    alone = counts.index[counts == 1]
    many = len(counts) > min(1000, len(column) // 2)
    if not many and not len(alone):
        return
    if kind == "text":
        kind = "dates" if look_like_dates(column) else "numbers" if many and mostly_numbers(column) else "text"
    if kind in ("numbers", "dates"):
        proposed: str | int = "month" if kind == "dates" else PROPOSED
        rare = f", {len(alone):,} of them in one row only" if len(alone) else ""
        raise InputError(
            f'column "{column.name}" ({spelt("env")}) has {len(counts):,} different values in {len(column):,} rows'
            f"{rare}: environments need several rows each. Group it, for example with "
            f"{spelt('env_bins', proposed)}{'' if many else f', or leave out what is rare with {_drop(alone)}'}."
        )
    if not many:  # more are refused as identifiers, whoever asks
        raise InputError(
            f'{column.name} "{alone[0]}" has 1 row, and environments need several: leave out what is so rare with '
            f"{_drop(alone)}, or give it another label"
        )


def _drop(labels: pd.Index) -> str:
    """The option that leaves out a few labels; of many only the first, as an example."""
    return spelt("drop_env", [level_name(label) for label in labels[:PROPOSED]]) + (
        " (and so on)" if len(labels) > PROPOSED else ""
    )


def without_environments(env: pd.Series, drop: Hashable | Sequence[Hashable]) -> tuple[Booleans, tuple[str, ...]]:
    """Rows that stay if the environments with these labels are left out, and a note that counts those that go.

    Labels are compared as they are shown: 3 and "3" mean the same. In a shell they are separated by commas.

    >>> keep, notes = without_environments(pd.Series(["Bern", "Oslo", "Rome", "Oslo"], name="site"), "Oslo")
    >>> keep.tolist(), notes
    ([True, False, True, False], ('Left out as asked: site Oslo (2 rows).',))
    """
    labels = {level_name(level): level for level in sorted_levels(env)}
    given = [drop] if isinstance(drop, str) or not isinstance(drop, Sequence | np.ndarray | pd.Index) else list(drop)
    wanted = named_environments([level_name(label) for label in given], labels, env.name, "drop_env")
    if len(wanted) == len(labels):
        raise InputError(f"{spelt('drop_env')} names every {env.name}: there would be no row left, name fewer")
    keep = np.ones(len(env), dtype=bool)
    counts = []
    for label in wanted:
        hit = (env == labels[label]).to_numpy(dtype=bool, na_value=False)
        keep &= ~hit
        counts.append(f"{label} ({'1 row' if hit.sum() == 1 else f'{hit.sum():,} rows'})")
    return keep, (f"Left out as asked: {env.name} {', '.join(counts)}.",) if counts else ()


def named_environments(given: Sequence[str], labels: Collection[str], env_name: Hashable, option: str) -> list[str]:
    """The labels that an option names, each once; in a shell they are separated by commas.

    >>> named_environments(["Oslo", "Bern", "Oslo"], ["Bern", "Oslo", "Rome"], "site", "drop_env")
    ['Oslo', 'Bern']
    """
    wanted = list(dict.fromkeys(listed(given, labels)))
    for label in wanted:
        if label not in labels:
            known = some([f'"{name}"' for name in labels])
            raise InputError(
                f'there is no {env_name} "{label}" ({spelt(option)}): there are {known}{_commas(labels, option)}'
            )
    return wanted


def _commas(labels: Collection[str], option: str) -> str:
    """How a label with a comma is typed where commas separate labels; nothing where none has one."""
    first = next((label for label in labels if "," in label), None)
    if first is None or not spelling().shell:
        return ""
    return f"; a label with a comma goes in double quotes, or in an option of its own: {spelt(option, first)}"


@contextmanager
def with_remedy(env: pd.Series, options: ReadOptions) -> Iterator[None]:
    """Whatever fails because of some environments says how to leave them out, or to group them.

    >>> with with_remedy(pd.Series([1, 2, 2, 3, 3], name="site"), ReadOptions(target="y", env="site")):
    ...     raise InputError("site 1 has 1 row.", environments=[1])
    Traceback (most recent call last):
    invariscope.errors.InputError: site 1 has 1 row. To drop it, pass drop_env="1"; to group the values of site, pass
    env_bins=2.
    """
    try:
        yield
    except InputError as error:
        raise InputError(" ".join(filter(None, [str(error), remedy_for(error.environments, env, options)]))) from error


def remedy_for(labels: Sequence[Hashable], env: pd.Series, options: ReadOptions) -> str:
    """How to leave out these environments, or to group them; nothing where there are none."""
    if not labels:
        return ""
    groups = min(PROPOSED, env.nunique() - 1)  # as many groups as there are values would change nothing
    kinds = {"numbers": groups if groups > 1 else None, "dates": "month"}
    proposed = kinds.get(kind_of(env)) if options.bins is None else None
    grouped = "" if proposed is None else f"; to group the values of {options.env}, pass {spelt('env_bins', proposed)}"
    what = "it" if len(labels) == 1 else "all of these"
    return f"To drop {what}, pass {spelt('drop_env', [str(label) for label in labels])}{grouped}."
