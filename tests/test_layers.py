"""Layers: which room may import which. Lazy imports count; whoever breaks the rule is named with file and line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from invariscope.ratios.catalogue import ESTIMATORS

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SOURCE / "invariscope"

#: The hall: files that belong to no room. Those that export what others made stand above every room.
HALL = {"errors", "results", "wording", "shortening", "progress", "files"}
DOORS = {"__init__", "__main__", "torch"}

#: Each room, and the rooms it may import (and itself, and the hall). No room is to the left of one it imports.
LAYERS: dict[str, set[str]] = {
    "rows": set(),
    "heads": {"rows"},
    "ratios": {"rows", "heads"},
    "models": {"rows", "heads"},
    "reading": {"rows", "models"},
    "datasets": {"rows", "reading"},
    "criteria": {"rows", "heads", "models", "ratios"},
    "objectives": {"rows", "heads", "models", "ratios"},
    "training": {"rows", "heads", "models", "ratios", "objectives"},
    "estimators": {"rows", "heads", "models", "reading", "ratios", "objectives", "training"},
    "auditing": {"rows", "heads", "models", "ratios", "criteria"},
    "selection": {"rows", "heads", "models", "criteria", "auditing"},
    "report": {"rows", "ratios", "criteria", "auditing"},
    "cli": {"rows", "models", "ratios", "criteria", "objectives", "estimators", "datasets", "reading", "auditing"},
}
#: The one exception: the methods with which an audit shows itself.
SHOWS_ITSELF = {("auditing.record", "report")}

#: An import that no reader can follow, and the one file that has one: it takes names of its own room from a table.
UNREADABLE = "(who knows what)"
BY_TABLE = {"invariscope.ratios.catalogue"}

#: Files in which torch may be imported, beside those named torch_*.
TORCH_ROOMS = {"objectives", "training", "estimators", "torch"}


@dataclass(frozen=True)
class Import:
    """One import statement: the module it stands in, the module it names, its line, and whether it waits for a call."""

    importer: str
    imported: str
    line: int
    lazy: bool

    def __str__(self) -> str:
        return f"{path_of(self.importer)}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def path_of(module: str) -> str:
    return str(MODULES[module].relative_to(SOURCE.parent)) if module in MODULES else module


def imports_in(text: str, importer: str, is_package: bool, modules: set[str]) -> Iterator[Import]:
    """Every import statement of a file, wherever it stands; `from package import module` names the module."""
    for node, lazy in nodes_in(ast.parse(text), lazy=False):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative: one dot is the package the file lives in
                parts = importer.split(".")
                kept = parts[: len(parts) - node.level + (1 if is_package else 0)]
                base = ".".join([*kept, *([node.module] if node.module else [])])
            names = [f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names]
            if base in ("importlib", "sys") and any(_hides(alias) for alias in node.names):
                names.append(UNREADABLE)
        elif (indirect := _indirect(node, importer, is_package)) is not None:
            names = [indirect]
        else:
            continue
        for name in dict.fromkeys(names):
            yield Import(importer, name, node.lineno, lazy)


def nodes_in(tree: ast.AST, lazy: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node of a tree, and whether it stands inside a function, where it waits for a call."""
    yield tree, lazy
    inside = lazy or isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(tree):
        yield from nodes_in(child, inside)


def _hides(alias: ast.alias) -> bool:
    """Whether what imports modules gets a name under which nobody would look for it."""
    known_as = (alias.asname or alias.name).lstrip("_")
    return alias.name == "modules" or (alias.name == "import_module" and known_as != "import_module")


