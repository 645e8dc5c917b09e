"""The law of tasks: the same target is classes, or numbers, in every criterion, objective, estimator and command.

A criterion without an entry in ``CALLS`` fails here.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from torch import nn

import invariscope as iv
from invariscope.cli import main
from invariscope.criteria.comparators.samples import sample_of
from invariscope.criteria.registry import CRITERIA
from invariscope.heads.torch_losses import checked_task
from invariscope.models.files import load_model
from invariscope.objectives import REGISTRY
from invariscope.rows.targets import target_of
from invariscope.training import Rows

N = 240
ENV = np.repeat(["north", "south"], N // 2)
PLACE = np.arange(N) % (N // 2)
SOME = np.arange(0, N, 7)  # rows of every class, for what takes long


@dataclass(frozen=True)
class Kind:
    """A target, and what the rule says of it."""

    y: Any
    task: str
    classes: tuple[Any, ...] = ()

    @property
    def outputs(self) -> int:
        """Of a head that predicts it: one for numbers and for the log-odds of two classes."""
        return len(self.classes) if self.task == "multiclass" else 1

    @property
    def kind(self) -> str:
        return "regression" if self.task == "regression" else "classification"


def cycled(*values: Any) -> Any:
    return np.array(values)[PLACE % len(values)]


KINDS = {
    "0 and 1": Kind(cycled(0, 1), "binary", (0, 1)),
    "-1 and 1": Kind(cycled(-1, 1), "binary", (-1, 1)),
    "1 to 3": Kind(cycled(1, 2, 3), "multiclass", (1, 2, 3)),
    "0 to 9": Kind(cycled(*range(10)), "multiclass", tuple(range(10))),
    "0 to 14": Kind(cycled(*range(15)), "regression"),
    "floats": Kind(np.random.default_rng(0).normal(size=N), "regression"),
    "strings": Kind(cycled("ant", "bee", "cat"), "multiclass", ("ant", "bee", "cat")),
    "booleans": Kind(cycled(False, True), "binary", (False, True)),
    "categories": Kind(pd.Series(pd.Categorical(cycled(10, 20, 40))), "multiclass", (10, 20, 40)),
    "categories in Arrow": Kind(
        pd.Series(cycled(10, 20, 40).tolist(), dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int64()))),
        "multiclass",
        (10, 20, 40),
    ),
}
#: Targets that are neither arrays of numbers nor of texts, but classes to every criterion.
ODD_KINDS = {
    "two floats": Kind(cycled(0.5, 1.5), "binary", (0.5, 1.5)),
    "numbers as objects": Kind(cycled(1, 2.0, 3).astype(object), "multiclass", (1, 2, 3)),
    "booleans as objects": Kind(cycled(False, True).astype(object), "binary", (False, True)),
    "decimals": Kind(cycled(Decimal(1), Decimal(2)), "binary", (1, 2)),
    "bytes": Kind(cycled(b"a", b"b"), "binary", (b"a", b"b")),
    "variable-width strings": Kind(cycled("a", "b").astype(np.dtypes.StringDType()), "binary", ("a", "b")),
    "numbers beside texts": Kind([1 if place % 2 else "a" for place in PLACE], "binary", (1, "a")),
    "dates": Kind(cycled("2024", "2025").astype("M8[D]"), "binary", ("2024-01-01", "2025-01-01")),
    "Arrow's dictionary": Kind(pa.array(cycled(10, 20, 40)).dictionary_encode(), "multiclass", (10, 20, 40)),
}
every_kind = pytest.mark.parametrize("given", KINDS.values(), ids=KINDS.keys())


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(N, 2))


def predictions(given: Kind) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(size=N) if given.kind == "regression" else rng.dirichlet(np.ones(len(given.classes)), N)


def network(outputs: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3, bias=False), nn.Identity(), nn.Linear(3, outputs, bias=False)).double()


def linear_head(outputs: int) -> iv.LinearHead:
    rng = np.random.default_rng(2)
    return iv.LinearHead(rng.normal(size=(outputs, 2)), np.zeros(outputs))


# --- how each criterion tells the task it found ---------------------------------------------------------------------
def of_losses(name: str) -> str:
    return {"squared": "regression", "log_loss": "classification"}[name]


def of_unit(unit: str) -> str:
    return "classification" if "nats" in unit else "regression"


def of_task(task: str) -> str:
    return "regression" if task == "regression" else "classification"


def _calibration(given: Kind, X: np.ndarray) -> str:
    """It is for classes only, and says so to numbers."""
    if given.kind == "regression":
        with pytest.raises(iv.InputError, match="this target holds numbers"):
            iv.calibration_variance(predictions(given), given.y, ENV)
        return "regression"
    iv.calibration_variance(predictions(given), given.y, ENV)
    return "classification"


def _multi_environment_calibration(given: Kind, X: np.ndarray) -> str:
    """So is this one."""
    if given.kind == "regression":
        with pytest.raises(iv.InputError, match="this target holds numbers"):
            iv.multi_environment_calibration(predictions(given), given.y, ENV, n_boot=0)
        return "regression"
    iv.multi_environment_calibration(predictions(given), given.y, ENV, n_boot=0)
    return "classification"


def _in_inputs(given: Kind, X: np.ndarray) -> str:
    model = iv.split(network(given.outputs), classes=given.classes if given.outputs > 1 else None)
    return of_losses(iv.worst_case_in_inputs(model, X, given.y, rows=40, n_boot=0).of)


def _of_equal_values(function: Callable[..., Any]) -> Callable[[Kind, np.ndarray], str]:
    """The task that gives the same number as none; labels can be classes only."""

    def call(given: Kind, X: np.ndarray) -> str:
        found = function(X[:, 0], given.y, ENV).value
        assert found == function(X[:, 0], given.y, ENV, task=given.kind).value
        other = "classification" if given.kind == "regression" else "regression"
        try:
            changed = function(X[:, 0], given.y, ENV, task=other).value != found
        except iv.InputError as error:  # labels are no numbers, and numbers that hardly repeat no classes
            changed = "labels, not numbers" in str(error) or "too many to be classes" in str(error)
        assert changed
        return given.kind

    return call


def _compared(name: str) -> Callable[[Kind, np.ndarray], str]:
    """Comparators look at one column of numbers, or at one for every class."""

    def call(given: Kind, X: np.ndarray) -> str:
        assert CRITERIA[name].function(X, given.y, ENV, n_boot=0).compared == "(z, y)"
        columns = sample_of(X, given.y, ENV).y.shape[1]
        assert columns == (len(given.classes) or 1)
        return "classification" if columns > 1 else "regression"

    return call


CALLS: dict[str, Callable[[Kind, np.ndarray], str]] = {
    "cramer_wold": _of_equal_values(functools.partial(iv.cramer_wold, projections=5, n_boot=0)),
    "domain_classifier": _of_equal_values(functools.partial(iv.domain_classifier, n_boot=0)),
    "conditional_mutual_information": _of_equal_values(functools.partial(iv.conditional_mutual_information, n_boot=0)),
    "regret": lambda given, X: of_task(iv.regret(X, given.y, ENV, n_boot=99).task),
    "influence_index": lambda given, X: of_losses(iv.influence_index(X, given.y, ENV, n_boot=99).loss),
    "transport_gap": lambda given, X: of_task(iv.transport_gap(X, given.y, ENV, n_boot=99).task),
    "risk_variance": lambda given, X: of_unit(iv.risk_variance(predictions(given), given.y, ENV).unit),
    "worst_environment_risk": lambda given, X: of_unit(
        iv.worst_environment_risk(predictions(given), given.y, ENV).unit
    ),
    "irm_penalty": lambda given, X: of_unit(iv.irm_penalty(predictions(given), given.y, ENV).unit),
    "calibration_variance": _calibration,
    "multi_environment_calibration": _multi_environment_calibration,
    "worst_case": lambda given, X: of_losses(
        iv.worst_case(linear_head(given.outputs), X[SOME], given.y[SOME], ENV[SOME], n_boot=0, radii=[0.1]).of
    ),
    "worst_case_in_inputs": _in_inputs,
    **{name: _compared(name) for name in ("mmd", "hsic", "kmaxic", "subgroup_invariance")},
}
#: Predictions are compared with a baseline's there, whatever they predict.
WITHOUT_TASK = {"dric"}


def test_every_criterion_has_its_place() -> None:
    assert set(CALLS) | WITHOUT_TASK == set(CRITERIA)


# --- the law ----------------------------------------------------------------------------------------------------------
@every_kind
def test_the_rule_says_what_is_expected(given: Kind, X: np.ndarray) -> None:
    target = target_of(iv.Environments(X, given.y, ENV))
    assert (target.task, target.classes) == (given.task, given.classes)
    with_outputs = target_of(iv.Environments(X, given.y, ENV), outputs=given.outputs)
    assert (with_outputs.task, with_outputs.classes) == (given.task, given.classes)


@pytest.mark.parametrize("name", sorted(CALLS))
@every_kind
def test_every_criterion(name: str, given: Kind, X: np.ndarray) -> None:
    assert CALLS[name](given, X) == given.kind


@every_kind
def test_the_worst_case_of_any_head(given: Kind, X: np.ndarray) -> None:
    """Linear or searched, with environments or without, with one output for two classes or with two."""
    both = {given.outputs, 2} if given.task == "binary" else {given.outputs}
    for outputs in both:
        for head in (linear_head(outputs), network(outputs)):
            for options in ({}, {"env": ENV[SOME]}):
                result = iv.worst_case(head, X[SOME], given.y[SOME], n_boot=0, radii=[0.1], **options)
                assert of_losses(result.of) == given.kind


@every_kind
def test_the_influence_of_any_head(given: Kind, X: np.ndarray) -> None:
    for head in (linear_head(given.outputs), network(given.outputs)):
        assert of_losses(iv.influence_index(X, given.y, ENV, head=head, n_boot=99).loss) == given.kind


@every_kind
def test_rows_to_train_on_and_every_objective(given: Kind, X: np.ndarray) -> None:
    rows = Rows.of(X, given.y, ENV)
    assert (rows.task, rows.classes, rows.outputs) == (given.task, given.classes, given.outputs)
    assert Rows.of(X, given.y, task=given.kind).task == given.task
    logits = [torch.zeros(size, given.outputs) for size in rows.sizes]
    assert checked_task(given.kind, logits, rows.targets) == rows.task
    for name in REGISTRY:
        settings = iv.training.Settings(steps=1, batch_size=16)
        trained = iv.training.train(network(given.outputs), rows, name, settings=settings)
        assert np.isfinite(trained.history["risk"]).all(), name


@every_kind
def test_estimators_and_their_audits(given: Kind, X: np.ndarray) -> None:
    kind = iv.InvariantRegressor if given.kind == "regression" else iv.InvariantClassifier
    model = kind("erm", steps=2).fit(X, given.y, env=ENV)
    assert model.split().task == given.kind
    assert iv.audit(model, X, given.y, ENV, criteria=["risk_variance"]).data.task == given.task


@pytest.mark.parametrize("given", ODD_KINDS.values(), ids=ODD_KINDS.keys())
def test_odd_classes(given: Kind, X: np.ndarray) -> None:
    """What criteria take for classes, a classifier takes for the same ones; and its audit knows them again."""
    assert iv.regret(X, given.y, ENV, n_boot=99).task == given.task
    assert Rows.of(X, given.y, ENV).classes == given.classes
    model = iv.InvariantClassifier("erm", steps=1).fit(X, given.y, env=ENV)
    assert model.split().classes == given.classes
    audited = iv.audit(model, X, given.y, ENV, criteria=["risk_variance"])
    assert audited.data.task == given.task
    assert not audited.results.keys() ^ {"regret", "risk_variance"}


@every_kind
def test_audits_of_networks_functions_and_without_a_model(given: Kind, X: np.ndarray) -> None:
    model = iv.split(network(given.outputs), classes=given.classes if given.outputs > 1 else None)
    p = predictions(given)
    for audited in (model, None, lambda X: p, iv.Split(predict=p), iv.Split(X, p)):
        assert iv.audit(audited, X, given.y, ENV, criteria=["risk_variance"], n_boot=99).data.task == given.task


@every_kind
def test_commands(given: Kind, X: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "env": ENV, "y": given.y})
    frame.to_feather("t.feather")  # Parquet forgets that numbers were categories
    about = ["t.feather", "--target", "y", "--env", "env", "--quiet"]
    for arguments in (
        ["train", *about, "--steps", "2", "--out", "m.skops"],
        ["audit", *about, "--n-boot", "99", "--json", "a.json"],
    ):
        done = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    model = load_model(Path("m.skops"))
    assert isinstance(model, iv.InvariantRegressor if given.kind == "regression" else iv.InvariantClassifier)
    assert json.loads(Path("a.json").read_text())["data"]["task"] == given.task


# --- where a head says more than the target ---------------------------------------------------------------------------
@pytest.mark.parametrize("build", [linear_head, network])
def test_heads_that_leave_no_doubt(build: Callable[[int], Any], X: np.ndarray) -> None:
    """0 to 14 are amounts, unless fifteen outputs say otherwise; 1 to 3 are classes, unless there is one output."""
    amounts, classes = KINDS["0 to 14"].y, KINDS["1 to 3"].y
    fifteen = [
        iv.worst_case(build(15), X[SOME], amounts[SOME], n_boot=0, radii=[0.1]).of,
        iv.influence_index(X, amounts, ENV, head=build(15), n_boot=99).loss,
    ]
    one = [
        iv.worst_case(build(1), X[SOME], classes[SOME], n_boot=0, radii=[0.1]).of,
        iv.influence_index(X, classes, ENV, head=build(1), n_boot=99).loss,
    ]
    assert set(map(of_losses, fifteen)) == {"classification"}
    assert set(map(of_losses, one)) == {"regression"}
    audit = iv.audit(network(15), X, amounts, ENV, criteria=["risk_variance"])
    assert audit.data.task == "multiclass"
    assert iv.audit(network(1), X, classes, ENV, criteria=["risk_variance"]).data.task == "regression"


PREDICTION_CRITERIA = (iv.risk_variance, iv.worst_environment_risk, iv.irm_penalty)


def test_columns_that_leave_no_doubt(X: np.ndarray) -> None:
    """The same of predictions, given to criteria or to an audit; labels with too few columns are refused."""
    amounts, classes = KINDS["0 to 14"].y, KINDS["1 to 3"].y
    fifteen, one = np.full((N, 15), 1 / 15), np.full(N, 0.5)
    units = [criterion(fifteen, amounts, ENV).unit for criterion in PREDICTION_CRITERIA]
    assert {of_unit(unit) for unit in units} == {"classification"}
    iv.calibration_variance(fifteen, amounts, ENV)
    assert {of_unit(criterion(one, classes, ENV).unit) for criterion in PREDICTION_CRITERIA} == {"regression"}
    assert {of_unit(criterion(one, 5 + classes // 3, ENV).unit) for criterion in PREDICTION_CRITERIA} == {
        "classification"
    }
    assert iv.transport_gap(X, amounts, ENV, predictions=fifteen, n_boot=99).task == "multiclass"
    assert iv.transport_gap(X, classes, ENV, predictions=one, n_boot=99).task == "regression"
    for p, y, task in ((fifteen, amounts, "multiclass"), (one, classes, "regression")):
        for model in (lambda X, p=p: p, iv.Split(predict=p), iv.Split(X, p)):
            assert iv.audit(model, X, y, ENV, criteria=["risk_variance"], n_boot=99).data.task == task
    labels = KINDS["strings"].y
    for criterion in (*PREDICTION_CRITERIA, iv.calibration_variance):
        with pytest.raises(iv.InputError, match=r"1 columns, but target .* has 3 classes"):
            criterion(one, labels, ENV)
    with pytest.raises(iv.InputError, match=r"one output tells 2 classes apart, but target .* has 3 different"):
        iv.audit(lambda X: one, X, labels, ENV)


@pytest.mark.parametrize("labels", [(0, 1, 2), ("a", "b", "c")], ids=["codes", "labels"])
def test_classes_without_rows(labels: tuple[Any, ...], X: np.ndarray) -> None:
    """They are classes all the same where a model knows them; only heads of the environments' own cannot be had."""
    y, three = cycled(*labels[:2]), np.full((N, 3), 1 / 3)
    models = [
        LogisticRegression().fit(X, cycled(*labels)),
        iv.InvariantClassifier("erm", steps=1).fit(X, cycled(*labels), env=ENV),
        iv.split(network(3), classes=labels),
        iv.Split(predict=three, classes=labels),
        *([] if isinstance(labels[0], str) else [network(3), lambda X: three, iv.Split(X, three)]),
    ]
    for model in models:
        audited = iv.audit(model, X, y, ENV, criteria=["risk_variance", "worst_environment_risk"])
        assert (audited.data.task, audited.data.classes) == ("multiclass", labels)
        assert set(audited.results) == {"risk_variance", "worst_environment_risk"}
        assert f'class "{labels[2]}" of target "target" never occurs in any row' in audited.left_out["regret"]


