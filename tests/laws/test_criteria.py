"""Laws that every registered criterion obeys: names, row order, weights, units, seeds, containers, plain data.

A criterion without an entry in ``ENTRIES`` fails here, and so does an entry that forgets a field of its result.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.stats import ks_2samp

import invariscope  # noqa: F401  (registers the criteria)
from invariscope.criteria.material import KINDS, NEEDS
from invariscope.criteria.registry import CRITERIA
from invariscope.heads.linear_head import LinearHead
from invariscope.rows.environments import Environments

DRAWS = 999
REFITS = 19  # draws that each cost a fit
SIZES = (150, 120, 95)
LABELS = ("b", "d", "f")
IN_ORDER = {"b": 2019, "d": 2020, "f": 2021}
OUT_OF_ORDER = {"b": "zebra", "d": "ant", "f": "mole"}
SHIFT, SCALE = 3.0, -4.0  # of an affine map of the target


# --- data --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Rows:
    """All that a criterion may ask for, about the same rows."""

    X: Any
    Z: Any
    y: Any
    env: Any
    predictions: Any
    baseline: Any
    weight: Any = None

    def map(self, change: Callable[[Any], Any]) -> Rows:
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return Rows(**{name: None if value is None else change(value) for name, value in found.items()})

    def take(self, index: np.ndarray) -> Rows:
        return self.map(lambda values: values[index])


def example(task: str, seed: int) -> Rows:
    """Three environments of unequal size that disagree; numbers are exact in single precision."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(3), SIZES)
    n = len(code)
    X = rng.normal(size=(n, 3)) + 0.4 * code[:, None]
    Z = X @ (np.eye(3) + 0.3 * rng.uniform(-1, 1, (3, 3)))
    X, Z = (np.round(values * 1024) / 1024 for values in (X, Z))
    score = X[:, 0] + 0.5 * code * X[:, 1]
    if task == "regression":
        y, predictions, baseline = score + rng.normal(size=n), 0.8 * score, X[:, 0].copy()
    elif task == "binary":
        y = (score + rng.logistic(size=n) > 0.4).astype(float)
        predictions, baseline = 1 / (1 + np.exp(-score)), 1 / (1 + np.exp(-X[:, 0]))
    else:
        scores = np.column_stack([0 * score, score, X[:, 2]])
        y = np.argmax(scores + rng.gumbel(size=(n, 3)), axis=1).astype(float)
        predictions, baseline = softmax(scores), softmax(0.5 * scores)
    if task == "regression":
        y, predictions = (np.round(values * 1024) / 1024 for values in (y, predictions))
    return Rows(X, Z, y, np.array(LABELS, dtype=object)[code], predictions, baseline)


@cache
def answer(name: str, task: str, seed: int, weighted: bool = False) -> Any:
    """The result for the example as it is, which most laws hold against another; results are frozen."""
    rows = example(task, seed)
    return ENTRIES[name].call(with_weights(rows, seed) if weighted else rows)


def with_weights(rows: Rows, seed: int) -> Rows:
    return replace(rows, weight=np.random.default_rng(seed).integers(1, 4, len(rows.y)).astype(float))


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


# --- the table ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Entry:
    """How a criterion is called, what its result is made of, and which laws it obeys beyond those for all.

    Fields of the result: ``exact`` are sums over rows; ``simulated`` come from random draws; ``folded`` depend on which
    rows share a fold; ``words`` are text; ``labelled`` are labels. ``axes`` says which axes of an array follow the
    environments. ``draws`` are whole null distributions.
    """

    call: Callable[..., Any]
    tasks: tuple[str, ...] = ("regression", "binary", "multiclass")
    exact: tuple[str, ...] = ()
    simulated: tuple[str, ...] = ()
    draws: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    words: tuple[str, ...] = ("notes",)
    labelled: tuple[str, ...] = ()
    # from random halves of the rows: the same for the same rows in the same order, and for no other order
    halved: tuple[str, ...] = ()
    axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seeded: bool = False
    n_draws: int = DRAWS
    # draws that depend on the rows through sums alone, continuously: they survive another order of the rows
    steady_draws: bool = True
    # relative, for maps that change how leverages are rounded (those are kept in single precision)
    coarse: float = 1e-9
    # how it is called with rows grouped beforehand, where that takes more than the rows
    grouped: Callable[..., Any] | None = None
    # (name, map of the rows, what becomes of exact fields): power of the factor by field, "same" for all others
    affine: tuple[tuple[str, str, Callable[[Rows], Rows], Mapping[str, float] | None], ...] = ()


def _regret(rows: Rows, seed: int = 0) -> Any:
    function = CRITERIA["regret"].function
    return function(rows.Z, rows.y, rows.env, weight=rows.weight, n_boot=DRAWS, seed=seed)