def _indirect(node: ast.AST, importer: str, is_package: bool) -> str | None:
    """The module that a node names without an import statement; UNREADABLE where only running it would tell."""
    if isinstance(node, ast.Attribute) and (getattr(node.value, "id", ""), node.attr) == ("sys", "modules"):
        return UNREADABLE
    if isinstance(node, ast.Name) and node.id in ("__import__", "exec", "eval"):
        return UNREADABLE
    if not isinstance(node, ast.Call):
        return None
    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if called == "getattr" and getattr(node.args[0], "id", "") in ("importlib", "sys"):
        return UNREADABLE
    if called.lstrip("_") != "import_module":
        return None
    name = [*node.args, *(keyword.value for keyword in node.keywords)][0]
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    first = parts[0].value if isinstance(parts[0], ast.Constant | ast.FormattedValue) else None
    if isinstance(first, str) and not first.startswith("."):
        return first.rstrip(".")  # `f"invariscope.ratios.{x}"` is ratios
    return importer if is_package and getattr(first, "id", "") == "__name__" else UNREADABLE


@cache
def source_imports() -> list[Import]:
    """Every import statement of the package; read on first use, so that collecting tests stays quick."""
    names = set(MODULES)
    return [
        link
        for name, path in MODULES.items()
        for link in imports_in(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", names)
    ]


def room(module: str) -> str:
    """The room a module belongs to: `criteria` for `invariscope.criteria.regret.regret`; its own name in the hall."""
    parts = module.split(".")
    if parts[0] != "invariscope":
        return ""
    return parts[1] if len(parts) > 1 else "__init__"


def allowed(link: Import) -> bool:
    importer, imported = room(link.importer), room(link.imported)
    if link.imported == UNREADABLE:
        return link.importer in BY_TABLE
    if not imported or importer in DOORS:
        return True
    if importer in HALL:
        return imported in HALL
    if (link.importer.removeprefix("invariscope."), imported) in SHOWS_ITSELF:
        return True
    return imported in HALL | LAYERS[importer] | {importer}


# --- the reader itself is checked: one that sees nothing would pass every rule ----------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch.nn as nn", [("torch.nn", False)]),
        ("import a, b", [("a", False), ("b", False)]),
        ("def f():\n    import torch", [("torch", True)]),
        ("class A:\n    import torch", [("torch", False)]),
        ("if TYPE_CHECKING:\n    from altair import Chart", [("altair", False)]),
        ("from invariscope import report", [("invariscope.report", False)]),
        ("from invariscope import audit_me", [("invariscope", False)]),
        ("from ..report import page", [("invariscope.report", False)]),
        ("from .. import report", [("invariscope.report", False)]),
        ("from . import registry", [("invariscope.criteria", False)]),
        ('def f():\n    importlib.import_module("invariscope.report.html")', [("invariscope.report.html", True)]),
        ('import_module(f"invariscope.report.{name}")', [("invariscope.report", False)]),
        ('import_module(name="invariscope.report")', [("invariscope.report", False)]),
        ('import_module(room + ".html")', [(UNREADABLE, False)]),
        ("import_module(name)", [(UNREADABLE, False)]),
        ('import_module(f"{name}.html")', [(UNREADABLE, False)]),
        ('import_module("..report.html", __package__)', [(UNREADABLE, False)]),
        ("from importlib import import_module as load", [("importlib", False), (UNREADABLE, False)]),
        ('__import__("invariscope.report.html")', [(UNREADABLE, False)]),
        ("load = __import__", [(UNREADABLE, False)]),
        ('getattr(importlib, "import_module")', [(UNREADABLE, False)]),
        ('sys.modules["invariscope"].audit', [(UNREADABLE, False)]),
        ("from sys import modules", [("sys", False), (UNREADABLE, False)]),
        ('exec("import torch")', [(UNREADABLE, False)]),
    ],
)
def test_import_statements_are_read_right(text: str, expected: list[tuple[str, bool]]) -> None:
    links = list(imports_in(text, "invariscope.criteria.some", False, {"invariscope.report"}))
    assert [(link.imported, link.lazy) for link in links] == expected


