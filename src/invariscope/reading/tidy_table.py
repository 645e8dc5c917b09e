"""From a user's table to features that are all numbers, a target and environments, with notes on what was done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.dataset import Dataset
from invariscope.reading.encoding import encoded, level_name, sorted_levels
from invariscope.reading.environment_bins import bin_environments
from invariscope.reading.environment_labels import refuse_unbinned, without_environments
from invariscope.reading.missing_values import fill
from invariscope.reading.named_table import NamedTable, some
from invariscope.reading.options import ReadOptions
from invariscope.reading.read_table import kind_of, plain_numbers
from invariscope.reading.stand_ins import stand_ins
from invariscope.reading.text_columns import TextRemarks, cleaned, without
from invariscope.reading.written_values import look_like_dates
from invariscope.rows.spelling import spelt

#: Texts with more levels are left out, because they are names or remarks rather than categories.
LEVEL_LIMIT = 100
#: What may be one-hot encoded if the user asks for it.
CATEGORY_LIMIT = 1000
#: Columns from which on plain numbers are dealt with all at once.
WIDE = 200
#: Columns of numbers and categories, without gaps → columns of float64, and notes.
Encoder = Callable[[pd.DataFrame], tuple[pd.DataFrame, Sequence[str]]]


def tidy(table: NamedTable, options: ReadOptions, names: Sequence[str], *, encode: Encoder | bool = True) -> Dataset:
    """Clean, group, fill in and encode the columns of a table.

    Parameters
    ----------
    table : the table, with the names that messages use
    options : which columns are no features, and what is done to all of them
    names : the features; what cannot be used is left out, or refused if the options name the features
    encode : turn the features into float64, and how if not one-hot; ``False`` leaves them as they are, for a model
        that encodes them itself
    """
    target, env, roles = options.target, options.env, options.roles
    codes = _codes(table, options, names)
    places, grouped = _environments(table, options, clean=bool(encode))
    if options.drop_env:  # what is said of columns is said of the rows that are used
        table = replace(table, frame=table.frame.loc[places.index])
    remarks = TextRemarks()
    numbers = _numbers_of_wide(table, names, {*codes, *roles}) if encode and not options.na else table.frame[[]]
    looked_at = [name for name in names if name not in numbers.columns]
    columns = {name: without(table.frame[name], options.na, remarks) for name in dict.fromkeys([*looked_at, *roles])}
    features, others = {name: columns[name] for name in looked_at}, {name: columns[name] for name in roles}
    notes: list[str] = []
    if encode:
        features, notes = _features(table, features, codes, remarks, options)
        others |= _cleaned_roles(others, options, remarks)
    others[env] = places
    order = [name for name in names if name in features or name in numbers.columns]
    rows, done = _whole_rows(features, others, options, numbers, order, for_model=not encode)
    notes = [*table.notes, *notes, *remarks.notes(), *grouped, *done]
    X = rows.drop(columns=list(roles))
    known = set(order)
    # without the columns that say what was missing, and those in which something is
    given = X[[name for name in X if name in known]].dropna(axis="columns")
    # a model may read the environments, too: as they are in the table, not as they were grouped
    X = X.assign(**{name: column.loc[rows.index] for name, column in features.items() if name in roles})
    if encode:
        notes += stand_ins(given, rows[target], rows[env])
        X, said = encode(X) if callable(encode) else (encoded(X)[0], ())
        notes += said
    else:
        X = X[list(names)]
    X, rows = X.reset_index(drop=True), rows.reset_index(drop=True)
    return Dataset(
        X=X,
        y=rows[target],
        env=_whole_numbers(rows[env]),
        columns=tuple(X.columns),
        description=f"{len(X):,} rows of {table.name}: {target} by {env}",
        notes=tuple(notes),
        others=_others(rows, options),
        target_name=target,
        env_name=env,
    )


def _others(rows: pd.DataFrame, options: ReadOptions) -> dict[str, pd.Series | pd.DataFrame]:
    """The columns that are neither features nor target nor environments, by their part; of a baseline a table."""
    alone = {option: rows[name] for option, name in options.parts if option not in ("target", "env", "baseline")}
    return alone | ({"baseline": rows[list(options.baseline)]} if options.baseline else {})


def _codes(table: NamedTable, options: ReadOptions, names: Sequence[str]) -> list[str]:
    codes = table.columns(options.categories, "categories")
    strangers = [name for name in codes if name not in names]
    if strangers:
        raise InputError(
            f'column "{strangers[0]}" ({spelt("categories")}) is not among the features: leave it out there'
        )
    return codes


def _cleaned_roles(
    columns: Mapping[str, pd.Series], options: ReadOptions, remarks: TextRemarks
) -> dict[str, pd.Series]:
    """Target and environments without stray blanks; numbers where they are to be compared as numbers."""
    by_number = options.bins is not None and not isinstance(options.bins, str)
    return {
        name: cleaned(columns[name], remarks, numbers=numbers, option=option)
        for name, option, numbers in ((options.target, "target", True), (options.env, "env", by_number))
        if name in columns and kind_of(columns[name]) == "text"
    }


def _numbers_of_wide(table: NamedTable, names: Sequence[str], but: Collection[str]) -> pd.DataFrame:
    """Of a wide table the features that are plain numbers, in one piece: one by one they would take their time."""
    chosen = table.frame[[name for name in names if name not in but]] if len(names) > WIDE else table.frame[[]]
    return chosen.loc[:, plain_numbers(chosen)]


def _environments(table: NamedTable, options: ReadOptions, *, clean: bool) -> tuple[pd.Series, list[str]]:
    """The environments of the rows that are used: grouped, some left out; and what was done for that."""
    env = options.env
    column = without(table.frame[env], options.na, TextRemarks())
    if clean:
        column = _cleaned_roles({env: column}, options, TextRemarks()).get(env, column)
    binned: tuple[str, ...] = ()
    if options.bins is not None:
        column, binned = bin_environments(column, options.bins)
    keep, left_out = without_environments(column, options.drop_env)
    column = column[keep] if left_out else column
    if options.bins is None:
        refuse_unbinned(column)
    return column, [*binned, *left_out]


def _whole_rows(
    features: Mapping[str, pd.Series],
    others: dict[str, pd.Series],
    options: ReadOptions,
    numbers: pd.DataFrame,
    order: Sequence[str],
    *,
    for_model: bool,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """All columns side by side, without gaps; and what was done for that."""
    rows = pd.DataFrame({name: column for name, column in features.items() if name not in others} | others, copy=False)
    if len(numbers.columns):
        rows = pd.concat([numbers, rows], axis=1)[[*(name for name in order if name not in others), *others]]
    return fill(
        rows,
        options.missing,
        env=rows[options.env],
        protected=list(others),
        for_model=for_model,
        optional=options.prediction is not None,
    )


def _features(
    table: NamedTable,
    columns: Mapping[str, pd.Series],
    codes: Sequence[str],
    remarks: TextRemarks,
    options: ReadOptions,
) -> tuple[dict[str, pd.Series], list[str]]:
    """Columns of numbers and of categories; others are left out with a note, or refused if asked for by name.

    Where predictions are given, so are columns that could be read in several ways: nothing has to be made of them.
    """
    features: dict[str, pd.Series] = {}
    useless: dict[str, list[str]] = {"dates": [], "nested values": []}
    identifiers: dict[str, int] = {}
    unclear: list[str] = []
    for name, given in columns.items():
        try:
            column, kind = _feature(table, given, name in codes, remarks)
        except InputError as error:
            if options.prediction is None or options.features:
                raise
            unclear.append(f"Left out, since predictions are given: {error}")
            continue
        if kind in useless:
            useless[kind].append(name)
        elif kind == "identifiers":
            identifiers[name] = column.nunique()
        else:
            features[name] = column
    if options.features:
        _refuse_named(table, useless, identifiers)
    notes = [f"Left out because they are {kind}: {some(names)}." for kind, names in useless.items() if names]
    if identifiers:
        counts = [f"{name} ({levels:,})" for name, levels in identifiers.items()]
        notes.append(f"Left out because they have too many different texts for categories: {some(counts)}.")
    levels = {name: features[name].nunique() for name in codes if name in features}
    many = [name for name, count in levels.items() if count > LEVEL_LIMIT]
    if many:
        counts = [f"{name} ({levels[name]:,})" for name in many]
        otherwise = f"leave out {spelt('categories', many)}, or pass {spelt('drop', many)} in its place"
        notes.append(
            f"Encoded as categories as asked, one column for every value: {some(counts)}. If that is too many, "
            f"{otherwise}."
        )
    return features, [*notes, *unclear]


def _feature(table: NamedTable, column: pd.Series, is_code: bool, remarks: TextRemarks) -> tuple[pd.Series, str]:
    """The column as a feature, and what it holds: numbers, categories, or what cannot be a feature."""
    kind, categorical = kind_of(column), is_code or isinstance(column.dtype, pd.CategoricalDtype)
    if kind == "text":
        column = cleaned(column, remarks, numbers=not categorical)
        kind = kind_of(column)
        if kind == "text" and not categorical and look_like_dates(column):
            return column, "dates"
    if kind in ("dates", "nested values") or not (kind == "text" or categorical):
        return column, kind
    levels = column.nunique()
    if is_code and levels > CATEGORY_LIMIT:
        raise InputError(
            f'column "{column.name}" ({spelt("categories")}) has {levels:,} different values: that is no '
            f"category. Group them into at most {CATEGORY_LIMIT:,}, or drop the column."
        )
    if not is_code and (levels > LEVEL_LIMIT or levels > len(column) // 2):
        return column, "identifiers"
    # as categories, so that texts are compared once and not in every step that follows
    return _as_categories(column) if categorical else column.astype("category"), "categories"


def _refuse_named(table: NamedTable, useless: Mapping[str, Sequence[str]], identifiers: Mapping[str, int]) -> None:
    option = spelt("features")
    for kind, names in useless.items():
        if names:
            remedy = "turn it into numbers (year, day of year, ...)" if kind == "dates" else "unpack it into columns"
            raise InputError(f'column "{names[0]}" ({option}) holds {kind}: {remedy} or leave it out')
    for name, levels in identifiers.items():
        raise InputError(
            f'column "{name}" ({option}) has {levels:,} different texts in {len(table.frame):,} rows, like an '
            f"identifier: leave it out, group its values, or pass {spelt('categories', name)} to encode them all"
        )


def _as_categories(column: pd.Series) -> pd.Series:
    """Codes as categories, under the names people know them by and in the order of the codes."""
    levels = sorted_levels(column)
    positions = pd.Index(levels).get_indexer(pd.Index(column))
    labels = pd.Categorical.from_codes(positions, categories=pd.Index([level_name(level) for level in levels]))
    return pd.Series(labels, index=column.index, name=column.name)


def _whole_numbers(env: pd.Series) -> pd.Series:
    """Sites 1, 2, 3 that became 1.0, 2.0, 3.0 because some were missing are whole numbers again."""
    if env.dtype.kind == "f" and (env == np.floor(env)).all():
        return env.astype(np.int64)
    return env
