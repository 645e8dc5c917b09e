"""What people have in place of a table or a column: refused by its own name, each with the way to a table."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from numbers import Number
from os import PathLike
from typing import Any

import numpy as np

from invariscope.errors import InputError

MOST_LETTERS = 80  # of a value in an error


def refuse_no_table(values: Any, what: str, *, table: bool) -> None:
    """Refuse what numpy would take for a single value; ``table`` says that several columns are asked for."""
    remedy = _remedy(values, what, table)
    if remedy:
        raise InputError(f"{what} is {remedy}")


def _remedy(values: Any, what: str, table: bool) -> str:
    kind, column = type(values).__name__, "" if table else ", or one of its columns"
    if values is None:
        return f"None: give {'a table of rows x columns' if table else 'one value per row'}"
    if isinstance(values, type):
        return f"the class {values.__name__}: give {'a table of rows x columns' if table else 'one value per row'}"
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        return f"a sparse matrix: give {what}.toarray(){'' if table else '.ravel()'}, if that fits into memory"
    if hasattr(values, "collect") and kind.startswith("Lazy"):
        return f"a {kind}, whose rows are not computed yet: give {what}.collect(){column}"
    if isinstance(values, Mapping):
        return f"a {kind}: give pandas.DataFrame({what}){column}"
    if isinstance(values, list | tuple) and values and isinstance(values[0], Mapping):
        return f"a {kind} of {type(values[0]).__name__}s: give pandas.DataFrame({what}){column}"
    if isinstance(values, Set):
        return f"a {kind}, which has no order: give a list in the order of the rows"
    if isinstance(values, Iterator):
        return f"a {kind}, which can be read only once: give list({what})"
    if table and isinstance(values, str | bytes | PathLike):
        return f"a text ({in_words(values)}): give the table itself; iv.read(path, target=, env=) reads one from a file"
    return ""


def refuse_masked(values: Any, what: str) -> None:
    """What a mask hides is not known, and whoever asks for plain numbers would be given what stands under it."""
    if isinstance(values, np.ma.MaskedArray) and (hidden := int(np.ma.getmaskarray(values).sum())):
        raise InputError(
            f"{what}: {hidden} values are masked; fill them, or drop those rows here and in X, y and env alike"
        )


def refuse_no_rows(X: Any) -> None:
    """Refuse what has no rows to count; what else a model reads (sparse rows, dicts, texts) is its own affair."""
    if isinstance(X, type) or not (hasattr(X, "__len__") or hasattr(X, "shape")) or getattr(X, "shape", None) == ():
        refuse_no_table(X, "X", table=True)
        raise InputError(f"X is a single value ({in_words(X)}): give a table of rows x columns, or np.asarray(X)")
    if isinstance(X, Set | str | bytes | PathLike) or type(X).__name__.startswith("Lazy"):
        refuse_no_table(X, "X", table=True)
    if isinstance(X, deque):  # has rows, and no slices of them
        raise InputError("X is a deque: give list(X)")


def refuse_other_order(**parts: Any) -> None:
    """Rows go by their place: tables of pandas that name the same rows in another order are about other rows.

    An index that only counts says nothing: it may have been made for rows that were shuffled before.
    """
    indexed = {name: part.index for name, part in parts.items() if hasattr(part, "iloc")}
    named = {name: index for name, index in indexed.items() if type(index).__name__ != "RangeIndex" and index.is_unique}
    first, *others = named or [""]
    for other in others:
        one, two = named[first], named[other]
        if len(one) == len(two) and not one.equals(two) and one.isin(two).all():
            raise InputError(
                f"{other} names the rows of {first} in another order: give {other}.loc[{first}.index], or both with "
                ".reset_index(drop=True) if they go by their place"
            )


def refuse_equal_kinds(values: Iterable[Any], name: str) -> None:
    """1 and True are the same to Python, and two things to whoever wrote both into one column."""
    given = list(values)
    switches = {bool(value) for value in given if isinstance(value, bool | np.bool_)}
    numbers: set[Any] = {v for v in given if isinstance(v, Number) and not isinstance(v, bool)} if switches else set()
    both = [switch for switch in sorted(switches) if switch in numbers]
    if both:
        raise InputError(
            f'"{name}" holds both {int(both[0])} and {both[0]}, which count as one value: write one of them otherwise, '
            "as a text, say"
        )


def refuse_unhashable(values: Iterable[Any], name: str) -> None:
    """Lists, dicts and arrays are no labels: nobody can tell which of them are the same."""
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise InputError(
                f'"{name}" holds a {type(value).__name__} ({in_words(value)}) in place of a label: give texts or '
                "numbers, such as str() of each"
            ) from None


def in_words(value: Any) -> str:
    """A value as an error shows it, however long it is."""
    text = repr(value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)
    text = " ".join(text.split())
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
