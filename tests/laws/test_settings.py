"""Every number a user may set: what can be computed with gives a result, all else is refused in one sentence.

A setting of a criterion, or of the density ratio, that stands in neither table fails here.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.criteria.registry import CRITERIA
from tests.laws.test_draws import ENV, HEAD, HITS, NETWORK, P, Y, Z

FUNCTIONS: dict[str, Callable[..., Any]] = {name: entry.function for name, entry in CRITERIA.items()}
FUNCTIONS["density_ratio"] = iv.density_ratio
HOSTILE = (1e300, 1e100, 1e30, 1e20, 1e-300, -1, -1e-300, 0, math.nan, math.inf, "a", True, None, 10**400)
#: Held by tests/laws/test_draws.py.
DRAWS = {"n_boot", "seed"}
#: Words, truth values, rows and models.
NO_NUMBERS = {
    *("task", "loss", "weight", "form", "head", "penalty", "exact", "solver", "baseline", "ratio", "representation"),
    *("y", "progress", "predictions", "relative", "classes", "intercept", "shuffles"),
    *("method", "classifier", "trained_on"),
    *("on", "over", "unbiased", "scale", "env_kernel", "reference"),
}
#: (function, setting) → calls with a value of it, one for each way it takes through the code
NUMBERS: dict[tuple[str, str], tuple[Callable[[Any], Any], ...]] = {
    ("regret", "folds"): (lambda v: iv.regret(Z, Y, ENV, folds=v, n_boot=0),),
    ("transport_gap", "folds"): (lambda v: iv.transport_gap(Z, Y, ENV, folds=v, n_boot=0),),
    ("density_ratio", "folds"): (lambda v: iv.density_ratio(Z, ENV, folds=v),),
    ("density_ratio", "svd"): (lambda v: iv.density_ratio(Z, ENV, svd=v),),
    ("dric", "svd"): (lambda v: iv.dric(Z[:, 0], Z, ENV, baseline=Z[:, 1], svd=v, n_boot=0),),
    ("calibration_variance", "bins"): (lambda v: iv.calibration_variance(P, HITS, ENV, bins=v),),
    ("influence_index", "damping"): (
        lambda v: iv.influence_index(Z, Y, ENV, damping=v, n_boot=9),
        lambda v: iv.influence_index(Z, HITS, ENV, damping=v, n_boot=9),
        lambda v: iv.influence_index(Z, Y, ENV, damping=v, n_boot=9, solver="kronecker"),
        lambda v: iv.influence_index(Z, Y, ENV, head=NETWORK, damping=v, n_boot=3),
        lambda v: iv.influence_index(Z, Y, ENV, head=NETWORK, damping=v, n_boot=0, solver="cg"),
    ),
    ("influence_index", "hessian"): (
        lambda v: iv.influence_index(Z, Y, ENV, hessian=v, n_boot=9),
        lambda v: iv.influence_index(Z, HITS, ENV, hessian=dict.fromkeys(np.unique(ENV).tolist(), v), n_boot=9),
        lambda v: iv.influence_index(Z, Y, ENV, hessian={np.unique(ENV).tolist()[0]: v}, n_boot=9),
    ),
    ("influence_index", "penalty_weight"): (
        lambda v: iv.influence_index(Z, Y, ENV, penalty="vrex", penalty_weight=v, n_boot=9),
        lambda v: iv.influence_index(Z, HITS, ENV, penalty="irm", penalty_weight=v, n_boot=9),
        lambda v: iv.influence_index(Z, HITS, ENV, penalty_weight=v, n_boot=9),
        lambda v: iv.influence_index(Z, Y, ENV, head=NETWORK, penalty="vrex", penalty_weight=v, n_boot=3),
    ),
    ("worst_case", "radii"): (
        lambda v: iv.worst_case(HEAD, Z, Y, ENV, radii=[v], n_boot=0),
        lambda v: iv.worst_case(HEAD, Z, HITS, ENV, radii=v, n_boot=0),
        lambda v: iv.worst_case(HEAD, Z, Y, ENV, radii=[v], relative=True, n_boot=99),
        lambda v: iv.worst_case(NETWORK, Z[:30], Y[:30], radii=[v], n_boot=0),
    ),
    ("worst_case_in_inputs", "rows"): (
        lambda v: iv.worst_case_in_inputs(iv.split(NETWORK), Z[:30], Y[:30], rows=v, n_boot=0),
    ),
    ("cramer_wold", "projections"): (lambda v: iv.cramer_wold(Z, Y, ENV, projections=v, n_boot=0),),
    ("mmd", "bandwidth"): (
        lambda v: iv.mmd(Z, Y, ENV, bandwidth=v, n_boot=99),
        lambda v: iv.mmd(Z, Y, ENV, bandwidth=[1.0, v], n_boot=99),
    ),
    ("hsic", "bandwidth"): (lambda v: iv.hsic(Z, Y, ENV, bandwidth=v, n_boot=99),),
    ("kmaxic", "bandwidth"): (lambda v: iv.kmaxic(Z, Y, ENV, bandwidth=v, n_boot=99),),
    ("subgroup_invariance", "bandwidth"): (lambda v: iv.subgroup_invariance(Z, Y, ENV, bandwidth=v, n_boot=99),),
    ("subgroup_invariance", "parts"): (lambda v: iv.subgroup_invariance(Z, Y, ENV, parts=v, n_boot=0),),
}
#: Where infinity is an answer: the multiplier at radius 0, the radius at which an unbounded loss is at its end, and the
#: bound on a network's worst case.
MAY_BE_INFINITE = {"gamma", "saturates_at", "upper"}


def test_every_setting_has_its_place() -> None:
    found = {
        (name, parameter.name)
        for name, function in FUNCTIONS.items()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert {setting for setting in found if setting[1] not in DRAWS | NO_NUMBERS} == set(NUMBERS)


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:8])
@pytest.mark.parametrize("setting", NUMBERS, ids="-".join)
@pytest.mark.filterwarnings("ignore")
def test_a_number_is_computed_with_or_refused(setting: tuple[str, str], value: Any) -> None:
    for call in NUMBERS[setting]:
        try:
            result = call(value)
        except iv.InputError:
            continue
        for name, part in vars(result).items():
            if name.startswith("_") or name in MAY_BE_INFINITE or not isinstance(part, float | np.ndarray | tuple):
                continue
            numbers = np.asarray(part, dtype=float) if np.asarray(part).dtype.kind == "f" else np.zeros(0)
            assert not np.isinf(numbers).any(), name
            if name in ("value", "null", "influences", "loss", "lower", "at_rows", "pairs"):
                assert not np.isnan(numbers).any(), name


@pytest.mark.parametrize("value", [1e300, -1, math.nan, math.inf, "a", True, 10**400], ids=lambda v: repr(v)[:8])
def test_what_is_no_weight_of_a_penalty_is_refused(value: Any) -> None:
    with pytest.raises(iv.InputError, match=r"^penalty_weight is .*: give a number of at least 0 and below 1e\+30$"):
        iv.influence_index(Z, Y, ENV, penalty="vrex", penalty_weight=value, n_boot=0)


def test_a_penalty_beside_which_the_risks_are_rounding_error_is_refused() -> None:
    for y, penalty in ((Y, "vrex"), (HITS, "irm")):
        with pytest.raises(iv.InputError, match="rounding error beside it: give a smaller penalty_weight"):
            iv.influence_index(Z, y, ENV, penalty=penalty, penalty_weight=1e20, n_boot=0)
        assert math.isfinite(iv.influence_index(Z, y, ENV, penalty=penalty, penalty_weight=1e9, n_boot=0).value)


def test_minus_infinity_has_its_reason() -> None:
    twice = iv.influence_index(np.tile(Z[:80], (2, 1)), np.tile(Y[:80], 2), np.repeat(["a", "b"], 80), n_boot=9)
    assert twice.value == -math.inf or twice.value < -60  # which rows were summed first may leave a last digit
    reason = "All environments pull the head exactly alike, down to the last digit: V is minus infinity."
    assert (reason in twice.notes) == (twice.value == -math.inf)
    assert twice.pvalue == 1.0
