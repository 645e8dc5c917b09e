"""Refusals of rows for networks: loaders, what their batches hold, and several named inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

import invariscope as iv
from tests.remedies.case import Case

ROOM = ("models/torch_rows", "models/torch_batches", "models/inputs")

torch.manual_seed(0)
N = 40
X, Y, SITE = torch.randn(N, 3), torch.randn(N), torch.arange(N) % 2
NAMED = {"image": X, "number": torch.arange(N)}
NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
OF_IMAGE = iv.split(NET, inputs="image")
DAYS = np.repeat(np.array(["2024-05-31", "2024-06-01"], dtype="datetime64[D]"), N // 2)


def audit(rows: Any, *labels: Any, model: Any = NET, **options: Any) -> Any:
    """An audit of rows that come with their labels, or with these."""
    return iv.audit(model, rows, *labels, **{"criteria": ["risk_variance"], "n_boot": 0, **options})


def batches(make: Callable[[slice], Any]) -> Any:
    """A loader of two batches, made of their rows by a function."""
    return DataLoader(range(N), N // 2, collate_fn=lambda items: make(slice(items[0], items[-1] + 1)))


def dicts(*names: str) -> Any:
    """A loader of dicts with these entries."""
    known = {"x": X, "env": SITE, "domain": SITE, "site": SITE}
    return batches(lambda rows: {name: known.get(name, Y)[rows] for name in names})


def loader(*parts: Tensor, **settings: Any) -> Any:
    settings = settings if "batch_sampler" in settings else {"batch_size": 8, **settings}
    return DataLoader(TensorDataset(*(parts or (X, Y, SITE))), **settings)


class Stream(IterableDataset[Any]):
    """Rows that come one after another."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter(self.rows)


def until(row: int) -> Iterator[Any]:
    """Rows as far as this one, where the disk breaks unless it is the last."""
    yield from zip(X[:row], Y[:row], SITE[:row], strict=True)
    if row < N:
        raise OSError("the disk is gone")


def half(rows: slice, entry: str) -> dict[str, Any]:
    """A batch that has another entry in the second half."""
    return {"x": X[rows], entry if rows.start else "more": X[rows], "y": Y[rows], "env": SITE[rows]}


ROWS = [*TensorDataset(X, Y, SITE)]


def endless() -> Any:
    """A stream that gives the same rows again and again, on a machine of little memory."""
    with patch("invariscope.models.torch_rows.most_bytes", lambda: 100_000):
        return audit(DataLoader(Stream(itertools.cycle(ROWS)), batch_size=8))


META = torch.stack([SITE, torch.arange(N)], 1)

