"""What became of a training: one that diverged is refused; one that learnt nothing, or collapsed, is told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.heads.torch_losses import risks
from invariscope.models.torch_networks import Halves, in_use
from invariscope.objectives.objective import Named, Tensors
from invariscope.rows.arrays import Booleans, Floats
from invariscope.training.loop import USUAL_RATE, Loop
from invariscope.training.rows import Rows
from invariscope.wording import percent

#: A loss of more than so many times that of the best constant is no model. Objectives trade loss for invariance, but a
#: constant is invariant already: who is ten times worse than that has gained nothing for it.
TIMES_WORSE = 10.0
#: Times the loss of the best constant: a penalty that costs more has left nothing of a model.
WORSE = 1.05
#: Of the largest weight: if none moved further, nothing was learnt.
STILL = 1e-6
#: Of the loss at the start: a training that gained less, and is worse than a constant, had hardly begun.
HARDLY = 0.01
#: Of the target's variance: if least squares explain so much, there was something to learn. Of what they explain: who
#: gained less over the best constant learnt next to nothing.
SOMETHING, NEXT_TO_NOTHING = 0.05, 0.1
#: Columns up to which least squares cost nothing beside a training.
MOST_COLUMNS = 500
#: What the usual learning rate and so many steps can deal with: columns and targets of at most this size, spread by no
#: less than one over it, and weights to start from.
USUAL_STEPS, USUAL_SIZE, USUAL_WEIGHT = 1000, 10.0, 3.0
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

    @property
    def largest(self) -> float:
        """The largest weight."""
        return max((float(value.abs().max()) for value in self.weights.values()), default=0.0)

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


def worse_than_constant(risk: Floats | float, constant: Floats | float) -> Booleans:
    """Whether risks are no models: far above that of a constant (if that is 0, nothing is), or no numbers.

    >>> worse_than_constant(np.array([9.0, 11.0, np.nan, 11.0]), np.array([1.0, 1.0, 1.0, 0.0])).tolist()
    [False, True, True, False]
    """
    return np.asarray(~(np.asarray(risk) <= TIMES_WORSE * np.where(np.asarray(constant) > 0, constant, np.inf)))


def refuse_diverged(start: Standing, end: Standing, rows: Rows, loop: Loop) -> None:
    """A network that training made far worse than it was, and than a constant, is not handed out."""
    constant = constant_risk(rows)
    if not worse_than_constant(end.risk, max(constant, start.risk)):
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
        notes.append(
            _stillness(start, end, rows, constant, loop)
            or _nothing_learnt(start, end, rows, constant, loop)
            or _collapse(end, rows, constant, loop)
            or _worse(end, constant, loop)
        )
    return tuple(filter(None, notes))


def _vary(rows: Rows) -> bool:
    first = rows.inputs[0][:1]
    return any(bool((inputs != first).any()) for inputs in rows.inputs)


def _schedule_note(loop: Loop) -> str:
    return (
        f"The penalty never had its full weight: it grows until step {loop.settings.schedule.full_from:,}, and "
        f"training ended after step {loop.step:,}. Train for more steps, or shorten wait and ramp."
    )


def _stillness(start: Standing, end: Standing, rows: Rows, constant: float, loop: Loop) -> str:
    moved = max((float((end.weights[name] - value).abs().max()) for name, value in start.weights.items()), default=0.0)
    learns = loop.step >= ENOUGH and not (end.units and end.silent == end.units)  # dead units never will
    hardly = learns and end.risk > constant and abs(start.risk - end.risk) <= HARDLY * start.risk
    if moved > STILL * start.largest and not hardly:
        return ""
    return (
        f"Training hardly moved: in {loop.step:,} step{'s' * (loop.step > 1)} the loss went from {start.risk:.4g} to "
        f"{end.risk:.4g}, where the best constant has {constant:.4g}. {_remedy(start, rows, loop)}."
    )


def _nothing_learnt(start: Standing, end: Standing, rows: Rows, constant: float, loop: Loop) -> str:
    if worse_than_constant(end.risk, constant):
        return (
            f"The network is worse than a constant: its loss is {end.risk:.4g}, where the best constant has "
            f"{constant:.4g}. {_remedy(start, rows, loop)}."
        )
    gained = 1 - end.risk / constant
    if gained > NEXT_TO_NOTHING or loop.step < ENOUGH or 2 * end.silent > end.units:
        return ""
    pressed = loop.program.objective.penalises and loop.program.objective.weight > 0
    explained = _explained(rows) if not pressed or _units(rows) else 0.0  # else the penalty is reason enough
    if explained < SOMETHING or gained > NEXT_TO_NOTHING * explained:
        return ""
    return (
        f"Next to nothing was learnt: the loss is {end.risk:.4g}, where the best constant has {constant:.4g}, though "
        f"least squares explain {percent(explained)} of the target. {_remedy(start, rows, loop)}."
    )


def _explained(rows: Rows) -> float:
    """Share of the target's variance that least squares explain, less what they would by chance; 0 if that may be all.

    1 − (1 − R²) (n − 1) / (n − r − 1) with r columns in units of their spread, environments counting alike.
    """
    sizes = [len(_evenly(part)) for part in rows.targets]
    share = torch.cat([torch.full((size, 1), 1 / (size * len(sizes))).double() for size in sizes])
    X, y = (values - (share * values).sum(dim=0) for values in (_columns(rows.inputs), _columns(rows.targets)))
    spread = (share * X**2).sum(dim=0).sqrt()
    X = X[:, spread > 0] / spread[spread > 0]
    if not 0 < X.shape[1] <= min(MOST_COLUMNS, len(X) - 2):
        return 0.0
    X, y = share.sqrt() * X, share.sqrt() * y
    left = y - X @ torch.linalg.lstsq(X, y, driver="gelsd").solution
    n, r = X.shape
    explained = 1 - float((left**2).sum() / (y**2).sum()) * (n - 1) / (n - r - 1)
    chance = (2 * r / ((n - r - 1) * (n + 1))) ** 0.5  # its standard deviation if the columns say nothing
    return explained if explained > 3 * chance else 0.0


def _remedy(start: Standing, rows: Rows, loop: Loop) -> str:
    """What to change, all of it: a weight moves by about the learning rate in a step, whatever the units it is in."""
    units, rate = _units(rows), loop.settings.learning_rate
    remedies = [f"standardise {' and '.join(units)}"] if units else []
    if start.largest > USUAL_WEIGHT:
        remedies.append(f"start from smaller weights (up to {start.largest:.3g} now)")
    if rate < USUAL_RATE:
        remedies.append(f"raise the learning rate ({rate:g} now), to {USUAL_RATE:g} say")
    if not remedies or (loop.step < USUAL_STEPS and (units or start.largest > USUAL_WEIGHT)):
        steps = USUAL_STEPS if loop.step < USUAL_STEPS else 10 * loop.step
        remedies.append(f"train for more steps, {steps:,} say")
    text = "; ".join(remedies)
    return text[0].upper() + text[1:]


def _units(rows: Rows) -> list[str]:
    """X and y, with their means and spreads, where those are not of the order of 1."""
    units = []
    for name, parts in (("X", rows.inputs), ("y", rows.targets))[: 2 if rows.task == "regression" else 1]:
        values = _columns(parts)
        spread, mean = values.std(dim=0, correction=0), values.mean(dim=0).abs()
        spread, mean = spread[spread > 0], mean[spread > 0]
        if len(spread) and max(mean.max(), spread.max(), 1 / spread.min()) > USUAL_SIZE:
            low, high = float(spread.min()), float(spread.max())
            spreads = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
            units.append(f"{name} (means up to {float(mean.max()):.2g} from 0, spread {spreads})")
    return units


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
        proposed = _lower(objective.weight)
        remedy = (
            f"lower the penalty ({objective.weight:g} now), to {proposed:g} say, or let it grow slowly (wait, ramp)"
        )
    return f"{what}. If the columns do say something about the target, {remedy}."


def _worse(end: Standing, constant: float, loop: Loop) -> str:
    """A penalty, or steps too large for it, that cost more than all there was to learn."""
    objective, rate = loop.program.objective, loop.settings.learning_rate
    pressed = objective.penalises and objective.weight > 0
    if loop.step < ENOUGH or not pressed or end.risk <= WORSE * constant:
        return ""
    remedies = [f"the learning rate ({rate:g} now), to {USUAL_RATE:g} say"] if rate > USUAL_RATE else []
    remedies.append(f"the penalty ({objective.weight:g} now), to {_lower(objective.weight):g} say")
    return (
        f"Training ended worse than a constant, which holds everywhere: the loss is {end.risk:.4g}, where the best "
        f"constant has {constant:.4g}. Lower {' and '.join(remedies)}."
    )


def _lower(penalty: float) -> float:
    return 1.0 if penalty > 1 else penalty / 10


def _columns(parts: Tensors) -> Tensor:
    """Rows of all environments that are judged, (n, d)."""
    some = torch.cat([_evenly(part) for part in parts]).double()
    return some.reshape(len(some), -1)


def _evenly(rows: Tensor) -> Tensor:
    """At most so many rows, evenly spread."""
    return rows[:: -(-len(rows) // ROWS_JUDGED)]
