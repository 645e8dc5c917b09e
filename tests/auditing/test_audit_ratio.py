"""Which density ratio an audit uses, and that it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import invariscope as iv
from invariscope.criteria.registry import CRITERIA
from invariscope.report.parts.provenance import provenance


def rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    site = np.repeat(["Bern", "Oslo", "Rome"], 150)
    X = rng.normal(size=(450, 2)) + 0.4 * (site == "Rome")[:, None]
    return X, X[:, 0] + rng.normal(size=450), site


@pytest.mark.parametrize("ratio", ["logistic", "gaussian", GaussianNB()], ids=["logistic", "gaussian", "classifier"])
def test_every_criterion_with_a_ratio_is_given_the_one_asked_for(ratio: Any, seed: int) -> None:
    X, y, site = rows(seed)
    found = iv.audit(None, X, y, site, baseline=X[:, 1], ratio=ratio, n_boot=99, seed=seed)
    fitted = iv.density_ratio(X, site, ratio=ratio)
    by_hand = CRITERIA["transport_gap"].function(X, y, site, ratio=ratio, n_boot=99, seed=seed)
    np.testing.assert_allclose(found["transport_gap"].pairs, by_hand.pairs, rtol=1e-6, atol=1e-9)
    for name in ("dric", "transport_gap"):
        assert found[name].ratio == fitted.description
    np.testing.assert_allclose(found["dric"].overlap.effective, fitted.overlap.effective, rtol=1e-6)
    assert found.settings.ratio == (ratio if isinstance(ratio, str) else "GaussianNB")
    assert found.to_dict()["settings"]["ratio"] == found.settings.ratio
    assert dict(provenance(found))["density ratios by"] == f"{found.settings.ratio} ({fitted.description})"


def test_another_ratio_gives_other_numbers(seed: int) -> None:
    other = {"baseline": rows(seed)[0][:, 1], "n_boot": 99}
    logistic, gaussian = (iv.audit(None, *rows(seed), ratio=ratio, **other) for ratio in ("logistic", "gaussian"))
    for name in ("dric", "transport_gap"):
        assert not np.allclose(logistic[name].overlap.effective, gaussian[name].overlap.effective, rtol=1e-6)
    assert logistic["regret"].value == gaussian["regret"].value


def test_an_unknown_ratio_is_refused_before_anything_is_computed(seed: int) -> None:
    with pytest.raises(iv.InputError, match=r'density ratio estimator "magic" is unknown: there are logistic, '):
        iv.audit(None, *rows(seed), ratio="magic", progress=lambda text: pytest.fail(text))


def test_the_older_name_of_dric_is_known(seed: int) -> None:
    for names in ("cric", ["regret", "cric"]):
        with pytest.raises(iv.InputError, match=r'criterion "cric" is the older name of "dric"'):
            iv.audit(None, *rows(seed), criteria=names)


def test_overlap_is_known_without_dric(seed: int) -> None:
    """A representation alone has no predictions, and so no DRIC."""
    X, y, site = rows(seed)
    found = iv.audit(iv.Split(represent=X), X, y, site, n_boot=99)
    assert "dric" in found.left_out
    assert found.frame()["overlap"].tolist() == list(found["transport_gap"].overlap.verdicts)


def test_a_ratio_fitted_elsewhere_is_refused_with_the_reason(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, site = rng.normal(size=(200, 2)), np.repeat(["a", "b"], 100)
    with pytest.raises(iv.InputError, match="ratio is fitted already"):
        iv.audit(None, X, X[:, 0], site, ratio=iv.density_ratio(X, site))
