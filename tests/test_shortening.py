"""Shortened names: within their width, never two alike, and what differs is what is shown."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from invariscope import wording
from invariscope.results import Estimate
from invariscope.shortening import LONGEST, abridged, cells, cut, distinct

EDGES = [f"{k / 7:.6f}" for k in range(31)]
BINS = [f"({low}, {high}]" for low, high in itertools.pairwise(EDGES)]
KINDS: dict[str, list[str]] = {
    "bins": BINS,
    "bins of one column": [f"blood pressure (mmHg) in {interval}" for interval in BINS],
    "bins with a common end": [f"(0.123456, 0.{k}]" for k in range(1234500, 1234530)],
    "common beginning": [f"the university hospital of a long name, number {k}" for k in range(30)],
    "common end": [f"ward {k} of the university hospital of a very long name" for k in range(30)],
    "common beginning and end": [f"{'x' * 200}{k:02d}{'y' * 200}" for k in range(30)],
    "two groups": [f"{side} hospital of the same city, unit {k}" for side in ("north", "south") for k in range(15)],
    "apart in two places": [f"{'a' * 60}{i}{'b' * 60}{k}{'c' * 60}" for i in range(6) for k in range(5)],
    "one apart early, two late": [f"{'a' * 60}{'b' * 60}1", f"{'a' * 60}{'b' * 60}2", f"{'a' * 60}{'c' * 60}1"],
    "each the beginning of the next": ["z" * k for k in range(1, 60, 2)],
    "paths": [f"/data/hospital/{k:03d}/export/final_version.csv" for k in range(30)],
    "dates": [f"2024-01-{k:02d}T00:00:00+00:00" for k in range(1, 31)],
    "wide letters": [f"東京都立病院東京都立病院第{k}病棟" for k in range(30)],
    "right to left": [f"בית החולים האוניברסיטאי הגדול מספר {k}" for k in range(30)],
    "emoji": [f"{'🚲' * 30}{k}" for k in range(30)],
    "one is what another becomes": ["station 1, north", "station 2, north", "…1, nor…", "station…"],
    "hostile": ["<script>" * 9, "<script>" * 9 + "1", "&amp;" * 20, "&amp;" * 19, '"' * 50, '"' * 51, "]]>" * 30],
    "ten thousand letters": ["m" * 10_000, "m" * 9_999, "m" * 5_000 + "n" * 5_000],
}
#: Those that differ in several places, or in nothing but their length.
NUMBERED = ("apart in two places", "each the beginning of the next", "hostile", "ten thousand letters")


@pytest.mark.parametrize("limit", [8, 12, 24, 26, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_names_stay_apart_and_within_their_width(kind: str, limit: int) -> None:
    shown = distinct(KINDS[kind], limit)
    assert len(set(shown)) == len(KINDS[kind])
    assert max(map(cells, shown)) <= limit


@pytest.mark.parametrize("limit", [12, 24, 60])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NUMBERED])
def test_they_differ_by_what_differs_and_not_by_a_number(kind: str, limit: int) -> None:
    assert not [text for text in distinct(KINDS[kind], limit) if text.endswith(")") and "(" in text[-5:]]


def test_what_fits_stays_as_it_is() -> None:
    names = ("Bern", "Oslo", "東京", "a name of 24 letters here")
    assert distinct(names, 25) == names
    assert distinct((), 12) == ()


@pytest.mark.parametrize(
    ("names", "limit", "shown"),
    [
        (["(0.123456, 0.234567]", "(0.234567, 0.345678]"], 12, ["(0.123456,…", "(0.234567,…"]),
        (["(0.123456, 0.234567]", "(0.123456, 0.345678]"], 12, ["(0.…0.23456…", "(0.…0.34567…"]),
        (["age in (30.0, 40.0]", "age in (40.0, 50.0]"], 12, ["age in (30.…", "age in (40.…"]),
        (["site_north_0001", "site_north_0002"], 12, ["sit…0001", "sit…0002"]),
        (["education=Bachelors", "education=Bachelor of Arts"], 20, ["education=Bachelors", "education=Bachelor…"]),
        (
            ["the hospital of a long name, number 1", "the hospital of a long name, number 2"],
            20,
            ["the…number 1", "the…number 2"],
        ),
        (  # of several seams before the letter that differs, the last: what they have in common is left out
            [f"hospital in the old town {side} wing, first floor" for side in ("northern", "southern")],
            24,
            ["hospit…northern wing, f…", "hospit…southern wing, f…"],
        ),
    ],
)
def test_numbers_and_words_are_not_cut_where_they_need_not_be(names: list[str], limit: int, shown: list[str]) -> None:
    assert list(distinct(names, limit)) == shown


def test_letters_of_east_asia_are_two_wide() -> None:
    assert [cells(text) for text in ("Tokyo", "東京", "東京 2", "ｆｏ", "")] == [5, 4, 6, 4, 0]
    assert [cut("東京都立病院", limit) for limit in (5, 6, 7, 12)] == ["東京…", "東京…", "東京都…", "東京都立病院"]


def test_one_name_is_cut_as_everywhere() -> None:
    for text in ("a very long name of a hospital", "x" * 40, "short", "東京" * 10):
        assert cut(text, 12) == distinct([text], 12)[0]
        assert cells(cut(text, 12)) <= 12
    assert cut("a very long name of a hospital", 12) == wording.short("a very long name of a hospital", 12)


def test_sixteen_thousand_columns_take_a_moment() -> None:
    names = [f"the measurement of the sensor of the machine, number {k}" for k in range(16_000)]
    assert len(set(distinct(names, 30))) == 16_000


def test_names_too_long_to_be_read_are_shortened_wherever_they_stand() -> None:
    one, other = "ward " + "x" * 999 + " north", "ward " + "x" * 999 + " south"
    record = {one: (Estimate(1.0), [other, 3]), "said": f"{one} pays, {other} does not", "Bern": np.arange(2)}
    found = abridged(record, [one, other, "Bern", 3])
    first, second = distinct([one, other, "Bern"], LONGEST)[:2]
    assert first != second
    assert max(len(first), len(second)) <= LONGEST
    assert found[first] == (Estimate(1.0), [second, 3])
    assert found["said"] == f"{first} pays, {second} does not"
    assert found["Bern"] is record["Bern"]
    assert one in record  # the user's own stay as they are
    assert abridged(record, ["Bern", "x" * LONGEST]) is record
    part = {"whole": f"{one} and {one} two"}  # one name is the beginning of another
    assert abridged(part, [one, f"{one} two"])["whole"].count("…") == 2
