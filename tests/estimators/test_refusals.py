"""What estimators say to people in a hurry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.errors import InputError


@pytest.mark.parametrize("hidden", ["64", (6.5,), ("a",), 2.5])
def test_refuses_layers_that_are_no_numbers(hidden: Any) -> None:
    with pytest.raises(InputError, match="hidden is"):
        iv.InvariantRegressor("erm", hidden=hidden, steps=2).fit(np.eye(4), np.arange(4.0))


def test_refuses_a_penalty_where_there_is_none() -> None:
    with pytest.raises(InputError, match='objective "erm" has no penalty'):
        iv.InvariantRegressor("erm", penalty=3, steps=2).fit(np.eye(4), np.arange(4.0))


def test_says_which_column_is_text_and_what_is_for_classes() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "sex": ["m", "f", "m", "f"]})
    with pytest.raises(InputError, match='column "sex" of X holds text'):
        iv.InvariantRegressor("erm", steps=2).fit(frame, np.arange(4.0))
    with pytest.raises(InputError, match="use InvariantClassifier"):
        iv.InvariantRegressor("erm", steps=2).fit(np.eye(4), ["no", "yes", "no", "yes"])
    with pytest.raises(InputError, match="single value"):
        iv.InvariantRegressor("vrex", steps=2).fit(np.eye(4), np.arange(4.0), env="site")
    with pytest.raises(InputError, match="too large to be squared"):
        iv.InvariantRegressor("erm", steps=2).fit(np.eye(4) * 1e200, np.arange(4.0))


def test_objectives_that_compare_all_rows_get_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    import invariscope.training

    sizes = []
    original = invariscope.training.train

    def watched(*arguments: Any, settings: Any, **more: Any) -> Any:
        sizes.append(settings.batch_size)
        return original(*arguments, settings=settings, **more)

    monkeypatch.setattr(invariscope.training, "train", watched)
    X, env = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    for name, batch in (("mmd", None), ("wasserstein_matching", None), ("mmd", 7), ("vrex", None)):
        iv.InvariantRegressor(name, steps=2, batch_size=batch).fit(X, X[:, 0], env=env)
    assert sizes == [256, 64, 7, None]
