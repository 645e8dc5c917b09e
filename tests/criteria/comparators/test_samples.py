"""The columns in which environments are compared."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.comparators.samples import sample_of
from invariscope.errors import InputError

Z = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 10.0], [7.0, 10.0]])
ENV = ["b", "a", "b", "a"]


def test_columns_are_in_units_of_their_spread_over_all_rows_that_count():
    sample = sample_of(Z, None, ENV, weight=[1, 1, 1, 1])
    assert sample.z[:, 0].tolist() == pytest.approx([-1 / 5**0.5, 3 / 5**0.5, -3 / 5**0.5, 1 / 5**0.5])  # a, a, b, b
    assert sample.z[:, 1].tolist() == [0.0] * 4
    doubled = sample_of(Z, None, ENV, weight=[2, 1, 1, 1])
    again = sample_of(Z[[0, 0, 1, 2, 3]], None, [ENV[i] for i in (0, 0, 1, 2, 3)])
    assert doubled.z[2] == pytest.approx(again.z[2])


def test_the_target_takes_part_where_it_is_given_and_asked_for():
    assert sample_of(Z, None, ENV).compared == "z"
    assert sample_of(Z, [0, 1, 1, 0], ENV, on="z").y.shape == (4, 0)
    classes = sample_of(Z, ["x", "y", "y", "x"], ENV)
    assert (classes.compared, classes.y.tolist()) == ("(z, y)", [[-1, 1], [1, -1], [1, -1], [-1, 1]])
    assert sample_of(Z, [0.5, 1.5, 2.25, 9.0], ENV).y.shape == (4, 1)


def test_what_cannot_be_compared_is_told():
    with pytest.raises(InputError, match='on is "both": use "z"'):
        sample_of(Z, None, ENV, on="both")
    with pytest.raises(InputError, match='pass y, or on="z"'):
        sample_of(Z, None, ENV, on="zy")
