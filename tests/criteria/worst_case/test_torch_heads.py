"""Worst cases by search: against closed forms where the head is linear, against a fine grid where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import invariscope as iv
from invariscope.criteria.worst_case import torch_heads
from invariscope.criteria.worst_case.curve import curve_of
from invariscope.criteria.worst_case.torch_heads import lipschitz_constant, nearest_wrong, sweep, unit_of, worst_points
from invariscope.errors import InputError

Floats = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def linear(weight: Any, bias: Any = None) -> nn.Linear:
    weight = torch.tensor(weight, dtype=torch.float64)
    head = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
    head.weight.data = weight
    head.bias.data = torch.zeros(len(weight)).double() if bias is None else torch.tensor(bias).double()
    return head


def known(head: nn.Linear) -> iv.LinearHead:
    return iv.LinearHead(head.weight.detach().numpy(), head.bias.detach().numpy())


def curve(head: Any, Z: Any, y: Any, loss: str, radii: Any, **options: Any) -> tuple[Floats, Floats, Floats]:
    radii = np.asarray(radii, dtype=float)
    found, start, lipschitz = sweep(head, Z, y, loss, radius=float(radii.max()), **options)
    return curve_of(found, start, radii, None, lipschitz)[:3]


def drawn(seed: int, rows: int = 200, width: int = 12, classes: int = 4) -> tuple[nn.Linear, Floats, Any]:
    rng = np.random.default_rng(seed)
    weight, bias = 0.7 * rng.normal(size=(classes, width)), 0.3 * rng.normal(size=classes)
    Z = rng.normal(size=(rows, width))
    y = (Z @ weight.T + bias + rng.gumbel(size=(rows, classes))).argmax(axis=1)
    return linear(weight, bias), Z, y


# --- linear heads, for which the answer is known ----------------------------------------------------------------------
@pytest.mark.parametrize(("loss", "gap"), [("log_loss", 0.002), ("hinge", 0.01), ("zero_one", 1e-6)])
def test_finds_what_closed_forms_find(loss: str, gap: float, seed: int) -> None:
    head, Z, y = drawn(seed)
    exact = iv.worst_case(known(head), Z, y, loss=loss, n_boot=0)
    point, lower, _ = curve(head, Z, y, loss, exact.radii)
    np.testing.assert_allclose(point, exact.loss, rtol=gap)
    assert (lower <= exact.upper * (1 + 1e-9)).all()
    assert unit_of(head, Z, y, loss) == pytest.approx(exact.unit, rel=1e-4)


@pytest.mark.slow
def test_two_classes_with_one_score(seed: int) -> None:
    head, Z, y = drawn(seed, classes=2)
    weight, bias = known(head).weight, known(head).bias
    one = linear(weight[1:] - weight[:1], bias[1:] - bias[:1])
    radii = np.linspace(0, 3, 7)
    for loss in ("log_loss", "hinge", "zero_one"):
        np.testing.assert_allclose(curve(one, Z, y, loss, radii)[0], curve(head, Z, y, loss, radii)[0], rtol=1e-3)


def test_squared_error_grows_by_the_norm_of_the_weights() -> None:
    point, lower, _ = curve(linear([[3.0, 4.0]]), np.eye(2), [2.0, 11.0], "squared", [0.0, 0.2, 1.0])
    np.testing.assert_allclose(point, [25, 36, 100], rtol=1e-3)
    assert (lower <= np.array([25, 36, 100]) * (1 + 1e-9)).all()
    assert unit_of(linear([[3.0, 4.0]]), np.eye(2), [2.0, 11.0], "squared") == pytest.approx(1)


def test_hinge_with_a_kink() -> None:
    """√2ρ up to 1.5√2, where the first row has gone as far as pays, then ρ²/3 + 1.5 up to 3, then 2ρ − 1.5."""
    radii = np.array([0.5, 1.5, 2.0, 2.5, 3.0, 4.0])
    beyond = np.where(radii <= 3, radii**2 / 3 + 1.5, 2 * radii - 1.5)
    expected = np.where(radii <= 1.5 * 2**0.5, 2**0.5 * radii, beyond)
    point, lower, _ = curve(linear([[-1.0], [1.0]]), [[0.5], [2.0]], [1, 1], "hinge", radii)
    np.testing.assert_allclose(point, expected, rtol=0.05)  # two rows: few corners to go through
    assert (lower <= expected * (1 + 1e-6)).all()


def test_errors_of_two_rows() -> None:
    squares = np.array([0, 0.25, 0.5, 2.75, 5, 9])
    point, lower, _ = curve(linear([[0.0], [1.0]]), [[1.0], [3.0]], [1, 1], "zero_one", np.sqrt(squares))
    np.testing.assert_allclose(lower, [0, 0.25, 0.5, 0.75, 1, 1], atol=1e-3)
    assert (point >= lower).all()


def test_worst_points_of_cross_entropy() -> None:
    found = worst_points(linear([[-1.0], [1.0]]), torch.zeros(3, 1).double(), [1, 1, 0], "log_loss", 1.46211716)
    torch.testing.assert_close(found, torch.tensor([[-0.5], [-0.5], [0.5]]).double(), atol=1e-5, rtol=0)


def test_a_row_far_from_all_boundaries_is_moved_across() -> None:
    """Its gradient is e⁻³⁰: who climbs from where it is never gets anywhere."""
    _, lower, _ = curve(linear([[-1.0], [1.0]]), [[15.0]], [1], "log_loss", [0.0, 30.0])
    assert lower[1] == pytest.approx(30.0, rel=0.05)  # log(1 + e³⁰)


# --- heads that are not linear, against a grid ------------------------------------------------------------------------
class Waves(nn.Module):
    """Two scores of one number, with many local maxima."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(z), 2 * torch.sin(2 * z) + 0.5 * z], dim=1)


