"""One step of training as pure functions, and what it works on: the same for one model and for hundreds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from invariscope.models.torch_heads import feature_head
from invariscope.models.torch_networks import Halves, in_use
from invariscope.objectives.objective import Batch, Named, Objective, Tensors
from invariscope.objectives.transported import RatioObjective, log_densities_of
from invariscope.training.rows import Rows, places, taken
from invariscope.training.schedule import Schedule


class Material(NamedTuple):
    """What a step works on besides parameters; empty tuples and dicts where an objective needs nothing."""

    inputs: Tensors
    targets: Tensors
    drawn: Named
    densities: Tensors
    noise: Tensors


class Parts(NamedTuple):
    """What a step gives besides gradients."""

    loss: Tensor
    risk: Tensor
    penalty: Tensor
    memory: Named


@dataclass(frozen=True)
class Program:
    """A network, an objective, a schedule for its penalty, and a weight on half the squared parameters."""

    network: Halves
    objective: Objective
    task: str
    schedule: Schedule
    weight_decay: float = 0.0

    def batch(self, parameters: Named, material: Material) -> Batch:
        """Forward pass over all environments at once."""
        sizes = [len(values) for values in material.inputs]
        noise = material.noise[0] if material.noise else None
        logits, unflattened = functional_call(
            self.network, parameters, (torch.cat(list(material.inputs)), noise, False)
        )
        features, densities = unflattened.flatten(1), material.densities or None
        own = {name.removeprefix("head."): value for name, value in parameters.items() if name.startswith("head.")}
        head = feature_head(self.network.head, features, own, unflattened.shape[1:])
        return Batch(logits.split(sizes), material.targets, features.split(sizes), self.task, densities, head)

    def loss(
        self, parameters: Named, adversary: Named, memory: Named, weight: Tensor, material: Material
    ) -> tuple[Tensor, Parts]:
        """(risk + weight · penalty + weight_decay · ½‖parameters‖²) / divisor of the schedule, and its parts."""
        inputs, targets = self.objective.mix(material.inputs, material.targets, material.drawn)
        batch = self.batch(parameters, material._replace(inputs=inputs, targets=targets))
        memory = self.objective.remember(batch, memory)
        risk, penalty = self.objective.parts(batch, memory, adversary)
        total = risk + weight * penalty
        if self.weight_decay:
            # here, not in the optimiser: where the whole is divided by a large weight, it must be divided as well
            total = total + self.weight_decay * sum((value**2).sum() for value in parameters.values()) / 2
        total = total / self.schedule.divisor(weight)
        memory = {name: value.detach() for name, value in memory.items()}
        return total, Parts(total.detach(), risk.detach(), penalty.detach(), memory)

    def gradient(self, dims: Any = None) -> Callable[..., tuple[Named, Named, Parts]]:
        """The function from a step's arguments to gradients of parameters and adversary, and the parts.

        ``dims`` says which of the material differs between replicates (0) or is shared (None); without it there is
        one model.
        """
        if dims is None:
            return self._gradient_of_one
        # of every model r: ∇ loss(parameters[r], adversary[r], memory[r], weight[r], its material)
        lifted = vmap(grad_and_value(self.loss, argnums=(0, 1), has_aux=True), in_dims=(0, 0, 0, 0, dims))

        def gradients(*arguments: Any) -> tuple[Named, Named, Parts]:
            (own, against), (_, parts) = lifted(*arguments)
            return own, against, parts

        return gradients

    def _gradient_of_one(
        self, parameters: Named, adversary: Named, memory: Named, weight: Tensor, material: Material
    ) -> tuple[Named, Named, Parts]:
        total, parts = self.loss(parameters, adversary, memory, weight, material)
        gradients = torch.autograd.grad(
            total, [*parameters.values(), *adversary.values()], allow_unused=True, materialize_grads=True
        )
        own = dict(zip(parameters, gradients, strict=False))
        return own, dict(zip(adversary, gradients[len(own) :], strict=True)), parts

    def judgement(
        self, parameters: Named, adversary: Named, memory: Named, weight: Tensor, material: Material, dims: Any = None
    ) -> Tensor:
        """How good held-out rows say the model is (or every model, with ``dims``); lower is better."""

        def judged(parameters: Named, adversary: Named, memory: Named, weight: Tensor, material: Material) -> Tensor:
            return self.objective.judgement(self.batch(parameters, material), weight, memory, adversary)

        # of every model r: judged(parameters[r], adversary[r], memory[r], weight[r], its held-out rows)
        judge: Any = judged if dims is None else vmap(judged, in_dims=(0, 0, 0, 0, dims))
        with in_use(self.network):
            value: Tensor = judge(parameters, adversary, memory, weight, material)
        return value.double()

    def features(self, parameters: Named, rows: Rows, lifted: bool) -> Tensors:
        """Features of every environment's rows; with ``lifted`` of every model."""

        def features(parameters: Named, inputs: Tensors) -> Tensors:
            return self.batch(parameters, Material(inputs, (), {}, (), ())).features

        # of every model r: features(parameters[r], inputs[r] if each has rows of its own, else inputs)
        of_all: Any = vmap(features, in_dims=(0, 0 if rows.stacked else None)) if lifted else features
        with in_use(self.network):
            values: Tensors = of_all(parameters, rows.inputs)
        return values


