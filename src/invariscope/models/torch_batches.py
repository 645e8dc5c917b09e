"""What the batches of a loader hold: inputs, target, and the environment or the metadata it stands in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.models.inputs import NamedInputs, listed

BATCHES = "x, (x, y) or (x, y, env), x being one tensor with a row per example, or a tuple or dict of such"
#: Entries of batches that are dicts, by the names they usually have.
TARGETS = ("label", "labels", "target", "targets", "y")
ENVIRONMENTS = ("env", "environment", "domain")
METADATA = ("metadata", "meta")

Column = int | str | None


class Batch(NamedTuple):
    """Inputs and target of some rows, and all that came with them: the parts behind (x, y), or the whole dict."""

    x: Tensor | NamedInputs
    y: Any
    rest: tuple[Any, ...] | Mapping[Any, Any]
    target: str | None = None  # what the dict calls it


def parts_of(batch: Any, target: str | None = None, env_column: Column = None) -> Batch:
    """A batch as a loader gave it, taken apart; ``target`` and ``env_column`` may name entries of a dict.

    >>> batch = parts_of({"input_ids": torch.ones(2, 5), "labels": torch.zeros(2), "domain": ["a", "b"]})
    >>> str(batch.x), batch.target, environment_in(batch)
    ('input_ids (5,)', 'labels', (['a', 'b'], 'domain'))
    """
    if isinstance(batch, Mapping):
        return _of_mapping(batch, target, env_column)
    if isinstance(batch, Tensor | np.ndarray):
        batch = (batch,)
    x = batch[0] if isinstance(batch, tuple | list) and batch else None
    if isinstance(x, Mapping):
        x = NamedInputs.of(dict(_numeric(x)))
    elif isinstance(x, tuple | list) and len(x) > 1 and len(dict(_numeric(dict(enumerate(x))))) == len(x):
        x = NamedInputs.of(dict(enumerate(x)), places=True)
    elif isinstance(x, np.ndarray):
        x = torch.from_numpy(np.array(x))
    if not isinstance(x, NamedInputs) and (not isinstance(x, Tensor) or x.ndim == 0):
        raise _unreadable(batch)
    y = batch[1] if len(batch) > 1 else None
    if isinstance(y, Mapping):
        if target not in y:
            raise InputError(
                f"the targets of a batch are a dict of {listed(y)}: target_name={next(iter(y))!r} takes one of them"
            )
        y = y[target]
    return Batch(x, y, tuple(batch[2:]))


def environment_in(batch: Batch, column: Column = None, fields: Sequence[str] = ()) -> tuple[Any, str | None]:
    """The environments of a batch and their name; ``fields`` are the names of columns of metadata, where known.

    With (x, y, env) they are the third part; with ``column`` a column or entry of that part, one of the parts behind
    (x, y) where these are several, or an entry of a batch that is a dict.

    >>> environment_in(Batch(torch.ones(2, 5), torch.zeros(2), (torch.tensor([[0, 7], [0, 8]]),)), 1)
    (tensor([7, 8]), None)
    """
    rest = batch.rest
    if isinstance(rest, Mapping):
        if column is not None and column in rest:
            return rest[column], str(column)
        named = [name for name in ENVIRONMENTS if name in rest]
        if column is None and len(named) == 1:
            return rest[named[0]], named[0]
        inner = next((rest[name] for name in METADATA if name in rest), None)
        if inner is None or (column is None and named):
            raise _no_environment(rest, column, named)
        return _column_of(inner, "the metadata of a batch", column, fields, len(batch.x))
    if not rest:
        if column is None:
            return None, None
        raise InputError(f"env_column={column!r}, but the batches end with x and y: pass env, one label per row")
    if len(rest) > 1:
        return _pick(dict(enumerate(rest)), f"the batches have {len(rest)} parts behind (x, y)", column)
    return _column_of(rest[0], "the third part of a batch", column, fields, len(batch.x))


def _of_mapping(batch: Mapping[Any, Any], target: str | None, env_column: Column) -> Batch:
    named = [target] if target in batch else [name for name in TARGETS if name in batch]
    if len(named) > 1:
        raise InputError(
            f"the batches are dicts with {listed(named)}: target_name={named[0]!r} says which of them is the target"
        )
    known = {*TARGETS, *ENVIRONMENTS, *METADATA, *named, env_column}
    inputs = dict(_numeric({name: value for name, value in batch.items() if name not in known}))
    if not inputs:
        raise _unreadable(batch)
    y = batch[named[0]] if named else None
    return Batch(NamedInputs.of(inputs), y, batch, named[0] if named else None)


def _numeric(parts: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Tensors and arrays of numbers, those of dicts within too; texts and the like are no inputs of a network."""
    for name, part in parts.items():
        if isinstance(part, Mapping):
            yield from _numeric(part)
        elif (
            isinstance(part, Tensor | np.ndarray)
            and part.ndim > 0
            and (isinstance(part, Tensor) or part.dtype.kind in "iufb")
        ):
            yield name, part


