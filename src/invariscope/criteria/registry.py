"""One decorator makes a function a criterion: what it needs, how an audit calls it, what it can and cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from invariscope.criteria.material import NEEDS, AuditOptions, Material
from invariscope.results import Result

Function = TypeVar("Function", bound=Callable[..., Any])
Call = Callable[[Material, AuditOptions], Result]


@dataclass(frozen=True)
class Criterion:
    """A registered criterion; ``call`` runs it on what an audit has."""

    name: str
    title: str
    function: Callable[..., Any]
    needs: frozenset[str]
    better: str
    tells: str
    cannot_tell: str
    call: Call
    on_request: bool = False
    draws: int | None = None
    mentioned: bool = True


CRITERIA: dict[str, Criterion] = {}


def criterion(
    *,
    title: str,
    needs: Collection[str],
    better: str,
    tells: str,
    cannot_tell: str,
    call: Call,
    on_request: bool = False,
    draws: int | None = None,
    mentioned: bool = True,
) -> Callable[[Function], Function]:
    """Register a function under its own name.

    ``needs`` are fields of :class:`~invariscope.criteria.material.Material`, or kinds of predictions; ``better`` is
    "lower" or "higher"; ``tells`` and ``cannot_tell`` are one sentence each, shown to the user beside the number;
    ``call`` takes the material, which has all of the needs, and the options of the audit. One that takes long is
    computed ``on_request`` only, and named among what was left out unless it is not to be ``mentioned`` (as what
    answers another question than the audit's); one that makes dear ``draws`` says how many are enough, whatever the
    audit makes.
    """
    unknown = set(needs) - NEEDS
    if unknown or better not in ("lower", "higher"):
        raise ValueError(f"unknown needs {sorted(unknown)} or direction {better!r}: needs are {sorted(NEEDS)}")

    def register(function: Function) -> Function:
        name = function.__name__
        if name in CRITERIA and CRITERIA[name].function.__module__ != function.__module__:
            raise ValueError(
                f'there is a criterion "{name}" in {CRITERIA[name].function.__module__}: call it otherwise'
            )
        CRITERIA[name] = Criterion(
            name, title, function, frozenset(needs), better, tells, cannot_tell, call, on_request, draws, mentioned
        )
        return function

    return register
