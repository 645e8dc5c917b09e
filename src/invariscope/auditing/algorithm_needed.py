"""Is an algorithm for unseen environments (OOD) needed? The influence index against its shuffles, in one sentence."""

from __future__ import annotations

import math

import numpy as np

from invariscope.auditing.verdict import ALPHA, CANNOT_TELL, MARGIN, NOT_INVARIANT, UNINFORMATIVE
from invariscope.results import InfluenceResult
from invariscope.wording import number, percent, plural, pvalue, span

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
    settle the regret, or the regret sees a difference that the index does not, V that equals its shuffles leaves the
    question open.
    """
    if state == UNINFORMATIVE or not len(influence.null) or not math.isfinite(influence.value):
        return ""
    unsettled = state in (NOT_INVARIANT, CANNOT_TELL)
    if influence.pvalue >= alpha:
        return OPEN if unsettled else COLLECT
    return USE_ONE if unsettled else LITTLE_TO_GAIN


def algorithm_needed(
    influence: InfluenceResult | None,
    state: str,
    *,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    env_name: str = "environment",
    trained_by: str = "erm",
) -> str:
    """The answer in one sentence, with V, the middle 95 % of its shuffles and the p-value; "" where there is none.

    ``trained_by`` is the objective the model was trained with, where that is known. What it cannot tell: whether an
    algorithm would succeed; only whether there is something for it to remove.
    """
    answer = "" if influence is None else answer_of(influence, state, alpha)
    if influence is None or not answer:
        return ""
    shuffled = influence.null[np.isfinite(influence.null)]
    low, high = (float(end) for end in np.quantile(shuffled, [0.025, 0.975]))
    chance = pvalue(influence.pvalue, len(influence.null))
    numbers = f"V {number(influence.value)}, {span((low, high))} for shuffled rows; {chance}"
    many = plural(env_name)
    if answer == USE_ONE:
        far = "far more" if influence.value > float(shuffled.max()) else "more"
        apart = f"the {many} pull the head apart {far} than chance does ({numbers})"
        if trained_by != "erm":
            return f"Trained with {trained_by}, {apart}; try a larger penalty or another objective."
        return f"An OOD algorithm is worth trying: {apart}."
    if answer == LITTLE_TO_GAIN:
        return (
            f"An OOD algorithm has little to gain: the {many} pull the head apart more than chance does ({numbers}), "
            f"but sharing it costs under {percent(margin)}."
        )
    if answer == OPEN and state == NOT_INVARIANT:
        return (
            f"The influence index alone would not ask for an OOD algorithm ({numbers}); the regret, which looks at "
            "every direction of the head, does."
        )
    if answer == OPEN:
        return (
            f"Whether an OOD algorithm is needed is open too: the {many} pull the head apart no more than chance does "
            f"({numbers}), which so few rows may not show."
        )
    further = "No OOD algorithm" if trained_by == "erm" else f"No OOD algorithm beyond {trained_by}"
    return (
        f"{further} is called for: the {many} pull the head apart no more than chance does ({numbers}); collect more "
        f"{many} instead."
    )