def _column_of(part: Any, what: str, column: Column, fields: Sequence[str], rows: int) -> tuple[Any, str | None]:
    """One column of metadata: a tensor (n, m) or (n,), a dict, or a list of columns."""
    if isinstance(part, Mapping):
        return _pick(part, f"{what} is a dict of {listed(part)}", column)
    if isinstance(part, list | tuple) and part and not isinstance(part[0], str) and np.ndim(part[0]) > 0:
        return _pick(dict(enumerate(part)), f"{what} has {len(part)} columns", column)
    if column is None and (getattr(part, "ndim", 1) < 2 or part.shape[1] == 1):
        return part, None
    table = part.reshape(rows, -1) if hasattr(part, "reshape") else np.asarray(part, dtype=object)[:, None]
    columns = {j: table[:, j] for j in range(table.shape[1])}
    if len(fields) != len(columns):
        return _pick(columns, f"{what} has {len(columns)} columns", column)
    place = fields.index(column) if column in fields else column
    values, _ = _pick(columns, f"{what} has the columns {listed(fields)}", place)
    return values, fields[place] if isinstance(place, int) else None


def _pick(parts: Mapping[Any, Any], what: str, column: Column) -> tuple[Any, str | None]:
    if column not in parts:
        asked = "" if column is None else f", and env_column={column!r} is none of them"
        names = [repr(name) for name in parts]
        most = f"{', '.join(names[:3])}, ..." if len(names) > 3 else " or ".join(names)
        raise InputError(f"{what}{asked}: env_column={most} says which is the environment")
    return parts[column], column if isinstance(column, str) else None


def _no_environment(batch: Mapping[Any, Any], column: Column, named: Sequence[str]) -> InputError:
    entries = f"the batches are dicts of {listed(batch)}"
    if named and column is None:
        return InputError(f"{entries}: env_column={named[0]!r} says which of {listed(named)} is the environment")
    if column is not None:
        return InputError(f"{entries}, and env_column={column!r} is none of them: name the entry of the environment")
    return InputError(
        f"{entries}, and none of them is called {', '.join(ENVIRONMENTS[:-1])} or {ENVIRONMENTS[-1]}: say with "
        "env_column=... which entry is the environment, or pass env, one label per row"
    )


def no_target(batch: Batch) -> InputError:
    """A dict in which nothing is called a target."""
    return InputError(
        f"the batches are dicts of {listed(batch.rest)}, and none of them is called {', '.join(TARGETS[:-1])} or "
        f"{TARGETS[-1]}: say with target_name=... which entry is the target, or pass y, one value per row"
    )


def _unreadable(batch: Any) -> InputError:
    parts = f" of {len(batch)} parts" if isinstance(batch, tuple | list) else ""
    return InputError(f"the loader's batches are a {type(batch).__name__}{parts}: give {BATCHES}")
