"""How a table is read: every option once, from the command line down to the reader, and how the user typed it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from invariscope.errors import InputError
from invariscope.rows.settings import several
from invariscope.rows.spelling import spelling, spelt

#: What can be done about missing values.
MISSING_CHOICES = ("refuse", "drop-rows", "drop-columns", "impute-median", "indicator", "keep")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Which columns of a table are what, and what is done to them: the options of :func:`invariscope.read`, and more.

    Attributes
    ----------
    weight, prediction, baseline : columns of numbers that go along: how many rows each stands for, what a model
        predicted, what a baseline did (one column, or one per class)
    features : columns to use; ``None`` means all that have no other part
    missing : one of :data:`MISSING_CHOICES`
    env_bins : how environments are grouped; in a shell as typed

    >>> ReadOptions(target="ill", env="site", weight="times").roles
    {'ill': 'target', 'site': 'env', 'times': 'weight'}
    """

    target: str
    env: str
    weight: str | None = None
    prediction: str | None = None
    baseline: Sequence[str] = ()
    features: Sequence[str] | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    missing: str = "refuse"
    na: Sequence[str] = ()
    env_bins: str | int | Sequence[float] | None = None
    drop_env: Hashable | Sequence[Hashable] = ()

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The options that give a column a part of its own, and the column each names."""
        given = {"target": self.target, "env": self.env, "weight": self.weight, "prediction": self.prediction}
        alone = [(option, name) for option, name in given.items() if name is not None]
        return [*alone, *(("baseline", name) for name in self.baseline)]

    @property
    def roles(self) -> dict[str, str]:
        """Columns with a part of their own, and the option that gives it to them."""
        return {name: option for option, name in self.parts}

    def refuse_two_models(self, model: Any) -> None:
        """Predictions are a model already."""
        if model is not None and self.prediction is not None:
            one, other = spelt("model"), spelt("prediction")
            raise InputError(f"{one} and {other} are two ways to give one model: leave one out")

    @property
    def bins(self) -> str | int | Sequence[float] | None:
        """How environments are grouped: a part of a date, a number of groups, or edges.

        In a shell one edge has a comma behind it.

        >>> from invariscope.rows.spelling import SHELL, typed_in
        >>> typed = ("weekday", "4", "30, 50.5", "30,")
        >>> with typed_in(SHELL):
        ...     [ReadOptions(target="y", env="e", env_bins=text).bins for text in typed]
        ['weekday', 4, (30.0, 50.5), (30.0,)]
        """
        text = self.env_bins
        if not spelling().shell or not isinstance(text, str):
            return text
        try:
            return tuple(float(part) for part in text.split(",") if part.strip()) if "," in text else int(text)
        except ValueError:
            return text


def names_of(given: str | Sequence[str] | None, option: str) -> tuple[str, ...]:
    """One name, several or none, as a tuple.

    >>> names_of("age", "drop"), names_of(["age", "sex"], "drop"), names_of(None, "drop")
    (('age',), ('age', 'sex'), ())
    """
    return () if given is None else tuple(several(given, option, '"age"' if option != "na" else '"-"'))
