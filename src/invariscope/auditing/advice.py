"""What to do next: which environment to look at, how many rows would settle it, whose heads cannot be compared."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from invariscope.results import Estimate, Overlap, RegretResult
from invariscope.rows.arrays import Floats
from invariscope.rows.spelling import spelling, spelt
from invariscope.wording import UNBOUNDED, alternatives, between, bounded, listed, plural, quoted, round_up

FEWEST_ROWS = 50  # no smaller number is worth advising
VAGUE = 10  # times the margin: a regret that may be as large is not near the margin but simply unknown
NEAR = 0.5  # of the margin: a regret that differs from it by more does not seem to sit there
SURE = 2  # times the rows that bring an end just to the margin, where it stays beyond it in half of all cases
MOST_ROWS = 100  # times the rows an environment has: beyond that, more rows are no advice
OUTNUMBERED = 10  # times its rows: an environment of fewer than the median over it brings more noise than it tells
MOST_NAMED = 5  # environments in one sentence
ROWS_PER_WEIGHT = 5  # with fewer, classes are often separated without error for want of rows alone
#: Of what the head of the odd one costs: what heads of its kind may cost an environment that suffers from it. Between
#: the ends of a ladder of even steps it is a quarter, and there neither end is why the other suffers.
ALIKE = 0.2


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


def makes_errors(regret: RegretResult, label: Hashable) -> bool:
    """Whether an environment's own head has a loss there that others can be compared with."""
    place = regret.labels.index(label)
    return bool(np.isfinite(np.delete(regret.pairs[place], place)).any())


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


@dataclass(frozen=True)
class MoreRows:
    """So many more ``rows`` in the environment ``where``, or in each (``None``), would probably settle the question, by
    what they say of ``deciding``; ``over`` says that its regret seems to be over the margin."""

    rows: float
    where: Hashable | None
    deciding: Hashable
    over: bool


def rows_needed(regret: RegretResult, margin: float) -> MoreRows | None:
    """The fewest rows that would probably settle the question; ``None`` where nothing is known.

    One regret that is surely over the margin settles it, so of those that seem to be over it the one counts that needs
    the fewest rows. If none seems to be, all must be surely under it, and the one counts that needs the most.
    Infinite if that takes more than 100 times the rows there are.
    """
    known = {label: one for label, one in regret.known.items() if math.isfinite(one.value)}
    over = {label: one for label, one in known.items() if one.value >= margin}
    under = {label: one for label, one in known.items() if one.interval[1] >= margin}
    few = 2 * regret.rows.min() < np.median(regret.rows)
    small = (regret.labels[int(np.argmin(regret.rows))],) if few else ()

    def plan(label: Hashable, where: Hashable | None) -> MoreRows:
        factor = _times_the_rows(known[label], margin)
        return MoreRows(max(_rows_in(regret, label, where, factor), FEWEST_ROWS), where, label, bool(over))

    def cost(one: MoreRows) -> float:
        return one.rows * (len(regret.labels) if one.where is None else 1)

    if over:
        # what may be nothing but chance is not asked about alone: more rows may well bring it under the margin
        own = {label: (label,) if one.interval[0] > 0 else () for label, one in over.items()}
        return min((plan(label, where) for label in over for where in (None, *small, *own[label])), key=cost)
    if not under:
        return None
    alone = under if len(under) == 1 else ()
    enough = [max((plan(label, where) for label in under), key=cost) for where in (None, *small, *alone)]
    return min(enough, key=cost)


def _times_the_rows(estimate: Estimate, margin: float) -> float:
    """With how many times the rows an interval would probably leave the margin: its ends move with 1/√n."""
    value, (low, high) = estimate.value, estimate.interval
    reach = value - low if value >= margin else high - value
    return SURE * (reach / (value - margin)) ** 2 if value != margin else math.inf


