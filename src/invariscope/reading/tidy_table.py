"""From a user's table to features that are all numbers, a target and environments, with notes on what was done."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.encoding import level_columns, level_name, sorted_levels, unused_name, write_indicators
from invariscope.reading.environment_bins import bin_environments, refuse_unbinned, without_environments
from invariscope.reading.missing_values import fill
from invariscope.reading.named_table import NamedTable, some
from invariscope.reading.read_table import kind_of
from invariscope.reading.stand_ins import stand_ins
from invariscope.reading.text_columns import TextRemarks, cleaned, without
from invariscope.reading.written_dates import look_like_dates

#: Texts with more levels are left out, because they are names or remarks rather than categories.
LEVEL_LIMIT = 100
#: What may be one-hot encoded if the user asks for it.
CATEGORY_LIMIT = 1000


@dataclass(frozen=True, eq=False)
class TidyTable:
    """The same rows three times: features, target and environments; and columns that have another part.

    ``features`` are float64 if they were encoded, else what they were in the table.
    """

    features: pd.DataFrame
    target: pd.Series
    env: pd.Series
    others: pd.DataFrame
    notes: tuple[str, ...]


def tidy(
    table: NamedTable,
    roles: Mapping[str, str],
    names: Sequence[str],
    *,
    categories: str | Sequence[str] = (),
    missing: str = "refuse",
    na: str | Sequence[str] = (),
    env_bins: str | int | Sequence[float] | None = None,
    drop_env: Hashable | Sequence[Hashable] = (),
    named: bool = False,
    encode: bool = True,
) -> TidyTable:
    """Clean, group, fill in and encode the columns of a table.

    Parameters
    ----------
    table : the table, with the names that messages use
    roles : columns that are no features, and what they are: "target", "env", and others that only go along
    names : the features
    categories : columns of numbers among them that are codes
    missing : as in :func:`invariscope.reading.missing_values.fill`
    na : texts that mean "missing", besides the usual ones
    env_bins : as in :func:`invariscope.reading.environment_bins.bin_environments`
    drop_env : labels of environments to leave out, as they are called when grouped
    named : the user asked for these features by name: refuse what cannot be used instead of leaving it out
    encode : turn the features into numbers; ``False`` leaves them as they are, for a model that encodes them itself
    """
    spell = table.spell
    target, env = (next(name for name, role in roles.items() if role == wanted) for wanted in ("target", "env"))
    _refuse_nested(table, target, env)
    codes = table.columns(categories, "categories")
    strangers = [name for name in codes if name not in names]
    if strangers:
        raise InputError(
            f'column "{strangers[0]}" ({spell("categories")}) is not among the features: leave it out there'
        )
    remarks = TextRemarks()
    absent = [na] if isinstance(na, str) else list(na)
    columns = {name: without(table.frame[name], absent, remarks) for name in dict.fromkeys([*names, *roles])}
    kept = {name: columns[name] for name in roles}
    notes: list[str] = []
    if encode:
        chosen, notes = _features(table, {name: columns[name] for name in names}, codes, remarks, named=named)
        by_number = env_bins is not None and not isinstance(env_bins, str)
        for name, numbers in ((target, True), (env, by_number)):
            if kind_of(kept[name]) == "text":
                kept[name] = cleaned(kept[name], remarks, numbers=numbers, option=roles[name], spell=spell)
    else:
        chosen = {name: columns[name] for name in names}
    notes = [*table.notes, *notes, *remarks.notes()]
    if env_bins is not None:
        kept[env], remarks_on_bins = bin_environments(kept[env], env_bins, spell=spell)
        notes += remarks_on_bins
    rows = pd.DataFrame({name: column for name, column in chosen.items() if name not in kept} | kept, copy=False)
    keep, left_out = without_environments(kept[env], drop_env, spell=spell)
    notes += left_out
    if left_out:
        rows = rows[keep]
    if env_bins is None:
        refuse_unbinned(rows[env], spell=spell)
    rows, done = fill(rows, missing, env=rows[env], protected=list(kept), spell=spell)
    notes += done
    features = rows.drop(columns=list(kept))
    if encode:
        notes += stand_ins(
            features[[name for name in features if name in chosen]], rows[target], rows[env], spell=spell
        )
        features = _encoded(features)
    elif missing != "drop-columns":
        # a model may read the environments, too: as they are in the table, not as they were grouped
        features = features.assign(**{name: columns[name].loc[rows.index] for name in names if name in kept})
        features = features[list(names)]
    return TidyTable(
        features=features.reset_index(drop=True),
        target=rows[target].reset_index(drop=True),
        env=_whole(rows[env]).reset_index(drop=True),
        others=rows[[name for name in kept if name not in (target, env)]].reset_index(drop=True),
        notes=tuple(notes),
    )


def _refuse_nested(table: NamedTable, *names: str) -> None:
    for name, option in zip(names, ("target", "env"), strict=True):
        if kind_of(table.frame[name]) == "nested values":
            raise InputError(f'column "{name}" ({table.spell(option)}) holds nested values: name a column of labels')


def _features(
    table: NamedTable, columns: Mapping[str, pd.Series], codes: Sequence[str], remarks: TextRemarks, *, named: bool
) -> tuple[dict[str, pd.Series], list[str]]:
    """Columns of numbers and of categories; others are left out with a note, or refused if asked for by name."""
    features: dict[str, pd.Series] = {}
    useless: dict[str, list[str]] = {"dates": [], "nested values": []}
    identifiers: dict[str, int] = {}
    for name, given in columns.items():
        column, kind = given, kind_of(given)
        is_code = name in codes or isinstance(column.dtype, pd.CategoricalDtype)
        if kind in useless:
            useless[kind].append(name)
            continue
        if kind == "text":
            column = cleaned(column, remarks, numbers=not is_code, spell=table.spell)
            kind = kind_of(column)
            if kind == "text" and not is_code and look_like_dates(column):
                useless["dates"].append(name)
                continue
        if kind == "text" or is_code:
            levels = column.nunique()
            _refuse_category(table, name, levels, is_code=name in codes)
            if name not in codes and (levels > LEVEL_LIMIT or levels > len(column) // 2):
                identifiers[name] = levels
                continue
        if is_code:
            column = _as_categories(column)
        # as categories, so that texts are compared once and not in every step that follows
        features[name] = column.astype("category") if kind == "text" and not is_code else column
    if named:
        _refuse_named(table, useless, identifiers)
    notes = [f"Left out because they are {kind}: {some(found)}." for kind, found in useless.items() if found]
    if identifiers:
        counts = [f"{name} ({levels:,})" for name, levels in identifiers.items()]
        notes.append(f"Left out because they have too many different texts for categories: {some(counts)}.")
    return features, notes


def _refuse_category(table: NamedTable, name: str, levels: int, *, is_code: bool) -> None:
    if is_code and levels > CATEGORY_LIMIT:
        raise InputError(
            f'column "{name}" ({table.spell("categories")}) has {levels:,} different values: that is no category. '
            f"Group them into at most {CATEGORY_LIMIT:,}, or drop the column."
        )


def _refuse_named(table: NamedTable, useless: Mapping[str, Sequence[str]], identifiers: Mapping[str, int]) -> None:
    option = table.spell("features")
    for kind, found in useless.items():
        if found:
            remedy = "turn it into numbers (year, day of year, ...)" if kind == "dates" else "unpack it into columns"
            raise InputError(f'column "{found[0]}" ({option}) holds {kind}: {remedy} or leave it out')
    for name, levels in identifiers.items():
        raise InputError(
            f'column "{name}" ({option}) has {levels:,} different texts in {len(table.frame):,} rows, like an '
            f"identifier: leave it out, group its values, or pass {table.spell('categories', name)} to encode them all"
        )


def _as_categories(column: pd.Series) -> pd.Series:
    """Codes as categories, under the names people know them by and in the order of the codes."""
    levels = sorted_levels(column)
    positions = pd.Index(levels).get_indexer(pd.Index(column))
    labels = pd.Categorical.from_codes(positions, categories=pd.Index([level_name(level) for level in levels]))
    return pd.Series(labels, index=column.index, name=column.name)


def _encoded(frame: pd.DataFrame) -> pd.DataFrame:
    """All columns as float64, in one piece of memory."""
    levels = {name: _levels(column) for name, column in frame.items()}
    width = sum(1 if found is None else len(found) for found in levels.values())
    values = np.zeros((width, len(frame)))
    names: list[str] = []
    taken = {str(name) for name in frame.columns}  # what stood in the table keeps its name
    for name, column in frame.items():
        found = levels[name]
        start = len(names)
        if found is None:
            values[start] = column.to_numpy(dtype=np.float64)
            names.append(str(name))
            continue
        write_indicators(column, found, values[start : start + len(found)])
        names += [unused_name(level, taken) for level in level_columns(column, found)]
        taken.update(names[start:])
    return pd.DataFrame(values.T, index=frame.index, columns=pd.Index(names, dtype=object), copy=False)


def _levels(column: pd.Series) -> list[Hashable] | None:
    """The levels of a column of categories, in order; of numbers ``None``."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return None
    used = np.bincount(column.cat.codes, minlength=len(column.cat.categories)) > 0
    levels: list[Hashable] = column.cat.categories[used].tolist()
    return levels


def _whole(env: pd.Series) -> pd.Series:
    """Sites 1, 2, 3 that became 1.0, 2.0, 3.0 because some were missing are whole numbers again."""
    if env.dtype.kind == "f" and (env == np.floor(env)).all():
        return env.astype(np.int64)
    return env
