"""Density ratios by likelihood on kernels: KLIEP."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invariscope.ratios import kernels
from invariscope.ratios.estimator import Fit, GroupedRows
from invariscope.ratios.kernel_pairs import fit_kernels
from invariscope.ratios.kernels import Bumps, Sample
from invariscope.rows.arrays import Floats, Integers

GAP, STEPS = 1e-8, 100  # nats of mean log-likelihood that may be missing to the maximum; Newton steps at most
GAP_IN_CHOICE, STEPS_IN_CHOICE = 1e-4, 8  # only bumps so narrow that they lose the choice need more
SMALLEST_SUM = 1e-100  # of bumps: all of them may underflow at a row far from every centre


def most_likely(sample: Sample, features: Callable[[Floats], Floats], start: Floats, gap: float, steps: int) -> Floats:
    """argmax over a ≥ 0, Σ a = 1 of the mean of log(kᵀ a), k = features(x): the proportions of a mixture.

    Newton steps on mean log(kᵀ a) − Σ a over a ≥ 0 (its maximum has Σ a = 1), each a quadratic program on the columns
    in use or pulled in. The likelihood is below its maximum by at most max_l mean(k_l / kᵀ a) − 1.
    """

    def at(a: Floats) -> dict[str, Floats]:
        def statistics(X: Floats, weight: Floats) -> dict[str, Floats]:
            k = features(X)
            r = np.maximum(k @ a, SMALLEST_SUM)
            return {"gain": weight @ (np.log(r) - a.sum()), "pull": (weight / r) @ k}

        return kernels.means_over(sample, statistics)

    def curvature(a: Floats, used: Integers) -> Floats:
        def statistics(X: Floats, weight: Floats) -> dict[str, Floats]:
            k = features(X)
            scaled = k[:, used] * (np.sqrt(weight) / np.maximum(k @ a, SMALLEST_SUM))[:, None]
            return {"hessian": scaled.T @ scaled}

        return kernels.means_over(sample, statistics)["hessian"]

    a, now = start, at(start)
    for _ in range(steps):
        pull = now["pull"]
        if pull.max() - 1.0 <= gap:
            break
        used = np.flatnonzero((a > 0.0) | (pull > 1.0))
        hessian = curvature(a, used)
        hessian[np.diag_indices_from(hessian)] *= 1.0 + 1e-9  # wide bumps are alike to rounding
        # hessian · a = pull, so the quadratic model around a has the linear part 2 pull − 1
        step = np.zeros_like(a)
        step[used] = kernels.nonnegative_minimum(hessian, 2.0 * pull[used] - 1.0) - a[used]
        slope = (pull - 1.0) @ step
        for halvings in range(20):
            tried = np.maximum(a + 0.5**halvings * step, 0.0)
            then = at(tried)
            if then["gain"] >= now["gain"] + 0.1 * 0.5**halvings * slope:
                break
        else:  # rounding errors are all that is left to gain
            break
        a, now = tried, then
    return np.asarray(a / a.sum())


def solve_kliep(own: Sample, reference: Sample, bumps: Bumps, penalty: float) -> Floats:
    """Coefficients from all rows, for given bumps (KLIEP has no penalty)."""
    unit = _reference_means(kernels.means_over(reference, lambda X, weight: {"k": weight @ bumps.features(X)})["k"])
    # most of the way on some of the rows: where the climb begins makes no difference to where it ends
    some = own.thinned(kernels.CHOICE_ROWS, np.random.default_rng(0))
    start = np.full(len(bumps.centres), 1.0 / len(bumps.centres))
    start = most_likely(
        Sample(bumps.features(some.X) / unit, some.weight), lambda k: k, start, GAP_IN_CHOICE, STEPS_IN_CHOICE
    )
    return most_likely(own, lambda X: bumps.features(X) / unit, start, GAP, STEPS) / unit


def choose_kliep(samples: list[tuple[Sample, Sample]], centres: Floats) -> tuple[float, float]:
    """The width of the largest mean_e log r over rows the coefficients were not fitted on."""
    folds = [[(kernels.squared_distances(part.X, centres), part.weight) for part in pair] for pair in samples]

    def score(width: float) -> float:
        here = [kernels.features_at(pair[0][0], width) for pair in folds]
        there = [pair[1][1] @ kernels.features_at(pair[1][0], width) for pair in folds]
        total, start = 0.0, np.full(len(centres), 1.0 / len(centres))
        for k in range(len(folds)):
            fitted = [j for j in range(len(folds)) if j != k] or [k]  # one row alone judges itself
            rows = sum(folds[j][1][1].sum() for j in fitted)
            unit = _reference_means(np.sum([there[j] for j in fitted], axis=0) / rows)
            training = Sample(
                np.concatenate([here[j] for j in fitted]) / unit, np.concatenate([folds[j][0][1] for j in fitted])
            )
            start = most_likely(training, lambda k: k, start, GAP_IN_CHOICE, STEPS_IN_CHOICE)
            a, tested = start / unit, folds[k][0][1]
            likelihood = tested @ np.log(np.maximum(here[k] @ a, kernels.SMALLEST)) / tested.sum()
            expected = max(there[k] @ a / folds[k][1][1].sum(), kernels.SMALLEST)
            total -= float(likelihood - np.log(expected))
        return total

    return kernels.best_width(score, kernels.typical_distance(centres)), 0.0


def _reference_means(means: Floats) -> Floats:
    # a bump that no row of the reference comes near would otherwise have an infinite ratio
    return np.maximum(means, kernels.SMALLEST)


def fit_kliep(rows: GroupedRows, rng: np.random.Generator, pairwise: bool = False) -> Fit:
    """Density ratios by maximum likelihood (KLIEP): the r for which r · p_reference is closest to p_e.

        max_{a ≥ 0}  mean_e[log r(x)]   subject to   mean_reference[r(x)] = 1,
        r(x) = Σ_l a_l exp(−|x − c_l|² / 2σ²)

    That is the Kullback–Leibler divergence of r · p_reference from p_e, up to a constant. With every bump divided by
    its mean over the reference it is the problem of a mixture's proportions, which is convex; it is solved by Newton
    steps to a known distance from the maximum. σ is that of the largest likelihood on held-out rows; there is no
    penalty. Cost is linear in rows.

    It cannot tell how large a ratio is where the reference has no rows, and one row of e far from all others counts as
    much as it does in any likelihood.

    Reference: Sugiyama, Suzuki, Nakajima, Kashima, von Bünau, Kawanabe (2008), Direct importance estimation for
    covariate shift adaptation, Annals of the Institute of Statistical Mathematics 60.

    >>> rng = np.random.default_rng(0)
    >>> narrow, wide = rng.normal(size=(2000, 1)), 1.5 * rng.normal(size=(2000, 1))
    >>> fit = fit_kliep(GroupedRows(np.vstack([narrow, wide]), np.array([0, 2000, 4000])), rng)
    >>> scores = fit.log_densities(np.array([[0.0], [2.0]]))
    >>> np.round(scores[:, 0] - scores[:, 1], 1)  # truth: ln 1.5 − x² (1 − 1/1.5²) / 2
    array([ 0.4, -0.7])
    """
    return fit_kernels(rows, "KLIEP", choose_kliep, solve_kliep, rng, pairwise=pairwise)
