"""Labels: the same codes on the quick way and on the slow one, and what is no label is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import invariscope as iv
from invariscope.errors import InputError
from invariscope.rows import coded as coding
from invariscope.rows.coded import coded, of_texts
from invariscope.rows.labels import read_alike, unique_labels
from invariscope.rows.tables import column_of_labels, vector_of

MANY = coding.MANY_ROWS + 7
TEXTS = ["b", "a", "", "é", "Z", "a\ud800", "aa", "b\x00", "b", "日本", " a"]


def objects(values: list[Any]) -> Any:
    return np.fromiter(values, dtype=object, count=len(values))


def test_many_texts_have_the_labels_and_codes_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    values = objects([TEXTS[k] for k in np.random.default_rng(0).integers(0, len(TEXTS), MANY)])
    quick = unique_labels(values, "env")
    assert of_texts(values) is not None
    monkeypatch.setattr(coding, "MANY_ROWS", 10**9)
    slow = unique_labels(values, "env")
    assert quick[0] == slow[0] == tuple(sorted(set(TEXTS)))
    assert {type(label) for label in quick[0]} == {str}
    assert quick[1].dtype == slow[1].dtype
    np.testing.assert_array_equal(quick[1], slow[1])


@pytest.mark.parametrize("odd", [1, 2.5, True, ("a",), None, float("nan"), pd.NaT, np.str_("b")], ids=repr)
def test_one_label_that_is_no_text_is_noticed_among_many(odd: Any) -> None:
    values = objects(["a"] * (MANY - 1) + [odd])
    if odd is None or odd != odd:
        with pytest.raises(InputError, match=f'^"env" is missing in 1 of {MANY} rows: drop them or give them a label$'):
            unique_labels(values, "env")
    else:
        found, codes = unique_labels(values, "env")
        assert len(found) == 2
        assert odd in found
        assert found[codes[-1]] == odd


@pytest.mark.parametrize("make", ["list", "object", "string", "category", "dictionary", "chunks"])
def test_all_makes_of_many_texts_give_the_same(make: str) -> None:
    texts = [("north", "south", "east")[k % 3] for k in range(MANY)]
    given = {
        "list": lambda: texts,
        "object": lambda: objects(texts),
        "string": lambda: pd.Series(texts, dtype="string"),
        "category": lambda: pd.Series(texts, dtype="category"),
        "dictionary": lambda: pa.array(texts).dictionary_encode(),
        "chunks": lambda: pa.chunked_array([texts[:10], texts[10:]]),
    }[make]()
    for column in (column_of_labels(given, "env")[0], vector_of(given, "y")[0]):
        found, codes = unique_labels(column, "env")
        assert found == ("east", "north", "south")
        assert codes[:3].tolist() == [1, 2, 0]


@pytest.mark.parametrize("rows", [60, MANY])
@pytest.mark.parametrize("odd", [[1], {"a": 1}, {1}, np.array([1, 2])], ids=lambda value: type(value).__name__)
def test_what_cannot_be_compared_is_no_label(odd: Any, rows: int) -> None:
    values = objects([odd if k % 2 else "b" for k in range(rows)])
    kind = type(odd).__name__
    with pytest.raises(InputError, match=rf'^"env" holds a {kind} \(.*\) in place of a label: give texts or numbers'):
        unique_labels(values, "env")
    assert len(unique_labels(objects([str(value) for value in values]), "env")[0]) == 2


def test_labels_that_count_as_one_but_are_two_are_refused() -> None:
    values = objects([1, True, 2] * 4)
    with pytest.raises(InputError, match=r'^"env" holds both 1 and True, which count as one value: write one of'):
        unique_labels(values, "env")
    assert unique_labels(objects([str(value) for value in values]), "env")[0] == ("1", "2", "True")
    assert unique_labels(objects([1, 1.0, 2, False] * 3), "env")[0] == (False, 1, 2)


def test_labels_that_read_alike_stay_apart_and_are_said() -> None:
    env, rng = objects([1, "1", 2] * 40), np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), rng.normal(size=120)
    note = "\"environment\" has labels that read alike but differ: 1 (int) and '1' (str). They count as two."
    data = iv.Environments(X, y, env)
    assert (data.labels, data.notes) == ((1, 2, "1"), (note,))
    assert data.with_matrix(X + 1).notes == data.with_weight(np.ones(120)).notes == (note,)
    assert note in iv.regret(data, n_boot=0).notes
    audit = iv.audit(None, X, y, env, n_boot=0, criteria="risk_variance")
    assert audit.notes[0] == note
    assert note not in audit["regret"].notes
    classes = objects(["1", 1] * 60)
    assert iv.calibration_variance(np.full(120, 0.5), classes, ["a", "b", "c"] * 40).notes[0] == note.replace(
        "environment", "target"
    )
    assert read_alike((1, 2, "3"), "env") == ()


def test_lone_surrogates_are_labels_like_others(tmp_path: Any) -> None:
    env, rng = ["a\ud800", "b"] * 60, np.random.default_rng(0)
    audit = iv.audit(None, rng.normal(size=(120, 2)), rng.normal(size=120), env, n_boot=0, criteria="risk_variance")
    assert audit["regret"].labels == ("a\ud800", "b")
    assert audit.to_html(tmp_path / "a.html").stat().st_size > 0
    assert audit.to_json(tmp_path / "a.json").stat().st_size > 0


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "numpy": np.array,
    "pandas object": lambda texts: pd.Series(objects(texts)),
    "pandas string": lambda texts: pd.Series(texts, dtype="string"),
    "pandas arrow": lambda texts: pd.Series(texts, dtype=pd.ArrowDtype(pa.string())),
    "pandas category": lambda texts: pd.Series(pd.Categorical(texts, categories=["z", "none", "b", "é", "a"])),
    "polars": lambda texts: pl.Series("site", texts),
    "polars category": lambda texts: pl.Series("site", texts, dtype=pl.Categorical),
    "arrow": pa.array,
    "arrow dictionary": lambda texts: pa.array(texts).dictionary_encode(),
    "chunks with dictionaries of their own": lambda texts: pa.chunked_array(
        [pa.array(texts[:7]).dictionary_encode(), pa.array(texts[7:]).dictionary_encode()]
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_column_is_read_row_by_row(kind: str) -> None:
    texts = [("é", "z", "b", "a")[k % 4] for k in range(1, MANY)]
    column, own_name = coded(KINDS[kind](texts)) or (None, None)
    assert column is not None
    assert own_name == ("site" if "polars" in kind else None)
    found, codes = unique_labels(column, "env")
    assert found == ("a", "b", "z", "é")  # without the category that no row has
    assert [type(label) for label in found] == [str] * 4
    assert [found[code] for code in codes] == texts
    data = iv.Environments(np.zeros((len(texts), 1)), KINDS[kind](texts), KINDS[kind](texts))
    assert (data.labels, data.classes) == (found, found)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "numpy"])
def test_labels_that_are_missing_are_counted_in_every_kind_of_column(kind: str) -> None:
    texts = ["a", None, *["b", "a"] * (MANY // 2), None]
    with pytest.raises(InputError, match=f"is missing in 2 of {len(texts)} rows: drop them or give them a label$"):
        iv.Environments(np.zeros((len(texts), 1)), None, KINDS[kind](texts))


def test_categories_of_other_types_keep_their_labels_and_their_refusals() -> None:
    rows = np.zeros((6, 1))
    numbers = pd.Series(pd.Categorical([3, 1, 3, 1, 3, 1], categories=[3, 2, 1]))
    data = iv.Environments(rows, numbers, numbers)
    assert (data.labels, data.classes) == ((1, 3), (1, 3))
    with pytest.raises(InputError, match="is missing in 1 of 6 rows"):
        iv.Environments(rows, None, pd.Series(pd.Categorical([3.0, 1.0, None, 1.0, 3.0, 1.0])))
    mixed = pd.Series(pd.Categorical.from_codes([0, 1, 0, 1, 0, 1], categories=pd.Index(["1", 1], dtype=object)))
    assert {*iv.Environments(rows, None, mixed).labels} == {"1", 1}


def test_what_a_mask_hides_among_many_texts_is_missing() -> None:
    masked = np.ma.array(["a", "b"] * MANY, mask=[True] + [False] * (2 * MANY - 1))
    with pytest.raises(InputError, match=f"is missing in 1 of {2 * MANY} rows"):
        iv.Environments(np.zeros((2 * MANY, 1)), None, masked)
