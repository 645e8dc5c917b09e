from __future__ import annotations

import dataclasses
import html as escaped
import math
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from invariscope.report import html

Build = Callable[..., SimpleNamespace]
VOID = {"meta", "br", "hr", "img", "input", "link", "col", "base", "source", "wbr"}
RESULTS = (
    *(
        "regret",
        "transport_gap",
        "influence_index",
        "dric",
        "risk_variance",
        "worst_environment_risk",
        "calibration_variance",
    ),
    "irm_penalty",
)
NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "x" * 300,
    "a & b 'quoted' {{datum}} \\u0041\n東京",
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
    monkeypatch.setattr(html, "figure", lambda name, found, caption, **options: f'<figure class="{name}"></figure>')


def test_page_is_whole_and_in_order(audit: SimpleNamespace) -> None:
    text = html.render(audit)
    page = assert_safe_and_offline(text)
    assert sections(text) == [
        "The environments: disease by hospital",
        "Who disagrees with whom",
        "If one environment&#x27;s relation held in another",
        "Features that drive it",
        "Influence of each environment on the head",
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
        "If Long Beach's relation held in Cleveland, mean disease would be 18 points lower (95 %: 14–22)",
        "Of 12 pairs, 4 hardly and 4 only weakly overlap",
        "Cannot tell: differences that cancel in the mean.",
        "score test p ≤ 0.001",
        "Cannot tell: invariance: see the manual.",
        "Worst case: needs a torch model.",
        "Two rows occur twice.",
        "scikit-learn 1.9.0",
        "Expected calibration error",
    ):
        assert expected in page.words, expected


def test_charts_are_drawn_in_both_widths_with_a_label_and_the_page_s_colours(audit: SimpleNamespace) -> None:
    text = html.render(audit)
    drawn = re.findall(r'<div class="(wide|narrow)"><svg role="img" aria-label="([^"]+)"', text)
    assert [width for width, _ in drawn] == ["wide", "narrow"] * 5
    assert all(label for _, label in drawn)
    assert "var(--over, " in text
    assert "var(--heat-3, " in text
    assert "var(--tilt-0, " in text
    assert "var(--cover-4, " in text
    assert not re.search(r'(?:fill|stroke)="#0[0-9a-f]0', text), "a stand-in colour was left"
    assert 'id="' not in text  # identifiers of two drawings would clash


@pytest.mark.parametrize(
    "state", ["NOT INVARIANT", "INVARIANT", "DIFFERENT BUT NEGLIGIBLE", "CANNOT TELL YET", "UNINFORMATIVE"]
)
def test_every_state_has_its_banner(build_audit: Build, state: str) -> None:
    text = html.fragment(build_audit(state=state))
    kind = state.lower().replace(" ", "-")
    assert f'<div class="banner {kind}">' in text
    assert f".invariscope .{kind} {{ --state:" in text
    assert re.search(rf'<div class="state">\S {state}</div>', text)


@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize("missing", [*([name] for name in RESULTS), RESULTS[:3], RESULTS])
def test_page_stands_without_results(build_audit: Build, missing: list[str]) -> None:
    text = html.render(build_audit(without=missing))
    page = assert_safe_and_offline(text)
    assert ("Who disagrees with whom" in page.words) == ("regret" not in missing)
    assert ("relation held in another" in page.words) == ("transport_gap" not in missing)
    assert ("Influence of each environment" in page.words) == ("influence_index" not in missing)
    assert page.words.count("was not asked for.") == len(missing)
    assert "Switzerland" in page.words
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page.words)


