"""One decorator makes a function a criterion: what it needs, which way is better, what it can and cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: What a criterion may ask for. `audit` runs a criterion when it has all of its needs, and says so when it has not.
NEEDS = {
    "representation": "a representation (a model that can be split, or columns used as features)",
    "inputs": "numeric inputs",
    "target": "the target",
    "predictions": "predictions",
    "probabilities": "class probabilities",
    "scores": "predictions on a scale: numbers or class probabilities, not votes",
    "baseline": "a baseline predictor",
    "head": "a linear head: a model whose last step is linear",
    "network": "a torch model, through which gradients can be taken",
}


@dataclass(frozen=True)
class Criterion:
    """A registered criterion."""

    name: str
    title: str
    function: Callable[..., Any]
    needs: frozenset[str]
    better: str
    tells: str
    cannot_tell: str


CRITERIA: dict[str, Criterion] = {}


def criterion(
    *, title: str, needs: set[str], better: str, tells: str, cannot_tell: str
) -> Callable[[Function], Function]:
    """Register a function under its own name.

    ``needs`` are keys of :data:`NEEDS`; ``better`` is "lower" or "higher"; ``tells`` and ``cannot_tell`` are one
    sentence each, shown to the user beside the number.
    """
    unknown = needs - NEEDS.keys()
    if unknown or better not in ("lower", "higher"):
        raise ValueError(f"unknown needs {sorted(unknown)} or direction {better!r}")

    def register(function: Function) -> Function:
        name = function.__name__
        CRITERIA[name] = Criterion(name, title, function, frozenset(needs), better, tells, cannot_tell)
        return function

    return register
