"""iv.worst_case: cases known by hand, laws every curve obeys, what happens at the edges, and real digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invariscope import InputError, LinearHead, worst_case
from invariscope.criteria.worst_case import log_loss
from invariscope.criteria.worst_case.curve import TOLERANCE
from invariscope.results import WorstCaseResult
from invariscope.rows import blocks
from tests.reference.worst_case import by_transport

CLASS_LOSSES = ("log_loss", "hinge", "zero_one")
TWO = LinearHead([[-1.0], [1.0]], [0.0, 0.0])


def example(classes: int, seed: int, n: int = 60, d: int = 4) -> tuple[LinearHead, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, classes])
    W = rng.normal(size=(classes, d))
    Z = rng.normal(size=(n, d))
    y = np.argmax(Z @ W.T + rng.gumbel(size=(n, classes)), axis=1)
    return LinearHead(W, 0.2 * rng.normal(size=classes)), Z, y


def curve(head: LinearHead, Z: Any, y: Any, loss: str, radii: Any, **options: Any) -> WorstCaseResult:
    return worst_case(head, Z, y, loss=loss, radii=radii, **{"n_boot": 0, **options})


# --- known by hand ------------------------------------------------------------------------------------------------
def test_error_rate_of_two_rows() -> None:
    head = LinearHead([[0.0], [1.0]], [0.0, 0.0])
    found = curve(head, [[1.0], [3.0]], [1, 1], "zero_one", np.sqrt([0, 0.25, 0.5, 2.75, 5, 9]))
    np.testing.assert_allclose(found.loss, [0, 0.25, 0.5, 0.75, 1, 1], atol=1e-12)
    np.testing.assert_allclose(found.gamma, [1, 1, 1 / 9, 1 / 9, 0, 0])
    assert found.unit == pytest.approx(math.sqrt(5))
    assert found.saturates_at == pytest.approx(math.sqrt(5))
    assert found.value == pytest.approx(0.5 + (1.25 - 0.5) / 9)  # ρ² = 5/4: one row whole, a twelfth of the other


def test_hinge_loss_of_two_rows() -> None:
    radii = np.array([0.0, 0.5, 1.5 * math.sqrt(2), 2.5, 3.0, 5.0])
    expected = [0, math.sqrt(2) * 0.5, 3, 2.5**2 / 3 + 1.5, 4.5, 8.5]
    np.testing.assert_allclose(curve(TWO, [[0.5], [2.0]], [1, 1], "hinge", radii).loss, expected, atol=1e-12)


def test_squared_loss_of_two_rows() -> None:
    found = curve(LinearHead([3.0, 4.0], 0.0), [[1, 0], [0, 1]], [2, 11], "squared", [0, 0.2, 1])
    np.testing.assert_allclose(found.loss, [25, 36, 100], rtol=1e-12)
    np.testing.assert_allclose(found.gamma[1:], [25 + 5 * 5 / 0.2, 25 + 5 * 5], rtol=1e-12)
    assert found.unit == pytest.approx(1.0)  # 5 / 5
    assert found.value == pytest.approx(7.5**2)


@pytest.mark.parametrize("head", [TWO, LinearHead([2.0], 0.0), LinearHead([[-1.0], [1.0], [0.0]], [0, 0, -1e5])])
def test_cross_entropy_of_one_row(head: LinearHead) -> None:
    """One row on the boundary: moved by ρ against its class, log(1 + e^{2ρ}); the third class is out of reach."""
    found = curve(head, [[0.0]], [1], "log_loss", [0, 0.1, 0.5, 2])
    np.testing.assert_allclose(found.loss, np.log1p(np.exp(2 * found.radii)), atol=1e-6)
    np.testing.assert_allclose(found.lower, found.upper, rtol=1e-4)
    assert found.gamma[2] == pytest.approx(2 / (1 + math.exp(-1)), abs=1e-6)
    assert found.gamma[2] == pytest.approx(1.46211716, abs=1e-6)


def test_relative_radii_are_multiples_of_the_unit(seed: int) -> None:
    head, Z, y = example(3, seed)
    one = curve(head, Z, y, "zero_one", [0.0, 0.5, 1.0], relative=True)
    np.testing.assert_allclose(one.relative, [0, 0.5, 1.0])
    assert one.loss[1] == pytest.approx(one.value)
    assert one.loss[2] == pytest.approx(1.0)
    assert one.loss[0] == pytest.approx(np.mean(np.argmax(head.scores(Z), axis=1) != y))
    default = worst_case(head, Z, y, n_boot=0)
    np.testing.assert_allclose(default.relative, np.linspace(0, 1.5, 50))


# --- laws ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("name", CLASS_LOSSES)
def test_curves_rise_and_are_concave_in_the_squared_radius(name: str, classes: int, seed: int) -> None:
    head, Z, y = example(classes, seed)
    found = curve(head, Z, y, name, np.sqrt(np.linspace(0, 9, 40)))
    assert np.all(found.lower <= found.loss)
    assert np.all(found.loss <= found.upper)
    for values, slack in ((found.lower, 1e-9), (found.loss, 1e-4)):
        assert np.all(np.diff(values) >= -1e-12)
        assert np.all(np.diff(values, 2) <= slack * values[-1])
    scores = head.scores(Z)
    own = scores[np.arange(len(y)), y]
    others = np.where(np.arange(classes) == y[:, None], -np.inf, scores).max(axis=1)
    start = {
        "log_loss": np.logaddexp.reduce(scores, axis=1) - own,
        "hinge": np.maximum(0, 1 + others - own),
        "zero_one": others >= own,
    }
    assert found.loss[0] == found.lower[0] == found.upper[0] == pytest.approx(np.mean(start[name]))


@pytest.mark.parametrize("classes", [2, 5])
def test_errors_are_below_hinge_and_below_cross_entropy_in_bits(classes: int, seed: int) -> None:
    head, Z, y = example(classes, seed)
    found = worst_case(head, Z, y, loss=("zero_one", "hinge", "log_loss"), n_boot=0)
    assert found.of == "zero_one"
    assert list(found.others) == ["hinge", "log_loss"]
    for other in found.others.values():
        np.testing.assert_array_equal(other.radii, found.radii)
    assert np.all(found.loss <= found.others["hinge"].loss + 1e-12)
    assert np.all(found.loss <= found.others["log_loss"].lower / math.log(2) + 1e-12)


@pytest.mark.parametrize("name", CLASS_LOSSES)
@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e5])
def test_units_of_the_representation_do_not_matter(name: str, factor: float, seed: int) -> None:
    head, Z, y = example(4, seed)
    radii = np.linspace(0, 3, 12)
    one = curve(head, Z, y, name, radii)
    other = curve(LinearHead(head.weight / factor, head.bias), Z * factor, y, name, radii * factor)
    for part in ("loss", "lower", "upper"):
        np.testing.assert_allclose(getattr(other, part), getattr(one, part), rtol=1e-7)
    np.testing.assert_allclose(other.gamma[1:] * factor**2, one.gamma[1:], rtol=1e-6)
    assert other.unit == pytest.approx(one.unit * factor)
    assert other.value == pytest.approx(one.value, rel=1e-7)


def test_squared_loss_does_not_know_units_either(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y, w = rng.normal(size=(30, 3)), rng.normal(size=30), rng.normal(size=3)
    one = curve(LinearHead(w, 0.3), Z, y, "squared", [0, 1, 2])
    other = curve(LinearHead(w / 50, 0.3), Z * 50, y, "squared", [0, 50, 100])
    np.testing.assert_allclose(other.loss, one.loss, rtol=1e-10)


@pytest.mark.parametrize("name", CLASS_LOSSES)
def test_weights_are_repeated_rows(name: str, seed: int) -> None:
    head, Z, y = example(4, seed)
    weight = np.random.default_rng(seed).integers(0, 4, len(y))
    radii = np.linspace(0, 3, 12)
    weighted = curve(head, Z, y, name, radii, weight=weight)
    repeated = curve(head, np.repeat(Z, weight, axis=0), np.repeat(y, weight), name, radii)
    for part in ("loss", "lower", "upper"):
        np.testing.assert_allclose(getattr(weighted, part), getattr(repeated, part), rtol=1e-8)
    assert weighted.unit == pytest.approx(repeated.unit)


def test_a_common_weight_vector_and_a_single_output_change_nothing(seed: int) -> None:
    head, Z, y = example(2, seed)
    shifted = LinearHead(head.weight + np.array([5.0, -3.0, 1.0, 9.0]), head.bias - 2.0)
    single = LinearHead(head.weight[1] - head.weight[0], head.bias[1] - head.bias[0])
    for name in CLASS_LOSSES:
        one = curve(head, Z, y, name, [0, 0.5, 2])
        for other in (shifted, single):
            np.testing.assert_allclose(curve(other, Z, y, name, [0, 0.5, 2]).loss, one.loss, rtol=1e-7)


def test_single_precision_is_read_as_double(seed: int) -> None:
    head, Z, y = example(3, seed)
    Z = Z.astype(np.float32)
    one, other = (curve(head, values, y, "log_loss", [0.5, 2]) for values in (Z, Z.astype(float)))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    assert one.loss.dtype == np.float64


def test_radii_keep_their_order(seed: int) -> None:
    head, Z, y = example(3, seed)
    for name in CLASS_LOSSES:
        up, down = (curve(head, Z, y, name, radii).loss for radii in ([0, 1, 2, 2], [2, 2, 1, 0]))
        np.testing.assert_allclose(down, up[::-1], rtol=1e-12)


def test_bands_hold_the_curve_and_shrink_with_rows(seed: int) -> None:
    widths = []
    for n in (100, 1600):
        head, Z, y = example(3, seed, n=n)
        found = worst_case(head, Z, y, loss=CLASS_LOSSES, radii=[0, 0.5, 1], n_boot=499)
        for result in (found, *found.others.values()):
            assert np.all(result.band[0] <= result.loss + 1e-12)
            assert np.all(result.loss <= result.band[1] + 1e-12)
        widths.append(np.diff(found.band, axis=0)[0])
    np.testing.assert_allclose(widths[0] / widths[1], 4, rtol=0.5)


# --- the edges ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CLASS_LOSSES)
@pytest.mark.parametrize("head", [LinearHead(np.ones((3, 2)), [0, 1, -1]), LinearHead(np.zeros((3, 2)), [0, 1, -1])])
def test_a_constant_head_has_a_flat_curve_and_no_unit(name: str, head: LinearHead) -> None:
    found = worst_case(head, [[1.0, 2.0], [3.0, 4.0]], [1, 0], loss=name, radii=[0, 5])
    scores = {"log_loss": math.log(1 + math.e + 1 / math.e) - 0.5, "hinge": (0 + 2) / 2, "zero_one": 0.5}
    np.testing.assert_allclose(found.loss, scores[name], rtol=1e-12)
    assert found.unit == math.inf
    assert found.value == pytest.approx(scores[name])
    assert any("flat" in note for note in found.notes)
    assert worst_case(head, [[1.0, 2.0]], [1], loss=name).radii.tolist() == [0.0]
    with pytest.raises(InputError, match="relative radii mean nothing"):
        worst_case(head, [[1.0, 2.0]], [1], loss=name, radii=[1], relative=True)


def test_two_equal_classes_of_three() -> None:
    """w_0 = w_1: no move tells them apart, and the third class is what matters."""
    head = LinearHead([[0.0], [0.0], [1.0]], [1.0, 0.0, 0.0])
    found = curve(head, [[-1.0]], [0], "zero_one", [0, 1, 2])
    np.testing.assert_allclose(found.loss, [0, 0.25, 1])  # level with class 2 at z = 1: d = 2
    already = curve(head, [[-1.0]], [1], "zero_one", [0, 1])
    assert already.loss.tolist() == [1, 1]
    hinge = curve(head, [[-1.0]], [0], "hinge", [0, 3])
    np.testing.assert_allclose(hinge.loss, [0, 1 + (-2) + 3])  # a = 1 − 2, slope 1
    entropy = curve(head, [[-1.0]], [0], "log_loss", [0, 3])
    places = np.linspace(-1, 19, 20001)
    losses = np.log(math.e + 1 + np.exp(places)) - 1
    plan = by_transport(losses[None], np.array([[-1.0]]), places[None, :, None], 3.0)  # mass is split here
    np.testing.assert_allclose(entropy.loss, [losses[0], plan], rtol=1e-5)
    assert plan > 1.005 * np.interp(2.0, places, losses)


@pytest.mark.parametrize("name", CLASS_LOSSES)
def test_rows_that_are_all_wrong_have_no_unit_but_a_curve(name: str) -> None:
    found = worst_case(TWO, [[-1.0], [-2.0]], [1, 1], loss=name, radii=[0, 1])
    expected = {
        "log_loss": [np.mean(np.log1p(np.exp([2.0, 4.0])))],
        "hinge": [4.0, 6.0],  # 1 + 2|z|, and both rows move by 1
        "zero_one": [1.0, 1.0],
    }[name]
    np.testing.assert_allclose(found.loss[: len(expected)], expected, rtol=1e-12)
    assert found.unit == 0
    assert found.value == pytest.approx(expected[0])
    assert any("no natural unit" in note for note in found.notes)
    assert worst_case(TWO, [[-1.0]], [1], loss=name).radii.tolist() == [0.0]


@pytest.mark.parametrize("classes", [2, 3])
def test_separable_rows_with_huge_scores_jump_one_by_one(classes: int) -> None:
    """Margins of 10⁵: cross-entropy is then the hinge without its 1, and φ jumps when a row is worth moving."""
    W = np.array([[-1.0], [1.0], [0.0]])[:classes] * 1e5
    head = LinearHead(W, [0.0, 0.0, -1e7][:classes])
    radii = [0.0, 0.5, 1.0, 2.0]
    found = curve(head, [[1.0]], [1], "log_loss", radii)
    # one row at distance 1: mass 1/m goes to distance 2 (loss 2·10⁵ · (√m ρ − 1)); best at √m ρ = 2 while ρ ≤ 2
    np.testing.assert_allclose(found.loss, 2e5 * np.array([0, 0.0625, 0.25, 1.0]), rtol=2e-3)
    assert np.all(np.isfinite(found.upper))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_huge_radii_follow_the_steepest_difference(classes: int, seed: int) -> None:
    head, Z, y = example(classes, seed, n=20)
    radius = 1e7
    slope = [max(np.sum((head.weight - head.weight[label]) ** 2, axis=1)) for label in y]
    rate = math.sqrt(np.mean(slope))
    for name in ("log_loss", "hinge"):
        found = curve(head, Z, y, name, [radius])
        assert found.loss[0] == pytest.approx(rate * radius, rel=1e-5)
        assert found.upper[0] == pytest.approx(rate * radius, rel=2e-3)
    assert curve(head, Z, y, "zero_one", [radius]).loss[0] == 1


@pytest.mark.parametrize("radius", [1e-9, 1e-4])
def test_tiny_radii_follow_the_gradient(radius: float, seed: int) -> None:
    head, Z, y = example(3, seed)
    away = head.probabilities(Z) - np.eye(3)[y]
    rate = math.sqrt(np.mean(np.sum((away @ head.weight) ** 2, axis=1)))
    found = curve(head, Z, y, "log_loss", [0, radius])
    assert (found.loss[1] - found.loss[0]) / radius == pytest.approx(rate, rel=5e-3)
    assert found.gamma[1] == pytest.approx(rate / (2 * radius), rel=5e-3)


def test_one_row_of_one_class_and_no_band() -> None:
    found = worst_case(LinearHead(np.eye(3), np.zeros(3)), [[2.0, 0.0, 0.0]], [0], radii=[1.0])
    assert found.band[0, 0] == pytest.approx(found.loss[0])
    assert found.band[1, 0] == pytest.approx(found.loss[0])
    assert np.isnan(worst_case(TWO, [[0.0]], [1], radii=[1.0], n_boot=0).band).all()


# --- other heads, real digits ---------------------------------------------------------------------------------------
def test_a_torch_head_is_searched_and_a_linear_one_gives_the_same_curve(seed: int) -> None:
    torch = pytest.importorskip("torch")
    head, Z, y = example(3, seed)
    layer = torch.nn.Linear(4, 3).double()
    layer.weight.data, layer.bias.data = torch.tensor(head.weight.copy()), torch.tensor(head.bias.copy())
    exact = worst_case(head, Z, y, radii=[0, 0.2, 0.6], relative=True, n_boot=0)
    same = worst_case(layer, Z, y, radii=[0, 0.2, 0.6], relative=True, n_boot=0)
    np.testing.assert_array_equal(same.loss, exact.loss)  # a linear layer is a linear head
    found = worst_case(torch.nn.Sequential(layer), Z, y, radii=[0, 0.2, 0.6], relative=True, n_boot=0)
    assert not found.exact
    assert any("not linear" in note for note in found.notes)
    assert found.unit == pytest.approx(exact.unit, rel=1e-3)
    np.testing.assert_allclose(found.loss, exact.loss, rtol=2e-3)
    assert np.all(found.lower <= exact.upper * (1 + 1e-9))


@pytest.mark.parametrize("hidden", [0, 64])
def test_bounds_on_real_digits_are_close(hidden: int, data_file: Callable[[str], Path], seed: int) -> None:
    """K = 10, pixels or 64 learnt features, radii up to 1.5 R: the certificate is within 3 %."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    from invariscope.datasets.images.mnist import read_idx

    images = read_idx(data_file("mnist/t10k-images-idx3-ubyte.gz"), 3)[:1500, ::2, ::2].reshape(1500, -1) / 255.0
    digits = read_idx(data_file("mnist/t10k-labels-idx1-ubyte.gz"), 1)[:1500].astype(int)
    if hidden:
        model = MLPClassifier((hidden,), max_iter=12, tol=0, n_iter_no_change=99, random_state=seed)
        with pytest.warns(UserWarning, match="converged"):
            model.fit(images, digits)
        Z = np.maximum(images @ model.coefs_[0] + model.intercepts_[0], 0)
        head = LinearHead(model.coefs_[1].T, model.intercepts_[1])
    else:
        model = LogisticRegression(C=0.1, max_iter=500).fit(images, digits)
        Z, head = images, LinearHead(model.coef_, model.intercept_)
    found = worst_case(head, Z, digits, n_boot=0)
    assert found.relative[-1] == pytest.approx(1.5)
    gap = (found.upper - found.lower) / found.loss
    assert np.all(gap >= 0)
    assert np.max(gap) < 0.03
    assert np.max(1 - found.lower / found.loss) < TOLERANCE  # what the spacing of multipliers may leave


