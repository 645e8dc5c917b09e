"""Kernel estimators of density ratios: through one reference, or every pair in its own direction."""

from __future__ import annotations

import itertools

import numpy as np

from invariscope.ratios import kernels
from invariscope.ratios.estimator import Fit, GroupedRows
from invariscope.ratios.kernels import Bumps, Chooser, Expansion, KernelFit, Sample, Solver
from invariscope.ratios.pairs import PairwiseFit
from invariscope.rows.blocks import one_blas_thread


@one_blas_thread()  # many small matrices; passes over all rows have threads of their own
def fit_kernels(
    rows: GroupedRows,
    name: str,
    choose: Chooser,
    solve: Solver,
    rng: np.random.Generator,
    alpha: float = 0.0,
    pairwise: bool = False,
) -> Fit:
    """All environments through one reference, or every pair in both directions.

    1 / r of a sum of bumps grows without bound where they end, so ratios *to* a narrow environment may have means of
    any size. Fitted directly, r_{a,b} is a sum of bumps too.
    """
    if pairwise:
        return _fit_directly(rows, name, choose, solve, rng, alpha)
    return kernels.fit_through_reference(rows, name, choose, solve, rng, alpha)


def _fit_directly(
    rows: GroupedRows, name: str, choose: Chooser, solve: Solver, rng: np.random.Generator, alpha: float
) -> PairwiseFit:
    """ρ_{a,b} for all a ≠ b, with bumps at rows of a and b as the reference; all b share the bumps of a."""
    samples = [Sample.of(rows, e) for e in range(rows.environments)]
    some = [sample.thinned(kernels.CHOICE_ROWS, rng) for sample in samples]
    centres = [kernels.centres_of(sample, rng) for sample in samples]
    fits = {}
    for a, b in itertools.permutations(range(rows.environments), 2):
        width, penalty = choose(kernels.paired_folds(some[a], some[b], rng), centres[a])
        bumps = Bumps(centres[a], width)
        expansion = Expansion(bumps, penalty, solve(samples[a], samples[b], bumps, penalty))
        fits[a, b] = KernelFit(1, {0: expansion}, solve, name, alpha)
    description = f"{name} for every pair and direction, each a sum of at most {kernels.CENTRES} Gaussian bumps"
    return PairwiseFit(fits, description, kernels.remarks_on_columns(rows.X.shape[1]))
