"""Worst cases in input space: exact where inputs and representation are one, below the representation's elsewhere."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import invariscope as iv
from invariscope.criteria.worst_case.worst_case_in_inputs import worst_case_in_inputs
from invariscope.errors import InputError


def network(seed: int, inputs: int = 4, outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs)).double()


def rows(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), np.arange(n) % 3


def test_inputs_never_reach_more_than_the_representation_allows(seed: int) -> None:
    X, y = rows(seed)
    found = worst_case_in_inputs(iv.split(network(seed)), X, y, n_boot=0, seed=seed)
    assert not found.exact
    assert found.of == "log_loss"
    assert len(found.moved) == len(found.reached) == len(found.representation) >= 4
    assert np.all(np.diff(found.moved) > 0)
    assert np.all(found.reached <= found.representation * (1 + 1e-6))
    assert np.all(np.diff(found.loss) >= -1e-9)
    assert found.loss[-1] > found.loss[0] + 0.05  # something was found


def test_where_the_representation_is_an_orthogonal_map_of_the_inputs_both_are_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rows(seed)
    turned = nn.Linear(4, 4).double()
    turned.weight.data = torch.as_tensor(np.linalg.qr(rng.normal(size=(4, 4)))[0])
    model = nn.Sequential(turned, nn.Linear(4, 3).double())
    model[1].weight.data = torch.as_tensor(rng.normal(size=(3, 4)))
    found = worst_case_in_inputs(iv.split(model), X, y, n_boot=0, seed=seed)
    head = iv.split(model).head
    exact = iv.worst_case(head, iv.split(model).represent(X), y, loss="log_loss", radii=found.radii, n_boot=0)
    np.testing.assert_allclose(found.unit, exact.unit, rtol=1e-3)
    assert np.all(found.loss <= exact.upper * (1 + 1e-6))
    np.testing.assert_allclose(found.loss, exact.loss, rtol=0.02)
    np.testing.assert_allclose(found.reached, found.representation, rtol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_network_of_16_bits_is_refused_and_its_copy_is_not(dtype: torch.dtype, seed: int) -> None:
    X, y = rows(seed)
    short = network(seed).to(dtype)
    kind = "bfloat16" if dtype is torch.bfloat16 else "float16"
    message = f"^{kind} is too coarse to search for a worst case: give a copy in single precision, .float\\(\\)$"
    with pytest.raises(InputError, match=message):
        worst_case_in_inputs(iv.split(short), X, y, rows=5, n_boot=0)
    assert worst_case_in_inputs(iv.split(copy.deepcopy(short).float()), X, y, rows=5, n_boot=0).loss[-1] > 0


def test_rows_are_chosen_by_the_seed_and_their_number_is_said(seed: int) -> None:
    X, y = rows(seed, 60)
    model = iv.split(network(seed))
    one, other = (worst_case_in_inputs(model, X, y, rows=12, n_boot=0, seed=seed) for _ in range(2))
    np.testing.assert_array_equal(one.loss, other.loss)
    assert "12 of 60 rows, chosen at random, were moved." in one.notes


@pytest.mark.slow
def test_a_regression_moves_the_squared_error(seed: int) -> None:
    X, y = rows(seed)
    model = iv.split(network(seed, outputs=1), task="regression")
    found = worst_case_in_inputs(model, X, y + 0.5, n_boot=0)
    assert found.of == "squared"
    assert found.loss[0] == pytest.approx(np.mean((model.predict(X) - y - 0.5) ** 2))
    assert np.all(found.reached <= found.representation * (1 + 1e-6))


def test_the_network_is_left_as_it_was(seed: int) -> None:
    X, y = rows(seed)
    model = nn.Sequential(*network(seed), nn.Dropout(0.5))[:-1].train()
    before = copy.deepcopy(model.state_dict())
    worst_case_in_inputs(iv.split(model), X, y, n_boot=0)
    assert model.training
    assert all(value.grad is None for value in model.parameters())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"rows": 1}, "at least 2"), ({"model": nn.Linear(4, 3)}, "iv.split"), ({"y": np.zeros(3)}, "40 rows")],
    ids=["rows", "model", "y"],
)
def test_what_cannot_be_done_is_said(change: dict[str, Any], words: str, seed: int) -> None:
    X, y = rows(seed)
    with pytest.raises(InputError, match=words):
        worst_case_in_inputs(**({"model": iv.split(network(seed)), "X": X, "y": y, "n_boot": 0} | change))


def standardised_by_hand(model: Any) -> nn.Module:
    """The estimator's network, from its weights alone, on rows as its user has them."""
    layers = [nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, model.network_["outputs"])]
    weights = list(model.weights_.values())
    for layer, weight, bias in zip(layers[::2], weights[::2], weights[1::2], strict=True):
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias)
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("target", ["numbers", "two classes", "three classes"])
def test_the_split_of_an_estimator_carries_its_network(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) * [1.0, 100.0, 0.01, 5.0] + [0.0, 2000.0, 0.0, 1.0]
    score = X[:, 0] + (X[:, 1] - 2000) / 100 + 0.3 * rng.normal(size=60)
    y: Any = {
        "numbers": 50 + 10 * score,
        "two classes": np.where(score > 0, "yes", "no"),
        "three classes": np.digitize(score, [-0.5, 0.5]),
    }[target]
    kind = iv.InvariantRegressor if target == "numbers" else iv.InvariantClassifier
    model = kind("erm", hidden=(6,), activation="tanh", steps=60).fit(X, y)
    curve = worst_case_in_inputs(model.split(), X, y, n_boot=0)
    assert any("spreads of each column" in note for note in curve.notes)
    # the same from a torch module on rows that were standardised by hand: distances are in spreads
    by_hand, rows = standardised_by_hand(model), (X - X.mean(axis=0)) / X.std(axis=0)
    if target == "numbers":
        by_hand[-1].weight.data *= y.std()
        by_hand[-1].bias.data = y.mean() + y.std() * by_hand[-1].bias.data
    labels = None if target == "numbers" else model.classes_.tolist()
    expected = worst_case_in_inputs(iv.split(by_hand, classes=labels), rows, y, n_boot=0)
    assert curve.unit == pytest.approx(expected.unit, rel=1e-6)
    np.testing.assert_allclose(curve.loss, expected.loss, rtol=1e-4)
    np.testing.assert_allclose(curve.reached, expected.reached, rtol=1e-3)
    np.testing.assert_allclose(curve.representation, expected.representation, rtol=1e-3)
    assert np.all(curve.reached <= curve.representation * (1 + 1e-6))
    # at no distance it is the model's own loss
    if target == "numbers":
        assert curve.loss[0] == pytest.approx(np.mean((y - model.predict(X)) ** 2), rel=1e-6)
    else:
        truth = np.searchsorted(model.classes_, y)
        assert curve.loss[0] == pytest.approx(-np.mean(np.log(model.predict_proba(X)[np.arange(60), truth])), rel=1e-6)


