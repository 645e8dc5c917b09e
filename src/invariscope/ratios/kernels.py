"""What the kernel estimators of density ratios share: a reference environment, Gaussian bumps, their width.

Every environment is compared with the same reference, r_e(x) = p_e(x) / p_reference(x), and r_e is a sum of bumps

    r_e(x) = Σ_l a_l exp(−|x − c_l|² / 2σ²),   a ≥ 0,   centres c_l among the rows of e,

so that pairs are differences of log r_e and agree with each other exactly (where that goes wrong, pairs are fitted
directly: :mod:`invariscope.ratios.kernel_pairs`). The estimators differ in how they find a.
There is no constant among the bumps: it would keep the ratio near 1 on a reference that e never reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.optimize import nnls

from invariscope.ratios.estimator import GroupedRows, JointFit
from invariscope.ratios.overlap import OUT_OF_REACH
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.blocks import BLOCK_ROWS, blocks_in, run_over_rows, sum_by_environment
from invariscope.rows.resampling import ranks_by_content

CENTRES = 150  # bumps of an environment: more did not lower the error on normal laws in 1 to 20 columns
CHOICE_ROWS = 3000  # rows of an environment that width and penalty are chosen on
FOLDS = 3
SMALLEST = 1e-8  # of a ratio: no number of rows that fits a table tells a smaller one from it
LARGEST_RELATIVE = 0.999  # of α r_α, which is below 1: beyond, p_reference / p_e would be a difference of roundings
MANY_COLUMNS = 15  # from which distances between rows are all alike
REMARKABLE = 0.01  # share of rows at a limit from which a note says so


@dataclass(frozen=True)
class Bumps:
    """Gaussian bumps of one width."""

    centres: Floats
    width: float

    def features(self, X: Floats) -> Floats:
        """exp(−|x − c_l|² / 2σ²) for every centre: (n, centres)."""
        return features_at(squared_distances(X, self.centres), self.width)


def squared_distances(X: Floats, centres: Floats) -> Floats:
    """|x_i − c_l|²: (n, centres)."""
    middle = centres.mean(axis=0)  # far from 0, distances would be small differences of large squares
    X, centres = X - middle, centres - middle
    out = X @ (-2.0 * centres.T)  # |x|² − 2 xᵀc + |c|²
    out += np.einsum("ij,ij->i", centres, centres)
    out += np.einsum("ij,ij->i", X, X)[:, None]
    return np.maximum(out, 0.0, out=out)


def features_at(squared: Floats, width: float) -> Floats:
    """Bumps of the given squared distances: (n, centres)."""
    out = squared * (-0.5 / width**2)
    return np.exp(out, out=out)


@dataclass(frozen=True)
class Sample:
    """Rows of one environment with the rows each stands for."""

    X: Floats
    weight: Floats

    @classmethod
    def of(cls, rows: GroupedRows, environment: int) -> Sample:
        part = rows.of(environment)
        return cls(rows.X[part], np.ones(part.stop - part.start) if rows.weight is None else rows.weight[part])

    def ranks(self) -> Integers:
        """The place of every row along one fixed direction; equal rows share one."""
        return ranks_by_content(self.X, np.array([0, len(self.X)]))

    def thinned(self, count: int, rng: np.random.Generator) -> Sample:
        """All rows, or ``count`` drawn in proportion to what they stand for.

        Rows are drawn by rank: their order, and whether one is repeated or has a weight, make no difference.
        """
        if self.weight.sum() <= count:
            return self
        order = np.argsort(self.ranks(), kind="stable")
        reached = np.cumsum(self.weight[order])
        drawn = np.searchsorted(reached, np.sort(rng.random(count)) * reached[-1])
        return Sample(self.X[order[drawn]], np.ones(count))

    def folds(self, count: int, rng: np.random.Generator) -> list[Sample]:
        """The rows in ``count`` parts by chance, equal rows in the same part."""
        ranks = self.ranks()
        fold = (rng.permutation(int(ranks.max()) + 1) % count)[ranks]
        return [Sample(self.X[fold == k], self.weight[fold == k]) for k in range(count)]


def paired_folds(own: Sample, reference: Sample, rng: np.random.Generator) -> list[tuple[Sample, Sample]]:
    """Both samples in the same number of parts: ``FOLDS``, or fewer if one has fewer different rows."""
    count = min(FOLDS, int(own.ranks().max()) + 1, int(reference.ranks().max()) + 1)
    return list(zip(own.folds(count, rng), reference.folds(count, rng), strict=True))


def centres_of(sample: Sample, rng: np.random.Generator) -> Floats:
    """Rows to put bumps on: at most ``CENTRES``, all different."""
    return np.unique(sample.thinned(CENTRES, rng).X, axis=0)


def means_over(sample: Sample, statistics: Callable[[Floats, Floats], dict[str, Floats]]) -> dict[str, Floats]:
    """Sums of ``statistics(X, weight)`` over blocks of rows, divided by the rows: means over the sample."""

    def of_run(_: int, run: slice) -> dict[str, Floats]:
        return statistics(sample.X[run], sample.weight[run])

    sums = sum_by_environment(of_run, np.array([0, len(sample.X)]), BLOCK_ROWS)
    return {name: value[0] / sample.weight.sum() for name, value in sums.items()}


def widest(rows: GroupedRows) -> int:
    """The environment that covers the others best: that with the largest determinant of its covariance.

    p_e / p_widest is a bump where p_widest / p_e would grow without bound, and bumps add up to bumps.
    """
    sizes = []
    for environment in range(rows.environments):
        sample = Sample.of(rows, environment)
        centred = sample.X - np.average(sample.X, axis=0, weights=sample.weight)
        covariance = (centred * sample.weight[:, None]).T @ centred / sample.weight.sum()
        # the ridge keeps columns that are constant or repeated in one environment from deciding alone
        sizes.append(np.linalg.slogdet(covariance + 1e-3 * np.eye(len(covariance)))[1])
    return int(np.argmax(sizes))


def root_of(matrix: Floats, diagonal: Floats) -> Floats:
    """L with L Lᵀ = matrix, positive definite up to rounding: as much is added of a diagonal as that takes."""
    for share in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):  # bumps that are alike leave nothing between them but rounding errors
        try:
            return np.asarray(scipy.linalg.cholesky(matrix + share * diagonal, lower=True))
        except np.linalg.LinAlgError:
            continue
    return np.asarray(scipy.linalg.cholesky(matrix + diagonal, lower=True))


def nonnegative_minimum(quadratic: Floats, linear: Floats) -> Floats:
    """argmin over a ≥ 0 of ½ aᵀ Q a − cᵀ a, for Q positive definite up to rounding."""
    diagonal = np.diag(np.diag(quadratic) + SMALLEST * np.trace(quadratic) / len(linear))
    root = root_of(quadratic, diagonal)
    # Q = L Lᵀ: the same as min ½ ‖Lᵀ a − L⁻¹ c‖²
    target = scipy.linalg.solve_triangular(root, linear, lower=True)
    solution: Floats = nnls(root.T, target, maxiter=100 * len(linear))[0]
    return solution


def best_width(score: Callable[[float], float], unit: float) -> float:
    """The width of the lowest score: powers of 2 times ``unit`` (beyond 1/4 and 2 while it falls), then finer steps."""
    scores = {exponent: score(unit * 2.0**exponent) for exponent in (-2.0, -1.0, 0.0, 1.0)}

    def best() -> float:
        return min(scores, key=lambda exponent: scores[exponent])

    for _ in range(5):
        edge = best()
        if min(scores) < edge < max(scores):
            break
        beyond = edge - 1.0 if edge == min(scores) else edge + 1.0
        scores[beyond] = score(unit * 2.0**beyond)
    for step in (0.5, 0.25):
        middle = best()
        for exponent in (middle - step, middle + step):
            scores[exponent] = score(unit * 2.0**exponent)
    return float(unit * 2.0 ** best())


def typical_distance(centres: Floats) -> float:
    """Median distance between centres; 1 if there is only one, or if they differ by less than can be squared."""
    apart = squared_distances(centres, centres)[np.triu_indices(len(centres), 1)]
    return float(np.sqrt(np.median(apart))) or 1.0 if len(apart) else 1.0


@dataclass(frozen=True)
class Expansion:
    """One environment against the reference: where its bumps are, how they are penalised, what they weigh."""

    bumps: Bumps
    penalty: float
    coefficients: Floats


#: (sample of the environment, sample of the reference, bumps, penalty) → coefficients
Solver = Callable[[Sample, Sample, Bumps, float], Floats]
#: (folds of the environment and the reference, centres) → width and penalty
Chooser = Callable[[list[tuple[Sample, Sample]], Floats], tuple[float, float]]


@dataclass(frozen=True)
class KernelFit(JointFit):
    """Ratios of all environments to one of them. ``alpha``: they are relative ratios p_e / (α p_e + (1 − α) p_ref).

    ``expansions`` are those of all environments but the reference, by their numbers.
    """

    reference: int
    expansions: dict[int, Expansion]
    solver: Solver
    description: str
    alpha: float = 0.0
    notes: tuple[str, ...] = ()
    held_out: Floats | None = None

    def log_densities(self, X: Floats) -> Floats:
        out = np.zeros((len(X), len(self.expansions) + 1))

        def evaluate(rows: slice) -> None:
            for block, (environment, expansion) in itertools.product(blocks_in(rows), self.expansions.items()):
                ratio = expansion.bumps.features(X[block]) @ expansion.coefficients
                out[block, environment] = np.log(np.maximum(absolute(ratio, self.alpha), SMALLEST))

        run_over_rows(evaluate, len(X))
        return out

    def again(self, rows: GroupedRows) -> KernelFit:
        reference = Sample.of(rows, self.reference)
        expansions = {}
        for environment, old in self.expansions.items():
            own = Sample.of(rows, environment)
            # bumps on these rows: on rows held out from them, they would give away which environment those are from
            bumps = Bumps(centres_of(own, np.random.default_rng(0)), old.bumps.width)
            expansions[environment] = Expansion(bumps, old.penalty, self.solver(own, reference, bumps, old.penalty))
        return replace(self, expansions=expansions)


def absolute(ratio: Floats, alpha: float) -> Floats:
    """p / q from the relative ratio r = p / (α p + (1 − α) q): (1 − α) r / (1 − α r).

    >>> absolute(np.array([0.5, 1.0]), 0.1)
    array([0.47368421, 1.        ])
    """
    if alpha == 0.0:
        return ratio
    bounded = np.minimum(ratio, LARGEST_RELATIVE / alpha)
    return np.asarray((1.0 - alpha) * bounded / (1.0 - alpha * bounded))


def fit_through_reference(
    rows: GroupedRows, name: str, choose: Chooser, solve: Solver, rng: np.random.Generator, alpha: float = 0.0
) -> KernelFit:
    """Choose width and penalty for every environment on some of its rows, then fit on all of them."""
    number = widest(rows)
    reference, expansions, apart = Sample.of(rows, number), {}, 0
    for environment in (each for each in range(rows.environments) if each != number):
        sample = Sample.of(rows, environment)
        centres = centres_of(sample, rng)
        some, others = sample.thinned(CHOICE_ROWS, rng), reference.thinned(CHOICE_ROWS, rng)
        width, penalty = choose(paired_folds(some, others, rng), centres)
        bumps = Bumps(centres, width)
        expansions[environment] = Expansion(bumps, penalty, solve(sample, reference, bumps, penalty))
        apart += lies_apart(expansions[environment], some, others, alpha)
    widths = [expansion.bumps.width for expansion in expansions.values()]
    description = (
        f"{name}: ratios to the environment of the widest spread, each a sum of at most {CENTRES} Gaussian bumps "
        f"({', '.join(f'{width:.2g}' for width in sorted({min(widths), max(widths)}))} spreads wide)"
    )
    notes = remarks_on_columns(rows.X.shape[1])
    if apart:
        notes += (
            f"{apart} of {rows.environments} environments hardly overlap with the one of the widest spread, to which "
            "they are all compared: their density ratios are at the limit of what rows can tell.",
        )
    return KernelFit(number, expansions, solve, description, alpha, notes)


def remarks_on_columns(count: int) -> tuple[str, ...]:
    """What bumps cannot see in so many columns."""
    if count <= MANY_COLUMNS:
        return ()
    return (
        f"In {count} columns Gaussian bumps see little of what sets environments apart, and may find "
        "overlap where there is none: the logistic estimator sees more.",
    )


def lies_apart(expansion: Expansion, own: Sample, reference: Sample, alpha: float) -> bool:
    """Whether the ratio is at a limit, or beyond what any reference could make up for, at many rows."""
    here, there = (expansion.bumps.features(part.X) @ expansion.coefficients for part in (own, reference))
    shares = [
        part.weight @ ((ratio < SMALLEST) | (alpha * ratio > LARGEST_RELATIVE) | (ratio > OUT_OF_REACH))
        / part.weight.sum()
        for part, ratio in ((own, here), (reference, there))
    ]  # fmt: skip
    return bool(max(shares) > REMARKABLE)
