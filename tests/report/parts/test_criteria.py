"""Criteria, key facts, what was left out, and what is needed to repeat an audit, as text."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from dataclasses import dataclass

import numpy as np

import invariscope as iv
from invariscope import wording
from invariscope.criteria.registry import CRITERIA
from invariscope.report.parts.banner import banner, outline
from invariscope.report.parts.criteria import criteria
from invariscope.report.parts.environments import environments
from invariscope.report.parts.left_out import left_out
from invariscope.report.parts.provenance import provenance
from invariscope.results import Estimate, Result
from tests.report.audits import replaced, with_regrets, without


def test_criteria_as_text(audit: iv.Audit) -> None:
    rows = {row.name: row for row in criteria(audit)}
    assert next(iter(rows)) == "regret"
    assert (rows["regret"].value, rows["regret"].interval) == ("+15 %", "7.3 … 26 %")
    assert rows["regret"].detail == "mean over environments; score test p ≤ 0.001"
    assert (rows["dric"].value, rows["dric"].interval) == ("0.830", "0.610 … 1.12")
    assert (
        rows["dric"].detail
        == "log10 −0.081; spread 1.03 of the baseline's, which alone gives 1.05; 0.110 … 0.490 when shuffled"
    )
    assert (rows["transport_gap"].value, rows["transport_gap"].interval) == ("0.310", "0.120 … 0.550")
    assert rows["transport_gap"].detail == "all pairs together p ≤ 0.001"
    assert rows["risk_variance"].interval == "0.00343 … 0.00784"
    assert rows["worst_environment_risk"].detail == "worst: Switzerland, 0.581 log-loss (nats)"
    assert rows["irm_penalty"].value == "2.10 × 10⁻⁵"
    assert re.fullmatch(r"up to −2\.\d\d when shuffled \(95 %\); p ≤ 0\.001", rows["influence_index"].detail)
    assert rows["dric"].cannot_tell == CRITERIA["dric"].cannot_tell
    assert rows["worst_case"].detail.startswith("share of wrong rows at half of R, from ")


def test_every_criterion_of_every_audit_is_told(any_audit: iv.Audit) -> None:
    rows = criteria(any_audit)
    assert [row.name for row in rows] == list(any_audit.results)
    for row in rows:
        assert row.title == CRITERIA[row.name].title
        assert row.tells
        assert row.detail
        assert row.notes == any_audit[row.name].notes
        assert "nan" not in f"{row.value} {row.interval} {row.detail}"


def test_dric_without_interval_and_shuffles(audit: iv.Audit) -> None:
    audit = replaced(audit, "dric", interval=(math.nan, math.nan), null=np.empty(0))
    row = next(row for row in criteria(audit) if row.name == "dric")
    assert (row.interval, row.detail) == ("", "log10 −0.081; spread 1.03 of the baseline's, which alone gives 1.05")
    nothing = replaced(audit, "dric", value=math.nan, spread=math.nan)  # of pairs that overlap
    assert next(row for row in criteria(nothing) if row.name == "dric").detail == ""
    far = dataclasses.replace(audit["dric"].overlap, pair_verdicts=(("none",) * 4,) * 4)
    refused = replaced(audit, "dric", value=math.nan, overlap=far)
    assert next(row for row in criteria(refused) if row.name == "dric").detail == "no pair can be compared"


def test_a_criterion_that_nobody_here_registered_is_shown_by_its_name(audit: iv.Audit) -> None:
    """As in an audit that was computed and saved where it was registered."""

    @dataclass(frozen=True, kw_only=True)
    class Own(Result):
        pvalue: float = math.nan

    for pvalue, detail in ((0.02, "p = 0.020"), (math.nan, "")):
        own = Own(value=0.5, pvalue=pvalue, notes=("a remark",))
        row = criteria(dataclasses.replace(audit, results={**audit.results, "new_thing": own}))[-1]
        assert (row.title, row.value, row.detail, row.notes) == ("New thing", "0.500", detail, ("a remark",))


def test_facts(audit: iv.Audit) -> None:
    assert [value for _, value in banner(audit).facts] == ["+38 % (21 … 60)", "p ≤ 0.001", "34 %", "2 %"]
    assert banner(audit).lacking == ""
    assert outline(audit) == "920 rows · 4 environments · 13 features · linear head, log-loss"


def test_the_fact_about_the_largest_regret_is_the_one_that_the_state_rests_on(audit: iv.Audit) -> None:
    vague = with_regrets(audit, [(0.31, 0.017, 0.68), (0.25, 0.23, 0.27), (0.1, 0.0, 0.2), (0.01, 0.0, 0.1)])
    assert banner(vague).facts[0] == (
        "largest regret that is surely over the margin, in Hungary; the interval allows for having picked it",
        "+25 % (23 … 27)",
    )
    open_one = with_regrets(audit, [(0.012, 0.008, 0.016), (0.0, -0.04, 0.07), (0.0, 0.0, 0.01), (0.0, 0.0, 0.01)])
    assert banner(open_one).facts[0] == (
        "largest regret that may be over the margin, in Hungary; the interval allows for having picked it",
        "0 % (−4 … 7)",
    )
    unbounded = with_regrets(audit, [(0.31, 0.017, 0.68), (0.5, 0.0217, 40.0), (0.1, 0.0, 0.2), (0.01, 0.0, 0.1)])
    assert banner(unbounded).facts[0][1] == "+50 % (at least 2.1, cannot be bounded)"
    nothing = replaced(
        audit, "regret", per_environment={label: Estimate(math.nan) for label in audit.data.labels}, pvalue=math.nan
    )
    assert [value for _, value in banner(nothing).facts] == ["p –", "34 %", "2 %"]


def test_without_a_regret_the_banner_says_why(audit: iv.Audit) -> None:
    verdict = banner(without(audit, "regret", reason="Bern has 3 rows."))
    assert verdict.facts == ()
    assert verdict.lacking == "Shared-head regret was left out: Bern has 3 rows."
    said = dataclasses.replace(
        without(audit, "regret", reason="site a has 3 rows. Drop it."), sentences=("Site a has 3 rows.",)
    )
    assert banner(said).lacking == ""  # the verdict says it already
    unasked = dataclasses.replace(without(audit, "regret"), left_out={})
    assert banner(unasked).lacking == "Shared-head regret was left out: it was not asked for."


def test_a_reason_that_the_verdict_gives_is_neither_in_the_banner_nor_under_the_table() -> None:
    """Real reasons: too few rows (of a name with dots in it), a class that never occurs, too many columns."""
    rng = np.random.default_rng(0)
    X, two = rng.normal(size=(120, 4)), np.repeat(["a", "b"], 60)
    few = np.where(np.arange(120) < 8, "St. Gallen. East", "b")
    one_class = np.where((two == "a") & (rng.uniform(size=120) > 0.5), "yes", "no")
    for table, y, env, reason in (
        (X, X[:, 0], few, 'Environment "St. Gallen. East" has 8 rows, but a head'),
        (X, one_class, two, 'Class "yes" of target "target" never occurs'),
        (rng.normal(size=(120, 90)), X[:, 0], two, 'Environment "a" has 60 rows (too few also: b), but a head'),
    ):
        found = iv.audit(None, table, y, env, n_boot=99, criteria=["regret", "risk_variance"])
        assert found.state == "CANNOT TELL YET"
        assert found.sentences[0].startswith(reason)
        assert banner(found).lacking == ""
        assert environments(found).reasons == ()


def test_left_out_and_remarks(audit: iv.Audit) -> None:
    assert left_out(audit).reasons == (("Worst-case loss in input space", "needs a torch model"),)
    noted = replaced(dataclasses.replace(audit, notes=("Here.", "Here.", "There.")), "dric", notes=("There.",))
    assert left_out(noted).remarks == ("Here.",)  # what a criterion remarks stands beside it


def test_provenance_says_who_makes_fewer_draws(audit: iv.Audit) -> None:
    settings = dataclasses.replace(audit.settings, n_boot=999)
    many = dataclasses.replace(audit, settings=settings)
    assert dict(provenance(many))["bootstrap and null draws"] == (
        "999 (DRIC as published: at most 99; Worst-case loss: at most 199)"
    )
    assert dict(provenance(without(many, "dric", "worst_case")))["bootstrap and null draws"] == "999"
    assert dict(provenance(audit))["bootstrap and null draws"] == "99"


def test_provenance_is_complete_and_short(audit: iv.Audit) -> None:
    data = dataclasses.replace(audit.data, columns=tuple(f"c{j}" for j in range(500)))
    particulars = dict(provenance(dataclasses.replace(audit, data=data)))
    assert particulars["seed"] == "0"
    assert particulars["rows"] == "920"
    assert particulars["environments"] == "4, of 123 to 303 rows"
    assert particulars["features"].startswith("500: c0, c1, ")
    assert particulars["features"].endswith("c23 and 476 more")
    assert particulars["versions"] == "invariscope 0.1.0 · numpy 2.4.0 · scikit-learn 1.9.0"
    assert particulars["density ratios by"] == f"logistic ({audit['dric'].ratio})"
    assert particulars["made"] == "2025-11-15 21:04 UTC"
    assert "density ratios by" not in dict(provenance(without(audit, "dric", "transport_gap")))


@functools.cache
def compared(draws: int = 99) -> iv.Audit:
    rng = np.random.default_rng(0)
    X, env = rng.normal(size=(200, 2)), np.repeat(["Bern", "Oslo"], [120, 80])
    X[env == "Oslo"] += 2.0
    asked = ("mmd", "kmaxic", "domain_classifier", "conditional_mutual_information")
    return iv.audit(None, X, X.sum(axis=1) + rng.normal(size=200), env, criteria=asked, n_boot=draws)


def test_comparators_are_told_beside_what_chance_gives() -> None:
    """KMaxIC is above 0 by chance, an accuracy is nothing without what guessing gets, and 99 deals show p ≤ 0.01."""
    rows = {row.name: row for row in criteria(compared())}
    assert re.fullmatch(
        r"0\.\d+ by always naming the largest; area under the curve .+; p ≤ 0\.01",
        shown := rows["domain_classifier"].detail,
    )
    assert shown.startswith("0.600 by")
    assert re.fullmatch(r".+ … .+ when shuffled; p ≤ 0\.01", rows["kmaxic"].detail)
    low, high = np.quantile(compared()["kmaxic"].null, [0.025, 0.975])
    assert rows["kmaxic"].detail.startswith(wording.span((low, high)))
    assert "shuffled" not in rows["conditional_mutual_information"].detail
    assert rows["conditional_mutual_information"].detail.startswith("p ")
    undrawn = {row.name: row for row in criteria(compared(0))}
    assert undrawn["mmd"].detail == undrawn["conditional_mutual_information"].detail == ""
    assert not undrawn["domain_classifier"].detail.endswith(";")
    assert "p " not in undrawn["domain_classifier"].detail


def test_the_terminal_tells_what_was_asked_for() -> None:
    said = " ".join(str(compared()).split())
    line = said[said.index("Comparators:") :]
    assert re.search(r"Domain classifier 0\.\d+ \(0\.600 by guessing, p ≤ 0\.01\)", line)
    assert all(CRITERIA[name].title in line for name in compared().results if name != "regret")
    assert re.search(r"Distance of laws \(MMD\) [\d.]+ \(p ≤ 0\.01\)", line)
    undrawn = " ".join(str(compared(0)).split())
    assert "(0.600 by guessing)" in undrawn
    assert "(p " not in undrawn[undrawn.index("Comparators:") :]
