"""Rows for networks: arrays, tables, tensors, data sets and loaders, batch by batch, in an order that stays."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
)

from invariscope.errors import InputError
from invariscope.models.inputs import NamedInputs, UnevenRows, listed, no_loader
from invariscope.models.outputs import as_array, own_names
from invariscope.models.torch_batches import Batch, Column, environment_in, no_target, parts_of
from invariscope.rows.arrays import Array
from invariscope.rows.memory import most_bytes
from invariscope.rows.tables import matrix_of, plain
from invariscope.rows.targets import label_array

BATCH_SIZE = 256
#: Bytes that a batch takes beside its numbers, and seconds after which a stream that does not tell its length is told.
OVERHEAD, PATIENCE = 2_000, 10.0
A_PART = "give a part of it, such as DataLoader(list(itertools.islice(dataset, 10_000)), batch_size=256)"


def in_memory(
    X: Any, y: Any = None, env: Any = None, *, env_column: Column = None, target: str | None = None
) -> tuple[Any, Any, Any]:
    """Tensors as plain arrays; loaders are read once, and give their own targets and environments where none are given.

    ``env_column`` and ``target`` say where in a batch they stand, as :mod:`~invariscope.models.torch_batches` has it.

    >>> loader = DataLoader([(torch.ones(2) * i, i % 2, "Bern") for i in range(4)], batch_size=3, shuffle=True)
    >>> X, y, env = in_memory(loader)
    >>> X.tolist(), y.tolist(), env.tolist()
    ([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [0, 1, 0, 1], ['Bern', 'Bern', 'Bern', 'Bern'])
    """
    sources = sources_of(X)
    if sources is not None:
        with undisturbed():
            return _read(sources, plain(y), plain(env), env_column, target)
    if env_column is not None:
        raise no_loader(X, env_column)
    if isinstance(X, Mapping):
        X = NamedInputs.of({name: plain(part) for name, part in X.items()})
    return plain(X), plain(y), plain(env)


def sources_of(X: Any) -> dict[Hashable, Any] | None:
    """Loaders and data sets by the environment they are of (``None`` for one alone); ``None`` for anything else.

    Those of a list are called 0, 1, ..., or by the ``name`` of their data sets if all have one and all differ.

    >>> list(sources_of([DataLoader([1, 2]), DataLoader([3, 4])]))
    [0, 1]
    """
    if isinstance(X, DataLoader | Dataset):
        return {None: X}
    sources = [*X.values()] if isinstance(X, Mapping) else [*X] if isinstance(X, list | tuple) else []
    others = [source for source in sources if not isinstance(source, DataLoader | Dataset)]
    if len(others) == len(sources):
        _refuse_loose(sources)
        return None
    if others:
        raise InputError(
            f"X is a {type(X).__name__} of loaders in which there is a {type(others[0]).__name__}: give a loader or a "
            "data set, such as TensorDataset(x, y), for every environment"
        )
    if isinstance(X, Mapping):
        return dict(X)
    names = [getattr(_dataset_of(source), "name", None) for source in sources]
    named = len({*names}) == len(names) and all(isinstance(name, str) for name in names)
    return dict(zip(names if named else range(len(names)), sources, strict=True))


def _refuse_loose(items: Sequence[Any]) -> None:
    """Rows with their targets, or batches of them, in a list: nothing says how many of them there are."""
    first = items[0] if items else None
    if not isinstance(first, list | tuple) or not isinstance(first[0] if first else None, Tensor):
        return
    counts = {len(part) if isinstance(part, Tensor) and part.ndim else 0 for part in first}
    if len(counts) == 1 and 0 not in counts:
        raise InputError("X is a list of batches: give TensorDataset(*map(torch.cat, zip(*X))) in its place")
    raise InputError("X is a list of rows with their targets: give DataLoader(X, batch_size=256) in its place")


def _read(
    sources: Mapping[Hashable, Any], y: Any, env: Any, env_column: Column, target: str | None
) -> tuple[Any, Any, Any]:
    """Inputs, targets and environments of all loaders, one after another; what is given counts more than what is read.

    Where environments have loaders of their own, what stands behind (x, y) in their batches is not looked at.
    """
    inputs: list[Any] = []
    targets, environments, size, most = [], [], 0, most_bytes()
    names: tuple[str | None, str | None] = None, None
    for label, source in sources.items():
        fields = tuple(map(str, getattr(_dataset_of(source), "metadata_fields", ())))
        for batch in batches_of_loader(source, target=target, env_column=env_column):
            if y is None and batch.y is None and isinstance(batch.rest, Mapping):
                raise no_target(batch)
            own, name = None, None
            if env is None and label is not None and env_column is None:
                own = label_array([label] * len(batch.x))
            elif env is None:
                own, name = environment_in(batch, env_column, fields)
                _refuse_other_count(own, "environments", len(batch.x))
            size += OVERHEAD + sum(part.nbytes for part in _parts(batch.x))
            if size > most:
                rows = sum(map(len, inputs))
                raise InputError(
                    f"the loader has given {rows:,} rows so far, and more would not fit into {most / 1e9:.3g} GB, a "
                    f"quarter of the memory there is: {A_PART}"
                )
            names = batch.target, name
            inputs.append(batch.x)
            targets.append(batch.y)
            environments.append(own)
    y = _named(_joined(targets), names[0]) if y is None else y
    return _together(inputs), y, _named(_joined(environments), names[1]) if env is None else env


def _named(values: Any, name: str | None) -> Any:
    """A column that knows what the batches call it."""
    if values is None or name is None:
        return values
    import pandas as pd  # only when a batch has names: keeps splitting light

    return pd.Series(values, name=name)


def batches(X: Any, size: int, dtype: torch.dtype, device: torch.device, codes: bool) -> Iterator[Tensor | NamedInputs]:
    """Rows as tensors of a type on a device, ``size`` at a time; with ``codes``, whole numbers stay whole numbers.

    Of several named inputs only fractions take the type: what is a mask or a code, the network knows.
    """
    sources = sources_of(X)
    if sources is not None:
        for source in sources.values():
            for batch in batches_of_loader(source, size):
                yield from batches(batch.x, size, dtype, device, codes)
        return
    if isinstance(X, UnevenRows):
        for part in X.batches:
            yield from batches(part, size, dtype, device, codes)
        return
    if isinstance(X, Mapping | NamedInputs):
        named = X if isinstance(X, NamedInputs) else NamedInputs.of(X)
        for start in range(0, len(named), size):
            yield _named_tensors(named[start : start + size], dtype, device)
        return
    rows = X.detach() if isinstance(X, Tensor) else _array_of_rows(X)
    if rows.ndim == 0:
        raise InputError(f"X is a {type(X).__name__}: give an array, a table, a tensor or a torch DataLoader")
    if len(rows) == 0:
        raise InputError("X is empty: give at least one row")
    if codes and not _is_fractional(rows):
        dtype = torch.int64
    elif rows.ndim == 1:
        rows = rows[:, None]
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        if not isinstance(part, Tensor):
            # copied: torch neither reads backwards nor accepts arrays that must not be written to
            part = torch.from_numpy(np.array(part, dtype=_NUMPY.get(dtype, np.float32)))
        yield part.as_subclass(Tensor).to(device=device, dtype=dtype)


def _named_tensors(rows: NamedInputs, dtype: torch.dtype, device: torch.device) -> NamedInputs:
    tensors = {name: torch.as_tensor(np.array(plain(part))) for name, part in rows.parts.items()}
    moved = {name: part.to(device, dtype if part.is_floating_point() else part.dtype) for name, part in tensors.items()}
    return replace(rows, parts=moved)


def batches_of_loader(
    source: Any, size: int = BATCH_SIZE, *, target: str | None = None, env_column: Column = None
) -> Iterator[Batch]:
    """Batch by batch, in the order of the data set, whatever order the loader draws."""
    count, started = 0, time.monotonic()
    loader = _in_order(source, size)
    to_tell = not _tells_its_length(loader)
    for batch in _given_by(loader):
        parts = parts_of(batch, target, env_column)
        _refuse_other_count(parts.y, "targets", len(parts.x))
        count += len(parts.x)
        if to_tell and time.monotonic() - started > PATIENCE:
            to_tell = False
            warnings.warn(f"a stream has given {count:,} rows so far: if it has no end, {A_PART}", stacklevel=2)
        yield parts
    if count == 0:
        raise InputError("the loader gives no rows: an iterator that was read before is empty, make it anew")


def _given_by(loader: Any) -> Iterator[Any]:
    """The batches of a loader; what stops it midway, in code of the user's, is told in one sentence."""
    count = 0
    try:
        for count, batch in enumerate(loader, start=1):  # noqa: B007 - told below
            yield batch
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"the loader fails after {count} batches ({reason}): mend its data set first") from error


