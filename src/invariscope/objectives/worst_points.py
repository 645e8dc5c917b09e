"""Where rows of a batch are worst within a Wasserstein ball around them, by a fixed number of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from invariscope.heads.torch_losses import row_losses
from invariscope.models.torch_heads import FeatureHead

VERTICES = 3  # answers that a search starts from, besides the one the head gives
WIDEST = 1e-4  # smallest multiplier tried, relative to the largest


class Move(NamedTuple):
    """A displacement of every row, (n, d), and the share of every row's mass that takes it."""

    share: Tensor
    by: Tensor


class Search(NamedTuple):
    """How much work goes into finding the worst case: numbers of operations, whatever the values."""

    iterations: int = 8
    bisections: int = 12


def worst_moves(
    head: FeatureHead, features: Tensor, targets: Tensor, task: str, squared_radius: Tensor, search: Search
) -> tuple[Move, ...]:
    """Displacements of features (n, d) that make the mean loss largest with a mean squared length of at most ρ².

    ``targets`` are numbers or probabilities of the second class (n,), or of every class (n, K). Linear heads are solved
    by their closed forms. At the multiplier where the budget is just spent, some rows have two equally good places; the
    result is then two moves that share the mass, as the worst distribution does. Other heads get normalised gradient
    ascent from the rows themselves. There is no gradient in the result.
    """
    features, targets, head = features.detach(), targets.detach(), head.fixed()
    squared_radius = squared_radius.detach().to(features.dtype)
    if head.weight is None:
        return (_ascended(head, features, targets, task, squared_radius, search.iterations),)
    scores = head(features)
    if task == "regression":
        return (_along_the_residual(scores[:, 0] - targets, head.weight[0], squared_radius),)
    scores, targets, weight = as_classes(scores, targets, head.weight, task)
    return _shared(scores, targets, weight, squared_radius, search)


def squared_unit(head: FeatureHead, features: Tensor, targets: Tensor, task: str) -> Tensor:
    """R²: mean squared distance to the nearest wrong answer, 0 for rows that are wrong already.

    In regression the squared distance that doubles the root mean squared error. For heads that are not linear,
    distances are those of their tangents. Rows that nothing can make wrong do not count.
    """
    features, targets, head = features.detach(), targets.detach(), head.fixed()
    scores = head(features)
    if task == "regression":
        slopes = (_jacobian(head, features)[0] ** 2).sum(1).mean() if head.weight is None else (head.weight**2).sum()
        return _ratio(((scores[:, 0] - targets) ** 2).mean(), slopes)
    if head.weight is None:
        slopes = _jacobian(head, features)  # (K, n, d)
        if task == "binary":
            slopes = torch.cat([torch.zeros_like(slopes), slopes])
        scores, targets, _ = as_classes(scores, targets, None, task)
        right = _right(targets)
        own = torch.einsum("nk,knd->nd", right, slopes)
        lengths = ((slopes - own) ** 2).sum(dim=2).T
    else:
        scores, targets, weight = as_classes(scores, targets, head.weight, task)
        right = _right(targets)
        lengths = _lengths(right, weight @ weight.T)
    gaps = ((right * scores).sum(dim=1, keepdim=True) - scores).clamp_min(0)
    distances = torch.where((right > 0) | ((lengths <= 0) & (gaps > 0)), torch.inf, _ratio(gaps**2, lengths))
    nearest = distances.amin(dim=1)
    return torch.where(torch.isfinite(nearest), nearest, 0.0).mean()


