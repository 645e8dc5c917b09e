"""`iv.audit` from end to end: every kind of model, what is left out and why, and every way to show the outcome."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import io
import json
import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import invariscope as iv
from invariscope.auditing.material import gather
from invariscope.auditing.verdict import STATES
from invariscope.criteria.material import have
from invariscope.criteria.registry import CRITERIA
from invariscope.report.parts.provenance import provenance

SITES = ("Bern", "Oslo", "Rome")
DRAWS = 99


@functools.cache
def patients(seed: int) -> SimpleNamespace:
    """Three sites; Rome answers to the dose as well. ``gain`` are numbers, ``state`` two classes, ``grade`` three."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(600, 3)), columns=["age", "dose", "bmi"])
    site = pd.Series(rng.permutation(np.repeat(SITES, 200)), name="site")
    score = X["age"] + 1.5 * (site == "Rome") * X["dose"]
    gain = (score + rng.normal(size=600)).rename("gain")
    state = pd.Series(np.where(1.5 * score + rng.logistic(size=600) > 0, "sick", "healthy"), name="state")
    grade = pd.Series(np.digitize(gain, [-0.7, 0.7]), name="grade")
    return SimpleNamespace(X=X, site=site, gain=gain, state=state, grade=grade)


def audited(model: Any, data: SimpleNamespace, target: str = "gain", **options: Any) -> iv.Audit:
    given = {"n_boot": DRAWS, "X": data.X, **options}
    return iv.audit(model, given.pop("X"), getattr(data, target), data.site, **given)


OF_NETWORKS = {"worst_case_in_inputs"}
#: What an audit has, or says why not, unasked.
UNASKED = {name for name, entry in CRITERIA.items() if entry.mentioned}
OF_PROBABILITIES = {"calibration_variance", "multi_environment_calibration"}
ON_NUMBERS = {
    *("dric", "influence_index", "irm_penalty", "regret", "risk_variance", "transport_gap", "worst_case"),
    "worst_environment_risk",
}


# --- models -------------------------------------------------------------------------------------------------------
REGRESSORS: dict[str, tuple[Callable[[SimpleNamespace], Any], str]] = {
    "linear": (lambda d: LinearRegression().fit(d.X, d.gain), "representation level"),
    "pipeline": (lambda d: make_pipeline(StandardScaler(), Ridge()).fit(d.X, d.gain), "representation level"),
    "grid": (lambda d: GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=2).fit(d.X, d.gain), "representation level"),
    "network": (
        lambda d: MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=2000, random_state=0).fit(
            d.X.to_numpy(), d.gain
        ),
        "hidden layer",
    ),
    "forest": (lambda d: RandomForestRegressor(5, max_depth=3, random_state=0).fit(d.X, d.gain), "prediction level"),
    "function": (lambda d: lambda X: np.asarray(X)[:, 0] + 0.3 * np.asarray(X)[:, 1], "prediction level"),
    "arrays": (
        lambda d: iv.Split(represent=d.X.to_numpy()[:, :2], predict=d.X["age"].to_numpy(), columns=["a", "b"]),
        "given by hand",
    ),
    "nothing": (lambda d: None, "the columns themselves"),
}


