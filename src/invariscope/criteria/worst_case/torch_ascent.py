"""Rows of any differentiable model climb to where their loss, less a multiple of the squared distance, is largest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from invariscope.criteria.worst_case.rows import LOSSES
from invariscope.errors import InputError

AT_ONCE = 512  # rows of one forward pass
ITERATIONS = 40  # of a climb, at most; most rows need three or four
SETTLED = 1e-7  # relative gain below which a row has arrived
PATIENCE = 3  # steps without gain after which it stays
TARGETS = 16  # other classes that are tried: all of them, or the likeliest
APPROACHES = 3  # steps towards each of those
BEYOND = (2.0, 4.0)  # times the way to the boundary, for starts on the other side
TRACKED = 2  # of those, carried from one multiplier to the next


@dataclass(frozen=True)
class Problem:
    """Rows (n, ...) with their targets, and a model that gives scores (n, K), K ≥ 2 unless the loss is squared."""

    scores: Callable[[Tensor], Tensor]
    loss: str
    rows: Tensor
    targets: Tensor
    aims: Tensor | None = None  # another class for every row

    @property
    def width(self) -> int:
        return self.rows[:1].numel()

    @property
    def still(self) -> Tensor:
        """No displacement, (n, D)."""
        return torch.zeros(len(self.rows), self.width, dtype=self.rows.dtype, device=self.rows.device)

    def part(self, which: Tensor | slice) -> Problem:
        aims = None if self.aims is None else self.aims[which]
        return replace(self, rows=self.rows[which], targets=self.targets[which], aims=aims)

    def losses(self, scores: Tensor) -> Tensor:
        """Loss of every row at these scores, (n,)."""
        if self.loss == "squared":
            return ((scores - self.targets.reshape(scores.shape)) ** 2).sum(dim=1)
        if self.loss == "log_loss":
            return functional.cross_entropy(scores, self.targets, reduction="none")
        gaps = self.gaps(scores) + 1
        return gaps.scatter(1, self.targets[:, None], 0.0).amax(dim=1)

    def gaps(self, scores: Tensor) -> Tensor:
        """s_k − s_y, (n, K)."""
        return scores - scores.gather(1, self.targets[:, None])

    def leads(self, scores: Tensor) -> Tensor:
        """s_k − s_y of the class aimed at, (n,)."""
        assert self.aims is not None
        return self.gaps(scores).gather(1, self.aims[:, None])[:, 0]

    def wrong(self, scores: Tensor) -> Tensor:
        """Whether another class scores as high as the right one: a tie is an error."""
        gaps = self.gaps(scores).scatter(1, self.targets[:, None], -torch.inf)
        return gaps.amax(dim=1) >= 0

    def scores_at(self, by: Tensor) -> Tensor:
        """Scores of the rows moved by (n, D), without gradients."""
        with torch.no_grad():
            starts = range(0, len(by), AT_ONCE)
            parts = [(self.rows[start : start + AT_ONCE], by[start : start + AT_ONCE]) for start in starts]
            return torch.cat([self.scores(rows + move.reshape(rows.shape)) for rows, move in parts])

    def slopes_at(self, by: Tensor, value_of: Callable[[Problem, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """A value (n,) of every row's scores after moving by (n, D), and its gradient (n, D)."""
        values, slopes = [], []
        for start in range(0, len(by), AT_ONCE):
            here = self.part(slice(start, start + AT_ONCE))
            moved = by[start : start + AT_ONCE].detach().requires_grad_()
            with torch.enable_grad():
                value = value_of(here, self.scores(here.rows + moved.reshape(here.rows.shape)))
                (slope,) = torch.autograd.grad(value.sum(), moved)
            values.append(value.detach())
            slopes.append(slope)
        return torch.cat(values), torch.cat(slopes)

    def repeated(self, times: int) -> Problem:
        """The rows several times over, one copy after the other."""
        rows = self.rows.expand(times, *self.rows.shape).flatten(0, 1)
        return replace(self, rows=rows, targets=self.targets.expand(times, *self.targets.shape).flatten(0, 1))


