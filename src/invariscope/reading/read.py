"""`read`: a file or a table → features that are all numbers, a target and environments, ready for `audit`."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import Any

from invariscope.errors import InputError
from invariscope.reading.dataset import Dataset


def read(
    path: str | os.PathLike[str] | Any,
    *,
    target: str,
    env: str,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    categories: str | Sequence[str] = (),
    missing: str = "refuse",
    na: str | Sequence[str] = (),
    env_bins: str | int | Sequence[float] | None = None,
    drop_env: Hashable | Sequence[Hashable] = (),
) -> Dataset:
    """Read a table: ``iv.audit(model, *iv.read("heart.csv", target="disease", env="hospital"))``.

    Numbers stay, true/false becomes 1/0, and text becomes one column of 0 and 1 per level ("workclass=Private").
    Numbers written as text (decimal commas, thousands, percent signs) and dates such as 31.05.2024 are read where there
    is one way to. Dates, nested values, and texts with more than 100 levels or one for more than every second row are
    left out. Whatever was left out, filled in or read in a way that could have been another is in ``.notes``, and so
    are features that tell the environment or the target under another name.

    Parameters
    ----------
    path : a CSV, TSV, Parquet, Feather or Arrow file, or a pandas, polars or pyarrow table
    target : the column that is predicted
    env : the column that says where a row comes from: site, year, camera, ...
    features : columns to use (default: all others)
    drop : columns not to use
    categories : columns of codes, to be treated as text is
    missing : what to do about missing values: "refuse" them, "drop-rows", "drop-columns", "impute-median" (the most
        frequent value in text) or "indicator" (the same, with a column "chol missing" beside; in text a level). All
        but the first leave out rows without target or environment.
        See :func:`invariscope.reading.missing_values.fill` for what that can hide.
    na : texts that mean "missing" besides "?", "NA" and the like in columns of numbers: ``"-"``, ``["n.d.", "-9"]``
    env_bins : group the environments: "year", "quarter", "month", "week", "day", "month-of-year", "weekday" or
        "hour-of-day" of a date; a number of groups of about equal size; or edges, as in ``(30, 50, 65)``
    drop_env : environments to leave out, by label, as they are called when grouped: ``"Oslo"``, ``["2019", "2020"]``

    Returns
    -------
    Dataset : unpacks into ``X`` (a pandas table of float64), ``y`` and ``env``

    It cannot tell codes from amounts (say ``categories=``), numbers that stand for something missing (-9, 999) from
    numbers (say ``na=``), or a feature from something that nearly gives the target away (``drop=`` it).

    Raises
    ------
    InputError : no such file or column, missing values, or a named feature that cannot be one; with the remedy

    >>> import pandas as pd
    >>> table = pd.DataFrame({"ill": [0, 1, 1, 0], "age": [40, 71, 64, 30], "sex": list("fmmf"),
    ...                       "day": pd.to_datetime(["2024-05-31", "2024-06-01", "2025-01-01", "2025-02-01"])})
    >>> data = read(table, target="ill", env="day", env_bins="year")
    >>> data.columns, data.env.tolist()
    (('age', 'sex=f', 'sex=m'), ['2024', '2024', '2025', '2025'])
    """
    from invariscope.reading.named_table import NamedTable
    from invariscope.reading.read_table import frame_of
    from invariscope.reading.tidy_table import tidy

    if isinstance(path, str | os.PathLike):
        table, source = NamedTable.of_file(path, na=[na] if isinstance(na, str) else na), str(path)
    else:
        table, source = NamedTable(frame_of(path), "the table"), f"a {type(path).__module__.split('.')[0]} table"
    roles = table.roles(target=target, env=env)
    found = tidy(
        table,
        roles,
        table.features(roles, features, drop),
        categories=categories,
        missing=missing,
        na=na,
        env_bins=env_bins,
        drop_env=drop_env,
        named=features is not None and len(features) > 0,
    )
    if not found.features.shape[1]:
        raise InputError(f'{table.name} has no feature besides "{target}" and "{env}". {" ".join(found.notes)}'.strip())
    return Dataset(
        X=found.features,
        y=found.target,
        env=found.env,
        columns=tuple(found.features.columns),
        description=f"{len(found.features):,} rows of {table.name}: {target} by {env}",
        source=source,
        notes=found.notes,
        target_name=target,
        env_name=env,
    )
