"""What all data sets with a known law share: seeds, streams, test rows, and the rows they have always had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from invariscope.datasets.synthetic.bayesian_network import bayesian_network, two_domain_example
from invariscope.datasets.synthetic.linear_sem import linear_sem, linear_sem_b6
from invariscope.datasets.synthetic.nonlinear_sem import nonlinear_sem
from invariscope.datasets.synthetic.nulls import null_same_law, null_shifted
from invariscope.datasets.synthetic.overlap import overlap_dial
from invariscope.datasets.synthetic.synthetic import Synthetic, designed, row_counts
from invariscope.errors import InputError
from invariscope.reading.dataset import Dataset
from invariscope.rows.environments import Environments

WITH_TEST_ROWS: dict[str, Callable[..., Synthetic]] = {
    "linear_sem": lambda **options: linear_sem("PEU", **options),
    "linear_sem_b6": linear_sem_b6,
    "nonlinear_sem": lambda n_test=0, **options: nonlinear_sem("POU", n_test=n_test, **options),
    "bayesian_network": lambda **options: bayesian_network(
        weights="random", component=0, environments=(0.2, 0.7, 1.2), **options
    ),
}
OF_THREE: dict[str, Callable[..., Synthetic]] = {
    **WITH_TEST_ROWS,
    "null_same_law": lambda **options: null_same_law(task="multiclass", **options),
    "null_shifted": null_shifted,
}
OF_TWO: dict[str, Callable[..., Synthetic]] = {
    "two_domain_example": two_domain_example,
    "overlap_dial": overlap_dial,
    "overlap_dial, normal": lambda **options: overlap_dial(law="normal", **options),
}
MAKERS = {**OF_THREE, **OF_TWO}


@pytest.mark.parametrize("name", MAKERS)
def test_same_seed_same_rows(name, seed):
    first, again, other = (MAKERS[name](n=20, seed=s) for s in (seed, seed, seed + 1))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    np.testing.assert_array_equal(first.env, again.env)
    assert not np.any(first.X == other.X)


@pytest.mark.parametrize("name", MAKERS)
def test_environments_have_streams_of_their_own(name, seed):
    sizes = [(10, 10, 10), (10, 99, 10)] if name in OF_THREE else [(10, 10), (10, 99)]
    few, many = (MAKERS[name](n=n, seed=seed) for n in sizes)
    labels = list(dict.fromkeys(few.env.tolist()))
    for label in (labels[0], labels[2]) if name in OF_THREE else labels[:1]:
        np.testing.assert_array_equal(few.X[few.env == label], many.X[many.env == label])
        np.testing.assert_array_equal(few.y[few.env == label], many.y[many.env == label])
    assert not np.any(few.X[few.env == labels[0]] == few.X[few.env == labels[1]])


@pytest.mark.parametrize("name", WITH_TEST_ROWS)
def test_test_rows_leave_training_rows_alone(name, seed):
    plain, split = WITH_TEST_ROWS[name](n=20, seed=seed), WITH_TEST_ROWS[name](n=20, n_test=(3, 4, 5), seed=seed)
    assert plain.part is None
    np.testing.assert_array_equal(split.train.X, plain.X)
    np.testing.assert_array_equal(split.train.y, plain.y)
    labels = list(dict.fromkeys(plain.env.tolist()))
    assert split.test.env.tolist() == [labels[0]] * 3 + [labels[1]] * 4 + [labels[2]] * 5
    assert not np.isin(split.test.X, split.train.X).any()
    more = WITH_TEST_ROWS[name](n=33, n_test=(3, 4, 5), seed=seed)
    np.testing.assert_array_equal(more.test.X, split.test.X)
    np.testing.assert_array_equal(more.test.y, split.test.y)
    with pytest.raises(InputError, match="without a split"):
        plain.test  # noqa: B018


@pytest.mark.parametrize("name", MAKERS)
def test_each_is_a_data_set(name, seed):
    data = MAKERS[name](n=30, seed=seed)
    assert isinstance(data, Dataset)
    assert isinstance(data.environments, Environments)
    assert data.X.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.y.flags.c_contiguous
    assert len(data.columns) == data.X.shape[1]
    assert set(data.invariant) <= set(range(data.X.shape[1]))
    assert data.description
    assert data.source.startswith("drawn here")
    some = data.rows(data.env == data.env[0])
    assert isinstance(some, Synthetic)
    assert len(some) == 30
    assert (some.invariant, some.truth) == (data.invariant, data.truth)


@pytest.mark.parametrize(
    ("make", "last_row", "last_target"),
    [
        (
            lambda: linear_sem("PEU", n=2, seed=0),
            [-2.797699, -0.363803, -16.069607, -4.626884, -4.055749],
            -26.909987,
        ),
        (lambda: two_domain_example(n=2, seed=0), [-2.868089, -2.63021], -1.934309),
        (lambda: null_same_law(n=2, d=2, seed=0), [0.671147, -1.880363], -0.451162),
        (lambda: null_shifted(n=2, d=2, seed=0), [0.66057, -1.803409], -1.222478),
    ],
)
def test_rows_of_a_seed_stay_what_they_were(make, last_row, last_target):
    data = make()
    np.testing.assert_allclose(data.X[-1, :5], last_row, atol=1e-6)
    assert data.y[-1] == pytest.approx(last_target, abs=1e-6)


def test_row_counts():
    assert row_counts(np.int64(4), 2) == [4, 4]
    assert row_counts(np.array([4, 5]), 2) == [4, 5]
    assert designed(range(3), 5, 0, n_test=0)[0].test_rows is None
    assert designed(range(3), 5, 0, n_test=np.int64(0))[0].test_rows is None
    assert designed(range(2), 5, 0, n_test=7)[0].test_rows == [7, 7]
    for n, environments in ((0, 2), ((1, 0), 2), ((1, 2, 3), 2), (5, 0)):
        with pytest.raises(InputError, match="positive number of rows"):
            row_counts(n, environments)
