"""Worlds in which invariance holds: what they promise, and what is refused; their laws are tested on many rows."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.datasets.synthetic.nulls import ENTRIES, null_same_law, null_shifted
from invariscope.errors import InputError


def test_same_law_and_shifted_differ_in_what_they_promise(seed):
    same, shifted = (make(n=10, d=3, environments=3, seed=seed).truth for make in (null_same_law, null_shifted))
    for name in ("mean", "covariance", "noise"):
        assert np.all(same[name] == same[name][0])
        assert np.abs(shifted[name][0] - shifted[name][1]).max() > 0.02
    assert shifted["noise"].tolist() == pytest.approx([0.5, 1.0, 2.0])


@pytest.mark.parametrize("make", [null_same_law, null_shifted])
@pytest.mark.parametrize(("task", "classes"), [("binary", 2), ("classification", 2), ("multiclass", 3)])
def test_every_class_is_common_everywhere(make, task, classes, seed):
    data = make(n=2_000, d=5, environments=4, task=task, seed=seed)
    assert data.y.dtype.kind == "i"
    for label in range(4):
        shares = np.bincount(data.y[data.env == label], minlength=classes) / 2_000
        assert len(shares) == classes
        assert shares.min() > 0.01


def test_entries_load():
    assert [len(entry.load(n=5)) for entry in ENTRIES] == [15, 15]


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (null_same_law, {"task": "ranking"}, '"regression", "binary", "classification" or "multiclass"'),
        (null_same_law, {"d": 0}, "give a whole number from 1"),
        (null_same_law, {"n": (1, 2)}, "each of 3 environments"),
        (null_shifted, {"environments": 2, "noise": (1.0, 2.0, 3.0)}, "each of the 2 environments"),
        (null_shifted, {"task": "binary", "noise": (1.0, 2.0, 3.0)}, "only regression has a noise scale"),
    ],
)
def test_impossible_requests_are_refused_in_words(make, options, words):
    with pytest.raises(InputError, match=words):
        make(**options)