@dataclass(frozen=True)
class Supply:
    """Where a step's material comes from.

    One model if not ``lifted``; else one per entry of ``seeds``, and whatever differs between them gets a leading axis
    of replicates. Everything random is a function of seed and step alone.
    """

    program: Program
    rows: Rows
    held_out: Rows | None
    seeds: tuple[int, ...]
    batch_size: int | None
    lifted: bool

    @property
    def own_densities(self) -> bool:
        """Whether every replicate has density ratios of its own."""
        return self.lifted and (self.rows.stacked or self.program.objective.ratio_on == "z")

    @property
    def dims(self) -> Any:
        """For ``vmap``: which part of the material every replicate has for itself (0), and what they share (None)."""
        batches = self.batch_size is not None
        rows = 0 if batches or self.rows.stacked else None
        return Material(rows, rows, 0, 0 if batches or self.own_densities else None, 0)  # type: ignore[arg-type]

    @property
    def held_out_dims(self) -> Any:
        """The same for :meth:`held_out_material`."""
        rows = 0 if self.held_out is not None and self.held_out.stacked else None
        return Material(rows, rows, 0, 0 if self.own_densities else None, 0)  # type: ignore[arg-type]

    def at(self, step: int, densities: Tensors) -> Material:
        """The material of a training step."""
        rows = self.rows
        if self.batch_size is not None:
            where = [self._places(place, size, self.batch_size, step) for place, size in enumerate(rows.sizes)]
            rows = replace(rows.take(where), stacked=self.lifted)
            densities = taken(densities, where, self.own_densities) if densities else ()
        drawn = self._drawn(rows, step)
        return Material(rows.inputs, rows.targets, drawn, densities, self._noise(sum(rows.sizes), step))

    def held_out_material(self, densities: Tensors) -> Material:
        """All held-out rows, as they are."""
        assert self.held_out is not None
        return Material(self.held_out.inputs, self.held_out.targets, {}, densities, ())

    def densities(self, parameters: Named) -> tuple[Tensors, Tensors]:
        """Log densities of all environments at every row trained on, and at every row held out.

        The ratio is fitted on the rows trained on: on x, or on the features they have now.
        """
        objective, sets = self.program.objective, [self.rows, *([] if self.held_out is None else [self.held_out])]
        values = [rows.inputs for rows in sets]
        if objective.ratio_on == "z":
            values = [self.program.features(parameters, rows, self.lifted) for rows in sets]
        if not self.own_densities:
            joined = self._fitted(values, self.seeds[0])
        else:
            each = [
                self._fitted([tuple(tensor[place] for tensor in tensors) for tensors in values], seed)
                for place, seed in enumerate(self.seeds)
            ]
            joined = [tuple(map(torch.stack, zip(*tensors, strict=True))) for tensors in zip(*each, strict=True)]
        return joined[0], joined[1] if self.held_out is not None else ()

    def _fitted(self, values: Sequence[Tensors], seed: int) -> list[Tensors]:
        objective = self.program.objective
        assert isinstance(objective, RatioObjective)
        fitted, *also = [[tensor.flatten(1).double().numpy() for tensor in tensors] for tensors in values]
        judged = [rows for each in also for rows in each]
        densities = log_densities_of(fitted, objective.ratio, seed, svd=objective.svd, also=judged)
        tensors = [torch.as_tensor(logs, dtype=self.rows.inputs[0].dtype) for logs in densities]
        count = len(fitted)
        return [tuple(tensors[start : start + count]) for start in range(0, len(tensors), count)]

    def _places(self, environment: int, size: int, batch: int, step: int) -> Tensor:
        each = {seed: places(size, batch, environment, seed, step) for seed in dict.fromkeys(self.seeds)}
        return torch.stack([each[seed] for seed in self.seeds]) if self.lifted else each[self.seeds[0]]

    def _drawn(self, rows: Rows, step: int) -> Named:
        """What the objective draws; models with the same seed and data draw the same, so it is drawn once."""
        objective = self.program.objective
        if type(objective).draw is Objective.draw:
            return {}
        keys = [(seed, place if rows.stacked else 0) for place, seed in enumerate(self.seeds)]
        each = {
            (seed, place): objective.draw(rows.draw(place).targets, generator_of(seed, step))
            for seed, place in dict.fromkeys(keys)
        }
        if not self.lifted:
            return each[keys[0]]
        return {name: torch.stack([each[key][name] for key in keys]) for name in each[keys[0]]}

    def _noise(self, rows: int, step: int) -> Tensors:
        """What the network draws (dropout)."""
        if not self.program.network.drops:
            return ()
        each = {seed: self.program.network.noise(rows, generator_of(seed, step)) for seed in dict.fromkeys(self.seeds)}
        return (torch.stack([each[seed] for seed in self.seeds]) if self.lifted else each[self.seeds[0]],)


def generator_of(seed: int, step: int) -> torch.Generator:
    """Random numbers of one step: they depend on seed and step alone, so nothing has to be stored to resume."""
    return torch.Generator().manual_seed(mixed(seed, step))


def mixed(seed: int, step: int) -> int:
    """One number for a pair of numbers."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