def _tells_its_length(loader: Any) -> bool:
    try:
        return len(loader) >= 0
    except TypeError:
        return False


def _refuse_other_count(values: Any, what: str, rows: int) -> None:
    if values is None or (np.ndim(values) > 0 and len(values) == rows):
        return
    given = f"{len(values)} {what}" if np.ndim(values) > 0 else f"a single {what[:-1]}"
    raise InputError(f"the loader gives {given} for {rows} rows: give one per row, as in (x, y) or (x, y, env)")


@contextmanager
def undisturbed(device: torch.device | None = None) -> Iterator[None]:
    """Random numbers afterwards are those that would have come anyway, whatever data sets and layers draw here."""
    others = [] if device is None or device.type == "cpu" else [device]
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  (transforms draw from these)
    try:
        with torch.random.fork_rng(devices=others, device_type=others[0].type if others else "cuda"):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


_NUMPY: dict[torch.dtype, Any] = {torch.float64: np.float64, torch.float16: np.float16, torch.int64: np.int64}


def _in_order(source: Any, size: int) -> Any:
    """A loader over the same rows that does not shuffle; rows that only come in a stream are taken as they come."""
    if isinstance(source, IterableDataset):
        return DataLoader(source, batch_size=size)
    if isinstance(source, Dataset):
        return DataLoader(source, batch_size=size, generator=torch.Generator())
    if isinstance(source.dataset, IterableDataset):
        return source
    if source.batch_sampler is None:
        raise InputError("the loader makes no batches (batch_size=None): give it a batch_size")
    if type(source.batch_sampler) is not BatchSampler:
        raise _drawn_by(source.batch_sampler)
    dataset, sampler = source.dataset, source.batch_sampler.sampler
    if isinstance(sampler, SubsetRandomSampler):
        dataset = Subset(dataset, list(sampler.indices))
    elif isinstance(sampler, RandomSampler):
        if sampler.replacement or sampler.num_samples != len(dataset):
            raise _drawn_by(sampler)
    elif not isinstance(sampler, SequentialSampler):
        raise _drawn_by(sampler)
    return DataLoader(
        dataset,
        batch_size=source.batch_sampler.batch_size,
        collate_fn=source.collate_fn,
        num_workers=source.num_workers,
        timeout=source.timeout,
        worker_init_fn=source.worker_init_fn,
        multiprocessing_context=source.multiprocessing_context,
        generator=torch.Generator(),
    )


