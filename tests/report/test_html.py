from __future__ import annotations

import dataclasses
import html as escaped
import math
import os
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.criteria.registry import CRITERIA
from invariscope.report import html
from invariscope.report.charts.svg import COLOURS
from invariscope.report.parts import transport
from tests.report.audits import NASTY, audited, replaced, with_regrets, without

ROOT = Path(__file__).resolve().parents[2]
VOID = {"meta", "br", "hr", "img", "input", "link", "col", "base", "source", "wbr"}
RESULTS = (
    *("regret", "transport_gap", "influence_index", "dric", "risk_variance", "worst_environment_risk"),
    *("calibration_variance", "irm_penalty", "worst_case"),
)


class Page(HTMLParser):
    """Reads a page: its tags must be balanced; collects what a browser would load, run or show."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"attribute twice in {tag}: {names}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, text: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(text)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def assert_safe_and_offline(text: str) -> Page:
    page = Page(text)
    assert not {"script", "iframe", "object", "embed", "link", "img", "base", "form", "image", "use"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        assert name not in {"src", "href", "xlink:href", "srcset", "action", "data"}, (name, value)
        assert "url(" not in (value or ""), (name, value)
    assert not re.search(r"https?:|@import|url\(", text)
    return page


def sections(page: str) -> list[str]:
    return re.findall(r'<p class="kicker">(.*?)</p>', page)


@pytest.fixture
def without_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are left empty, for tests that look at the page around them: drawing takes most of the time."""
    monkeypatch.setattr(html, "figure", lambda name, numbers, caption, **options: f'<figure class="{name}"></figure>')


def test_page_is_whole_and_in_order(audit: iv.Audit, whole_page: str) -> None:
    text = whole_page
    page = assert_safe_and_offline(text)
    assert sections(text) == [
        "The environments: disease by hospital",
        "Who disagrees with whom",
        "If one environment&#x27;s relation held in another",
        "Features that drive it",
        "Influence of each environment on the head",
        "How bad it can get in an environment nobody has seen",
        "Published and classical criteria",
        "Left out",
        "Notes",
        "Data, settings, versions",
        "Glossary",
    ]
    assert text.index("NOT INVARIANT</div>") < text.index("Who disagrees")
    for expected in (
        audit.headline,
        *audit.sentences,
        *audit.data.labels,
        "cholesterol",
        "+38 % (21 … 60)",
        "+2.1 % (0.2 … 5.2)",
        "0.581",
        "31 of 123",
        "If VA Long Beach's relation held in Cleveland, mean disease would be 18 points lower (95 %: 14–22)",
        "Of 12 pairs, 4 hardly and 4 only weakly overlap",
        f"Cannot tell: {CRITERIA['transport_gap'].cannot_tell}",
        "score test p ≤ 0.001",
        f"Cannot tell: {CRITERIA['dric'].cannot_tell}",
        "Worst-case loss in input space: needs a torch model",
        "Two rows occur twice.",
        "scikit-learn 1.9.0",
        "Expected calibration error",
    ):
        assert expected in page.words, expected


def test_charts_are_drawn_in_both_widths_with_a_label_and_the_page_s_colours(whole_page: str) -> None:
    text = whole_page
    drawn = re.findall(r'<div class="(wide|narrow)"><svg role="img" aria-label="([^"]+)"', text)
    assert [width for width, _ in drawn] == ["wide", "narrow"] * 7
    assert all(label for _, label in drawn)
    assert "var(--over, " in text
    assert re.search(r"var\(--heat-[1-6], ", text)
    assert "var(--tilt-0, " in text
    assert "var(--cover-4, " in text
    assert not re.search(r'(?:fill|stroke)="#0[0-9a-f]0', text), "a stand-in colour was left"
    assert 'id="' not in text  # identifiers of two drawings would clash


@pytest.mark.parametrize(
    "state", ["NOT INVARIANT", "INVARIANT", "DIFFERENT BUT NEGLIGIBLE", "CANNOT TELL YET", "UNINFORMATIVE"]
)
def test_every_state_has_its_banner(audit: iv.Audit, state: str) -> None:
    text = html.fragment(dataclasses.replace(audit, state=state))
    kind = state.lower().replace(" ", "-")
    assert f'<div class="banner {kind}">' in text
    assert f".invariscope .{kind} {{ --state:" in text
    assert re.search(rf'<div class="state">\S {state}</div>', text)


