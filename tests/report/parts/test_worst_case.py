"""The worst case on the page: plot data, sentences, and the drawing."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.report import html
from invariscope.report.parts.worst_case import TICK_LIMIT, WorstCase, curve_of, in_short, markup, reached, worst_case
from invariscope.results import WorstCaseResult
from tests.report.audits import audited, replaced, without

R = 4.0
RADII = np.linspace(0.0, 1.5 * R, 61)


def straight(result: WorstCaseResult, **changes: Any) -> WorstCaseResult:
    """The result with a curve in a straight line: 0.1 at 0, 1 at R for 0/1; 0.5 at 0, 2.5 at R for the others."""
    x = RADII / R
    loss = np.minimum(0.1 + 0.9 * x, 1.0) if result.of == "zero_one" else 0.5 + 2.0 * x
    given: dict[str, Any] = {"radii": RADII, "loss": loss, "band": np.stack([loss - 0.05, loss + 0.05]), "unit": R}
    others = {name: straight(other) for name, other in result.others.items()}
    return dataclasses.replace(result, **(given | {"others": others} | changes))


def with_curve(audit: iv.Audit, **changes: Any) -> iv.Audit:
    """The audit with straight curves."""
    return dataclasses.replace(audit, results={**audit.results, "worst_case": straight(audit["worst_case"], **changes)})


@pytest.fixture
def curved(audit: iv.Audit) -> iv.Audit:
    return with_curve(audit, apart=np.array([0.4, 0.0, 2.0, 1.0]))


def found(audit: iv.Audit) -> WorstCase:
    numbers = worst_case(audit)
    assert numbers is not None
    return numbers


def test_the_finding_is_about_the_furthest_environment(curved: iv.Audit) -> None:
    numbers = found(curved)
    # Switzerland is 2 of R = 4 away: 0.1 + 0.9 / 2 = 55 %
    assert numbers.finding == "A shift as large as Switzerland's could at worst make 55 % of the rows wrong (10 % now)"
    assert numbers.other_losses == (
        "The same shift could raise the cross-entropy from 0.500 to 1.50 and the hinge loss from 0.500 to 1.50."
    )
    assert [(tick.name, tick.place) for tick in numbers.ticks] == [
        ("Switzerland", 0.5),
        ("VA Long Beach", 0.25),
        ("Cleveland", 0.1),
        ("Hungary", 0.0),
    ]
    assert numbers.others == 0
    assert "every row can be made wrong" in numbers.unit


def test_without_distances_the_finding_is_about_a_quarter_of_the_unit() -> None:
    numbers = found(with_curve(audited(task="regression"), apart=np.full(2, np.nan)))
    assert numbers.finding == ("A shift of a quarter of R could at worst raise the squared error from 0.500 to 1.00")
    assert "can double" in numbers.unit
    alone = in_short(with_curve(audited(task="regression"), apart=np.full(2, np.nan)))  # without the page's caption
    assert alone == f"{numbers.finding} (R is the distance at which the error (root mean square) can double)."
    assert numbers.ticks == ()
    assert numbers.other_losses == ""


def test_distances_that_could_not_be_had_are_no_ticks() -> None:
    numbers = found(with_curve(audited(), apart=np.array([np.nan, 1.0])))
    assert [tick.name for tick in numbers.ticks] == ["b"]


def test_the_closest_of_many_environments_are_summed_up() -> None:
    count = TICK_LIMIT + 3
    audit = audited(tuple(range(count)), task="regression", criteria=("worst_case",), sizes=(20,))
    audit = with_curve(audit, apart=np.arange(count) / 10)
    assert (len(found(audit).ticks), found(audit).others) == (TICK_LIMIT, 3)
    assert "3 further environments closer than these not shown" in markup(audit, html.figure)


@pytest.mark.parametrize("unit", [0.0, float("nan"), float("inf")])
def test_a_curve_without_a_unit_is_not_drawn(unit: float) -> None:
    audit = replaced(audited(criteria=("worst_case",)), "worst_case", unit=unit)
    assert worst_case(audit) is None
    assert in_short(audit) == ""
    assert markup(audit, html.figure) == ""


def test_radii_in_any_order_make_the_same_curve(audit: iv.Audit) -> None:
    result = straight(audit["worst_case"])
    back = {name: getattr(result, name)[..., ::-1] for name in ("radii", "loss", "band")}
    turned, curve = curve_of(dataclasses.replace(result, **back)), curve_of(result)
    for name in ("places", "value", "low", "high"):
        assert getattr(turned, name).tolist() == getattr(curve, name).tolist()


def test_a_band_of_a_share_stays_a_share_and_a_missing_one_is_a_line(audit: iv.Audit) -> None:
    curve = curve_of(straight(audit["worst_case"]))
    assert curve.high.max() == 1.0
    assert curve.low.min() == pytest.approx(0.05)
    bare = curve_of(straight(audit["worst_case"], band=np.full((2, len(RADII)), np.nan)))
    assert bare.low.tolist() == bare.high.tolist() == bare.value.tolist()


def test_the_page_draws_the_curve_its_ticks_and_all_losses(curved: iv.Audit) -> None:
    section = markup(curved, html.figure)
    assert section.count("<figure") == 2
    assert section.count("<svg") == 4  # wide and narrow
    for text in ("share of rows wrong (%)", "cross-entropy", "hinge loss", "Switzerland", "Hungary"):
        assert f">{text}</text>" in section
    assert "how far each hospital is from all others together" in section
    assert not re.search(r"#0[1-9a-c]0[1-9a-c]", section)  # every stand-in colour was replaced


def test_names_at_the_ticks_are_only_text() -> None:
    audit = with_curve(audited(("Long <b>Beach", "b"), criteria=("worst_case",)), apart=np.array([2.0, 1.0]))
    section = markup(audit, html.figure)
    assert "Long &lt;b&gt;Beach" in section
    assert "<b>" not in section


def test_the_terminal_says_it_in_one_line(curved: iv.Audit) -> None:
    said = " ".join(str(curved).split())
    expected = "A shift as large as Switzerland's could at worst make 55 % of the rows wrong (10 % now)."
    assert f"Worst case: {expected}" in said


@pytest.mark.slow
def test_what_inputs_reach_is_a_share_of_what_the_worst_case_adds(network_audit: iv.Audit) -> None:
    result = straight(network_audit["worst_case_in_inputs"])
    points = {"moved": [0.6, 0.2], "reached": [1.25, 0.75], "representation": [1.5, 1.0]}
    changes = {name: np.array(values) for name, values in points.items()}
    audit = replaced(network_audit, "worst_case_in_inputs", loss=result.loss, **changes)
    numbers = reached(audit)
    assert numbers is not None
    assert numbers.places.tolist() == [0.0, 0.2, 0.6]
    assert numbers.reached.tolist() == [0.5, 0.75, 1.25]
    # 0.25 + 0.75 of 0.5 + 1.0
    assert numbers.finding.startswith("Moving the inputs reaches at least 67 % of")
    section = markup(audit, html.figure)
    assert "reaches at least 67 % of what" in section
    assert ">reached from inputs</text>" in section


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"representation": np.full(4, np.nan)}, {"moved": np.empty(0)}], ids=["nan", "none"]
)
def test_without_a_linear_head_nothing_is_compared(network_audit: iv.Audit, changes: dict[str, Any]) -> None:
    audit = replaced(network_audit, "worst_case_in_inputs", **changes)
    assert reached(audit) is None
    assert reached(without(network_audit, "worst_case_in_inputs")) is None
    assert "reached from inputs" not in markup(audit, html.figure)
