"""All data sets by name, and what was published on them beside what is loaded here."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from invariscope.datasets.entry import Entry, Published, facts
from invariscope.errors import InputError
from invariscope.reading.dataset import Dataset

#: Where the data sets are, in the order in which they are listed.
MODULES = (
    *(f"tables.{name}" for name in ("bike_sharing", "adult", "law_school", "financial_indicators", "heart_disease")),
    *(f"images.{name}" for name in ("colored", "rotated", "image_folder")),
    *(f"synthetic.{name}" for name in ("linear_sem", "nonlinear_sem", "bayesian_network", "nulls", "overlap")),
)


@cache
def entries() -> Mapping[str, Entry]:
    """Every data set under its name."""
    listed: list[Entry] = []
    for module in MODULES:
        room = importlib.import_module(f"invariscope.datasets.{module}")
        listed += getattr(room, "ENTRIES", None) or (room.ENTRY,)
    return MappingProxyType({entry.name: entry for entry in listed})


def entry(name: str) -> Entry:
    """The data set of this name.

    >>> entry("linear_sam")
    Traceback (most recent call last):
    invariscope.errors.InputError: there is no data set "linear_sam": did you mean linear_sem or nonlinear_sem?
    """
    known = entries()
    if name not in known:
        close = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)}"
        raise InputError(f'there is no data set "{name}": {hint}')
    return known[name]


@dataclass(frozen=True)
class Compared:
    """A published number and the same number of the data as loaded here."""

    published: Published
    here: float

    @property
    def agrees(self) -> bool:
        """Whether both are the same to the decimals that were published."""
        decimals = len(str(self.published.value).partition(".")[2]) if isinstance(self.published.value, float) else 0
        return round(self.here, decimals) == self.published.value


def compare(chosen: Entry, plain: Dataset | None = None) -> list[Compared]:
    """Every published number of a data set beside ours; loads the data, once for each set of options.

    ``plain`` are the data without options, if they have been loaded before.
    """
    loaded: dict[tuple[tuple[str, Any], ...], dict[str, float]] = {} if plain is None else {(): facts(plain)}
    compared = []
    for number in chosen.published:
        options = tuple(sorted(number.options.items()))
        if options not in loaded:
            loaded[options] = facts(chosen.load(**number.options))
        compared.append(Compared(number, loaded[options][number.what]))
    return compared