def grid_dual(head: nn.Module, Z: Floats, y: Any, losses_of: Any, radii: Floats) -> Floats:
    """min over γ of γρ² + mean of the largest loss − γ distance² on a fine grid."""
    grid = np.linspace(-15, 15, 6001)
    with torch.no_grad():
        scores = head(torch.tensor(grid)[:, None]).numpy()
    each = np.stack([losses_of(scores, code) for code in y])  # (n, grid)
    away = (grid - Z) ** 2
    gammas = np.geomspace(1e-3, 1e3, 250)
    means = np.array([(each - gamma * away).max(axis=1).mean() for gamma in gammas])
    return np.min(np.outer(radii**2, gammas) + means, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_finds_most_of_what_a_grid_finds(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(60, 1)), rng.integers(0, 2, 60)

    def losses_of(scores: Floats, code: int) -> Floats:
        lead = scores[:, 1 - code] - scores[:, code]
        return np.logaddexp(0, lead) if loss == "log_loss" else np.maximum(0, 1 + lead)

    radii = np.array([0.1, 0.3, 0.6, 1.0, 1.5])
    expected = grid_dual(Waves(), Z, y, losses_of, radii)
    _, lower, _ = curve(Waves(), Z, y, loss, radii)
    assert (lower <= expected * (1 + 1e-6)).all()
    assert (lower >= np.array([0.97, 0.97, 0.93, 0.8, 0.8]) * expected).all()  # far off there are ever more maxima


def test_distance_to_a_circle(seed: int) -> None:
    """Inside the unit circle one class, outside the other."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(40, 2))
    radius = np.linalg.norm(Z, axis=1)
    y = (radius > 1).astype(int)
    found = nearest_wrong(lambda z: torch.stack([1 - (z**2).sum(1), (z**2).sum(1) - 1], 1), Z, y)
    np.testing.assert_allclose(found, np.abs(radius - 1), rtol=1e-3, atol=1e-5)
    assert not nearest_wrong(lambda z: torch.stack([1 - (z**2).sum(1), (z**2).sum(1) - 1], 1), Z, 1 - y).any()


def test_inputs_cannot_do_worse_than_the_representation_they_lead_to(seed: int) -> None:
    """Where worst inputs are taken to is within their distance there, so the exact curve there is an upper bound."""
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        represent, head = nn.Sequential(nn.Linear(6, 16), nn.Tanh()).double(), nn.Linear(16, 3).double()
    head.weight.data *= 4
    X = rng.normal(size=(80, 6))
    with torch.no_grad():
        Z = represent(torch.tensor(X)).numpy()
        y = head(torch.tensor(Z)).argmax(1).numpy()
    for gamma in (2.0, 0.5):
        worst = worst_points(nn.Sequential(represent, head), X, y, "log_loss", gamma)
        with torch.no_grad():
            there = represent(worst)
            reached = float(nn.functional.cross_entropy(head(there), torch.tensor(y)))
        far = float(np.sqrt(((there.numpy() - Z) ** 2).sum(axis=1).mean()))
        exact = iv.worst_case(
            known(head),
            Z,
            y,
            loss="log_loss",
            radii=[0, far],
            n_boot=0,
        )
        assert exact.loss[0] < reached <= exact.upper[1] * (1 + 1e-9)
        assert reached - exact.loss[0] > 0.1 * (exact.loss[1] - exact.loss[0])


# --- how networks are treated -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_are_left_as_they_were(dtype: torch.dtype, seed: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(48, 3))
        network = nn.Sequential(*layers)
    network.to(dtype)
    network[1].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    images = np.random.default_rng(seed).normal(size=(20, 1, 6, 6))
    y = np.arange(20) % 3
    point, lower, _ = curve(network, images, y, "log_loss", [0.0, 0.5, 1.0])
    assert point[0] < point[1] < point[2]
    assert (lower <= point + 1e-9).all()
    assert [module.training for module in network] == [True, False, True, True, True, True]
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in network.parameters())
    found = worst_points(network, images, y, "hinge", 0.5)
    assert found.shape == (20, 1, 6, 6)
    assert found.dtype == dtype


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log_loss", "zero_one", "squared"])
def test_few_rows_at_a_time_give_the_same(loss: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    head, Z, y = drawn(seed, rows=50)
    if loss == "squared":
        head, y = linear(head.weight[:1].detach().numpy()), Z[:, 0]
    whole = sweep(head, Z, y, loss, radius=2.0)
    monkeypatch.setattr(torch_heads, "NUMBERS_AT_ONCE", 12 * 12 * 7)
    parts = sweep(head, Z, y, loss, radius=2.0)
    np.testing.assert_allclose(parts[0].gamma, whole[0].gamma)
    np.testing.assert_allclose(parts[0].loss, whole[0].loss, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(parts[0].moved, whole[0].moved, rtol=1e-4, atol=1e-8)


def test_works_where_gradients_are_switched_off(seed: int) -> None:
    head, Z, y = drawn(seed, rows=20)
    with torch.no_grad():
        found, _, _ = sweep(head, Z, y, "log_loss", radius=1.0)
    assert found.moved[-1].mean() > 1


def test_a_head_that_says_the_same_everywhere_has_a_flat_curve() -> None:
    for loss in ("log_loss", "hinge", "zero_one"):
        point, lower, _ = curve(linear([[0.0], [0.0]], [1.0, 0.0]), [[1.0], [2.0]], [0, 0], loss, [0.0, 1.0])
        np.testing.assert_allclose(point, lower)
        assert point[0] == pytest.approx({"log_loss": np.log(1 + np.exp(-1))}.get(loss, 0.0))


def test_weights_count_rows(seed: int) -> None:
    """The multipliers suit the rows that count: those without weight are far from any boundary."""
    head = linear([[-1.0], [1.0]])
    Z, y = np.concatenate([np.full((5, 1), 1.0), np.full((5, 1), 50.0)]), np.ones(10, int)
    weight = np.repeat([1.0, 0.0], 5)
    found, start, _ = sweep(head, Z, y, "log_loss", radius=2.0, weight=weight, seed=seed)
    assert np.sqrt(found.moved @ weight / 5).max() > 2.0
    loss, _, _, _ = curve_of(found, start, np.array([2.0]), weight, None)
    assert loss[0] == pytest.approx(np.log1p(np.exp(2.0)), rel=0.01)  # from 1 to −1


# --- Lipschitz constants ----------------------------------------------------------------------------------------------
def test_lipschitz_constant_bounds_slopes(seed: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    bound = lipschitz_constant(network, "log_loss")
    assert bound is not None
    rows = torch.randn(200, 5, generator=torch.Generator().manual_seed(seed)).double().requires_grad_()
    losses = nn.functional.cross_entropy(network(rows), torch.arange(200) % 3, reduction="sum")
    (slopes,) = torch.autograd.grad(losses, rows)
    assert float(slopes.norm(dim=1).max()) <= bound
    norms = [float(torch.linalg.matrix_norm(network[place].weight.detach(), 2)) for place in (0, 2)]
    last = network[4].weight.detach()
    apart = max(float((last[j] - last[k]).norm()) for j in range(3) for k in range(3))
    assert bound == pytest.approx(norms[0] * norms[1] * apart)


@pytest.mark.parametrize(
    ("head", "loss"),
    [
        (nn.Linear(2, 2), "squared"),
        (nn.Linear(2, 2), "zero_one"),
        (nn.Sequential(nn.Linear(2, 2), nn.GELU(), nn.Linear(2, 2)), "hinge"),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "hinge"),
        (torch.sin, "hinge"),
    ],
    ids=["squared", "zero_one", "gelu", "ends with an activation", "function"],
)
def test_no_lipschitz_constant_where_none_is_known(head: Any, loss: str) -> None:
    assert lipschitz_constant(head, loss) is None


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "log"}, 'loss "log" is unknown'),
        ({"head": 3}, "the head is a int"),
        ({"y": [0, 1]}, "for 2 targets"),
        ({"y": [0, 1, 7]}, "class codes 0 to 1"),
        ({"y": [0, 1, -1]}, "class codes 0 to 1"),
        ({"loss": "squared", "y": [0.0, 1.0, 2.0]}, "2 outputs"),
    ],
    ids=["loss", "head", "rows", "class", "negative", "outputs"],
)
def test_says_what_is_wrong(change: dict[str, Any], message: str) -> None:
    given = {"head": nn.Linear(2, 2), "Z": np.zeros((3, 2)), "y": [0, 1, 0], "loss": "hinge"} | change
    with pytest.raises(InputError) as told:
        sweep(given["head"], given["Z"], given["y"], given["loss"], radius=1.0)
    assert message in str(told.value)
    with pytest.raises(InputError, match="no worst points"):
        worst_points(nn.Linear(2, 2), np.zeros((3, 2)), [0, 1, 0], "zero_one", 1.0)


@pytest.mark.parametrize("loss", ["log_loss", "zero_one"])
def test_rows_of_weight_zero_are_not_searched(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(400, 2))
    y = (Z[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int)
    weight = (np.arange(400) >= 320).astype(float)
    Z[:320] *= 20
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    there = iv.worst_case(head, Z, y, weight=weight, loss=loss, n_boot=99, seed=seed)
    gone = iv.worst_case(head, Z[320:], y[320:], loss=loss, n_boot=99, seed=seed)
    np.testing.assert_array_equal(there.loss, gone.loss)
    np.testing.assert_allclose(there.band, gone.band, rtol=1e-12)
