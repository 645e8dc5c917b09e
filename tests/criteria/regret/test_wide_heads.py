"""The regret of wide heads takes another way to the same numbers, and decomposes nothing where nothing is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from invariscope.criteria.regret import inference, regret, shared_head
from invariscope.heads import fit, linear_algebra, wide

EXACT = ("value", "explained", "explained_own", "shared_loss", "own_loss", "pairs", "drivers", "statistic")
EVERYWHERE = (inference, wide, linear_algebra)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("weighted", [False, True])
def test_wide_heads_have_the_regret_of_narrow_ones(
    task: str, weighted: bool, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b", "c"], (200, 260, 230))
    Z = rng.normal(size=(len(env), 3))
    scores = np.column_stack([0 * Z[:, 0], Z[:, 0] + (env == "b") * Z[:, 1], Z[:, 2]])
    noisy = scores + rng.gumbel(size=scores.shape)
    y: Any = {"regression": noisy[:, 1], "binary": noisy[:, 1] > noisy[:, 0], "multiclass": noisy.argmax(axis=1)}[task]
    weight = rng.integers(1, 4, len(env)) if weighted else None
    plain = regret.regret(Z, y, env, weight=weight, n_boot=99)
    for module in EVERYWHERE:
        monkeypatch.setattr(module, "WIDE", 4)
    monkeypatch.setattr(fit, "VERY_WIDE", 4)
    drawn = regret.regret(Z, y, env, weight=weight, n_boot=99)
    for module in (inference, wide, linear_algebra):
        monkeypatch.setattr(module, "spectrum", lambda *_: pytest.fail("decomposed"))
    alone = regret.regret(Z, y, env, weight=weight, n_boot=0)
    for found in (drawn, alone):
        for name in EXACT:  # leverages of narrow heads are in single precision
            expected = getattr(plain, name)
            np.testing.assert_allclose(getattr(found, name), expected, rtol=2e-6, atol=2e-6, err_msg=name)
    np.testing.assert_allclose(drawn.null, plain.null, rtol=2e-5)  # draw by draw
    np.testing.assert_allclose(drawn.interval, plain.interval, rtol=1e-4, atol=1e-5)
    assert shared_head.UNNOTICED < 5 / 690  # these rows are few enough for leverages to be looked at
