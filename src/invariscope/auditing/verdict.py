"""From numbers to plain words: the verdict is set by an interval and a margin of practical importance, not by n."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.results import Estimate, Overlap, RegretResult
from invariscope.wording import listed, percent, plural, points, pvalue, quoted, round_up

NOT_INVARIANT = "NOT INVARIANT"
INVARIANT = "INVARIANT"
NEGLIGIBLE = "DIFFERENT BUT NEGLIGIBLE"
CANNOT_TELL = "CANNOT TELL YET"
UNINFORMATIVE = "UNINFORMATIVE"
STATES = (NOT_INVARIANT, INVARIANT, NEGLIGIBLE, CANNOT_TELL, UNINFORMATIVE)

MARGIN = 0.02  # extra risk below which a difference is of no practical importance
ALPHA = 0.05
INFORMATIVE = 0.01  # share of the loss a head must remove before its invariance means anything
VISIBLE = 0.0005  # shares below this read as nothing
FEWEST_ROWS = 50  # no smaller number is worth advising
VAGUE = 10  # times the margin: a regret that may be as large is not near the margin but simply unknown
UNKNOWN = 10.0  # a regret that may be tenfold is of no known size, and no advice on rows can rest on it
MOST_ROWS = 100  # times the rows an environment has: beyond that, more rows are no advice


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

    | interval of the largest regret                | state                                                        |
    |-----------------------------------------------|--------------------------------------------------------------|
    | above the margin                              | not invariant                                                |
    | below the margin, score test does not reject  | invariant, as far as these heads and environments can tell   |
    | below the margin, score test rejects          | different but negligible                                     |
    | contains the margin                           | cannot tell yet                                              |

    A representation from which neither the shared head nor the environments' own heads predict anything is
    uninformative, whatever its regret.
    """
    if max(regret.explained, regret.explained_own) < INFORMATIVE:
        return UNINFORMATIVE
    low, high = regret.worst_interval
    if low > margin:
        return NOT_INVARIANT
    if high < margin and len(_known(regret)) == len(regret.labels):
        return INVARIANT if regret.pvalue >= alpha else NEGLIGIBLE
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
) -> Verdict:
    """State, headline and sentences: who disagrees, by how much and how surely; about what; what to do next.

    ``learned`` columns are a model's own (hidden units, a score): nobody can look at how they were recorded.
    ``trained_by`` is the objective the model was trained with, where that is known.
    """
    state = state_of(regret, margin, alpha)
    everywhere = _everywhere(len(regret.labels), env_name)
    p = f" ({pvalue(regret.pvalue, len(regret.null))})" if math.isfinite(regret.pvalue) else ""
    headline = {
        NOT_INVARIANT: f"One head does not serve {everywhere}{p}.",
        INVARIANT: f"One head serves {everywhere}, as far as linear heads on these rows can tell{p}.",
        NEGLIGIBLE: f"One head is not best everywhere{p}, but sharing it costs under {percent(margin)} anywhere.",
        CANNOT_TELL: f"The rows do not settle whether one head serves {everywhere} to within {percent(margin)}{p}.",
        UNINFORMATIVE: (
            f"No linear head predicts {target_name} from this representation, so its invariance means nothing."
        ),
    }[state]
    if state == UNINFORMATIVE:
        removed = max(regret.explained, 0.0)
        what = "variance" if regret.task == "regression" else "log-loss"
        sentences = [
            f"The shared head removes {removed:.1%} of the {what} of {target_name} on rows it has not seen.",
            "Next: improve the representation first, then audit it again.",
        ]
    else:
        sentences = [
            _who(regret),
            *_about_what(regret, state, target_name),
            _next(regret, state, margin, env_name, overlap, learned, trained_by),
        ]
    return Verdict(state, headline, tuple(sentences))


def verdict_without_regret(reason: str, count: int, env_name: str = "environment") -> Verdict:
    """The verdict where the regret cannot be had; ``reason`` says why and ends with a sentence on the remedy."""
    why, _, remedy = reason.rpartition(". ")
    sentences = [f"{why[0].upper()}{why[1:]}.", f"Next: {remedy[0].lower()}{remedy[1:]}"] if why else [reason]
    everywhere = _everywhere(count, env_name)
    headline = f"Whether one head serves {everywhere} is not known: they cannot be given heads of their own."
    return Verdict(CANNOT_TELL, headline, tuple(sentences))


