"""Real audits for everything that draws or writes one, and ways to put a particular number into a real result."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

import invariscope as iv
from invariscope.results import Estimate, Overlap

DRAWS = 99
HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "VA Long Beach")
SIZES = (303, 294, 123, 200)
COLUMNS = (
    *("age", "sex", "chest pain", "blood pressure", "cholesterol", "fasting sugar", "resting ECG", "heart rate"),
    *("angina", "ST depression", "slope", "vessels", "thallium"),
)
NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "x" * 300,
    "a & b 'quoted' {{datum}} \\u0041\n東京",
)
REGRETS = ((0.021, 0.002, 0.052), (0.064, 0.011, 0.131), (0.38, 0.21, 0.6), (0.152, 0.071, 0.248))


@dataclasses.dataclass(frozen=True)
class Rows:
    """Data of one audit: the second column's weight is another in the last environment but one."""

    X: pd.DataFrame
    y: np.ndarray
    env: np.ndarray


def rows_of(labels: Sequence[Any], sizes: Sequence[int], columns: Sequence[str], task: str, apart: float) -> Rows:
    rng = np.random.default_rng(0)
    code = np.repeat(np.arange(len(labels)), sizes)
    X = rng.normal(size=(len(code), len(columns))) + apart * (code % 3 - 1)[:, None] * (np.arange(len(columns)) < 2)
    score = X[:, 0] + 1.5 * (code == len(labels) - 2) * X[:, -1] + 0.2 * (code % 4)
    noisy = score + rng.logistic(size=len(code))
    target: Any = noisy
    if task == "binary":
        target = (noisy > 0.5).astype(int)
    elif task == "multiclass":
        target = np.array(["setosa", "versicolor", "virginica"])[np.digitize(noisy, [-0.5, 1.0])]
    env = np.empty(len(code), dtype=object)
    for k, label in enumerate(labels):
        env[code == k] = label
    return Rows(pd.DataFrame(X, columns=list(columns)), target, env)


@functools.cache
def audited(
    labels: tuple[Any, ...] = ("a", "b"),
    *,
    task: str = "binary",
    columns: tuple[str, ...] = ("height", "weight"),
    criteria: tuple[str, ...] | None = None,
    sizes: tuple[int, ...] = (60,),
    apart: float = 0.2,
    baseline: Callable[[pd.DataFrame], np.ndarray] | None = None,
) -> iv.Audit:
    """An audit of columns, without a model; by default with all criteria (DRIC only if a baseline is given)."""
    rows = rows_of(labels, np.resize(sizes, len(labels)), columns, task, apart)
    names = {"env_name": "hospital", "target_name": "disease"}
    return iv.audit(None, rows.X, rows.y, rows.env, criteria=criteria, n_boot=DRAWS, baseline=baseline, **names)


def risk_by_age(X: pd.DataFrame) -> np.ndarray:
    """A baseline for DRIC that is not the audited head itself."""
    return np.asarray(1 / (1 + np.exp(-X["age"])))


@functools.cache
def hospitals() -> iv.Audit:
    """All criteria of four hospitals, whose numbers are then set to ones that tests know by heart."""
    audit = audited(HOSPITALS, columns=COLUMNS, sizes=SIZES, baseline=risk_by_age)
    overlap = known_overlap(audit["dric"].overlap)
    audit = with_regrets(audit, REGRETS, pvalue=0.001, null=np.linspace(0.0, 60.0, 999), explained=0.34)
    audit = replaced(
        audit, "influence_index", value=-1.2, null=np.random.default_rng(0).normal(-3.0, 0.2, 999), pvalue=0.001
    )
    dric = {"value": 0.83, "log10": -0.081, "interval": (0.61, 1.12), "null": np.linspace(0.1, 0.5, 201)}
    audit = replaced(audit, "dric", overlap=overlap, **dric)
    audit = replaced(
        audit, "transport_gap", value=0.31, interval=(0.12, 0.55), pvalue=0.001, null=np.linspace(0, 4, 999)
    )
    gaps = 0.06 * np.subtract.outer(np.arange(4), np.arange(4))
    gaps[np.array(overlap.pair_verdicts) == "none"] = np.nan
    sure = np.where(np.isnan(gaps), np.nan, np.where(np.abs(gaps) > 0.1, 0.004, 0.3))
    audit = with_gaps(audit, gaps, overlap=overlap, pair_pvalues=sure)
    for name, value in (("risk_variance", 0.0049), ("worst_environment_risk", 0.581), ("irm_penalty", 0.000021)):
        audit = replaced(audit, name, value=value, interval=(0.7 * value, 1.6 * value))
    losses = dict(zip(HOSPITALS, audit["regret"].shared_loss.tolist(), strict=True))
    risks = {label: Estimate(loss, (0.9 * loss, 1.1 * loss)) for label, loss in losses.items()}
    audit = replaced(audit, "worst_environment_risk", per_environment=risks, worst="Switzerland")
    errors = {
        label: Estimate(e, (0.7 * e, 1.4 * e)) for label, e in zip(HOSPITALS, (0.04, 0.07, 0.19, 0.11), strict=True)
    }
    audit = replaced(audit, "calibration_variance", per_environment=errors, worst="Switzerland")
    settings = dataclasses.replace(
        audit.settings,
        versions={"invariscope": "0.1.0", "numpy": "2.4.0", "scikit-learn": "1.9.0"},
        seconds=2.3,
        created="2025-11-15T21:04:00+00:00",
    )
    return dataclasses.replace(
        audit,
        state="NOT INVARIANT",
        headline="One head does not serve all 4 hospitals (p ≤ 0.001).",
        sentences=(
            "Sharing one costs Switzerland 38 % more loss than its own head would (95 %: 21–60 %).",
            "They disagree mostly about vessels, thallium and slope.",
            "Next: look at how these were recorded in Switzerland; if they are right, use an invariant learner.",
        ),
        algorithm="An OOD algorithm is worth trying: the hospitals pull the head apart far more than chance does.",
        notes=("Two rows occur twice.",),
        settings=settings,
    )


