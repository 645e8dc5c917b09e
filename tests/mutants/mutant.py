"""What a mutant is: one small mistake in the source that somebody would notice, and the tests that must notice it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "invariscope"

#: one file of mutants each, `tests/mutants/<room>.py`, with a list ``MUTANTS``
ROOMS = (
    "rows",
    "heads",
    "models",
    "reading",
    "ratios",
    "criteria/regret",
    "criteria/influence",
    "criteria/transport",
    "criteria/dric",
    "criteria/worst_case",
    "criteria/predictions",
    "criteria/comparators",
    "objectives",
    "training",
    "estimators",
    "auditing",
    "selection",
    "report",
    "cli",
    "datasets",
    "wording",
    "files",
)


@dataclass(frozen=True)
class Mutant:
    """``old`` → ``new`` in one file; ``tests`` are the nearest test files or node ids, of which one must fail."""

    name: str
    file: str  # below src/invariscope
    old: str  # occurs exactly once in the file
    new: str
    seen: str  # what a user would see
    tests: tuple[str, ...]  # below tests/

    def mutated(self, text: str) -> str:
        """The text of the file with the mistake in it."""
        return text.replace(self.old, self.new)

    def stale(self) -> str | None:
        """Why this mutant cannot be tried any more, or None if it can."""
        path = SOURCE / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        text = path.read_text(encoding="utf-8")
        if (times := text.count(self.old)) != 1:
            return f"its old text occurs {times} times in {self.file}"
        try:
            changed = ast.dump(ast.parse(self.mutated(text))) != _code(text)
        except SyntaxError as error:
            return f"its new text does not compile: {error}"
        if not changed:
            return "it changes no code"
        missing = [node for node in self.tests if not _exists(node)]
        return f"there is no test {missing[0]}" if missing else None


def mutants_of(room: str) -> list[Mutant]:
    """The mutants of one room."""
    return list(import_module(f"tests.mutants.{room.replace('/', '.')}").MUTANTS)


def _exists(node: str) -> bool:
    """Whether a test file is there, and the function that a node id names in it."""
    file, *inside = node.split("::")
    path = ROOT / "tests" / file
    if not path.is_file():
        return False
    return not inside or inside[-1].split("[")[0] in _names_in(path)


@cache
def _code(text: str) -> str:
    """What of a text is code: comments and blanks are not."""
    return ast.dump(ast.parse(text))


@cache
def _names_in(path: Path) -> set[str]:
    """Functions of a test file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {part.name for part in ast.walk(tree) if isinstance(part, ast.FunctionDef)}