@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize("missing", [*([name] for name in RESULTS), RESULTS[:3], RESULTS])
def test_page_stands_without_results(audit: iv.Audit, missing: list[str]) -> None:
    text = html.render(without(audit, *missing, reason="was left for later."))
    page = assert_safe_and_offline(text)
    assert ("Who disagrees with whom" in page.words) == ("regret" not in missing)
    assert ("relation held in another" in page.words) == ("transport_gap" not in missing)
    assert ("Influence of each environment" in page.words) == ("influence_index" not in missing)
    assert ("nobody has seen" in page.words) == ("worst_case" not in missing)
    # a reason that several share is given once; where the regret is missing, banner and table say so as well
    assert page.words.count("was left for later.") == 1 + 2 * ("regret" in missing)
    reasons = page.words[page.words.index("What was not computed, and why") :]
    assert all(CRITERIA[name].title in reasons for name in missing)
    assert "Switzerland" in page.words
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page.words)


@pytest.mark.usefixtures("without_drawing")
def test_without_a_regret_the_losses_are_those_of_the_model(audit: iv.Audit) -> None:
    text = html.render(without(audit, "regret", reason="Bern has 3 rows."))
    assert re.findall(r'<th scope="col" class="number other">(.*?)</th>', text) == ["rows", "model loss", "ECE"]
    banner = text[text.index('<div class="banner') : text.index("<section>")]
    assert "Shared-head regret was left out: Bern has 3 rows." in banner
    assert '<dl class="facts">' not in banner
    whole = html.render(audit)
    heads = re.findall(r'<th scope="col" class="number other">(.*?)</th>', whole)
    assert heads == ["rows", "model loss", "shared head loss", "own head loss", "ECE"]


@pytest.mark.usefixtures("without_drawing")
def test_no_page_tells_a_size_that_nobody_knows(audit: iv.Audit) -> None:
    wild = [(0.38, 0.021, 40.93), (0.1, -0.05, 17635.15), (0.02, 0.0, 0.05), (0.01, 0.0, 0.03)]
    text = html.render(with_regrets(audit, wild, interval=(0.01, 4419.02)))
    assert not re.search(r"1,763,515|4,093|441,902", text)
    words = assert_safe_and_offline(text).words
    assert words.count("cannot be bounded") == 5  # banner, finding, two environments, the mean among the criteria
    assert text.count('<span class="unbounded">') == 2


def test_a_page_of_every_kind_of_audit(any_audit: iv.Audit) -> None:
    text = html.render(any_audit)
    page = assert_safe_and_offline(text)
    for expected in (any_audit.headline, *any_audit.sentences, *map(str, any_audit.data.labels[:4])):
        assert " ".join(expected.split()) in page.words or len(any_audit.data.labels) > 60
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page.words)
    assert not re.search(r'(?:fill|stroke)="#0[0-9a-f]0', text), "a stand-in colour was left"
    assert_safe_and_offline(html.fragment(any_audit))


@pytest.mark.usefixtures("without_drawing")
def test_missing_numbers_show_a_dash_and_the_reason(audit: iv.Audit) -> None:
    nan = math.nan
    audit = with_regrets(audit, [(0.1, 0.05, 0.2), (nan, nan, nan), (0.3, nan, nan), (0.1, 0.0, 0.2)])
    pairs, lost = audit["regret"].pairs.copy(), np.array([1.0, nan, 1.0, 1.0])
    pairs[1] = nan
    changes = {name: lost * getattr(audit["regret"], name) for name in ("own_loss", "shared_loss")}
    notes = ("Hungary: its own head could not be fitted.",)
    page = assert_safe_and_offline(html.render(replaced(audit, "regret", pairs=pairs, notes=notes, **changes)))
    row = re.search(r"Hungary 294 (\S+) (\S+) (\S+) (\S+)", page.words)
    assert row is not None
    assert row.groups() == ("0.395", "–", "–", "–")  # the model's loss is known
    assert "– Hungary: its own head could not be fitted." in page.words
    assert not re.search(r"\bnan\b", page.words)