def _influence_index(rows: Rows, seed: int = 0) -> Any:
    function = CRITERIA["influence_index"].function
    return function(rows.Z, rows.y, rows.env, weight=rows.weight, n_boot=DRAWS, seed=seed)


def _dric(rows: Rows, seed: int = 0) -> Any:
    function = CRITERIA["dric"].function
    options = {"baseline": rows.baseline, "weight": rows.weight, "n_boot": REFITS, "seed": seed}
    return function(rows.predictions, rows.X, rows.env, **options)


def _transport_gap(rows: Rows, seed: int = 0) -> Any:
    function = CRITERIA["transport_gap"].function
    return function(rows.Z, rows.y, rows.env, weight=rows.weight, n_boot=DRAWS, seed=seed)


def _of_laws(name: str, **options: Any) -> Callable[..., Any]:
    def call(rows: Rows, seed: int = 0) -> Any:
        function = CRITERIA[name].function
        return function(rows.Z, rows.y, rows.env, weight=rows.weight, n_boot=DRAWS, seed=seed, **options)

    return call


def _cramer_wold_grouped(rows: Rows) -> Any:
    return CRITERIA["cramer_wold"].function(Environments(rows.Z, rows.y, rows.env), projections=10, n_boot=DRAWS)


def _conditional_information(rows: Rows, seed: int = 0) -> Any:
    function = CRITERIA["conditional_mutual_information"].function
    return function(rows.predictions, rows.y, rows.env, weight=rows.weight, n_boot=DRAWS, seed=seed)


HEADS = {
    1: LinearHead([0.8, 0.3, -0.2], 0.1),
    3: LinearHead([[0.0, 0.2, 0.1], [0.9, -0.1, 0.0], [0.1, 0.0, 0.8]], [0.1, 0.0, -0.1]),
}


def _worst_case(rows: Rows, seed: int = 0) -> Any:
    shape = np.shape(rows.predictions)
    return _worst_case_of(1 if len(shape) == 1 else shape[1], rows.Z, rows.y, seed, env=rows.env, weight=rows.weight)


def _worst_case_grouped(rows: Rows) -> Any:
    outputs = 1 if np.ndim(rows.predictions) == 1 else np.shape(rows.predictions)[1]
    return _worst_case_of(outputs, Environments(rows.Z, rows.y, rows.env), None, 0)


def _worst_case_of(outputs: int, Z: Any, y: Any, seed: int, **options: Any) -> Any:
    radii = np.linspace(0.1, 1.4, 14)
    function = CRITERIA["worst_case"].function
    return function(HEADS[outputs], Z, y, radii=radii, relative=True, n_boot=DRAWS, seed=seed, **options)


DEALS = 199  # each compares all rows with all others


def _compared(name: str) -> Callable[..., Any]:
    def call(rows: Rows, seed: int = 0) -> Any:
        function = CRITERIA[name].function
        return function(rows.Z, rows.y, rows.env, weight=rows.weight, n_boot=DEALS, seed=seed)

    return call


def _compared_grouped(name: str) -> Callable[..., Any]:
    return lambda rows: CRITERIA[name].function(Environments(rows.Z, rows.y, rows.env), n_boot=DEALS)


def _on_predictions(name: str) -> Callable[..., Any]:
    def call(rows: Rows, seed: int = 0) -> Any:
        return CRITERIA[name].function(rows.predictions, rows.y, rows.env, weight=rows.weight)

    return call


def _mixed_columns(rows: Rows) -> Rows:
    mix = np.array([[1.0, 0.4, -0.3], [-0.5, 2.0, 0.2], [0.1, -0.6, 0.7]])
    return replace(rows, Z=rows.Z @ mix + [5.0, -40.0, 0.5])


def _representation_in_other_units(rows: Rows) -> Rows:
    return replace(rows, Z=rows.Z * [0.01, 1.0, 5000.0] + [1.0, 2.0, -3.0])


def _mapped_target(rows: Rows) -> Rows:
    return replace(rows, y=SCALE * rows.y + SHIFT)


def _mapped_target_and_predictions(rows: Rows) -> Rows:
    return replace(rows, y=SCALE * rows.y + SHIFT, predictions=SCALE * rows.predictions + SHIFT)


def _scaled_target_and_predictions(rows: Rows) -> Rows:
    return replace(rows, y=SCALE * rows.y, predictions=SCALE * rows.predictions)


def _scaled_predictions(rows: Rows) -> Rows:
    return replace(rows, predictions=SCALE * rows.predictions, baseline=SCALE * rows.baseline)