def verdict_without_draws(regret: RegretResult, env_name: str = "environment") -> Verdict:
    """The verdict where no interval was asked for (``n_boot=0``): the point estimates, and how to have one."""
    headline = (
        f"Whether one head serves {_everywhere(len(regret.labels), env_name)} is not settled by point estimates, and "
        "n_boot=0 asks for no more."
    )
    who = _who(regret)
    known = _known(regret)
    if known and math.isfinite(known[regret.worst].value):
        cost = percent(max(known[regret.worst].value, 0.0))
        who = f"Sharing one head seems to cost {quoted(regret.worst)} most, {cost} more loss than its own head would."
    return Verdict(CANNOT_TELL, headline, (who, "Next: audit again with n_boot=999."))


def _everywhere(count: int, env_name: str) -> str:
    return f"{'both' if count == 2 else f'all {count}'} {plural(env_name)}"


def rows_needed(regret: RegretResult, margin: float) -> tuple[object, float]:
    """The environment that keeps the question open, and about how many more rows, there and elsewhere, would settle it.

    The end of its interval that lies beyond the margin must come back to it; ends move with 1/√n. Infinite if that
    takes more than 100 times the rows there are.
    """
    known = _known(regret)
    if not known:
        return regret.worst, math.inf
    label, widest = max(known.items(), key=lambda item: item[1].interval[1])
    low = min(widest.interval[0], regret.worst_interval[0])  # the verdict's lower end, adjusted for the search
    reach = widest.interval[1] - widest.value if widest.value < margin else widest.value - low
    distance = abs(widest.value - margin)
    factor = (reach / distance) ** 2 if distance > 0 else math.inf
    # environments count alike in the shared head, so a small one brings its noise into everyone's regret
    fewest = int(np.argmin(regret.rows))
    if 2 * regret.rows[fewest] < regret.rows[regret.labels.index(label)]:
        label = regret.labels[fewest]
    rows = float(regret.rows[regret.labels.index(label)])
    # an interval that all but misses the margin still needs a fair number of rows to do so surely
    return label, max(rows * max(factor - 1.0, 0.25), FEWEST_ROWS) if factor <= MOST_ROWS else math.inf


def _known(regret: RegretResult) -> dict[Hashable, Estimate]:
    """Environments whose regret could be computed."""
    return {label: one for label, one in regret.per_environment.items() if not math.isnan(one.value)}


def _who(regret: RegretResult) -> str:
    known = _known(regret)
    if not known:
        return "No regret could be computed: own heads make no error."
    ranked = sorted(known.items(), key=lambda item: -item[1].value)
    (worst, most), (best, least) = ranked[0], ranked[-1]
    if math.isinf(most.value):
        return f"The own head of {quoted(worst)} makes no error there, and a head that all share does."
    if most.value < VISIBLE:
        return f"Sharing one head costs none of them more loss (at most {percent(max(regret.worst_interval[1], 0.0))})."
    cost = f"{percent(most.value)} more loss than its own head would (95 %: {_range(most)})"
    text = f"Sharing one head costs {quoted(worst)} {cost}"
    if best == worst:
        return f"{text}."
    cost = percent(least.value) if least.value >= VISIBLE else "nothing"
    return f"{text}; {quoted(best)} {cost} ({_range(least)})."


def _about_what(regret: RegretResult, state: str, target_name: str) -> list[str]:
    names = driving_columns(regret, 3) if state in (NOT_INVARIANT, NEGLIGIBLE) else ()
    words = [f"the overall level of {target_name}" if name == regret.columns[-1] else name for name in names]
    return [f"They disagree mostly about {' · '.join(words)}."] if words else []


def driving_columns(regret: RegretResult, count: int) -> tuple[str, ...]:
    """Columns that carry the most of the regret over all environments; only those with a share worth naming."""
    total = np.nansum(np.maximum(regret.drivers, 0.0), axis=0)
    if not total.sum() > 0:
        return ()
    order = np.argsort(-total)[:count]
    return tuple(regret.columns[j] for j in order if total[j] >= 0.1 * total.sum())


