"""One fit for every pair of environments instead of one for all: equation 10 of the DRIC paper to the letter."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.ratios.classifiers import few_threads, fitted_once, refuse_without_weights
from invariscope.ratios.estimator import Fit, GroupedRows, JointFit
from invariscope.rows.arrays import Floats
from invariscope.wording import percent

SURE = float(np.finfo(np.float64).eps)  # of a probability: nearer to 0 or 1 none of 64 bits can be told from it


@dataclass(frozen=True)
class PairwiseFit:
    """Ratios of every pair from a fit of its own, so that ρ_ab · ρ_bc need not be ρ_ac.

    ``fits[a, b]`` is of two environments, a first, and serves ρ_{b,a} = 1 / ρ_{a,b} too where there is no ``[b, a]``.
    """

    fits: Mapping[tuple[int, int], Fit] = field(repr=False)
    description: str
    notes: tuple[str, ...] = ()
    held_out: Floats | None = None

    def log_ratio(self, X: Floats, a: int, b: int) -> Floats:
        if a == b:
            return np.zeros(len(X))
        if (a, b) in self.fits:
            return self.fits[a, b].log_ratio(X, 0, 1)
        return self.fits[b, a].log_ratio(X, 1, 0)

    def scores_at(self, rows: GroupedRows) -> Floats:
        out = np.zeros((len(rows.X), rows.environments))
        for b, a in itertools.permutations(range(rows.environments), 2):
            out[rows.of(b), a] = self.log_ratio(rows.X[rows.of(b)], a, b)
        return out

    def backward_at(self, rows: GroupedRows) -> Floats | None:
        if not any((b, a) in self.fits for a, b in self.fits):
            return None
        out = np.zeros((len(rows.X), rows.environments))
        for b, a in itertools.permutations(range(rows.environments), 2):
            out[rows.of(b), a] = -self.log_ratio(rows.X[rows.of(b)], b, a)
        return out

    def log_densities(self, X: Floats) -> Floats:
        raise InputError(
            "a ratio fitted pair by pair has no log densities of single environments, since its pairs need not agree: "
            "call log(X, e, e2) for a pair, log_ratios(X, e2) for all environments against one, or read at_rows"
        )

    def again(self, rows: GroupedRows) -> PairwiseFit:
        refitted = {(a, b): fit.again(rows.pair(a, b)) for (a, b), fit in self.fits.items()}
        return replace(self, fits=refitted, notes=())


@dataclass(frozen=True)
class BinaryFit(JointFit):
    """A classifier of two environments as it is: log p̂(e | x) less the logarithm of the environments' rows.

    ``certain`` says how many of the rows it was fitted on it gives a probability of exactly 0 or 1.
    """

    classifier: Any
    model: Any = field(repr=False)
    totals: Floats = field(repr=False)
    certain: int = 0
    held_out: Floats | None = None
    notes: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        return f"{type(self.classifier).__name__} of two environments"

    def log_densities(self, X: Floats) -> Floats:
        # ρ̂ = n_e' p̂ / (n_e (1 − p̂)), finite where p̂ is 0 or 1   (eq. 10)
        return np.asarray(np.log(np.maximum(_probabilities(self.model, X), SURE)) - np.log(self.totals))

    def again(self, rows: GroupedRows) -> BinaryFit:
        return fit_binary(self.classifier, rows)


def fit_binary(classifier: Any, rows: GroupedRows) -> BinaryFit:
    """A clone of the classifier, fitted on all rows of two environments."""
    refuse_without_weights(classifier, rows)
    model = fitted_once(classifier, rows.X, rows.codes, rows.weight)
    certain = int(np.count_nonzero(_probabilities(model, rows.X).min(axis=1) < SURE))
    return BinaryFit(classifier, model, rows.totals, certain)


def fit_pairs(rows: GroupedRows, fit: Callable[[GroupedRows], Fit], description: str) -> PairwiseFit:
    """The same kind of fit for every pair of environments, each for both directions."""
    fits = {(a, b): fit(rows.pair(a, b)) for a, b in itertools.combinations(range(rows.environments), 2)}
    certain = {pair: each.certain for pair, each in fits.items() if isinstance(each, BinaryFit) and each.certain}
    notes = [note for each in fits.values() for note in each.notes]
    if certain:
        share = max(count / len(rows.pair(*pair).X) for pair, count in certain.items())
        notes.append(
            f"The classifier is certain of the environment (p̂ is 0 or 1) for up to {percent(share)} of the rows of a "
            "pair: eq. 10 has ratios of 0 or infinity there, which were kept finite. It knows its rows by heart, or "
            "the environments lie apart."
        )
    return PairwiseFit(fits, description, tuple(dict.fromkeys(notes)))


def classifier_pairs(rows: GroupedRows, classifier: Any, name: str = "") -> PairwiseFit:
    """One classifier for every pair, uncalibrated."""
    name = name or type(classifier).__name__
    return fit_pairs(rows, lambda pair: fit_binary(classifier, pair), f"one {name} for every pair, uncalibrated")


def network_pairs(rows: GroupedRows, rng: np.random.Generator) -> PairwiseFit:
    """The network of Table 8 for every pair: two layers of 256 rectified units with dropout, one output."""
    seed = int(rng.integers(2**31))
    if importlib.util.find_spec("torch"):
        from invariscope.ratios.torch_network import TorchNetwork

        return classifier_pairs(rows, TorchNetwork(seed=seed, one_output=True), "network of Table 8")
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier((256, 256), early_stopping=True, n_iter_no_change=5, random_state=seed)
    return classifier_pairs(rows, network, "network of two layers of 256")


def forest_pairs(rows: GroupedRows, rng: np.random.Generator) -> PairwiseFit:
    """A random forest for every pair."""
    from invariscope.ratios.classifiers import forest

    return classifier_pairs(rows, forest(rows, rng))


def boosting_pairs(rows: GroupedRows, rng: np.random.Generator) -> PairwiseFit:
    """Boosted trees for every pair."""
    from invariscope.ratios.classifiers import boosting

    return classifier_pairs(rows, boosting(rows, rng))


def gaussian_pairs(rows: GroupedRows, rng: np.random.Generator) -> PairwiseFit:
    """One normal law per environment, shrunk towards that of the pair instead of that of all."""
    from invariscope.ratios.gaussian import fit_gaussian

    return fit_pairs(rows, fit_gaussian, "two normal laws for every pair")


def _probabilities(model: Any, X: Floats) -> Floats:
    """p̂ of both environments (n, 2); one that was not seen has 0."""
    out = np.zeros((len(X), 2))
    if len(X):
        with few_threads(len(X)):
            out[:, model.classes_] = model.predict_proba(X)
    return out
