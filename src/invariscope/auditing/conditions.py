"""Conditions on an audit, such as regret>0.1: read strictly, judged or refused, never passed over in silence."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from invariscope.auditing.verdict import STATES
from invariscope.criteria.registry import CRITERIA
from invariscope.errors import InputError
from invariscope.rows.spelling import spelling
from invariscope.wording import LOSS_NAMES

if TYPE_CHECKING:
    from invariscope.auditing.record import Audit

OF_REGRET = ("regret", "regret-low", "p", "explained")
NUMERIC = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_FORM = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\s*(<=|>=|==|!=|<|>|=)\s*([^<>=!\s][^<>=!]*)")


@dataclass(frozen=True)
class Condition:
    """One comparison; ``limit`` is a number, or a state in small letters for the verdict."""

    quantity: str
    comparison: str
    limit: float | str

    def __str__(self) -> str:
        return f"{self.quantity}{self.comparison}{self.limit if isinstance(self.limit, str) else f'{self.limit:g}'}"


def parse(values: Sequence[str], n_boot: int) -> tuple[Condition, ...]:
    """Conditions as people write them, each text one or several with commas between.

    ``n_boot`` is the number of draws the audit will have: a p-value it cannot reach is refused.

    >>> [str(condition) for condition in parse(["regret > 0.1,p<0.01", "verdict=not-invariant"], 999)]
    ['regret>0.1', 'p<0.01', 'verdict=not-invariant']
    """
    conditions = tuple(_condition(text.strip()) for value in values for text in value.split(","))
    smallest, draws = 1 / (n_boot + 1), spelling().name("n_boot")
    for condition in conditions:
        asks_for_less = condition.quantity in ("p", "influence-p") and condition.comparison in ("<", "<=")
        if asks_for_less and not NUMERIC[condition.comparison](smallest, condition.limit):
            raise InputError(
                f"{condition} can never be met: with {n_boot} draws ({draws}) the smallest p is {smallest:.2g}. Raise "
                f"{draws}, or the limit."
            )
    return conditions


def met(condition: Condition, audit: Audit) -> str | None:
    """What the audit found, in words, if it meets the condition."""
    if isinstance(condition.limit, str):
        state = _slug(audit.state)
        same = state == condition.limit
        return f"the verdict is {state}" if same == (condition.comparison != "!=") else None
    value, words = _value(condition, audit)
    if not math.isfinite(value):
        remedy = "leave the condition out" if audit.settings.n_boot else f"raise {spelling().name('n_boot')} from 0"
        raise InputError(f"{condition} cannot be judged: {words} is not a number here; {remedy}")
    return f"{words} is {value:.4g}" if NUMERIC[condition.comparison](value, condition.limit) else None


def _condition(text: str) -> Condition:
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(f'"{text}" is not a condition: write it like regret>0.1, p<0.01 or verdict=not-invariant')
    name, comparison, limit = form[1].lower(), form[2], form[3].strip()
    if name == "verdict":
        states = [_slug(state) for state in STATES]
        if comparison not in ("=", "==", "!=") or _slug(limit) not in states:
            raise InputError(f'"{text}": verdict takes = or != and one of {", ".join(states)}')
        return Condition(name, "!=" if comparison == "!=" else "=", _slug(limit))
    quantity = _quantity(name, text)
    if comparison not in NUMERIC:
        raise InputError(f'"{text}": a number is compared with <, <=, > or >=')
    try:
        number = float(limit)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f'"{text}": "{limit}" is not a number (10 % is written 0.1)')
    return Condition(quantity, comparison, number)


def _quantity(name: str, text: str) -> str:
    for known in (*OF_REGRET, "influence-p", *CRITERIA):
        if name.replace("_", "-") == known.replace("_", "-"):
            return known
    others = ", ".join(criterion for criterion in CRITERIA if criterion != "regret")
    raise InputError(
        f'"{text}": there is no quantity "{name}"; there are regret, regret-low, p, explained, verdict, '
        f"influence-p, {others}"
    )


def _value(condition: Condition, audit: Audit) -> tuple[float, str]:
    name = "influence_index" if condition.quantity == "influence-p" else condition.quantity
    name = "regret" if name in OF_REGRET else name
    if name not in audit.results:
        reason = audit.left_out.get(name, f'"{name}" was not asked for; add it to the criteria')
        raise InputError(f"{condition} cannot be judged: {reason}")
    result = audit.results[name]
    match condition.quantity:
        case "regret":
            return result.per_environment[result.worst].value, f"the largest regret, in {result.worst},"
        case "regret-low":
            surest = max(result.known, key=lambda label: result.known[label].interval[0], default=result.worst)
            return result.worst_interval[0], f"the lower end of the largest regret, in {surest},"
        case "p":
            return result.pvalue, "p"
        case "explained":
            return result.explained, "the share the shared head explains"
        case "influence-p":
            return result.pvalue, "p of the influence index"
        case "worst_case":
            return result.value, f"the worst-case {LOSS_NAMES[result.of]} at half of R"
        case _:
            return result.value, CRITERIA[name].title


def _slug(words: str) -> str:
    return re.sub(r"[\s_]+", "-", words.strip()).lower()