def test_an_audit_asks_an_estimator_for_its_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["age", "dose", "weight"])
    y, env = frame["age"] + rng.normal(size=120), np.repeat(["a", "b", "c"], 40)
    model = iv.InvariantRegressor("vrex", hidden=(5,), steps=30).fit(frame, y, env=env)
    found = iv.audit(model, frame, y, env, n_boot=99, criteria="worst_case_in_inputs")
    assert set(found.results) == {"regret", "worst_case_in_inputs"}
    assert found["worst_case_in_inputs"].unit > 0


def test_a_pixel_that_is_nearly_always_black_turns_no_prediction(seed: int) -> None:
    """Divided by its own next to no spread, it would: R in the pixels' own units falls to a small fraction."""
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 2
    images = np.clip(rng.normal(0.5 + 0.1 * (2 * y[:, None] - 1), 0.2, size=(300, 16)), 0, 1)
    images[:, :6] = 0.0  # the border
    images[rng.integers(0, 300, 6), np.arange(6)] = 0.01  # not quite black, once
    units: dict[Any, float] = {}
    for standardise in (True, "together"):
        model = iv.InvariantClassifier("erm", hidden=(8,), steps=200, standardise=standardise).fit(images, y)
        halves = model.split()
        assert halves.input_space is not None
        network, centre, scale = halves.input_space.network, *map(torch.as_tensor, (model.centre_, model.scale_))

        def of_pixels(x: torch.Tensor, network: Any = network, c: Any = centre, s: Any = scale) -> torch.Tensor:
            scores: torch.Tensor = network((x - c) / s)
            return scores

        units[standardise] = iv.worst_case(of_pixels, images[::5], y[::5], loss="log_loss", n_boot=0).unit
        if standardise == "together":
            assert len(set(model.scale_.tolist())) == 1
            curve = worst_case_in_inputs(halves, images[::5], y[::5], n_boot=0)
            assert curve.unit * model.scale_[0] == pytest.approx(units["together"], rel=0.05)
            assert any("the spread of all columns together" in note for note in curve.notes)
    assert units[True] < 0.1 * units["together"]


