"""Labels of environments and classes: distinct ones in order, the code of every row, and what is no label."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Integers
from invariscope.rows.coded import Coded, of_texts
from invariscope.rows.digits import refuse_merged
from invariscope.rows.not_tables import refuse_equal_kinds, refuse_unhashable


def encoded_environments(values: Array | Coded, name: str) -> tuple[tuple[Hashable, ...], Integers]:
    """Labels of environments, and the code of every row; too many, too few or too small ones are refused."""
    labels, codes = unique_labels(values, name)
    if len(labels) < 2:
        raise InputError(
            f'"{name}" has only one environment ("{labels[0]}"): invariance compares at least two. '
            "Choose another column, or add rows from elsewhere."
        )
    if len(labels) > 1000 or len(labels) > len(values) // 2:
        text = isinstance(values, Coded) or all(isinstance(label, str) for label in labels)
        raise InputError(
            f'"{name}" has {len(labels)} different values in {len(values)} rows: that looks like '
            f"{'an' if text else 'a number or an'} identifier, not an environment. "
            f"{'Choose a column that many rows share' if text else 'Bin it into a few groups first'}."
        )
    sizes = np.bincount(codes)
    if sizes.min() < 2:
        raise InputError(
            f'environment "{labels[int(sizes.argmin())]}" has 1 row: at least 2 are needed. Drop it or merge it.'
        )
    return labels, codes


def numbers_or_labels(values: Array | Coded, name: str) -> tuple[Array, tuple[Any, ...] | None]:
    """A target as finite numbers, or as codes into its sorted labels."""
    if not isinstance(values, Coded) and values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
        if values.dtype.kind in "iu":
            refuse_merged(values, numbers, f'target "{name}"')
        bad = ~np.isfinite(numbers)
        if bad.any():
            raise InputError(
                f'target "{name}" has {int(bad.sum())} missing or infinite values: drop those rows or fill them in'
            )
        return numbers, None
    labels, codes = unique_labels(values, name)
    return codes.astype(np.float64), labels


def encoded_target(values: Array | Coded, name: str) -> tuple[Array, tuple[Any, ...] | None]:
    """A target as numbers, or as codes of classes that repeat."""
    codes, labels = numbers_or_labels(values, name)
    if labels is None:
        return codes, None
    if len(labels) < 2:
        raise InputError(
            f'target "{name}" has only one value ("{labels[0]}"): there is nothing to predict. Give rows in which it '
            "varies."
        )
    refuse_too_many_labels(labels, len(values), name)
    return codes, labels


def refuse_too_many_labels(labels: Sequence[Any], rows: int, name: str, most: int = 20) -> None:
    """Labels that hardly repeat are no classes, unless there are few of them."""
    if len(labels) > max(most, rows // 10):
        raise InputError(
            f'target "{name}" has {len(labels)} different labels in {rows} rows: '
            "if it holds numbers or dates, convert it to numbers first; else merge those that are rare"
        )


def unique_labels(values: Array | Coded, name: str) -> tuple[tuple[Any, ...], Integers]:
    """Sorted distinct labels as Python objects, and the code of every row."""
    values = values if isinstance(values, Coded) else of_texts(values) or values
    if isinstance(values, Coded):
        return _unique_coded(values, name)
    if values.dtype.kind == "O":
        return _unique_objects(values, name)
    _refuse_missing_labels(int(np.isnan(values).sum()) if values.dtype.kind in "fmM" else 0, len(values), name)
    labels, codes = np.unique(values, return_inverse=True)
    if values.dtype.kind == "M":
        labels = _shortest(labels)
    return tuple(labels.tolist()), codes.astype(np.intp)


def _unique_coded(values: Coded, name: str) -> tuple[tuple[Any, ...], Integers]:
    """The same where distinct labels are known: only these are compared and put in order."""
    known = values.codes[values.codes >= 0]
    rows = np.bincount(known, minlength=len(values.distinct))
    gaps = [is_missing(label) for label in values.distinct]
    _refuse_missing_labels(len(values) - len(known) + int(rows[gaps].sum()), len(values), name)
    used = np.flatnonzero(rows)
    labels, places = _unique_objects(values.distinct[used], name)
    rank = np.zeros(len(rows), dtype=np.intp)
    rank[used] = places
    return labels, rank[values.codes]


def _unique_objects(values: Array, name: str) -> tuple[tuple[Any, ...], Integers]:
    """The same for labels of any kind, one by one."""
    refuse_unhashable(values, name)
    _refuse_missing_labels(sum(map(is_missing, values)), len(values), name)
    refuse_equal_kinds(values, name)
    distinct = dict.fromkeys(values)
    try:
        ranked = sorted(distinct)
    except TypeError:  # labels of mixed types have no common order
        ranked = sorted(distinct, key=lambda label: (type(label).__name__, str(label)))
    rank = {label: k for k, label in enumerate(ranked)}
    return tuple(ranked), np.fromiter((rank[v] for v in values), np.intp, len(values))


def is_missing(label: Any) -> bool:
    """Whether a label is none: None, NaN, NaT or pandas.NA, which cannot even be compared with itself."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def _refuse_missing_labels(missing: int, rows: int, name: str) -> None:
    if missing:
        raise InputError(f'"{name}" is missing in {missing} of {rows} rows: drop them or give them a label')


def _shortest(dates: Array) -> Array:
    """Dates as text, without the hours and microseconds that nobody gave."""
    if np.datetime_data(dates.dtype)[0] in ("Y", "M", "W", "D"):
        return dates.astype(str)
    return np.datetime_as_string(dates, unit="auto")


def read_alike(labels: Sequence[Any], name: str) -> tuple[str, ...]:
    """A sentence for labels that differ although they read the same.

    >>> print(*read_alike((1, "1", 2), "site"))
    "site" has labels that read alike but differ: 1 (int) and '1' (str). They count as two.
    """
    first: dict[str, Any] = {}
    twins = [(first[str(label)], label) for label in labels if first.setdefault(str(label), label) is not label]
    return tuple(
        f'"{name}" has labels that read alike but differ: {one!r} ({type(one).__name__}) and {other!r} '
        f"({type(other).__name__}). They count as two."
        for one, other in twins
    )
