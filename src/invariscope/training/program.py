"""One step of training as pure functions of the parameters: the same for one model and for hundreds at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from invariscope.models.torch_heads import feature_head
from invariscope.models.torch_networks import Halves, in_use
from invariscope.objectives.objective import Batch, Named, Objective, Tensors
from invariscope.training.rows import Rows
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
        self,
        parameters: Named,
        adversary: Named,
        memory: Named,
        weight: Tensor,
        material: Material,
        dims: Any = None,
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
