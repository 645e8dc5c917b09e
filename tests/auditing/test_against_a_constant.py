"""A model that loses more than a constant nearly everywhere is asked about, and the question names what would help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import invariscope as iv
from invariscope.cli import main

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
SITE = np.repeat(["Bern", "Oslo", "Rome"], N // 3)
DOSE = 40.0 + X[:, 0] + RNG.normal(size=N)
ILL = np.where(DOSE > 40, "yes", "no")
GRADE = np.digitize(DOSE, [39.3, 40.7])
P_DOSE = LinearRegression().fit(X, DOSE).predict(X)
P_ILL = LogisticRegression().fit(X, ILL).predict_proba(X)
P_GRADE = LogisticRegression().fit(X, GRADE).predict_proba(X)
WORSE = "The model's loss is larger than that of a constant in "
ORDER = "are the columns of the predictions in the order of the sorted classes"
ROWS = "are the predictions those of these rows, in their order, and of this target?"


def asked(model: Any, y: Any, **options: Any) -> list[str]:
    audit = iv.audit(model, X, y, SITE, env_name="site", n_boot=0, criteria=["risk_variance"], **options)
    return [note.removeprefix(WORSE) for note in audit.notes if note.startswith(WORSE)]


@pytest.mark.parametrize(
    ("given", "mended", "y", "question"),
    [
        (P_ILL[:, ::-1], P_ILL, ILL, f'{ORDER} (no, yes)? A single column is the probability of "yes".'),
        (P_ILL[:, 0], P_ILL[:, 1], ILL, f'{ORDER} (no, yes)? A single column is the probability of "yes".'),
        (lambda rows: P_ILL[:, ::-1], lambda rows: P_ILL, ILL, f"{ORDER} (no, yes)?"),
        (P_GRADE[:, [1, 2, 0]], P_GRADE, GRADE, f"{ORDER} (0, 1, 2)?"),
        (
            1000 * P_DOSE,
            P_DOSE,
            DOSE,
            'do the predictions have the units of "target"? They range from 35,937 to 42,841, it ranges ',
        ),
        (-P_DOSE, P_DOSE, DOSE, 'do the predictions have the sign and the units of "target"? They range from −4'),
        (RNG.permutation(P_DOSE), P_DOSE, DOSE, ROWS),
        (RNG.permutation(P_ILL), P_ILL, ILL, ROWS),
    ],
)
def test_a_model_worse_than_a_constant_is_asked_about_and_the_answer_helps(
    given: Any, mended: Any, y: Any, question: str
) -> None:
    for options in ({}, {"weight": np.ones(N)}):
        [note] = asked(given, y, **options)
        assert note.startswith("every site (")
        assert f"): {question}" in note
        assert asked(mended, y, **options) == []


def test_losses_are_those_of_the_environments_named() -> None:
    """Most, but not all, and weights count: in Bern the columns are in order."""
    mixed = np.where((SITE == "Bern")[:, None], P_ILL, P_ILL[:, ::-1])
    there, weight = SITE != "Bern", RNG.integers(1, 4, N)
    loss = np.average(-np.log(np.where(ILL == "yes", mixed[:, 1], mixed[:, 0]))[there], weights=weight[there])
    [note] = asked(mixed, ILL, weight=weight)
    assert note.startswith(f"Oslo and Rome ({loss:.2f} against 0.68")
    few = np.where((SITE == "Bern")[:, None], P_ILL[:, ::-1], P_ILL)  # a relation that turns round is no mistake
    assert asked(few, ILL) == []


def test_many_environments_are_counted() -> None:
    env = np.arange(N) % 10
    model = np.where((env == 0)[:, None], P_ILL, P_ILL[:, ::-1])
    [note] = [note for note in iv.audit(model, X, ILL, env, n_boot=0).notes if note.startswith(WORSE)]
    assert note.startswith(f"{WORSE}9 of 10 environments (")


def test_nothing_is_asked_where_there_is_nothing_to_ask() -> None:
    """A constant, a weak model, labels (which have a note of their own), votes, one class only, no model."""
    weak = np.clip(0.5 + RNG.uniform(-0.05, 0.05, N), 0, 1)
    for model in (np.full(N, 0.5), weak, P_ILL, pd.get_dummies(np.where(ILL == "yes", "no", "yes")), None):
        assert asked(model, ILL) == []
    assert asked(DecisionTreeClassifier(max_depth=2).fit(X, ILL), ILL) == []
    assert asked(np.where(SITE == "Rome", DOSE, P_DOSE), np.where(SITE == "Rome", DOSE, 40.0)) == []
    assert asked(1e80 * P_DOSE, DOSE) == []


def test_page_terminal_and_command_line_ask(tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=["a", "b"]).assign(site=SITE, ill=ILL, risk=P_ILL[:, 0], mended=P_ILL[:, 1])
    table.to_csv(tmp_path / "table.csv", index=False)
    options = ["audit", str(tmp_path / "table.csv"), "--target", "ill", "--env", "site", "--n-boot", "0"]
    files = ["--json", str(tmp_path / "a.json"), "--html", str(tmp_path / "a.html")]
    shown = CliRunner().invoke(main, [*options, "--prediction", "risk", *files], catch_exceptions=False).output
    question = f"{WORSE}every site"
    assert f"Note: {question}" in " ".join(shown.split())
    assert any(note.startswith(question) for note in json.loads((tmp_path / "a.json").read_text())["notes"])
    assert question.replace("'", "&#x27;") in (tmp_path / "a.html").read_text(encoding="utf-8")
    shown = CliRunner().invoke(main, [*options, "--prediction", "mended"], catch_exceptions=False).output
    assert WORSE not in " ".join(shown.split())
