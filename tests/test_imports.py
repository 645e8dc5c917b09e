"""The import rule: who may import whom, and what `import invariscope` may cost."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SOURCE / "invariscope"

# `invariscope.torch` holds the penalties for people's own training loops, so it may import torch like the others
TORCH_ROOMS = {"objectives", "training", "estimators", "experiments", "models", "torch"}
TORCH_ROOMS |= {"torch_models", "torch_passes", "torch_rows"}  # models and audits import them where a network arrives
# imported inside a function, where torch was found or a torch head was given
IMPORTED_WITH_TORCH = {"invariscope.ratios.torch_network"} | {
    f"invariscope.worst_case_losses.{name}" for name in ("torch_heads", "torch_ascent")
}
IMPORTED_WITH_TORCH |= {f"invariscope.criteria.{name}" for name in ("influence_autograd", "influence_network")}
HEAVY = {
    "torch", "pandas", "altair", "pyarrow", "sklearn", "click", "rich", "vl_convert", "skops", "pooch", "joblib",
    "onnx", "onnxruntime", "safetensors", "dask", "polars", "scipy.stats", "scipy.optimize",
}  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One import statement: the module it stands in, the module it names, and whether it waits inside a function."""

    importer: str
    imported: str
    line: int
    lazy: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_in(text: str, importer: str, is_package: bool, modules: set[str]) -> Iterator[Import]:
    """Every import statement of a file, wherever it stands; `from package import module` names the module."""
    tree = ast.parse(text)
    inside_functions = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative: one dot is the package the file lives in
                parts = importer.split(".")
                kept = parts[: len(parts) - node.level + (1 if is_package else 0)]
                base = ".".join([*kept, *([node.module] if node.module else [])])
            names = [f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names]
        else:
            continue
        for name in dict.fromkeys(names):
            yield Import(importer, name, node.lineno, id(node) in inside_functions)


IMPORTS = [
    found
    for name, path in MODULES.items()
    for found in imports_in(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", set(MODULES))
]


def room(module: str) -> str:
    """The part of invariscope a module belongs to: `criteria` for `invariscope.criteria.regret`."""
    parts = module.split(".")
    return parts[1] if parts[0] == "invariscope" and len(parts) > 1 else ""


def imports_library(found: Import, library: str) -> bool:
    return found.imported == library or found.imported.startswith(f"{library}.")


def told(broken: list[Import]) -> list[str]:
    return [f"{found.importer}:{found.line} imports {found.imported}" for found in broken]


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
    ],
)
def test_import_statements_are_read_right(text: str, expected: list[tuple[str, bool]]) -> None:
    found = list(imports_in(text, "invariscope.criteria.some", False, {"invariscope.report"}))
    assert [(one.imported, one.lazy) for one in found] == expected


def test_the_source_is_seen() -> None:
    assert "invariscope.environments" in MODULES
    assert any(one.imported == "numpy" for one in IMPORTS)
    assert any(room(one.imported) == "errors" for one in IMPORTS)


def test_every_folder_with_code_is_a_package() -> None:
    folders = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    assert [folder.name for folder in folders if not (folder / "__init__.py").is_file()] == []


# --- the rule -------------------------------------------------------------------------------------------------------
def reachable(start: str) -> dict[str, Import]:
    """Modules of invariscope that ``start`` leads to through any chain of imports, and the last link to each."""
    links: dict[str, Import] = {}
    waiting = [start]
    while waiting:
        importer = waiting.pop()
        for found in IMPORTS:
            if found.importer != importer or not room(found.imported):
                continue
            parts = found.imported.split(".")
            for depth in range(2, len(parts) + 1):  # importing a.b.c runs a.b as well
                name = ".".join(parts[:depth])
                if name in MODULES and name not in links:
                    links[name] = found
                    waiting.append(name)
    return links


@pytest.mark.parametrize("start", [name for name in MODULES if room(name) in {"criteria", "ratios"}])
def test_criteria_and_ratios_reach_neither_training_nor_report(start: str) -> None:
    broken = [link for name, link in reachable(start).items() if room(name) in {"training", "report"}]
    assert told(broken) == []


def test_criteria_and_ratios_do_not_import_the_whole_package() -> None:
    """`import invariscope` would hand them everything, training and report included."""
    rooms = {"criteria", "ratios"}
    assert told([one for one in IMPORTS if one.imported == "invariscope" and room(one.importer) in rooms]) == []


def test_only_report_imports_altair() -> None:
    assert told([one for one in IMPORTS if imports_library(one, "altair") and room(one.importer) != "report"]) == []


def test_torch_stays_in_its_rooms() -> None:
    broken = [
        one
        for one in IMPORTS
        if imports_library(one, "torch") and room(one.importer) not in TORCH_ROOMS
        and one.importer not in IMPORTED_WITH_TORCH
    ]  # fmt: skip
    # models serve people without torch too: there only the torch part may import it, or a function that needs it
    broken += [
        one
        for one in IMPORTS
        if imports_library(one, "torch") and room(one.importer) == "models" and not one.lazy
        and not one.importer.startswith("invariscope.models.torch")
    ]  # fmt: skip
    assert told(broken) == []


def test_nobody_imports_the_command_line() -> None:
    outside = {"cli", "__main__"}
    assert told([one for one in IMPORTS if room(one.imported) == "cli" and room(one.importer) not in outside]) == []


# --- what `import invariscope` costs --------------------------------------------------------------------------------
PROBE = """
import json, sys, time
start = time.perf_counter()
import invariscope
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(sys.modules), invariscope.__file__]))
"""


@dataclass(frozen=True)
class FreshImport:
    seconds: float
    modules: frozenset[str]


@pytest.fixture(scope="module")
def fresh_imports() -> list[FreshImport]:
    """`import invariscope` in three fresh interpreters, warnings being errors."""
    runs = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROBE],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seconds, modules, file = json.loads(done.stdout)
        assert file == str(PACKAGE / "__init__.py")
        runs.append(FreshImport(seconds, frozenset(modules)))
    return runs


def test_import_is_light(fresh_imports: list[FreshImport]) -> None:
    assert sorted(HEAVY & fresh_imports[0].modules) == []


def test_import_takes_less_than_a_second(fresh_imports: list[FreshImport]) -> None:
    assert min(run.seconds for run in fresh_imports) < 1.0


def test_estimators_are_imported_and_made_without_torch() -> None:
    """torch is an extra: who has it not can still read about the estimators, clone them and set their parameters."""
    script = "import sys, invariscope as iv; iv.InvariantRegressor(hidden=(8,)), iv.InvariantClassifier('irm')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{script}; print(sorted({{'torch', 'sklearn'}} & set(sys.modules)))"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['sklearn']"