def problem_of(head: Any, Z: Any, y: Any, loss: str) -> Problem:
    """Rows and targets as tensors of the head's type, and its scores with a column for every class."""
    if loss not in LOSSES:
        raise InputError(f'loss "{loss}" is unknown: use one of {", ".join(LOSSES)}')
    if not callable(head):
        raise InputError(f"the head is a {type(head).__name__}: give a torch module or a function of tensors")
    rows = tensor_for(head, Z)
    given = y.detach() if isinstance(y, Tensor) else torch.as_tensor(np.array(y))
    if rows.ndim < 2 or len(rows) != len(given) or not len(rows):
        raise InputError(f"Z has shape {tuple(rows.shape)} for {len(given)} targets: give a row for every target")
    squared = loss == "squared"
    targets = given.to(rows.device).to(rows.dtype if squared else torch.int64)

    def scores(inputs: Tensor) -> Tensor:
        values = outputs(head, inputs)
        return torch.cat([torch.zeros_like(values), values], dim=1) if values.shape[1] == 1 and not squared else values

    with torch.no_grad():
        _refuse_misfit(targets, len(rows), scores(rows[:1]).shape[1], squared)
    return Problem(scores, loss, rows, targets)


def outputs(head: Any, inputs: Tensor) -> Tensor:
    """What the head gives for some rows, (n, K); the first of several things if it gives several."""
    values = head(inputs)
    values = values[0] if isinstance(values, tuple) else values
    return torch.as_tensor(values.reshape(values.shape[0], -1))


def tensor_for(head: Any, Z: Any) -> Tensor:
    """Rows in the type and on the device of the head's own parameters, where it has some."""
    own = next(head.parameters(), None) if isinstance(head, nn.Module) else None
    rows = Z.detach() if isinstance(Z, Tensor) else torch.as_tensor(np.array(Z))
    floating = rows.dtype if rows.is_floating_point() else torch.get_default_dtype()
    if own is not None and own.is_floating_point() and own.element_size() < 4:
        kind = str(own.dtype).removeprefix("torch.")
        raise InputError(f"{kind} is too coarse to search for a worst case: give a copy in single precision, .float()")
    if own is None:
        return rows.to(floating)
    return rows.to(own.device, own.dtype if own.is_floating_point() else floating)


def _refuse_misfit(targets: Tensor, rows: int, outputs: int, squared: bool) -> None:
    if squared and targets.numel() != rows * outputs:
        raise InputError(f"the head gives {outputs} outputs, but y has shape {tuple(targets.shape)}: give as many")
    if not squared and (targets.ndim != 1 or int(targets.min()) < 0 or int(targets.max()) >= outputs):
        raise InputError(f"y must be class codes 0 to {outputs - 1}, one per row: the head tells so many apart")


