"""What data sets with a known law have in common: rows drawn environment by environment, and the truth about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.reading.dataset import TEST, TRAIN, Dataset
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import is_real, is_whole, several, shown, whole_number

MOST_ROWS, MOST_COLUMNS, MOST_ENVIRONMENTS = 10**9, 10**6, 10**5  # of which nobody has the memory

Generator = np.random.Generator
#: Features and target of so many rows of the environment at a position, drawn from its own stream.
Sample = Callable[[int, int, Generator], tuple[Floats, Array]]

DRIC = '"Measuring invariance in representation learning: a robust evaluation framework"'
INFLUENCE = '"Out-of-distribution generalization analysis via influence function"'


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Synthetic(Dataset):
    """Rows drawn from a known law: first the training rows, environment after environment, then any test rows.

    Like every :class:`~invariscope.reading.dataset.Dataset`, and also:

    Attributes
    ----------
    X : (n, d) features, an array
    y : (n,) target: numbers, or classes 0..K-1; (n, k) where the target is a vector
    invariant : positions of the columns that form the invariant representation: E[Y | these] is the same everywhere
    truth : population quantities of the law, under the names each function documents

    >>> from invariscope.datasets.synthetic.nulls import null_same_law
    >>> data = null_same_law(n=10, d=3)
    >>> len(data), data.invariant, data.truth["regret"]
    (30, (0, 1, 2), 0.0)
    """

    invariant: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Design:
    """Environments by label, rows to draw in each, their streams; ``test_rows`` is ``None`` where none are wanted."""

    labels: Sequence[Any]
    rows: list[int]
    test_rows: list[int] | None
    streams: list[Generator]


def designed(
    labels: Sequence[Any], n: int | Sequence[int], seed: int, *, n_test: int | Sequence[int] = 0, further: int = 0
) -> tuple[Design, list[Generator]]:
    """Rows as asked for and a stream of its own for each environment; and as many ``further`` streams, for the law."""
    rows = row_counts(n, len(labels))
    no_test = isinstance(n_test, int | np.integer) and n_test == 0
    test_rows = None if no_test else row_counts(n_test, len(labels), "n_test")
    streams = np.random.default_rng(whole_number(seed, "seed")).spawn(further + len(labels))
    return Design(labels, rows, test_rows, streams[further:]), streams[:further]


def drawn(sample: Sample, design: Design, **about: Any) -> Synthetic:
    """Draw every environment from its own stream, so that more rows in one change nothing in the others.

    Test rows come from a stream that each environment's stream spawns: the training rows are the same with and
    without them, and more training rows do not change them.
    """
    wanted = [(design.rows, design.streams, TRAIN)]
    if design.test_rows is not None:
        wanted.append((design.test_rows, [stream.spawn(1)[0] for stream in design.streams], TEST))
    features, targets, names, parts = [], [], [], []
    for counts, sources, part in wanted:
        for position, (count, source) in enumerate(zip(counts, sources, strict=True)):
            X, y = sample(position, count, source)
            features.append(X)
            targets.append(y)
        names.append(np.repeat(np.asarray(design.labels), counts))
        parts.append(np.repeat(part, sum(counts)))
    return Synthetic(
        X=np.ascontiguousarray(np.concatenate(features)),
        y=np.ascontiguousarray(np.concatenate(targets)),
        env=np.concatenate(names),
        part=None if design.test_rows is None else np.concatenate(parts),
        **about,
    )


def row_counts(n: int | Sequence[int], environments: int, name: str = "n") -> list[int]:
    """Rows of each environment, from one number for all or one for each.

    >>> row_counts(5, 3), row_counts((5, 6), 2)
    ([5, 5, 5], [5, 6])
    """
    rows: list[Any] = [*n] if isinstance(n, list | tuple | np.ndarray) and np.ndim(n) == 1 else [n] * environments
    if environments < 1 or len(rows) != environments or not all(is_whole(k) and 1 <= k <= MOST_ROWS for k in rows):
        raise InputError(
            f"{name} must be a positive number of rows, or one for each of {environments} environments: got {shown(n)}"
        )
    return [int(count) for count in rows]


def cause_and_effect_names(dim: int) -> tuple[str, ...]:
    """Names of ``dim`` causes, then of as many effects."""
    return tuple(f"{kind} {j + 1}" for kind in ("cause", "effect") for j in range(dim))


def different_scales(environments: Sequence[float]) -> list[float]:
    """Environments that are told apart by a positive number, which is also their label."""
    scales = several(environments, "environments", "0.2, 2.0")
    if len({*map(str, scales)}) < len(scales) or not all(is_real(e) and 0 < e < np.inf for e in scales):
        raise InputError(f"environments must be different positive numbers: got {shown(environments)}")
    return [float(e) for e in scales]
