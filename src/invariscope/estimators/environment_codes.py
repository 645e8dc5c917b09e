"""Environment labels of any kind as codes, for training and for splitting."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Integers
from invariscope.rows.environments import unique_labels
from invariscope.rows.tables import column_of_labels


def environment_codes(env: Any, rows: int) -> tuple[tuple[Any, ...], Integers]:
    """Sorted labels and the code of every row; labels that are neither text nor number are given as text.

    >>> labels, codes = environment_codes(["b", "a", "b"], 3)
    >>> labels, codes.tolist()
    (('a', 'b'), [1, 0, 1])
    """
    values, name = column_of_labels(env, "env")
    if len(values) != rows:
        raise InputError(f"X has {rows} rows but env has {len(values)}: give one label per row")
    labels, codes = unique_labels(values, name or "env")
    plain = (label.item() if isinstance(label, np.generic) else label for label in labels)
    return tuple(label if isinstance(label, int | float) else str(label) for label in plain), codes
