"""Environments left out by their labels, and the advice to do so where something fails because of them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.encoding import level_name, sorted_levels
from invariscope.reading.environment_bins import PROPOSED
from invariscope.reading.named_table import listed, some
from invariscope.reading.options import PYTHON, ReadOptions, Spelling
from invariscope.reading.read_table import kind_of
from invariscope.rows.arrays import Booleans


def without_environments(
    env: pd.Series, drop: Hashable | Sequence[Hashable], *, spell: Spelling = PYTHON
) -> tuple[Booleans, tuple[str, ...]]:
    """Rows that stay if the environments with these labels are left out, and a note that counts those that go.

    Labels are compared as they are shown: 3 and "3" mean the same. In a shell they are separated by commas.

    >>> keep, notes = without_environments(pd.Series(["Bern", "Oslo", "Rome", "Oslo"], name="site"), "Oslo")
    >>> keep.tolist(), notes
    ([True, False, True, False], ('Left out as asked: site Oslo (2 rows).',))
    """
    labels = {level_name(level): level for level in sorted_levels(env)}
    given = [drop] if isinstance(drop, str) or not isinstance(drop, Sequence | np.ndarray | pd.Index) else list(drop)
    wanted = named_environments([level_name(label) for label in given], labels, env.name, "drop_env", spell)
    if len(wanted) == len(labels):
        raise InputError(f"{spell('drop_env')} names every {env.name}: there would be no row left")
    keep = np.ones(len(env), dtype=bool)
    counts = []
    for label in wanted:
        hit = (env == labels[label]).to_numpy(dtype=bool, na_value=False)
        keep &= ~hit
        counts.append(f"{label} ({'1 row' if hit.sum() == 1 else f'{hit.sum():,} rows'})")
    return keep, (f"Left out as asked: {env.name} {', '.join(counts)}.",) if counts else ()


def named_environments(
    given: Sequence[str], labels: Collection[str], env_name: Hashable, option: str, spell: Spelling
) -> list[str]:
    """The labels that an option names, each once; in a shell they are separated by commas.

    >>> named_environments(["Oslo", "Bern", "Oslo"], ["Bern", "Oslo", "Rome"], "site", "drop_env", PYTHON)
    ['Oslo', 'Bern']
    """
    wanted = list(dict.fromkeys(listed(given, labels) if spell.shell else given))
    for label in wanted:
        if label not in labels:
            raise InputError(f'there is no {env_name} "{label}" ({spell(option)}): there are {some(list(labels))}')
    return wanted


@contextmanager
def with_remedy(env: pd.Series, options: ReadOptions) -> Iterator[None]:
    """Whatever fails because of some environments says how to leave them out, or to group them.

    >>> with with_remedy(pd.Series([1, 2, 2], name="site"), ReadOptions(target="y", env="site")):
    ...     raise InputError("site 1 has 1 row.", environments=[1])
    Traceback (most recent call last):
    invariscope.errors.InputError: site 1 has 1 row. To drop it, pass drop_env="1"; to group the values of site, pass
    env_bins=4.
    """
    try:
        yield
    except InputError as error:
        raise InputError(" ".join(filter(None, [str(error), remedy_for(error.environments, env, options)]))) from error


def remedy_for(labels: Sequence[Hashable], env: pd.Series, options: ReadOptions) -> str:
    """How to leave out these environments, or to group them; nothing where there are none."""
    if not labels:
        return ""
    spell = options.spell
    proposed = {"numbers": PROPOSED, "dates": "month"}.get(kind_of(env)) if options.bins is None else None
    grouped = "" if proposed is None else f"; to group the values of {options.env}, pass {spell('env_bins', proposed)}"
    what = "it" if len(labels) == 1 else "all of these"
    return f"To drop {what}, pass {spell('drop_env', [str(label) for label in labels])}{grouped}."
