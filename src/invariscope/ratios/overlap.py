"""Do the environments cover the same ground? What the density ratios say about it."""

from __future__ import annotations

import numpy as np

from invariscope.heads.losses import softmax
from invariscope.results import Overlap
from invariscope.rows.arrays import Booleans, Floats
from invariscope.rows.environments import Environments
from invariscope.wording import listed, number, percent

GOOD, WEAK = 0.3, 0.05  # share of effective rows from which overlap is called good, and below which there is none
PLENTY, ENOUGH, FEWEST = 500, 20, 3  # effective rows: weak whatever the share, good at the least, none below
NEARLY_ALL, MOST = 0.98, 0.9  # share of the other environment's rows that must be within reach: for good, and at all
OUT_OF_REACH = 100.0  # of a ratio: where another environment is so much rarer, it has hardly a row to stand in with
CAP = 20.0  # a row that stands for more than this many others is called heavy
UNCALIBRATED = 0.1  # mean distance of predicted and found shares from which a remark is made
MEAN_TOLERANCE = 2.0  # factor by which the mean of an estimated ratio may be off 1: beyond, the estimator has failed
BY_CHANCE = 100.0  # a true ratio has a mean of t or more with probability 1/t at most (Markov), by one heavy row
BINS = 10  # of predicted shares, for the check of calibration
FAR = 1e6  # of a log ratio: a known one may be infinite
SMALLEST = 1e-300
LARGEST_LOG_RATIO = 150.0  # sums of squares of exp() of more than about 340 are infinite


def ratios_within(scores: Floats, environment: int) -> Floats:
    """ρ_{a,b}(x) for all a, at the rows of environment b whose log densities are ``scores``: (n_b, E)."""
    return np.asarray(np.exp(np.minimum(scores - scores[:, [environment]], LARGEST_LOG_RATIO)))


def failed(overlap: Overlap) -> Booleans:
    """Pairs (E, E) whose mean ratio is off by more than ``MEAN_TOLERANCE``, and not by chance or for want of overlap.

    Rows of b that have no like in a have ratios near 0, and their mean says so: that is overlap, and the verdict on the
    pair says it. One far below 1 where the same ratio finds good overlap is the estimator's doing, and so is one far
    above 1: rows of b would be likelier in a than in b, where they come from. A single row may be so by chance,
    which is why the heaviest is left out up to ``BY_CHANCE``.
    """
    mean = overlap.mean_ratio
    overlapping = np.array(overlap.pair_verdicts) == "good"
    high = (mean * (1.0 - overlap.largest) > MEAN_TOLERANCE) | (mean > BY_CHANCE)
    return np.asarray(high | ((mean < 1.0 / MEAN_TOLERANCE) & overlapping))


def mean_off(overlap: Overlap, pairs: Booleans | None = None) -> str:
    """In words, the mean ratio that is farthest off 1, of ``pairs``, or of those that are beyond tolerance; else ""."""
    mean = overlap.mean_ratio
    if pairs is None:
        pairs = (mean > MEAN_TOLERANCE) | (mean < 1.0 / MEAN_TOLERANCE)
    if not pairs.any():
        return ""
    size = np.where(pairs, np.abs(np.log(np.maximum(mean, SMALLEST))), -1.0)
    a, b = np.unravel_index(int(np.argmax(size)), size.shape)
    first, second = overlap.labels[a], overlap.labels[b]
    return (
        f"the ratio of {first} to {second} has the mean {number(mean[a, b])} over the rows of {second}, where a ratio "
        f"has 1: off by more than the tolerance of a factor {MEAN_TOLERANCE:g}"
    )


