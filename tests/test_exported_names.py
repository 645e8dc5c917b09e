"""The names people may use: all there, all documented, nothing else."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

import invariscope

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"

# Names are a contract with everyone who wrote them into a script. A name is added here when it is added to the package.
CONTRACT = {
    "Audit",
    "DensityRatio",
    "EnvironmentClassifier",
    "Environments",
    "Estimate",
    "InputError",
    "InvariantClassifier",
    "InvariantRegressor",
    "LeaveOneEnvironmentOut",
    "LinearHead",
    "Split",
    "__version__",
    "audit",
    "calibration_variance",
    "conditional_mutual_information",
    "cramer_wold",
    "datasets",
    "density_ratio",
    "domain_classifier",
    "dric",
    "hsic",
    "influence_index",
    "irm_penalty",
    "kmaxic",
    "mmd",
    "read",
    "regret",
    "risk_variance",
    "split",
    "subgroup_invariance",
    "transport_gap",
    "worst_case",
    "worst_case_in_inputs",
    "worst_environment_risk",
}
TYPING = {"annotations", "Any", "TYPE_CHECKING"}  # what annotations need; dir() does not show them
OBJECTS = sorted(CONTRACT - {"__version__"})
FUNCTIONS = sorted(name for name in OBJECTS if name[0].islower() and name != "datasets")
TORCH_ROOMS = ["estimators", "objectives", "torch", "training"]

# One new interpreter answers every question about first use: before each of them the package is forgotten and imported
# again, while torch and its like are loaded once. Whether torch came along is looked at first of all.
PROBE = """
import importlib, json, sys
rooms, modules = json.loads(sys.argv[1])

def anew(*names):
    for name in [name for name in sys.modules if name.partition(".")[0] == "invariscope"]:
        del sys.modules[name]
    for name in names:
        importlib.import_module(name)
    import invariscope
    return invariscope

answer = {"dir": dir(anew()), "torch": "torch" in sys.modules}
answer["rooms"] = {name: getattr(anew(), name).__name__ for name in rooms}
answer["callable"] = {name: callable(getattr(anew(*paths), name)) for name, paths in modules.items()}
anew()
everything = {}
exec("from invariscope import *", everything)
answer["star"] = [callable(everything[name]) for name in ("audit", "InvariantRegressor")] + [everything["__version__"]]
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class FreshImports:
    """What PROBE saw, where no other test had imported anything yet."""

    dir: list[str]
    torch: bool
    rooms: dict[str, str]
    callable: dict[str, bool]
    star: list[bool | str]


@pytest.fixture(scope="module")
def fresh() -> FreshImports:
    modules = {name: modules_called(name) for name in FUNCTIONS}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE, json.dumps([TORCH_ROOMS, modules])],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return FreshImports(**json.loads(done.stdout))


def modules_called(name: str) -> list[str]:
    """`invariscope.criteria.regret.regret` for "regret": every file of that name."""
    paths = sorted((SOURCE / "invariscope").rglob(f"{name}.py"))
    return [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in paths]


def is_own_submodule(value: object) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__.startswith("invariscope.")


def test_all_lists_the_contract() -> None:
    assert sorted(invariscope.__all__) == sorted(CONTRACT)


def test_nothing_else_is_reachable() -> None:
    """Helpers and other people's modules must not lie about in the namespace; submodules that got imported may."""
    names = {name for name in {*vars(invariscope), *dir(invariscope)} if not name.startswith("_")}
    strangers = {
        name for name in names - set(invariscope.__all__) - TYPING if not is_own_submodule(getattr(invariscope, name))
    }
    assert sorted(strangers) == []


def test_dir_lists_every_name_before_it_was_used(fresh: FreshImports) -> None:
    """Tab completion must show names that are loaded on first use."""
    assert sorted(CONTRACT - set(fresh.dir)) == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        invariscope.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", OBJECTS)
def test_documented(name: str) -> None:
    documentation = inspect.getdoc(getattr(invariscope, name))
    assert documentation is not None
    # a dataclass without a docstring gets its signature as one, an exception that of its parent
    assert not documentation.startswith(f"{name}(")
    assert documentation != inspect.getdoc(ValueError)
    assert len(documentation.split()) >= 5


@pytest.mark.parametrize("name", [name for name in OBJECTS if name[0].isupper()])
def test_public_methods_are_documented(name: str) -> None:
    members = vars(getattr(invariscope, name)).items()
    described = (staticmethod, classmethod, property, types.FunctionType)
    methods = {m: value for m, value in members if not m.startswith("_") and isinstance(value, described)}
    assert [m for m, value in methods.items() if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_documented_with_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(invariscope, name)) or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_stay_functions_when_submodules_are_imported(fresh: FreshImports, name: str) -> None:
    """`import invariscope.audit` binds the module to the attribute `audit`: it must not hide the function."""
    assert fresh.callable[name]


@pytest.mark.parametrize("name", TORCH_ROOMS)
def test_rooms_with_torch_are_opened_on_first_use(fresh: FreshImports, name: str) -> None:
    assert not fresh.torch
    assert fresh.rooms[name] == f"invariscope.{name}"


@pytest.mark.parametrize(
    ("room", "names"),
    [
        ("rows", ["Environments", "Target", "target_of"]),
        ("heads", ["LinearHead"]),
        ("ratios", ["DensityRatio"]),
        ("criteria", ["CRITERIA", "Criterion", "criterion"]),
    ],
)
def test_rooms_say_what_is_public(room: str, names: list[str]) -> None:
    module = importlib.import_module(f"invariscope.{room}")
    assert sorted(module.__all__) == sorted(names)
    for name in names:
        assert inspect.getdoc(getattr(module, name))
        assert name == name.upper() or getattr(module, name).__module__.startswith(f"invariscope.{room}.")


def test_star_import_works(fresh: FreshImports) -> None:
    assert fresh.star == [True, True, invariscope.__version__]


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", invariscope.__version__)
    assert invariscope.__version__ == project["version"]
    try:
        installed = importlib.metadata.version("invariscope")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("invariscope runs from its source folder: it is not installed")
    assert invariscope.__version__ == installed