def test_users_text_is_only_text() -> None:
    audit = audited(NASTY, columns=(*NASTY, "\x00", *map(str, range(12))))
    audit = dataclasses.replace(
        with_regrets(audit, [(0.38, 0.21, 0.6)], pvalue=0.001),
        headline="<i>headline</i>",
        notes=("<u>note</u>",),
        left_out={"worst_case": "<s>reason</s>"},
        data=dataclasses.replace(audit.data, env_name="<b>name</b>", target_name="<b>name</b>"),
        settings=dataclasses.replace(audit.settings, versions={"<em>": "<em>"}),
    )
    for text in (html.render(audit), html.fragment(audit)):
        page = assert_safe_and_offline(text)
        assert not {"b", "i", "u", "s", "em"} & set(page.tags)
        assert "<script>alert(1)</script>" in page.words
        assert "weighted to look like <script>alert(1)</script>" in page.words or text.startswith("<div")
        assert "<i>headline</i>" in page.words
        text.encode("utf-8")


def cells(text: str, drawing: str, width: str) -> dict[str, str]:
    """What the cells of a heat map say when pointed at, with their colour."""
    start = text.index(f'<figure class="{drawing}">')
    found = re.search(rf'<div class="{width}">(.*?)</div>', text[start:], re.S)
    assert found is not None
    return {
        escaped.unescape(title): re.sub(r".*var\(--([\w-]+).*", r"\1", path) if "var(" in path else ""
        for path, title in re.findall(r"<path([^>]*)><title>(.*?)</title></path>", found.group(1))
    }


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_every_cell_says_what_it_is(whole_page: str, width: str) -> None:
    text = whole_page
    gaps, overlaps = cells(text, "gaps", width), cells(text, "overlaps", width)
    assert len(gaps) == len(overlaps) == 16
    assert gaps["Cleveland with the relation of VA Long Beach: −18 points (95 %: −22 … −14), p = 0.004"] == "tilt-0"
    assert gaps["Switzerland with the relation of Cleveland: +12 points (95 %: +8 … +16), p = 0.004"] == "tilt-6"
    assert gaps["Hungary with the relation of Cleveland: +6 points (95 %: +2 … +10), p = 0.30"] == "tilt-4"
    refused = "Cleveland with the relation of Hungary: not compared, none overlap, 12 of 294 rows effective"
    assert gaps[refused] == ""
    assert overlaps["Rows of Switzerland, weighted to look like Cleveland: weak overlap, 31 of 123 rows effective"] == (
        "cover-1"
    )


def test_sure_gaps_are_bold_with_an_asterisk_and_refused_ones_dashed(whole_page: str) -> None:
    text = whole_page
    drawn = text[text.index('<figure class="gaps">') : text.index('<div class="narrow">', text.index('"gaps"'))]
    bold = re.findall(r'<text[^>]*font-weight="bold"[^>]*>([^<]*)</text>', drawn)
    assert sorted(bold) == sorted(["−12*", "−18*", "−12*", "+12*", "+12*"])
    assert re.findall(r'<text[^>]*font-weight="normal"[^>]*>(\+6)</text>', drawn) == ["+6"] * 3
    assert drawn.count("stroke-dasharray") == drawn.count(">no overlap</text>") == 4


def test_all_pairs_are_in_a_table_with_their_intervals(whole_page: str) -> None:
    text = whole_page
    details = re.search(r"<details>(.*?)</details>", text, re.S)
    assert details is not None
    rows = [Page(row).words for row in re.findall(r"<tr>.*?</tr>", details.group(1), re.S)]
    assert len(rows) == 13
    assert rows[1] == "Cleveland VA Long Beach −18* −22 … −14 0.004 162 of 200, good 100 % 0.97 8 % 1.3 %"
    assert rows[-1] == "VA Long Beach Cleveland – – – 12 of 303, none 100 % 0.97 8 % 1.3 %"


def test_more_environments_than_stand_side_by_side() -> None:
    assert '<div class="pair">' in html.render(audited(tuple(range(6)), criteria=("transport_gap",)))
    assert '<div class="pair stacked">' in html.render(audited(tuple(range(7)), criteria=("transport_gap",)))


def test_the_reason_of_a_refusal_is_given_where_there_is_one(audit: iv.Audit, whole_page: str) -> None:
    reason = (
        "Dashed: refused, under 5 % of the rows effective (and not 500), or fewer than 20, or over 10 % of the "
        "environment at the left beyond their reach."
    )
    assert reason in Page(whole_page).words
    result = audit["transport_gap"]
    intervals = np.nan_to_num(result.pair_intervals)
    whole = replaced(audit, "transport_gap", pairs=np.nan_to_num(result.pairs), pair_intervals=intervals)
    assert reason not in Page(transport.markup(whole, html.figure)).words