CASES = [
    # --- what is no loader ---
    Case("give an array, a table, a tensor", lambda: iv.split(NET).represent(3.0), lambda: iv.split(NET).represent(X)),
    Case("give at least one row", lambda: iv.split(NET).represent(X[:0]), lambda: iv.split(NET).represent(X[:1])),
    Case(
        "such as TensorDataset(x, y), for every environment",
        lambda: audit({"a": loader(X, Y), "b": X}),
        lambda: audit({"a": loader(X, Y), "b": TensorDataset(X, Y)}),
    ),
    Case(
        "give TensorDataset(*map(torch.cat, zip(*X))) in its place",
        lambda: audit([*loader()]),
        lambda: audit(TensorDataset(*map(torch.cat, zip(*loader(), strict=True)))),
    ),
    Case(
        "give DataLoader(X, batch_size=256) in its place",
        lambda: audit(ROWS),
        lambda: audit(DataLoader(ROWS, batch_size=256)),  # type: ignore[arg-type]
    ),
    Case("pass the environment of every row", lambda: audit(X, Y, env_column="site"), lambda: audit(X, Y, env=SITE)),
    # --- loaders ---
    Case(
        "make it anew",
        lambda: audit(DataLoader(Stream([]))),
        lambda: audit(DataLoader(Stream([*TensorDataset(X, Y, SITE)]))),
    ),
    Case("give it a batch_size", lambda: audit(loader(batch_size=None)), lambda: audit(loader(batch_size=8))),
    Case(
        "give a DataLoader of the same data set without it",
        lambda: audit(loader(sampler=WeightedRandomSampler([1.0] * N, N))),
        lambda: audit(loader()),
    ),
    Case(
        "give one per row",
        lambda: audit(batches(lambda rows: (X[rows], Y[:3], SITE[rows]))),
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], SITE[rows]))),
    ),
    Case(
        "gives a single environment for 20 rows: give one per row",
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], str(rows.start)))),
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], [str(rows.start)] * 20))),
    ),
    Case(
        "give x, (x, y) or (x, y, env)",
        lambda: audit(batches(lambda rows: ("x", Y[rows]))),
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], SITE[rows]))),
    ),
    Case(
        "one tensor with a row per example",
        lambda: audit(batches(lambda rows: torch.tensor(1.0))),
        lambda: audit(batches(lambda rows: X[rows]), Y, SITE),
    ),
    Case(
        "others of shape (); give all of them one shape",
        lambda: audit(batches(lambda rows: (X[rows], Y[rows, None] if rows.start == 0 else Y[rows], SITE[rows]))),
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], SITE[rows]))),
    ),
    Case(
        "and one table is needed: give all of them one shape",
        lambda: audit(batches(lambda rows: (X[rows, : 2 + rows.start], Y[rows], SITE[rows])), model=None),
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], SITE[rows])), model=None),
    ),
    Case(
        "DataLoader(list(itertools.islice(dataset, 10_000)), batch_size=256)",
        endless,
        lambda: audit(DataLoader(list(itertools.islice(ROWS, 10_000)), batch_size=256)),
    ),
    Case(
        "they hold int64 and datetime64[D]; give all of them one type",
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], DAYS[rows] if rows.start else SITE[rows]))),
        lambda: audit(batches(lambda rows: (X[rows], Y[rows], DAYS[rows]))),
    ),
    Case(
        "give all of them the same entries",
        lambda: audit(batches(lambda rows: half(rows, "other")), model=iv.split(NET, inputs="x")),
        lambda: audit(batches(lambda rows: half(rows, "more")), model=iv.split(NET, inputs="x")),
    ),
    # --- target and environment in a batch ---
    Case(
        "target_name='dose' takes one of them",
        lambda: audit(batches(lambda rows: (X[rows], {"dose": Y[rows]}, SITE[rows]))),
        lambda: audit(batches(lambda rows: (X[rows], {"dose": Y[rows]}, SITE[rows])), target_name="dose"),
    ),
    Case(
        "target_name='label' says which",
        lambda: audit(dicts("x", "label", "target", "env")),
        lambda: audit(dicts("x", "label", "target", "env"), target_name="label"),
    ),
    Case(
        "say with target_name=...",
        lambda: audit(dicts("x", "diagnosis", "env")),
        lambda: audit(dicts("x", "diagnosis", "env"), target_name="diagnosis"),
    ),
    Case("or pass y", lambda: audit(dicts("x", "dose", "env")), lambda: audit(dicts("x", "env"), Y)),
    Case(
        "pass env, one label per row", lambda: audit(loader(X, Y), env_column=0), lambda: audit(loader(X, Y), env=SITE)
    ),
    Case(
        "env_column=0 or 1 says which",
        lambda: audit(loader(X, Y, META)),
        lambda: audit(loader(X, Y, META), env_column=0),
    ),
    Case(
        "env_column='env' says which",
        lambda: audit(dicts("x", "label", "env", "domain")),
        lambda: audit(dicts("x", "label", "env", "domain"), env_column="env"),
    ),
    Case(
        "name the entry of the environment",
        lambda: audit(dicts("x", "label", "site"), env_column="sight"),
        lambda: audit(dicts("x", "label", "site"), env_column="site"),
    ),
    Case(
        "say with env_column=...",
        lambda: audit(dicts("x", "label", "site")),
        lambda: audit(dicts("x", "label", "site"), env_column="site"),
    ),
    Case("or pass env", lambda: audit(dicts("x", "label")), lambda: audit(dicts("x", "label"), env=SITE)),
    Case("mend its data set first", lambda: audit(Stream(until(20))), lambda: audit(Stream(until(N)))),
    # --- several named inputs ---
    Case(
        "inputs= names one or several of image and number",
        lambda: iv.split(NET, inputs="pixels").predict(NAMED),
        lambda: OF_IMAGE.predict(NAMED),
    ),
    Case(
        "give an array or tensor for every input",
        lambda: audit({"image": X, "number": 1}, Y, SITE, model=OF_IMAGE),
        lambda: audit(NAMED, Y, SITE, model=OF_IMAGE),
    ),
    Case("give an array or tensor", lambda: audit({}, Y, SITE), lambda: audit({"image": X}, Y, SITE)),
    Case(
        "they must be about the same rows",
        lambda: audit({"image": X, "number": SITE[1:]}, Y, SITE, model=OF_IMAGE),
        lambda: audit({"image": X, "number": SITE}, Y, SITE, model=OF_IMAGE),
    ),
    Case("give one as X", lambda: iv.audit(None, NAMED, Y, SITE), lambda: iv.audit(None, X, Y, SITE, n_boot=0)),
]