#: Least squares on the inputs, or next to it: DRIC's baseline itself.
ITS_OWN_BASELINE = {"linear", "grid", "nothing"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", REGRESSORS)
def test_every_kind_of_regression_model(name: str, seed: int) -> None:
    data = patients(seed)
    build, level = REGRESSORS[name]
    X = data.X.to_numpy() if name == "network" else data.X
    found = audited(build(data), data, X=X)
    without = OF_NETWORKS | ({"worst_case"} if name == "arrays" else set())  # a head was not given
    without |= {"dric"} if name in ITS_OWN_BASELINE else set()
    assert set(found.results) == ON_NUMBERS - without
    assert set(found.left_out) == {*OF_PROBABILITIES, *without}
    assert all("regression" in found.left_out[name] for name in OF_PROBABILITIES)
    assert level in found.data.representation
    assert found.state in STATES
    assert found.data.task == "regression"
    assert found.data.rows == 600
    assert found.data.labels == SITES
    assert found.data.sizes == (200, 200, 200)
    assert (found.data.target_name, found.data.env_name) == ("gain", "site")
    assert found["regret"].columns[:-1] == found.data.columns
    assert all(math.isfinite(result.value) for result in found.results.values())


@pytest.mark.parametrize("target", ["state", "grade"])
def test_classifiers_run_every_criterion(target: str, seed: int) -> None:
    data = patients(seed)
    models = [
        LogisticRegression().fit(data.X, getattr(data, target)),
        MLPClassifier((4,), solver="lbfgs", max_iter=30, random_state=0, alpha=1.0, tol=1e2).fit(
            data.X, getattr(data, target)
        ),
        None,
    ]
    for model in models:
        baseline = None if model is not None else models[0]  # without a model DRIC would be that of its own baseline
        found = audited(model, data, target, baseline=baseline)
        assert set(found.results) == UNASKED - OF_NETWORKS
        assert found.left_out == dict.fromkeys(OF_NETWORKS, "needs a torch model")
        assert found.data.task == ("binary" if target == "state" else "multiclass")
        assert found["dric"].pairs.shape == ((3, 3) if target == "state" else (3, 3, 3))
        assert found["worst_environment_risk"].unit == "log-loss (nats)"


def test_rome_is_found_out(seed: int) -> None:
    data = patients(seed)
    for model, target in (
        (LinearRegression().fit(data.X, data.gain), "gain"),
        (LogisticRegression().fit(data.X, data.state), "state"),
    ):
        found = audited(model, data, target, n_boot=499)
        assert found.state == "NOT INVARIANT"
        assert found["regret"].worst == "Rome"
        assert "Rome" in found.verdict
        assert "dose" in found.verdict


def test_the_audit_agrees_with_the_criteria_called_by_hand(seed: int) -> None:
    """Columns are put in units of their spread for the influence index; nothing else may notice."""
    data = patients(seed)
    model = LinearRegression().fit(data.X, data.gain)
    f = model.predict(data.X)
    found = audited(model, data)
    by_hand = iv.regret(data.X, data.gain, data.site, n_boot=DRAWS)
    assert found["regret"].value == pytest.approx(by_hand.value, rel=1e-6)
    assert found["risk_variance"].value == pytest.approx(iv.risk_variance(f, data.gain, data.site).value, rel=1e-12)
    assert found["irm_penalty"].value == pytest.approx(iv.irm_penalty(f, data.gain, data.site).value, rel=1e-12)
    spread = (data.X - data.X.mean()) / data.X.std(ddof=0)
    fitted = LinearRegression().fit(spread, data.gain)
    head = iv.LinearHead(fitted.coef_, fitted.intercept_)
    index = iv.influence_index(spread, data.gain, data.site, head=head, n_boot=DRAWS)
    assert found["influence_index"].value == pytest.approx(index.value, abs=1e-8)
    assert found["influence_index"].parameters[:3] == ("age", "dose", "bmi")


@pytest.mark.slow
def test_units_of_the_inputs_do_not_matter(seed: int) -> None:
    data = patients(seed)
    factor, shift = np.array([1000.0, 0.01, 1.0]), np.array([0.0, 5.0, -7.0])
    one = audited(None, data)
    other = audited(None, data, X=data.X * factor + shift)
    for name in one.results:
        assert other[name].value == pytest.approx(one[name].value, rel=1e-6), name
    assert other.state == one.state


# --- what is left out, and why ------------------------------------------------------------------------------------
def test_a_representation_alone_has_no_predictions(seed: int) -> None:
    data = patients(seed)
    found = audited(iv.Split(represent=data.X.to_numpy()), data)
    assert set(found.results) == {"regret", "influence_index", "transport_gap"}
    assert set(found.left_out) == UNASKED - set(found.results)
    reasons = {**found.left_out}
    assert "none was given" in reasons.pop("worst_case")
    assert "torch" in reasons.pop("worst_case_in_inputs")
    assert all("predictions" in reason for reason in reasons.values())


@pytest.mark.slow
def test_a_model_that_votes_has_no_probabilities(seed: int) -> None:
    data = patients(seed)
    found = audited(LinearSVC().fit(data.X, data.state), data, "state")
    assert "only votes" in found.left_out["calibration_variance"]
    assert "regret" in found.results


@pytest.mark.slow
def test_votes_are_not_judged_as_probabilities(seed: int) -> None:
    """The log-loss of a vote is 0 or a cap nobody chose: the share of errors is what a vote can be judged by."""
    data = patients(seed)
    found = audited(LinearSVC().fit(data.X, data.state), data, "state")
    assert "irm_penalty" not in found.results or found["irm_penalty"].value < 1
    for name in ("risk_variance", "worst_environment_risk"):
        if name in found.results:
            assert found[name].unit == "share"
            assert all(0 <= estimate.value <= 1 for estimate in found[name].per_environment.values())
        else:
            assert "votes" in found.left_out[name]


def test_text_columns_reach_the_model_and_ratios_are_those_of_the_representation(seed: int) -> None:
    data = patients(seed)
    X = data.X.assign(ward=np.where(data.X["bmi"] > 0, "north", "south"))
    encoder = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    found = audited(make_pipeline(encoder, Ridge(9.0)).fit(X, data.gain), data, X=X)
    assert set(found.results) == ON_NUMBERS
    assert any("measured on the representation" in note and '"ward"' in note for note in found.notes)
    assert any("ward" in column for column in found.data.columns)
    assert "overlap" in found.frame()


def test_asking_for_what_was_left_out_gives_the_reason(seed: int) -> None:
    found = audited(LinearRegression().fit(patients(seed).X, patients(seed).gain), patients(seed))
    assert found["regret"] is found.results["regret"]
    with pytest.raises(KeyError, match="this is a regression"):
        found["calibration_variance"]
    with pytest.raises(KeyError, match="no such criterion"):
        found["beauty"]
    with pytest.raises(KeyError, match='mmd: it was not asked for: audit with criteria="mmd"'):
        found["mmd"]


def test_a_subset_of_criteria(seed: int) -> None:
    data = patients(seed)
    found = audited(None, data, criteria=["risk_variance", "risk_variance", "calibration_variance"])
    assert set(found.results) == {"regret", "risk_variance"}  # there is no verdict without the regret
    assert set(found.left_out) == {"calibration_variance"}
    assert set(audited(None, data, criteria=[]).results) == {"regret"}
    assert found["regret"].value == audited(None, data)["regret"].value


@pytest.mark.parametrize("names", [["beauty"], ["regret", "beauty"], ["all", "beauty"]])
def test_an_unknown_criterion_is_refused(names: list[str], seed: int) -> None:
    with pytest.raises(iv.InputError, match=r'criterion "beauty" is unknown: there are .*regret.*, and "all"$'):
        audited(None, patients(seed), criteria=names)


def test_one_criterion_given_as_text(seed: int) -> None:
    """A bare name is what people type; it must work, or say what is wrong with it, but not spell it out."""
    try:
        assert set(audited(None, patients(seed), criteria="irm_penalty").results) == {"regret", "irm_penalty"}
    except iv.InputError as error:
        assert 'criterion "i"' not in str(error)  # noqa: PT017


# --- classes and their order --------------------------------------------------------------------------------------
def sigmoid(X: Any) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-1.5 * np.asarray(X)[:, 0])))


@pytest.mark.slow
def test_columns_of_probabilities_follow_the_models_classes(seed: int) -> None:
    """A model whose first column is "sick" against a target sorted the other way round."""
    data = patients(seed)

    def sick_first(X: Any) -> np.ndarray:
        return np.column_stack([sigmoid(X), 1 - sigmoid(X)])

    model = iv.Split(predict=sick_first, classes=("sick", "healthy"), task="classification")
    straight = iv.Split(predict=lambda X: sick_first(X)[:, ::-1], classes=("healthy", "sick"), task="classification")
    one, other = audited(straight, data, "state"), audited(model, data, "state")
    for name in ("risk_variance", "worst_environment_risk", "calibration_variance", "irm_penalty", "dric"):
        assert other[name].value == pytest.approx(one[name].value, rel=1e-9), name
    expected = iv.risk_variance(sigmoid(data.X), data.state == "sick", data.site)
    assert other["risk_variance"].value == pytest.approx(expected.value, rel=1e-9)


