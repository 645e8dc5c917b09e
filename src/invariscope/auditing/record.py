"""The record of an audit: the verdict, all results, what was audited and how; and the ways it shows itself."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.auditing.verdict import Verdict
from invariscope.criteria.registry import CRITERIA
from invariscope.files import write_atomically
from invariscope.results import plain
from invariscope.wording import clean

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


@dataclass(frozen=True)
class AuditedData:
    """What was audited; ``classes`` are the labels of the target, in order, where it was given as labels."""

    rows: int
    labels: tuple[Hashable, ...]
    sizes: tuple[int, ...]
    columns: tuple[str, ...]
    task: str
    classes: tuple[Any, ...]
    target_name: str
    env_name: str
    representation: str
    head: str
    model: str


@dataclass(frozen=True)
class Settings:
    """What is needed to repeat it."""

    seed: int
    n_boot: int
    margin: float
    alpha: float
    ratio: str
    versions: Mapping[str, str]
    seconds: float
    created: str


@dataclass(frozen=True, repr=False)
class Audit:
    """The outcome of :func:`invariscope.audit`: a verdict, all results, and ways to show them.

    ``results`` maps criteria to results, and ``audit["regret"]`` is short for ``audit.results["regret"]``;
    ``left_out`` says which criteria could not be computed, and why. ``algorithm`` answers whether an algorithm for
    unseen environments (OOD) is needed, from the influence index. ``could_drop`` are the environments without which
    the regret could be had, where it is left out, or might be settled, where they have far fewer rows than others.
    """

    state: str
    headline: str
    sentences: tuple[str, ...]
    results: Mapping[str, Any]
    left_out: Mapping[str, str]
    data: AuditedData
    settings: Settings
    notes: tuple[str, ...] = field(default=())
    algorithm: str = ""
    could_drop: tuple[Hashable, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict as one paragraph."""
        return clean(Verdict(self.state, self.headline, (*self.sentences, *filter(None, [self.algorithm]))))

    def __getitem__(self, name: str) -> Any:
        """The result of one criterion."""
        if name in self.results:
            return self.results[name]
        unasked = f'it was not asked for: audit with criteria="{name}"' if name in CRITERIA else ""
        unknown = f"no such criterion; there are {', '.join(self.results)}"
        raise KeyError(f"{name}: {self.left_out.get(name) or unasked or unknown}")

    def __contains__(self, name: object) -> bool:
        """Whether there is a result of that criterion."""
        return name in self.results

    def __iter__(self) -> Iterator[str]:
        """The names of the criteria that have a result."""
        return iter(self.results)

    def frame(self) -> pd.DataFrame:
        """One row per environment: ``environment`` (the user's label), ``rows``; ``model_loss``, the mean loss there of
        the model itself, ``shared_head_loss`` of one head fitted for all environments, ``own_head_loss`` of one fitted
        there; ``regret`` with the interval that the state rests on, ``regret_low`` to ``regret_high``; and, where they
        are known, ``ece`` and ``overlap``.

        Numbers that the audit does not have are NaN; :attr:`left_out` and the notes of the results say why.
        """
        from invariscope.report.parts import environments

        return environments.frame(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON."""
        return {
            "verdict": {part: plain(getattr(self, part)) for part in ("state", "headline", "sentences", "algorithm")},
            "results": {name: result.to_dict() for name, result in self.results.items()},
            "left_out": plain(dict(self.left_out)),
            "notes": plain(self.notes),
            "data": plain(self.data),
            "settings": plain(self.settings),
        }

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to a JSON file, whole or not at all; "-" is standard output."""
        return write_atomically(path, json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report: one self-contained page that opens offline and prints.

        An older page stays whole until the new one is complete; "-" is standard output.
        """
        from invariscope.report import html

        return write_atomically(path, html.render(self))

    def _repr_html_(self) -> str:
        from invariscope.report import html

        return html.fragment(self)

    def __rich__(self) -> RenderableType:
        """The report as a terminal shows it."""
        from invariscope.report import terminal

        return terminal.table(self)

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        console = Console(file=StringIO(), width=100)
        with console.capture() as shown:
            console.print(self)
        return shown.get()

    def __repr__(self) -> str:
        return f"<Audit of {self.data.rows} rows in {len(self.data.labels)} environments: {self.verdict}>"
