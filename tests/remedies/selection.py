"""Refusals where several models are judged on the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import invariscope as iv
from tests.remedies.case import Case

ROOM = ("selection/",)
ENV = np.repeat(["a", "b"], 40)
X = np.random.default_rng(0).normal(size=(80, 3))
Y = np.where(X[:, 0] + np.random.default_rng(1).normal(size=80) > 0, "yes", "no")
ERM = LogisticRegression().fit(X, Y)
NARROW = LogisticRegression().fit(X[:, :2], Y)
VOTES = SVC().fit(X, Y)
SAID = ERM.predict_proba(X)


def steps(models: Any = None, **options: Any) -> Any:
    return iv.three_steps({"ERM": ERM} if models is None else models, X, Y, ENV, **{"n_boot": 0, **options})


def silent(**halves: Any) -> dict[str, Any]:
    return {"ERM": ERM, "other": iv.Split(represent=lambda X: X, **halves)}


CASES = [
    # --- the models ---
    Case("give a dict of models by name", lambda: steps([ERM]), lambda: steps({"ERM": ERM})),
    Case("name every model by a text", lambda: steps({"ERM": ERM, 3: ERM}), lambda: steps({"ERM": ERM, "IRM": ERM})),
    Case("reference=...", lambda: steps({"plain": ERM}), lambda: steps({"plain": ERM}, reference="plain")),
    Case(
        'model "narrow": ',
        lambda: steps({"ERM": ERM, "narrow": NARROW}),
        "what is wrong is told as an audit of that model would tell it, with its remedy",
    ),
    Case(
        "give iv.Split(..., predict=...)",
        lambda: steps(silent()),
        lambda: steps(silent(predict=ERM.predict_proba, classes=("no", "yes"))),
    ),
    Case(
        'use loss="zero_one"',
        lambda: steps({"ERM": ERM, "votes": VOTES}, loss="log_loss"),
        lambda: steps({"ERM": ERM, "votes": VOTES}, loss="zero_one"),
    ),
    # --- what they were trained with ---
    Case(
        "give a dict, such as",
        lambda: steps(trained_with=3),
        lambda: steps(trained_with={"ERM": iv.objectives.IRM(weight=100)}),
    ),
    Case("there are ERM", lambda: steps(trained_with={"IRM": "erm"}), lambda: steps(trained_with={"ERM": "erm"})),
    # --- unseen rows ---
    Case("unseen=(X, y, env)", lambda: steps(unseen=X), lambda: steps(unseen=(X, Y, ENV))),
    Case(
        "give the model itself",
        lambda: steps({"ERM": ERM, "said": SAID}, unseen=(X, Y, ENV)),
        lambda: steps({"ERM": ERM, "said": ERM}, unseen=(X, Y, ENV)),
    ),
    Case(
        "or leave unseen out",
        lambda: steps({"ERM": ERM, "said": SAID}, unseen=(X, Y, ENV)),
        lambda: steps({"ERM": ERM, "said": SAID}),
    ),
    Case("give one per row", lambda: steps(unseen=(X, Y, ENV[1:])), lambda: steps(unseen=(X, Y, None))),
    Case(
        'unseen rows, model "ERM": ',
        lambda: steps(unseen=(X[:, :2], Y, ENV)),
        "what is wrong is told as an audit of that model would tell it, with its remedy",
    ),
]