def overlap_of(
    data: Environments, log_densities: Floats, pairwise: bool = False, backward: Floats | None = None
) -> Overlap:
    """How much of every environment is left when it is weighted to look like each other one, and like all others.

    That is Kish's effective sample size (Σρ)² / Σρ² as a share of the rows, times the mean of ρ, or one over it, where
    that is below 1 (rows that never reach the other environment have equal weights, near 0 or, from some estimators,
    all huge), times the share of the other environment's rows that lie where these ones have any. Whether a row of b
    lies where a has any is told by ρ_{b,a}: that is one over ρ_{a,b}, or ``backward`` has −log ρ_{b,a} where it is not.
    """
    count = len(data)
    shape = (count, count)
    effective, mean_ratio, largest, beyond_cap, reached = (np.empty(shape) for _ in range(5))
    pooled = np.empty(count)
    share = data.rows / data.rows.sum()
    for b in range(count):
        rows = slice(int(data.offsets[b]), int(data.offsets[b + 1]))
        weight = np.ones(rows.stop - rows.start) if data.weight is None else data.weight[rows]
        counted = weight > 0
        logs = np.clip(log_densities[rows] - log_densities[rows, b][:, None], -FAR, FAR)[counted]
        weight = weight[counted]
        others = np.where(np.arange(count) == b, 0.0, share)
        highest = logs.max(axis=1)
        all_others = np.log(np.exp(logs - highest[:, None]) @ (others / others.sum()) + SMALLEST) + highest
        logs = np.column_stack([logs, all_others])
        top = logs.max(axis=0)  # in units of the largest: what is left of far-off environments would be 0 / 0
        ratio = np.exp(logs - top)
        mean = weight @ ratio / weight.sum()
        average = mean * np.exp(np.minimum(top, LARGEST_LOG_RATIO))
        share_left = mean**2 / (weight @ ratio**2 / weight.sum())  # (Σρ)² / Σρ² / n, times mean ρ or one over it
        share_left *= np.minimum(average, 1.0 / np.maximum(average, SMALLEST))
        effective[:, b], pooled[b] = share_left[:-1], share_left[-1]
        mean_ratio[:, b] = average[:-1]
        largest[:, b] = 1.0 / (weight @ ratio[:, :-1])
        beyond_cap[:, b] = weight @ (logs[:, :-1] > np.log(CAP)) / weight.sum()
        near = logs[:, :-1] if backward is None else backward[rows][counted]
        reached[b] = weight @ (near > -np.log(OUT_OF_REACH)) / weight.sum()
    effective *= reached
    others = np.where(np.eye(count, dtype=bool), 0.0, data.rows[:, None])
    reached_of_all = (others * reached).sum(axis=0) / others.sum(axis=0)
    pooled *= reached_of_all
    return Overlap(
        labels=data.labels,
        effective=effective,
        effective_rows=effective * data.rows,
        mean_ratio=mean_ratio,
        largest=largest,
        beyond_cap=beyond_cap,
        reached=reached,
        cap=CAP,
        calibration=(_calibration_of_pairs if pairwise else _calibration)(data, log_densities),
        pair_verdicts=tuple(
            tuple(map(_verdict, shares, data.rows, within)) for shares, within in zip(effective, reached, strict=True)
        ),
        pooled=pooled,
        # nobody has to cover all the others together: how much they cover is in the share already
        verdicts=tuple(_verdict(share, rows, 1.0) for share, rows in zip(pooled, data.rows, strict=True)),
    )


def remarks(overlap: Overlap, wrong: Booleans | None = None) -> tuple[str, ...]:
    """What a user should know before trusting the ratios, in sentences; of ``wrong`` pairs nothing is known."""
    notes = []
    wrong = np.zeros(overlap.effective.shape, dtype=np.bool_) if wrong is None else wrong
    apart = [
        str(label)
        for b, (label, verdict) in enumerate(zip(overlap.labels, overlap.verdicts, strict=True))
        if verdict == "none" and not wrong[:, b].any()
    ]
    pairs = [
        f"{overlap.labels[b]} for {overlap.labels[a]}"
        for a, row in enumerate(overlap.pair_verdicts)
        for b, verdict in enumerate(row)
        if verdict == "none" and not wrong[a, b]
    ]
    if apart:
        notes.append(f"Hardly any overlap of {', '.join(apart)} with the others: ratios there are noise.")
    elif pairs:
        named = ", ".join(pairs[:6]) + (f" and {len(pairs) - 6} more" if len(pairs) > 6 else "")
        notes.append(f"Hardly any overlap where rows of one environment stand in for another: {named}.")
    off = [str(label) for label, d in zip(overlap.labels, overlap.calibration, strict=True) if d > UNCALIBRATED]
    if off:
        up_to = "up to " if len(off) > 1 else ""
        notes.append(
            f"The predicted share of {listed(off)} is off by {up_to}{percent(overlap.calibration.max())} on average: "
            "the estimator does not suit these rows; try another."
        )
    return tuple(notes)


def _calibration(data: Environments, log_densities: Floats) -> Floats:
    """Mean distance between predicted and found shares of an environment, over rows of similar prediction."""
    predicted = softmax(log_densities + np.log(data.rows))  # p(e | x) ∝ n_e p_e(x)
    counts = np.ones(len(predicted)) if data.weight is None else data.weight
    total = data.rows.sum()
    return np.array([_distance(predicted[:, e], data.codes == e, counts, total) for e in range(len(data))])


def _calibration_of_pairs(data: Environments, scores: Floats) -> Floats:
    """The same among the rows of two environments at a time, with every other one; the mean of these."""
    counts = np.ones(len(scores)) if data.weight is None else data.weight
    distances = np.zeros((len(data), len(data)))
    for a in range(len(data)):
        for b in range(a + 1, len(data)):
            rows = np.r_[data.offsets[a] : data.offsets[a + 1], data.offsets[b] : data.offsets[b + 1]]
            predicted = softmax(scores[rows][:, [a, b]] + np.log(data.rows[[a, b]]))
            total = data.rows[a] + data.rows[b]
            distances[a, b] = _distance(predicted[:, 0], data.codes[rows] == a, counts[rows], total)
            distances[b, a] = distances[a, b]
    return np.asarray(distances.sum(axis=1) / (len(data) - 1))


def _distance(predicted: Floats, found: Booleans, counts: Floats, total: float) -> float:
    group = np.minimum((predicted * BINS).astype(np.intp), BINS - 1)
    surplus = np.bincount(group, weights=counts * (predicted - found), minlength=BINS)
    return float(np.abs(surplus).sum() / total)


def _verdict(share: float, rows: float, reached: float) -> str:
    effective = share * rows
    if reached < MOST or effective < FEWEST or (share < WEAK and effective < PLENTY):
        return "none"
    return "good" if share >= GOOD and effective >= ENOUGH and reached >= NEARLY_ALL else "weak"