@pytest.mark.slow
def test_one_column_of_probabilities_is_that_of_the_second_class(seed: int) -> None:
    data = patients(seed)
    one = audited(sigmoid, data, "state")
    both = audited(lambda X: np.column_stack([1 - sigmoid(X), sigmoid(X)]), data, "state")
    assert set(one.results) == set(both.results) == UNASKED - OF_NETWORKS
    for name in ("risk_variance", "calibration_variance", "irm_penalty", "dric"):
        assert one[name].value == pytest.approx(both[name].value, rel=1e-9), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "bool", "codes", "pandas categories"])
def test_classes_may_be_named_as_the_user_likes(kind: str, seed: int) -> None:
    data = patients(seed)
    ill = data.state == "sick"
    y = {
        "text": data.state,
        "bool": ill,
        "codes": ill.astype(int) + 1,
        "pandas categories": data.state.astype("category"),
    }[kind]
    found = iv.audit(LogisticRegression().fit(data.X, y), data.X, y, data.site, n_boot=DRAWS)
    expected = audited(LogisticRegression().fit(data.X, data.state), data, "state")
    assert found.data.task == "binary"
    assert set(found.results) == set(expected.results)
    for name in found.results:
        assert found[name].value == pytest.approx(expected[name].value, rel=1e-6, abs=1e-9), name


def test_a_class_the_model_never_saw_is_named(seed: int) -> None:
    data = patients(seed)
    model = LogisticRegression().fit(data.X, data.state.replace("healthy", "well"))
    with pytest.raises(iv.InputError, match=r'class "healthy", which the model does not know: .*sick, well'):
        audited(model, data, "state")
    model = LogisticRegression().fit(data.X, data.grade.clip(upper=1))
    with pytest.raises(
        iv.InputError,
        match=r'"grade" has class "2", which the model does not know: .* fitted on 0, 1\. Leave out its rows, or write '
        r"it like one of these\.$",
    ):
        audited(model, data, "grade")


