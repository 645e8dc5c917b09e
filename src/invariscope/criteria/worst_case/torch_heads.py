"""Worst-case losses of any differentiable head, or of a whole network in the space of its inputs.

No closed form exists there. Rows climb to where ℓ − γ‖δ‖² is largest, for one multiplier γ after the other, downwards,
each from where the last one ended and now and then from starts towards all other classes. What is found is reached by
some law within the radius, so the curve is a lower bound; there may be more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from invariscope.criteria.worst_case.curve import Sweep, shares
from invariscope.criteria.worst_case.rows import LOSSES
from invariscope.criteria.worst_case.torch_ascent import (
    TRACKED,
    Problem,
    Tracker,
    other_classes,
    outputs,
    problem_of,
    tensor_for,
    towards,
)
from invariscope.errors import InputError
from invariscope.models.torch_heads import as_it_predicts
from invariscope.rows.arrays import Floats
from invariscope.rows.resampling import generator

SAMPLE = 256  # rows that the multipliers are chosen by
NUMBERS_AT_ONCE = 8_000_000  # numbers in the starts of one batch of rows
FINEST = 100  # the first multiplier moves rows by about this fraction of the radius
FACTOR = 0.6  # from one multiplier to the next
LEVELS = 48  # multipliers at most, without those between
GAP = 12  # pieces of the radius between which another multiplier is put
PIECES = 8  # at most, between two multipliers
SCREENED = 4  # multipliers from one look at all other classes to the next
STEPS = 300  # of the curve of the 0/1 loss
REFINEMENTS = 12
HALVINGS = 16
#: Activations whose output moves no further than their input
LIPSCHITZ_ONE = (
    nn.ReLU, nn.ReLU6, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardtanh, nn.Identity, nn.Flatten, nn.Dropout,
    nn.LogSigmoid, nn.Softsign, nn.Tanhshrink,
)  # fmt: skip


def sweep(
    head: Any, Z: Any, y: Any, loss: str, *, weight: Floats | None = None, radius: float, seed: int = 0
) -> tuple[Sweep, Floats, float | None]:
    """Losses and squared distances of all rows at a descending sequence of multipliers, up to ``radius``.

    ``head`` is a torch module or any function of tensors that gives scores (n, K), or one column for two classes and
    for squared loss; ``Z`` (n, ...) are its inputs, ``y`` (n,) class codes, or numbers for squared loss. The second
    result are the losses at the rows themselves, the third a Lipschitz constant of the loss in z if one is cheap
    (:func:`lipschitz_constant`). The seed chooses the rows that multipliers are tried on, at most 256.

    >>> rows, codes = np.array([[1.0], [3.0]]), np.array([1, 1])
    >>> points, start, bound = sweep(lambda z: torch.cat([0 * z, z], 1), rows, codes, "zero_one", radius=3.0)
    >>> points.moved[-1].round(3).tolist(), start.tolist()  # both are wrong at 0
    ([1.0, 9.0], [0.0, 0.0])
    """
    with _in_use(head):
        problem = problem_of(head, Z, y, loss)
        if loss == "zero_one":
            distances, start = _nearest(problem)
            return _steps(distances, start), start, None
        share = shares(weight, len(problem.rows))
        gammas = _multipliers(problem, share, radius, seed)
        parts = [_followed(part, gammas) for part in _batches(problem)]
        start = np.concatenate([first for first, _, _ in parts])
        losses, moved = (np.concatenate([part[place] for part in parts], axis=1) for place in (1, 2))
    return _with_hindsight(gammas, losses, moved, start), start, lipschitz_constant(head, loss)


def worst_points(head: Any, Z: Any, y: Any, loss: str, gamma: float) -> Tensor:
    """The places z* found for every row, where ℓ(z) − γ‖z − z_i‖² is largest: a tensor in the shape of ``Z``.

    >>> head = nn.Linear(1, 2, bias=False)
    >>> head.weight.data = torch.tensor([[-1.0], [1.0]])
    >>> worst_points(head, torch.zeros(1, 1), [1], "log_loss", 1.46211716).round(decimals=4)
    tensor([[-0.5000]])
    """
    if loss not in LOSSES or loss == "zero_one":
        raise InputError(f'loss "{loss}" has no worst points by ascent: use log_loss, hinge or squared')
    places = []
    with _in_use(head):
        for part in _batches(problem_of(head, Z, y, loss)):
            tracker = Tracker(part)
            for level in (4.0, 2.0, 1.0):  # from nearby, as a sweep comes down
                tracker.at(gamma * level, True)
            places.append(part.rows + tracker.best.reshape(part.rows.shape))
    return torch.cat(places)


def outputs_of(head: Any, Z: Any) -> int:
    """How many numbers the head gives per row, as it predicts."""
    with _in_use(head), torch.no_grad():
        return outputs(head, tensor_for(head, Z[:1])).shape[1]


def nearest_wrong(head: Any, Z: Any, y: Any) -> Floats:
    """Smallest distance found at which each row is taken for another class, (n,); 0 for rows that are already.

    Infinite where none was found. An upper bound of the true distance.
    """
    with _in_use(head):
        return _nearest(problem_of(head, Z, y, "zero_one"))[0]


def unit_of(head: Any, Z: Any, y: Any, loss: str, *, weight: Floats | None = None) -> float:
    """R = √mean d_i² with the distances of :func:`nearest_wrong`, over the rows that some search made wrong.

    For squared loss √mean r² over the root mean squared slope of the head at the rows: the distance at which the root
    mean squared error would double if the head went on as it starts.
    """
    if loss != "squared":
        distances = nearest_wrong(head, Z, y)
        share = shares(weight, len(distances))[np.isfinite(distances)]
        squares = share @ distances[np.isfinite(distances)] ** 2
        return float(np.sqrt(squares / share.sum())) if share.sum() > 0 else float("inf")
    with _in_use(head):
        problem = problem_of(head, Z, y, loss)
        share = shares(weight, len(problem.rows))
        losses = problem.losses(problem.scores_at(problem.still)).double().cpu().numpy()
        slopes = np.concatenate([_steepest(part) for part in _batches(problem)])
    below = float(share @ slopes)
    return float(np.sqrt(share @ losses / below)) if below > 0 else float("inf")


def _steepest(problem: Problem) -> Floats:
    """Largest squared slope of the scores in any direction, (n,)."""
    width = problem.scores_at(problem.still).shape[1]
    rows = [problem.slopes_at(problem.still, lambda _, scores, k=k: scores[:, k])[1] for k in range(width)]  # type: ignore[misc]
    slopes = torch.stack(rows, dim=1).double()
    # λ_max(J Jᵀ) of the Jacobian J (K, D) of every row
    steepest: Floats = torch.linalg.eigvalsh(slopes @ slopes.transpose(1, 2))[:, -1].cpu().numpy()
    return steepest


def lipschitz_constant(head: Any, loss: str) -> float | None:
    """How fast the loss can grow per unit of distance at most: for linear heads, or stacks of linear layers.

    max_jk ‖w_j − w_k‖ of the last layer times the spectral norms of the others, with activations of slope at most 1
    between them. ``None`` where that does not apply, and for losses without such a bound.

    >>> head = nn.Linear(2, 2, bias=False)
    >>> head.weight.data = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    >>> lipschitz_constant(head, "hinge")
    5.0
    """
    layers = list(head) if isinstance(head, nn.Sequential) else [head]
    linear = [layer for layer in layers if type(layer) is nn.Linear]
    rest = [layer for layer in layers if type(layer) is not nn.Linear]
    if loss not in ("log_loss", "hinge") or not linear or layers[-1] is not linear[-1]:
        return None
    if not all(type(layer) in LIPSCHITZ_ONE for layer in rest):  # a subclass may do anything
        return None
    if isinstance(head, nn.Module) and any(
        module._forward_hooks or module._forward_pre_hooks for module in head.modules()
    ):
        return None
    with torch.no_grad():
        last = linear[-1].weight.double()
        last = torch.cat([torch.zeros_like(last), last]) if len(last) == 1 else last
        bound = torch.cdist(last, last).amax()
        for layer in linear[:-1]:
            bound = bound * torch.linalg.matrix_norm(layer.weight.double(), 2)
    return float(bound)


def _batches(problem: Problem) -> Iterator[Problem]:
    with torch.no_grad():
        classes = problem.scores(problem.rows[:1]).shape[1]
    size = max(1, NUMBERS_AT_ONCE // (problem.width * (2 * classes + 4)))
    for start in range(0, len(problem.rows), size):
        yield problem.part(slice(start, start + size))


def _multipliers(problem: Problem, share: Floats, radius: float, seed: int) -> Floats:
    """Descending, so that the curve has points all along up to the radius; found on some of the rows."""
    count = len(problem.rows)
    chosen = np.sort(generator(seed).permutation(count)[:SAMPLE])
    sample, part = problem.part(torch.as_tensor(chosen, device=problem.rows.device)), share[chosen]
    if not radius > 0 or not part.sum() > 0:
        return np.empty(0)
    part = part / part.sum()
    tracker = Tracker(sample)
    gamma = _first_multiplier(tracker, part, radius)
    if not gamma > 0:
        return np.empty(0)
    gammas, reached = [], [0.0]
    for level in range(LEVELS):
        moved = tracker.at(gamma, level % SCREENED == 0)[1].double().cpu().numpy()
        gammas.append(gamma)
        reached.append(float(part @ moved) ** 0.5)
        if not reached[-1] < 1.1 * radius:
            break
        gamma *= FACTOR
    between = [
        before * (after / before) ** (step / pieces)
        for before, after, near, far in zip(gammas, gammas[1:], reached[1:], reached[2:], strict=False)
        for pieces in [min(PIECES, int(np.ceil(max(0.0, min(far, radius) - near) * GAP / radius)))]
        for step in range(1, pieces)
    ]
    return np.sort([*gammas, *between, gammas[-1] * FACTOR])[::-1]


def _first_multiplier(tracker: Tracker, share: Floats, radius: float) -> float:
    """Where the slopes at the rows move them by a hundredth of the radius, or else where the first rows jump.

    With a class score that rises by g per unit, a row at distance d of the boundary jumps across at γ = g / 4d; the
    first multiplier is twice that, g / 2d, so that none is missed.
    """
    problem = tracker.problem
    _, slopes = problem.slopes_at(problem.still, Problem.losses)
    finest = FINEST / (2 * radius)
    gamma = finest * _root_mean_square(slopes, share)
    if tracker.boundary is None or tracker.slopes is None:
        return gamma
    squares, nearest = (tracker.boundary**2).sum(dim=2).min(dim=0)
    rises = tracker.slopes.gather(0, nearest[None, :, None].expand_as(tracker.slopes[:1]))[0]
    jumps = (rises.norm(dim=1) / (2 * squares.sqrt()))[squares > 0]
    if len(jumps):
        gamma = max(gamma, min(float(jumps.quantile(0.98)), finest * _root_mean_square(rises, share)))
    return gamma


def _root_mean_square(rows: Tensor, share: Floats) -> float:
    return float(np.sqrt(share @ (rows.double() ** 2).sum(dim=1).cpu().numpy()))


def _followed(problem: Problem, gammas: Floats) -> tuple[Floats, Floats, Floats]:
    """Losses at the rows, and losses and squared distances (G, n) at all multipliers."""
    start = problem.losses(problem.scores_at(problem.still))
    tracker = Tracker(problem)
    levels = [tracker.at(float(gamma), level % SCREENED == 0) for level, gamma in enumerate(gammas)]
    empty = np.empty((0, len(problem.rows)))
    losses, moved = (
        np.stack([pair[place].double().cpu().numpy() for pair in levels]) if levels else empty for place in (0, 1)
    )
    return start.double().cpu().numpy(), losses, moved


def _with_hindsight(gammas: Floats, losses: Floats, moved: Floats, start: Floats) -> Sweep:
    """Every multiplier takes, for every row, the best of all places met: those of the others and the row itself."""
    losses, moved = np.vstack([start, losses]), np.vstack([np.zeros_like(start), moved])
    best = [np.argmax(losses - gamma * moved, axis=0)[None] for gamma in gammas]
    chosen = [tuple(np.take_along_axis(values, which, axis=0)[0] for values in (losses, moved)) for which in best]
    shape = (len(gammas), len(start))
    return Sweep(gammas, *(np.array([pair[place] for pair in chosen]).reshape(shape) for place in (0, 1)))


def _nearest(problem: Problem) -> tuple[Floats, Floats]:
    """Smallest distance found at which each row is wrong, and whether it is wrong where it is."""
    parts = [_nearest_of(part) for part in _batches(problem)]
    return tuple(np.concatenate([part[place] for part in parts]) for place in (0, 1))  # type: ignore[return-value]


def _nearest_of(problem: Problem) -> tuple[Floats, Floats]:
    count, still = len(problem.rows), problem.still
    wrong = problem.wrong(problem.scores_at(still))
    best, best_length = still.clone(), torch.full_like(still[:, 0], torch.inf)
    tracker = Tracker(problem)
    assert tracker.boundary is not None
    classes, lengths = other_classes(problem), (tracker.boundary**2).sum(dim=2)
    nearest = lengths.topk(min(TRACKED, len(classes)), dim=0, largest=False).indices
    many = replace(problem.repeated(len(nearest)), aims=classes.gather(0, nearest).flatten())
    by = tracker.boundary.gather(0, nearest[:, :, None].expand(-1, -1, problem.width)).flatten(0, 1)
    for step in range(REFINEMENTS + 1):
        for scale in (1.0, 1.5) if step in (0, REFINEMENTS) else (1.0,):
            met = torch.where(many.wrong(many.scores_at(scale * by)), scale**2 * (by**2).sum(dim=1), torch.inf)
            length, which = met.reshape(len(nearest), count).min(dim=0)
            place = scale * by.reshape(len(nearest), count, -1)[which, torch.arange(count, device=which.device)]
            nearer = length < best_length
            best, best_length = torch.where(nearer[:, None], place, best), torch.where(nearer, length, best_length)
        if step < REFINEMENTS:
            by, _ = towards(many, by, 1)
    low, high = torch.zeros_like(best_length), torch.ones_like(best_length)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        there = problem.wrong(problem.scores_at(middle[:, None] * best))
        low, high = torch.where(there, low, middle), torch.where(there, middle, high)
    distances = torch.where(wrong, 0.0, best_length.sqrt() * high)
    return distances.double().cpu().numpy(), wrong.double().cpu().numpy()


def _steps(distances: Floats, start: Floats) -> Sweep:
    """The sweep of the 0/1 loss: a row is moved as soon as that costs less than 1, γd² < 1; the nearest ones first."""
    squares = distances**2
    levels = np.unique(squares[(squares > 0) & np.isfinite(squares)])
    if len(levels) > STEPS:
        levels = levels[np.unique(np.linspace(0, len(levels) - 1, STEPS).astype(int))]
    there = squares <= levels[:, None]
    moved = np.where(there, squares, 0.0)
    return Sweep(1 / levels, np.where(there, 1.0, start), moved)


def _in_use(head: Any) -> AbstractContextManager[None]:
    """A module as it predicts; any other function as it is."""
    return as_it_predicts(head) if isinstance(head, nn.Module) else nullcontext()
