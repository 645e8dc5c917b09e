"""Inverting a Hessian: what is added to it first, and why; and conjugate gradients, where only its products are had."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Booleans, Floats
from invariscope.rows.settings import BEYOND, is_real, shown
from invariscope.wording import percent

NULL_SPACE = 1e-12  # of the largest eigenvalue, parameters in units that make them alike: below lies rounding error
BALANCING = 30  # times the units are changed: each takes the square root of what they are still apart


@dataclass(frozen=True)
class Curvatures:
    """Eigenvalues of a Hessian, and those it has with its parameters in units that make them alike.

    A column in small units has a curvature that is a small number, and is not flat for that: rank is judged by the
    ``balanced`` ones. Whatever has units, V above all, is made of the ``values``.
    """

    values: Floats
    balanced: Floats

    @property
    def live(self) -> Booleans:
        """Which values are not rounding error: the largest, as many as are live among the balanced."""
        flat = np.count_nonzero(np.abs(self.balanced) <= NULL_SPACE * np.abs(self.balanced).max())
        live = np.ones(len(self.values), dtype=bool)
        live[np.argsort(np.abs(self.values), kind="stable")[:flat]] = False
        return live


def balanced(matrix: Floats) -> Floats:
    """Eigenvalues of a symmetric matrix, definite or not, after scaling: every row has a largest entry of 1 then.

    >>> balanced(np.diag([4.0, 1e-14, 0.0])).round(6).tolist()
    [0.0, 1.0, 1.0]
    """
    scaled = np.array(matrix, dtype=np.float64)
    for _ in range(BALANCING):
        largest = np.abs(scaled).max(axis=1)
        scale = 1 / np.sqrt(np.where(largest > 0, largest, 1.0))
        scaled *= scale[:, None] * scale
    return np.asarray(np.linalg.eigvalsh((scaled + scaled.T) / 2))


def noise_level(eigenvalues: Floats, rows: float) -> float:
    """How far sampling moves the eigenvalues of a Hessian that is a mean over ``rows`` rows: λ₁ √(r / n).

    r = Σλ / λ₁ is the effective rank; the operator norm of the error of a mean of n random matrices x xᵀ is of this
    order (Koltchinskii and Lounici, 2017). Directions that are flatter cannot be told from flat ones.

    >>> round(noise_level(np.array([4.0, 3.0, 2.0]), 900), 4)  # √(4 · 9 / 900)
    0.2
    """
    values = np.maximum(eigenvalues, 0.0)
    return math.sqrt(float(values.max() * values.sum()) / rows)


@dataclass(frozen=True)
class Damping:
    """What is ``added`` to the Hessian and why; ``base`` would be enough for curvatures of at least ``floor``, so that
    the Hessian of a deal can be treated as that of the environments."""

    added: float
    base: float
    floor: float
    reason: str
    notes: list[str]

    def of(self, lowest: Floats) -> Floats:
        """Damping for Hessians whose smallest curvatures are ``lowest``."""
        return np.maximum(self.base, self.floor - lowest)


def given_damping(damping: Any) -> float:
    """The number a user gave in place of "auto"."""
    if not is_real(damping) or not 0 <= damping < BEYOND:
        raise InputError(f'damping is {shown(damping)}: give a number of at least 0 and below {BEYOND:g}, or "auto"')
    return float(damping)


def choose_damping(damping: float | str, whole: Curvatures, of_risks: Curvatures, rows: float) -> Damping:
    """Damping from the spectrum, or as given.

    ``whole`` are the curvatures of the whole Hessian, ``of_risks`` those without the penalty: a penalty makes a few
    directions steep on purpose, and the others are not flat for that. Where it takes curvature away, what is missing
    to the sampling noise is added: no direction ends up nearer to zero than that, however nearly damping and a negative
    curvature cancel.
    """
    notes = []
    eigenvalues, live, steepest = whole.values, whole.live, float(of_risks.values.max())
    if not eigenvalues.any():
        raise InputError(
            "the head has no curvature at all: its predictions are saturated (probabilities of exactly 0 or 1) or all "
            "columns are 0, so influences do not exist: give a less extreme head, or none to have one fitted"
        )
    lowest = float(eigenvalues[live].min())
    if not live.all():
        notes.append(
            f"{int((~live).sum())} of {len(live)} directions of the head have no curvature (dead units, constant or "
            "dependent columns, or the softmax's free constant); they carry no gradient and are left out."
        )
    risks = of_risks.values[of_risks.live & (of_risks.values > 0)]
    noise = noise_level(risks, rows)
    if damping != "auto":
        given = given_damping(damping)
        if lowest < 0:
            left = float(np.abs(eigenvalues[live] + given).min())
            rest = " It still has some with this damping." if given < -lowest else ""
            if left < noise:
                rest = f" With this damping a direction is left within {left:.3g} of zero: dividing by it is unstable."
            notes.append(f"{_not_a_minimum(lowest)}{rest}")
        return Damping(given, given, -math.inf, "given", notes)
    small = int(np.count_nonzero(risks < noise))
    base, reason = 0.0, "0: no direction is flatter than sampling noise"
    if small:
        base = noise
        reason = f"sampling noise of the Hessian, {percent(noise / steepest)} of the largest curvature of the risk"
        flatter = f"{'is' if small == 1 else 'are'} flatter than that, and dividing by {'it' if small == 1 else 'them'}"
        notes.append(
            f"Damping {base:.3g} ({reason}) was added to the Hessian: {small} of its directions {flatter} amplifies "
            f"noise.{_for_their_units(of_risks, small, rows)}"
        )
    added = max(base, noise - lowest)
    if added > base:
        reason = "what is missing to the sampling noise of the Hessian of the risks"
        ahead = _not_a_minimum(lowest) if lowest < 0 else "The penalty takes curvature away."
        notes.append(f"{ahead} Damping {added:.3g} gives it back.")
    return Damping(added, base, noise, reason, notes)


def takes_curvature_away(whole: Curvatures, of_risks: Curvatures, rows: float) -> tuple[str, ...]:
    """A note, where a penalty leaves the Hessian nearer to zero, or below it, than the sampling noise of the risks'.

    Influences then are made of what is added to such directions. The Gauss–Newton form of the penalty has none.
    """
    risks = of_risks.values[of_risks.live & (of_risks.values > 0)]
    lowest = float(whole.values[whole.live].min(initial=math.inf))
    if lowest >= min(noise_level(risks, rows), float(risks.min(initial=math.inf))):
        return ()
    ahead = _not_a_minimum(lowest) if lowest < 0 else "The penalty takes curvature away."
    return (
        f"{ahead} So the penalty's second derivatives are taken in the form of Gauss and Newton, without the part that "
        "vanishes where the penalty is met; a number as damping, 0 say, keeps that part.",
    )


def _for_their_units(of_risks: Curvatures, small: int, rows: float) -> str:
    """Advice where directions are flat because of the units of their columns."""
    alike = of_risks.balanced[np.abs(of_risks.balanced) > NULL_SPACE * np.abs(of_risks.balanced).max()]
    if np.count_nonzero(alike < noise_level(alike, rows)) >= small:
        return ""
    return " Columns in small units hardly count then: standardise them, as an audit does."


def _not_a_minimum(lowest: float) -> str:
    return (
        f"The objective has negative curvature at this head (down to {lowest:.3g}): it is not at a minimum, and "
        "influences say less there. Train further, or check penalty and penalty_weight."
    )
