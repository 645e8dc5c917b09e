"""A refusal and its remedy: what was wrong, what is said, and the same again with the advice followed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import invariscope
from invariscope.errors import InputError

SOURCE = Path(invariscope.__file__).parent


@dataclass(frozen=True)
class Case:
    """``refused()`` raises an InputError that says ``says``; ``followed()`` does what it advises, and has a result.

    Both run in one folder that is empty at first, so that files may have short names. Where nothing that users could do
    would help, ``followed`` is the reason in words.
    """

    says: str
    refused: Callable[[], Any]
    followed: Callable[[], Any] | str


@dataclass(frozen=True, order=True)
class Site:
    """A place in the source that refuses: the file, the function and the lines of the call of InputError."""

    file: str
    function: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first} ({self.function})"


def sites() -> list[Site]:
    """Every call of InputError in the source."""
    return sorted(site for path in SOURCE.rglob("*.py") for site in _sites_in(path))


def _sites_in(path: Path) -> Iterator[Site]:
    def visit(node: ast.AST, function: str) -> Iterator[Site]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "InputError":
                yield Site(str(path.relative_to(SOURCE)), inner, child.lineno, child.end_lineno or child.lineno)
            yield from visit(child, inner)

    return visit(ast.parse(path.read_text(encoding="utf-8")), "module")


def left_out(audit: invariscope.Audit, criterion: str) -> None:
    """Raise the reason for which an audit did without a criterion, as the criterion itself would."""
    raise InputError(audit.left_out[criterion])


@contextmanager
def places_noted() -> Iterator[dict[str, tuple[str, int]]]:
    """Within it, the file and the line that made every InputError, by its message."""
    original, made = InputError.__init__, {}

    def noting(self: InputError, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        frame = sys._getframe(1)
        made.setdefault(str(self), (frame.f_code.co_filename, frame.f_lineno))

    InputError.__init__ = noting  # type: ignore[method-assign]
    try:
        yield made
    finally:
        InputError.__init__ = original  # type: ignore[method-assign]


def reached_by(error: BaseException, made: dict[str, tuple[str, int]], known: list[Site]) -> set[Site]:
    """The places that made an error, and those that made the refusals it was made of."""
    reached = set()
    at: BaseException | None = error
    while at is not None:
        file, line = made.get(str(at), ("", 0))
        reached |= {site for site in known if str(SOURCE / site.file) == file and site.first <= line <= site.last}
        at = at.__cause__ or at.__context__
    return reached
