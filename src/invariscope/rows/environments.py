"""Rows grouped by environment: validated once at the door, stored so that an environment is a slice."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats, Integers
from invariscope.rows.blocks import Blocks, Sums, refuse_out_of_range, sum_by_environment
from invariscope.rows.coded import coded
from invariscope.rows.digits import notes_on_lost_digits
from invariscope.rows.labels import encoded_environments, encoded_target, read_alike
from invariscope.rows.not_tables import refuse_other_order
from invariscope.rows.settings import column_names, shown
from invariscope.rows.tables import column_of_labels, matrix_of, plain, vector_of

OF_MATRIX = ("X", "columns", "blocks", "notes")
#: What Environments that differ in one respect have in common but for that.
SHARED = ("labels", "offsets", "order", "classes", "y", "weight", "env_name", "target_name", "_notes", *OF_MATRIX)
HEAVIEST = 1e9  # rows one row may stand for, and one over it the least: sums of squares of both are exact enough


def refuse_empty(matrix: Array) -> None:
    """No rows, or no columns: there is nothing to compute with."""
    if 0 in matrix.shape:
        rows, columns = matrix.shape
        raise InputError(f"X is empty: it has {rows} rows and {columns} columns, give at least one of each")


class Environments:
    """Rows of a table grouped by the environment they come from.

    Parameters
    ----------
    X : (n, d) array, or a pandas / polars / pyarrow table
        Features or a representation; numbers only. Column names are kept.
    y : (n,) array or column, optional
        Target: numbers, or labels of any kind (then ``classes`` lists them).
    env : (n,) array or column
        The environment of every row; any label type.
    weight : (n,) array, optional
        How many rows each row stands for: weight 2 is the same as the row given twice.

    Attributes
    ----------
    X, y, weight : the rows, environment after environment; ``y`` holds numbers or class codes
    labels : the user's own environment labels, sorted
    offsets : environment ``k`` is rows ``offsets[k]:offsets[k + 1]``
    classes : the user's class labels when the target is categorical, else ``None``
    order : position in the input of every stored row (``None``: the input was grouped already)
    notes : what is odd about labels and numbers, though they can be used

    Rows that arrive already grouped in label order are not copied, and criteria remember sums over them: after a change
    of the array in place, make another.

    >>> import numpy as np
    >>> data = Environments(np.arange(6.0).reshape(6, 1), [1, 2, 3, 4, 5, 6], list("babbab"))
    >>> data.labels, data.sizes.tolist()
    (('a', 'b'), [2, 4])
    >>> data["a"].X.ravel().tolist()
    [1.0, 4.0]
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        env: Any = None,
        weight: Any = None,
        *,
        columns: Sequence[str] | None = None,
        target_name: str | None = None,
        env_name: str | None = None,
    ) -> None:
        if env is None:
            raise InputError("no environments given: pass env=, one label per row (the site, year, camera, ...)")
        for option, name in {"env_name": env_name, "target_name": target_name}.items():
            if name is not None and not isinstance(name, str):
                raise InputError(f'{option} is {shown(name)}: give a text, such as "site"')
        refuse_other_order(X=X, y=y, env=env, weight=weight)
        matrix, own_columns = matrix_of(X)
        n = len(matrix)
        refuse_empty(matrix)
        env_values, own_env_name = coded(env) or column_of_labels(env, "env")
        self.env_name = env_name or own_env_name or "environment"
        self.target_name = target_name or "target"
        _same_length(n, len(env_values), "env")
        self.labels, codes = encoded_environments(env_values, self.env_name)
        self._notes = read_alike(self.labels, self.env_name)
        sizes = np.bincount(codes, minlength=len(self.labels))
        self.offsets: Integers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        # 16 bits are enough for a thousand environments, and sort by counting
        self.order = None if np.all(codes[1:] >= codes[:-1]) else np.argsort(codes.astype(np.int16), kind="stable")

        self.classes: tuple[Any, ...] | None = None
        self.y: Array | None = None
        if y is not None:
            values, own_target_name = coded(y) or vector_of(y, target_name or "y")
            self.target_name = target_name or own_target_name or "target"
            _same_length(n, len(values), self.target_name)
            values, self.classes = encoded_target(values, self.target_name)
            self.y = self._grouped(values)
            self._notes += read_alike(self.classes or (), self.target_name)
        self.weight: Floats | None = None
        if weight is not None:
            self.weight = self._grouped(checked_weights(weight, n))
            self._refuse_empty()
        if self.y is not None:
            self._notes += notes_on_lost_digits(self.y[:, None], [f'Target "{self.target_name}"'], self.weight)
        self._hold(matrix, own_columns, columns)

    def _hold(self, matrix: Array, own_columns: tuple[str, ...], columns: Sequence[str] | None) -> None:
        """Columns of numbers, in the user's row order, as what is known of every row; named as given, or by itself."""
        self.columns = own_columns if columns is None else column_names(columns, len(own_columns))
        self.blocks = Blocks.of(self._grouped(matrix), self.weight)
        self.X: Array = self.blocks.matrix
        self._refuse_missing()
        named = [f'Column "{name}"' for name in self.columns]
        self.notes = (*self._notes, *notes_on_lost_digits(self.X, named, self.weight))

    @classmethod
    def of(cls, X: Any, y: Any = None, env: Any = None, weight: Any = None) -> Environments:
        """The door of every criterion: rows that were grouped before pass straight through."""
        if not isinstance(X, Environments):
            return cls(X, y, env, weight)
        if y is not None or env is not None or weight is not None:
            raise InputError("Environments already hold y, env and weight: pass them alone")
        return X

    def with_matrix(self, X: Any, columns: Sequence[str] | None = None) -> Environments:
        """Other columns for the same rows, in the user's row order: who is where, target and weights are shared.

        >>> data = Environments(np.zeros((4, 1)), [1, 2, 3, 4], list("baba"))
        >>> data.with_matrix([[10], [20], [30], [40]])["a"].X.ravel().tolist()
        [20.0, 40.0]
        """
        matrix, own_columns = matrix_of(X)
        _same_length(len(self.X), len(matrix), "the other matrix")
        other = self._with(*(name for name in SHARED if name not in OF_MATRIX))
        other._hold(matrix, own_columns, columns)
        return other

    def with_weight(self, weight: Floats) -> Environments:
        """The same rows, columns and blocks under other weights, given in the stored row order."""
        other = self._with(*(name for name in SHARED if name != "weight"))
        other.weight = weight
        other._refuse_empty()
        return other

    def with_classes(self, codes: Floats, classes: tuple[Any, ...]) -> Environments:
        """The same rows, the target as codes into classes, of which some may have no row; in the stored row order."""
        other = self._with(*(name for name in SHARED if name not in ("y", "classes")))
        other.y, other.classes = codes, classes
        return other

    def _with(self, *shared: str) -> Environments:
        """Environments that share some attributes, and nothing that was computed from the others."""
        other = object.__new__(Environments)
        other.__dict__.update({name: self.__dict__[name] for name in shared})
        return other

    def hand_over_notes(self) -> tuple[str, ...]:
        """The notes, to be said once by whoever takes them, and by nothing that is computed from these rows."""
        notes, self.notes, self._notes = self.notes, (), ()
        return notes

    # --- what is in here -------------------------------------------------------------------------------------------
    @property
    def sizes(self) -> Integers:
        """Rows stored per environment (weights not counted)."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Floats:
        """Rows each environment stands for: the sum of its weights, or its size."""
        if self.weight is None:
            return self.sizes.astype(np.float64)
        return np.add.reduceat(self.weight, self.offsets[:-1])

    @property
    def codes(self) -> Integers:
        """Environment number of every stored row."""
        return np.repeat(np.arange(len(self.labels)), self.sizes)

    @cached_property
    def turns(self) -> Integers | None:
        """Which row of its environment a stored row is, counted without those of weight 0; ``None`` if all count."""
        if self.weight is None or self.weight.all():
            return None
        counted = np.concatenate([[0], np.cumsum(self.weight > 0)])  # up to here
        return np.asarray(counted[1:] - 1 - np.repeat(counted[self.offsets[:-1]], self.sizes))

    @cached_property
    def column_squares(self) -> Floats:
        """Σ of the squares of every column of the design (1, z − shift), by environment: (E, d + 1)."""

        def collect(environment: int, rows: slice) -> Sums:
            total = np.zeros(self.blocks.width)
            for block, design in self.blocks.designs(rows):
                if self.weight is None:
                    total += np.einsum("ij,ij->j", design, design)
                else:
                    total += self.weight[block] @ design**2
            return {"squares": total}

        return sum_by_environment(collect, self.offsets)["squares"]

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.labels)

    def __getitem__(self, label: Hashable) -> Environment:
        if label not in self.labels:
            raise InputError(f"no {self.name(label)}: there are {', '.join(map(str, self.labels))}")
        k = self.labels.index(label)
        part = slice(int(self.offsets[k]), int(self.offsets[k + 1]))
        return Environment(
            label,
            self.X[part],
            None if self.y is None else self.y[part],
            None if self.weight is None else self.weight[part],
        )

    def name(self, label: Hashable) -> str:
        """An environment as an error message should call it."""
        return f'environment "{label}"' if self.env_name == "environment" else f'{self.env_name} "{label}"'

    def __repr__(self) -> str:
        parts = ", ".join(f"{label}: {size}" for label, size in zip(self.labels, self.sizes, strict=True))
        return f"<Environments {len(self.X)} rows x {self.X.shape[1]} columns; {parts}>"

    def written_out(self, counts: Integers) -> Environments:
        """The same with stored row i written down ``counts[i]`` times, without weights."""
        index = np.repeat(np.arange(len(self.X)), counts)
        other = Environments(
            self.X[index],
            None,
            np.fromiter(self.labels, dtype=object, count=len(self.labels))[self.codes[index]],
            columns=self.columns,
            target_name=self.target_name,
            env_name=self.env_name,
        )
        other.y = None if self.y is None else other._grouped(self.y[index])
        other.classes = self.classes  # also those of which no row is left
        return other

    # --- moving rows between the user's order and ours ---------------------------------------------------------------
    def _grouped(self, values: Array) -> Array:
        if self.order is None:
            return values
        return Blocks.take(values, self.order)

    def grouped(self, values: Any, what: str) -> Array:
        """Bring further values, given in the user's row order (predictions, say), into the stored order."""
        array = np.asarray(plain(values))
        _same_length(len(self.X), len(array), what)
        return self._grouped(array)

    def original(self, values: Array) -> Array:
        """Put values computed for the stored rows back into the user's row order."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def refuse_out_of_range(self) -> None:
        """Asked before columns are squared and added up: predictions, which are not, may well be of 1e-40."""
        for j, size in self.blocks.columns_out_of_range.items():
            refuse_out_of_range(size, f'column "{self.columns[j]}"')

    # --- validation ---------------------------------------------------------------------------------------------------
    def _refuse_empty(self) -> None:
        if np.any(self.rows <= 0):
            empty = self.labels[int(np.argmax(self.rows <= 0))]
            raise InputError(f"all weights are zero in {self.name(empty)}: drop it or mend the weights")

    def _refuse_missing(self) -> None:
        suspicious = self.blocks.columns_not_finite()
        if suspicious.size == 0:
            return
        j = int(suspicious[0])
        column = self.X[:, j]
        for bad, word in ((np.isnan(column), "missing values"), (np.isinf(column), "infinite values")):
            counts = np.add.reduceat(bad, self.offsets[:-1], dtype=np.intp)
            if counts.sum():
                worst = int(np.argmax(counts / self.sizes))
                others = [f'"{self.columns[k]}"' for k in suspicious[1:]]
                named = ", ".join(others[:8]) + (", ..." if len(others) > 8 else "")
                more = f" The same holds for {named}." if others else ""
                raise InputError(
                    f'column "{self.columns[j]}" has {counts.sum()} {word} '
                    f"({self.labels[worst]}: {counts[worst]} of {self.sizes[worst]}). "
                    f"Drop the column, or fill in the values before this step.{more}"
                )


class Environment:
    """The rows of one environment: views into the table they came from."""

    __slots__ = ("X", "label", "weight", "y")

    def __init__(self, label: Hashable, X: Array, y: Array | None, weight: Floats | None) -> None:
        self.label, self.X, self.y, self.weight = label, X, y, weight

    def __len__(self) -> int:
        return len(self.X)


def _same_length(n: int, count: int, what: str) -> None:
    if count != n:
        raise InputError(f"X has {n} rows but {what} has {count}: give one value per row")


def checked_weights(given: Any, n: int) -> Floats:
    """Weights as counts of rows: finite, none below 0, and of a size that sums of squares can hold."""
    values, _ = vector_of(given, "weight")
    _same_length(n, len(values), "weight")
    if values.dtype.kind not in "iufb":
        raise InputError("weight holds text or dates: give one number of at least 0 per row")
    weight = values.astype(np.float64)
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        raise InputError(
            f"weight has {int(bad.sum())} negative, missing or infinite values: "
            "weights count rows, give numbers of at least 0"
        )
    if not weight.any():
        raise InputError("weight is 0 everywhere: weights count rows, give some of them more")
    odd = (weight > 0) & ((weight > HEAVIEST) | (weight < 1 / HEAVIEST))
    if odd.any():
        raise InputError(
            f"weight has {int(odd.sum())} values beyond {1 / HEAVIEST:g} to {HEAVIEST:g} (such as "
            f"{weight[odd][0]:.3g}): weights count rows, so mend those, or divide all by a constant "
            "that brings them near 1"
        )
    if weight.sum() < min(n, 2):
        raise InputError(
            f"weight sums to {weight.sum():.3g}: weights count rows, and that is less than two. Multiply all by a "
            f"constant: by {n / weight.sum():.6g}, they count as many rows as there are."
        )
    return weight
