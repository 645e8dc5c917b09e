"""The head of a network as a pure function of features, and its weights where it is linear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from invariscope.errors import InputError

Named = dict[str, Tensor]


@dataclass(frozen=True)
class FeatureHead:
    """Features (n, d) → scores (n, K).

    ``function`` takes the parameters and the features; ``weight`` (K, d) and ``bias`` (K,) are there for linear heads,
    for which worst cases have closed forms.
    """

    function: Callable[[Named, Tensor], Tensor]
    parameters: Named
    weight: Tensor | None = None
    bias: Tensor | None = None

    def __call__(self, features: Tensor) -> Tensor:
        scores = self.function(self.parameters, features)
        return scores.reshape(scores.shape[0], -1)

    def fixed(self) -> FeatureHead:
        """The same head with parameters that no gradient reaches."""
        return replace(
            self,
            parameters={name: value.detach() for name, value in self.parameters.items()},
            weight=None if self.weight is None else self.weight.detach(),
            bias=None if self.bias is None else self.bias.detach(),
        )


def feature_head(
    head: Any, features: Tensor, parameters: Named | None = None, shape: Sequence[int] | None = None
) -> FeatureHead:
    """A head from a module or any function of features; ``parameters`` replace the module's own.

    ``features`` (n, d) tell the width and the type of numbers; ``shape`` is what a row of them looks like where the
    head does not read flat ones. ``nn.Linear`` counts as linear, and ``nn.Identity`` too, as the head of a linear model
    whose representation is its score. Another module answers as it predicts, without dropout and with the running
    statistics it has.

    >>> head = feature_head(nn.Identity(), torch.zeros(4, 2))
    >>> head.weight
    tensor([[1., 0.],
            [0., 1.]])
    """
    if isinstance(head, FeatureHead):
        return head
    if not callable(head):
        raise InputError(f"the head is a {type(head).__name__}: give a torch module or a function of features")
    if not isinstance(head, nn.Module):
        return FeatureHead(lambda _, rows: head(rows), {})
    named = {**dict(head.named_parameters()), **(parameters or {})}
    width = features.shape[1]
    if type(head) is nn.Identity:
        eye = torch.eye(width, dtype=features.dtype, device=features.device)
        return FeatureHead(lambda _, rows: rows, {}, eye, eye.new_zeros(width))
    if _is_plainly_linear(head, width):
        weight = named["weight"]
        bias = named["bias"] if "bias" in named else torch.zeros_like(weight[:, 0])
        return FeatureHead(_linear, {"weight": weight, "bias": bias}, weight, bias)

    def scores(named: Named, rows: Tensor) -> Tensor:
        with as_it_predicts(head):
            values: Tensor = functional_call(head, named, (rows.reshape(rows.shape[0], *(shape or (width,))),))
        return values

    return FeatureHead(scores, named)


def _linear(named: Named, rows: Tensor) -> Tensor:
    return nn.functional.linear(rows, named["weight"], named["bias"])


def _is_plainly_linear(head: nn.Module, width: int) -> bool:
    """Whether it is an ``nn.Linear`` over all features; hooks (as of weight normalisation) may change what it does."""
    if type(head) is not nn.Linear or head.in_features != width:
        return False
    return not head._forward_hooks and not head._forward_pre_hooks


@contextmanager
def as_it_predicts(module: nn.Module) -> Iterator[None]:
    """Without dropout and with running statistics; afterwards every layer is in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
