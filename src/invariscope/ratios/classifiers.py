"""Density ratios by any classifier of the environment, calibrated on rows it has not seen."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from threadpoolctl import threadpool_limits

from invariscope.errors import InputError
from invariscope.ratios.estimator import Estimator, GroupedRows, JointFit
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.resampling import folds_by_content

FOLDS = 3
FEW_ROWS = 20  # of an environment: fewer may leave a fold, or a part held out of one, without any
MANY_ROWS = 50_000  # from which threads inside a classifier gain more than they spend waiting for each other
SMALLEST = 1e-6  # probability: a tree that never saw an environment somewhere says 0, which has no logarithm


@dataclass(frozen=True)
class ClassifierFit(JointFit):
    """The mean of as many classifiers as folds, each calibrated: τ log p̂(e | x) + b_e, less the log of the sizes.

    τ < 1 takes back the over-confidence of a classifier, b_e its preference for an environment.
    """

    classifier: Any
    models: tuple[Any, ...] = field(repr=False)
    temperature: float
    bias: Floats = field(repr=False)
    held_out: Floats | None = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        return f"{type(self.classifier).__name__}, {FOLDS} fits, calibrated on held-out rows"

    def log_densities(self, X: Floats) -> Floats:
        logs = [log_probabilities(model, X, len(self.bias)) for model in self.models]
        return np.asarray(self.temperature * np.mean(logs, axis=0) + self.bias)

    def again(self, rows: GroupedRows) -> ClassifierFit:
        return _fitted(self.classifier, rows)


def classifier_estimator(classifier: Any) -> Estimator:
    """Make an estimator of density ratios of a scikit-learn classifier."""
    refuse_no_classifier(classifier, "density ratios need")
    return lambda rows, rng: _fitted(classifier, rows)


def refuse_no_classifier(classifier: Any, who_needs: str) -> None:
    """What has no probabilities to give, or is a class and not a classifier."""
    if isinstance(classifier, type):
        raise InputError(f"{classifier.__name__} is a class, not a classifier: pass one, {classifier.__name__}()")
    if not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise InputError(
            f"{type(classifier).__name__} is no classifier with probabilities: {who_needs} fit and "
            "predict_proba (for a support-vector machine, wrap it in CalibratedClassifierCV)"
        )


def fit_forest(rows: GroupedRows, rng: np.random.Generator) -> ClassifierFit:
    """A random forest: steps and interactions, no smooth tails."""
    return _fitted(forest(rows, rng), rows)


def fit_boosting(rows: GroupedRows, rng: np.random.Generator) -> ClassifierFit:
    """Boosted trees, stopped when held-out rows stop gaining."""
    return _fitted(boosting(rows, rng), rows)


def fit_mlp(rows: GroupedRows, rng: np.random.Generator) -> ClassifierFit:
    """The network of the DRIC paper's Table 8: two layers of 256 rectified units, with dropout, early stopping."""
    return _fitted(mlp(rows, rng), rows)


def forest(rows: GroupedRows, rng: np.random.Generator) -> Any:
    """A random forest that suits so many rows, not fitted yet."""
    from sklearn.ensemble import RandomForestClassifier

    # smaller leaves are noisy in few columns, larger ones blind in many
    leaf = _leaf(max(10, int(np.sqrt(len(rows.X)))), rows)
    return RandomForestClassifier(100, min_samples_leaf=leaf, n_jobs=-1, random_state=_seed(rng))


