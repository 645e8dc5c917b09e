"""What goes into a model where that is not one table: several inputs, rows of several shapes, what only torch reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from invariscope import wording
from invariscope.errors import InputError
from invariscope.rows.tables import comes_from


@dataclass(frozen=True, eq=False)
class NamedInputs:
    """Rows of several parts, each an array or a tensor with a row per example: input_ids and attention_mask, say.

    Those of a tuple are called 0, 1, ... and are handed over in their ``places``.

    >>> import numpy as np
    >>> rows = NamedInputs.of({"words": np.zeros((5, 7)), "mask": np.ones((5, 7))})
    >>> len(rows), len(rows[:2]), str(rows)
    (5, 2, 'words (7,) and mask (7,)')
    """

    parts: Mapping[str, Any]
    places: bool = False

    @classmethod
    def of(cls, parts: Mapping[Any, Any], *, places: bool = False) -> NamedInputs:
        """Checked: arrays or tensors, about the same rows."""
        for name, part in parts.items():
            if not hasattr(part, "shape") or len(part.shape) == 0:
                raise InputError(
                    f'X is a dict whose "{name}" is a {type(part).__name__}: give an array or tensor for every input '
                    "of the network, or a loader for every environment"
                )
        if not parts:
            raise InputError("X is an empty dict: give an array or tensor for every input, or a loader for each domain")
        counts = {str(name): len(part) for name, part in parts.items()}
        if len({*counts.values()}) > 1:
            said = ", ".join(f'"{name}" {count}' for name, count in counts.items())
            raise InputError(f"the inputs differ in their numbers of rows ({said}): they must be about the same rows")
        return cls({str(name): part for name, part in parts.items()}, places)

    def only(self, names: Sequence[str]) -> NamedInputs:
        """Some of them, in this order."""
        unknown = [name for name in names if name not in self.parts]
        if unknown:
            raise InputError(f'there is no input "{unknown[0]}": inputs= names one or several of {listed(self.parts)}')
        return replace(self, parts={name: self.parts[name] for name in names})

    @property
    def alone(self) -> Any:
        """The array, where there is only one."""
        return next(iter(self.parts.values())) if len(self.parts) == 1 else self

    @property
    def shape(self) -> tuple[int]:
        return (len(next(iter(self.parts.values()))),)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | str) -> Any:
        """Some rows of all inputs, or all rows of one."""
        if isinstance(rows, str):
            return self.parts[rows]
        return replace(self, parts={name: part[rows] for name, part in self.parts.items()})

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise InputError(f"{self.why_no_table}, and one table is needed: give one as X")

    def __str__(self) -> str:
        return listed([f"{name} {tuple(part.shape[1:])}" for name, part in self.parts.items()])

    @property
    def why_no_table(self) -> str:
        """What keeps the rows from being one array."""
        return f"the rows have several inputs ({listed(self.parts)})"


@dataclass(frozen=True, eq=False)
class UnevenRows:
    """Rows whose batches have shapes of their own, as texts that are padded batch by batch: each stays as it came.

    To pad them all to one length would be another computation wherever a network looks at the padding.

    >>> import numpy as np
    >>> rows = UnevenRows((np.zeros((3, 7)), np.zeros((2, 5))))
    >>> len(rows), [part.shape for part in rows[:4].batches]
    (5, [(3, 7), (1, 5)])
    """

    batches: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int]:
        return (sum(map(len, self.batches)),)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> UnevenRows:
        """The rows up to some number of them."""
        left, kept = rows.stop, []
        for batch in self.batches:
            if left > 0:
                kept.append(batch[:left])
            left -= len(batch)
        return UnevenRows(tuple(kept))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise InputError(
            f"{self.why_no_table}, and one table is needed: give all of them one shape (resize images, pad texts to "
            "one length)"
        )

    @property
    def why_no_table(self) -> str:
        """What keeps the rows from being one array."""
        one, other = [*dict.fromkeys(str(_shape(batch)) for batch in self.batches)][:2]
        return f"some batches have rows of shape {one}, others of shape {other}"


#: Rows that are not one array.
NO_TABLE = (NamedInputs, UnevenRows)


def _shape(batch: Any) -> Any:
    return batch if isinstance(batch, NamedInputs) else tuple(batch.shape[1:])


def listed(names: Any) -> str:
    """Names of whatever type, as a sentence lists them."""
    return wording.listed([*map(str, names)])


def holds_torch(values: Any) -> bool:
    """Whether it is a tensor, a data set or a loader, a list or dict of them, or a list of batches of them.

    torch itself is not imported.
    """
    if isinstance(values, Mapping):
        return any(comes_from(value, "torch") for value in values.values())
    if isinstance(values, list | tuple):
        first = values[:1]
        return any(
            comes_from(value, "torch") for one in first for value in (one if isinstance(one, list | tuple) else first)
        )
    return comes_from(values, "torch")


def no_loader(X: Any, env_column: Any) -> InputError:
    """A column of metadata was asked for, where there are none."""
    return InputError(
        f"env_column={env_column!r} says where the batches of a loader hold the environment, and X is a "
        f"{type(X).__name__}: pass the environment of every row, env=..."
    )
