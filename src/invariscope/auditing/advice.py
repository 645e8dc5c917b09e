"""What to do next: which environment to look at, how many rows would settle it, whose heads cannot be compared."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable

import numpy as np

from invariscope.results import Overlap, RegretResult
from invariscope.rows.arrays import Floats
from invariscope.wording import UNBOUNDED, between, bounded, listed, plural, quoted, round_up

FEWEST_ROWS = 50  # no smaller number is worth advising
VAGUE = 10  # times the margin: a regret that may be as large is not near the margin but simply unknown
MOST_ROWS = 100  # times the rows an environment has: beyond that, more rows are no advice
ROWS_PER_WEIGHT = 5  # with fewer, classes are often separated without error for want of rows alone
ALIKE = (
    0.25  # of what the head of the odd one costs: what heads of its kind may cost an environment that suffers from it
)


# --- what was measured ------------------------------------------------------------------------------------------------
def driving_columns(regret: RegretResult, count: int, label: Hashable = None) -> tuple[str, ...]:
    """Columns that carry the most of the regret, everywhere or in one environment; only those worth naming."""
    rows = slice(None) if label is None else [regret.labels.index(label)]
    total = np.nansum(np.maximum(regret.drivers[rows], 0.0), axis=0)
    if not total.sum() > 0:
        return ()
    order = np.argsort(-total)[:count]
    return tuple(regret.columns[j] for j in order if total[j] >= 0.1 * total.sum())


def comparable(regret: RegretResult, overlap: Overlap | None) -> Floats:
    """``regret.pairs`` without an environment's own head, and without heads of environments that have no rows like its.

    There a head only extrapolates: its loss may be anything, and says nothing about a difference.
    """
    pairs = np.where(np.eye(len(regret.labels), dtype=bool), np.nan, regret.pairs)
    if overlap is not None:
        place = [overlap.labels.index(label) for label in regret.labels]
        verdicts = np.array(overlap.pair_verdicts)[np.ix_(place, place)]
        pairs[verdicts == "none"] = np.nan
    return pairs


def odd_one_out(pairs: Floats) -> int:
    """The environment whose head suits the others least, and theirs it; −1 where nothing can be compared.

    The largest regret may be that of a bystander which the odd one's pull on the shared head has hurt.
    """
    if len(pairs) < 3 or np.isnan(pairs).all():
        return -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a row without any number: its own head makes no error
        strange = np.nan_to_num(np.nanmedian(pairs, axis=0)) + np.nan_to_num(np.nanmedian(pairs, axis=1))
    return int(np.argmax(strange))


def culprit(regret: RegretResult, label: Hashable, margin: float, overlap: Overlap | None) -> Hashable | None:
    """The odd one out, if it is why ``label`` suffers: its head is not for ``label``, and all others' are."""
    pairs = comparable(regret, overlap)
    suffers, odd = regret.labels.index(label), odd_one_out(pairs)
    if odd in (-1, suffers):
        return None
    others = np.delete(pairs[suffers], [suffers, odd])
    from_odd = pairs[suffers, odd]
    fine = max(margin, ALIKE * from_odd)
    explains = from_odd > max(margin, regret.per_environment[label].value) and bool(np.all(others <= fine))
    return regret.labels[odd] if explains else None


def rows_needed(regret: RegretResult, margin: float) -> tuple[Hashable, float]:
    """The environment that keeps the question open, and about how many more rows, there and elsewhere, would settle it.

    The end of its interval that lies beyond the margin must come back to it; ends move with 1/√n. Infinite if that
    takes more than 100 times the rows there are.
    """
    known = regret.known
    if not known:
        return regret.worst, math.inf
    label, widest = max(known.items(), key=lambda item: item[1].interval[1])
    low, high = widest.interval
    reach = high - widest.value if widest.value < margin else widest.value - low
    distance = abs(widest.value - margin)
    factor = (reach / distance) ** 2 if distance > 0 else math.inf
    # environments count alike in the shared head, so a small one brings its noise into everyone's regret
    fewest = int(np.argmin(regret.rows))
    if 2 * regret.rows[fewest] < regret.rows[regret.labels.index(label)]:
        label = regret.labels[fewest]
    rows = float(regret.rows[regret.labels.index(label)])
    # an interval that all but misses the margin still needs a fair number of rows to do so surely
    return label, max(rows * max(factor - 1.0, 0.25), FEWEST_ROWS) if factor <= MOST_ROWS else math.inf