def climb(problem: Problem, by: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Displacements (n, D) at a local maximum of ℓ − γ‖δ‖² that is at least as high as ``by``, and the losses there.

    Gradient ascent with a step for every row: 1/(2γ) at first, which for a linear head is the monotone fixed-point
    iteration, then by the curvature met on the way (Barzilai and Borwein). Only steps that gain are taken; others make
    the step smaller. Rows that have arrived are left out.
    """
    by = by.clone()
    losses, slopes = problem.slopes_at(by, Problem.losses)
    heights, slopes = losses - gamma * (by**2).sum(dim=1), slopes - 2 * gamma * by  # ℓ − γ‖δ‖², ∇ℓ − 2γδ
    steps = torch.full_like(heights, 0.5 / gamma)
    stalled = torch.zeros_like(heights)
    for _ in range(ITERATIONS):
        live = (stalled < PATIENCE).nonzero()[:, 0]
        if not len(live):
            break
        here, move = problem.part(live), steps[live, None] * slopes[live]
        tried = by[live] + move
        loss, slope = here.slopes_at(tried, Problem.losses)
        height, slope = loss - gamma * (tried**2).sum(dim=1), slope - 2 * gamma * tried
        gain = height - heights[live]
        better = gain > 0  # False for what is no number
        bend = (move * (slope - slopes[live])).sum(dim=1).abs()
        # Barzilai and Borwein: ‖Δδ‖² / |Δδ·Δ∇|
        step = (move**2).sum(dim=1) / bend.clamp_min(torch.finfo(bend.dtype).tiny)
        steps[live] = torch.where(better, step.clamp(0.1 / gamma, 50 / gamma), steps[live] / 4)
        settled = ~better | (gain < SETTLED * heights[live].abs())
        stalled[live] = torch.where(settled, stalled[live] + 1, 0)
        gained = live[better]
        by[gained], losses[gained] = tried[better], loss[better]
        heights[gained], slopes[gained] = height[better], slope[better]
    return by, losses


def towards(problem: Problem, by: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Steps from ``by`` (n, D) to the nearest point where the class aimed at scores as high as the right one.

    Each goes to the point of the tangent of that boundary that is nearest to the row: δ ← g (g·δ − u) / ‖g‖² with u the
    lead of that class and g its gradient, which is the second result.
    """
    slopes = torch.zeros_like(by)
    for _ in range(steps):
        leads, slopes = problem.slopes_at(by, Problem.leads)
        # a little further, so that what is met is an error and not nearly one
        wanted = (slopes * by).sum(dim=1) - leads + 0.01 * leads.abs()
        norms = (slopes**2).sum(dim=1)
        by = torch.where(norms[:, None] > 0, slopes * (wanted / norms.clamp_min(1e-30))[:, None], by)
    return by, slopes


def other_classes(problem: Problem) -> Tensor:
    """The other classes of every row (T, n), those with the highest scores first."""
    scores = problem.scores_at(problem.still)
    others = scores.scatter(1, problem.targets[:, None], -torch.inf)
    return others.topk(min(TARGETS, scores.shape[1] - 1), dim=1).indices.T


class Tracker:
    """Some rows and the best places found for them so far, followed as γ goes down."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.places = problem.still.expand(1 + TRACKED, -1, -1)  # (1 + TRACKED, n, D)
        self.boundary: Tensor | None = None  # (T, n, D)
        self.slopes: Tensor | None = None
        self.leading: Tensor | None = None  # slopes of the classes that promise most
        self.last: float | None = None
        if problem.loss != "squared":
            classes = other_classes(problem)
            many = replace(problem.repeated(len(classes)), aims=classes.flatten())
            by, slopes = towards(many, many.still, APPROACHES)
            shape = (*classes.shape, problem.width)
            self.boundary, self.slopes = by.reshape(shape), slopes.reshape(shape)

    def at(self, gamma: float, widely: bool) -> tuple[Tensor, Tensor]:
        """Loss and squared distance of every row at the best place found for this γ, (n,) each.

        ``widely`` looks at all other classes anew, which the first call must do.
        """
        if self.last is not None:  # beyond the boundary, places move away as 1/γ
            self.places = self._best_of(torch.stack([self.places, self.places * (self.last / gamma)]), gamma)
        self._screen(gamma, widely)
        count = len(self.problem.rows)
        by, losses = climb(self.problem.repeated(len(self.places)), self.places.flatten(0, 1), gamma)
        self.places, losses, self.last = by.reshape(self.places.shape), losses.reshape(-1, count), gamma
        moved = (self.places**2).sum(dim=2)
        which = (losses - gamma * moved).argmax(dim=0)[None]
        return losses.gather(0, which)[0], moved.gather(0, which)[0]

    @property
    def best(self) -> Tensor:
        """The best place at the last γ, (n, D)."""
        assert self.last is not None
        which = self._heights(self.places, self.last).argmax(dim=0)
        return self.places.gather(0, which[None, :, None].expand_as(self.places[:1]))[0]

    def _screen(self, gamma: float, widely: bool) -> None:
        """Keep the best of what is tracked and of new starts: towards all other classes, or the two best of last time.

        They are needed at every γ: where crossing the boundary begins to pay, what was tracked may have slid back.
        """
        if self.boundary is None or self.slopes is None:
            tries = -self.places[:1]  # the other side of a residual
        elif widely:
            tries = self.boundary
            for further in (*(scale * self.boundary for scale in BEYOND), self.slopes / (2 * gamma)):
                tries = self._best_of(torch.stack([tries, further]), gamma)
            self.leading = self._topmost(self.slopes, self._heights(tries, gamma))
        else:
            assert self.leading is not None
            tries = self.leading / (2 * gamma)
        rivals = torch.cat([self.places[1:], tries])
        self.places = torch.cat([self.places[:1], self._topmost(rivals, self._heights(rivals, gamma))])

    def _topmost(self, places: Tensor, heights: Tensor) -> Tensor:
        """Of places (C, n, D) the few highest of every row."""
        highest = heights.topk(min(TRACKED, len(places)), dim=0).indices
        return places.gather(0, highest[:, :, None].expand(-1, -1, places.shape[2]))

    def _best_of(self, pairs: Tensor, gamma: float) -> Tensor:
        first, second = (self._heights(places, gamma) for places in pairs)
        return torch.where((second > first)[:, :, None], pairs[1], pairs[0])

    def _heights(self, places: Tensor, gamma: float) -> Tensor:
        """ℓ − γ‖δ‖² at places (C, n, D): (C, n)."""
        many = self.problem.repeated(len(places))
        losses = many.losses(many.scores_at(places.flatten(0, 1))).reshape(places.shape[:2])
        return (losses - gamma * (places**2).sum(dim=2)).nan_to_num(-torch.inf)
