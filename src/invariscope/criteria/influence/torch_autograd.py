"""What the influence index needs to know of every row under a torch module, by automatic differentiation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vjp, vmap

from invariscope.errors import InputError
from invariscope.heads.torch_losses import row_losses, slopes, target_columns
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target

NUMBERS = int(2e7)  # in the per-row gradients, or the columns of the Hessian, computed at a time


def outputs_of(module: torch.nn.Module, data: Environments) -> int:
    """How many numbers the module gives per row."""
    rows = torch.tensor(np.asarray(data.X[:2]), dtype=torch.float64)
    try:
        with torch.no_grad():
            scores = copy.deepcopy(module).cpu().eval().double()(rows)
    except RuntimeError as error:
        raise InputError(f"the head cannot read rows of {rows.shape[1]} columns: {error}") from error
    return int(scores.reshape(len(rows), -1).shape[1])


class ModuleRows:
    """Rows under a torch module: the derivatives that linear heads have in closed form."""

    def __init__(self, data: Environments, target: Target, module: torch.nn.Module) -> None:
        self.module = copy.deepcopy(module).cpu().eval().double()
        self.parameters = {n: p.detach() for n, p in self.module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise InputError("the head has no parameter that is trained: influence needs at least one")
        self.task = target.task
        self.inputs = torch.tensor(np.asarray(data.X), dtype=torch.float64)
        self.size = sum(value.numel() for value in self.parameters.values())
        self.reported = 2.0 if self.task == "regression" else 1.0
        self.weight = np.ones(len(data.X)) if data.weight is None else data.weight
        self.theta = torch.cat([value.reshape(-1) for value in self.parameters.values()])
        outputs = _checked_outputs(module, data, target)
        if self.task == "binary" and outputs == 2:
            self.task = "multiclass"
        self.targets = torch.tensor(target.values, dtype=torch.float64)
        self.columns = (
            self.targets if target.values.ndim == 2 else target_columns(self.targets, self.task, outputs, torch.float64)
        )

    def names(self) -> tuple[str, ...]:
        """Every single parameter: "0.weight[3, 1]"."""
        return tuple(
            f"{name}[{', '.join(map(str, place))}]" if place else name
            for name, value in self.parameters.items()
            for place in np.ndindex(*value.shape)
        )

    # --- functions of the flat parameter vector ---------------------------------------------------------------------
    def scores(self, theta: Tensor, inputs: Tensor) -> Tensor:
        """(n, K)."""
        parts, start = {}, 0
        for name, value in self.parameters.items():
            parts[name] = theta[start : start + value.numel()].reshape(value.shape)
            start += value.numel()
        scores: Tensor = functional_call(self.module, parts, (inputs,))
        return scores.reshape(len(inputs), -1)

    def losses(self, theta: Tensor, inputs: Tensor, columns: Tensor) -> Tensor:
        """Loss of every row, in units in which the squared loss is ½ (s − y)²: (n,)."""
        scores = self.scores(theta, inputs)
        if self.task == "regression":
            return ((scores - columns) ** 2).sum(dim=1) / 2
        return row_losses(scores, columns, self.task)

    def slopes(self, theta: Tensor, inputs: Tensor, columns: Tensor) -> Tensor:
        """Derivative of every row's loss in a factor on its scores: (n,)."""
        return slopes(self.scores(theta, inputs), columns, self.task)

    # --- what the closed forms do as well -----------------------------------------------------------------------------
    def joint(self, theta: Floats, slopes: bool = True) -> Iterator[tuple[slice, Floats]]:
        point = torch.tensor(theta)

        def of_row(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
            return lambda vector, x, y: function(vector, x[None], y[None])[0]

        step = max(1, NUMBERS // (self.size * (2 if slopes else 1)))
        for start in range(0, len(self.inputs), step):
            block = slice(start, min(start + step, len(self.inputs)))
            x, y = self.inputs[block], self.columns[block]
            parts = [vmap(grad(of_row(self.losses)), in_dims=(None, 0, 0))(point, x, y)]
            if slopes:
                parts.append(vmap(grad(of_row(self.slopes)), in_dims=(None, 0, 0))(point, x, y))
                parts += [self.losses(point, x, y)[:, None], self.slopes(point, x, y)[:, None]]
            yield block, torch.cat(parts, dim=1).numpy()

    def hessians(self, theta: Floats, on_loss: Floats, on_slope: Floats | None = None) -> Floats:
        first = torch.tensor(on_loss)
        second = None if on_slope is None else torch.tensor(np.ascontiguousarray(on_slope))

        def total(vector: Tensor, place: int) -> Tensor:
            weighted = first[place] @ self.losses(vector, self.inputs, self.columns)
            if second is not None:
                weighted = weighted + second[place] @ self.slopes(vector, self.inputs, self.columns)
            return weighted

        point, chunk = torch.tensor(theta), max(1, NUMBERS // self.inputs.numel())
        directions = torch.eye(self.size, dtype=torch.float64)

        def hessian(place: int) -> Floats:
            # H is symmetric, so the reverse of the gradient gives its columns; forward mode would do no better
            back = vjp(grad(partial(total, place=place)), point)[1]
            return np.asarray(vmap(lambda direction: back(direction)[0], chunk_size=chunk)(directions).numpy())

        return np.stack([hessian(place) for place in range(len(on_loss))])


def _checked_outputs(module: torch.nn.Module, data: Environments, target: Target) -> int:
    outputs = outputs_of(module, data)
    expected = target.values.shape[1] if target.values.ndim == 2 else max(1, len(target.classes))
    allowed = {1, 2} if target.task == "binary" else {expected}
    if outputs not in allowed:
        raise InputError(f"the head has {outputs} outputs but the target needs {expected}")
    return outputs