def odd_one_out(regret: RegretResult) -> object:
    """The environment whose head suits the others least, and theirs it: of three or more, the one to look at.

    The largest regret may be that of a bystander which the odd one's pull on the shared head has hurt.
    """
    if len(regret.labels) < 3:
        return regret.worst
    off = np.where(np.eye(len(regret.labels), dtype=bool), np.nan, regret.pairs)
    if np.isnan(off).all():
        return regret.worst
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a row without any number: its own head makes no error
        strange = np.nan_to_num(np.nanmedian(off, axis=0)) + np.nan_to_num(np.nanmedian(off, axis=1))
    return regret.labels[int(np.argmax(strange))]


def _next(
    regret: RegretResult,
    state: str,
    margin: float,
    env_name: str,
    overlap: Overlap | None,
    learned: bool,
    trained_by: str,
) -> str:
    apart = _apart(overlap, env_name)
    if state == NOT_INVARIANT:
        return _next_if_not_invariant(regret, env_name, apart, learned, trained_by)
    if state == CANNOT_TELL:
        return _next_if_unsettled(regret, margin, env_name)
    if apart:
        return (
            f"Next: {apart}, so a shared head extrapolates there; collect "
            f"{plural(env_name)} that overlap before you rely on it."
        )
    return (
        f"Next: this speaks for the {plural(env_name)} in the data; collect more, and different ones, before you "
        "rely on it elsewhere."
    )


def overlap_in(results: Mapping[str, Any]) -> Overlap | None:
    """Overlap of the inputs, as DRIC needs it, or else of the representation; ``None`` without density ratios."""
    return next((results[name].overlap for name in ("dric", "transport_gap") if name in results), None)


def _apart(overlap: Overlap | None, env_name: str) -> str:
    """Which environments hardly overlap with others, as a clause; "" where all do."""
    verdicts = () if overlap is None else zip(overlap.labels, overlap.verdicts, strict=True)
    alone = [label for label, word in verdicts if word == "none"]
    if overlap is None or not alone:
        return ""
    if len(alone) == len(overlap.labels):
        return f"the {plural(env_name)} hardly overlap"
    verb = "hardly overlaps" if len(alone) == 1 else "hardly overlap"
    return f"{listed([quoted(label) for label in alone])} {verb} with the rest"


def _next_if_not_invariant(regret: RegretResult, env_name: str, apart: str, learned: bool, trained_by: str) -> str:
    worst = quoted(odd_one_out(regret))
    names = [name for name in driving_columns(regret, 1) if name != regret.columns[-1] and not learned]
    look = f"look at how {names[0]} is recorded in {worst}" if names else f"find out what sets {worst} apart"
    if apart:
        return (
            f"Next: {look}; {apart}, so compare like with like (restrict or reweight "
            "rows) before you train an invariant model."
        )
    then = "if it is right," if names else "then"
    how = "train an invariant model (invariscope train --objective vrex)"
    if trained_by != "erm":
        how = f"train with a larger penalty or another objective than {trained_by}"
    return f"Next: {look}; {then} {how} or keep a head per {env_name}."


def _next_if_unsettled(regret: RegretResult, margin: float, env_name: str) -> str:
    known = _known(regret)
    unknown = [label for label in regret.labels if label not in known]
    if unknown and not regret.worst_interval[1] >= margin:  # what is known is settled, or nothing is known
        return (
            f"Next: the head of {quoted(unknown[0])} makes no error on its own rows; look for a column that gives "
            "the target away, and audit rows that no model was trained on, and more of them."
        )
    label, rows = rows_needed(regret, margin)
    vaguest, estimate = max(known.items(), key=lambda item: item[1].interval[1])
    high = estimate.interval[1]
    if math.isfinite(rows) and high <= UNKNOWN:
        return f"Next: about {round_up(rows):,} more rows in {quoted(label)}, and as many elsewhere, would settle it."
    if high > VAGUE * margin:
        return (
            f"Next: too few rows for so many columns leave the cost to {quoted(vaguest)} anywhere between "
            f"{_range(estimate)}; use fewer columns, or merge it with another {env_name}."
        )
    return f"Next: {quoted(label)} sits at the margin, where more rows will hardly settle it; another {env_name} may."


def _range(estimate: Estimate) -> str:
    low, high = (max(end, 0.0) for end in estimate.interval)
    return f"{points(low)}–{percent(high)}"