def _drawn_by(sampler: Any) -> InputError:
    return InputError(
        f"the loader's {type(sampler).__name__} draws rows that cannot be put in order: give a DataLoader of the same "
        "data set without it (a Subset, if only some rows are meant)"
    )


def _together(batches: Sequence[Any]) -> Any:
    """The inputs of all batches: in one piece, or as they came where their rows differ in shape."""
    first = batches[0]
    if not isinstance(first, NamedInputs):
        arrays = [np.asarray(plain(batch)) for batch in batches]
        even = len({array.shape[1:] for array in arrays}) == 1
        return _joined(arrays) if even else UnevenRows(tuple(arrays))
    columns = {name: [np.asarray(plain(_same_parts(b, first)[name])) for b in batches] for name in first.parts}
    if all(len({array.shape[1:] for array in arrays}) == 1 for arrays in columns.values()):
        return replace(first, parts={name: _joined(arrays) for name, arrays in columns.items()})
    rows = (dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True))
    return UnevenRows(tuple(replace(first, parts=parts) for parts in rows))


def _joined(parts: Sequence[Any]) -> Any:
    if any(part is None for part in parts):
        return None
    arrays = [np.asarray(plain(part)) for part in parts]
    if any(array.dtype.kind in "US" for array in arrays):
        arrays = [array.astype(object) for array in arrays]
    shapes = dict.fromkeys(array.shape[1:] for array in arrays)
    if len(shapes) > 1:
        one, other = [*shapes][:2]
        raise InputError(
            f"targets or environments of the loader's batches do not fit each other: some are of shape {one} a row, "
            f"others of shape {other}; give all of them one shape"
        )
    try:
        return np.concatenate(arrays)
    except TypeError as error:  # dates among numbers
        types = " and ".join(dict.fromkeys(str(array.dtype) for array in arrays))
        raise InputError(
            f"the loader's batches do not fit each other: they hold {types}; give all of them one type"
        ) from error


def _parts(x: Tensor | NamedInputs) -> list[Any]:
    return [*x.parts.values()] if isinstance(x, NamedInputs) else [x]


def _same_parts(rows: Any, first: NamedInputs) -> Mapping[str, Any]:
    if not isinstance(rows, NamedInputs) or rows.parts.keys() != first.parts.keys():
        raise InputError(
            f"the loader's batches do not fit each other: only some of them hold {listed(first.parts)}, "
            "give all of them the same entries"
        )
    return rows.parts


def _dataset_of(source: Any) -> Any:
    """The data set behind loaders and subsets."""
    while isinstance(source, DataLoader | Subset):
        source = source.dataset
    return source


def _array_of_rows(X: Any) -> Array:
    if own_names(X) is not None:
        return matrix_of(X)[0]
    array = as_array(X)
    return array if array.dtype.kind in "iufb" or array.ndim == 0 else matrix_of(array)[0]


def _is_fractional(rows: Any) -> bool:
    return bool(rows.is_floating_point() if isinstance(rows, Tensor) else rows.dtype.kind == "f")
