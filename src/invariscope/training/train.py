"""Train one network on rows from several environments."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.models.torch_networks import Halves, halves_of, widths_of
from invariscope.objectives.objective import Objective, objective_of
from invariscope.progress import Say
from invariscope.rows.arrays import Array
from invariscope.rows.settings import real_number, shown, whole_number
from invariscope.training.checkpoint import Checkpoint
from invariscope.training.loop import Loop, Settings
from invariscope.training.outcome import Standing, notes_on, refuse_diverged
from invariscope.training.program import Program, Supply, generator_of
from invariscope.training.rows import Rows

BEFORE_THE_FIRST_STEP = 2**32 - 1  # random numbers of no step, and not those a network starts from


@dataclass(frozen=True)
class Trained:
    """A trained network and how it got there.

    ``history`` maps "step", "risk", "penalty", "loss" and, if rows were held out, "held_out" to arrays. The loss is
    what was minimised: risk + weight · penalty, divided by the weight where that is above 1. ``kept_step`` is the step
    whose parameters the network has. ``notes`` say where training hardly moved, where the network is worse than a
    constant or learnt next to nothing, where what it learnt collapsed, and what to change.
    """

    network: Halves
    objective: Objective
    history: dict[str, Array]
    kept_step: int
    notes: tuple[str, ...] = ()

    def __call__(self, inputs: Any) -> tuple[Tensor, Tensor]:
        """Logits and features of rows (a tensor, an array or a table, as for training), without gradients."""
        rows = inputs if isinstance(inputs, Tensor) else torch.tensor(np.asarray(inputs))  # a copy
        with torch.no_grad():
            values: tuple[Tensor, Tensor] = self.network(rows.to(next(self.network.parameters()).dtype))
        return values


def train(
    network: Any,
    rows: Rows,
    objective: Any = "erm",
    *,
    settings: Settings | None = None,
    held_out: Rows | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100,
    progress: bool | Say = False,
) -> Trained:
    """Minimise an objective over the environments of ``rows``.

    Parameters
    ----------
    network : a module in two halves (see ``halves_of``). Its parameters are where
        training starts; the module itself is left as it is.
    rows : :class:`~invariscope.training.Rows`, the training environments
    objective : a name ("vrex") or an object of :mod:`invariscope.objectives`
    held_out : rows of the same environments to stop by, as from ``rows.halved``; never those of a test environment
    seed : of batches, mixing, adversaries and dropout. The same seed gives the same network, bit for bit, on the same
        machine.
    checkpoint : file to store the training in every so many steps. If it is there already, training goes on from it
        and ends in the same bits as if it had never stopped.

    Raises
    ------
    InputError : rows that cannot be trained on, or a training that diverged: its loss became infinite or NaN, or is
        more than ten times that of the best constant and of the start, on the rows it was trained on

    >>> from invariscope.datasets import linear_sem
    >>> from invariscope.models.torch_networks import linear
    >>> X, y, env = linear_sem("FEU", n=200)
    >>> trained = train(linear(10, 1), Rows.of(X, y, env), "vrex", settings=Settings(steps=200))
    >>> bool(trained.history["risk"][-1] < trained.history["risk"][0])
    True
    """
    settings, seed = checked(settings, rows, *([] if held_out is None else [held_out])), whole_number(seed, "seed")
    asleep = isinstance(network, torch.nn.Module) and not network.training
    network = copy.deepcopy(halves_of(network)).to(rows.inputs[0].dtype)
    if asleep:  # else layers that are not to train (a frozen BatchNorm) stay as they are
        network.train()
    objective = prepared(objective, rows, held_out, seed)
    program = Program(network, objective, rows.task, settings.schedule, settings.weight_decay)
    width = checked_width(network, rows)
    start = Standing.of(network, rows)
    loop = Loop(
        program,
        Supply(program, rows, held_out, (seed,), settings.batch_size, lifted=False),
        settings,
        torch.tensor(objective.weight, dtype=rows.inputs[0].dtype),
        parameters={name: value for name, value in network.named_parameters() if value.requires_grad},
        adversary={name: value.requires_grad_() for name, value in adversary_of(objective, width, rows, seed).items()},
        memory=objective.memory(len(rows.labels)),
        buffers=dict(network.named_buffers()),
    )
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise InputError(f"checkpoint is {shown(checkpoint)}: give the name of a file")
    file = None if checkpoint is None else Checkpoint(Path(checkpoint), checkpoint_every)
    if file is not None:
        loop.resume(file)
    weights = loop.run(file, progress, f"training {objective.name}")
    with torch.no_grad():  # not load_state_dict, which knows nothing of buffers that are not persistent
        for name, tensor in (*network.named_parameters(), *network.named_buffers()):
            if name in weights:
                tensor.copy_(weights[name])
    kept_step = int(loop.best_step) if held_out is not None else loop.step
    end = Standing.of(network, rows)
    if held_out is not None and not kept_step:
        raise InputError(f"training diverged: the loss of rows held out was never a number: {loop.calmer}")
    refuse_diverged(start, end, rows, loop)
    notes = notes_on(start, end, rows, loop)
    return Trained(network.eval(), objective, loop.history_arrays(), kept_step, notes)


def prepared(objective: Any, rows: Rows, held_out: Rows | None, seed: int) -> Objective:
    """The objective with what it takes from the data; data that cannot be trained on are refused."""
    plain = objective_of(objective)
    check_rows(rows, held_out, plain)
    real_number(plain.weight, "the penalty's weight")
    if type(plain).fitted is Objective.fitted:
        return plain
    inputs, targets = rows.arrays()
    return plain.fitted(inputs, targets, rows.task, seed)


def checked(settings: Any, *given: Any) -> Settings:
    """The settings, or the usual ones; all rows that are given must be rows to train on."""
    for rows in given:
        if not isinstance(rows, Rows):
            raise InputError(f"a {type(rows).__name__} is given in place of rows: give Rows.of(X, y, env)")
    if settings is not None and not isinstance(settings, Settings):
        raise InputError(f"settings is {shown(settings)}: give Settings(steps=...), or leave it out")
    return settings or Settings()


def check_rows(rows: Rows, held_out: Rows | None, objective: Objective) -> None:
    """Refuse what cannot be trained on."""
    if len(rows.labels) < objective.fewest_environments:
        raise InputError(
            f'objective "{objective.name}" compares environments, but there is only one ("{rows.labels[0]}"): '
            'give env with at least two labels, or use objective="erm"'
        )
    for label, size in zip(rows.labels, rows.sizes, strict=True):
        if size < objective.fewest_environments:  # spreads within environments need two rows
            raise InputError(f'environment "{label}" has {size} row: give at least 2, or drop it')
    if held_out is not None and (held_out.task, held_out.classes) != (rows.task, rows.classes):
        raise InputError("held-out rows have another target than those to train on: take both from rows.halved")
    if held_out is not None and min(held_out.sizes) < objective.fewest_environments:
        label = held_out.labels[int(np.argmin(held_out.sizes))]
        raise InputError(
            f'environment "{label}" has a single held-out row: give more rows, or hold out a larger share or none'
        )
    if held_out is not None and held_out.labels != rows.labels:
        raise InputError(
            "held-out rows must come from the training environments "
            f"({', '.join(map(str, rows.labels))}), not from {', '.join(map(str, held_out.labels))}: "
            "take both from rows.halved"
        )


def checked_width(network: Halves, rows: Rows) -> int:
    """Columns of the features, if the logits are as many as the target needs."""
    width, outputs = widths_of(network, rows.inputs[0])
    if outputs != rows.outputs:
        raise InputError(
            f"the network gives {outputs} outputs, but the target needs {rows.outputs}: give its last layer as many"
        )
    return width


def adversary_of(objective: Objective, width: int, rows: Rows, seed: int) -> dict[str, Tensor]:
    """The adversary's parameters at the start."""
    generator = generator_of(seed, BEFORE_THE_FIRST_STEP)
    start = objective.adversary(width, len(rows.labels), rows.outputs, generator)
    return {name: value.to(rows.inputs[0].dtype) for name, value in start.items()}
