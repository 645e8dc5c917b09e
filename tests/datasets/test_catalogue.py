"""The catalogue: every data set is listed, loads, and agrees with what was published on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invariscope import datasets
from invariscope.datasets.catalogue import Compared, compare, entries, entry
from invariscope.datasets.entry import Entry, Published, facts
from invariscope.errors import InputError
from invariscope.reading.dataset import Dataset

ENTRIES = list(entries().values())
REAL = [one for one in ENTRIES if one.files]


def loaded(chosen: list[Entry]) -> list[Any]:
    """Entries for tests that load them: images by the ten thousand are for slow tests."""
    return [pytest.param(one, marks=[pytest.mark.slow] * (one.kind == "images"), id=one.name) for one in chosen]


@pytest.fixture
def at_hand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A data set whose files, if it has any, are in the data folder; skipped where they are not."""
    chosen: Entry = request.param
    for file in chosen.files:
        data_file: Callable[[str], Path] = request.getfixturevalue("data_file")
        found = data_file(file.path)
        monkeypatch.setenv("INVARISCOPE_DATA", str(found.parents[len(Path(file.path).parts) - 1]))
    return chosen


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: one.name)
def test_entries_are_complete(one: Entry) -> None:
    assert getattr(datasets, one.name) is one.load
    assert one.kind in ("table", "images", "synthetic")
    assert one.title
    assert not one.title.endswith(".")
    assert len(one.title) <= 80
    if one.kind != "synthetic":
        assert one.reference
        assert one.licence
        assert one.published
    for file in one.files:
        assert len(file.sha256) == 64
        assert file.size > 0


def test_every_function_that_makes_a_data_set_is_listed() -> None:
    functions = {name for name in datasets.__all__ if name[0].islower()}
    assert functions - set(entries()) == {"ladder", "image_folder"}  # these work on what the user brings


@pytest.mark.parametrize("at_hand", loaded(ENTRIES), indirect=True)
def test_loads_as_described(at_hand: Entry) -> None:
    data = at_hand.load()
    assert isinstance(data, Dataset)
    assert len(data.columns) == np.shape(data.X)[1]
    assert len(data) == len(data.y) == len(data.env)
    assert data.description
    assert np.isfinite(np.asarray(data.X)).all()
    if np.ndim(data.y) == 1:
        assert data.environments.columns == data.columns


@pytest.mark.parametrize("at_hand", loaded(REAL), indirect=True)
def test_agrees_with_what_was_published(at_hand: Entry) -> None:
    different = {(at_hand.name, found.published.what): found.here for found in compare(at_hand) if not found.agrees}
    # of the 18 columns the paper counts, one is the target and one the environment
    assert different == ({("law_school", "features"): 16} if at_hand.name == "law_school" else {})


def test_agreement_is_judged_at_the_published_decimals() -> None:
    assert Compared(Published("share of 1", 0.239, "a paper"), 0.23928).agrees
    assert not Compared(Published("share of 1", 0.24, "a paper"), 0.2451).agrees
    assert not Compared(Published("rows", 100, "a paper"), 101).agrees


def test_facts_count_rows_parts_and_classes() -> None:
    data = Dataset(
        X=np.zeros((5, 3)),
        y=np.array(["no", "yes", "no", "no", "yes"]),
        env=np.array([1, 1, 2, 2, 2]),
        columns=("a", "b", "c"),
        description="five rows",
        part=np.array(["train", "test", "train", "test", "test"]),
    )
    assert facts(data) == {
        "rows": 5,
        "features": 3,
        "training rows": 2,
        "test rows": 3,
        "environments": 2,
        "rows in 1": 2,
        "rows in 2": 3,
        "share of no": 0.6,
        "share of yes": 0.4,
        "rows of no in 1": 1,
        "rows of no in 2": 2,
        "rows of yes in 1": 1,
        "rows of yes in 2": 1,
    }


def test_numbers_have_no_classes() -> None:
    data = Dataset(X=np.zeros((2, 1)), y=np.zeros(2), env=np.arange(2), columns=("a",), description="two rows")
    assert not [name for name in facts(data) if "of" in name]


def test_unknown_names_are_answered_with_the_closest() -> None:
    with pytest.raises(InputError, match=r'no data set "colored-minst": did you mean colored_mnist'):
        entry("colored-minst")
    with pytest.raises(InputError, match=r'no data set "xyzzy": there are bike_sharing, adult'):
        entry("xyzzy")


def test_the_page_on_data_sets_names_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
    for name in (*entries(), "image_folder", "ladder"):
        assert f"`{name}(" in page, name
