"""What became of a training: one that diverged is refused; one that never moved, or collapsed, is told."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.heads.torch_losses import risks
from invariscope.models.torch_networks import Halves, in_use
from invariscope.objectives.objective import Named
from invariscope.training.loop import USUAL_RATE, Loop
from invariscope.training.rows import Rows

#: A loss of more than so many times that of the best constant, and of the start, is no model. Objectives trade loss for
#: invariance, but a constant is invariant already: who is ten times worse than that has gained nothing for it.
DIVERGED = 10.0
#: Of the largest weight: if none moved further, nothing was learnt.
STILL = 1e-6
#: Of the loss at the start: a training that gained less, and is worse than a constant, had hardly begun.
HARDLY = 0.01
#: Predictions that spread less than this, in spreads of the target or in log-odds, and lose at least so much of what
#: the best constant loses, are a constant.
FLAT, AS_MUCH = 0.1, 0.95
#: Steps before which nobody expects a model.
ENOUGH = 50
#: Rows of every environment that tell.
ROWS_JUDGED = 4096


@dataclass(frozen=True)
class Standing:
    """A network at one moment.

    ``risk`` is its mean loss on the rows, environments counting alike; ``spread`` how far its scores spread over them;
    ``units`` how many hidden units its head reads, of which ``silent`` are the same in all rows.
    """

    weights: Named
    risk: float
    spread: float
    units: int
    silent: int

    @classmethod
    def of(cls, network: Halves, rows: Rows) -> Standing:
        """The network as it predicts now, on rows that are evenly spread over each environment."""
        parts = [_evenly(inputs) for inputs in rows.inputs]
        with in_use(network):
            passes = [network(inputs.to(rows.inputs[0].dtype)) for inputs in parts]
        logits, features = zip(*passes, strict=True)
        each = risks(logits, [_evenly(targets) for targets in rows.targets], rows.task)
        scores, units = torch.cat(logits).double(), torch.cat(features).double()
        linear = isinstance(network.head, nn.Identity)
        weights = {name: value.detach().clone() for name, value in network.named_parameters() if value.requires_grad}
        return cls(
            weights,
            float(each.double().mean()),
            float(scores.std(dim=0, correction=0).max()),
            0 if linear else units.shape[1],
            0 if linear else int((units.amax(dim=0) == units.amin(dim=0)).sum()),
        )


def constant_risk(rows: Rows) -> float:
    """The mean loss of the constant that is best for all environments together; not of stacked rows.

    >>> constant_risk(Rows.of([[1.0], [2.0], [3.0], [4.0]], [0.0, 2.0, 4.0, 6.0], list("aabb"), task="regression"))
    5.0
    """
    centre = torch.stack([targets.double().mean(dim=0) for targets in rows.targets]).mean(dim=0)
    if rows.task == "regression":
        return float(torch.stack([((targets - centre) ** 2).mean() for targets in rows.targets]).mean())
    shares = centre if rows.task == "multiclass" else torch.stack([centre, 1 - centre])
    return float(-torch.xlogy(shares, shares).sum())


def refuse_diverged(start: Standing, end: Standing, rows: Rows, loop: Loop) -> None:
    """A network that is far worse than a constant, on the rows it was trained on, is not handed out."""
    constant = constant_risk(rows)
    if end.risk <= DIVERGED * max(constant, start.risk):  # false for NaN as well
        return
    raise InputError(
        f"training diverged: the loss on the rows it was trained on is {end.risk:.2g}, and {constant:.2g} for the best "
        f"constant: {loop.calmer}"
    )


def notes_on(start: Standing, end: Standing, rows: Rows, loop: Loop) -> tuple[str, ...]:
    """What a user must know of a training that ended: one sentence for each thing, with what to change."""
    penalises, constant = loop.program.objective.penalises, constant_risk(rows)
    notes = [_schedule_note(loop)] if penalises and loop.settings.schedule.full_from > loop.step else []
    if not constant:
        notes.append("The target is the same in all rows: there was nothing to learn. Give rows in which it varies.")
    elif not _vary(rows):
        notes.append("No column varies: there was nothing to learn from. Give columns that differ between rows.")
    else:
        notes.append(_stillness(start, end, constant, loop) or _collapse(end, rows, constant, loop))
    return tuple(filter(None, notes))


def _vary(rows: Rows) -> bool:
    first = rows.inputs[0][:1]
    return any(bool((inputs != first).any()) for inputs in rows.inputs)


def _schedule_note(loop: Loop) -> str:
    return (
        f"The penalty never had its full weight: it grows until step {loop.settings.schedule.full_from:,}, and "
        f"training ended after step {loop.step:,}. Train for more steps, or shorten wait and ramp."
    )


def _stillness(start: Standing, end: Standing, constant: float, loop: Loop) -> str:
    moved = max((float((end.weights[name] - value).abs().max()) for name, value in start.weights.items()), default=0.0)
    size = max((float(value.abs().max()) for value in start.weights.values()), default=0.0)
    learns = loop.step >= ENOUGH and not (end.units and end.silent == end.units)  # dead units never will
    hardly = learns and end.risk > constant and abs(start.risk - end.risk) <= HARDLY * start.risk
    if moved > STILL * size and not hardly:
        return ""
    rate, steps = loop.settings.learning_rate, f"{loop.step:,} step{'s' * (loop.step > 1)}"
    remedy = "Train for more steps, 1,000 say"
    if rate < USUAL_RATE:
        remedy = f"Raise the learning rate ({rate:g} now), to {USUAL_RATE:g} say"
    return (
        f"Training hardly moved: in {steps} the loss went from {start.risk:.4g} to {end.risk:.4g}, where the best "
        f"constant has {constant:.4g}. {remedy}."
    )


def _collapse(end: Standing, rows: Rows, constant: float, loop: Loop) -> str:
    objective, unit = loop.program.objective, constant**0.5 if rows.task == "regression" else 1.0
    pressed = objective.penalises and objective.weight > 0
    flat = end.spread <= FLAT * unit and end.risk >= AS_MUCH * constant
    silenced = 2 * end.silent > end.units
    # without a penalty, columns that say nothing of the target are reason enough for a constant
    if loop.step < ENOUGH or not (silenced or (flat and pressed)):
        return ""
    units = (
        f"{'all' if end.silent == end.units else f'{end.silent} of'} {end.units} hidden units are the same in all rows"
    )
    if not flat:
        return f"The representation shrank: {units}. Use another activation, another seed or fewer units."
    what = f"The representation collapsed: {units}"
    if not silenced:
        what = "The predictions collapsed: they hardly differ between rows, and a constant is as good"
    remedy = "use another activation or another seed"
    if pressed:
        proposed = 1.0 if objective.weight > 1 else objective.weight / 10
        remedy = (
            f"lower the penalty ({objective.weight:g} now), to {proposed:g} say, or let it grow slowly (wait, ramp)"
        )
    return f"{what}. If the columns do say something about the target, {remedy}."


def _evenly(rows: Tensor) -> Tensor:
    """At most so many rows, evenly spread."""
    return rows[:: -(-len(rows) // ROWS_JUDGED)]
