"""I(E; Y | ŷ) where ŷ or y are numbers: what classifiers of the environment gain by knowing y as well."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.special

from invariscope.criteria.comparators.fold_scores import FittedClassifier, Judged
from invariscope.ratios.estimator import GroupedRows
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.resampling import pvalue

QUANTILE = float(scipy.special.ndtri(0.975))
NUMBERS = 2**22  # of one block of drawn environments
MOST_COEFFICIENTS = 500  # of the fit of E on ŷ, that gains are cleared of


@dataclass(frozen=True)
class Gained:
    """log p̂(e_i | ŷ_i, y_i) − log p̂(e_i | ŷ_i) of rows: on average all together, for pairs, and for one and others."""

    each: Floats  # (n,)
    mean: float
    error: float
    pairs: Floats
    others: Floats


def gained(knowing: Judged, without: Judged) -> Gained:
    """Held-out gains by knowing y: their mean is I(E; Y | ŷ), less what the classifiers have not learned."""
    codes, weight = knowing.rows.codes, knowing.weight
    own = np.arange(len(codes)), codes
    each = (knowing.crossed - without.crossed)[own]
    mean = float(np.average(each, weights=weight))
    error = float(np.sqrt(np.average((each - mean) ** 2, weights=weight) / weight.sum()))
    count = knowing.rows.environments
    pairs, others = np.zeros((count, count)), np.empty(count)
    for a in range(count):
        others[a] = _mean_of(codes == a, knowing.crossed[:, a], without.crossed[:, a], weight)
        for b in range(a):
            there = (codes == a) | (codes == b)
            more, less = (_of_two(said.crossed[there], a, b) for said in (knowing, without))
            pairs[a, b] = pairs[b, a] = _mean_of(codes[there] == a, more, less, weight[there])
    return Gained(each, mean, error, pairs, others)


def _of_two(logs: Floats, a: int, b: int) -> Floats:
    """log p̂(a) where it is known that it is a or b."""
    return np.asarray(logs[:, a] - np.logaddexp(logs[:, a], logs[:, b]))


def _mean_of(first: Integers, more: Floats, less: Floats, weight: Floats) -> float:
    """Mean gain of naming one of two, from the logarithms of its probability with and without y."""
    gain = np.where(first, more - less, _log_of_rest(more) - _log_of_rest(less))
    return float(np.average(gain, weights=weight))


def _log_of_rest(logs: Floats) -> Floats:
    """log(1 − p), of p within rounding of 1 as well."""
    return np.log(-np.expm1(np.minimum(logs, -1e-12)))


@dataclass(frozen=True)
class Tested:
    """Gains ahead of the fit, beyond what they are by chance, per row; and how often chance gains as much in a pair."""

    statistic: float
    null: Floats
    pairs: Floats  # p-values of (a, b), a < b, in the order of np.triu_indices


def tested(knowing: Judged, without: Judged, draws: int, rng: np.random.Generator) -> Tested:
    """Environments drawn from p̂(e | ŷ), whatever y is: the conditional randomisation test (Candès et al. 2018).

    What a row gains if its environment is e, c_ie = log p̂(e | ŷ_i, y_i) − log p̂(e | ŷ_i), is fixed before its fold
    comes. Pairs are tested by their own rows, of which it is known that they are from one of both.
    """
    fit = FittedClassifier.of("logistic", without.rows, rng)
    logs, design = fit.log_probabilities(without.rows.X), _design(fit, without.rows)
    more, less = (np.where(knowing.later[:, None], said.ahead, 0.0) for said in (knowing, without))
    codes, later = knowing.rows.codes, knowing.later
    statistic, null = _randomised(more - less, np.exp(logs), design, codes, knowing.weight, later, draws, rng)
    count = knowing.rows.environments
    pairs = np.full(count * (count - 1) // 2, np.nan)
    for place, pair in enumerate(itertools.combinations(range(count), 2) if draws else ()):
        there = np.isin(codes, pair)
        known = [values[there][:, pair] - _of_either(values[there], pair) for values in (more, less, logs)]
        gains = np.where(later[there, None], known[0] - known[1], 0.0)
        second = np.asarray(codes[there] == pair[1], dtype=np.intp)
        rows = np.exp(known[2]), design[there], second, knowing.weight[there], later[there]
        pairs[place] = pvalue(*_randomised(gains, *rows, draws, rng)) if count > 2 else pvalue(statistic, null)
    return Tested(statistic, null, pairs)


def _of_either(logs: Floats, pair: tuple[int, int]) -> Floats:
    """log(p̂(a) + p̂(b)), (n, 1)."""
    return np.logaddexp(logs[:, pair[0]], logs[:, pair[1]])[:, None]


def _randomised(
    gains: Floats,
    chance: Floats,
    design: Floats,
    codes: Integers,
    weight: Floats,
    judged: Booleans,
    draws: int,
    rng: np.random.Generator,
) -> tuple[float, Floats]:
    """Σ_i w_i (c_i,e_i − Σ_e p̂(e | ŷ_i) c_ie) per row that is judged, and the same of environments that are drawn.

    p̂(e | ŷ) was fitted to the very environments that are tested, and follows them: gains are cleared of all that such a
    fit explains, which leaves the statistic as it is and makes draws vary as much as it does.
    """
    gains = _cleared(gains, chance, design, weight)
    gains = gains - np.sum(chance * gains, axis=1, keepdims=True)
    total = weight[judged].sum()
    statistic = float(weight @ gains[np.arange(len(weight)), codes] / total)
    # weights count rows: one of weight w varies as w rows do
    scaled = gains * np.sqrt(weight)[:, None] / total
    edges = np.cumsum(chance, axis=1)[:, :-1]
    block = max(1, NUMBERS // len(weight))
    parts = [
        _drawn(scaled, edges, rng.random((min(block, draws - first), len(weight)))) for first in range(0, draws, block)
    ]
    return statistic, np.concatenate([np.empty(0), *parts])


def _design(fit: FittedClassifier, rows: GroupedRows) -> Floats:
    """The columns that the fit of E on ŷ is linear in, or the first of them, where it has too many."""
    basis = fit.model.basis.expand(rows.X)
    design = np.column_stack([np.ones(len(basis)), basis])
    return np.asarray(design[:, : max(1, MOST_COEFFICIENTS // rows.environments)])


def _cleared(gains: Floats, chance: Floats, design: Floats, weight: Floats) -> Floats:
    """Gains less their best approximation by functions b(ŷ)ᵀθ_e, in the metric Σ_i w_i Var_{e ~ p̂(· | ŷ_i)}."""
    count, width = gains.shape[1], design.shape[1]
    curvature = np.empty((count, width, count, width))
    for a in range(count):
        for b in range(count):
            covariance = weight * chance[:, a] * ((a == b) - chance[:, b])  # of 1[e = a] and 1[e = b]
            curvature[a, :, b] = (design * covariance[:, None]).T @ design
    centred = (gains - np.sum(chance * gains, axis=1, keepdims=True)) * chance * weight[:, None]
    aim = (centred.T @ design).ravel()
    theta = np.linalg.lstsq(curvature.reshape(count * width, -1), aim, rcond=1e-10)[0]
    return np.asarray(gains - design @ theta.reshape(count, width).T)


def _drawn(gains: Floats, edges: Floats, uniform: Floats) -> Floats:
    """Sums of gains (draws,) when every row's environment is drawn: that of the first edge above the number drawn."""
    codes = np.zeros(uniform.shape, dtype=np.int16)
    for edge in edges.T:
        codes += uniform > edge
    return np.asarray(sum((codes == e).astype(np.float64) @ gains[:, e] for e in range(gains.shape[1])))
