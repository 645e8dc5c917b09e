"""Is an algorithm for unseen environments (OOD) needed? The influence index against its shuffles, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from invariscope.auditing.advice import named_outnumbered
from invariscope.auditing.verdict import ALPHA, CANNOT_TELL, MARGIN, NOT_INVARIANT, UNINFORMATIVE
from invariscope.results import InfluenceResult
from invariscope.wording import MISSING, apart, exactly, number, plural, pvalue

USE_ONE = "use one"
COLLECT = "collect environments"
LITTLE_TO_GAIN = "little to gain"
OPEN = "open"


def answer_of(influence: InfluenceResult, state: str, alpha: float = ALPHA) -> str:
    """What section 4.2 of the influence paper advises on a model trained by ERM; "" where nothing can be advised.

    | V against its shuffles | answer                                                                            |
    |------------------------|-----------------------------------------------------------------------------------|
    | above                  | use an OOD algorithm: the model relies on features that vary between environments |
    | equal                  | collect more environments: these do not differ in what the model relies on        |

    A p-value falls with every further row, however small the difference; so where the regret is known to be below the
    margin, an algorithm has little to gain. And few rows show no difference however large it is: where they do not
    settle the regret, or the regret sees a difference that the index does not, the question is open.
    """
    if state == UNINFORMATIVE or not len(influence.null) or not math.isfinite(influence.value):
        return ""
    if state == CANNOT_TELL:
        return OPEN
    if influence.pvalue >= alpha:
        return OPEN if state == NOT_INVARIANT else COLLECT
    return USE_ONE if state == NOT_INVARIANT else LITTLE_TO_GAIN


def shuffled_bound(influence: InfluenceResult, alpha: float = ALPHA) -> float:
    """The value that the index must exceed for p < ``alpha``; the largest, where shuffles are too few for that."""
    shuffled = np.sort(influence.null[~np.isnan(influence.null)])
    above = math.ceil(round(alpha * (len(shuffled) + 1), 9)) - 1  # p = (1 + those at or above V) / (1 + shuffles)
    return float(shuffled[-max(above, 1)]) if len(shuffled) else math.nan


def index_words(influence: InfluenceResult, alpha: float = ALPHA, rows: str = "for shuffled rows") -> tuple[str, str]:
    """The index, and how far it goes without a difference, as its p-value has it; "" without shuffles.

    >>> index_words(InfluenceResult(value=8.02, null=np.linspace(3, 5, 999), pvalue=0.001, labels=(), parameters=(),
    ...     influences=np.empty(0), direction=np.empty(0), eigenvalues=np.empty(0), damping=0.0, rank=0, loss=""))
    ('8.02', 'up to 4.90 for shuffled rows (95 %)')
    """
    value, bound = apart(influence.value, shuffled_bound(influence, alpha))
    if bound == MISSING:
        return number(influence.value), ""
    return value, f"up to {bound} {rows} ({exactly(1 - alpha)})"


def without_penalty_words(influence: InfluenceResult, alpha: float = ALPHA) -> str:
    """The same index without the penalty in its Hessian, of a model that was trained with one; "" of any other."""
    plain = influence.without_penalty
    if plain is None:
        return ""
    value, bound = index_words(replace(influence, value=plain.value, null=plain.null, pvalue=plain.pvalue), alpha)
    return f"without the penalty in its curvature {', '.join(filter(None, (value, bound)))}"


def algorithm_needed(
    influence: InfluenceResult | None,
    state: str,
    *,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    env_name: str = "environment",
    trained_by: str = "erm",
    small: Sequence[Hashable] = (),
) -> str:
    """The answer in one sentence, with V, how far its shuffles go and the p-value; "" where there is none.

    ``trained_by`` is the objective the model was trained with, where that is known: to a model that was trained for
    unseen environments no algorithm is recommended, nor to one of which the rows do not settle whether it needs any.
    ``small`` are environments of few rows, whose noise is in the shuffles and hides what the others pull.
    What it cannot tell: whether an algorithm would succeed; only whether there is something for it to remove.
    """
    answer = "" if influence is None else answer_of(influence, state, alpha)
    if influence is None or not answer:
        return ""
    value, bound = index_words(influence, alpha)
    numbers = f"V {value}, {bound}; {pvalue(influence.pvalue, len(influence.null))}"
    more = influence.pvalue < alpha
    hidden = (
        f" The few rows of {named_outnumbered(small)} may hide it: drop or merge them." if small and not more else ""
    )
    far = "no more" if not more else "far more" if influence.value > np.nanmax(influence.null) else "more"
    many = plural(env_name)
    pull = f"the {many} pull the head apart {far} than chance does ({numbers})"
    if state == CANNOT_TELL:
        rest = "what that costs is not settled" if more else "these rows may not show it"
        return f"{pull[0].upper()}{pull[1:]}; {rest}.{hidden}"
    little = f", but sharing it costs under {exactly(margin)}" if answer == LITTLE_TO_GAIN else ""
    if trained_by != "erm":
        rest = f"; collect more {many}" if answer == COLLECT else little
        return f"Trained with {trained_by}: {pull}{rest}.{hidden}"
    told = {
        USE_ONE: f"An OOD algorithm is worth trying: {pull}.",
        LITTLE_TO_GAIN: f"An OOD algorithm has little to gain: {pull}{little}.",
        OPEN: (
            f"The influence index alone would not ask for an OOD algorithm ({numbers}); the regret, which looks at "
            "every direction of the head, does."
        ),
        COLLECT: f"No OOD algorithm is called for: {pull}; collect more {many} instead.",
    }[answer]
    return told + hidden
