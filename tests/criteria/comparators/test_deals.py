"""Rows dealt to environments at random."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.comparators.deals import Deals
from invariscope.criteria.comparators.samples import sample_of

RNG = np.random.default_rng(5)
Z = RNG.normal(size=(9, 2))
ENV = np.array(list("aaabbbbcc"))
TIMES = np.array([1, 2, 1, 3, 1, 1, 2, 1, 1])


def dealt(Z, env, weight=None, draws=40, among=None):
    """What lands where: the sum of the first column in every environment, draw by draw."""
    sample = sample_of(Z, None, env, weight, scale="none")
    deals = Deals.of(sample, among)
    masses = deals.masses(deals.draw(np.random.default_rng(1), draws))
    return masses, masses @ sample.columns[:, 0]


def test_every_environment_keeps_as_many_rows_and_every_row_is_dealt_once():
    masses, _ = dealt(Z, ENV)
    assert np.array_equal(masses.sum(axis=2), np.tile([3, 4, 2], (40, 1)))
    assert (masses.sum(axis=1) == 1).all()


def test_draws_do_not_depend_on_row_order_or_names():
    _, sums = dealt(Z, ENV)
    shuffle = RNG.permutation(9)
    assert np.allclose(dealt(Z[shuffle], ENV[shuffle])[1], sums)
    renamed = np.array([{"a": "z", "b": "k", "c": "d"}[label] for label in ENV])  # sorted c, b, a
    assert np.allclose(dealt(Z, renamed)[1][:, ::-1], sums)


def test_whole_weights_are_repeated_rows():
    _, sums = dealt(Z, ENV, TIMES)
    assert np.allclose(dealt(np.repeat(Z, TIMES, axis=0), np.repeat(ENV, TIMES))[1], sums)


def test_rows_of_weight_nothing_are_not_there():
    weight = np.r_[0, np.ones(8)]
    masses, sums = dealt(Z, ENV, weight)
    assert not masses[:, :, 0].any()
    kept = Z[1:] - Z[1:].mean(axis=0)
    assert np.allclose(dealt(kept, ENV[1:])[1], sums)


def test_a_row_of_broken_weight_takes_it_along():
    weight = np.linspace(0.5, 1.5, 9)
    masses, _ = dealt(Z, ENV, weight)
    assert masses.sum(axis=1) == pytest.approx(np.tile(weight, (40, 1)))
    assert np.array_equal((masses > 0).sum(axis=2), np.tile([3, 4, 2], (40, 1)))


def test_only_rows_of_a_pair_change_places():
    masses, _ = dealt(Z, ENV, among=(0, 2))
    assert not masses[:, :, 3:7].any()
    assert np.array_equal(masses.sum(axis=2), np.tile([3, 0, 2], (40, 1)))
    assert len(np.unique(masses[:, 0], axis=0)) > 5


def test_every_deal_is_as_likely_as_any_other():
    masses, _ = dealt(Z[:5], list("aabbb"), draws=4000)
    _, counts = np.unique(masses[:, 0], axis=0, return_counts=True)
    assert len(counts) == 10
    assert counts == pytest.approx([400] * 10, abs=4 * 4000**0.5 * 0.3)


def test_what_was_observed_is_one_of_the_deals():
    sample = sample_of(Z, None, ENV)
    deals = Deals.of(sample)
    masses = deals.masses(deals.observed[None])[0]
    assert np.array_equal(np.argmax(masses, axis=0), sample.data.codes)