def _inputs_in_other_units(rows: Rows) -> Rows:
    return replace(rows, X=rows.X * [0.01, 1.0, 5000.0] + [1.0, 2.0, -3.0])


ENVIRONMENT_FIELDS: dict[str, Any] = {
    "exact": ("value", "interval", "per_environment.value", "per_environment.interval"),
    "words": ("unit",),  # notes quote numbers, which rounding may change
    "labelled": ("worst",),
    "axes": {"per_environment.value": (0,), "per_environment.interval": (0,)},
}
COMPARATOR_FIELDS: dict[str, Any] = {
    "exact": ("value", "interval", "per_environment.value", "per_environment.interval", "pairs"),
    "simulated": ("pvalue", "pair_pvalues"),
    "draws": ("null",),
    "words": ("compared", "estimator", "notes"),
    "labelled": ("labels",),
    "axes": {
        **dict.fromkeys(("per_environment.value", "per_environment.interval"), (0,)),
        **dict.fromkeys(("pairs", "pair_pvalues"), (0, 1)),
    },
    "seeded": True,
}
PREDICTION_POWERS = {"numerator": 2, "denominator": 2, "pairs": 1, "sigma2": 2}
FOURTH_POWER = {"value": 4, "interval": 4, "per_environment.value": 2, "per_environment.interval": 2}
OF_ENVIRONMENTS = {"per_environment.value": (0,), "per_environment.interval": (0,)}
COMPARATOR: dict[str, Any] = {
    "draws": ("null",),
    "n_draws": DEALS,
    "words": ("notes", "compared", "estimator"),
    "labelled": ("labels",),
    "seeded": True,
    "affine": (
        ("z in other units", "any", _representation_in_other_units, {}),
        ("y in other units", "regression", _mapped_target, {}),
    ),
}
ENTRIES: dict[str, Entry] = {
    "regret": Entry(
        call=_regret,
        exact=(
            *("value", "per_environment.value", "explained_own", "rows", "shared_loss", "own_loss", "pairs", "drivers"),
            "statistic",
        ),
        simulated=("interval", "worst_interval", "per_environment.interval", "pvalue"),
        draws=("null",),
        folded=("explained",),  # row i of an environment, of those that count, is in fold i mod 5
        words=("task", "columns", "notes"),
        labelled=("labels", "worst"),
        axes={
            **dict.fromkeys(("per_environment.value", "per_environment.interval", "rows", "drivers"), (0,)),
            **dict.fromkeys(("shared_loss", "own_loss"), (0,)),
            "pairs": (0, 1),
        },
        seeded=True,
        steady_draws=False,  # eigenvectors carry the draws, and rounding may turn their signs
        coarse=2e-6,
        affine=(
            # how the regret is shared out among columns does depend on the columns
            ("z in other coordinates", "any", _mixed_columns, {"drivers": np.nan}),
            ("y in other units", "regression", _mapped_target, {"shared_loss": 2, "own_loss": 2}),
        ),
    ),
    "influence_index": Entry(
        call=_influence_index,
        exact=("value", "influences", "direction", "eigenvalues", "damping", "rank", "shares"),
        simulated=("pvalue",),
        draws=("null",),
        words=(
            *("parameters", "loss", "solver", "damping_reason"),
            *("penalty", "penalty_weight", "without_penalty", "shuffles"),
        ),
        labelled=("labels",),
        axes={"influences": (0,), "shares": (0,)},
        seeded=True,
        # V is the logarithm of a square, and the curvature of a least-squares head does not depend on the target
        affine=(("y in other units", "regression", _mapped_target, {"value": np.inf, "influences": 1}),),
    ),
    "dric": Entry(
        call=_dric,
        exact=(
            *("value", "log10", "numerator", "denominator", "pairs", "sigma2", "rows"),
            *("overlap.effective", "overlap.effective_rows", "overlap.mean_ratio", "overlap.largest"),
            *("overlap.beyond_cap", "overlap.reached", "overlap.cap", "overlap.calibration", "overlap.pooled"),
        ),
        simulated=("interval", "numerator_interval", "pvalue"),
        draws=("null", "null_numerator"),
        words=("notes", "ratio", "bound"),
        labelled=("labels", "overlap.labels", "overlap.verdicts", "overlap.pair_verdicts"),
        axes={
            **dict.fromkeys(("pairs", "sigma2", "overlap.effective", "overlap.effective_rows"), (0, 1)),
            **dict.fromkeys(("overlap.mean_ratio", "overlap.largest", "overlap.beyond_cap", "overlap.reached"), (0, 1)),
            **dict.fromkeys(("rows", "overlap.calibration", "overlap.pooled", "overlap.verdicts"), (0,)),
        },
        seeded=True,
        n_draws=REFITS,
        coarse=1e-7,  # the ratio is fitted by a solver that stops at a tolerance
        affine=(
            ("predictions of both scaled", "any", _scaled_predictions, PREDICTION_POWERS),
            ("inputs in other units", "any", _inputs_in_other_units, {}),
        ),
    ),
    "transport_gap": Entry(
        call=_transport_gap,
        exact=(
            *("value", "pairs", "se", "pair_intervals", "by_class", "statistic", "overlap.effective"),
            *(
                "overlap.effective_rows",
                "overlap.mean_ratio",
                "overlap.largest",
                "overlap.beyond_cap",
                "overlap.cap",
                "overlap.reached",
            ),
            *("overlap.calibration", "overlap.pooled"),
        ),
        simulated=("interval", "pvalue", "pair_pvalues"),
        draws=("null",),
        words=("task", "outcome", "ratio", "notes"),
        labelled=("labels", "moving_class", "overlap.labels", "overlap.verdicts", "overlap.pair_verdicts"),
        axes={
            **dict.fromkeys(("pairs", "se", "pair_intervals", "by_class", "pair_pvalues"), (0, 1)),
            **dict.fromkeys(("overlap.effective", "overlap.effective_rows", "overlap.mean_ratio"), (0, 1)),
            **dict.fromkeys(("overlap.largest", "overlap.beyond_cap", "overlap.reached"), (0, 1)),
            **dict.fromkeys(("overlap.calibration", "overlap.pooled", "overlap.verdicts"), (0,)),
        },
        seeded=True,
        coarse=1e-7,  # the ratio is fitted by a solver that stops at a tolerance
        affine=(
            # a negative factor turns intervals round: their own test is in tests/criteria
            (
                *("y in other units", "regression", _mapped_target),
                {"pairs": 1, "pair_intervals": np.nan, "se": np.nan},
            ),
            ("z in other units", "any", _representation_in_other_units, {}),
        ),
    ),
    "worst_case": Entry(
        call=_worst_case,
        exact=("value", "unit", "radii", "loss", "lower", "upper", "gamma"),
        simulated=("band",),
        words=("of", "exact", "saturates_at", "others.value", "others.interval", "notes"),
        halved=("apart", "distances"),
        labelled=("labels",),
        seeded=True,
        steady_draws=False,  # weights are drawn row by row
        coarse=1e-7,  # the multipliers follow from sums, in whatever order these were taken
        grouped=_worst_case_grouped,
    ),
    "cramer_wold": Entry(
        call=_of_laws("cramer_wold", projections=10),
        grouped=_cramer_wold_grouped,
        affine=(("z in other units", "any", _representation_in_other_units, {}),),
        **COMPARATOR_FIELDS,
    ),
    "domain_classifier": Entry(
        call=_of_laws("domain_classifier"),
        tasks=("regression", "binary"),  # three classes take the way of two, and as long
        exact=(*COMPARATOR_FIELDS["exact"], "chance", "auc", "statistic", "accuracy_ahead"),
        simulated=("pvalue", "pair_pvalues", "accuracy_pvalue"),
        draws=("null", "accuracy_null"),
        coarse=1e-7,  # classifiers are fitted by a solver that stops at a tolerance
        affine=(("z in other units", "any", _representation_in_other_units, {}),),
        **{name: COMPARATOR_FIELDS[name] for name in ("words", "labelled", "axes", "seeded")},
    ),
    "conditional_mutual_information": Entry(
        call=_conditional_information,
        # judged by classifiers; counting has its own tests in tests/criteria/comparators
        tasks=("regression", "binary"),
        exact=(*COMPARATOR_FIELDS["exact"], "corrected", "statistic", "strata"),
        coarse=1e-7,
        **{name: COMPARATOR_FIELDS[name] for name in ("simulated", "draws", "words", "labelled", "axes", "seeded")},
    ),
    "risk_variance": Entry(
        call=_on_predictions("risk_variance"),
        affine=(("y and predictions in other units", "regression", _mapped_target_and_predictions, FOURTH_POWER),),
        **ENVIRONMENT_FIELDS,
    ),
    "worst_environment_risk": Entry(
        call=_on_predictions("worst_environment_risk"),
        affine=(
            (
                *("y and predictions in other units", "regression", _mapped_target_and_predictions),
                dict.fromkeys(FOURTH_POWER, 2),
            ),
        ),
        **ENVIRONMENT_FIELDS,
    ),
    "calibration_variance": Entry(
        call=_on_predictions("calibration_variance"), tasks=("binary", "multiclass"), **ENVIRONMENT_FIELDS
    ),
    "irm_penalty": Entry(
        call=_on_predictions("irm_penalty"),
        # a shift does matter: the factor multiplies predictions, not their distance from some origin
        affine=(
            (
                *("y and predictions scaled", "regression", _scaled_target_and_predictions),
                dict.fromkeys(FOURTH_POWER, 4),
            ),
        ),
        **ENVIRONMENT_FIELDS,
    ),
    "mmd": Entry(
        call=_compared("mmd"),
        grouped=_compared_grouped("mmd"),
        exact=("value", "interval", "per_environment.value", "per_environment.interval", "pairs"),
        simulated=("pvalue", "pair_pvalues"),
        axes={**OF_ENVIRONMENTS, **dict.fromkeys(("pairs", "pair_pvalues"), (0, 1))},
        **COMPARATOR,
    ),
    "hsic": Entry(
        call=_compared("hsic"),
        grouped=_compared_grouped("hsic"),
        exact=("value", "interval", "per_environment.value", "per_environment.interval"),
        simulated=("pvalue",),
        axes=OF_ENVIRONMENTS,
        **{**COMPARATOR, "words": (*COMPARATOR["words"], "pairs", "pair_pvalues")},
    ),
    "kmaxic": Entry(
        call=_compared("kmaxic"),
        grouped=_compared_grouped("kmaxic"),
        exact=("value", "interval", "per_environment.value", "per_environment.interval", "pairs"),
        simulated=("pvalue",),
        axes={**OF_ENVIRONMENTS, "pairs": (0, 1)},
        **{**COMPARATOR, "words": (*COMPARATOR["words"], "pair_pvalues")},
    ),
    "subgroup_invariance": Entry(
        call=_compared("subgroup_invariance"),
        grouped=_compared_grouped("subgroup_invariance"),
        exact=("interval", "per_environment.interval"),
        simulated=("pvalue",),
        halved=("value", "per_environment.value", "pairs"),
        axes={**OF_ENVIRONMENTS, "pairs": (0, 1)},
        **{**COMPARATOR, "words": (*COMPARATOR["words"], "pair_pvalues"), "affine": ()},
    ),
}
CASES = [(name, task) for name, entry in ENTRIES.items() for task in entry.tasks]
every_criterion = pytest.mark.parametrize("name", sorted(ENTRIES))
# where there are draws, two classes take about the way of three: those are slow tests
every_case = pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(
            *(name, task),
            marks=[pytest.mark.slow] * (task == "binary" and ENTRIES[name].seeded),
            id=f"{name}-{task}",
        )
        for name, task in CASES
    ],
)