# --- the baseline -------------------------------------------------------------------------------------------------
BASELINES: dict[str, Callable[[Any, SimpleNamespace], Any]] = {
    "model": lambda model, data: model,
    "array": lambda model, data: model.predict(data.X),
    "list": lambda model, data: model.predict(data.X).tolist(),
    "pandas": lambda model, data: pd.Series(model.predict(data.X)),
    "polars": lambda model, data: pl.Series(model.predict(data.X)),
    "pyarrow": lambda model, data: pa.array(model.predict(data.X)),
    "split": lambda model, data: iv.Split(predict=model.predict(data.X)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BASELINES)
def test_a_baseline_that_is_the_model_scores_exactly_one(kind: str, seed: int) -> None:
    data = patients(seed)
    model = Ridge(50.0).fit(data.X, data.gain)
    assert audited(model, data)["dric"].value != 1.0
    assert audited(model, data, baseline=BASELINES[kind](model, data))["dric"].value == 1.0


@pytest.mark.slow
def test_a_baseline_that_is_the_classifier_scores_exactly_one(seed: int) -> None:
    data = patients(seed)
    model = LogisticRegression(C=0.01).fit(data.X, data.state)
    for baseline in (model, model.predict_proba(data.X)):
        assert audited(model, data, "state", baseline=baseline)["dric"].value == 1.0


def test_the_default_baseline_is_linear_erm(seed: int) -> None:
    data = patients(seed)
    shrunk = audited(lambda X: 0.1 * LinearRegression().fit(data.X, data.gain).predict(X), data)
    assert shrunk["dric"].value == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize("kind", ["nothing", "linear", "by predictions", "logistic", "three classes"])
def test_a_dric_of_its_own_baseline_is_left_out_and_another_baseline_brings_it_back(kind: str, seed: int) -> None:
    data = patients(seed)
    target = {"logistic": "state", "three classes": "grade"}.get(kind, "gain")
    least_squares = LinearRegression().fit(data.X, data.gain)
    model = {
        "nothing": None,
        "linear": least_squares,
        "by predictions": iv.split(least_squares).by_predictions(),
        "logistic": LogisticRegression(C=np.inf, tol=1e-8).fit(data.X, data.state),
        "three classes": LogisticRegression(C=np.inf, tol=1e-8).fit(data.X, data.grade),
    }[kind]
    found = audited(model, data, target, criteria=["dric"])
    assert found.left_out == {
        "dric": "DRIC's baseline, a linear head fitted on the same columns, is the very model that is audited: DRIC "
        "would be 1 by construction. Audit another model, or give another baseline (baseline=...)."
    }
    other = (Ridge(500.0) if target == "gain" else LogisticRegression(C=0.01)).fit(data.X, getattr(data, target))
    assert math.isfinite(audited(model, data, target, criteria=["dric"], baseline=other)["dric"].value)
    assert math.isfinite(audited(other, data, target, criteria=["dric"])["dric"].value)


def test_a_model_next_to_the_baseline_is_compared_with_it(seed: int) -> None:
    """0.1 % of the spread is what solvers differ by; ten times as much is another model."""
    data = patients(seed)
    f = LinearRegression().fit(data.X, data.gain).predict(data.X)
    for far, there in ((0.0005, False), (0.002, True)):
        near = f + far * f.std() * np.tile([1, -1], 300)
        for unit in (0.001, 1.0, 1000.0):  # grams, kilograms and tons
            data.in_units = unit * data.gain
            found = audited(iv.Split(predict=unit * near), data, "in_units", criteria=["dric"], n_boot=0)
            assert ("dric" in found.results) == there


def test_a_baseline_that_cannot_predict_is_refused(seed: int) -> None:
    data = patients(seed)
    with pytest.raises(iv.InputError, match="baseline"):
        audited(None, data, baseline=iv.Split(represent=data.X.to_numpy()))


def test_a_baseline_of_other_rows_is_not_passed_over(seed: int) -> None:
    data = patients(seed)
    try:
        found = audited(None, data, baseline=np.zeros(7))
    except iv.InputError as error:
        assert "7" in str(error)  # noqa: PT017
    else:
        assert "7" in found.left_out["dric"]


# --- ways to show it ----------------------------------------------------------------------------------------------
@functools.cache
def shown(seed: int, target: str = "state") -> iv.Audit:
    data = patients(seed)
    return audited(None, data, target)


def test_frame(seed: int) -> None:
    frame = shown(seed).frame()
    assert frame["environment"].tolist() == list(SITES)
    assert frame["rows"].tolist() == [200, 200, 200]
    regret = shown(seed)["regret"]
    np.testing.assert_allclose(frame["regret"], [regret.per_environment[site].value for site in SITES])
    assert (frame["regret_low"] <= frame["regret"]).all()
    assert (frame["regret"] <= frame["regret_high"]).all()
    np.testing.assert_allclose(frame["shared_head_loss"] / frame["own_head_loss"] - 1, frame["regret"], rtol=1e-9)
    assert {"ece", "overlap"} <= set(frame)
    assert "ece" not in shown(seed, "gain").frame()


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("target", ["gain", "state", "grade"])
def test_json(target: str, seed: int, tmp_path: Path) -> None:
    found = shown(seed, target)
    path = found.to_json(tmp_path / "audit.json")
    assert path == tmp_path / "audit.json"
    assert [file.name for file in tmp_path.iterdir()] == ["audit.json"]  # no temporary file left behind
    text = path.read_text(encoding="utf-8")
    read = json.loads(text, parse_constant=refuse_constant)
    assert read == found.to_dict()
    assert read["verdict"]["state"] == found.state
    assert set(read["results"]) == set(found.results)
    assert read["results"]["regret"]["value"] == found["regret"].value
    assert (
        read["results"]["regret"]["per_environment"]["Rome"]["value"] == found["regret"].per_environment["Rome"].value
    )
    assert read["settings"]["seed"] == 0
    assert read["data"]["labels"] == list(SITES)
    assert read["left_out"] == dict(found.left_out)


@pytest.mark.slow
def test_json_has_no_numbers_that_do_not_exist(seed: int, tmp_path: Path) -> None:
    """An environment whose own head makes no error has no regret."""
    data = patients(seed)
    y = data.gain.where(data.site != "Oslo", data.X["age"])
    found = iv.audit(None, data.X, y, data.site, n_boot=DRAWS)
    assert math.isnan(found["regret"].per_environment["Oslo"].value)
    text = found.to_json(tmp_path / "a.json").read_text(encoding="utf-8")
    read = json.loads(text, parse_constant=refuse_constant)
    assert read["results"]["regret"]["per_environment"]["Oslo"]["value"] is None
    assert any("Oslo" in note for note in found["regret"].notes)
    found.to_html(tmp_path / "a.html")


def test_relations_without_noise_are_told_apart_and_rounding_is_no_evidence(tmp_path: Path) -> None:
    X, site = np.random.default_rng(0).normal(size=(300, 2)), np.repeat(SITES, 100)
    same = iv.audit(None, X, X @ [1.0, 2.0], site, env_name="site", n_boot=DRAWS)
    assert same.verdict == (
        "CANNOT TELL YET. The rows do not settle whether one head serves all 3 sites to within 2 %. No regret could be "
        "computed: own heads make no error. Next: the head of Bern makes no error on its own rows; look for a column "
        "that gives the target away, and audit rows that no model was trained on, and more of them."
    )
    apart = iv.audit(None, X, X[:, 0] * np.repeat([1.0, 2.0, 3.0], 100), site, env_name="site", n_boot=DRAWS)
    assert apart.state == "NOT INVARIANT"
    assert apart.headline == "One head does not serve all 3 sites."
    assert apart.sentences[0] == "The own head of Bern makes no error there, and a head that all share does."
    for found in (same, apart):
        read = json.loads(found.to_json(tmp_path / "a.json").read_text(), parse_constant=refuse_constant)
        assert read["results"]["regret"]["value"] is None
        page = found.to_html(tmp_path / "a.html").read_text()
        assert found["regret"].notes[0].split(":")[0] in page
        assert "inf" not in re.sub(r"<style.*?</style>|influence|infinit", "", page, flags=re.DOTALL)
        assert "No regret" in str(found) or "infinite" in str(found)


def test_a_file_that_cannot_be_written_leaves_the_old_one(seed: int, tmp_path: Path) -> None:
    with pytest.raises(iv.InputError, match=r"audit\.json: there is no folder .*missing; make it first$"):
        shown(seed).to_json(tmp_path / "missing" / "audit.json")
    path = shown(seed).to_json(tmp_path / "audit.json")
    before = path.read_bytes()
    assert shown(seed).to_json(str(path)).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["audit.json"]


def test_page(seed: int, tmp_path: Path) -> None:
    data = patients(seed)
    names = {"Bern": "<script>alert(1)</script>", "Oslo": "Oslo & Co", "Rome": 'Rome "north"'}
    found = iv.audit(None, data.X, data.gain, data.site.map(names), n_boot=DRAWS)
    page = found.to_html(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert found.state in page
    assert "<script>alert" not in page
    assert "Oslo &amp; Co" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert [file.name for file in tmp_path.iterdir()] == ["audit.html"]


def test_notebook_terminal_and_repr(seed: int) -> None:
    from rich.console import Console

    found = shown(seed)
    fragment = found._repr_html_()
    assert found.state in fragment
    assert "<html" not in fragment
    console = Console(width=100, file=io.StringIO())
    console.print(found)
    text = console.file.getvalue()
    assert found.state in text
    assert all(site in text for site in SITES)
    assert "600 rows in 3 environments" in repr(found)
    assert found.state in repr(found)


def test_an_audit_is_frozen_and_portable(seed: int) -> None:
    found = shown(seed)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.state = "INVARIANT"  # type: ignore[misc]
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again.to_dict() == found.to_dict()
    assert set(found.settings.versions) >= {"python", "numpy", "scikit-learn"}
    assert found.settings.seconds > 0
    assert found.settings.n_boot == DRAWS


# --- settings -----------------------------------------------------------------------------------------------------
def without_times(found: iv.Audit) -> dict[str, Any]:
    plain = found.to_dict()
    for name in ("seconds", "created"):
        plain["settings"].pop(name)
    return plain


@pytest.mark.slow
def test_seeds(seed: int) -> None:
    data = patients(seed)
    one, same, other = (audited(None, data, seed=s) for s in (7, 7, 8))
    assert without_times(one) == without_times(same)
    assert not np.array_equal(one["regret"].null, other["regret"].null)
    for name in one.results:
        assert other[name].value == one[name].value, name
    assert other.settings.seed == 8


@pytest.mark.slow
def test_draws_margin_and_level_are_passed_on(seed: int) -> None:
    data = SimpleNamespace(**vars(patients(seed)))  # a copy: others are shown the same patients
    # half the difference: surely less than all of the loss
    data.gain = data.gain - 0.75 * (data.site == "Rome") * data.X["dose"]
    found = audited(None, data, n_boot=149, margin=0.99, alpha=1e-9)
    assert len(found["regret"].null) == len(found["influence_index"].null) == 149
    assert found.state == "INVARIANT"
    assert audited(None, data, margin=0.99).state == "DIFFERENT BUT NEGLIGIBLE"
    assert (found.settings.margin, found.settings.alpha, found.settings.n_boot) == (0.99, 1e-9, 149)
    with pytest.raises(iv.InputError, match="n_boot is 10"):
        audited(None, data, n_boot=10)


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (np.full(600, 1e300), r"^weight has 600 values beyond 1e-09 to 1e\+09"),
        (["1", "2"] * 300, "^weight holds text or dates: give one number of at least 0 per row"),
        (["a", "b"] * 300, "^weight holds text or dates: give one number of at least 0 per row"),
        (np.ones(3), "^X has 600 rows but weight has 3: give one value per row"),
        (np.full(600, 1 / 600), r"^weight sums to 1: weights count rows, and that is less than two\."),
    ],
    ids=["overflowing", "numbers in words", "words", "of other rows", "shares"],
)
def test_weights_that_count_no_rows_are_refused_before_anything_is_fitted(weight: Any, said: str) -> None:
    with pytest.raises(iv.InputError, match=said):
        audited(None, patients(0), weight=weight)


