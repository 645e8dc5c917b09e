"""DRIC (also known as CRIC): the density-ratio criterion of the papers, to the letter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from invariscope.criteria.registry import criterion
from invariscope.environments import Environments
from invariscope.errors import InputError
from invariscope.ratios.density_ratio import DensityRatio, overlap_of, ratios_within
from invariscope.ratios.logistic import fit_logistic
from invariscope.results import DricResult, Floats


@criterion(
    title="DRIC as published",
    needs={"predictions", "inputs", "baseline"},
    better="lower",
    tells="The number the DRIC and CRIC papers report: 1 for the baseline, smaller for predictions that vary less.",
    cannot_tell=(
        "Invariance: with the true density ratio it is 0 for every predictor; what is left is the error of the "
        "estimated ratio times the size of the predictions. Shrinking predictions by 10 divides it by 100."
    ),
)
def dric(
    predictions: Any,
    X: Any,
    env: Any = None,
    *,
    baseline: Any,
    ratio: str | DensityRatio = "logistic",
    weight: Any = None,
) -> DricResult:
    """The published density-ratio criterion of representation invariance (DRIC; CRIC in the older paper).

        q_f(e, e') = mean_{e'}[ f(x) ρ̂_{e,e'}(x) ],   q_f(e, e) = mean_e[ f(x) ]                              (eq. 6)
        Q̂ = Σ_{e,e'} (q_f(e,e') − q_f(e,e))² / Σ_{e,e'} (q_b(e,e') − q_b(e,e))²                                 (eq. 8)

    f are the model's predictions, b those of the baseline (ERM on x), so Q̂ = 1 exactly for the baseline itself.

    **What it cannot tell.** f is one function shared by all environments, so with the true ratio q_f(e,e') = q_f(e,e)
    for *every* f, invariant or not. The published number measures how far the estimated ratio is off, times the
    spread of the predictions: a predictor shrunk towards a constant scores near 0, however variant its representation
    is, and an invariant predictor scores about 1. Use :func:`~invariscope.regret` to measure invariance; use this to
    compare with published tables.

    Parameters
    ----------
    predictions : (n,) numbers or (n, K) class probabilities of the model, in the rows' order
    X : (n, d) inputs, or an :class:`~invariscope.Environments` of them (then ``env`` is left out)
    baseline : predictions of the baseline, same shape
    ratio : "logistic", or a fitted :class:`DensityRatio`

    Returns
    -------
    DricResult
        ``value`` Q̂ with ``log10``; ``numerator`` and ``denominator``; ``pairs[a, b]`` = q_f(labels[a], labels[b]), with
        a last axis for classes; ``overlap`` of the environments.

    >>> rng = np.random.default_rng(0)
    >>> x, env = rng.normal(size=(400, 3)), np.repeat(["a", "b"], 200)
    >>> f = x[:, 0]
    >>> dric(f, x, env, baseline=f).value, round(dric(0.1 * f, x, env, baseline=f).value, 12)
    (1.0, 0.01)
    """
    data = Environments.of(X, None, env, weight)
    fitted = fit_logistic(data) if isinstance(ratio, str) and ratio == "logistic" else ratio
    if not isinstance(fitted, DensityRatio):
        raise InputError(f'ratio {ratio!r} is unknown: use "logistic" or a fitted DensityRatio')
    scores = fitted.log_densities(data.X)
    model, reference = _outputs(data, predictions, "predictions"), _outputs(data, baseline, "baseline")
    if model.shape != reference.shape:
        raise InputError(
            f"predictions have {model.shape[1]} outputs but the baseline has {reference.shape[1]}: give the same"
        )
    pairs, base_pairs = _transported_means(data, scores, model), _transported_means(data, scores, reference)
    numerator, denominator = _total_gap(pairs), _total_gap(base_pairs)
    notes = []
    overlap = overlap_of(data, scores)
    if denominator > 0:
        value = numerator / denominator
    else:
        value = math.nan
        notes.append("The baseline's predictions do not move between environments, so there is nothing to divide by.")
    apart = [str(label) for label, verdict in zip(data.labels, overlap.verdicts, strict=True) if verdict == "none"]
    if apart:
        notes.append(
            f"Hardly any overlap for {', '.join(apart)}: there the ratio, and so this number, is mostly noise."
        )
    return DricResult(
        value=value,
        log10=math.log10(value) if value > 0 else -math.inf if value == 0 else math.nan,
        numerator=numerator,
        denominator=denominator,
        labels=data.labels,
        pairs=pairs[:, :, 0] if pairs.shape[2] == 1 else pairs,
        overlap=overlap,
        notes=tuple(notes),
    )


def _outputs(data: Environments, values: Any, what: str) -> Floats:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"{what} must be one column or one per class: they have shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{what} have {int((~np.isfinite(array)).sum())} missing or infinite values")
    return data.grouped(array, what)


def _transported_means(data: Environments, scores: Floats, outputs: Floats) -> Floats:
    """q(e, e') for all pairs and outputs, (E, E, K): column b holds the rows of b weighted to all others."""
    count = len(data)
    means = np.empty((count, count, outputs.shape[1]))
    for b in range(count):
        rows = slice(int(data.offsets[b]), int(data.offsets[b + 1]))
        ratio = ratios_within(scores[rows], b)
        if data.weight is not None:
            ratio *= data.weight[rows][:, None]
        means[:, b] = ratio.T @ outputs[rows] / data.rows[b]
    return means


def _total_gap(pairs: Floats) -> float:
    own = np.einsum("aak->ak", pairs)
    return float(np.sum((pairs - own[:, None]) ** 2))