@pytest.mark.parametrize(("many", "behind"), [(5, 8.0), (99, 8.0), (999, 20.0)])
def test_many_equal_classes_are_one_class_that_is_more_likely(many: int, behind: float) -> None:
    """m classes of the same weights and bias b are one class of bias b + log m: two classes, solved exactly."""
    weight, bias = np.r_[[[0.0]], np.ones((many, 1))], np.r_[0.0, np.full(many, -behind)]
    radii = behind * np.linspace(0.1, 1.2, 12)
    found = worst_case(LinearHead(weight, bias), [[0.0]], [0], radii=radii, n_boot=0)
    one = worst_case(LinearHead([[1.0]], [-behind + math.log(many)]), [[0.0]], [0], radii=radii, n_boot=0)
    np.testing.assert_allclose(found.loss, one.loss, rtol=1e-5)
    assert np.all(found.upper >= one.loss * (1 - 1e-9))


def test_weights_that_differ_by_little_still_differ() -> None:
    head = LinearHead([[1.0, 0.0], [1.0, 1e-8]], [0.0, 0.0])  # log-odds 1e-8 z₂, whatever z₁ is
    plain = LinearHead([[1.0]], [0.0])
    found = worst_case(head, [[0.0, 1e8], [3.0, 2e8]], [1, 1], radii=[1e8], n_boot=0)
    expected = worst_case(plain, [[1.0], [2.0]], [1, 1], radii=[1.0], n_boot=0)
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-9)
    assert found.unit == pytest.approx(1e8 * expected.unit)


