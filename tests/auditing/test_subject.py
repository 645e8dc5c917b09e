"""Audits of predictions given as values: the same as of a function that gives them, and labels are called labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from sklearn.linear_model import LinearRegression, LogisticRegression

import invariscope as iv
from invariscope.cli import main
from invariscope.models.outputs import HARD_LABELS

N = 240
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
ENV = np.repeat(["a", "b", "c"], N // 3)
NUMBER = X[:, 0] + (ENV == "c") * X[:, 1] + RNG.normal(size=N)
TWO = np.array(["no", "yes"])[(NUMBER > 0).astype(int)]
THREE = np.array(["ant", "bee", "cat"])[np.digitize(NUMBER, [-0.7, 0.7])]
LINE = LinearRegression().fit(X, NUMBER)
P_NUMBER = LINE.predict(X)
P_TWO = LogisticRegression().fit(X, TWO).predict_proba(X)
P_THREE = LogisticRegression().fit(X, THREE).predict_proba(X)
CRITERIA = ["regret", "risk_variance", "irm_penalty", "dric"]


def audited(model: Any, y: Any, **options: Any) -> iv.Audit:
    return iv.audit(model, X, y, ENV, n_boot=99, **{"criteria": CRITERIA, **options})


def numbers(audit: iv.Audit) -> dict[str, float]:
    return {name: audit[name].value for name in CRITERIA}


# --- values of any library --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("y", "given", "forms"),
    [
        (
            NUMBER,
            P_NUMBER,
            [P_NUMBER.tolist(), pd.Series(P_NUMBER), pl.Series(P_NUMBER), pa.array(P_NUMBER), torch.tensor(P_NUMBER)],
        ),
        (
            TWO,
            P_TWO,
            [
                P_TWO[:, 1],
                P_TWO[:, 1].tolist(),
                pd.Series(P_TWO[:, 1], name="risk"),
                pd.DataFrame(P_TWO[:, ::-1], columns=["yes", "no"]),
                pl.DataFrame({"yes": P_TWO[:, 1], "no": P_TWO[:, 0]}),
                pa.table({"yes": P_TWO[:, 1], "no": P_TWO[:, 0]}),
                torch.tensor(P_TWO),
                lambda X: P_TWO[:, 1],
            ],
        ),
        (
            THREE,
            P_THREE,
            [
                P_THREE.tolist(),
                pd.DataFrame(P_THREE[:, [2, 0, 1]], columns=["cat", "ant", "bee"]),
                pl.DataFrame(P_THREE),
            ],
        ),
    ],
    ids=["numbers", "two classes", "three classes"],
)
def test_values_are_a_model(y: Any, given: Any, forms: list[Any]) -> None:
    """As the function that gives them, one column for two classes or two."""
    other = np.roll(given, 7, axis=0)  # a baseline that is not the model itself
    expected = numbers(audited(lambda X: given, y, baseline=other))
    for model in (given, iv.Split(predict=given), *forms):
        assert numbers(audited(model, y, baseline=other)) == pytest.approx(expected, rel=1e-9)


def test_predictions_do_without_inputs(tmp_path: Path) -> None:
    """All that rests on them has the same numbers, and the rest its reason."""
    for given, y in ((P_NUMBER, NUMBER), (P_THREE, THREE), (pd.Series(P_NUMBER), NUMBER), (P_NUMBER.tolist(), NUMBER)):
        alone, whole = (iv.audit(given, X, y, ENV, n_boot=99) for X in (None, np.arange(2.0 * N).reshape(N, 2) % 7))
        assert set(whole.results) - set(alone.results) == {"dric"}
        assert alone.left_out["dric"] == "needs the inputs of the model: give them as X"
        for name, result in alone.results.items():
            np.testing.assert_equal(result.value, whole[name].value)
        assert alone.verdict == whole.verdict
        assert "nan" not in str(alone)
        assert alone.to_html(tmp_path / "page.html").stat().st_size > 1000


@pytest.mark.parametrize(
    "model", [None, lambda X: P_NUMBER, iv.Split(predict=P_NUMBER)], ids=["none", "function", "split"]
)
def test_a_model_without_inputs_is_refused(model: Any) -> None:
    with pytest.raises(iv.InputError, match=r"^X is None: a model is audited on the rows that it predicts"):
        iv.audit(model, None, NUMBER, ENV)


def test_names_of_columns_decide_in_criteria_and_baselines_too() -> None:
    table = pd.DataFrame(P_THREE[:, [2, 0, 1]], columns=["cat", "ant", "bee"])
    for criterion in (iv.risk_variance, iv.worst_environment_risk, iv.irm_penalty, iv.calibration_variance):
        assert criterion(table, THREE, ENV).value == criterion(P_THREE, THREE, ENV).value
    flat = np.full((N, 3), 1 / 3)
    assert audited(flat, THREE, baseline=table)["dric"].value == audited(flat, THREE, baseline=P_THREE)["dric"].value


def test_the_record_says_what_was_audited() -> None:
    audit = audited(P_NUMBER, NUMBER)
    assert audit.data.model == "predictions given as values"
    assert audit.data.representation == "prediction level: predictions given as values"
    assert audit.data.columns == ("prediction",)
    assert audit.notes == ()


def test_predictions_of_other_rows_are_called_predictions() -> None:
    """Without inputs there is no X to count rows of."""
    for given, y, env, said in (
        (P_NUMBER[1:], NUMBER, ENV, f"there are {N - 1} predictions, but env has {N} rows"),
        (P_NUMBER[1:], NUMBER, ENV[1:], f"there are {N - 1} predictions, but the target has {N} rows"),
        (list(P_NUMBER), list(NUMBER)[1:], list(ENV), f"there are {N} predictions, but the target has {N - 1} rows"),
    ):
        with pytest.raises(iv.InputError, match=f"^{said}: give one prediction per row$"):
            iv.audit(given, None, y, env, n_boot=0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (P_NUMBER[1:], "X has 240 rows but the predict array has 239: they must be about the very same rows"),
        (
            np.where(P_NUMBER > 0, np.nan, P_NUMBER),
            r"missing or infinite values \(a: 41 of 80, c: 38 of 80, b: 30 of 80\); predict those",
        ),
        (
            np.ma.masked_greater(P_NUMBER, 0),
            "values are masked; fill them, or drop those rows here and in X, y and env",
        ),
        (
            np.where(P_NUMBER > 0, "up", "down"),
            'hold text \\("(up|down)"\\): give numbers, or for classes probabilities',
        ),
        (
            np.column_stack([P_NUMBER] * 2),
            "lie outside 0..1 .* Apply the softmax first; for a target of numbers give one",
        ),
        (
            pd.DataFrame(P_TWO, columns=["p_no", "p_yes"]),
            "tells 2 classes apart, but target .* has 240 different values",
        ),
    ],
)
def test_values_that_cannot_be_predictions(model: Any, message: str) -> None:
    with pytest.raises(iv.InputError, match=message):
        audited(model, NUMBER)


def test_rows_that_were_not_predicted_are_counted_by_environment() -> None:
    """Of a model at whichever level, and of a baseline: where the most are comes first."""
    lost = np.isin(np.arange(N), [5, 80, 81, 82, 170, 171])
    said = r": 6 rows have missing or infinite values \(b: 3 of 80, c: 2 of 80, a: 1 of 80\); predict those rows too, "
    risk, number = np.where(lost, np.nan, P_TWO[:, 1]), np.where(lost, np.inf, P_NUMBER)
    models = [(risk, TWO), (lambda rows: risk, TWO), (np.c_[1 - risk, risk], TWO), (number, NUMBER)]
    models += [(iv.Split(represent=X, predict=number), NUMBER)]
    for model, y in models:
        with pytest.raises(iv.InputError, match=f"^predictions{said}or drop them$"):
            audited(model, y)
        if not callable(model) and not isinstance(model, iv.Split):
            with pytest.raises(iv.InputError, match=f"^predictions{said}"):
                iv.audit(model, None, y, ENV)
    with pytest.raises(iv.InputError, match=f"^predictions of the baseline{said}"):
        audited(P_NUMBER, NUMBER, baseline=number)
    assert iv.audit(risk[~lost], X[~lost], TWO[~lost], ENV[~lost], n_boot=0).data.rows == N - 6


def test_of_many_environments_those_with_the_most_rows_not_predicted_are_named() -> None:
    env, risk = np.resize(list("abcdefgh"), N), P_TWO[:, 1].copy()
    risk[np.isin(env, list("abcdef"))] = np.nan
    risk[np.flatnonzero(env == "a")[1:]] = 0.5
    with pytest.raises(
        iv.InputError, match=r"^predictions: 151 rows .* \(b: 30 of 30, c: 30 of 30, d: 30 of 30, \.\.\.\);"
    ):
        iv.audit(risk, X, TWO, env)


def test_names_that_are_not_those_of_the_classes() -> None:
    """Nobody can tell which column is whose; both remedies work."""
    with pytest.raises(
        iv.InputError, match="columns of the predictions are named p_no, p_yes, but the classes are no, y"
    ):
        audited(pd.DataFrame(P_TWO, columns=["p_no", "p_yes"]), TWO)
    expected = numbers(audited(P_TWO, TWO))
    assert numbers(audited(pd.DataFrame(P_TWO, columns=["no", "yes"]), TWO)) == expected
    assert numbers(audited(pd.DataFrame(P_TWO, columns=["p_no", "p_yes"]).to_numpy(), TWO)) == expected


def test_rows_in_the_place_of_the_model() -> None:
    with pytest.raises(iv.InputError) as told:
        iv.audit(X, NUMBER, ENV)
    assert str(told.value) == (
        "no environments given: the model comes first, iv.audit(model, X, y, env); None in its place audits "
        "the columns of X"
    )
    assert iv.audit(None, X, NUMBER, ENV, criteria="risk_variance").data.columns == ("x0", "x1")


@pytest.mark.parametrize(
    ("model", "message", "remedy"),
    [
        (
            LinearRegression,
            r"^LinearRegression is a class: pass a fitted model, LinearRegression\(...\).fit\(X, y\)$",
            LINE,
        ),
        (LinearRegression(), r"^model is not fitted: call fit first \(LinearRegression\)$", LINE),
        ("a line", '^"a line" is text, not a model: pass the fitted model itself, or None to audit the columns', None),
    ],
)
def test_what_is_not_yet_a_model(model: Any, message: str, remedy: Any) -> None:
    with pytest.raises(iv.InputError, match=message):
        audited(model, NUMBER)
    assert audited(remedy, NUMBER).data.task == "regression"


# --- labels in the place of probabilities -----------------------------------------------------------------------------
HARD = (P_TWO[:, 1] > 0.5).astype(float)


@pytest.mark.parametrize(
    "model",
    [
        HARD,
        lambda X: HARD,
        lambda X: np.column_stack([1 - HARD, HARD]),
        iv.Split(X, HARD),
        iv.Split(predict=HARD, task="classification", classes=["no", "yes"]),
        pd.get_dummies(pd.Series(np.where(HARD == 1, "yes", "no"))),
    ],
)
def test_labels_given_as_probabilities_are_noted(model: Any) -> None:
    audit = audited(model, TWO)
    assert audit.notes.count(HARD_LABELS) == 1
    for name in ("risk_variance", "irm_penalty"):
        assert HARD_LABELS in audit[name].notes
    assert HARD_LABELS.startswith("All predictions are 0 or 1: labels, not probabilities.")


def test_probabilities_are_not_called_labels() -> None:
    for model, y in ((P_TWO, TWO), (P_THREE, THREE), (NUMBER > 0, NUMBER), (LogisticRegression().fit(X, TWO), TWO)):
        audit = audited(model, y)
        assert not any("labels" in note for note in (*audit.notes, *audit["risk_variance"].notes))


def test_a_model_that_only_votes_is_judged_by_its_errors_and_needs_no_note() -> None:
    class Votes:
        classes_ = np.array(["no", "yes"])

        def predict(self, X: Any) -> Any:
            return np.where(HARD == 1, "yes", "no")

    audit = audited(Votes(), TWO)
    assert audit["risk_variance"].unit == "share"
    assert HARD_LABELS not in (*audit.notes, *audit["risk_variance"].notes)


def test_labels_as_a_baseline_are_noted() -> None:
    words = "All predictions of the baseline are 0 or 1: labels, not probabilities."
    assert [note for note in audited(P_TWO, TWO, baseline=HARD).notes if note.startswith(words)]
    assert not audited(P_TWO, TWO, baseline=P_TWO[:, 1]).notes


@pytest.mark.parametrize(
    "criterion", [iv.risk_variance, iv.worst_environment_risk, iv.irm_penalty, iv.calibration_variance]
)
def test_without_an_audit_labels_are_warned_about(criterion: Any) -> None:
    with pytest.warns(UserWarning, match="All predictions are 0 or 1: labels, not probabilities") as told:
        result = criterion(HARD, TWO, ENV)
    assert HARD_LABELS in result.notes
    assert told[0].filename == __file__  # the line that called
    assert HARD_LABELS not in criterion(P_TWO, TWO, ENV).notes


def test_errors_need_no_probabilities() -> None:
    assert HARD_LABELS not in iv.risk_variance(HARD, TWO, ENV, loss="zero_one").notes


def test_transport_of_labels_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="labels, not probabilities"):
        result = iv.transport_gap(X, TWO, ENV, predictions=HARD, n_boot=99)
    assert HARD_LABELS in result.notes


def test_predicted_labels_are_refused_with_remedies_that_work() -> None:
    """Texts, or the numbers of the classes; a sigmoid of them would be worse than nothing."""
    model = LogisticRegression().fit(X, TWO)
    for predicted, y in ((model.predict, TWO), (model.predict(X), TWO), ((HARD + 1).astype(int), (TWO == "yes") + 1)):
        with pytest.raises(iv.InputError, match=r"predict_proba .*; of labels alone, .*pandas\.get_dummies"):
            audited(predicted, y)
    assert numbers(audited(model.predict_proba, TWO)) == numbers(audited(P_TWO, TWO))
    assert HARD_LABELS in audited(pd.get_dummies(pd.Series(model.predict(X))), TWO).notes
    for criterion in (iv.risk_variance, iv.irm_penalty, iv.calibration_variance):
        with pytest.raises(iv.InputError, match=r'^predictions hold text \("(no|yes)"\): give numbers, or for classes'):
            criterion(model.predict(X), TWO, ENV)


def test_values_of_the_target_may_be_labels() -> None:
    """One column tells two classes apart at most, so these are numbers; but somebody may have meant classes."""
    codes = np.digitize(NUMBER, [-0.7, 0.7])
    audit = audited(np.digitize(P_NUMBER, [-0.7, 0.7]), codes)
    assert audit.data.task == "regression"
    assert audit.notes == (
        "The predictions are values of the target (0, 1, 2) and are read as numbers. If they are labels of classes, "
        "pass one column of probabilities per class.",
    )
    assert audited(codes + 0.1 * P_NUMBER, codes).notes == ()
    assert audited(P_THREE, codes).data.task == "multiclass"


def test_a_column_of_labels_on_the_command_line(tmp_path: Path) -> None:
    words = np.where(HARD == 1, "yes", "no")
    table = pd.DataFrame({"a": X[:, 0], "y": TWO, "env": ENV, "hard": HARD, "words": words, "risk": P_TWO[:, 1]})
    table.to_csv(tmp_path / "t.csv", index=False)
    about = ["audit", str(tmp_path / "t.csv"), "--target", "y", "--env", "env", "--features", "a", "--n-boot", "99"]
    noted = CliRunner().invoke(main, [*about, "--prediction", "hard", "--json", str(tmp_path / "hard.json")])
    assert noted.exit_code == 0, noted.output
    assert HARD_LABELS in json.loads((tmp_path / "hard.json").read_text())["notes"]
    refused = CliRunner().invoke(main, [*about, "--prediction", "words"])
    assert refused.exit_code == 2
    sentence = (
        'column "words" (--prediction) does not hold numbers: give the predicted value, or for two classes the prob'
    )
    assert sentence in " ".join(refused.output.split())
    assert CliRunner().invoke(main, [*about, "--prediction", "risk"]).exit_code == 0


# --- a task that contradicts the model --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("model", "y", "task", "message"),
    [
        (P_THREE, np.digitize(NUMBER, [-0.7, 0.7]), "regression",
         'task "regression" was asked for, but the model gives 3 numbers per row, which tell classes apart: leave'),
        (LinearRegression().fit(X, NUMBER), (NUMBER > 0) * 1, "classification",
         'task "classification" was asked for, but the model does regression: leave task out, or give a model'),
        (LogisticRegression().fit(X, THREE), THREE, "regression",
         'task "regression" was asked for, but the model does classification: leave task out, or give a model that do'),
        (P_THREE, THREE, "binary",
         'target "target" has 3 classes: a binary task needs 2. Leave task out, or say "classification".'),
        (P_TWO[:, 1], THREE, "classification",
         "give a model with one output per class, or predictions in 3 columns of probabilities"),
    ],
)  # fmt: skip
def test_a_task_that_contradicts_the_model(model: Any, y: Any, task: str, message: str) -> None:
    with pytest.raises(iv.InputError) as told:
        audited(model, y, task=task)
    assert message in str(told.value)


def test_leaving_the_task_out_helps() -> None:
    codes = np.digitize(NUMBER, [-0.7, 0.7])
    assert audited(P_THREE, codes).data.task == "multiclass"
    assert audited(P_THREE, THREE, task="classification").data.task == "multiclass"
    assert audited(LinearRegression().fit(X, NUMBER), NUMBER).data.task == "regression"


@pytest.mark.parametrize(
    "values", [(10, 20, 40), (0.5, 1.5, 2.5), tuple(range(0, 600, 40))], ids=["whole", "half", "15"]
)
def test_outputs_that_leave_no_doubt_need_no_task(values: tuple[float, ...]) -> None:
    """Numbers that would be amounts are classes where every model has a column for each."""
    y = np.array(values)[np.arange(N) % len(values)]
    codes = np.arange(N) % len(values)
    p = LogisticRegression().fit(X, codes).predict_proba(X)

    class Own:
        classes_ = np.array(values)

        def predict_proba(self, X: Any) -> Any:
            return p

    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, len(values))).double()
    named = iv.split(network, classes=values)  # its outputs are 0, 1, ... unless somebody says otherwise
    for model in (p, lambda X: p, iv.Split(predict=p), iv.Split(X, p), Own(), named):
        audit = audited(model, y, criteria=["risk_variance"])
        assert (audit.data.task, audit["risk_variance"].unit) == ("multiclass", "log-loss (nats)")


def test_a_model_that_differs_in_rows_of_weight_zero_only_is_its_own_baseline(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env, weight = rng.normal(size=(300, 2)), np.tile(["b", "a"], 150), (np.arange(300) % 10 > 0).astype(float)
    y = X[:, 0] + rng.normal(size=300)
    kept = weight > 0
    predictions = LinearRegression().fit(X[kept], y[kept]).predict(X)
    predictions[~kept] += 100
    found = iv.audit(predictions, X, y, env, weight=weight, n_boot=0, criteria="all")
    assert "is the very model that is audited" in found.left_out["dric"]


# --- values that are rounded, or out of all bounds --------------------------------------------------------------------
@pytest.mark.parametrize("short", [P_THREE.astype(np.float16), torch.tensor(P_THREE).bfloat16()], ids=["f2", "bf2"])
def test_probabilities_of_16_bits_are_audited(short: Any) -> None:
    full, rounded = (audited(given, THREE, criteria=["risk_variance"]) for given in (P_THREE, short))
    assert rounded["risk_variance"].value == pytest.approx(full["risk_variance"].value, rel=0.02)


def test_predictions_too_large_to_be_squared_are_told_and_not_warned_of() -> None:
    audit = audited(np.full(N, -1e199), NUMBER, criteria=["risk_variance", "dric"])
    assert audit.left_out["risk_variance"].startswith("the loss of 240 rows is above 1e+150")
