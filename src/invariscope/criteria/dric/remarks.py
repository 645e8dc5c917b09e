"""What a user should know about a DRIC before reading its number, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from invariscope.criteria.dric.result import InformationBound
from invariscope.ratios.density_ratio import DensityRatio
from invariscope.results import Overlap
from invariscope.rows.environments import Environments
from invariscope.rows.spelling import spelling, spelt
from invariscope.wording import listed, names, number

FAR_FROM_ONE = 2.0  # a mean of the ratio off by more than this factor is reported
MOST_NAMED = 6  # environments
NOT_REFITTED = (
    "The ratio was given, so it was not refitted: the interval leaves its error out, and there are no shuffles."
)
OUTSIDE = (
    "Q̂ lies outside the middle of its refits: where it hardly moves, drawing rows anew adds noise to numerator and "
    "baseline alike. Its size says little; a baseline that does move makes it steadier."
)


def without_common_ground(overlap: Overlap) -> bool:
    """Whether rows of no environment can stand in for those of any other: no gap then says anything."""
    count = len(overlap.labels)
    return all(overlap.pair_verdicts[a][b] == "none" for a in range(count) for b in range(count) if a != b)


def remarks(
    data: Environments,
    ratios: Sequence[DensityRatio],
    apart: Sequence[bool],
    denominator: float,
    spread: float,
    terms: str,
) -> list[str]:
    """Notes on the rows, the baseline, the size of what stands in the sums and each ratio.

    ``apart`` says of every ratio that its environments share no ground, for which Q̂ is refused.
    """
    notes = list(data.notes)
    if not denominator > 0:
        notes.append(f"The baseline's {terms} do not move between environments, so there is nothing to divide by.")
    elif math.isfinite(spread) and not any(apart):
        notes.append(
            f"The spread of the model's {terms} is {number(spread)} times that of the baseline's. {number(spread)} × "
            f"the baseline, which says nothing else, has a Q̂ of {number(spread**2)}."
        )
    places = ("",) if len(ratios) == 1 else ("On the representation: ", "On X: ")
    for fitted, refused, where in zip(ratios, apart, places, strict=True):
        about = [_refusal(data)] if refused else _on_ratio(data, fitted)
        notes.extend(where + note for note in about)
    return notes


def fitted_here() -> str:
    """Said in an audit that fitted the baseline itself."""
    return (
        "The baseline, linear ERM, was fitted on the audited rows themselves, so Q̂ compares a model from elsewhere "
        f"with one fitted here: {spelt('baseline')} takes one from elsewhere, too."
    )


def two_sides(value: float, bound: InformationBound) -> str:
    """Where the two sides of eq. 5 differ: said with conditional means, for which both can be computed."""
    left = number(value) if math.isfinite(value) else "not known"
    return (
        f"The two sides of eq. 5 are {left} and {number(bound.variance_form)}. They are not equal: the left "
        "compares what different environments say about the same rows, the right is the mean variance of what each "
        "says within itself, which is above 0 for invariant representations, too."
    )


def _refusal(data: Environments) -> str:
    labels = list(names(data.labels))
    more = len(labels) - MOST_NAMED
    named = listed(labels) if more <= 0 else f"{', '.join(labels[:MOST_NAMED])} and {more} more"
    published = spelling().call("iv.dric", 'overlap="ignored"')
    return (
        f"No Q̂: there is hardly any overlap between any two of {named}, so ratios are noise and no gap says anything "
        f"about the model. Compare environments whose rows are more alike; {published} gives the published number all "
        "the same."
    )


def _on_ratio(data: Environments, fitted: DensityRatio) -> list[str]:
    mean = fitted.overlap.mean_ratio
    off = np.maximum(mean, 1.0 / np.maximum(mean, 1e-300))
    a, b = np.unravel_index(int(np.argmax(off)), off.shape)
    about = list(fitted.notes)
    if off[a, b] > FAR_FROM_ONE:
        about.append(
            f"Rows of {data.labels[b]} cannot stand in for those of {data.labels[a]}: the mean of the ratio is "
            f"{mean[a, b]:.2g} and should be 1, so a gap between them says nothing about the model."
        )
    return about