def test_a_class_with_huge_weights_does_not_hide_the_others() -> None:
    head = LinearHead([[1e8], [0.0], [1.0]], [-1e12, 0.0, 0.0])
    assert worst_case(head, [[2.0], [3.0]], [2, 2], loss="zero_one", n_boot=0).unit == pytest.approx(math.sqrt(6.5))


def test_labels_that_were_sorted_are_said(seed: int) -> None:
    head, Z, y = example(3, seed)
    names = np.array(["lo", "mid", "hi"])[y]
    sorted_by_us = worst_case(head, Z, names, loss="zero_one", n_boot=0)
    assert "The head's outputs were taken to be, in this order: hi, lo, mid." in sorted_by_us.notes
    told = worst_case(head, Z, names, classes=np.array(["lo", "mid", "hi"]), loss="zero_one", n_boot=0)
    np.testing.assert_array_equal(told.loss, worst_case(head, Z, y, loss="zero_one", n_boot=0).loss)
    assert not any("in this order" in note for note in told.notes)


def test_environments_of_weight_zero_rows_do_not_fail() -> None:
    rng = np.random.default_rng(0)
    Z, y, env = rng.normal(size=(40, 2)), np.arange(40) % 2, (np.arange(40) // 2) % 2
    weight = (np.arange(40) < 8).astype(float)
    found = worst_case(LinearHead(np.eye(2), [0, 0]), Z, y, env=env, weight=weight, n_boot=0)
    assert np.isnan(found.apart).all()


def test_only_what_is_known_but_for_rounding_is_called_exact(seed: int) -> None:
    head, Z, y = example(3, seed)
    found = worst_case(head, Z, y, loss=["zero_one", "hinge", "log_loss"], n_boot=0)
    assert (found.exact, found.others["hinge"].exact, found.others["log_loss"].exact) == (True, True, False)
    head, Z, y = example(2, seed)
    assert worst_case(head, Z, y, n_boot=0).exact


def test_environments_of_a_searched_head_are_checked(seed: int) -> None:
    torch = pytest.importorskip("torch")
    _, Z, y = example(3, seed)
    network = torch.nn.Sequential(torch.nn.Linear(4, 3)).double()
    with pytest.raises(InputError, match="env has 3: give one value per row"):
        worst_case(network, Z, y, env=np.zeros(3), radii=[0.1], n_boot=0)
    found = worst_case(network, Z, y, env=np.arange(len(Z)) % 2, radii=[0.1], n_boot=0)
    assert any("linear heads only" in note for note in found.notes)


def test_the_number_of_threads_changes_no_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a sweep are solved in blocks, each by itself; three blocks here."""
    monkeypatch.setattr(log_loss, "BLOCK", 30)
    head, Z, y = example(3, seed, n=80)
    curves = []
    for count in (1, 2, 5):
        monkeypatch.setattr(blocks, "workers", lambda count=count: count)
        curves.append(curve(head, Z, y, "log_loss", [0.0, 0.3, 1.0]))
    for other in curves[1:]:
        for name in ("loss", "lower", "upper", "gamma"):
            assert np.array_equal(getattr(other, name), getattr(curves[0], name)), name
    monkeypatch.setattr(log_loss, "BLOCK", 80)  # nor do the blocks: fixed points know nothing of their neighbours
    np.testing.assert_allclose(curve(head, Z, y, "log_loss", [0.0, 0.3, 1.0]).loss, curves[0].loss, rtol=1e-9)


def test_a_head_of_extreme_weights_is_refused() -> None:
    rng = np.random.default_rng(0)
    Z, env = rng.normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    for head in (LinearHead([1e300, 0.0], 0.0), LinearHead([1.0, 0.0], -1e300)):
        with pytest.raises(
            InputError,
            match=r"^the head has weights of the order of 1e\+300, too far from 1 to compute with: give weight and "
            r"bias in the units of Z and y$",
        ):
            worst_case(head, Z, Z[:, 0], env, n_boot=0)
    assert np.isfinite(worst_case(LinearHead([1.0, 0.0], 0.0), Z, rng.normal(size=40), env, n_boot=0).value)


@pytest.mark.parametrize("grouped", [True, False])
def test_lost_digits_are_noted(grouped: bool) -> None:
    rng = np.random.default_rng(0)
    Z, y, env = rng.normal(size=(40, 1)), rng.normal(size=40), np.repeat(["a", "b"], 20) if grouped else None
    head = LinearHead([1.0], 0.0)
    for rows, target, place in ((Z + 1e15, y, 'Column "x0"'), (Z, y + 1e15, 'Target "y"')):
        notes = worst_case(head, rows, target, env, n_boot=0).notes
        assert sum(note.startswith(f"{place} holds numbers near 1e+15 within") for note in notes) == 1
    assert not any("holds numbers near" in note for note in worst_case(head, Z, y, env, n_boot=0).notes)