def as_classes(scores: Tensor, targets: Tensor, weight: Tensor | None, task: str) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, probabilities and weights with one column or row per class; of two classes the first has score 0."""
    if weight is None:
        weight = scores.new_zeros(scores.shape[1], 1)
    if task == "multiclass":
        return scores, targets, weight
    zeros = torch.zeros_like(scores)
    return torch.cat([zeros, scores], 1), torch.stack([1 - targets, targets], 1), torch.cat([weight * 0, weight])


def _along_the_residual(residuals: Tensor, weight: Tensor, squared_radius: Tensor) -> Move:
    """δ_i = r_i · w · ρ / (‖w‖ √mean r²): the root mean squared error grows by ρ‖w‖."""
    factor = _ratio(squared_radius, (weight**2).sum() * (residuals**2).mean()).sqrt()
    return Move(torch.ones_like(factor), factor * residuals[:, None] * weight)


def _shared(
    scores: Tensor, targets: Tensor, weight: Tensor, squared_radius: Tensor, search: Search
) -> tuple[Move, ...]:
    """Bisection of log γ between a multiplier that surely stays within the radius and one that leaves it far behind."""
    gram, lengths = weight @ weight.T, _lengths(targets, weight @ weight.T)
    high = _ratio(lengths.amax().sqrt(), 2 * squared_radius.sqrt())
    high = torch.where(high > 0, high, 1.0)  # nothing moves: no radius, or a head that says the same everywhere
    low = high * WIDEST
    # from here on classes come first: a softmax over the few classes is then one over long rows, 20 times as fast
    lengths = torch.where(_right(targets) > 0, -torch.inf, lengths).T
    scores, own = scores.T, targets.T
    near, far = own, _best(scores, own, lengths, gram, low, search.iterations)
    for _ in range(search.bisections):
        middle = (high * low).sqrt()
        points = _best(scores, own, lengths, gram, middle, search.iterations)
        within = _moved(points - own, gram, middle) <= squared_radius
        high, near = torch.where(within, middle, high), torch.where(within, points, near)
        low, far = torch.where(within, low, middle), torch.where(within, far, points)
    spent, over = _moved(near - own, gram, high), _moved(far - own, gram, low)
    share = _ratio((squared_radius - spent).clamp_min(0), over - spent).clamp(0, 1)
    share = torch.where(squared_radius > 0, share, 0.0)
    return (
        Move(1 - share, (near - own).T @ weight / (2 * high)),
        Move(share, (far - own).T @ weight / (2 * low)),
    )


def _best(scores: Tensor, targets: Tensor, lengths: Tensor, gram: Tensor, gamma: Tensor, iterations: int) -> Tensor:
    """Probabilities p (K, n) at the worst point for this γ: the best fixed point of p = softmax(s + M(p − y) / 2γ).

    Every iteration raises the loss less γ times the squared distance. There may be several maxima, one where the row is
    and one near every other answer, so it starts from several. ``lengths`` is −∞ for the right answer.
    """
    classes = scores.shape[0]
    chosen = (scores + lengths / (4 * gamma)).topk(min(VERTICES, classes - 1), dim=0).indices  # (vertices, n)
    vertices = (torch.arange(classes, device=scores.device)[:, None, None] == chosen).to(scores.dtype)
    tried = torch.cat([torch.softmax(scores, dim=0)[:, None], vertices], dim=1)  # (K, starts, n)
    scores, targets, push = scores[:, None], targets[:, None], gram / (2 * gamma)
    for _ in range(iterations):
        tried = torch.softmax(scores + _times(push, tried - targets), dim=0)
    gone = tried - targets
    pushed = _times(push, gone)
    there = scores + pushed
    value = torch.logsumexp(there, dim=0) - (targets * there).sum(dim=0) - (gone * pushed).sum(dim=0) / 2
    return torch.take_along_dim(tried, value.argmax(dim=0)[None, None], dim=1)[:, 0]


def _times(matrix: Tensor, columns: Tensor) -> Tensor:
    return (matrix @ columns.flatten(1)).reshape(columns.shape)


def _moved(gone: Tensor, gram: Tensor, gamma: Tensor) -> Tensor:
    """Mean squared length of Wᵀ(p − y) / 2γ, for p − y (K, n)."""
    return ((gram @ gone) * gone).sum(dim=0).mean() / (4 * gamma**2)


def _ascended(
    head: FeatureHead, features: Tensor, targets: Tensor, task: str, squared_radius: Tensor, steps: int
) -> Move:
    """All rows together go along their gradients, each step brought back to a mean squared length of ρ²."""
    radius = squared_radius.sqrt()

    def total(by: Tensor) -> Tensor:
        return row_losses(head(features + by), targets, task).sum()

    uphill: Callable[[Tensor], tuple[Tensor, Tensor]] = torch.func.grad_and_value(total)
    by = torch.zeros_like(features)
    slope, best_value = uphill(by)
    best = by
    for step in range(steps):
        by = _scaled(by + _scaled(slope, radius), radius)
        slope, value = uphill(by) if step < steps - 1 else (slope, total(by))
        better = value > best_value
        best, best_value = torch.where(better, by, best), torch.where(better, value, best_value)
    return Move(torch.ones_like(radius), best)


def _scaled(rows: Tensor, radius: Tensor) -> Tensor:
    return rows * _ratio(radius, (rows**2).sum(dim=1).mean().sqrt())


def _jacobian(head: FeatureHead, features: Tensor) -> Tensor:
    """Gradient of every score at every row, (K, n, d)."""
    scores, pull = torch.func.vjp(head, features)[:2]
    eye = torch.eye(scores.shape[1], dtype=scores.dtype, device=scores.device)
    jacobian: Tensor = torch.func.vmap(lambda one: pull(one.expand(scores.shape))[0])(eye)
    return jacobian


def _lengths(targets: Tensor, gram: Tensor) -> Tensor:
    """‖w_k − Σ_j y_j w_j‖² for every row and class, (n, K)."""
    own = targets @ gram
    return (torch.diagonal(gram) - 2 * own + (own * targets).sum(dim=1, keepdim=True)).clamp_min(0)


def _right(targets: Tensor) -> Tensor:
    """One-hot columns of the most probable class."""
    classes = torch.arange(targets.shape[1], device=targets.device)
    return (targets.argmax(dim=1)[:, None] == classes).to(targets.dtype)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and 0 where that is no number."""
    return torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0)