def test_the_source_is_seen() -> None:
    assert "invariscope.rows.environments" in MODULES
    assert any(link.imported == "numpy" for link in source_imports())
    assert any(room(link.imported) == "errors" for link in source_imports())


def test_every_folder_with_code_is_a_package_and_has_a_place_in_the_table() -> None:
    folders = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    assert [folder.name for folder in folders if not (folder / "__init__.py").is_file()] == []
    assert {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()} == set(LAYERS)


def test_nothing_stands_in_the_hall_but_what_everybody_uses() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} <= HALL | DOORS


# --- the rule -------------------------------------------------------------------------------------------------------
def test_the_table_has_no_way_back() -> None:
    above: set[str] = set(LAYERS)
    for name, lower in LAYERS.items():  # rooms are listed from the ground up
        above.discard(name)
        assert not lower & above, f"{name} may import {sorted(lower & above)}, which the table lists above it"


@pytest.mark.parametrize(
    ("importer", "imported", "right"),
    [
        ("invariscope.criteria.regret.regret", "invariscope.rows.environments", True),
        ("invariscope.rows.environments", "invariscope.criteria.registry", False),
        ("invariscope.rows.environments", "invariscope.errors", True),
        ("invariscope.results", "invariscope.rows.environments", False),
        ("invariscope.criteria.regret.regret", "invariscope", False),
        ("invariscope.criteria.regret.regret", "invariscope.objectives.irm", False),
        ("invariscope.auditing.record", "invariscope.report.html", True),
        ("invariscope.auditing.verdict", "invariscope.report.html", False),
    ],
)
def test_the_rule_tells_right_from_wrong(importer: str, imported: str, right: bool) -> None:
    assert allowed(Import(importer, imported, 1, False)) is right


def test_rooms_import_only_what_lies_below_them() -> None:
    assert [str(link) for link in source_imports() if not allowed(link)] == []


@pytest.mark.parametrize("library", ["pkgutil", "runpy"])
def test_nothing_runs_modules_in_ways_nobody_reads(library: str) -> None:
    assert [str(link) for link in source_imports() if imports_library(link, library)] == []


def test_the_table_of_ratios_names_its_own_room() -> None:
    assert {room(module) for module, _ in ESTIMATORS.values()} == {"ratios"}
    assert {link.importer for link in source_imports() if link.imported == UNREADABLE} == BY_TABLE


def test_no_module_leads_back_to_itself() -> None:
    """No circle of imports between modules, lazy ones included (how an audit shows itself apart)."""
    links: dict[str, set[str]] = {}
    for link in source_imports():
        shows = (link.importer.removeprefix("invariscope."), room(link.imported)) in SHOWS_ITSELF
        opens = link.imported == link.importer  # a package that brings its own modules when they are asked for
        if link.imported in MODULES and not shows and not opens and room(link.importer) not in DOORS:
            links.setdefault(link.importer, set()).add(link.imported)
    leads_to = {module: reachable(module, links) for module in MODULES}
    circles = {module.removeprefix("invariscope.") for module in MODULES if module in leads_to[module]}
    assert sorted(circles) == []


def reachable(start: str, links: dict[str, set[str]]) -> set[str]:
    """Modules that ``start`` leads to through any chain of imports."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = links.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def imports_library(link: Import, library: str) -> bool:
    return link.imported == library or link.imported.startswith(f"{library}.")


@pytest.mark.parametrize("library", ["altair", "vl_convert"])
def test_only_charts_draw(library: str) -> None:
    links = [link for link in source_imports() if imports_library(link, library)]
    assert links
    assert [str(link) for link in links if not link.importer.startswith("invariscope.report.charts.")] == []


def test_torch_stays_in_its_rooms() -> None:
    broken = [
        link
        for link in source_imports()
        if imports_library(link, "torch")
        and room(link.importer) not in TORCH_ROOMS
        and not link.importer.rpartition(".")[2].startswith("torch_")
    ]
    assert [str(link) for link in broken] == []
