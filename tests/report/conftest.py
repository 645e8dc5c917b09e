"""A stand-in audit, made of the real result types, for everything that draws or writes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariscope.criteria import registry
from invariscope.results import (
    DricResult,
    EnvironmentResult,
    Estimate,
    InfluenceResult,
    Overlap,
    RegretResult,
    TransportGapResult,
)

HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "Long Beach")
COLUMNS = (
    *("age", "sex", "chest pain", "blood pressure", "cholesterol", "fasting sugar", "resting ECG", "heart rate"),
    *("angina", "ST depression", "slope", "vessels", "thallium"),
)
WORDS = {
    "regret": ("Shared-head regret", "whether one head serves all environments.", "anything about unseen ones."),
    "influence_index": ("Influence index", "whether environments pull the head apart.", "whether it matters."),
    "dric": ("DRIC, as published", "how predictions shift under reweighting.", "invariance: see the manual."),
    "transport_gap": ("Transport gap", "whose mean would move.", "differences that cancel in the mean."),
    "risk_variance": ("Risk variance", "whether the loss differs.", "why it differs."),
    "worst_environment_risk": ("Worst environment", "the largest loss.", "whether it could be smaller."),
    "calibration_variance": ("Calibration variance", "whether calibration differs.", "how accurate it is."),
    "worst_case_in_inputs": ("Worst case", "how bad it gets if inputs move.", "whether they ever do."),
    "irm_penalty": ("IRM penalty", "whether scaling the head would help.", "other differences of the head."),
}
REGRETS = ((0.021, 0.002, 0.052), (0.064, 0.011, 0.131), (0.38, 0.21, 0.6), (0.152, 0.071, 0.248))


def overlap_of(labels: Sequence[Any], sizes: Any) -> Overlap:
    """Effective shares 1, 0.81, 0.25, 0.04 by the distance of two labels, counted round and round."""
    size = len(labels)
    apart = (np.arange(size)[:, None] - np.arange(size)) % min(size, 4)
    effective = np.array([1.0, 0.81, 0.25, 0.04])[apart]
    effective[(apart == 0) & ~np.eye(size, dtype=bool)] = 0.5
    words = np.where(effective >= 0.3, "good", np.where(effective >= 0.05, "weak", "none"))
    return Overlap(
        labels=tuple(labels),
        effective=effective,
        effective_rows=effective * np.asarray(sizes, float),
        mean_ratio=np.full((size, size), 0.97),
        largest=np.full((size, size), 0.08),
        beyond_cap=np.full((size, size), 0.013),
        reached=np.ones((size, size)),
        cap=20.0,
        calibration=np.resize([0.01, 0.02, 0.06, 0.03], size),
        pair_verdicts=tuple(map(tuple, words.tolist())),
        pooled=np.resize([0.81, 0.66, 0.25, 0.04], size),
        verdicts=tuple(np.resize(["good", "good", "weak", "none"], size).tolist()),
    )


def transport_of(labels: Sequence[Any], overlap: Overlap, task: str = "binary", **changes: Any) -> TransportGapResult:
    """Gap [a, b] is 0.06 (a − b) up to 0.24 either way, ± 0.04; sure beyond 0.1; refused without overlap."""
    size = len(labels)
    gap = 0.06 * np.clip(np.subtract.outer(np.arange(size), np.arange(size)), -4, 4).astype(float)
    gap[np.array(overlap.pair_verdicts) == "none"] = np.nan
    given: dict[str, Any] = {
        "value": 0.31,
        "interval": (0.12, 0.55),
        "pvalue": 0.001,
        "labels": tuple(labels),
        "pairs": gap,
        "se": np.where(np.isnan(gap), np.nan, 0.02),
        "pair_intervals": np.stack([gap - 0.04, gap + 0.04], axis=2),
        "pair_pvalues": np.where(np.isnan(gap), np.nan, np.where(np.abs(gap) > 0.1, 0.004, 0.3)),
        "by_class": None,
        "moving_class": None,
        "overlap": overlap,
        "task": task,
        "statistic": 6.1,
        "null": np.linspace(0, 4, 999),
        "outcome": "linear heads",
        "ratio": "logistic regression, second-order",
    }
    return TransportGapResult(**(given | changes))


def build(
    labels: Sequence[Any] = HOSPITALS,
    columns: Sequence[str] = COLUMNS,
    *,
    regrets: Sequence[tuple[float, float, float]] | None = None,
    state: str = "NOT INVARIANT",
    without: Sequence[str] = (),
    task: str = "binary",
    pvalue: float = 0.001,
    seed: int = 0,
) -> SimpleNamespace:
    """An audit with these labels and columns; ``regrets`` are (value, low, high) by environment."""
    rng = np.random.default_rng(seed)
    labels = tuple(labels)
    size, width = len(labels), len(columns)
    sizes = np.resize([303, 294, 123, 200], size)
    table = np.resize(np.array(REGRETS if regrets is None else regrets, float), (size, 3))
    estimates = {
        label: Estimate(float(v), (float(a), float(b))) for label, (v, a, b) in zip(labels, table, strict=True)
    }
    own = np.resize([0.402, 0.371, 0.421, 0.533], size)
    pairs = np.abs(rng.normal(0.2, 0.15, (size, size))) * (table[:, :1] + 0.3)
    np.fill_diagonal(pairs, 0.0)
    worst = int(np.nanargmax(np.where(np.isnan(table[:, 0]), -np.inf, table[:, 0])))
    shares = rng.dirichlet(np.linspace(0.3, 2.5, width) ** 2, size)
    shared = own * (1 + table[:, 0])
    influences = rng.normal(size=(size, width))
    overlap = overlap_of(labels, sizes)
    results: dict[str, Any] = {
        "regret": RegretResult(
            value=float(np.nanmean(table[:, 0])),
            interval=(float(np.nanmean(table[:, 1])), float(np.nanmean(table[:, 2]))),
            pvalue=pvalue,
            per_environment=estimates,
            worst=labels[worst],
            worst_interval=estimates[labels[worst]].interval,
            explained=0.34,
            explained_own=0.41,
            task=task,
            labels=labels,
            columns=tuple(columns),
            rows=sizes.astype(float),
            shared_loss=shared,
            own_loss=own,
            pairs=pairs,
            drivers=shares,
            statistic=148.2,
            null=rng.chisquare(30, 999),
        ),
        "influence_index": InfluenceResult(
            value=-1.2,
            null=rng.normal(-3.0, 0.2, 999),
            pvalue=pvalue,
            labels=labels,
            parameters=tuple(columns),
            influences=influences,
            direction=np.linalg.svd(influences - influences.mean(0))[2][0],
            eigenvalues=np.linspace(1, 0.1, width),
            damping=1e-3,
            rank=width,
            loss="log_loss",
        ),
        "dric": DricResult(
            value=0.83,
            log10=-0.081,
            numerator=0.83,
            denominator=1.0,
            labels=labels,
            pairs=pairs,
            overlap=overlap,
            interval=(0.61, 1.12),
            null=np.linspace(0.1, 0.5, 201),
        ),
        "transport_gap": transport_of(labels, overlap, task),
    }
    for name, value, unit in (
        ("risk_variance", 0.0049, "log-loss squared"),
        ("worst_environment_risk", 0.581, "log-loss"),
        ("calibration_variance", 0.0031, ""),
        ("irm_penalty", 0.000021, ""),
    ):
        level = np.resize([0.04, 0.07, 0.19, 0.11], size) if name == "calibration_variance" else shared
        results[name] = EnvironmentResult(
            value=value,
            interval=(0.7 * value, 1.6 * value),
            per_environment={
                label: Estimate(float(v), (0.7 * float(v), 1.4 * float(v)))
                for label, v in zip(labels, level, strict=True)
            },
            worst=labels[worst],
            unit=unit,
        )
    headline = f"One head does not serve all {size} hospitals (p ≤ 0.001)."
    sentences = (
        f"Sharing one costs {labels[worst]} 38 % more loss than its own head would (95 %: 21–60 %).",
        "They disagree mostly about vessels, thallium and slope.",
        f"Next: look at how these were recorded in {labels[worst]}; if they are right, use an invariant learner.",
    )
    return SimpleNamespace(
        state=state,
        headline=headline,
        sentences=sentences,
        algorithm="An OOD algorithm is worth trying: the hospitals pull the head apart far more than chance does.",
        verdict=" ".join((headline, *sentences)),
        results={name: result for name, result in results.items() if name not in without},
        left_out={"worst_case_in_inputs": "needs a torch model."} | dict.fromkeys(without, "was not asked for."),
        notes=("Two rows occur twice.",),
        data=SimpleNamespace(
            rows=int(sizes.sum()),
            labels=labels,
            sizes=sizes,
            columns=tuple(columns),
            task=task,
            classes=(),
            target_name="disease",
            env_name="hospital",
            representation="the 13 columns themselves",
            head="linear head, log-loss",
            model="logistic regression, fitted here",
        ),
        settings=SimpleNamespace(
            seed=0,
            n_boot=999,
            margin=0.02,
            alpha=0.05,
            ratio="logistic",
            versions={"invariscope": "0.1.0", "numpy": "2.4.0", "scikit-learn": "1.9.0"},
            seconds=2.3,
            created="2025-11-15T21:04:00+00:00",
        ),
    )


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The criteria's own words, also for those that no test imports."""
    for name, (title, tells, cannot_tell) in WORDS.items():
        known = registry.Criterion(name, title, print, frozenset(), "lower", tells, cannot_tell, print)
        monkeypatch.setitem(registry.CRITERIA, name, known)


@pytest.fixture
def build_audit() -> Callable[..., SimpleNamespace]:
    return build


@pytest.fixture
def audit() -> SimpleNamespace:
    return build()
