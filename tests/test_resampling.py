"""p-values that are never 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.resampling import pvalue


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=30), st.floats(-1e6, 1e6))
def test_pvalues_count_draws_at_least_as_large(null: list[float], observed: float) -> None:
    found = pvalue(observed, np.array(null))
    surely = sum(draw >= observed for draw in null)
    at_most = sum(draw >= observed - 1e-5 for draw in null)
    assert (1 + surely) / (1 + len(null)) <= found <= (1 + at_most) / (1 + len(null))
    assert 1 / (1 + len(null)) <= found <= 1


def test_ties_up_to_rounding_count() -> None:
    null = np.array([0.1 + 0.2, 0.0, 0.0])
    assert pvalue(0.3, null) == pvalue(0.30000000000000004, null) == 0.5
    large = np.array([1e9 * (0.1 + 0.2)])
    assert pvalue(1e9 * 0.3, large) == pvalue(np.nextafter(large[0], np.inf), large) == 1.0
    assert pvalue(large[0] * (1 + 1e-9), large) == 0.5


def test_minus_infinity_is_an_ordinary_draw() -> None:
    assert pvalue(0.0, np.array([-np.inf, 1.0, -1.0])) == 0.5
    assert pvalue(5.0, np.zeros(99)) == pytest.approx(0.01)