# --- in words ---------------------------------------------------------------------------------------------------------
def next_if_not_invariant(
    regret: RegretResult,
    label: Hashable,
    margin: float,
    env_name: str,
    overlap: Overlap | None,
    learned: bool,
    trained_by: str,
) -> str:
    """What to look at where ``label`` surely suffers; no training is advised to a model that was trained for it."""
    odd = culprit(regret, label, margin, overlap)
    because = "" if odd is None else f"{quoted(label)} suffers because {quoted(odd)} pulls the shared head away; "
    where = quoted(label if odd is None else odd)
    names = [name for name in driving_columns(regret, 1, label) if name != regret.columns[-1] and not learned]
    look = f"look at how {names[0]} is recorded in {where}" if names else f"find out what sets {where} apart"
    apart = apart_clause(overlap, env_name)
    plain = trained_by == "erm"
    if apart:
        then = "before you train an invariant model" if plain else f"before you judge what {trained_by} has done"
        return f"Next: {because}{look}; {apart}, so compare like with like (restrict or reweight rows) {then}."
    then = "if it is right," if names else "then"
    train = "train an invariant model (invariscope train --objective vrex) or " if plain else ""
    return f"Next: {because}{look}; {then} {train}keep a head per {env_name}."


def next_if_settled(env_name: str, overlap: Overlap | None) -> str:
    """What would make a good answer hold further."""
    apart = apart_clause(overlap, env_name)
    if apart:
        return (
            f"Next: {apart}, so a shared head extrapolates there; collect "
            f"{plural(env_name)} that overlap before you rely on it."
        )
    return (
        f"Next: this speaks for the {plural(env_name)} in the data; collect more, and different ones, before you "
        "rely on it elsewhere."
    )


def next_if_unsettled(regret: RegretResult, label: Hashable | None, margin: float, env_name: str, weights: int) -> str:
    """What would settle it; ``label`` is the environment that the verdict speaks of, a head has so many ``weights``."""
    unknown = [one for one in regret.labels if one not in regret.known]
    if unknown and not regret.worst_interval[1] >= margin:  # what is known is settled, or nothing is known
        return _next_without_errors(regret, unknown, env_name, weights)
    if not math.isfinite(regret.worst_interval[1]):
        return "Next: ask for intervals (n_boot), without which nothing is sure."
    open_one, rows = rows_needed(regret, margin)
    vaguest, estimate = max(regret.known.items(), key=lambda item: item[1].interval[1])
    high = estimate.interval[1]
    if math.isfinite(rows) and high <= UNBOUNDED:
        reason = ", whose interval reaches furthest" if open_one == vaguest else ", which has the fewest"
        where = quoted(open_one) + ("" if open_one == label else reason)
        return f"Next: about {round_up(rows):,} more rows in {where}, and as many elsewhere, would settle it."
    if high > VAGUE * margin:
        size = f"anywhere in {between(estimate.interval, margin)}" if bounded(estimate.interval) else "without a bound"
        return (
            f"Next: too few rows for so many columns leave the cost to {quoted(vaguest)} {size}; use fewer columns, or "
            f"merge it with another {env_name}."
        )
    return (
        f"Next: {quoted(open_one)} sits at the margin, where more rows will hardly settle it; another {env_name} may."
    )


def _next_without_errors(regret: RegretResult, unknown: list[Hashable], env_name: str, weights: int) -> str:
    """Own heads without errors: classes are split for want of rows, or the target is given away."""
    fewest = min(unknown, key=lambda label: float(regret.rows[regret.labels.index(label)]))
    rows, enough = regret.rows[regret.labels.index(fewest)], ROWS_PER_WEIGHT * weights
    if regret.task != "regression" and rows < enough:
        return (
            f"Next: {rows:,.0f} rows in {quoted(fewest)} are too few for the {weights:,} weights of a head of its own; "
            f"use fewer columns, or collect at least {round_up(enough):,} rows in every {env_name}."
        )
    return (
        f"Next: the head of {quoted(unknown[0])} makes no error on its own rows; look for a column that gives "
        "the target away, and audit rows that no model was trained on, and more of them."
    )


def apart_clause(overlap: Overlap | None, env_name: str) -> str:
    """Which environments hardly overlap with others, as a clause; "" where all do."""
    verdicts = () if overlap is None else zip(overlap.labels, overlap.verdicts, strict=True)
    alone = [label for label, word in verdicts if word == "none"]
    if overlap is None or not alone:
        return ""
    if len(alone) == len(overlap.labels):
        return f"the {plural(env_name)} hardly overlap"
    verb = "hardly overlaps" if len(alone) == 1 else "hardly overlap"
    return f"{listed([quoted(label) for label in alone])} {verb} with the rest"