def known_overlap(overlap: Overlap) -> Overlap:
    """Effective shares 1, 0.81, 0.25, 0.04 by the distance of two of four hospitals, counted round and round."""
    effective = np.array([1.0, 0.81, 0.25, 0.04])[(np.arange(4)[:, None] - np.arange(4)) % 4]
    words = np.where(effective >= 0.3, "good", np.where(effective >= 0.05, "weak", "none"))
    return dataclasses.replace(
        overlap,
        effective=effective,
        effective_rows=effective * np.array(SIZES),
        mean_ratio=np.full((4, 4), 0.97),
        largest=np.full((4, 4), 0.08),
        beyond_cap=np.full((4, 4), 0.013),
        reached=np.ones((4, 4)),
        calibration=np.array([0.01, 0.02, 0.06, 0.03]),
        pair_verdicts=tuple(map(tuple, words.tolist())),
        pooled=np.array([0.81, 0.66, 0.25, 0.04]),
        verdicts=("good", "good", "weak", "none"),
    )


def replaced(audit: iv.Audit, name: str, **changes: Any) -> iv.Audit:
    """The audit with one of its results changed."""
    return dataclasses.replace(
        audit, results={**audit.results, name: dataclasses.replace(audit.results[name], **changes)}
    )


def without(audit: iv.Audit, *names: str, reason: str = "too few rows here.") -> iv.Audit:
    """The audit as it is where these criteria could not be computed."""
    return dataclasses.replace(
        audit,
        results={name: result for name, result in audit.results.items() if name not in names},
        left_out={**audit.left_out, **dict.fromkeys(names, reason)},
    )


def with_regrets(audit: iv.Audit, regrets: Sequence[tuple[float, ...]], **changes: Any) -> iv.Audit:
    """The audit with these regrets (value, low, high), environment by environment, over and over."""
    regret = audit["regret"]
    table = np.resize(np.array(regrets, float), (len(regret.labels), 3))
    estimates = {label: Estimate(v, (a, b)) for label, (v, a, b) in zip(regret.labels, table.tolist(), strict=True)}
    worst = regret.labels[int(np.nanargmax(table[:, 0]))]
    own = np.resize([0.402, 0.371, 0.421, 0.533], len(table))
    given = {
        "value": float(np.nanmean(table[:, 0])),
        "interval": (float(np.nanmean(table[:, 1])), float(np.nanmean(table[:, 2]))),
        "per_environment": estimates,
        "worst": worst,
        "worst_interval": estimates[worst].interval,
        "own_loss": own,
        "shared_loss": own * (1 + table[:, 0]),
    }
    return replaced(audit, "regret", **(given | changes))


def with_gaps(audit: iv.Audit, gaps: Any, half: float = 0.04, **changes: Any) -> iv.Audit:
    """The audit with these gaps, ± ``half``; those further than that from 0 are sure."""
    gaps = np.array(gaps, float)
    given = {
        "pairs": gaps,
        "pair_intervals": np.stack([gaps - half, gaps + half], axis=2),
        "pair_pvalues": np.where(np.isnan(gaps), np.nan, np.where(np.abs(gaps) > half, 0.01, 0.4)),
    }
    return replaced(audit, "transport_gap", **(given | changes))
