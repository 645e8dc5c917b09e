"""Training on a table that was read: environments left out, columns that say nothing, losses by environment."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.errors import InputError
from invariscope.estimators.table_training import Training
from invariscope.objectives import objective_of


@pytest.fixture
def rows(seed: int) -> iv.datasets.Dataset:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(size=90), "site": np.repeat(["Bern", "Oslo", "Rome"], 30)})
    table["old"] = (table["site"] == "Rome").astype(float)  # the same in all rows but those of Rome
    table["days"] = 2 * table["age"] + rng.normal(size=90)
    return iv.read(table, target="days", env="site")


def test_what_is_left_out_is_not_trained_on_but_judged(rows: iv.datasets.Dataset) -> None:
    training = Training.of(rows, objective_of("erm", None), leave_out=["Rome"])
    assert (training.trained_on, training.left_out, training.columns) == ([0, 1], (2,), ("age",))
    assert training.notes[-1] == "Left out because all rows trained on have the same value: old."
    model = training.fitted(objective="erm", steps=5, random_state=0, progress=False)
    assert model.environments_ == ("Bern", "Oslo")
    (loss,) = training.losses(model).values()
    errors = (model.predict(rows.X[["age"]]) - rows.y) ** 2
    np.testing.assert_allclose(loss, errors.groupby(rows.env).mean())


@pytest.mark.parametrize(
    ("leave_out", "sentence"),
    [
        (["Rom"], r'there is no site "Rom" \(leave_out=\): there are "Bern", "Oslo", "Rome"'),
        (["Bern", "Oslo", "Rome"], "leave_out= names every site: there would be nothing to train on; leave out fewer"),
        (["Bern", "Oslo"], 'objective="vrex" compares environments, but leave_out= leaves only one: .*objective="erm"'),
    ],
)
def test_what_cannot_be_trained_on(leave_out: list[str], sentence: str, rows: iv.datasets.Dataset) -> None:
    with pytest.raises(InputError, match=sentence):
        Training.of(rows, objective_of("vrex", None), leave_out=leave_out)