@pytest.mark.parametrize("task", ["auto", "regression", "classification", "binary"])
def test_one_vocabulary(task: str, X: np.ndarray) -> None:
    """What people may say, they may say everywhere; 0 and 1 can be either."""
    y, kind = cycled(0, 1), of_task("binary" if task == "auto" else task)
    heads = (linear_head(1), network(1))
    p = np.full(N, 0.5)
    found = [
        iv.regret(X, y, ENV, task=task, n_boot=99).task,
        iv.transport_gap(X, y, ENV, task=task, n_boot=99).task,
        of_losses(iv.influence_index(X, y, ENV, task=task, n_boot=99).loss),
        of_unit(iv.risk_variance(p, y, ENV, task=task).unit),
        of_unit(iv.worst_environment_risk(p, y, ENV, task=task).unit),
        of_unit(iv.irm_penalty(p, y, ENV, task=task).unit),
        *(of_losses(iv.worst_case(head, X[SOME], y[SOME], task=task, n_boot=0, radii=[0.1]).of) for head in heads),
        of_losses(iv.worst_case_in_inputs(iv.split(network(1)), X, y, task=task, rows=40, n_boot=0).of),
        Rows.of(X, y, task=task).task,
        iv.audit(iv.split(network(1), task=task), X, y, ENV, criteria=["risk_variance"]).data.task,
        iv.audit(None, X, y, ENV, task=task, criteria=["risk_variance"]).data.task,
    ]
    assert set(map(of_task, found)) == {kind}