def _rows_in(regret: RegretResult, label: Hashable, where: Hashable | None, factor: float) -> float:
    """How many more rows there, or in each, do for the regret of ``label`` what so many times all rows would.

    Noise comes from its own head and from the shared one, w* − w_e = Σ_k (λ_k / Σλ − 1{k = e}) w_k with λ_k the weight
    that environment k has there: so a small environment brings its noise into everyone's regret, and one of many may
    hardly matter to the others. A head w_k has the variance 1 / (λ_k n_k) if its environment is as noisy as it weighs
    little: numbers; classes count alike.
    """
    if not factor <= MOST_ROWS:
        return math.inf
    level = np.ones(len(regret.labels)) if regret.task != "regression" else _noise_levels(regret.own_loss)
    part = 1.0 / level / np.sum(1.0 / level)
    part[regret.labels.index(label)] -= 1.0
    squares = part**2 * level
    noise = squares / regret.rows
    goal = float(noise.sum()) / factor
    if where is None:
        return _in_each(squares, regret.rows, goal)
    place = regret.labels.index(where)
    left = goal - float(np.delete(noise, place).sum())  # what its noise may come to while the others keep theirs
    return float(squares[place] / left - regret.rows[place]) if left > 0 else math.inf


def _noise_levels(own_loss: Floats) -> Floats:
    """What own heads lose; where that is nothing, as much as where it is least, as the shared head weighs them."""
    known = own_loss[own_loss > 0]
    return np.where(own_loss > 0, own_loss, known.min() if len(known) else 1.0)


def _in_each(squares: Floats, rows: Floats, goal: float) -> float:
    """How many more rows in each bring Σ squares / rows down to the goal."""
    low, high = 0.0, float(squares.sum()) / goal
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (squares / (rows + middle)).sum() > goal else (low, middle)
    return high


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


def next_if_unsettled(
    regret: RegretResult, label: Hashable | None, margin: float, env_name: str, weights: int, learned: bool = False
) -> str:
    """What would settle it; ``label`` is the environment that the verdict speaks of, a head has so many ``weights``.

    Of ``learned`` columns, as of a single one, nobody can choose some. To do without environments that are outnumbered
    costs nobody a row elsewhere.
    """
    rows = _rows_that_settle(regret, label, margin, env_name, weights, learned)
    small = outnumbered(regret.labels, regret.rows)
    return f"{rows} Or {_without(small, regret, env_name)}." if small else rows


def outnumbered(labels: Sequence[Hashable], rows: Floats) -> tuple[Hashable, ...]:
    """Environments with so few rows that their noise hides the rest, in which every environment counts alike.

    >>> outnumbered(["a", "b", "c"], np.array([300.0, 6.0, 280.0])), outnumbered(["a", "b"], np.array([300.0, 6.0]))
    (('b',), ())
    """
    small = rows * OUTNUMBERED < np.median(rows)
    enough_left = np.count_nonzero(~small) >= 2
    return tuple(label for label, is_small in zip(labels, small, strict=True) if is_small and enough_left)


def named_outnumbered(small: Sequence[Hashable]) -> str:
    """Their names; of many, how many they are."""
    return listed([quoted(one) for one in small]) if len(small) <= MOST_NAMED else f"the {len(small)} smallest"


def _without(small: Sequence[Hashable], regret: RegretResult, env_name: str) -> str:
    """To drop them or to merge them, in words that can be typed; a shell's option follows in a sentence of its own."""
    most = max(float(regret.rows[regret.labels.index(one)]) for one in small)
    size = f"{'' if len(small) == 1 else 'at most '}{most:,.0f} rows, others have {np.median(regret.rows):,.0f}"
    typed = "" if spelling().shell else f"; {spelt('drop_env', [str(one) for one in small])} of iv.read"
    merge = f"merge {'it' if len(small) == 1 else 'them'} with another {env_name}"
    return f"drop {named_outnumbered(small)} ({size}{typed}), or {merge}"