@pytest.mark.slow
def test_an_audit_of_a_network_has_both_curves_and_looks_at_the_whole_representation(seed: int, tmp_path: Any) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(300, 4)).astype(np.float32), np.repeat(["a", "b", "c"], 100)
    y = np.where(X[:, 0] + (env == "c") * X[:, 1] + 0.5 * rng.normal(size=300) > 0, "yes", "no")
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 2))
    found = iv.audit(iv.split(model, classes=["no", "yes"]), X, y, env, n_boot=99, criteria="all")
    assert {"worst_case", "worst_case_in_inputs", "influence_index"} <= set(found.results)
    # 100 rows for heads of 40 features: judged by the log-odds; the index and the worst case see all features
    assert len(found["regret"].columns) == 2
    assert len(found["influence_index"].parameters) == 2 * 41
    assert any("too many for a head of its own" in note for note in found.notes)
    assert "prediction level" in found.data.representation
    # at distance 0 the worst case is the share of rows that the network gets wrong
    wrong = np.mean(np.array(["no", "yes"])[model(torch.as_tensor(X)).argmax(dim=1).numpy()] != y)
    assert found["worst_case"].loss[0] == pytest.approx(wrong)
    assert "reached from inputs" in found.to_html(tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_a_network_of_one_logit_and_labels_of_text_are_audited(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(240, 4)).astype(np.float32), np.repeat(["a", "b"], 120)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=240) > 0, "yes", "no")
    torch.manual_seed(seed)
    # without bounds on its features, every row can be made wrong
    found = iv.audit(
        nn.Sequential(nn.Linear(4, 3), nn.Identity(), nn.Linear(3, 1)),
        X,
        y,
        env,
        n_boot=99,
        criteria="worst_case_in_inputs",
    )
    assert "worst_case_in_inputs" in found.results


def test_a_network_that_always_says_the_same_has_no_unit_and_that_is_said(seed: int) -> None:
    X, y = rows(seed)
    stuck = network(seed)
    stuck[2].weight.data *= 0
    stuck[2].bias.data = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    with pytest.raises(InputError, match="no unit of distance"):
        worst_case_in_inputs(iv.split(stuck), X, y, n_boot=0)


def test_numbers_are_told_from_classes_where_the_network_does_not_say(seed: int) -> None:
    X, _ = rows(seed)
    y = np.random.default_rng(seed).normal(size=len(X))
    assert worst_case_in_inputs(iv.split(network(seed, outputs=1)), X, y, n_boot=0).of == "squared"


def test_a_loss_without_gradients_is_refused_before_the_search(seed: int) -> None:
    X, y = rows(seed)
    with pytest.raises(InputError, match="zero_one"):
        worst_case_in_inputs(iv.split(network(seed)), X, y, loss="zero_one")


def test_a_network_that_gradients_cannot_be_taken_through_is_left_out_not_fatal(seed: int) -> None:
    class Words(nn.Module):
        """An embedding of whole numbers: inputs that cannot move."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.fc = nn.Embedding(10, 2), nn.Linear(8, 2)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.fc(self.embedding(words).flatten(1))

    rng = np.random.default_rng(seed)
    X, y, env = rng.integers(0, 10, (200, 4)), np.arange(200) % 2, np.repeat(["a", "b"], 100)
    torch.manual_seed(seed)
    found = iv.audit(Words(), X, y, env, n_boot=99, criteria="all")
    assert "regret" in found.results
    assert "cannot be followed by gradients" in found.left_out["worst_case_in_inputs"]