# --- results as comparable parts ----------------------------------------------------------------------------------
def parts_of(result: Any, prefix: str = "") -> dict[str, Any]:
    """Fields by name, those of results inside results as ``outer.inner``; estimates as values and intervals."""
    found: dict[str, Any] = {}
    for item in dataclasses.fields(result):
        name, value = prefix + item.name, getattr(result, item.name)
        if dataclasses.is_dataclass(value):
            found.update(parts_of(value, f"{name}."))
        elif isinstance(value, Mapping):
            found[f"{name}.value"] = np.array([estimate.value for estimate in value.values()])
            found[f"{name}.interval"] = np.array([estimate.interval for estimate in value.values()])
        else:
            found[name] = value
    return found


def labels_of(result: Any) -> tuple[Hashable, ...]:
    return result.labels if hasattr(result, "labels") else tuple(result.per_environment)


def arranged(entry: Entry, result: Any, labels: tuple[Hashable, ...]) -> dict[str, Any]:
    """The parts with every axis that follows the environments brought into the order of ``labels``."""
    order = [labels_of(result).index(label) for label in labels]
    found = parts_of(result)
    for name, axes in entry.axes.items():
        if found[name] is None:  # parts by class, where there are none
            continue
        values = np.asarray(found[name])
        for axis in axes:
            values = np.take(values, order, axis=axis)
        found[name] = values
    return found


