"""From numbers to plain words: the verdict is set by an interval and a margin of practical importance, not by n."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from invariscope.auditing.advice import (
    driving_columns,
    makes_errors,
    next_if_not_invariant,
    next_if_settled,
    next_if_unsettled,
)
from invariscope.results import Estimate, Overlap, RegretResult
from invariscope.rows.spelling import spelt
from invariscope.wording import (
    NO_BOUND,
    between,
    bounded,
    exactly,
    in_sentences,
    outwards,
    percent,
    plural,
    pvalue,
    quoted,
)

NOT_INVARIANT = "NOT INVARIANT"
INVARIANT = "INVARIANT"
NEGLIGIBLE = "DIFFERENT BUT NEGLIGIBLE"
CANNOT_TELL = "CANNOT TELL YET"
UNINFORMATIVE = "UNINFORMATIVE"
STATES = (NOT_INVARIANT, INVARIANT, NEGLIGIBLE, CANNOT_TELL, UNINFORMATIVE)

MARGIN = 0.02  # extra risk below which a difference is of no practical importance
ALPHA = 0.05
INFORMATIVE = 0.01  # share of the loss a head must remove before its invariance means anything
#: Criteria that measure overlap, in the order in which theirs is spoken of, and on what.
OVERLAP_OF = {"transport_gap": "the representation", "dric": "the rows as DRIC compares them"}
#: What heads look at: its name, whose invariance that is, and what to do where nothing can be predicted from it.
LOOKED_AT = {
    "representation": ("this representation", "its", "improve the representation first, then audit it again"),
    "prediction": ("the model's predictions", "their", "improve the model first, then audit it again"),
    "too wide": ("the model's predictions", "their", "improve the model, or audit a narrower layer of it"),
}
VISIBLE = 0.0005  # shares below this read as nothing


@dataclass(frozen=True)
class Verdict:
    """What a person reads first: a state, one sentence, and at most three more."""

    state: str
    headline: str
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join([f"{self.state}.", self.headline, *self.sentences])


def state_of(regret: RegretResult, margin: float = MARGIN, alpha: float = ALPHA) -> str:
    """Which of the five states the numbers are in.

    | intervals of the environments' regrets          | state                                                      |
    |-------------------------------------------------|------------------------------------------------------------|
    | any above the margin                            | not invariant                                              |
    | all below the margin, score test does not reject| invariant, as far as these heads and environments can tell |
    | all below the margin, score test rejects        | different but negligible                                   |
    | otherwise                                       | cannot tell yet                                            |

    A representation from which neither the shared head nor the environments' own heads predict anything is
    uninformative, whatever its regret.
    """
    if max(regret.explained, regret.explained_own) < INFORMATIVE:
        return UNINFORMATIVE
    low, high = regret.worst_interval
    if low > margin:
        return NOT_INVARIANT
    if high < margin and len(regret.known) == len(regret.labels):
        return NEGLIGIBLE if regret.pvalue < alpha else INVARIANT
    return CANNOT_TELL


def verdict_of(
    regret: RegretResult,
    *,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    env_name: str = "environment",
    target_name: str = "target",
    overlap: Overlap | None = None,
    learned: bool = False,
    trained_by: str = "erm",
    weights: int = 0,
    level: str = "representation",
) -> Verdict:
    """State, headline and sentences: who disagrees, by how much and how surely; about what; what to do next.

    ``learned`` columns are a model's own (hidden units, a score): nobody can look at how they were recorded.
    ``trained_by`` is the objective the model was trained with, where that is known; ``weights`` is how many a head has;
    ``level`` is what heads look at, one of ``LOOKED_AT``.
    """
    state = state_of(regret, margin, alpha)
    everywhere = _everywhere(len(regret.labels), env_name)
    within = exactly(margin)
    p = f" ({pvalue(regret.pvalue, len(regret.null))})" if math.isfinite(regret.pvalue) else ""
    headline = {
        NOT_INVARIANT: f"One head does not serve {everywhere}{p}.",
        INVARIANT: f"One head serves {everywhere}, as far as linear heads on these rows can tell{p}.",
        NEGLIGIBLE: f"One head is not best everywhere{p}, but sharing it costs under {within} anywhere.",
        CANNOT_TELL: f"The rows do not settle whether one head serves {everywhere} to within {within}{p}.",
        UNINFORMATIVE: (
            f"No linear head predicts {target_name} from {LOOKED_AT[level][0]}, so {LOOKED_AT[level][1]} invariance "
            "means nothing."
        ),
    }[state]
    if state == UNINFORMATIVE:
        removed = max(regret.explained, 0.0)
        what = "variance" if regret.task == "regression" else "log-loss"
        sentences = [
            f"The shared head removes {percent(removed)} of the {what} of {target_name} on rows it has not seen.",
            f"Next: {LOOKED_AT[level][2]}.",
        ]
    else:
        sentences = [
            _who(regret, margin),
            *_about_what(regret, state, target_name),
            _next(regret, state, margin, env_name, overlap, learned, trained_by, weights),
        ]
    return Verdict(state, headline, tuple(sentences))


def verdict_without_regret(reason: str, count: int, env_name: str = "environment") -> Verdict:
    """The verdict where the regret cannot be had; ``reason`` says why and ends with a sentence on the remedy."""
    *whys, remedy = in_sentences(reason)
    why = ". ".join(whys)
    told = [f"{why[0].upper()}{why[1:]}.", f"Next: {remedy[0].lower()}{remedy[1:]}."] if why else [reason]
    everywhere = _everywhere(count, env_name)
    headline = f"Whether one head serves {everywhere} is not known: they cannot be given heads of their own."
    return Verdict(CANNOT_TELL, headline, tuple(told))


def verdict_without_draws(regret: RegretResult, env_name: str = "environment") -> Verdict:
    """The verdict where no interval was asked for (``n_boot=0``): the point estimates, and how to have one."""
    headline = (
        f"Whether one head serves {_everywhere(len(regret.labels), env_name)} is not settled by point estimates, and "
        f"{spelt('n_boot', 0)} asks for no more."
    )
    known, who = regret.known, _who(regret, math.inf)
    if known and math.isfinite(known[regret.worst].value):
        cost = percent(max(known[regret.worst].value, 0.0))
        who = f"Sharing one head seems to cost {quoted(regret.worst)} most, {cost} more loss than its own head would."
    return Verdict(CANNOT_TELL, headline, (who, f"Next: audit again with {spelt('n_boot', 999)}."))


def _everywhere(count: int, env_name: str) -> str:
    return f"{'both' if count == 2 else f'all {count}'} {plural(env_name)}"


def most_affected(regret: RegretResult, margin: float) -> list[tuple[Hashable, Estimate]]:
    """Environments with a regret, the largest first; ahead of them all the largest that the state rests on.

    That is nearly always the largest of all. But the largest may be vague and another one surely over the margin; or
    all intervals but one of a smaller regret may be below it.
    """
    ranked = list(regret.known.items())
    over = [item for item in ranked if item[1].interval[0] > margin]
    first = (over or [item for item in ranked if item[1].interval[1] >= margin] or ranked)[:1]
    return first + [item for item in ranked if item not in first]


def _who(regret: RegretResult, margin: float) -> str:
    affected = most_affected(regret, margin)
    if not affected:
        hidden = any(makes_errors(regret, label) for label in regret.labels)
        also = ", or noise in the heads hides what the shared one costs" if hidden else ""
        return f"No regret could be computed: own heads make no error{also}."
    label, first = affected[0]
    if math.isinf(first.value):
        return f"The own head of {quoted(label)} makes no error there, and a head that all share does."
    if max(one.value for _, one in affected) < VISIBLE and not first.interval[0] > margin:
        return f"Sharing one head costs none of them more loss on these rows{_at_most(regret, margin)}."
    cost = f"{percent(first.value)} more loss" if first.value >= VISIBLE else "no more loss"
    text = f"Sharing one head costs {quoted(label)} {cost} than its own head would{_range(first, margin, '95 %: ')}"
    if len(affected) == 1 or affected[1][1].value < VISIBLE:
        return f"{text}."
    label, second = affected[1]
    perhaps = "perhaps more, " if second.value > first.value and first.interval[0] > margin else ""
    return f"{text}; {quoted(label)} {perhaps}{percent(second.value)}{_range(second, margin)}."


def _at_most(regret: RegretResult, margin: float) -> str:
    """How much it may cost all the same, by the interval; "" without one, or where all of it is below 0."""
    interval = regret.worst_interval
    if not math.isfinite(interval[1]):
        return ""
    if not bounded(interval):
        return f"; how much it may cost {NO_BOUND}"
    return f"; it may cost up to {outwards(interval, margin)[1]} %" if interval[1] > 0 else ""


def _range(estimate: Estimate, margin: float, level: str = "") -> str:
    """The interval in brackets; "" without one."""
    span = between(estimate.interval, margin)
    return f" ({level}{span})" if span else ""


def _about_what(regret: RegretResult, state: str, target_name: str) -> list[str]:
    names = driving_columns(regret, 3) if state in (NOT_INVARIANT, NEGLIGIBLE) else ()
    words = [f"the overall level of {target_name}" if name == regret.columns[-1] else name for name in names]
    return [f"They disagree mostly about {' · '.join(words)}."] if words else []


def _next(
    regret: RegretResult,
    state: str,
    margin: float,
    env_name: str,
    overlap: Overlap | None,
    learned: bool,
    trained_by: str,
    weights: int,
) -> str:
    first = next((label for label, _ in most_affected(regret, margin)), None)
    if state == NOT_INVARIANT:
        return next_if_not_invariant(regret, first, margin, env_name, overlap, learned, trained_by)
    if state == CANNOT_TELL:
        return next_if_unsettled(regret, first, margin, env_name, weights, learned)
    return next_if_settled(env_name, overlap)


def overlap_in(results: Mapping[str, Any]) -> Overlap | None:
    """Overlap of the representation, which is what heads see, or else of what DRIC compares, mostly the inputs.

    ``None`` without density ratios. An audit speaks of no other: where one has rows, the other may have none.
    """
    return next((results[name].overlap for name in OVERLAP_OF if name in results), None)


def overlap_of(results: Mapping[str, Any]) -> str:
    """Whose overlap that is, in words."""
    return next((whose for name, whose in OVERLAP_OF.items() if name in results), "")