def test_names_that_read_the_same_stay_apart() -> None:
    text = html.render(
        with_regrets(audited(("a", "a ", "b"), columns=("c", "c ", "d")), [(0.38, 0.21, 0.6)], pvalue=0.001)
    )
    words = assert_safe_and_offline(text).words
    assert "a (2)" in words
    assert "c (2)" in words


@pytest.mark.usefixtures("without_drawing")
def test_long_names_that_begin_alike_stay_apart_in_every_table() -> None:
    names = tuple(f"the very old university hospital of the city of a rather long name, number {k}" for k in range(14))
    text = html.render(audited(names, task="regression", criteria=("transport_gap",), sizes=(40,)))
    for kind in ("environments", "pairs", "gap-list"):
        table = text[text.index(f'<table class="{kind}">') :].partition("</table>")[0]
        shown = dict(re.findall(r'class="name" title="([^"]*)"><span>(.*?)</span>', table))
        assert set(shown) <= set(names)
        assert len(set(shown.values())) == len(shown) >= 4
        assert max(map(len, shown.values())) <= 44


def test_more_environments_than_a_matrix_holds() -> None:
    names = tuple(f"site {k}" for k in range(14))
    text = html.render(audited(names, task="regression", criteria=("transport_gap",), sizes=(40,)))
    page = assert_safe_and_offline(text)
    table = text[text.index('class="environments"') : text.index("Who disagrees")]
    assert table.count('<tr><th scope="row" class="name" title="site ') == 14
    assert "The 12 most extreme of 182 pairs." in page.words
    assert "12 of 182 pairs: sure ones (*) first, larger gaps first." in page.words
    assert '<figure class="beside">' not in text
    assert '<figure class="gaps">' not in text
    assert len(text) < 100_000


@pytest.mark.slow
@pytest.mark.usefixtures("without_drawing")
def test_more_environments_than_a_page_holds() -> None:
    audit = audited(tuple(range(64)), task="regression", criteria=("risk_variance",), sizes=(30,))
    page = assert_safe_and_offline(html.render(audit))
    assert "4 more environments are not shown" in page.words


def test_cut_intervals_end_in_an_arrow(audit: iv.Audit) -> None:
    whole = html.fragment(audit)
    cut = html.fragment(with_regrets(audit, [(0.1, -5.0, 40.0), (0.02, 0, 0.05)]))
    assert whole.count("<path d=") == 0
    assert cut.count("<path d=") == 4  # both ends of two environments of four


def test_bars_stand_on_a_common_axis(audit: iv.Audit) -> None:
    text = html.fragment(audit)
    margins = set(re.findall(r'<line class="margin" x1="([\d.]+)%"', text))
    dots = [float(x) for x in re.findall(r'<circle class="\w+" cx="([\d.]+)%"', text)]
    assert len(margins) == 1
    # 0 … 60 % is drawn from 4 to 96 % of the width; worst first
    assert dots == pytest.approx([4 + 92 * r / 0.6 for r in (0.38, 0.152, 0.064, 0.021)], abs=0.01)
    assert float(margins.pop()) == pytest.approx(4 + 92 * 0.02 / 0.6, abs=0.01)


def test_fragment_is_scoped(audit: iv.Audit) -> None:
    text = html.fragment(audit)
    page = assert_safe_and_offline(text)
    assert page.tags[0] == "div"
    assert not {"html", "body", "head"} & set(page.tags)
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style is not None
    rules = re.sub(r"/\*.*?\*/|@(?:media|container)[^{]*\{", "", style.group(1), flags=re.S)
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", rules) for part in rule.split(",")]
    assert selectors
    assert [s for s in selectors if not s.startswith(".invariscope")] == []
    assert audit.headline in page.words


