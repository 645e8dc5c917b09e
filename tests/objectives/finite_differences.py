"""Gradients by central differences, to hold automatic differentiation against."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def central_differences(
    function: Callable[..., Tensor], *tensors: Tensor, step: float = 1e-6, which: int = 0
) -> Tensor:
    """(f(… t + h …) − f(… t − h …)) / 2h for every number of the tensor at place ``which``, in its shape."""
    point = tensors[which].detach()
    moves = step * torch.eye(point.numel(), dtype=point.dtype).reshape(-1, *point.shape)

    def moved(move: Tensor) -> Tensor:
        value = function(*tensors[:which], point + move, *tensors[which + 1 :])
        assert value.shape == (), f"the function returns {tuple(value.shape)}, not one number"
        return value

    with torch.no_grad():  # every number at once
        up, down = (torch.func.vmap(moved)(sign * moves) for sign in (1.0, -1.0))
    return ((up - down) / (2 * step)).reshape(point.shape)


def assert_gradient(
    function: Callable[..., Tensor], *tensors: Tensor, step: float = 1e-6, tolerance: float = 1e-6
) -> None:
    """``torch.func.grad`` of the function in each of the tensors equals its central differences.

    ``tensors`` are float64: in single precision differences of this step are noise. The largest deviation may be
    ``tolerance`` times the largest entry of the differences, or ``tolerance`` itself where that is below 1.
    """
    assert tensors, "no tensor to take the gradient in"
    for which, tensor in enumerate(tensors):
        assert tensor.dtype == torch.float64, f"tensor {which} is {tensor.dtype}: use float64"
        gradient = torch.func.grad(function, argnums=which)(*(other.detach().contiguous() for other in tensors))
        expected = central_differences(function, *(other.contiguous() for other in tensors), step=step, which=which)
        assert gradient.shape == tensor.shape
        worst = float((gradient - expected).abs().max()) if tensor.numel() else 0.0
        allowed = tolerance * max(1.0, float(expected.abs().max()) if tensor.numel() else 0.0)
        assert worst <= allowed, f"tensor {which}: off by {worst:.3g}, allowed {allowed:.3g}\n{gradient}\n{expected}"
