"""Which criterion sees which difference? Four worlds, and how often every criterion rejects in each.

The tables of docs/which_criterion.md are held here: each figure to within chance, and no criterion may be missing.
``--calibration -s`` prints the second one anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import fisher_exact

import invariscope as iv
from invariscope.criteria.registry import CRITERIA
from tests.statistical.bands import band

PAGE = Path(__file__).resolve().parents[2] / "docs" / "which_criterion.md"
ROWS, DRAWS, REFITS = 120, 99, 19
ENV = np.repeat(["a", "b"], ROWS)
WORLDS = ("nothing", "covariate", "conditional", "both")
LEVEL, SEEN, UNSEEN = 0.05, 0.8, 0.12  # from which, and up to which share of data sets a difference counts as (un)seen


@dataclass(frozen=True)
class World:
    """Two environments of one model: z, numbers y and labels, and what a head says that is right if nothing differs."""

    z: np.ndarray
    y: np.ndarray
    label: np.ndarray

    @property
    def predictions(self) -> np.ndarray:
        return self.z[:, 0]

    @property
    def probabilities(self) -> np.ndarray:
        return expit(self.z[:, 0])


def world(kind: str, rng: np.random.Generator) -> World:
    """Nothing differs; only how common z is; only E[Y | z], by the slope of the second column; or both."""
    z, second = rng.normal(size=(2 * ROWS, 2)), ENV == "b"
    if kind in ("covariate", "both"):
        z[second] += 0.7
    mean = z[:, 0] + 0.9 * z[:, 1] * ((second - 0.5) if kind in ("conditional", "both") else 0.0)
    return World(z, mean + rng.normal(size=2 * ROWS), (rng.uniform(size=2 * ROWS) < expit(mean)).astype(int))


Measure = Callable[[World, int], float]


def dric(**options: object) -> Measure:
    """The p-value that DRIC has: that of its numerator, the ratio refitted for every deal."""

    def of(w: World, seed: int) -> float:
        more = {"y": w.y, "representation": w.z, "terms": options["terms"]} if "terms" in options else options
        given = {"baseline": w.z.sum(axis=1), "ratio": "gaussian", "n_boot": REFITS, "seed": seed, **more}
        return float(iv.dric(w.predictions, w.z, ENV, **given).pvalue)

    return of


def of_laws(name: str, **options: object) -> Measure:
    return lambda w, seed: getattr(iv, name)(w.z, w.y, ENV, n_boot=DRAWS, seed=seed, **options).pvalue


#: p-values, by the line of the page.
TESTS: dict[str, Measure] = {
    "regret": of_laws("regret"),
    "influence_index": of_laws("influence_index"),
    "transport_gap": of_laws("transport_gap", ratio="gaussian"),
    "dric": dric(),
    "dric, self-normalised": dric(self_normalised=True),
    "dric, losses": dric(terms="losses"),
    "dric, own means": dric(terms="own_means"),
    "multi_environment_calibration": lambda w, seed: (
        iv.multi_environment_calibration(w.probabilities, w.label, ENV, n_boot=DRAWS, seed=seed).pvalue
    ),
    "mmd": of_laws("mmd"),
    "mmd, on z": of_laws("mmd", on="z"),
    "hsic": of_laws("hsic"),
    "kmaxic": of_laws("kmaxic"),
    "subgroup_invariance": of_laws("subgroup_invariance"),
    "cramer_wold": of_laws("cramer_wold", projections=10),
    "domain_classifier": of_laws("domain_classifier"),
    "conditional_mutual_information": lambda w, seed: (
        iv.conditional_mutual_information(w.predictions, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue
    ),
    "conditional_mutual_information, given z": of_laws("conditional_mutual_information"),
}
#: Values of criteria that have no test: what counts is to be above 95 % of those where nothing differs.
VALUES: dict[str, Measure] = {
    "risk_variance": lambda w, _: iv.risk_variance(w.predictions, w.y, ENV, n_boot=0).value,
    "worst_environment_risk": lambda w, _: iv.worst_environment_risk(w.predictions, w.y, ENV, n_boot=0).value,
    "irm_penalty": lambda w, _: iv.irm_penalty(w.predictions, w.y, ENV, n_boot=0).value,
    "calibration_variance": lambda w, _: iv.calibration_variance(w.probabilities, w.label, ENV, n_boot=0).value,
    "worst_case": lambda w, _: iv.worst_case(iv.LinearHead([[1.0, 0.0]], [0.0]), w.z, w.y, ENV, n_boot=0).value,
    "density_ratio": lambda w, _: 1 - float(iv.density_ratio(w.z, ENV, ratio="gaussian").overlap.effective.min()),
}
MEASURED = {**TESTS, **VALUES}
DEAR = {"dric, own means", "domain_classifier", *(name for name in TESTS if name.startswith("conditional"))}
#: The same question as another criterion's, about material that these worlds do not have.
AS_ANOTHER = {"worst_case_in_inputs": "worst_case"}
RUNS, RUNS_IF_DEAR = 200, 100  # data sets behind the page
QUICK_RUNS, QUICK_RUNS_OF_VALUES = 4, 16
CHANCE, CHANCE_OF_VALUES = 5e-4, 1e-9  # what is usual of values is itself estimated, from as many data sets


#: Share of data sets that may leave no pair to compare where overlap is needed: what cannot be said is no rejection.
NO_COMMON_GROUND = 0.1


def rates(name: str, runs: int, seed: int, kinds: Iterable[str] = WORLDS) -> dict[str, float]:
    """Share of data sets in which a criterion rejects, by world."""
    values = {}
    for kind in kinds:
        rng = np.random.default_rng([seed, WORLDS.index(kind)])
        values[kind] = np.array([MEASURED[name](world(kind, rng), run) for run in range(runs)])
        silent = NO_COMMON_GROUND + band(NO_COMMON_GROUND, runs) if name == "transport_gap" else 0.0
        assert np.isnan(values[kind]).mean() <= silent, name
    if name in TESTS:
        return {kind: float(np.mean(each <= LEVEL)) for kind, each in values.items()}
    usual = np.quantile(values["nothing"], 1 - LEVEL)
    return {kind: float(np.mean(each > usual)) for kind, each in values.items()}


def word(rate: float) -> str:
    return "**yes**" if rate >= SEEN else "no" if rate <= UNSEEN else "–"


def line(name: str, found: dict[str, float]) -> str:
    criterion, _, variant = name.partition(", ")
    cells = " | ".join(f"{word(found[kind])} {found[kind]:.2f}" for kind in WORLDS)
    return f"| `{criterion}`{', ' + variant if variant else ''} | {cells} |"


def lines_of(heading: str) -> list[list[str]]:
    """The cells of the lines of the table under a heading of the page."""
    part = PAGE.read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
    return [[cell.strip() for cell in text.strip("|").split("|")] for text in re.findall(r"^\|.*\|$", part, re.M)][2:]


def in_words(column: int) -> dict[str, str]:
    """A column of the first table by criterion, several of which may share a line."""
    cells = lines_of("## What each of them asks")
    return {name: each[column] for each in cells for name in re.findall(r"`(\w+)`", each[0])}


def stated() -> dict[str, dict[str, float]]:
    """What the page says of every line and world."""
    return {
        cells[0].replace("`", ""): dict(zip(WORLDS, (float(cell.split()[1]) for cell in cells[1:]), strict=True))
        for cells in lines_of("## What each of them sees")
    }


def far_off(name: str, found: dict[str, float], runs: int) -> list[str]:
    """Worlds in which two samples of data sets, these and those behind the page, are further apart than by chance."""
    behind, out = RUNS_IF_DEAR if name in DEAR else RUNS, []
    for kind, rate in found.items():
        says = stated()[name][kind]
        counts = [(round(share * of), of - round(share * of)) for share, of in ((rate, runs), (says, behind))]
        if fisher_exact(counts).pvalue < (CHANCE if name in TESTS else CHANCE_OF_VALUES):
            out.append(f"{name}, {kind}: {rate:.2f}, and the page says {says:.2f}")
    return out


def test_no_criterion_is_left_out() -> None:
    """Whoever registers a criterion says what it sees, here and in both tables of the page."""
    measured = {name.partition(", ")[0] for name in MEASURED}
    assert measured | set(AS_ANOTHER) == set(CRITERIA) | {"density_ratio"}
    assert set(AS_ANOTHER.values()) <= measured
    assert set(in_words(0)) == measured | set(AS_ANOTHER)
    assert set(stated()) == set(MEASURED)


def test_what_the_page_says_of_y_and_of_tests_is_so() -> None:
    """Lines say "yes" where a p-value is measured below; "no" of y where an audit asks for no target."""
    tested = {name.partition(", ")[0] for name in TESTS}
    assert {name for name, cell in in_words(5).items() if cell.startswith("yes")} == tested
    without = {name for name in CRITERIA if "target" not in CRITERIA[name].needs} | {"density_ratio"}
    assert {name for name, cell in in_words(2).items() if cell.startswith("no")} == without


def test_words_follow_figures() -> None:
    for cells in lines_of("## What each of them sees"):
        for cell in cells[1:]:
            assert cell.split()[0] == word(float(cell.split()[1])), cells[0]
    for name, says in stated().items():
        assert says["nothing"] <= LEVEL + band(LEVEL, RUNS_IF_DEAR if name in DEAR else RUNS), name


def test_the_table_is_true(seed: int) -> None:
    """Those that take long, only where they see something."""
    wrong = []
    for name in MEASURED:
        kinds = [kind for kind in WORLDS if stated()[name][kind] >= SEEN] if name in DEAR else WORLDS
        runs = QUICK_RUNS if name in TESTS else QUICK_RUNS_OF_VALUES
        wrong += far_off(name, rates(name, runs, seed, kinds), runs)
    assert not wrong


@pytest.mark.calibration
@pytest.mark.parametrize("name", MEASURED)
def test_the_whole_table_is_true(name: str, seed: int) -> None:
    runs = RUNS_IF_DEAR if name in DEAR else RUNS
    found = rates(name, runs, seed)
    print(line(name, found))
    assert not far_off(name, found, runs)


@pytest.mark.calibration
def test_cramer_wold_keeps_its_level_in_this_world(seed: int) -> None:
    rng, runs = np.random.default_rng([seed, 9]), 2000
    rate = np.mean([MEASURED["cramer_wold"](world("nothing", rng), run) <= LEVEL for run in range(runs)])
    print(f"rejected: {rate:.3f}")
    assert abs(rate - LEVEL) <= band(LEVEL, runs)
