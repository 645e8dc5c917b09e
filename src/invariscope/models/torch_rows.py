"""Rows for networks: arrays, tables, tensors, data sets and loaders, batch by batch, in an order that stays."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from invariscope.models.outputs import as_array, own_names
from invariscope.rows.arrays import Array
from invariscope.rows.tables import matrix_of, plain

Batch = tuple[Tensor, Any, Any]

BATCH_SIZE = 256
BATCHES = "x, (x, y) or (x, y, env), x being one tensor with a row per example"


def in_memory(X: Any, y: Any = None, env: Any = None) -> tuple[Any, Any, Any]:
    """Tensors as plain arrays; a loader is read once, and gives its own targets and environments where none are given.

    >>> loader = DataLoader([(torch.ones(2) * i, i % 2, "Bern") for i in range(4)], batch_size=3, shuffle=True)
    >>> X, y, env = in_memory(loader)
    >>> X.tolist(), y.tolist(), env.tolist()
    ([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [0, 1, 0, 1], ['Bern', 'Bern', 'Bern', 'Bern'])
    """
    if isinstance(X, DataLoader | Dataset):
        with undisturbed():
            inputs, targets, environments = zip(*batches_of_loader(X), strict=True)
        X = _joined(inputs)
        y, env = (_joined(own) if given is None else given for given, own in ((y, targets), (env, environments)))
    return plain(X), plain(y), plain(env)


def batches(X: Any, size: int, dtype: torch.dtype, device: torch.device, codes: bool) -> Iterator[Tensor]:
    """Rows as tensors of a type on a device, ``size`` at a time; with ``codes``, whole numbers stay whole numbers."""
    if isinstance(X, DataLoader | Dataset):
        for x, _, _ in batches_of_loader(X, size):
            yield from batches(x, size, dtype, device, codes)
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


def batches_of_loader(source: Any, size: int = BATCH_SIZE) -> Iterator[Batch]:
    """(x, y, env) batch by batch, in the order of the data set, whatever order the loader draws."""
    count = 0
    for batch in _in_order(source, size):
        x, y, env = _parts(batch)
        for values, what in ((y, "targets"), (env, "environments")):
            if values is not None and np.ndim(values) != 0 and len(values) != len(x):
                raise InputError(f"the loader gives {len(values)} {what} for {len(x)} rows: {BATCHES} is read")
        count += len(x)
        yield x, y, env
    if count == 0:
        raise InputError("the loader gives no rows: an iterator that was read before is empty, make it anew")


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


def _parts(batch: Any) -> Batch:
    if isinstance(batch, Tensor | np.ndarray):
        batch = (batch,)
    if not isinstance(batch, tuple | list) or not 1 <= len(batch) <= 3 or not isinstance(batch[0], Tensor | np.ndarray):
        parts = f" of {len(batch)} parts" if isinstance(batch, tuple | list) else ""
        raise InputError(f"the loader's batches are a {type(batch).__name__}{parts}: give {BATCHES}")
    x, y, env = (*batch, None, None)[:3]
    return x if isinstance(x, Tensor) else torch.from_numpy(np.array(x)), y, env


def _joined(parts: Sequence[Any]) -> Any:
    if any(part is None for part in parts):
        return None
    arrays = [np.asarray(plain(part)) for part in parts]
    if any(array.dtype.kind in "US" for array in arrays):
        arrays = [array.astype(object) for array in arrays]
    try:
        return np.concatenate(arrays)
    except ValueError as error:
        raise InputError(f"the loader's batches do not fit each other: {error}") from error


def _array_of_rows(X: Any) -> Array:
    if own_names(X) is not None:
        return matrix_of(X)[0]
    array = as_array(X)
    return array if array.dtype.kind in "iufb" or array.ndim == 0 else matrix_of(array)[0]


def _is_fractional(rows: Any) -> bool:
    return bool(rows.is_floating_point() if isinstance(rows, Tensor) else rows.dtype.kind == "f")
