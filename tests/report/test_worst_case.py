"""The worst case on the page: plot data, sentences, and the drawing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariscope.report import html, terminal
from invariscope.report.worst_case import TICK_LIMIT, curve_of, in_short, reached, worst_case
from invariscope.results import InputWorstCaseResult, WorstCaseResult

R = 4.0
RADII = np.linspace(0.0, 1.5 * R, 61)


def result(of: str = "zero_one", *, apart: Sequence[float] = (), names: Sequence[Any] = (), **changes: Any) -> Any:
    """A curve that rises in a straight line: 0.1 at 0, 1 at R for 0/1; 0.5 at 0, 2.5 at R for the others."""
    x = RADII / R
    loss = np.minimum(0.1 + 0.9 * x, 1.0) if of == "zero_one" else 0.5 + 2.0 * x
    given: dict[str, Any] = {
        "value": float(np.interp(0.5, x, loss)),
        "radii": RADII,
        "loss": loss,
        "lower": loss,
        "upper": loss,
        "gamma": np.ones_like(loss),
        "band": np.stack([loss - 0.05, loss + 0.05]),
        "unit": R,
        "of": of,
        "exact": True,
        "labels": tuple(names),
        "apart": np.asarray(apart, float),
    }
    return WorstCaseResult(**(given | changes))


@pytest.fixture
def curved(audit: SimpleNamespace) -> SimpleNamespace:
    others = {name: result(name) for name in ("log_loss", "hinge")}
    audit.results["worst_case"] = result(
        apart=[0.4, 0.0, 2.0, 1.0], names=["Cleveland", "Hungary", "Switzerland", "Long <b>Beach"], others=others
    )
    audit.left_out = {}
    return audit


def test_the_finding_is_about_the_furthest_environment(curved: SimpleNamespace) -> None:
    found = worst_case(curved)
    assert found is not None
    # Switzerland is 2 of R = 4 away: 0.1 + 0.9 / 2 = 55 %
    assert found.finding == "A shift as large as Switzerland's could at worst make 55 % of the rows wrong (10 % now)"
    assert found.told == (
        "The same shift could raise the cross-entropy from 0.500 to 1.50 and the hinge loss from 0.500 to 1.50."
    )
    assert [(tick.name, tick.place) for tick in found.ticks] == [
        ("Switzerland", 0.5),
        ("Long <b>Beach", 0.25),
        ("Cleveland", 0.1),
        ("Hungary", 0.0),
    ]
    assert found.others == 0
    assert "every row can be made wrong" in found.unit


def test_without_distances_the_finding_is_about_a_quarter_of_the_unit(audit: SimpleNamespace) -> None:
    audit.results["worst_case"] = result("squared")
    found = worst_case(audit)
    assert found is not None
    assert found.finding == ("A shift of a quarter of R could at worst raise the squared error from 0.500 to 1.00")
    assert "can double" in found.unit
    assert found.ticks == ()


def test_distances_that_could_not_be_had_are_no_ticks(audit: SimpleNamespace) -> None:
    audit.results["worst_case"] = result(apart=[np.nan, 1.0], names=["a", "b"])
    found = worst_case(audit)
    assert found is not None
    assert [tick.name for tick in found.ticks] == ["b"]


def test_the_closest_of_many_environments_are_summed_up(audit: SimpleNamespace) -> None:
    count = TICK_LIMIT + 3
    audit.results["worst_case"] = result(apart=np.arange(count) / 10, names=[f"site {k}" for k in range(count)])
    found = worst_case(audit)
    assert found is not None
    assert (len(found.ticks), found.others) == (TICK_LIMIT, 3)
    assert "3 further environments closer than these not shown" in html.render(audit)


@pytest.mark.parametrize("unit", [0.0, float("nan"), float("inf")])
def test_a_curve_without_a_unit_is_not_drawn(audit: SimpleNamespace, unit: float) -> None:
    audit.results["worst_case"] = result(unit=unit)
    assert worst_case(audit) is None
    assert in_short(audit) == ""
    assert "nobody has seen" not in html.render(audit)


def test_radii_in_any_order_make_the_same_curve() -> None:
    back = {"radii": RADII[::-1], **{name: getattr(result(), name)[::-1] for name in ("loss", "lower", "upper")}}
    turned = curve_of(result(**back, band=result().band[:, ::-1]))
    straight = curve_of(result())
    for name in ("places", "value", "low", "high"):
        assert getattr(turned, name).tolist() == getattr(straight, name).tolist()


def test_a_band_of_a_share_stays_a_share_and_a_missing_one_is_a_line() -> None:
    curve = curve_of(result())
    assert curve.high.max() == 1.0
    assert curve.low.min() == pytest.approx(0.05)
    bare = curve_of(result(band=np.full((2, len(RADII)), np.nan)))
    assert bare.low.tolist() == bare.high.tolist() == bare.value.tolist()


def test_the_page_draws_the_curve_its_ticks_and_all_losses(curved: SimpleNamespace) -> None:
    page = html.render(curved)
    section = page[page.index("nobody has seen") :]
    section = section[: section.index("</section>")]
    assert section.count("<figure") == 2
    assert section.count("<svg") == 4  # wide and narrow
    for text in ("share of rows wrong (%)", "cross-entropy", "hinge loss", "Switzerland", "Hungary"):
        assert f">{text}</text>" in section
    assert "Long &lt;b&gt;Beach" in section
    assert "<b>Beach" not in section
    assert "how far each hospital is from all others together" in section
    assert not re.search(r"#0[1-9a-c]0[1-9a-c]", section)  # every stand-in colour was replaced


def test_the_terminal_says_it_in_one_line(curved: SimpleNamespace) -> None:
    from rich.console import Console

    console = Console(width=120)
    with console.capture() as shown:
        console.print(terminal.table(curved))
    said = " ".join(shown.get().split())
    assert (
        "Worst case: A shift as large as Switzerland's could at worst make 55 % of the rows wrong (10 % now)." in said
    )


def in_inputs(**changes: Any) -> InputWorstCaseResult:
    curve = result("log_loss")
    given = {field.name: getattr(curve, field.name) for field in dataclasses.fields(curve)}
    points = {"moved": [0.6, 0.2], "reached": [1.25, 0.75], "representation": [1.5, 1.0]}
    arrays = {name: np.array(values) for name, values in points.items()}
    return InputWorstCaseResult(**(given | arrays | changes))


def test_what_inputs_reach_is_a_share_of_what_the_worst_case_adds(curved: SimpleNamespace) -> None:
    curved.results["worst_case_in_inputs"] = in_inputs()
    found = reached(curved)
    assert found is not None
    assert found.places.tolist() == [0.0, 0.2, 0.6]
    assert found.reached.tolist() == [0.5, 0.75, 1.25]
    # 0.25 + 0.75 of 0.5 + 1.0
    assert found.finding.startswith("Moving the inputs reaches at least 67 % of")
    page = html.render(curved)
    assert "reaches at least 67 % of what" in page
    assert ">reached from inputs</text>" in page


@pytest.mark.parametrize(
    "changes", [{"representation": np.full(2, np.nan)}, {"moved": np.empty(0)}], ids=["nan", "none"]
)
def test_without_a_linear_head_nothing_is_compared(curved: SimpleNamespace, changes: dict[str, Any]) -> None:
    curved.results["worst_case_in_inputs"] = in_inputs(**changes)
    assert reached(curved) is None
    assert "reached from inputs" not in html.render(curved)
