"""Correlation alignment: by hand, and as DomainBed defines it, with numpy's covariances."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from invariscope.errors import InputError
from invariscope.objectives.coral import coral_penalty


def test_equals_numpy_over_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, 3)) * scale + shift for n, scale, shift in ((4, 1, 0), (7, 2, 0.5), (5, 0.5, -1))]
    pairs = []
    for x, y in combinations(features, 2):
        means = np.mean((x.mean(axis=0) - y.mean(axis=0)) ** 2)
        covariances = np.mean((np.cov(x, rowvar=False) - np.cov(y, rowvar=False)) ** 2)
        pairs.append(means + covariances)
    found = coral_penalty(None, None, [torch.from_numpy(rows) for rows in features])
    assert float(found) == pytest.approx(np.mean(pairs), rel=1e-10)


def test_two_columns_by_hand() -> None:
    # means (0, 0) and (1, 0); covariances [[2, 2], [2, 2]] and [[2, −2], [−2, 2]]
    features = [torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), torch.tensor([[0.0, 1.0], [2.0, -1.0]])]
    assert float(coral_penalty(None, None, features)) == pytest.approx(1 / 2 + (0 + 16 + 16 + 0) / 4)


def test_shrinking_features_lowers_it(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = [torch.randn(8, 2, generator=generator, dtype=torch.float64) + shift for shift in (0, 3)]
    centred = [rows - rows.mean(dim=0) for rows in features]  # only covariances differ: fourth powers
    whole, shrunk = (float(coral_penalty(None, None, [factor * rows for rows in centred])) for factor in (1.0, 0.1))
    assert shrunk == pytest.approx(1e-4 * whole, rel=1e-9)


def test_one_row_has_no_covariance() -> None:
    with pytest.raises(InputError, match=r"environment 1 has 1 row\(s\) in this batch, and 2 are needed"):
        coral_penalty(None, None, [torch.zeros(3, 2), torch.zeros(1, 2)])
