"""IRM version 1: by hand, and as DomainBed defines it, by differentiating a factor on the logits."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from invariscope.errors import InputError
from invariscope.objectives.irm import irm_penalty

SIZES = (6, 9, 4)


def derivative(logits: Tensor, targets: Tensor, task: str) -> Tensor:
    """d/ds of the risk at s · logits, by automatic differentiation of torch's own losses."""
    scale = torch.ones((), dtype=logits.dtype, requires_grad=True)
    if task == "multiclass":
        loss = functional.cross_entropy(scale * logits, targets)
    elif task == "binary":
        loss = functional.binary_cross_entropy_with_logits(scale * logits[:, 0], targets.double())
    else:
        loss = functional.mse_loss(scale * logits[:, 0], targets)
    return torch.autograd.grad(loss, scale)[0]


def world(task: str, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    outputs = 3 if task == "multiclass" else 1
    logits = [torch.randn(n, outputs, generator=generator, dtype=torch.float64) for n in SIZES]
    if task == "regression":
        return logits, [torch.randn(n, generator=generator, dtype=torch.float64) for n in SIZES]
    return logits, [torch.randint(0, 3 if task == "multiclass" else 2, (n,), generator=generator) for n in SIZES]


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_split_form_multiplies_derivatives_of_even_and_odd_rows(task: str, seed: int) -> None:
    logits, targets = world(task, seed)
    expected = sum(
        derivative(scores[0::2], values[0::2], task) * derivative(scores[1::2], values[1::2], task)
        for scores, values in zip(logits, targets, strict=True)
    ) / len(SIZES)
    torch.testing.assert_close(irm_penalty(logits, targets, task=task, form="split"), expected)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_square_form_squares_the_derivative_of_all_rows(task: str, seed: int) -> None:
    logits, targets = world(task, seed)
    expected = sum(derivative(scores, values, task) ** 2 for scores, values in zip(logits, targets, strict=True)) / len(
        SIZES
    )
    torch.testing.assert_close(irm_penalty(logits, targets, task=task, form="square"), expected)


def test_by_hand() -> None:
    # rows f = 2, y = 1: 2 f (f − y) = 4;  f = 1, y = 3: −4;  the halves disagree and the product is negative
    logits, targets = [torch.tensor([[2.0], [1.0]])], [torch.tensor([1.0, 3.0])]
    assert float(irm_penalty(logits, targets, form="split")) == -16.0
    assert float(irm_penalty(logits, targets, form="square")) == 0.0
    # a score of 0 has derivative 0 whatever the target
    assert float(irm_penalty([torch.zeros(2, 1)], [torch.tensor([0, 1])], form="split")) == 0.0


def test_the_best_scale_has_no_penalty(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores, values = (torch.randn(20, generator=generator, dtype=torch.float64) for _ in range(2))
    best = (scores @ values) / (scores @ scores)  # least squares through the origin
    fitted = irm_penalty([best * scores[:, None]], [values], form="square")
    assert float(fitted) == pytest.approx(0, abs=1e-20)
    assert float(irm_penalty([(best + 1) * scores[:, None]], [values], form="square")) > 1e-3


def test_split_form_is_right_on_average_where_the_square_is_too_large(seed: int) -> None:
    # over all orders of four rows with derivatives a, b, c, d the mean product of halves is that of different rows
    scores = torch.randn(4, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = torch.zeros(4, dtype=torch.float64)
    rows = 2 * scores[:, 0] ** 2
    products = [rows[i] * rows[j] for i in range(4) for j in range(4) if i != j]
    orders = torch.cartesian_prod(*[torch.arange(4)] * 4)
    orders = orders[[len(set(order.tolist())) == 4 for order in orders]]
    found = torch.stack([irm_penalty([scores[order]], [values], form="split") for order in orders]).mean()
    torch.testing.assert_close(found, torch.stack(products).mean())


def test_input_that_does_not_fit_is_named() -> None:
    one = [torch.zeros(1, 1)], [torch.zeros(1)]
    with pytest.raises(InputError, match="two rows"):
        irm_penalty(*one, form="split")
    with pytest.raises(InputError, match='form "half" is unknown'):
        irm_penalty(*one, form="half")


def test_on_the_same_rows_a_large_weight_drives_the_split_form_below_any_bound(seed: int) -> None:
    """Free predictions learn to be wrong the opposite way in the two halves; the square form ends at no penalty."""
    _, targets = world("regression", seed)
    penalties = {}
    for form in ("split", "square"):
        logits = [torch.zeros_like(values, requires_grad=True) for values in targets]
        optimiser = torch.optim.Adam(logits, lr=0.05)
        penalties[form] = []
        for _ in range(300):
            optimiser.zero_grad()
            risk = torch.stack([((z - y) ** 2).mean() for z, y in zip(logits, targets, strict=True)]).mean()
            penalty = irm_penalty([z[:, None] for z in logits], targets, form=form)
            (risk / 100 + penalty).backward()
            optimiser.step()
            penalties[form].append(penalty.item())
    lows = penalties["split"][99::100]
    assert lows[0] < -10
    assert all(later < 2 * earlier for earlier, later in itertools.pairwise(lows)), lows
    assert 0 <= penalties["square"][-1] < 1e-3
