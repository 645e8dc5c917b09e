"""What every data set can do: unpack, split, group, and stand in one table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.datasets import Dataset
from invariscope.errors import InputError


def four_rows(**changes: object) -> Dataset:
    fields: dict[str, object] = {
        "X": pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.0, 1.0, 0.0, 1.0]}, index=[7, 8, 9, 10]),
        "y": pd.Series([0.5, 1.5, 2.5, 3.5], name="dose", index=[7, 8, 9, 10]),
        "env": pd.Series(["Oslo", "Bern", "Oslo", "Bern"], name="site", index=[7, 8, 9, 10]),
        "columns": ("a", "b"),
        "description": "four rows",
        "part": np.array(["train", "test", "test", "train"]),
        "target_name": "dose",
        "env_name": "site",
    }
    return Dataset(**(fields | changes))  # type: ignore[arg-type]


def test_unpacks_into_what_functions_take() -> None:
    data = four_rows()
    X, y, env = data
    assert X is data.X
    assert y is data.y
    assert env is data.env
    assert len(data) == 4
    assert iv.Environments(*data).target_name == "dose"


def test_the_split_gives_each_row_to_one_part_in_its_order() -> None:
    data = four_rows()
    assert data.train.X.to_dict("list") == {"a": [1.0, 4.0], "b": [0.0, 1.0]}
    assert data.test.y.tolist() == [1.5, 2.5]
    assert data.test.env.tolist() == ["Bern", "Oslo"]
    assert data.test.X.index.tolist() == [0, 1]
    assert data.train.part is None
    assert type(data.train) is Dataset


def test_rows_by_mask_and_by_position_of_tables_and_arrays() -> None:
    mask = np.array([False, True, True, False])
    for data in (four_rows(), four_rows(X=np.arange(8.0).reshape(4, 2), y=np.arange(4), env=np.array(list("abab")))):
        by_mask, by_position = data.rows(mask), data.rows(np.array([1, 2]))
        for one, other in zip(by_mask, by_position, strict=True):
            np.testing.assert_array_equal(one, other)
        assert by_mask.part is not None
        assert by_mask.part.tolist() == ["test", "test"]
        np.testing.assert_array_equal(by_mask.y, np.asarray(data.y)[1:3])


def test_no_split_no_parts() -> None:
    with pytest.raises(InputError, match=r"without a split: there is no \.test"):
        four_rows(part=None).test  # noqa: B018


def test_environments_carry_all_names() -> None:
    grouped = four_rows(X=np.arange(8.0).reshape(4, 2), y=np.arange(4.0), env=np.array([5, 2, 5, 2])).environments
    assert (grouped.columns, grouped.target_name, grouped.env_name) == (("a", "b"), "dose", "site")
    assert grouped.labels == (2, 5)
    assert grouped[2].X[:, 0].tolist() == [2.0, 6.0]


def test_frame_has_everything_once() -> None:
    assert four_rows().frame.columns.tolist() == ["a", "b", "dose", "site"]
    assert four_rows().frame["site"].tolist() == ["Oslo", "Bern", "Oslo", "Bern"]
    arrays = four_rows(X=np.arange(8.0).reshape(4, 2), y=np.arange(8.0).reshape(4, 2), env=np.array(list("abab")))
    assert arrays.frame.columns.tolist() == ["a", "b", "dose 1", "dose 2", "site"]
    assert arrays.frame["dose 2"].tolist() == [1.0, 3.0, 5.0, 7.0]


def test_an_environment_that_is_a_feature_too_keeps_both() -> None:
    data = four_rows(env_name="b", env=pd.Series(["no", "yes", "no", "yes"]))
    assert data.frame["b"].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert data.frame["b (label)"].tolist() == ["no", "yes", "no", "yes"]


def test_making_a_frame_leaves_the_data_alone() -> None:
    data = four_rows()
    frame = data.frame
    frame["a"] = 0.0
    assert data.X["a"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_arrays_unpack_with_their_names() -> None:
    pixels = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    data = four_rows(X=pixels, y=np.arange(4.0), env=np.array(list("abab")))
    X, y, env = data
    assert (X.columns.tolist(), y.name, env.name) == (["a", "b"], "dose", "site")
    assert np.shares_memory(X.to_numpy(), pixels)
    grouped = iv.Environments(*data)
    assert (grouped.columns, grouped.target_name, grouped.env_name) == (("a", "b"), "dose", "site")
    assert grouped.X.dtype == np.float32


def test_one_look_says_what_it_is() -> None:
    lines = repr(four_rows()).splitlines()
    assert lines == ["<Dataset 4 rows x 2 features; dose by site (2); 2 train, 2 test>", "four rows"]
    assert repr(iv.datasets.linear_sem(n=10)).startswith("<Synthetic 30 rows x 10 features; target by environment (3)>")
    assert repr(iv.datasets.colored_digits(n=10)).startswith(
        "<Images 30 rows x 128 features; label by environment (3)>"
    )


def test_several_targets_are_no_target() -> None:
    with pytest.raises(InputError, match=r"target has 5 columns, .*bayesian_network\(component=0\)"):
        iv.datasets.bayesian_network(n=10).environments  # noqa: B018