def assert_exact_parts_agree(
    entry: Entry,
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    rtol: float,
    powers: Mapping[str, float] | None = None,
) -> None:
    for name in entry.exact:
        power = (powers or {}).get(name, 0.0)
        if np.isnan(power):
            continue
        expected, found = np.asarray(one[name], dtype=float), np.asarray(other[name], dtype=float)
        if np.isinf(power):
            expected = expected + 2 * np.log(abs(SCALE))
        else:
            expected = expected * (SCALE**power)
        if name == "direction":  # an axis has no sign
            found = found * np.sign(expected @ found)
        np.testing.assert_allclose(
            found, expected, rtol=rtol, atol=rtol * max(1.0, np.abs(expected).max()), err_msg=name
        )


def assert_simulated_parts_agree(entry: Entry, one: Mapping[str, Any], other: Mapping[str, Any], rtol: float) -> None:
    """Draw by draw to ``rtol``, or, where that is not promised (``nan``), within Monte-Carlo error."""
    for name in (*entry.simulated, *entry.draws):
        expected, found = np.asarray(one[name], dtype=float), np.asarray(other[name], dtype=float)
        if name == "band":  # both ends of many intervals
            expected, found = expected.T, found.T
        if not np.isnan(rtol):
            np.testing.assert_allclose(
                found, expected, rtol=rtol, atol=rtol * np.nanmax(np.abs(expected)), err_msg=name
            )
        elif name in entry.draws:  # two samples of one law: exceeded once in 10^6
            assert ks_2samp(found, expected, method="asymp").statistic < 2.7 * np.sqrt(2 / entry.n_draws), name
        elif name.endswith("pvalue") or name == "pair_pvalues":
            share, draws = (found + expected) / 2, entry.n_draws
            band = 5 * np.sqrt(2 * share * (1 - share) / draws) + 2 / draws
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected), err_msg=name)
            assert not np.any(np.abs(found - expected) > band), name
        else:  # ends of intervals, against the width: 0.04 is one standard deviation of 999 draws, tails are heavy
            width = (expected[..., 1] - expected[..., 0])[..., None] * np.sqrt(DRAWS / entry.n_draws)
            assert np.all(np.abs(found - expected) < 0.4 * width), (name, expected, found)


