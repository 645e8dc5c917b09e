"""What estimators say to people in a hurry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

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
    with pytest.raises(InputError, match=r'column "sex" is text, not numbers \(for example "m", in 4 of 4 rows\)'):
        iv.InvariantRegressor("erm", steps=2).fit(frame, np.arange(4.0))
    with pytest.raises(InputError, match="use InvariantClassifier"):
        iv.InvariantRegressor("erm", steps=2).fit(np.eye(4), ["no", "yes", "no", "yes"])
    with pytest.raises(InputError, match="single value"):
        iv.InvariantRegressor("vrex", steps=2).fit(np.eye(4), np.arange(4.0), env="site")


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


# --- numbers too far from 1, and digits that were lost ----------------------------------------------------------------
def worlds(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2))
    return X, X[:, 0] + 0.1 * rng.normal(size=60), np.arange(60) % 2


@pytest.mark.parametrize("power", [200, -200, 31, -32])
def test_numbers_too_far_from_1_are_refused_as_in_an_audit(power: int, seed: int) -> None:
    X, y, env = worlds(seed)
    labels = np.where(y > 0, "high", "low")
    far = X * [1.0, 10.0**power]
    size = f"{np.abs(far[:, 1]).max():.0e}"
    sentence = f'column "x1" holds numbers of the order of {size}, too far from 1 to compute with: multiply it by a '
    fits: list[tuple[Any, Any]] = [(iv.InvariantRegressor, y), (iv.InvariantClassifier, labels)]
    for kind, target in fits:
        with pytest.raises(InputError, match=re.escape(sentence)):
            kind(steps=60, learning_rate=0.1).fit(far, target, env=env)
    with pytest.raises(InputError, match=re.escape(sentence)):
        iv.regret(far, y, env, n_boot=99)
    with pytest.raises(InputError, match=r"^y holds numbers of the order of .*, too far from 1 to compute with"):
        iv.InvariantRegressor(steps=60).fit(X, y * 10.0**power, env=env)
    # as told: multiplied by a constant
    model = iv.InvariantRegressor(steps=60, learning_rate=0.1).fit(far * [1.0, 10.0**-power], y, env=env)
    plain = iv.InvariantRegressor(steps=60, learning_rate=0.1).fit(X, y, env=env)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-6)


def test_digits_that_were_lost_are_told(seed: int) -> None:
    X, y, env = worlds(seed)
    frame = pd.DataFrame({"age": X[:, 0] + 1e15, "dose": X[:, 1] + 1e12})
    lost = r'column "age" holds numbers near 1e\+15 within .*: only 2 of their digits tell rows apart'
    with pytest.warns(ConvergenceWarning, match=lost):
        model = iv.InvariantRegressor(steps=60, learning_rate=0.1).fit(frame, y, env=env)
    assert len(model.notes_) == 1
    with pytest.warns(ConvergenceWarning, match="y holds numbers near"):
        iv.InvariantRegressor(steps=60, learning_rate=0.1).fit(X, y + 1e15, env=env)
    # as told: without the constant
    centred = frame - [1e15, 1e12]
    assert iv.InvariantRegressor(steps=60, learning_rate=0.1).fit(centred, y, env=env).notes_ == ()


# --- what a training came to ------------------------------------------------------------------------------------------
def test_what_became_of_the_training_is_in_the_model_and_its_files(seed: int, tmp_path: Path) -> None:
    X, y, env = worlds(seed)
    with pytest.warns(ConvergenceWarning, match=r"Raise the learning rate \(1e-30 now\), to 0.01 say"):
        model = iv.InvariantRegressor("erm", learning_rate=1e-30, steps=60).fit(X, y, env=env)
    (note,) = model.notes_
    assert note.startswith("Training hardly moved: in 60 steps the loss went from")
    path = model.to_safetensors(tmp_path / "m.safetensors")
    assert iv.InvariantRegressor.from_safetensors(path).notes_ == (note,)
    assert model.set_params(learning_rate=0.01, steps=600).fit(X, y, env=env).notes_ == ()


@pytest.mark.parametrize("kind", [iv.InvariantRegressor, iv.InvariantClassifier])
def test_a_training_that_diverged_gives_no_model(kind: Any, seed: int) -> None:
    X, y, env = worlds(seed)
    target = y if kind is iv.InvariantRegressor else (y > 0) ^ (env > 0) ^ (X[:, 1] > 1)
    model = kind("erm", learning_rate=1e30, steps=60)
    with pytest.raises(InputError, match=r"training diverged: .* lower the learning rate \(1e\+30 now\), to 0.01 say"):
        model.fit(X, target, env=env)
    assert not hasattr(model, "weights_")
    assert model.set_params(learning_rate=0.01).fit(X, target, env=env).score(X, target) > 0.1  # as told


# --- settings ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"steps": 0}, "steps is 0: give a whole number from 1 to 1,000,000,000"),
        ({"steps": True}, "steps is True: give a whole number from 1 to 1,000,000,000"),
        ({"steps": "99"}, "steps is '99': give a whole number from 1 to 1,000,000,000"),
        ({"steps": np.nan}, "steps is nan: give a whole number from 1 to 1,000,000,000"),
        ({"steps": 10**12}, "steps is 1000000000000: give a whole number from 1 to 1,000,000,000"),
        ({"steps": 10**5000}, "steps is a number of thousands of digits: give a whole number from 1 to 1,000,000,000"),
        ({"batch_size": 2.5}, "batch_size is 2.5: give a whole number of at least 1"),
        ({"patience": True}, "patience is True: give a whole number of at least 1"),
        ({"learning_rate": "0.1"}, "learning_rate is '0.1': give a number above 0"),
        ({"learning_rate": None}, "learning_rate is None: give a number above 0"),
        ({"learning_rate": np.inf}, "learning_rate is inf: give a number above 0"),
        ({"weight_decay": [1]}, "weight_decay is [1]: give a number of at least 0"),
        ({"wait": "9"}, "wait is '9': give a number of at least 0"),
        ({"ramp": None}, "ramp is None: give a number of at least 0"),
        ({"held_out": "9"}, "the held-out share is '9': give a number of at least 0 and below 1"),
        ({"held_out": True}, "the held-out share is True: give a number of at least 0 and below 1"),
        ({"dropout": None}, "dropout is None: give a number of at least 0 and below 1"),
        ({"random_state": "7"}, "random_state is '7': give a whole number from 0 to 4,294,967,295"),
        ({"random_state": 2**70}, f"random_state is {2**70}: give a whole number from 0 to 4,294,967,295"),
        ({"penalty": True}, '"weight" of objective "vrex" is True: give a number'),
        ({"penalty": np.inf}, '"weight" of objective "vrex" is inf: give a number'),
        ({"options": [1]}, 'options is [1]: give a dict of hyper-parameters, such as {"weight": 3.0}'),
        ({"activation": ["relu"]}, "activation \"['relu']\" is unknown: use one of relu, tanh, identity"),
        ({"checkpoint": 3}, "checkpoint is 3: give the name of a file"),
        ({"hidden": True}, "hidden is True: give whole numbers, such as (64, 64)"),
        ({"hidden": (-3,)}, "hidden is (-3,): give the number of units of every layer, at least 1"),
        (
            {"hidden": 10**9},
            "hidden is (1000000000,): with 2 columns that makes 4e+09 weights, and at most 100,000,000 are trained: "
            "give fewer units",
        ),
        ({"hidden": (1,) * 10**6}, "hidden has 1,000,000 layers, and at most 100 are trained: give fewer"),
        ({"hidden": (10**5,) * 101}, "hidden has 101 layers, and at most 100 are trained: give fewer"),
    ],
)
def test_settings_that_mean_nothing_are_named(settings: dict[str, Any], sentence: str, seed: int) -> None:
    X, y, env = worlds(seed)
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        iv.InvariantRegressor("vrex", **{"steps": 2, "hidden": (2,), **settings}).fit(X, y, env=env)


def test_settings_that_are_large_but_mean_something_are_taken(seed: int) -> None:
    X, y, env = worlds(seed)
    all_rows = iv.InvariantRegressor("vrex", steps=2).fit(X, y, env=env)
    settings: dict[str, Any]
    for settings in (
        {"batch_size": 10**30},
        {"patience": 10**12},
        {"random_state": np.int64(0)},
        {"steps": np.int32(2)},
    ):
        model = iv.InvariantRegressor(**{"objective": "vrex", "steps": 2, **settings}).fit(X, y, env=env)
        np.testing.assert_allclose(model.predict(X), all_rows.predict(X), rtol=1e-12)


# --- rows -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X, y: (sparse.csr_matrix(X), y), r"^X is a sparse matrix, .* give X.toarray\(\)$"),
        (lambda X, y: (X, sparse.csr_matrix(y[:, None])), r"^y is a sparse matrix, .* give y.toarray\(\)$"),
        (
            lambda X, y: (X + 1j, y),
            "^Complex data not supported: give real and imaginary parts as columns of their own$",
        ),
        (
            lambda X, y: (X, y + 1j),
            "^Complex data not supported: y holds complex numbers. Give their real part, y.real, or their size, abs",
        ),
        (lambda X, y: (np.ma.masked_less(X, 0), y), r"^X: \d+ values are masked; fill them, or drop those rows"),
        (lambda X, y: (X, np.ma.masked_less(y, 0)), r"^y: \d+ values are masked; fill them, or drop those rows"),
        (
            lambda X, y: (np.where(X[3, 1] == X, np.nan, X), y),
            r"^Input X contains NaN \(x1 1\): fill in what is missing, ",
        ),
        (lambda X, y: (pd.DataFrame({"day": pd.date_range("2024", periods=60)}), y), '^column "day" holds dates: turn'),
        (lambda X, y: (X, pd.date_range("2024", periods=60)), "^y holds dates or durations: turn it into numbers"),
        (
            lambda X, y: (pd.DataFrame(X, columns=["a", "a"]), y),
            '^X has several columns called "a": rename all but one$',
        ),
        (
            lambda X, y: (y, y),
            r"^Expected 2D array, got 1D array instead: Reshape your data either using array.reshape",
        ),
        (lambda X, y: (np.full((60, 2), "a"), y), '^column "x0" is text, not numbers'),
        (lambda X, y: (X, None), "requires y to be passed, but the target y is None: pass y=, one target per row$"),
        (lambda X, y: (X, [*y[:59], "a"]), "^y holds text: use InvariantClassifier for classes, or turn it into num"),
        (lambda X, y: (X, [*y[:59], {}]), "^y holds a dict: use InvariantClassifier for classes, or turn it into num"),
        (lambda X, y: (X, [*y[:59], None]), "^y has missing or infinite values: fill them in or drop those rows$"),
        (lambda X, y: (X, y[:9]), r"numbers of samples: \[60, 9\]: give one target per row$"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_named(change: Any, sentence: str, seed: int) -> None:
    X, y, env = worlds(seed)
    rows, target = change(X, y)
    with pytest.raises(InputError, match=sentence) as refused:
        iv.InvariantRegressor("vrex", steps=2).fit(rows, target, env=env)
    assert "\n" not in str(refused.value)


def test_what_a_mask_hides_is_not_predicted_from(seed: int) -> None:
    X, y, env = worlds(seed)
    model = iv.InvariantRegressor("vrex", steps=2).fit(np.ma.array(X), y, env=env)  # nothing is masked
    with pytest.raises(InputError, match=r"^X: \d+ values are masked"):
        model.predict(np.ma.masked_less(X, 0))