@pytest.mark.slow
def test_heavy_weights_are_many_rows_and_cost_no_more() -> None:
    data, other = patients(0), np.random.default_rng(0).normal(size=600)  # a baseline that is not the model itself
    found = audited(None, data, weight=np.full(600, 1e9), baseline=other)
    assert found.state == "NOT INVARIANT"
    assert math.isfinite(found["dric"].interval[1])


@pytest.mark.parametrize("target", ["gain", "state"])
def test_without_draws_there_are_point_estimates_and_every_way_to_show_them(target: str, tmp_path: Path) -> None:
    data = patients(0)
    found, drawn = (audited(None, data, target, n_boot=count, criteria="transport_gap") for count in (0, 99))
    cost = {"gain": "100 %", "state": "22 %"}[target]
    assert found.verdict == (
        "CANNOT TELL YET. Whether one head serves all 3 sites is not settled by point estimates, and n_boot=0 asks for "
        f"no more. Sharing one head seems to cost Rome most, {cost} more loss than its own head would. Next: audit "
        "again with n_boot=999."
    )
    assert drawn.state == "NOT INVARIANT"
    for name in ("regret", "transport_gap"):
        one, other = found[name], drawn[name]
        assert one.value == other.value
        assert one.statistic == other.statistic
        assert np.isnan([one.pvalue, *one.interval]).all()
        assert one.null.shape == (0,)
        assert one.notes[0] == "Nothing was drawn, as asked: no intervals and no p-value, only point estimates."
        np.testing.assert_array_equal(one.pairs, other.pairs)
    assert [estimate.value for estimate in found["regret"].per_environment.values()] == [
        estimate.value for estimate in drawn["regret"].per_environment.values()
    ]
    assert all(np.isnan(estimate.interval).all() for estimate in found["regret"].per_environment.values())
    assert np.isnan(found["regret"].worst_interval).all()
    # intervals of pairs come from t distributions and need no draw: 0 means none of any kind all the same
    for pairs in ("pair_pvalues", "pair_intervals"):
        assert np.isnan(getattr(found["transport_gap"], pairs)).all()
        assert np.isfinite(getattr(drawn["transport_gap"], pairs)).all()
    assert found.frame()["regret_low"].isna().all()
    shown = json.loads(found.to_json(tmp_path / "a.json").read_text())
    assert shown["results"]["regret"]["pvalue"] is None
    assert shown["settings"]["n_boot"] == 0
    page = found.to_html(tmp_path / "a.html").read_text()
    assert "Nothing was drawn, as asked: no intervals and no p-value, only point estimates." in page
    assert "nan" not in re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    assert "No difference to attribute" not in page
    assert "n_boot=0" in str(found)


def test_all_criteria_do_without_draws() -> None:
    data = patients(0)
    found = audited(None, data, "state", n_boot=0, baseline=LogisticRegression(C=0.01).fit(data.X, data.state))
    drawn = {name for name, result in found.results.items() if hasattr(result, "pvalue")}
    assert drawn == {"regret", "influence_index", "transport_gap", "dric", "multi_environment_calibration"}
    assert all(math.isnan(found[name].pvalue) and not len(found[name].null) for name in drawn)
    assert np.isnan(found["worst_case"].band).all()
    assert found.algorithm == ""