@pytest.mark.usefixtures("without_drawing")
def test_write_leaves_only_the_page(audit: iv.Audit, tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    path.write_text("older page")
    assert audit.to_html(path) == path
    assert path.read_text(encoding="utf-8") == html.render(audit)
    assert os.listdir(tmp_path) == ["audit.html"]


@pytest.mark.usefixtures("without_drawing")
def test_failed_write_keeps_the_older_page(audit: iv.Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.html"
    path.write_text("older page")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(iv.InputError, match=r"audit\.html cannot be written: disk full; choose another place$"):
        audit.to_html(path)
    assert path.read_text() == "older page"
    assert os.listdir(tmp_path) == ["audit.html"]


@pytest.mark.slow
def test_same_audit_same_page(audit: iv.Audit, whole_page: str) -> None:
    assert html.render(audit) == whole_page


def test_the_style_sheet_is_a_file_that_comes_with_the_package(audit: iv.Audit, whole_page: str) -> None:
    path = ROOT / "src" / "invariscope" / "report" / "page.css"
    style = path.read_text(encoding="utf-8")
    assert style in whole_page
    assert "prefers-color-scheme: dark" in style
    before, mark, page_only = style.partition(html.PAGE_ONLY)
    assert mark
    assert before in html.fragment(audit)
    assert page_only not in html.fragment(audit)
    settings: Any = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "report/page.css" in settings["tool"]["setuptools"]["package-data"]["invariscope"]


def test_every_colour_of_the_charts_is_in_the_style_sheet_light_and_dark() -> None:
    for name, _ in COLOURS.values():
        assert html.style_sheet().count(f"--{name}:") == 2, name


def test_a_page_speaks_of_one_overlap_and_says_of_what(audit: iv.Audit) -> None:
    """The inputs of no two environments overlap, and their representations do: the page must not say both."""
    apart = dataclasses.replace(
        audit["dric"].overlap, verdicts=("none",) * 4, pair_verdicts=(("none",) * 4,) * 4, pooled=np.zeros(4)
    )
    together = dataclasses.replace(
        audit["transport_gap"].overlap, verdicts=("good",) * 4, pair_verdicts=(("good",) * 4,) * 4, pooled=np.ones(4)
    )
    page = html.render(replaced(replaced(audit, "dric", overlap=apart), "transport_gap", overlap=together))
    assert "All pairs overlap well" in page
    assert "Overlap: of the representation, with all other environments together" in page
    assert "Overlap of the representation: how many rows" in page
    assert "no overlap of" not in page
    dashed = html.render(replaced(audit, "transport_gap", overlap=dataclasses.replace(apart, reached=together.reached)))
    assert "Dashed: no overlap of the representation, so that the head could only guess." in dashed


def test_names_of_any_length_make_no_large_page(seed: int) -> None:
    """Names of sites, columns, classes, target and environment are a million letters long and differ at their end."""
    rng = np.random.default_rng(seed)
    code, X = np.arange(240) % 3, rng.normal(size=(240, 2))

    def page(long: str) -> tuple[iv.Audit, str]:
        labels = [f"{long}{k}" for k in range(3)]
        audit = iv.audit(
            None,
            pd.DataFrame(X, columns=[f"{long} x", f"{long} z"]),
            pd.Series([f"{long} {'yes' if one > 0 else 'no'}" for one in X[:, 0] * (1 + code) + rng.normal(size=240)]),
            pd.Series([labels[k] for k in code]),
            n_boot=99,
            target_name=f"{long} target",
            env_name=f"{long} site",
        )
        assert audit.data.labels == tuple(labels)
        return audit, html.render(audit)

    (_, usual), (audit, text) = page("s"), page("s" * 1_000_000)
    assert len(text) < len(usual) + 500_000
    assert "s" * 1000 not in text
    assert len(str(audit)) < 50_000


def test_names_cut_in_sentences_are_not_taken_for_another(without_drawing: None) -> None:
    """Of wards with one name but for a number, headings, facts and criteria show the number."""
    wards = tuple(f"University Hospital of the Northern Region, ward {k} of internal medicine" for k in range(3, 6))
    page = Page(html.render(audited(wards, task="regression"))).words
    cut = re.findall(r"University[^…:;,\"]*…(\S*)", page)
    assert len(cut) >= 8
    assert all(re.match(r"(ward|[3-5])", behind) for behind in cut), cut


def test_one_of_two_heat_maps_is_no_wider_than_a_narrow_page() -> None:
    """Six names took 415 pixels of a phone's 368; only stacked ones, of more environments, scroll instead."""
    narrow = html.style_sheet().partition("@container (max-width: 660px) {")[2]
    rules = dict(re.findall(r"(\.invariscope [^{}]*?) \{ ([^{}]*) \}", narrow))
    assert "max-width: 100%" in rules[".invariscope .pair .narrow svg"]
    assert rules[".invariscope .stacked .narrow"] == "overflow-x: auto;"