def test_missing_numbers_show_a_dash_and_the_reason(build_audit: Build) -> None:
    audit = build_audit(regrets=[(0.1, 0.05, 0.2), (math.nan,) * 3, (0.3, math.nan, math.nan), (0.1, 0.0, 0.2)])
    regret = dataclasses.replace(audit.results["regret"], notes=("Hungary: its own head could not be fitted.",))
    regret.pairs[1] = np.nan
    regret.own_loss[1] = regret.shared_loss[1] = np.nan
    audit.results["regret"] = regret
    page = assert_safe_and_offline(html.render(audit))
    row = re.search(r"Hungary 294 (\S+) (\S+) (\S+)", page.words)
    assert row is not None
    assert row.groups() == ("–", "–", "–")
    assert "– Hungary: its own head could not be fitted." in page.words
    assert not re.search(r"\bnan\b", page.words)


def test_users_text_is_only_text(build_audit: Build) -> None:
    audit = build_audit(labels=NASTY, columns=[*NASTY, "", "\x00", "\ud800", *map(str, range(12))])
    audit.data.env_name = audit.data.target_name = "<b>name</b>"
    audit.headline = "<i>headline</i>"
    audit.notes = ("<u>note</u>",)
    audit.left_out = {"<s>name</s>": "<s>reason</s>"}
    audit.settings.versions = {"<em>": "<em>"}
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
def test_every_cell_says_what_it_is(audit: SimpleNamespace, width: str) -> None:
    text = html.render(audit)
    gaps, overlaps = cells(text, "gaps", width), cells(text, "overlaps", width)
    assert len(gaps) == len(overlaps) == 16
    assert gaps["Cleveland with the relation of Long Beach: −18 points (95 %: −22 … −14), p = 0.004"] == "tilt-0"
    assert gaps["Switzerland with the relation of Cleveland: +12 points (95 %: +8 … +16), p = 0.004"] == "tilt-6"
    assert gaps["Hungary with the relation of Cleveland: +6 points (95 %: +2 … +10), p = 0.30"] == "tilt-4"
    refused = "Cleveland with the relation of Hungary: not compared, none overlap, 12 of 294 rows effective"
    assert gaps[refused] == ""
    assert overlaps["Rows of Switzerland, weighted to look like Cleveland: weak overlap, 31 of 123 rows effective"] == (
        "cover-1"
    )


def test_sure_gaps_are_bold_with_an_asterisk_and_refused_ones_dashed(audit: SimpleNamespace) -> None:
    text = html.render(audit)
    drawn = text[text.index('<figure class="gaps">') : text.index('<div class="narrow">', text.index('"gaps"'))]
    bold = re.findall(r'<text[^>]*font-weight="bold"[^>]*>([^<]*)</text>', drawn)
    assert sorted(bold) == sorted(["−12*", "−18*", "−12*", "+12*", "+12*"])
    assert re.findall(r'<text[^>]*font-weight="normal"[^>]*>(\+6)</text>', drawn) == ["+6"] * 3
    assert drawn.count("stroke-dasharray") == drawn.count(">no overlap</text>") == 4


def test_all_pairs_are_in_a_table_with_their_intervals(audit: SimpleNamespace) -> None:
    text = html.render(audit)
    details = re.search(r"<details>(.*?)</details>", text, re.S)
    assert details is not None
    rows = [Page(row).words for row in re.findall(r"<tr>.*?</tr>", details.group(1), re.S)]
    assert len(rows) == 13
    assert rows[1] == "Cleveland Long Beach −18* −22 … −14 0.004 162 of 200, good 100 % 0.97 8 % 1.3 %"
    assert rows[-1] == "Long Beach Cleveland – – – 12 of 303, none 100 % 0.97 8 % 1.3 %"


def test_more_environments_than_stand_side_by_side(build_audit: Build) -> None:
    assert '<div class="pair">' in html.render(build_audit(labels=range(6)))
    assert '<div class="pair stacked">' in html.render(build_audit(labels=range(7)))