def test_whole_numbers_that_may_be_a_scale_are_told_to_be_classes(tmp_path: Path) -> None:
    """Only where nothing but the numbers themselves says so; the task that is proposed reads them as amounts."""
    rng = np.random.default_rng(0)
    X, env, pain = rng.normal(size=(400, 2)), np.resize(["a", "b"], 400), rng.integers(1, 11, 400)
    said = 'Target "pain" holds the whole numbers 1 to 10, which are read as 10 classes: to read them as amounts, pass '

    def told(y: Any, model: Any = None, **options: Any) -> list[str]:
        options = {"n_boot": 0, "criteria": ["risk_variance"], "target_name": "pain", **options}
        return [note for note in iv.audit(model, X, y, env, **options).notes if "whole numbers" in note]

    assert told(pain) == [f'{said}task="regression".']
    assert told(pain, iv.Split(represent=X)) == [f'{said}task="regression".']
    assert iv.audit(None, X, pain, env, n_boot=0, task="regression").data.task == "regression"
    assert told(pain, task="regression") == told(pain, task="classification") == []
    assert told(pain, np.full((400, 10), 0.1)) == told(pain, np.full(400, 5.0)) == []
    assert told(pain, LogisticRegression().fit(X, pain)) == []
    assert told(pain % 3) == told(pain.astype(str)) == told(pain * 2) == told(pain % 2) == []

    file = tmp_path / "rows.csv"
    pd.DataFrame(X, columns=["u", "v"]).assign(site=env, pain=pain).to_csv(file, index=False)
    options = [str(file), "--target", "pain", "--env", "site"]
    for command in (["audit", "--n-boot", "0"], ["train", "--steps", "2", "--out", str(tmp_path / "m.safetensors")]):
        shown = CliRunner().invoke(main, [*command, *options], catch_exceptions=False).output
        assert f"Note: {said}--task regression." in " ".join(shown.split())
        shown = CliRunner().invoke(main, [*command, *options, "--task", "regression"], catch_exceptions=False).output
        assert "whole numbers" not in " ".join(shown.split())
