"""Conditional mutual information of environment and target, given the prediction."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from invariscope.criteria.comparators.counted_information import (
    by_chance,
    by_dealing,
    counting_bias,
    interval_of,
    observed,
    tables_of,
)
from invariscope.criteria.comparators.fold_scores import FOLDS, checked_classifier, judged, rows_to_judge
from invariscope.criteria.comparators.judged_information import QUANTILE, gained, tested
from invariscope.criteria.comparators.kernel_test import holm, notes_on_pairs
from invariscope.criteria.comparators.result import ConditionalInformationResult
from invariscope.criteria.comparators.samples import sample_of
from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.predictions.risks import grouped_predictions
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.models.outputs import second_of_two
from invariscope.ratios.estimator import GroupedRows
from invariscope.results import Estimate
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import generator, notes_on_weights, pvalue, whole
from invariscope.rows.settings import NOT_DRAWN, number_of_draws, one_of
from invariscope.rows.targets import Target, target_of

METHODS = ("auto", "counted", "classifier")
ROWS_OF_CELL = 5  # on average, from which counting is trusted by itself
TIES = 1e-10  # nats per row: sums of weights in another order differ by less
COMPARED = "target given prediction"
BELOW_ZERO = (
    "The value is below 0, which information is not: classifiers named the environments of unseen rows no better for "
    "knowing the target. Its interval is cut off at 0 and says no more than that."
)


def _from_material(material: Material, options: AuditOptions) -> ConditionalInformationResult:
    rows = have(material.predictions).rows
    return conditional_mutual_information(rows, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Conditional mutual information",
    needs={"predictions", "target"},
    better="lower",
    tells="How much the target says about the environment, in nats, beyond what the prediction says already.",
    cannot_tell="Whether a better head would do away with it, nor, where numbers are judged by classifiers, anything "
    "that these do not see.",
    call=_from_material,
    on_request=True,
    mentioned=False,
)
def conditional_mutual_information(
    predictions: Any,
    y: Any = None,
    env: Any = None,
    *,
    method: str = "auto",
    classifier: Any = "logistic",
    task: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> ConditionalInformationResult:
    """Does the target depend on the environment beyond the prediction?

        I(E; Y | ŷ) = Σ p(e, y, ŷ) log( p(e, y | ŷ) / (p(e | ŷ) p(y | ŷ)) )                     (eq. 12 of paper 002)

    It is 0 if and only if rows of the same prediction have targets of the same law in every environment. Where
    predictions repeat and targets are classes it is counted. Elsewhere classifiers are asked for the environment of
    rows they have not seen, with the target and without it, and

        Î = mean [ log p̂(e_i | ŷ_i, y_i) − log p̂(e_i | ŷ_i) ],                                    in nats per row

    which is what they have learned of I: too small rather than too large, and below 0 where there is little to learn.

    Parameters
    ----------
    predictions : (n,) or (n, K), labels as numbers, probabilities, numbers, or a representation to condition on; or
        :class:`~invariscope.Environments` that hold them as ``X``
    y, env, weight : (n,) arrays; weight counts rows
    method : "counted" takes every different prediction as a stratum, "classifier" asks classifiers, "auto" counts
        classes where there are at least five rows for every environment, class and prediction on average
    classifier : "logistic", "mlp", "forest", "boosting" or any scikit-learn classifier with ``predict_proba``
    task : "auto", "regression" or "classification"
    n_boot, seed : how many draws the null distribution has, and their seed

    Returns
    -------
    ConditionalInformationResult
        ``value`` Î; ``corrected``, not below 0 and, if counted, less the bias of counting (Miller and Madow 1955);
        ``interval``: if counted, the wider of one by a non-central χ² and one by a normal law; if judged, the noise of
        Î as a mean, cut off at 0, for what classifiers fitted to so many rows gain, which is below I: with a few
        hundred rows it misses I more often than it should.
        ``pairs``: two environments alone, ``per_environment``: one and all others together; ``pair_pvalues`` allow for
        all pairs.
        ``null``: if counted, Î when environments are dealt at random among rows of the same prediction. If judged,
        ``statistic`` (gains of folds judged by fits to the folds before them) when every row's environment is drawn
        from p̂(e | ŷ): a conditional randomisation test, as good as that fit, a logistic one whatever ``classifier`` is.

    What it cannot tell: whether the prediction is any good, nor whether another head on the same representation would
    be invariant. A prediction that is badly fitted everywhere leaves information that an invariant one would not.

    References: "Out-of-distribution generalization analysis via influence function", appendix A.5, where the estimate
    of Sen et al. (2017) was found useless and the true value useful; Candès et al. (2018) for the test.

    >>> import numpy as np
    >>> said, site = np.tile([0, 0, 1, 1], 100), np.repeat(["Bern", "Oslo"], 200)
    >>> truth = np.where(site == "Bern", said, np.tile([0, 1], 200))  # Oslo: any truth, whatever is said
    >>> found = conditional_mutual_information(said, truth, site)
    >>> round(found.value, 4), found.pvalue, found.strata
    (0.2158, 0.001, 2)
    """
    draws, rng = number_of_draws(n_boot), generator(seed)
    one_of(method, "method", METHODS)
    checked_classifier(classifier)
    data = grouped_predictions(predictions, y, env, weight)
    if (second := second_of_two(data.X)) is not data.X:
        data = data.with_matrix(second)
    target = target_of(data, task)
    strata = np.unique(data.X, axis=0, return_inverse=True)[1].reshape(-1)
    if _counted(method, data, target, strata):
        return _by_counts(data, target, strata, draws, rng)
    return _by_classifiers(data, task, classifier, draws, rng)


def _counted(method: str, data: Environments, target: Target, strata: Integers) -> bool:
    if method == "counted" and target.task == "regression":
        raise InputError(
            f'only classes can be counted, and target "{data.target_name}" holds numbers: pass task="classification" '
            'if they are classes, or method="classifier"'
        )
    cells = (int(strata.max()) + 1) * len(data) * max(1, len(target.classes))
    enough = target.task != "regression" and data.rows.sum() >= ROWS_OF_CELL * cells
    return method == "counted" or (method == "auto" and enough)


def _by_counts(
    data: Environments, target: Target, strata: Integers, draws: int, rng: np.random.Generator
) -> ConditionalInformationResult:
    """The value and its law by chance from tables of counts, 2 N I of which are sums over strata."""
    rows = data.codes, target.values.astype(np.intp), strata
    tables = tables_of(*rows, data.weight)
    total, found = float(tables.sum()), observed(tables)
    if data.weight is None or whole(data.weight) is not None:
        drawn = by_chance(tables, draws, rng)
    else:
        drawn = by_dealing(*rows, data.weight, draws, rng)
    count, value = len(data), float(found.total[0]) / (2 * total)
    of_two = data.rows[:, None] + data.rows
    np.fill_diagonal(of_two, np.inf)
    null = drawn.total / (2 * total)
    places = itertools.combinations(range(count), 2)
    return ConditionalInformationResult(
        value=value,
        interval=interval_of(tables, float(found.total[0])) if draws else (math.nan, math.nan),
        pvalue=pvalue(value - TIES, null),
        null=null,
        labels=data.labels,
        pairs=found.pairs[0] / (2 * of_two),
        pair_pvalues=_square(
            np.array([pvalue(found.pairs[0][p] - 2 * of_two[p] * TIES, drawn.pairs[:, *p]) for p in places]), count
        ),
        per_environment=_each(data, found.others[0] / (2 * total)),
        compared=COMPARED,
        estimator="counted",
        notes=_notes(data, draws),
        corrected=max(0.0, value - counting_bias(tables) / (2 * total)),
        statistic=value,
        strata=len(tables),
    )


def _by_classifiers(
    data: Environments, task: str, classifier: Any, draws: int, rng: np.random.Generator
) -> ConditionalInformationResult:
    """What classifiers that know the target gain over those that do not, on the same folds."""
    sample = sample_of(data, on="zy", task=task)
    rows = rows_to_judge(sample)
    knowing = judged(classifier, rows, rng)
    predictions = GroupedRows(np.ascontiguousarray(rows.X[:, : sample.z.shape[1]]), rows.offsets, rows.weight)
    without = judged(classifier, predictions, rng, knowing.fold)
    found, test = gained(knowing, without), tested(knowing, without, draws, rng)
    low, high = (max(0.0, found.mean + sign * QUANTILE * found.error) for sign in (-1.0, 1.0))
    return ConditionalInformationResult(
        value=found.mean,
        interval=(low, high) if draws else (math.nan, math.nan),
        pvalue=pvalue(test.statistic, test.null),
        null=test.null,
        labels=data.labels,
        pairs=found.pairs,
        pair_pvalues=_square(test.pairs, len(data)),
        per_environment=_each(data, found.others),
        compared=COMPARED,
        estimator=f"{knowing.description}, {FOLDS} folds",
        notes=_notes(data, draws, *([BELOW_ZERO] if found.mean < 0.0 else [])),
        corrected=max(0.0, found.mean),
        statistic=test.statistic,
        strata=0,
    )


def _notes(data: Environments, draws: int, *remarks: str) -> tuple[str, ...]:
    few = notes_on_pairs(math.comb(len(data), 2), draws)
    return (*data.notes, *notes_on_weights(data.weight), *remarks, *few, *(() if draws else (NOT_DRAWN,)))


def _each(data: Environments, values: Floats) -> dict[Any, Estimate]:
    return {label: Estimate(float(value)) for label, value in zip(data.labels, values, strict=True)}


def _square(each: Floats, count: int) -> Floats:
    """p-values of pairs, in the order of np.triu_indices, allowing for all of them (Holm); 1 on the diagonal."""
    if np.isnan(each).any():
        return np.full((count, count), np.nan)
    out = np.ones((count, count))
    out[np.triu_indices(count, 1)] = holm(each)
    return np.minimum(out, out.T)
