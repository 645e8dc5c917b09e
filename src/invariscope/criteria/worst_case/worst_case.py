"""Worst-case loss: how bad it could get in an environment at a given distance from the ones that were seen."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.registry import criterion
from invariscope.criteria.worst_case.curve import Curve, band_of, curve_of, shares
from invariscope.criteria.worst_case.distances import Distances, bins_of, distances
from invariscope.criteria.worst_case.linear_heads import Margins, hinge, margins_of, squared, zero_one
from invariscope.criteria.worst_case.log_loss import log_loss
from invariscope.criteria.worst_case.rows import Rows, losses_for, losses_of, radii_of, rows_of
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead, of_torch_layer, order_note
from invariscope.results import WorstCaseResult
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.resampling import generator
from invariscope.rows.settings import NOT_DRAWN, number_of_draws
from invariscope.rows.targets import Target
from invariscope.wording import percent

CLASS_LOSSES: dict[str, Callable[..., Curve]] = {"log_loss": log_loss, "hinge": hinge, "zero_one": zero_one}
UNBOUNDED = "The loss is not bounded: its worst case grows without end, so compare radii of a plausible size only."
SEARCHED = (
    "The head is not linear: worst points come from a search, so the true worst case may lie above this curve; only "
    "`upper` bounds it, where it is finite."
)
ALL_WRONG = "Every row is wrong (or fitted exactly) where it is, so distances have no natural unit: unit is 0."
CONSTANT = "The head gives every row the same scores wherever it moves: the curve is flat and there is no unit."
NO_DISTANCES = "How far the environments are apart is measured for linear heads only."
DRAWS = 199  # enough for a band: every draw weighs all rows anew
LOOSE = 0.03  # relative gap between the bounds that is worth a note


def _from_material(material: Material, options: AuditOptions) -> WorstCaseResult:
    return worst_case(
        have(material.head),
        material.representation,
        loss=["squared"] if material.task == "regression" else ["zero_one", "log_loss", "hinge"],
        classes=material.target.classes or None,
        n_boot=options.n_boot,
        seed=options.seed,
    )


@criterion(
    title="Worst-case loss",
    needs={"representation", "target", "head"},
    better="lower",
    tells="How large the loss could become if rows moved by a given distance in the representation, labels kept.",
    cannot_tell="Whether such a move is plausible; and a change of the labels themselves is not covered.",
    call=_from_material,
    draws=DRAWS,
)
def worst_case(
    head: Any,
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    task: str = "auto",
    loss: str | Sequence[str] = "auto",
    radii: Any = None,
    relative: bool = False,
    classes: Sequence[Any] | None = None,
    weight: Any = None,
    n_boot: int = DRAWS,
    seed: int = 0,
) -> WorstCaseResult:
    """The largest mean loss over all laws within Wasserstein distance ρ of the rows, as a curve over ρ.

        WC(ρ) = sup { E_P loss(h(z), y) : W₂(P, rows) ≤ ρ } = inf over γ ≥ 0 of γρ² + mean_i φ_i(γ)
        φ_i(γ) = sup over z of loss(h(z), y_i) − γ‖z − z_i‖²

    Rows may move in the representation, labels stay. For a linear head the curve is exact (0/1, hinge and squared
    loss, and cross-entropy with two classes) or lies between certified bounds (cross-entropy with more classes).

    Parameters
    ----------
    head : :class:`~invariscope.LinearHead` (or an ``nn.Linear``), or any torch module (or function) from rows of Z to
        scores, for which a search gives a lower bound
    Z, y : representation (n, d) and target; or one :class:`~invariscope.Environments`, which brings y, env and weight
    task : "auto", "regression" or "classification"; the rule is that of :func:`~invariscope.rows.targets.target_of`,
        with the outputs of the head. With several outputs y may be (n, K), K numbers per row
    loss : "log_loss", "hinge", "zero_one" (a tie is an error), "squared" (summed over outputs), or "auto": squared
        for numbers, else log-loss. Of several names the first is the result, the others are in ``.others``
    radii : distances in the units of Z; by default 50 from 0 to 1.5 units. ``relative=True``: in multiples of the unit
    env : environments of the rows: ``.apart`` and ``.distances`` say how far they are from each other, in the same
        units, so that radii can be compared with shifts that have been seen. They change no loss
    classes : labels in the order of the head's outputs; without it whole numbers 0..K−1 are taken as they are, and
        other labels are sorted
    n_boot : bootstrap draws for the band, 0 for none

    The unit is R = √mean d_i², d_i being a row's distance to its nearest wrong answer: at ρ = R every row could have
    been made wrong. Raw distances mean nothing, since (z, W, ρ) → (cz, W/c, cρ) changes no loss. For squared loss it
    is the distance at which the root mean squared error doubles (of several numbers per row: at most doubles).
    ``value`` is the worst case at half the unit.

    What it cannot tell: whether a move of that size will ever happen, or in which direction; what happens when labels
    change; and the band only knows the sampling of these rows, for a head that is given.

    Reference: the worst-case poster; strong duality of Blanchet and Murthy (2019).

    >>> head = LinearHead([[0.0], [1.0]], [0.0, 0.0])
    >>> result = worst_case(head, [[1.0], [3.0]], [1, 1], loss="zero_one", radii=[0, 0.5, 5**0.5])
    >>> result.loss.round(6).tolist(), round(result.unit**2, 6)
    ([0.0, 0.25, 1.0], 5.0)
    """
    rng = generator(seed)
    n_boot = number_of_draws(n_boot)
    head = of_torch_layer(head) or head
    if isinstance(head, type) or not (callable(head) or isinstance(head, LinearHead)):
        raise InputError("head must be an invariscope.LinearHead or a torch module: make one with LinearHead(W, b)")
    names, task = losses_of(loss, task)
    rows = rows_of(Z, y, env, weight, grouped=isinstance(head, LinearHead))
    if not isinstance(head, LinearHead):
        target = rows.target(task, torch_heads().outputs_of(head, rows.Z), classes)
        rows, target = rows.counted(target)
        result = _searched(head, rows, target, losses_for(names, target), radii, relative, n_boot, seed)
        return replace(result, notes=(*result.notes, *rows.notes))
    if rows.Z.ndim != 2:
        raise InputError(
            f"Z has {rows.Z.ndim} dimensions, but a linear head reads rows x columns: give Z.reshape(len(Z), -1)"
        )
    if rows.Z.shape[1:] != (head.n_features,):
        raise InputError(
            f"the head has {head.n_features} weights but Z has {rows.Z.shape[1]} columns: give those it was fitted on"
        )
    head.refuse_extreme()
    rows, target = rows.counted(rows.target(task, head.n_outputs, classes))
    with one_blas_thread():
        result = _solved(head, rows, target, losses_for(names, target), radii, relative, n_boot, rng)
    sorted_by_us = [] if classes is not None else order_note(target.classes)
    return replace(result, notes=(*result.notes, *rows.notes, *sorted_by_us))


def _solved(
    head: LinearHead,
    rows: Rows,
    target: Target,
    names: list[str],
    radii: Any,
    relative: bool,
    n_boot: int,
    rng: np.random.Generator,
) -> WorstCaseResult:
    """The route of linear heads: exact, or between certified bounds."""
    share, flat_from = shares(rows.weight, len(rows.Z)), dict.fromkeys(names, math.inf)
    curves: dict[str, Callable[..., Curve]]
    if target.task == "regression":
        # r_i = W z_i + b − y_i, (n, K)
        residuals = np.asarray(head.scores(rows.Z) - target.values.reshape(len(rows.Z), -1), dtype=np.float64)
        norm = float(np.linalg.norm(head.weight, 2))
        moves = norm > 0
        unit = math.sqrt(float(share @ (residuals**2).sum(axis=1))) / norm if moves else math.inf
        curves = {"squared": partial(squared, residuals, head.weight)}
    else:
        margins = margins_of(head, rows.Z, target.values.astype(np.intp))
        moves = bool(margins.apart.any())
        # a constant head has no row to be moved: unit is infinite, unless all are wrong and it is 0
        unit = math.sqrt(float(share @ margins.squared_distance)) if moves else math.inf
        curves = {name: partial(CLASS_LOSSES[name], margins) for name in names}
        flat_from = {name: _flat_from(name, margins, share) for name in names}
    apart = _apart(head, rows, target, rng)
    wanted = radii_of(radii, relative, unit, apart.apart)
    results = []
    for name in names:
        curve = curves[name](_with_half(wanted, unit), rows.weight, n_boot, rng)
        notes = [CONSTANT] if not moves else [] if name == "zero_one" else [UNBOUNDED]
        exact = name != "log_loss" or head.n_outputs <= 2
        results.append(_result(name, curve, wanted, unit, rows.environments, notes, exact, flat_from[name]))
    return replace(_with_others(results), apart=apart.apart, distances=apart.pairs)


def _apart(head: LinearHead, rows: Rows, target: Target, rng: np.random.Generator) -> Distances:
    """How far the environments are apart; nothing where there are none, or the target is a vector."""
    if rows.env is None or len(rows.environments) < 2 or target.values.ndim > 1:
        return Distances(np.empty(0), np.empty((0, 0)))
    numbers = target.task == "regression"
    groups = bins_of(target.values, rows.weight) if numbers else target.values.astype(np.intp)
    (own,) = rng.spawn(1)  # so that the band does not depend on whether environments are given
    return distances(np.asarray(rows.Z, np.float64), groups, rows.env, head.weight, own, rows.weight)


def _flat_from(name: str, margins: Margins, share: Floats) -> float:
    """The radius from which the curve is flat: for the error rate, all rows that can be made wrong are."""
    if name != "zero_one":
        return math.inf if margins.apart.any() else 0.0
    possible = np.isfinite(margins.squared_distance)
    return math.sqrt(float(share[possible] @ margins.squared_distance[possible]))


def _with_half(radii: Floats, unit: float) -> Floats:
    """The radii, and half the unit for the headline (0 where there is no unit)."""
    return np.append(radii, unit / 2 if math.isfinite(unit) else 0.0)


def _result(
    name: str,
    curve: Curve,
    radii: Floats,
    unit: float,
    labels: tuple[Hashable, ...],
    notes: list[str],
    exact: bool,
    flat_from: float = math.inf,
) -> WorstCaseResult:
    if unit == 0:
        notes.append(ALL_WRONG)
    if np.isnan(curve.band).all():
        notes.append(NOT_DRAWN)
    apart = float(np.max((curve.upper - curve.lower) / np.maximum(curve.loss, 1e-3)))
    if apart > LOOSE and SEARCHED not in notes:
        notes.append(
            f"The certified bounds are up to {percent(apart)} apart: the worst case is known to that accuracy."
        )
    return WorstCaseResult(
        value=float(curve.loss[-1]),
        of=name,
        unit=unit,
        radii=radii,
        loss=curve.loss[:-1],
        lower=curve.lower[:-1],
        upper=curve.upper[:-1],
        gamma=curve.gamma[:-1],
        band=curve.band[:, :-1],
        exact=exact,
        saturates_at=flat_from,
        labels=labels,
        notes=tuple(notes),
    )


def _with_others(results: list[WorstCaseResult]) -> WorstCaseResult:
    return replace(results[0], others={result.of: result for result in results[1:]})


def _searched(
    head: Any, rows: Rows, target: Target, names: list[str], radii: Any, relative: bool, n_boot: int, seed: int
) -> WorstCaseResult:
    """The general route, by a search: a lower bound."""
    search, values = torch_heads(), target.values
    unit = search.unit_of(head, rows.Z, values, names[0], weight=rows.weight)
    if radii is None and not (math.isfinite(unit) and unit > 0):
        raise InputError(
            "rows that could be made wrong are wrong already, so there is no unit of distance to choose radii by: give "
            "rows of which some are right, or radii to worst_case, in the units of Z"
        )
    wanted = radii_of(radii, relative, unit)
    at, results = _with_half(wanted, unit), []
    for name in names:
        sweep, start, lipschitz = search.sweep(
            head, rows.Z, values, name, weight=rows.weight, radius=float(at.max()), seed=seed
        )
        band = band_of(sweep, start, at, rows.weight, n_boot, generator(seed))
        curve = Curve(*curve_of(sweep, start, at, rows.weight, lipschitz), band)
        notes = [SEARCHED] if name == "zero_one" else [SEARCHED, UNBOUNDED]
        notes += [NO_DISTANCES] if rows.environments else []
        result = _result(name, curve, wanted, unit, rows.environments, notes, exact=False)
        results.append(replace(result, value=result.value if math.isfinite(unit) else math.nan))
    return _with_others(results)


def torch_heads() -> Any:
    """The module that searches for the worst points of heads that are not linear, where torch is there."""
    try:
        return importlib.import_module("invariscope.criteria.worst_case.torch_heads")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError(
            "a head that is not a LinearHead is searched with torch, which is not installed: "
            'pip install "invariscope[torch]", or give a LinearHead'
        ) from error