def boosting(rows: GroupedRows, rng: np.random.Generator) -> Any:
    """Boosted trees that suit so many rows, not fitted yet."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    # log ratios are mostly smooth and additive: small trees are twice as accurate here as large ones
    return HistGradientBoostingClassifier(
        max_leaf_nodes=4, min_samples_leaf=_leaf(40, rows), max_iter=300, early_stopping=True, random_state=_seed(rng)
    )


def mlp(rows: GroupedRows, rng: np.random.Generator) -> Any:
    """A network, not fitted yet: PyTorch's if it is installed.

    Else scikit-learn's, which has no dropout and relies on early stopping alone.
    """
    if importlib.util.find_spec("torch"):
        from invariscope.ratios.torch_network import TorchNetwork

        return TorchNetwork(seed=_seed(rng))
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((256, 256), early_stopping=True, n_iter_no_change=5, random_state=_seed(rng))


def _leaf(wanted: int, rows: GroupedRows) -> int:
    """Rows of a leaf: as wanted, or as few as the smallest environment needs for a tree to set it apart at all."""
    return max(1, min(wanted, int(np.diff(rows.offsets).min()) // 4))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _fitted(classifier: Any, rows: GroupedRows) -> ClassifierFit:
    """Fit on all folds but one, predict that one; calibrate what was predicted."""
    refuse_without_weights(classifier, rows)
    fold, codes = folds_by_content(rows.X, rows.offsets, FOLDS), rows.codes
    models, unseen = [], np.empty((len(rows.X), rows.environments))
    for k in range(FOLDS):
        out = fold == k
        if not out.any():  # so few rows that a fold has none
            continue
        model = fitted_once(classifier, rows.X[~out], codes[~out], None if rows.weight is None else rows.weight[~out])
        unseen[out] = log_probabilities(model, rows.X[out], rows.environments)
        models.append(model)
    temperature, bias = _calibrated(unseen, codes, rows.weight)
    bias = bias - np.log(rows.totals)
    return ClassifierFit(classifier, tuple(models), temperature, bias, temperature * unseen + bias)


def refuse_without_weights(classifier: Any, rows: GroupedRows) -> None:
    """Weighted rows, for a classifier that cannot be fitted with weights."""
    from sklearn.utils.validation import has_fit_parameter

    if rows.weight is not None and not has_fit_parameter(classifier, "sample_weight"):
        raise InputError(
            f"{type(classifier).__name__} cannot be fitted with weights: leave them out, or repeat the rows instead"
        )


def fitted_once(
    classifier: Any, X: Floats, codes: Integers, weight: Floats | None, setting: str = 'ratio="logistic"'
) -> Any:
    """A copy of the classifier, fitted to environment codes; ``setting`` is what to use where it cannot be."""
    from sklearn.base import clone

    options = {} if weight is None else {"sample_weight": weight}
    with few_threads(len(X)):
        try:
            model = clone(classifier).fit(X, codes, **options)
        except ValueError as error:
            if len(codes) and np.bincount(codes).min() >= FEW_ROWS:
                raise
            raise InputError(
                f"{type(classifier).__name__} cannot be fitted to environments of so few rows ({error}): "
                f"use {setting}, or merge them with others"
            ) from error
    if "n_jobs" in model.get_params():  # threads add up a forest's votes in any order: not twice the same
        model.set_params(n_jobs=1)
    return model


def log_probabilities(model: Any, X: Floats, environments: int) -> Floats:
    """log p̂(e | x) (n, E), kept away from 0; an environment that was not seen gets the smallest."""
    probabilities = np.full((len(X), environments), SMALLEST)
    with few_threads(len(X)):
        probabilities[:, model.classes_] = np.maximum(model.predict_proba(X), SMALLEST)
    return np.asarray(np.log(probabilities))


def few_threads(rows: int) -> AbstractContextManager[Any]:
    """Threads inside a classifier only where they gain anything."""
    limits: AbstractContextManager[Any] = threadpool_limits(None if rows > MANY_ROWS else 1)
    return limits


def _calibrated(log_probabilities: Floats, codes: np.ndarray, weight: Floats | None) -> tuple[float, Floats]:
    """τ ≥ 0 and b that minimise the log-loss of τ log p̂ + b on rows that p̂ did not see (temperature scaling)."""
    n, environments = log_probabilities.shape
    counts = np.ones(n) if weight is None else weight
    own = np.arange(n), codes
    seen_share = np.bincount(codes, weights=counts, minlength=environments)

    def loss(theta: Floats) -> tuple[float, Floats]:
        scores = theta[0] * log_probabilities + theta[1:]
        total = scipy.special.logsumexp(scores, axis=1)
        probabilities = np.exp(scores - total[:, None])
        value = counts @ (total - scores[own])
        slope = counts @ (np.einsum("ij,ij->i", probabilities, log_probabilities) - log_probabilities[own])
        return value / n, np.concatenate([[slope], counts @ probabilities - seen_share]) / n

    start = np.concatenate([[1.0], np.zeros(environments)])
    bounds = [(0.0, None), *[(None, None)] * environments]
    minimum = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(minimum.x[0]), np.asarray(minimum.x[1:])