@pytest.mark.slow
def test_progress_says_what_comes_next(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    audited(None, patients(seed), "state", progress=said.append)
    assert len(said) >= 1 + len(UNASKED - OF_NETWORKS - {"dric"})
    assert all(isinstance(words, str) and len(words.split()) >= 3 for words in said)
    assert any("3 environments" in words for words in said)
    assert said[:2] == ["reading the model and the data", "fitting linear heads on 3 columns"]
    audited(None, patients(seed), criteria=[], progress=True)  # no terminal here: silence
    audited(None, patients(seed), criteria=[])
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_names_given_by_hand_win(seed: int) -> None:
    data = patients(seed)
    found = audited(None, data, target_name="weight loss", env_name="clinic")
    assert (found.data.target_name, found.data.env_name) == ("weight loss", "clinic")
    assert "clinics" in found.verdict
    plain = iv.audit(None, data.X.to_numpy(), data.gain.to_numpy(), data.site.to_numpy(), n_boot=DRAWS, criteria=[])
    assert (plain.data.target_name, plain.data.env_name) == ("target", "environment")
    assert plain.data.columns == ("x0", "x1", "x2")


def test_whole_weights_are_repeated_rows(seed: int) -> None:
    data = patients(seed)
    weight = np.random.default_rng(seed).integers(1, 4, 600)
    again = np.repeat(np.arange(600), weight)
    weighted = audited(None, data, "state", weight=weight)
    repeated = iv.audit(None, data.X.iloc[again], data.state.iloc[again], data.site.iloc[again], n_boot=DRAWS)
    assert weighted.state == repeated.state
    for name in weighted.results:
        assert weighted[name].value == pytest.approx(repeated[name].value, rel=1e-5), name


@pytest.mark.slow
@pytest.mark.parametrize("container", ["polars", "pyarrow", "numpy"])
def test_tables_of_any_kind(container: str, seed: int) -> None:
    data = patients(seed)
    X = {"polars": pl.from_pandas(data.X), "pyarrow": pa.table(data.X), "numpy": data.X.to_numpy()}[container]
    y = {"polars": pl.Series("gain", data.gain.to_numpy()), "pyarrow": pa.array(data.gain)}.get(container, data.gain)
    env = {"polars": pl.Series("site", data.site.to_list()), "pyarrow": pa.array(data.site)}.get(container, data.site)
    expected = audited(None, data)
    found = iv.audit(None, X, y, env, n_boot=DRAWS)
    for name in expected.results:
        assert found[name].value == pytest.approx(expected[name].value, rel=1e-9), name


# --- bad input ----------------------------------------------------------------------------------------------------
GAPPY_MODELS: dict[str, Callable[[SimpleNamespace], Any]] = {
    "nothing": lambda d: None,
    "linear": lambda d: LinearRegression().fit(d.X, d.gain),
    "pipeline": lambda d: make_pipeline(StandardScaler(), LinearRegression()).fit(d.X, d.gain),
    "network": lambda d: MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=50, tol=1e2).fit(d.X, d.gain),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", GAPPY_MODELS)
def test_missing_values_are_named_by_column_and_environment(name: str, seed: int) -> None:
    data = patients(seed)
    gappy = data.X.copy()
    gappy.loc[data.site == "Oslo", "dose"] = np.nan
    with pytest.raises(iv.InputError, match=r'column "dose" has 200 missing values \(Oslo: 200 of 200\)'):
        audited(GAPPY_MODELS[name](data), data, X=gappy)


def test_missing_targets_and_labels_are_counted(seed: int) -> None:
    data = patients(seed)
    with pytest.raises(iv.InputError, match='target "gain" has 3 missing'):
        iv.audit(None, data.X, data.gain.mask(data.gain.index < 3), data.site)
    with pytest.raises(iv.InputError, match='"site" is missing in 5 of 600 rows'):
        iv.audit(None, data.X, data.gain, data.site.mask(data.site.index < 5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": lambda d: d.site.iloc[:10]}, "X has 600 rows but"),
        ({"y": lambda d: d.gain.iloc[:10]}, "X has 600 rows but gain has 10"),
        ({"env": lambda d: ["one"] * 600}, "only one environment"),
        ({"env": lambda d: None}, "no environments given"),
        ({"X": lambda d: d.X.assign(ward="A")}, 'column "ward" is text'),
        ({"model": lambda d: LinearRegression()}, "not fitted"),
        ({"model": lambda d: LinearRegression}, "is a class"),
        ({"task": lambda d: "ranking"}, 'task "ranking" is unknown'),
    ],
)
def test_bad_input_is_one_clear_sentence(change: dict[str, Any], message: str, seed: int) -> None:
    data = patients(seed)
    given: dict[str, Any] = {"model": None, "X": data.X, "y": data.gain, "env": data.site}
    given.update({name: build(data) for name, build in change.items()})
    with pytest.raises(iv.InputError, match=message):
        iv.audit(given.pop("model"), given.pop("X"), given.pop("y"), given.pop("env"), **given)


# --- what these rows do not allow leaves out criteria, never the audit ----------------------------------------------
#: What needs no head of any environment's own.
ON_PREDICTIONS = {"risk_variance", "worst_environment_risk", "irm_penalty", "worst_case"}


def assert_told_without_regret(found: iv.Audit, reason: str, tmp_path: Path) -> None:
    """CANNOT TELL YET, why, and what to do; and every way to show it works."""
    assert found.state == "CANNOT TELL YET"
    assert "regret" not in found.results
    assert re.search(reason, found.left_out["regret"])
    assert "heads of their own" in found.headline
    assert re.search(reason, found.sentences[0])
    assert found.sentences[-1].startswith("Next: ")
    with pytest.raises(KeyError, match="regret"):
        found["regret"]
    read = json.loads(found.to_json(tmp_path / "a.json").read_text(encoding="utf-8"))
    assert read["verdict"]["state"] == "CANNOT TELL YET"
    assert "regret" not in read["results"]
    assert "CANNOT TELL YET" in found.to_html(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "CANNOT TELL YET" in str(found)
    assert found.frame()["environment"].tolist() == list(found.data.labels)


def test_one_small_environment_leaves_out_the_regret_alone(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    env, X = np.repeat(["big", "medium", "small"], [100, 100, 12]), rng.normal(size=(212, 10))
    found = iv.audit(None, X, X[:, 0] + rng.normal(size=212), env, n_boot=DRAWS)
    assert_told_without_regret(found, r'nvironment "small" has 12 rows, .* 10 columns needs at least 16', tmp_path)
    assert found.sentences[-1] == "Next: drop it, merge it with another, or use fewer columns."
    assert set(found.results) == ON_NUMBERS - {"regret", "dric"}
    assert found.could_drop == ("small",)
    assert iv.audit(None, X[:200], X[:200, 0], env[:200], n_boot=DRAWS).could_drop == ()


@pytest.mark.parametrize("model", [None, "logistic"])
def test_an_environment_without_a_class_leaves_out_what_needs_it(model: str | None, seed: int, tmp_path: Path) -> None:
    data = patients(seed)
    state = data.state.mask((data.site == "Rome") & (data.state == "healthy"), "sick")
    made = None if model is None else LogisticRegression().fit(data.X, state)
    found = iv.audit(made, data.X, state, data.site, n_boot=DRAWS)
    assert_told_without_regret(found, r'lass "healthy" of target "state" never occurs in site "Rome"', tmp_path)
    of_a_given_head = set() if model is None else {"influence_index", "dric"}
    assert set(found.results) == {*ON_PREDICTIONS, *of_a_given_head, *OF_PROBABILITIES}
    assert found.could_drop == ("Rome",)
    p = have(gather(made, data.X, state, data.site)[0].predictions).values
    expected = iv.risk_variance(p, state, data.site)
    assert found["risk_variance"].value == pytest.approx(expected.value, rel=1e-12)


def probabilities_of_three(X: Any) -> np.ndarray:
    scores = np.asarray(X, float) @ np.array([[-1.0, 0.0, 1.0], [0.2, 0.0, 0.0], [0.0, 0.3, 0.0]])
    return np.asarray(np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))


#: Models of three classes, and the criteria they do without where one of these never occurs.
OF_THREE: dict[str, tuple[Callable[[Any, Any], Any], set[str]]] = {
    "logistic": (lambda X, y: LogisticRegression().fit(X, y), set()),
    "in another order": (
        lambda X, y: iv.Split(predict=probabilities_of_three, classes=sorted(set(y))[::-1]),
        {"influence_index"},
    ),
    "votes": (lambda X, y: LinearSVC().fit(X, y), {*OF_PROBABILITIES, "irm_penalty"}),
}


@pytest.mark.parametrize("labels", [(0, 1, 2), ("low", "mid", "top")], ids=["codes", "labels"])
@pytest.mark.parametrize("name", OF_THREE)
def test_a_class_that_only_the_model_knows_leaves_out_what_needs_it(
    name: str, labels: tuple[Any, ...], seed: int, tmp_path: Path
) -> None:
    data = patients(seed)
    build, without = OF_THREE[name]
    grade = pd.Series(np.array(labels, dtype=object)[data.grade], name="grade").infer_objects()
    model, there = build(data.X, grade), data.grade < 2
    X, y, site = data.X[there], grade[there], data.site[there]
    found = iv.audit(model, X, y, site, n_boot=DRAWS)
    assert_told_without_regret(found, f'lass "{labels[2]}" of target "grade" never occurs in any row', tmp_path)
    assert set(found.left_out) == {"regret", "transport_gap", *OF_NETWORKS, *without}
    assert set(found.results) == UNASKED - set(found.left_out)
    assert found.could_drop == ()
    assert (found.data.task, set(found.data.classes)) == ("multiclass", set(labels))
    split = iv.split(model)
    p = split.predict(X)[:, [split.classes.index(label) for label in labels]]
    hit = p[np.arange(len(y)), data.grade[there]]
    each = -np.log(hit) if split.probabilistic else 1.0 - hit
    for label, estimate in found["worst_environment_risk"].per_environment.items():
        assert estimate.value == pytest.approx(each[site == label].mean(), rel=1e-9)


def test_rows_of_one_class_are_judged_by_what_a_model_predicts(seed: int, tmp_path: Path) -> None:
    data = patients(seed)
    model, there = LogisticRegression().fit(data.X, data.grade), data.grade == 1
    found = iv.audit(model, data.X[there], data.grade[there], data.site[there], n_boot=DRAWS)
    assert_told_without_regret(found, 'lass "0" of target "grade" never occurs in any row', tmp_path)
    p = model.predict_proba(data.X[there])[:, 1]
    rome = found["risk_variance"].per_environment["Rome"].value
    assert rome == pytest.approx(-np.log(p[data.site[there] == "Rome"]).mean(), rel=1e-9)
    numbers = iv.audit(LinearRegression().fit(data.X, data.gain), data.X, np.ones(600), data.site, n_boot=DRAWS)
    assert_told_without_regret(numbers, "only one value: there is nothing to predict", tmp_path)


# --- outputs that fit the target or do not --------------------------------------------------------------------------
def test_a_function_with_one_output_predicts_numbers(seed: int) -> None:
    data = patients(seed)
    for model in (lambda X: X["age"], iv.Split(predict=lambda X: X["age"])):
        found = audited(model, data, "grade")
        assert (found.data.task, set(found.results)) == ("regression", ON_NUMBERS)
        assert found["worst_environment_risk"].unit == "squared target units"


def test_fifteen_outputs_are_fifteen_classes(seed: int) -> None:
    data, y = patients(seed), np.arange(600) % 15
    for model in (lambda X: np.full((len(X), 15), 1 / 15), iv.Split(predict=np.full((600, 15), 1 / 15))):
        found = iv.audit(model, data.X, y, data.site, n_boot=DRAWS)
        assert found.data.task == "multiclass"
        assert found["risk_variance"].per_environment["Rome"].value == pytest.approx(np.log(15))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("gain", 'the model tells 3 classes apart, but target "gain" has 600 different values'),
        ("state", 'the model tells 3 classes apart, but target "state" has 2 different values .healthy, sick.: give'),
    ],
)
def test_outputs_that_contradict_the_target(target: str, message: str, seed: int) -> None:
    data = patients(seed)
    for model in (probabilities_of_three, iv.Split(lambda X: X, probabilities_of_three)):
        with pytest.raises(iv.InputError, match=message):
            audited(model, data, target)


