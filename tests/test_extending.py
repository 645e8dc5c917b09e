"""The page on extending is true: its files are taken from it as they stand, and an audit and a training use them."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import invariscope as iv
from invariscope.criteria.registry import CRITERIA, criterion
from invariscope.datasets import catalogue

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = {
    name: textwrap.dedent(text)
    for text in re.findall(r"^ *```python\n(.*?)^ *```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"^ *def (risk_spread|spread_penalty|two_towns)\(", text, flags=re.MULTILINE)
}
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Writes a file of the page and imports it; what it registered is taken back afterwards."""
    registries: list[dict[str, object]] = [CRITERIA]  # type: ignore[list-item]
    if "torch" in sys.modules or importlib.util.find_spec("torch"):
        from invariscope.objectives import REGISTRY

        registries.append(REGISTRY)  # type: ignore[arg-type]
    before = [dict(registry) for registry in registries]

    def load_file(name: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(FILES[name], encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"page_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    yield load_file
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)
    for name in FILES:
        sys.modules.pop(f"page_{name}", None)


def towns(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three towns; Rome is noisier."""
    rng = np.random.default_rng(seed)
    X, town = rng.normal(size=(300, 2)), np.repeat(["Bern", "Oslo", "Rome"], 100)
    return X, X[:, 0] + np.where(town == "Rome", 2.0, 1.0) * rng.normal(size=300), town


def test_the_page_has_the_files() -> None:
    assert set(FILES) == {"risk_spread", "spread_penalty", "two_towns"}


@pytest.mark.parametrize("name", FILES)
def test_examples_in_the_files_run(name: str, load: Load) -> None:
    assert doctest.testmod(load(name)).failed == 0


def test_a_criterion_in_one_file_is_part_of_every_audit(load: Load, seed: int, tmp_path: Path) -> None:
    risk_spread = load("risk_spread").risk_spread
    X, y, town = towns(seed)
    found = iv.audit(None, X, y, town, n_boot=99)
    risks = [estimate.value for estimate in found["risk_variance"].per_environment.values()]
    assert found["risk_spread"].value == pytest.approx(max(risks) - min(risks), rel=1e-12)
    assert found["risk_spread"].worst == "Rome"
    assert (
        risk_spread(X[:, 0], y, town).value
        == iv.audit(lambda rows: rows[:, 0], X, y, town, n_boot=99, criteria="risk_spread")["risk_spread"].value
    )
    # what it needs and is not there leaves it out, with the reason
    without = iv.audit(iv.Split(represent=X), X, y, town, n_boot=99, criteria=["risk_spread"])
    assert without.left_out == {"risk_spread": "the model was given without its predictions"}
    # the report lists it by itself
    page = found.to_html(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert all(words in page for words in ("Spread of the risk", "than in the best.", "merely noisier"))


def test_a_criterion_can_be_watched(load: Load, seed: int) -> None:
    from invariscope.auditing.conditions import met, parse

    load("risk_spread")
    found = iv.audit(None, *towns(seed), n_boot=99, criteria=["risk_spread"])
    assert "Spread of the risk is" in (met(parse(["risk_spread>0"], 99)[0], found) or "")


def test_the_law_suite_fails_for_a_criterion_nobody_classified(load: Load) -> None:
    laws = _module_at(ROOT / "tests" / "laws" / "test_criteria.py")
    laws.test_every_registered_criterion_has_an_entry()
    load("risk_spread")
    with pytest.raises(AssertionError):
        laws.test_every_registered_criterion_has_an_entry()


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_the_criterion_of_the_page_keeps_the_laws_it_is_sent_to(load: Load, task: str, seed: int) -> None:
    laws = _module_at(ROOT / "tests" / "laws" / "test_criteria.py")
    load("risk_spread")
    in_squares = replace(laws.ENTRIES["worst_environment_risk"], call=laws._on_predictions("risk_spread"))
    laws.ENTRIES["risk_spread"] = in_squares
    laws.test_docstring_says_what_it_tells_and_what_it_cannot("risk_spread")
    laws.test_every_field_of_the_result_is_classified("risk_spread", task, seed)
    laws.test_new_names_in_the_same_order_change_names_only("risk_spread", task, seed)
    laws.test_whole_weights_are_repeated_rows("risk_spread", task, seed)
    laws.test_results_are_frozen_plain_and_portable("risk_spread", task, seed)


def test_every_criterion_is_imported_where_the_page_says() -> None:
    text = (ROOT / "src/invariscope/auditing/run.py").read_text(encoding="utf-8")
    assert [name for name in CRITERIA if not re.search(rf"import (\(  # noqa: F401\s+)?{name}\b", text)] == []
    assert [name for name in CRITERIA if not hasattr(iv, name)] == []


@pytest.mark.parametrize(
    "change", [{"needs": {"predictions", "beauty"}}, {"better": "both"}], ids=["unknown need", "no direction"]
)
def test_a_criterion_that_asks_for_what_nobody_has_is_not_registered(change: dict[str, object]) -> None:
    given = {"title": "T", "needs": {"target"}, "better": "lower", "tells": "t", "cannot_tell": "c", "call": print}
    with pytest.raises(ValueError, match=r"beauty|both"):
        criterion(**given | change)  # type: ignore[arg-type]


def test_an_objective_in_one_file_trains_a_model(load: Load, seed: int) -> None:
    pytest.importorskip("torch")
    load("spread_penalty")
    X, y, town = towns(seed)
    X = np.column_stack([X, y + 3.0 * (town == "Rome") * np.random.default_rng(seed).normal(size=300)])

    def spread(penalty: float) -> float:
        model = iv.InvariantRegressor("spread", penalty=penalty, steps=200, random_state=0).fit(X, y, env=town)
        squares = (model.predict(X) - y) ** 2
        risks = [squares[town == label].mean() for label in ("Bern", "Oslo", "Rome")]
        return float(max(risks) - min(risks))

    assert spread(5.0) < spread(0.0)


def test_objectives_are_listed_where_the_page_says() -> None:
    pytest.importorskip("torch")
    import invariscope.torch
    from invariscope import objectives
    from invariscope.cli.train import OBJECTIVES

    assert set(OBJECTIVES) == set(objectives.REGISTRY)
    assert {kind.__name__ for kind in objectives.REGISTRY.values()} <= set(objectives.__all__)
    assert "vrex_penalty" in invariscope.torch.__all__


def test_a_data_set_in_one_file_is_held_against_what_was_published(load: Load) -> None:
    entry = load("two_towns").ENTRY
    compared = catalogue.compare(entry)
    assert [number.published.what for number in compared if number.agrees] == ["rows in Bern"]
    assert iv.audit(None, *entry.load(), n_boot=99, criteria=[]).state == "NOT INVARIANT"


def test_places_the_page_names_exist() -> None:
    named = {name for name in re.findall(r"`([\w/]+\.py)`", PAGE) if "/" in name or name in ("results.py", "torch.py")}
    assert named
    for name in named:
        assert any((ROOT / start / name).is_file() for start in ("", "src", "src/invariscope")), name


def _module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("law_suite", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["law_suite"] = module
    spec.loader.exec_module(module)
    return module