def assert_agree(
    entry: Entry, one: Mapping[str, Any], other: Mapping[str, Any], rtol: float = 1e-9, draws: float = np.nan
) -> None:
    assert_exact_parts_agree(entry, one, other, rtol)
    assert_simulated_parts_agree(entry, one, other, draws)
    for name in entry.folded:  # other folds, another split of the same noise
        assert abs(other[name] - one[name]) < 0.08, name


def assert_halved_parts_agree(entry: Entry, one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    for name in entry.halved:
        np.testing.assert_allclose(other[name], one[name], rtol=1e-9, err_msg=name)


def assert_identical(one: Any, other: Any) -> None:
    first, second = parts_of(one), parts_of(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        if isinstance(value, np.ndarray | float | tuple) and np.asarray(value).dtype.kind == "f":  # nan is nan
            np.testing.assert_array_equal(second[name], value, err_msg=name)
        else:
            assert second[name] == value, name


# --- the table is complete ----------------------------------------------------------------------------------------
#: Criteria of torch networks, which no rows of numbers are enough for: tests/criteria/test_worst_case_in_inputs.py
OF_NETWORKS = {"worst_case_in_inputs"}


def test_every_registered_criterion_has_an_entry() -> None:
    assert sorted(set(CRITERIA) - OF_NETWORKS) == sorted(ENTRIES)
    assert set(CRITERIA) >= OF_NETWORKS
    assert all("network" in CRITERIA[name].needs for name in OF_NETWORKS)


@every_case
def test_every_field_of_the_result_is_classified(name: str, task: str, seed: int) -> None:
    entry = ENTRIES[name]
    known = {*entry.exact, *entry.simulated, *entry.draws, *entry.folded, *entry.words, *entry.labelled, "notes"}
    known |= {*entry.halved}
    assert set(parts_of(answer(name, task, seed))) == known
    assert set(entry.axes) <= known


@every_criterion
def test_needs_direction_and_limits_are_declared(name: str) -> None:
    declared = CRITERIA[name]
    assert declared.needs
    assert declared.needs <= NEEDS
    assert declared.better in ("lower", "higher")
    for text in (declared.tells, declared.cannot_tell):
        assert text.endswith((".", "?"))
        assert len(text.split()) >= 6
    assert declared.title


@every_criterion
def test_docstring_says_what_it_tells_and_what_it_cannot(name: str) -> None:
    text = inspect.getdoc(CRITERIA[name].function) or ""
    first = text.split("\n\n")[0]
    assert first.endswith((".", "?"))
    assert "cannot tell" in text.lower()
    assert ">>>" in text
    for parameter in inspect.signature(CRITERIA[name].function).parameters:
        if parameter not in ("seed", "weight"):
            assert parameter in text, parameter


# --- the laws -----------------------------------------------------------------------------------------------------
@every_case
def test_new_names_in_the_same_order_change_names_only(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    before = answer(name, task, seed)
    renamed = entry.call(replace(rows, env=np.array([IN_ORDER[label] for label in rows.env])))
    assert labels_of(renamed) == tuple(IN_ORDER[label] for label in labels_of(before))
    one, other = parts_of(before), parts_of(renamed)
    for part in (*entry.exact, *entry.simulated, *entry.draws, *entry.folded, *entry.halved):
        np.testing.assert_array_equal(other[part], one[part], err_msg=part)
    if "worst" in entry.labelled:
        assert renamed.worst == IN_ORDER[before.worst]
        assert isinstance(renamed.worst, int)


@every_case
def test_values_follow_their_environments_when_names_sort_differently(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    before = answer(name, task, seed)
    after = entry.call(replace(rows, env=np.array([OUT_OF_ORDER[label] for label in rows.env], dtype=object)))
    assert labels_of(after) == ("ant", "mole", "zebra")
    other = arranged(entry, after, tuple(OUT_OF_ORDER[label] for label in LABELS))
    one = arranged(entry, before, LABELS)
    assert_agree(entry, one, other)
    for part in set(entry.folded):  # folds are dealt within environments: they travel with them
        np.testing.assert_allclose(other[part], one[part], rtol=1e-9)
    if "worst" in entry.labelled:
        assert after.worst == OUT_OF_ORDER[before.worst]
    if "overlap.verdicts" in entry.labelled:
        assert list(other["overlap.verdicts"]) == list(one["overlap.verdicts"])


@every_case
def test_row_order_does_not_matter(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    order = np.random.default_rng(seed + 1).permutation(len(rows.y))
    before, after = answer(name, task, seed), entry.call(rows.take(order))
    assert labels_of(after) == labels_of(before)
    assert_agree(entry, parts_of(before), parts_of(after), 1e-8, 1e-6 if entry.steady_draws else np.nan)
    for part in entry.labelled:
        assert parts_of(after)[part] == parts_of(before)[part]


@every_case
def test_whole_weights_are_repeated_rows(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    weight = np.random.default_rng(seed + 1).integers(1, 4, len(rows.y))
    weighted = entry.call(replace(rows, weight=weight))
    repeated = entry.call(rows.take(np.repeat(np.arange(len(weight)), weight)))
    draws = 1e-6 if entry.steady_draws else np.nan
    assert_agree(entry, parts_of(repeated), parts_of(weighted), entry.coarse, draws)
    assert_halved_parts_agree(entry, parts_of(repeated), parts_of(weighted))


@every_case
def test_rows_of_weight_zero_are_not_there(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    kept = np.random.default_rng(seed + 1).uniform(size=len(rows.y)) < 0.85
    weighted = entry.call(replace(rows, weight=kept.astype(float)))
    dropped = entry.call(rows.take(np.flatnonzero(kept)))
    draws = 1e-6 if entry.steady_draws else np.nan
    assert_agree(entry, parts_of(dropped), parts_of(weighted), entry.coarse, draws)
    assert_halved_parts_agree(entry, parts_of(dropped), parts_of(weighted))
    for part in entry.folded:
        np.testing.assert_allclose(parts_of(weighted)[part], parts_of(dropped)[part], rtol=1e-6, err_msg=part)


@every_case
def test_weights_of_one_are_no_weights(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    before, after = answer(name, task, seed), entry.call(replace(rows, weight=np.ones(len(rows.y))))
    draws = 1e-9 if entry.steady_draws else np.nan
    assert_agree(entry, parts_of(before), parts_of(after), 1e-9, draws)
    assert_halved_parts_agree(entry, parts_of(before), parts_of(after))
    for part in entry.folded:
        np.testing.assert_allclose(parts_of(after)[part], parts_of(before)[part], rtol=1e-9)


AFFINE = [
    (name, task, law[0])
    for name, entry in ENTRIES.items()
    for law in entry.affine
    for task in entry.tasks
    if law[1] in ("any", task)
]


@pytest.mark.parametrize(("name", "task", "law"), AFFINE, ids=["-".join(case) for case in AFFINE])
def test_affine_maps_do_what_was_declared(name: str, task: str, law: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    _, _, change, powers = next(found for found in entry.affine if found[0] == law)
    one, other = parts_of(answer(name, task, seed)), parts_of(entry.call(change(rows)))
    assert_exact_parts_agree(entry, one, other, max(entry.coarse, 1e-8), powers)
    for part in entry.folded:
        np.testing.assert_allclose(other[part], one[part], rtol=1e-6, atol=1e-9)


def test_the_interval_of_the_regret_does_not_know_the_units_of_y(seed: int) -> None:
    """Powers of two change no digit, so nothing may move at all, not even a draw."""
    rows = example("regression", seed)
    one, other = (parts_of(_regret(replace(rows, y=factor * rows.y))) for factor in (1.0, 4096.0))
    for part in ("value", "interval", "worst_interval", "per_environment.interval", "pvalue", "explained"):
        np.testing.assert_allclose(other[part], one[part], rtol=1e-9, err_msg=part)


@every_case
def test_same_seed_same_answer(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    assert_identical(entry.call(rows, seed=5), entry.call(rows, seed=5))


@pytest.mark.parametrize(("name", "task"), [case for case in CASES if ENTRIES[case[0]].seeded])
def test_another_seed_changes_draws_only(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    one, other = parts_of(entry.call(rows, seed=5)), parts_of(entry.call(rows, seed=6))
    for part in (*entry.exact, *entry.folded):
        np.testing.assert_array_equal(other[part], one[part], err_msg=part)
    for part in entry.draws:
        assert not np.array_equal(other[part], one[part])
    assert_simulated_parts_agree(entry, one, other, np.nan)


def _as_pandas(values: np.ndarray) -> Any:
    index = np.arange(len(values))[::-1]  # an index that aligns rows the wrong way round must be ignored
    if values.ndim == 1:
        return pd.Series(values, index=index)
    return pd.DataFrame(values, index=index, columns=[f"x{j}" for j in range(values.shape[1])])


def _as_polars(values: np.ndarray) -> Any:
    if values.ndim == 1:
        return pl.Series(values.tolist())
    return pl.DataFrame({f"x{j}": values[:, j] for j in range(values.shape[1])})


def _as_arrow(values: np.ndarray) -> Any:
    if values.ndim == 1:
        return pa.chunked_array([pa.array(values[:7].tolist()), pa.array(values[7:].tolist())])
    return pa.table({f"x{j}": values[:, j] for j in range(values.shape[1])})


def _as_single_precision(values: np.ndarray) -> Any:
    return values if values.dtype == object else values.astype(np.float32)


def _as_columns(values: np.ndarray) -> Any:
    """Column after column in memory, and with gaps."""
    return np.repeat(np.asfortranarray(values), 2, axis=0)[::2]


CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "pandas": _as_pandas,
    "polars": _as_polars,
    "pyarrow": _as_arrow,
    "lists": lambda values: values.tolist(),
    "tensors": lambda values: values if values.dtype == object else torch.tensor(values, requires_grad=True),
}


QUICK_CONTAINERS = ("pandas", "polars")


@pytest.mark.parametrize(
    "container",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK_CONTAINERS)) for name in CONTAINERS],
)
@every_case
def test_the_container_does_not_matter(name: str, task: str, container: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    other = entry.call(with_weights(rows, seed).map(CONTAINERS[container]))
    assert_identical(answer(name, task, seed, weighted=True), other)


@every_case
def test_the_layout_in_memory_does_not_matter(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    one, other = parts_of(answer(name, task, seed)), parts_of(entry.call(rows.map(_as_columns)))
    assert_agree(entry, one, other, 1e-12, 1e-12)  # sums may run in another order


@every_case
def test_single_precision_input_gives_double_precision_answers(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    if task != "regression":  # probabilities do not survive the rounding: round them first
        rows = replace(rows, predictions=rows.predictions.astype(np.float32).astype(float))
    rows = replace(rows, baseline=rows.baseline.astype(np.float32).astype(float))
    one, other = parts_of(entry.call(rows)), parts_of(entry.call(rows.map(_as_single_precision)))
    assert_agree(entry, one, other, 1e-12, 1e-12)
    assert all(np.asarray(other[part]).dtype != np.float32 for part in entry.exact)


@every_case
def test_rows_grouped_beforehand_give_the_same_answer(name: str, task: str, seed: int) -> None:
    entry, rows = ENTRIES[name], example(task, seed)
    function, needs = CRITERIA[name].function, CRITERIA[name].needs
    if entry.grouped is not None:
        grouped = entry.grouped(rows)
    elif "inputs" in needs:
        grouped = function(
            rows.predictions, Environments(rows.X, rows.y, rows.env), baseline=rows.baseline, n_boot=REFITS
        )
    else:
        first = rows.predictions if needs & {"predictions", *KINDS} else rows.Z
        draws = {k: DRAWS for k in ("n_boot",) if k in inspect.signature(function).parameters}
        grouped = function(Environments(first, rows.y, rows.env), **draws)
    assert_identical(answer(name, task, seed), grouped)


@every_case
def test_results_are_frozen_plain_and_portable(name: str, task: str, seed: int) -> None:
    result = answer(name, task, seed)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 0.0
    for again in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert type(again) is type(result)
        assert_identical(result, again)
    plain = result.to_dict()
    text = json.dumps(plain, allow_nan=False)
    assert json.loads(text) == plain
    assert plain["value"] == result.value
    assert set(plain) == {item.name for item in dataclasses.fields(result)}
    assert all(isinstance(note, str) and note.endswith(".") for note in result.notes)
    assert isinstance(result.value, float)