def test_a_target_that_is_constant_in_one_environment_leaves_out_what_needs_it(seed: int, tmp_path: Path) -> None:
    data = patients(seed)
    found = iv.audit(None, data.X, data.gain.mask(data.site == "Oslo", 2.0), data.site, n_boot=DRAWS)
    assert_told_without_regret(found, r'arget "gain" is constant in site "Oslo"', tmp_path)
    assert set(found.results) == ON_PREDICTIONS


def test_a_target_with_one_value_everywhere_is_refused(seed: int) -> None:
    data = patients(seed)
    with pytest.raises(iv.InputError, match="only one value"):
        iv.audit(None, data.X, np.ones(600), data.site)


def test_columns_too_many_for_any_head_are_said_at_once(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(5000, 768)), np.tile(np.arange(10), 500)
    found = iv.audit(None, Z, y, np.repeat(["a", "b"], 2500), n_boot=DRAWS)
    assert found.settings.seconds < 5  # a dense fit took minutes
    assert_told_without_regret(found, "768 columns needs at least 6,926", tmp_path)
    assert found.results == {}
    assert set(found.left_out) == UNASKED
    assert "7,690 weights" in found.left_out["influence_index"]
    assert "7,690 weights" in found.left_out["transport_gap"]


def test_columns_as_many_as_rows_are_said_at_once(seed: int, tmp_path: Path) -> None:
    Z, y = np.random.default_rng(seed).normal(size=(2000, 1999)), np.arange(2000) % 7 / 7
    for target in (y, y > 0.4):
        found = iv.audit(None, Z, target, np.repeat(["a", "b"], 1000), n_boot=DRAWS)
        assert found.settings.seconds < 5  # half a minute, and a minute
        assert_told_without_regret(found, "1,999 columns needs at least 2,005", tmp_path)
        assert "has as many weights as there are rows (2,000)" in found.left_out["risk_variance"]
    fewer = iv.audit(None, Z[:, :5], y, np.repeat(["a", "b"], 1000), n_boot=DRAWS)  # as told
    assert {"regret", "risk_variance", "influence_index"} <= set(fewer.results)


