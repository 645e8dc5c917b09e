"""Domain classifier: how well the environment of a row can be told from the row."""

from __future__ import annotations

from typing import Any

from invariscope.criteria.comparators.environment_classifier import EnvironmentClassifier
from invariscope.criteria.comparators.fold_scores import FOLDS, checked_classifier, judged, rows_to_judge
from invariscope.criteria.comparators.result import DomainClassifierResult
from invariscope.criteria.comparators.samples import sample_of
from invariscope.criteria.comparators.told_apart import told_apart
from invariscope.criteria.material import AuditOptions, Material
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.rows.resampling import generator
from invariscope.rows.settings import number_of_draws, shown


def _from_material(material: Material, options: AuditOptions) -> DomainClassifierResult:
    return domain_classifier(material.compared, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Domain classifier",
    needs={"compared", "target"},
    better="lower",
    tells="How often a classifier names the environment of a row it has not seen, from its representation and target.",
    cannot_tell="Whether what gives environments away matters for predictions, nor what the classifier is too simple "
    "to see.",
    call=_from_material,
    on_request=True,
    mentioned=False,
)
def domain_classifier(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    on: str = "auto",
    classifier: Any = "logistic",
    trained_on: Any = None,
    task: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> DomainClassifierResult:
    """How often can a classifier name the environment of a row it has not seen, from (z, y)?

        accuracy = mean 1[ argmax_e p̂(e | z, y) = e_i ],   each row judged by a fit to the four other fifths of the rows

    and the mean area under the curve of every environment against all others, beside the accuracy of always naming the
    largest environment. With unequal environments look at the area: accuracy cannot do much better than the largest.

    Fits to four fifths share most of their rows, so that what they say of the five fifths depends on each other:
    dealing environments to rows whose predictions stay as they are finds significance at 5 % in 10 % of samples of one
    law. So the p-value is that of an area which needs no excuse: every fifth is judged by a classifier fitted to
    the fifths *before* it. That one is fixed before the fifth comes, and environments dealt at random within it are
    what chance does, whatever the classifier is. It costs some power: the first fifth is not judged, and the second by
    a classifier that has seen one.

    Parameters
    ----------
    Z : (n, d) representation or (n,) predictions, or :class:`~invariscope.Environments` (then y and env are left out)
    y, env, weight : (n,) arrays; weight counts rows
    on : "zy" tells environments apart by z and the target together, "z" by the representation alone, "auto" takes the
        target in if it is given
    classifier : "logistic" (default: on the columns, with squares, splines or products, whichever tells environments of
        the rows at hand best), "mlp", "forest", "boosting" or any scikit-learn classifier with ``predict_proba``
    trained_on : (Z, y, env) of a reference, usually a model that is not invariant: the classifier is fitted to these
        once and only applied here, as in appendix B.4 of the DRIC paper; or an :class:`EnvironmentClassifier` that was
        trained before. On the reference's own rows accuracy is in-sample, and there is no p-value.
    task : "auto", "regression" or "classification"; classes are a column each
    n_boot, seed : how often environments are dealt at random, and the seed of that

    Returns
    -------
    DomainClassifierResult
        ``value`` (accuracy), ``chance``, ``auc``; ``per_environment``: the area of each against all others; ``pairs``:
        the area of two alone, with ``pair_pvalues`` (by ranks, and by Holm for all pairs). ``statistic``, ``null`` and
        ``pvalue``: the mean area ahead; ``accuracy_ahead``, ``accuracy_null`` and ``accuracy_pvalue``: the accuracy
        there, which takes few different values, so that its p-value is cautious.

    What it cannot tell: whether E[Y | z] differs or only how common z is; nor anything that the classifier cannot see.

    References: Ganin et al. (2016), "Domain-adversarial training of neural networks"; column DCA of Table 18 of the
    DRIC paper.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(["Bern", "Oslo"], 200)
    >>> z = rng.normal(size=(400, 2)) + 1.0 * (site == "Oslo")[:, None]
    >>> found = domain_classifier(z, rng.normal(size=400), site)
    >>> round(found.value, 2), found.chance, round(found.auc, 2), found.pvalue
    (0.77, 0.5, 0.84, 0.001)
    """
    draws, rng = number_of_draws(n_boot), generator(seed)
    checked_classifier(classifier)
    if trained_on is not None:
        return _trained(trained_on, classifier, on, task, seed).apply(Z, y, env, weight=weight, n_boot=draws, seed=seed)
    sample = sample_of(Z, y, env, weight, on=on, task=task)
    said = judged(classifier, rows_to_judge(sample), rng)
    return told_apart(sample, said, draws, rng, f"{said.description}, {FOLDS} folds")


def _trained(trained_on: Any, classifier: Any, on: str, task: str, seed: int) -> EnvironmentClassifier:
    if isinstance(trained_on, EnvironmentClassifier):
        return trained_on
    if not isinstance(trained_on, tuple | list) or len(trained_on) != 3:
        raise InputError(
            f"trained_on is {shown(trained_on)}: give the reference's (Z, y, env), y None if it is not to be used, or "
            "a fitted EnvironmentClassifier"
        )
    Z, y, env = trained_on
    return EnvironmentClassifier(classifier, on=on, task=task, seed=seed).fit(Z, y, env)