def test_the_reason_of_a_refusal_is_given_where_there_is_one(audit: SimpleNamespace) -> None:
    reason = (
        "Dashed: refused, under 5 % of the rows effective (and not 500), or fewer than 20, or over 10 % of the "
        "environment at the left beyond their reach."
    )
    assert reason in Page(html.render(audit)).words
    result = audit.results["transport_gap"]
    whole = np.where(np.isnan(result.pairs), 0.0, result.pairs)
    audit.results["transport_gap"] = dataclasses.replace(result, pairs=whole)
    assert reason not in Page(html.render(audit)).words


def test_names_that_read_the_same_stay_apart(build_audit: Build) -> None:
    text = html.render(build_audit(labels=["a", "a ", "a\n", "b"], columns=["c", "c ", "d"]))
    words = assert_safe_and_offline(text).words
    assert "a (2)" in words
    assert "c (2)" in words


def test_fifty_environments(build_audit: Build) -> None:
    text = html.render(build_audit(labels=[f"site {k}" for k in range(50)]))
    page = assert_safe_and_offline(text)
    table = text[text.index('class="environments"') : text.index("Who disagrees")]
    assert table.count('<tr><th scope="row" class="name" title="site ') == 50
    assert "The 12 most extreme of 2,450 pairs." in page.words
    assert "12 of 2,450 pairs: sure ones (*) first, larger gaps first." in page.words
    assert len(re.findall(r'<div class="wide">', text)) == 2  # no matrix
    assert len(text) < 400_000


@pytest.mark.usefixtures("without_drawing")
def test_more_environments_than_a_page_holds(build_audit: Build) -> None:
    audit = build_audit(labels=range(100), without=["influence_index"])
    page = assert_safe_and_offline(html.render(audit))
    assert "40 more environments are not shown" in page.words


def test_two_environments_one_column(build_audit: Build) -> None:
    page = assert_safe_and_offline(html.render(build_audit(labels=[0, 1], columns=["prediction"])))
    assert "One column, prediction, carries all of it" in page.words


def test_cut_intervals_end_in_an_arrow(build_audit: Build) -> None:
    whole = html.fragment(build_audit())
    cut = html.fragment(build_audit(regrets=[(0.1, -5.0, 40.0), (0.02, 0, 0.05)]))
    assert whole.count("<path d=") == 0
    assert cut.count("<path d=") == 4  # both ends of two environments of four


def test_bars_stand_on_a_common_axis(audit: SimpleNamespace) -> None:
    text = html.fragment(audit)
    margins = set(re.findall(r'<line class="margin" x1="([\d.]+)%"', text))
    dots = [float(x) for x in re.findall(r'<circle class="\w+" cx="([\d.]+)%"', text)]
    assert len(margins) == 1
    # 0 … 60 % is drawn from 4 to 96 % of the width; worst first
    assert dots == pytest.approx([4 + 92 * r / 0.6 for r in (0.38, 0.152, 0.064, 0.021)], abs=0.01)
    assert float(margins.pop()) == pytest.approx(4 + 92 * 0.02 / 0.6, abs=0.01)


def test_fragment_is_scoped(audit: SimpleNamespace) -> None:
    text = html.fragment(audit)
    page = assert_safe_and_offline(text)
    assert page.tags[0] == "div"
    assert not {"html", "body", "head"} & set(page.tags)
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style is not None
    rules = re.sub(r"@(?:media|container)[^{]*\{", "", style.group(1))
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", rules) for part in rule.split(",")]
    assert selectors
    assert [s for s in selectors if not s.startswith(".invariscope")] == []
    assert audit.headline in page.words


def test_write_leaves_only_the_page(audit: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    path.write_text("older page")
    assert html.write(audit, path) == path
    assert path.read_text(encoding="utf-8") == html.render(audit)
    assert os.listdir(tmp_path) == ["audit.html"]


def test_failed_write_keeps_the_older_page(
    audit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.html"
    path.write_text("older page")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        html.write(audit, path)
    assert path.read_text() == "older page"
    assert os.listdir(tmp_path) == ["audit.html"]


def test_same_audit_same_page(build_audit: Build) -> None:
    assert html.render(build_audit()) == html.render(build_audit())
