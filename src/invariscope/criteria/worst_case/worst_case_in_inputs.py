"""Worst-case loss in input space: what a network could lose if its inputs moved, and what that does to the features."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.registry import criterion
from invariscope.criteria.worst_case.rows import losses_for, losses_of, rows_of
from invariscope.criteria.worst_case.worst_case import DRAWS, torch_heads, worst_case
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.models.splits import InputSpace, Split
from invariscope.results import InputWorstCaseResult, WorstCaseResult
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.resampling import generator
from invariscope.rows.targets import agreed_task

#: Multiples of the unit at which inputs are moved and their features looked at.
PLACES = (0.1, 0.25, 0.5, 1.0)


def _from_material(material: Material, options: AuditOptions) -> InputWorstCaseResult:
    network = have(material.network)
    loss = "squared" if material.task == "regression" else "log_loss"
    return worst_case_in_inputs(
        network.split, network.inputs, material.labels, loss=loss, n_boot=options.n_boot, seed=options.seed
    )


@criterion(
    title="Worst-case loss in input space",
    needs={"network", "target"},
    better="lower",
    tells="How large the loss could become if the inputs themselves moved, and how near that comes to the worst case "
    "in the representation.",
    cannot_tell="More than a search finds (the true worst case may be worse), and whether such inputs ever occur.",
    call=_from_material,
    on_request=True,
    draws=DRAWS,
)
def worst_case_in_inputs(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: str = "auto",
    loss: str = "auto",
    classes: Sequence[Any] | None = None,
    rows: int = 60,
    n_boot: int = DRAWS,
    seed: int = 0,
) -> InputWorstCaseResult:
    """The worst-case curve of a network in the space of its inputs, beside the one in its representation.

        WC_x(ρ) = sup { E_P loss(h(g(x)), y) : W₂(P, rows) ≤ ρ }

    Moving inputs moves features as well, by some distance in the representation, and cannot raise the loss above the
    worst case there: at the same distance in the representation, the loss reached from the inputs is at most that of
    :func:`~invariscope.worst_case`. How near it comes says how much of the worst case in the representation is real.

    Parameters
    ----------
    model : the :class:`~invariscope.Split` of a torch module, from ``iv.split(module)``, or of a fitted
        :class:`~invariscope.InvariantClassifier` or :class:`~invariscope.InvariantRegressor`, from its ``split()``
    X, y : inputs of any shape (n, ...), and class labels or numbers. Inputs of a torch module are moved as they are
        given. Those of an estimator are moved as its network reads them, standardised: a distance of 1 along a column
        is then the spread by which the estimator divides it (``scale_``), and a note says so.
    task, loss : as of :func:`~invariscope.worst_case`; the loss must have gradients, so not "zero_one"
    rows : so many rows, chosen at random, are looked at: every one is moved by gradient ascent
    classes : labels in the order of the network's outputs

    Returns
    -------
    The curve over distances in input space, as of :func:`~invariscope.worst_case`, a lower bound. And for some of its
    points: ``moved``, how far the features moved, in units of the representation's R; ``reached``, the loss there; and
    ``representation``, the worst case in the representation at that distance (``nan`` if the head is not linear).

    What it cannot tell: more than a search finds; and distances between inputs (pixels, say) may not be what matters.

    Reference: the worst-case poster, "not an overestimation of the worst-case loss in the input space".

    >>> import torch
    >>> from invariscope.models import split
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    >>> X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    >>> curve = worst_case_in_inputs(split(network), X, (X[:, 0] > 0).astype(int), rows=10, n_boot=0)
    >>> bool(curve.loss[-1] > curve.loss[0]), bool(np.all(curve.reached <= curve.representation + 1e-6))
    (True, True)
    """
    space = model.input_space if isinstance(model, Split) else None
    if space is None:
        raise InputError(
            "the worst case in input space follows gradients of a torch module: give iv.split(module), or .split() of "
            "an estimator that invariscope trained"
        )
    if not isinstance(rows, int | np.integer) or rows < 2:
        raise InputError(f"rows is {rows!r}: give a whole number of at least 2")
    if loss == "zero_one":
        raise InputError('loss "zero_one" has no worst inputs that a gradient leads to: use log_loss, hinge or squared')
    names, task = losses_of(loss, task)
    every = rows_of(space.rows(X), y, None, None, grouped=False)
    known = model.classes if classes is None else classes
    try:
        outputs = torch_heads().outputs_of(space.network, every.Z)
    except RuntimeError:
        model.represent(np.asarray(X)[:2])  # which says in words what rows the network reads
        raise
    target = every.target(agreed_task(task, model.task), outputs, known)
    chosen = np.sort(generator(seed).permutation(len(every.Z))[:rows])
    inputs, values = every.Z[chosen], target.values[chosen]
    curve = worst_case(space.network, inputs, values, loss=losses_for(names, target), n_boot=n_boot, seed=seed)
    moved, reached, ceiling = _in_the_representation(model.head, space, inputs, values, curve)
    notes = [*curve.notes, *([f"Distances between inputs are in {space.units}."] if space.units else [])]
    if len(chosen) < len(every.Z):
        notes.append(f"{len(chosen):,} of {len(every.Z):,} rows, chosen at random, were moved.")
    fields = {field.name: getattr(curve, field.name) for field in dataclasses.fields(curve)} | {"notes": tuple(notes)}
    return InputWorstCaseResult(**fields, moved=moved, reached=reached, representation=ceiling)


def _in_the_representation(
    head: LinearHead | None, space: InputSpace, inputs: Array, values: Array, curve: WorstCaseResult
) -> tuple[Floats, Floats, Floats]:
    """Features of the worst inputs at some multipliers: how far they moved, the loss and the worst case there."""
    from invariscope.criteria.worst_case.torch_heads import sweep, worst_points  # here: torch is an extra

    before = space.represent(inputs).astype(np.float64)
    usable = np.isfinite(curve.gamma) & (curve.gamma > 0)
    if not usable.any() or not np.isfinite(curve.unit):
        return np.empty(0), np.empty(0), np.empty(0)
    wanted = np.interp(np.array(PLACES) * curve.unit, curve.radii[usable], np.log(curve.gamma[usable]))
    moved, reached = [], []
    for multiplier in np.exp(wanted):
        points = worst_points(space.network, inputs, values, curve.of, float(multiplier)).cpu().numpy()
        after = space.represent(points).astype(np.float64)
        moved.append(float(np.sqrt(np.mean(np.sum((after - before) ** 2, axis=1)))))
        _, losses, _ = sweep(space.network, points, values, curve.of, radius=0.0)
        reached.append(float(losses.mean()))
    distance = np.array(moved)
    if head is None:
        return distance, np.array(reached), np.full(len(moved), np.nan)
    there = worst_case(head, before, values, loss=curve.of, radii=distance, n_boot=0)
    return distance / there.unit, np.array(reached), there.upper