def test_predictions_of_a_wide_table_do_not_wait_for_a_baseline(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, env = rng.normal(size=(1000, 800)), np.tile(np.arange(10), 100), np.repeat(["a", "b"], 500)
    head = iv.LinearHead(rng.normal(size=(10, 800)) / 30, np.zeros(10))
    model = iv.Split(lambda X: X, head=head, task="classification").by_predictions()
    found = iv.audit(model, X, y, env, n_boot=DRAWS)
    assert found.settings.seconds < 5  # a minute
    assert found.left_out["dric"] == (
        "needs a baseline: give one (baseline=...), since a linear head on 800 columns for 10 classes has 8,010 "
        "weights, and an audit fits at most 2,000. Use fewer columns: choose some, or audit a model whose "
        "representation has fewer."
    )
    given = iv.audit(model, X, y, env, n_boot=DRAWS, criteria="dric", baseline=head.probabilities(X / 2))
    assert given["dric"].value != 1.0


def test_a_wide_head_on_few_rows_does_not_wait_for_the_influence_index(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(400, 6500)), np.repeat(["a", "b"], 200)
    head = iv.LinearHead(rng.normal(size=(1, 6500)) / 80, np.zeros(1))
    y = np.where(head.scores(X)[:, 0] + rng.logistic(size=400) > 0, "yes", "no")
    model = iv.Split(lambda X: X, head=head, task="classification", classes=["no", "yes"])
    found = iv.audit(model, X, y, env, n_boot=DRAWS, criteria="influence_index")
    assert found.settings.seconds < 10  # 40 s
    assert (found["influence_index"].solver, found["influence_index"].rank) == ("kronecker", 400)


def test_a_wide_model_is_judged_by_what_needs_no_further_head(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(600, 768)), np.tile(np.arange(10), 60)
    model = iv.Split(
        lambda X: X, head=iv.LinearHead(rng.normal(size=(10, 768)) / 30, np.zeros(10)), task="classification"
    )
    found = iv.audit(model, pd.DataFrame(Z), y, np.repeat(["a", "b"], 300), n_boot=DRAWS)
    assert {"risk_variance", "calibration_variance", "worst_case", "influence_index"} <= set(found.results)


def test_constant_inputs_are_no_reason_to_stop(seed: int) -> None:
    data = patients(seed)
    found = audited(None, data, X=np.ones((600, 1)))
    assert found.state == "UNINFORMATIVE"


def test_an_audit_says_which_criteria_it_has(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, site = rng.normal(size=(200, 2)), np.repeat(["a", "b"], 100)
    audit = iv.audit(None, X, X[:, 0] + rng.normal(size=200), site, criteria="risk_variance", n_boot=0)
    assert "regret" in audit
    assert "dric" not in audit
    assert 5 not in audit
    assert list(audit) == ["regret", "risk_variance"]


def test_a_table_without_columns_is_empty_with_or_without_a_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, site = rng.normal(size=(20, 2)), np.repeat(["a", "b"], 10)
    sentence = "^X is empty: it has 20 rows and 0 columns, give at least one of each$"
    for model, rows in ((None, X[:, :0]), (iv.Split(represent=lambda values: values[:, :0]), X)):
        with pytest.raises(iv.InputError, match=sentence):
            iv.audit(model, rows, X[:, 0], site, n_boot=0)


@pytest.mark.parametrize("option", ["env_name", "target_name"])
def test_names_are_texts(seed: int, option: str) -> None:
    rng = np.random.default_rng(seed)
    X, site = rng.normal(size=(200, 2)), np.repeat(["a", "b"], 100)
    y = X[:, 0] + rng.normal(size=200)
    with pytest.raises(iv.InputError, match=f'^{option} is 5: give a text, such as "site"$'):
        iv.audit(None, X, y, site, n_boot=0, **{option: 5})
    assert "regret" in iv.audit(None, X, y, site, n_boot=0, **{option: "site"})


def test_alpha_is_the_level_of_p_values_and_intervals_are_of_95_per_cent(seed: int) -> None:
    strict, lenient = (
        audited(None, patients(seed), n_boot=199, alpha=alpha, criteria=["regret", "influence_index"])
        for alpha in (0.001, 0.2)
    )
    assert strict["regret"].worst_interval == lenient["regret"].worst_interval
    assert strict["regret"].interval == lenient["regret"].interval
    for found, level in ((strict, "99.9 %"), (lenient, "80 %")):
        assert "95 %: " in found.sentences[0]
        assert level not in found.sentences[0]  # of an interval
        assert f"for shuffled rows ({level})" in repr(found)  # of a p-value
        assert ("significance level", f"{found.settings.alpha:g} for p-values; intervals are 95 %") in provenance(found)
    assert "Intervals, on which verdicts rest,\n        are 95 % whatever it is" in (iv.audit.__doc__ or "")


def test_every_parameter_of_an_audit_is_described() -> None:
    text = inspect.getdoc(iv.audit) or ""
    described = text.partition("Parameters\n")[2].partition("The representation's columns")[0]
    silent = {"seed", "task", "target_name", "env_name"}  # as everywhere
    for name in inspect.signature(iv.audit).parameters.keys() - silent:
        assert re.search(rf"^{name} :", described, re.MULTILINE), name


def test_weights_are_told() -> None:
    """The table counts rows, the intervals what they stand for: who reads one must know of the other."""
    rng = np.random.default_rng(0)
    X, env, weight = rng.normal(size=(90, 2)), np.repeat(["a", "b", "c"], 30), np.repeat([1, 4], 45)

    def notes(weight: Any) -> tuple[str, ...]:
        return iv.audit(None, X, X[:, 0] + rng.normal(size=90), env, weight=weight, criteria=[], n_boot=0).notes

    assert notes(weight)[0] == "Weights count as repeated rows: 90 rows count as 225."
    assert notes(np.ones(90)) == notes(None)