def _rows_that_settle(
    regret: RegretResult, label: Hashable | None, margin: float, env_name: str, weights: int, learned: bool
) -> str:
    plan = rows_needed(regret, margin)
    unknown = [one for one in regret.labels if one not in regret.known]
    if unknown and (plan is None or not plan.over):  # whatever comes of the others, these keep the question open
        perfect = [one for one in unknown if not makes_errors(regret, one)]
        if not perfect:
            choices = [*_fewer_columns(regret, learned), f"collect more rows in every {env_name}"]
            names = listed([quoted(one) for one in unknown])
            return f"Next: noise in the heads hides what the shared one costs {names}; {alternatives(choices)}."
        return _next_without_errors(regret, perfect, env_name, weights, learned)
    if plan is None or not math.isfinite(regret.worst_interval[1]):
        return f"Next: ask for intervals ({spelling().name('n_boot')}), without which nothing is sure."
    vaguest, estimate = max(regret.known.items(), key=lambda item: item[1].interval[1])
    deciding = regret.per_environment[plan.deciding] if plan.over else estimate
    if math.isfinite(plan.rows) and deciding.interval[1] <= UNBOUNDED:
        return f"Next: about {round_up(plan.rows):,} more rows in {_where(plan, label, regret, env_name)}."
    near = abs(regret.per_environment[plan.deciding].value - margin) <= NEAR * margin
    if estimate.interval[1] > VAGUE * margin or not near:
        size = f"anywhere in {between(estimate.interval, margin)}" if bounded(estimate.interval) else "without a bound"
        rows = regret.rows[regret.labels.index(vaguest)]
        choices = [*_fewer_columns(regret, learned), f"collect more rows in {quoted(vaguest)}"]
        # of two, nothing would be left to compare; one that is outnumbered is spoken of next
        if len(regret.labels) > 2 and vaguest not in outnumbered(regret.labels, regret.rows):
            choices.append(f"merge it with another {env_name}")
        return f"Next: {rows:,.0f} rows leave the cost to {quoted(vaguest)} {size}; {alternatives(choices)}."
    return (
        f"Next: the cost to {quoted(plan.deciding)} seems to be the margin itself; if so, more rows will hardly settle "
        f"it, and another {env_name} may."
    )


def _where(plan: MoreRows, label: Hashable | None, regret: RegretResult, env_name: str) -> str:
    """Where to collect rows, with the reason where that is not the environment that the verdict speaks of."""
    by = "" if plan.deciding in (label, plan.where) else f", by the cost to {quoted(plan.deciding)}"
    if plan.where is None:
        each = f"both {plural(env_name)}" if len(regret.labels) == 2 else f"every {env_name}"
        return f"{each} would probably settle it{by}"
    lacking = ", where the fewest are lacking," if plan.over else ", where the most are lacking,"
    reason = "" if plan.where == label else lacking if plan.where == plan.deciding else ", which has the fewest,"
    return f"{quoted(plan.where)}{reason} would probably settle it{by}"


def _fewer_columns(regret: RegretResult, learned: bool) -> list[str]:
    """The advice to use fewer columns, where there are several and the user's own."""
    return ["use fewer columns"] if len(regret.columns) > 2 and not learned else []  # the last one is the level


def _next_without_errors(
    regret: RegretResult, unknown: list[Hashable], env_name: str, weights: int, learned: bool
) -> str:
    """Own heads without errors: classes are split for want of rows, or the target is given away."""
    rows = {label: float(regret.rows[regret.labels.index(label)]) for label in unknown}
    few, most, enough = min(rows, key=rows.__getitem__), max(rows, key=rows.__getitem__), ROWS_PER_WEIGHT * weights
    if regret.task != "regression" and rows[most] < enough:
        choices = [*_fewer_columns(regret, learned), f"collect at least {round_up(enough):,} rows in every {env_name}"]
        return (
            f"Next: {rows[few]:,.0f} rows in {quoted(few)} are too few for the {weights:,} weights of a head of its "
            f"own; {alternatives(choices)}."
        )
    return (
        f"Next: the head of {quoted(most)} makes no error on its own rows; look for a column that gives "
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
