"""One pass of rows through a network: its logits, and the representation that its last step reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.models.torch_networks import PASSING, Halves, in_use, is_chain
from invariscope.models.torch_rows import batches, undisturbed
from invariscope.rows.arrays import Array

Seen = TypeVar("Seen")

LINKS: dict[type[nn.Module], str] = {nn.Softmax: "softmax", nn.LogSoftmax: "log-softmax", nn.Sigmoid: "sigmoid"}


class Logits(nn.Module):
    """Anybody's module as one that gives logits (n, K), with a layer whose inputs are looked at on the way.

    If the layer is the last one (``final``), its outputs are the logits, whatever softmax, log-softmax or sigmoid the
    module has behind it; otherwise they are the module's outputs. Gradients flow through it.

    >>> module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Softmax(dim=1))
    >>> logits, features = Logits(module, "2").both(torch.zeros(5, 3))
    >>> logits.shape, features.shape
    (torch.Size([5, 2]), torch.Size([5, 4]))
    """

    def __init__(self, module: nn.Module, layer: str, final: bool = True) -> None:
        super().__init__()
        self.module, self.layer, self.final = module, layer, final
        self.ending = ending_of(self.top if final else module)

    @property
    def top(self) -> nn.Module:
        """The layer whose inputs are the representation."""
        return self.module.get_submodule(self.layer)

    @property
    def ends_linearly(self) -> bool:
        """Whether the layer is the last one, and plainly linear."""
        return self.final and is_linear(self.top)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (n, K)."""
        return self.both(inputs)[0]

    def both(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (n, K), and features (n, d)."""
        scores, features, _ = self.parts(inputs)
        return unlinked(scores, self.ending), features

    def parts(self, inputs: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Scores (logits, but for a link at the layer's end), features, and what the module itself gives."""
        output, calls = watched(self.module, [self.layer], inputs)
        if not calls[self.layer]:
            raise InputError(f'layer "{self.layer}" is not used when {type(self.module).__name__} predicts')
        (given, result), *others = calls[self.layer]
        if others and not self.final:
            raise InputError(f'layer "{self.layer}" is used {len(others) + 1} times in one pass: name one used once')
        if not isinstance(given, Tensor) or given.ndim < 2 or len(given) != len(inputs):
            raise InputError(f'layer "{self.layer}" does not receive one tensor with a row per example: name another')
        return _table(result if self.final else output, len(inputs)), given.flatten(1), output


def watched(module: nn.Module, layers: list[str], inputs: Tensor) -> tuple[Any, dict[str, list[tuple[Any, Any]]]]:
    """The module's outputs, and what each layer received and made of it: the latest use first."""
    seen: dict[str, list[tuple[Any, Any]]] = {layer: [] for layer in layers}
    handles = [
        module.get_submodule(layer).register_forward_hook(partial(_remember, seen[layer]), with_kwargs=True)
        for layer in layers
    ]
    try:
        return run(module, inputs), seen
    finally:
        for handle in handles:
            handle.remove()


def _remember(calls: list[tuple[Any, Any]], layer: nn.Module, given: Any, named: Any, result: Any) -> None:
    calls.insert(0, ((*given, *named.values(), None)[0], result))


def _table(values: Any, rows: int) -> Tensor:
    """Outputs as (n, K)."""
    if not isinstance(values, Tensor):
        raise InputError(
            f"the module gives a {type(values).__name__}, not a tensor of logits: wrap it in a module that gives these "
            "alone, or name its last layer (layer=...)"
        )
    if values.ndim not in (1, 2) and values.numel() != rows * values.shape[min(1, values.ndim - 1)]:
        raise InputError(
            f"the module gives outputs of shape {tuple(values.shape)} for {rows} rows: one number, or one per class, "
            "is needed for every row"
        )
    if values.ndim == 0 or len(values) != rows:
        raise InputError(f"the module gives outputs of shape {tuple(values.shape)} for {rows} rows: give one each")
    return values.reshape(rows, -1)


def unlinked(values: Tensor, link: str) -> Tensor:
    """Probabilities back to logits, in single precision at least; log-probabilities are logits already."""
    values = values.float() if values.element_size() < 4 else values
    if link == "softmax":
        return values.clamp_min(torch.finfo(values.dtype).tiny).log()
    if link == "sigmoid":
        return values.logit(eps=torch.finfo(values.dtype).eps)
    return values


def run(module: nn.Module, inputs: Tensor) -> Any:
    """The module's predictions: by ``forward``, or by ``predict`` where there is none (as DomainBed has it)."""
    if isinstance(module, Halves):
        return module(inputs)[0]
    return module(inputs) if has_forward(module) else module.predict(inputs)  # type: ignore[operator]


def has_forward(module: nn.Module) -> bool:
    """Whether it defines what it does to rows."""
    return type(module).forward is not nn.Module.forward


def ending_of(module: nn.Module) -> str:
    """The name of the softmax, log-softmax or sigmoid that a chain of layers ends with, or an empty text."""
    if is_chain(module):
        last = [layer for layer in module.children() if not isinstance(layer, PASSING)]
        return ending_of(last[-1]) if last else ""
    return next((name for kind, name in LINKS.items() if isinstance(module, kind)), "")


def link_between(scores: Any, output: Any) -> str | None:
    """What turns a layer's scores into the module's outputs: "" if nothing, ``None`` if no link that is known.

    >>> link_between(torch.tensor([[1.0], [2.0]]), torch.tensor([[0.7311], [0.8808]]))
    'sigmoid'
    """
    if not isinstance(scores, Tensor) or not isinstance(output, Tensor) or scores.numel() != output.numel():
        return None
    before, after = (values.detach().reshape(len(values), -1).double() for values in (scores, output))
    if before.shape != after.shape:
        return None
    loose = 1e-2 if output.element_size() < 4 else 1e-4
    links: list[nn.Module] = [nn.Identity(), nn.Softmax(1), nn.LogSoftmax(1), nn.Sigmoid()]
    for link in links if before.shape[1] > 1 else (links[0], links[-1]):
        if torch.allclose(link(before), after, rtol=loose, atol=loose * 1e-2, equal_nan=True):
            return LINKS.get(type(link), "")
    return None


@dataclass(frozen=True, eq=False)
class Passes:
    """Rows in, arrays out: the module in the mode in which it predicts, and everything afterwards as it was before."""

    network: Logits
    batch_size: int
    device: torch.device
    dtype: torch.dtype

    def features(self, X: Any) -> Array:
        """The representation (n, d)."""
        return np.concatenate([features for _, features, _ in self._over(X, self._seen)])

    def logits(self, X: Any) -> tuple[Array, str]:
        """Logits (n, K), and the link behind them: "softmax", "sigmoid", ... or an empty text."""
        logits, _, links = zip(*self._over(X, self._seen), strict=True)
        return np.concatenate(logits), links[0]

    def trial(self, X: Any) -> tuple[Array, Array, str]:
        """Logits, features and link of the first two rows."""
        return self._over(X, self._seen, rows=2)[0]

    def last_among(self, X: Any, layers: list[str]) -> str | None:
        """Which of the layers is the last step: its outputs are the module's, but for a link. Two rows tell."""
        return self._over(X, partial(self._last_among, layers), rows=2)[0]

    def _last_among(self, layers: list[str], inputs: Tensor) -> str | None:
        output, calls = watched(self.network.module, layers, inputs)
        _table(output, len(inputs))
        last = (name for name, seen in calls.items() if seen and link_between(seen[0][1], output) is not None)
        return next(last, None)

    def _seen(self, inputs: Tensor) -> tuple[Array, Array, str]:
        """Logits, features and link of one batch, provided that the last layer is the last step."""
        scores, features, output = self.network.parts(inputs)
        behind = link_between(scores, _table(output, len(inputs)))
        if behind is None:
            raise self._not_last(inputs)
        link = behind or self.network.ending
        if not link and not self.network.ends_linearly and _sum_to_one(scores):
            link, scores = "softmax", unlinked(scores, "softmax")
        else:
            scores = unlinked(scores, self.network.ending)
        self._refuse_missing(inputs, features)
        return _numpy(scores), _numpy(features), link

    def _over(self, X: Any, look: Callable[[Tensor], Seen], rows: int | None = None) -> list[Seen]:
        """One look at every batch, or at the first rows of the first; complaints of layers become one sentence."""
        module = self.network.module
        codes = any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in module.modules())
        looks = []
        with undisturbed(self.device), in_use(module):
            for batch in batches(X, self.batch_size, self.dtype, self.device, codes):
                inputs = batch if rows is None else batch[:rows]
                try:
                    looks.append(look(inputs))
                except InputError:
                    raise
                except torch.OutOfMemoryError as error:
                    raise InputError(
                        f"{len(inputs)} rows at once do not fit into memory: iv.split(model, batch_size=32) reads fewer"
                    ) from error
                except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
                    raise InputError(
                        f"{type(module).__name__} cannot use rows of shape {tuple(inputs.shape[1:])}"
                        f"{_first_layer(module, inputs)}: {' '.join(str(error).split())}"
                    ) from error
                if rows is not None:
                    break
        return looks

    def _not_last(self, inputs: Tensor) -> InputError:
        module, layer = self.network.module, self.network.layer
        other = self._last_among(linear_layers(module), inputs)
        remedy = (
            f'iv.split(model, layer="{other}") takes the one that is'
            if other is not None
            else f"name the layer whose inputs are the representation, iv.split(model, layer=...): {listed(module)}"
        )
        return InputError(f'layer "{layer}" is not the last step of {type(module).__name__}: {remedy}')

    def _refuse_missing(self, inputs: Tensor, features: Tensor) -> None:
        """A table's missing values are refused later, by the names of their columns."""
        if bool(features.isfinite().all()):
            return
        broken = int((~inputs.isfinite()).flatten(1).any(1).sum())
        kind = type(self.network.module).__name__
        if broken == 0:
            raise InputError(
                f"{kind} computes missing or infinite numbers from rows that hold none: did its training diverge?"
            )
        if inputs.ndim > 2:
            raise InputError(f"X has missing or infinite values in {broken} of {len(inputs)} rows: mend or drop them")


def linear_layers(module: nn.Module) -> list[str]:
    """Names of the layers that are plainly linear, the last one defined first."""
    return [name for name, layer in module.named_modules() if is_linear(layer)][::-1]


def is_linear(layer: nn.Module) -> bool:
    """Whether it computes z Wᵀ + b and nothing else: a subclass may do anything."""
    return isinstance(layer, nn.Linear) and type(layer).forward is nn.Linear.forward


def listed(module: nn.Module, most: int = 8) -> str:
    """Layers that could be named: those that have parameters of their own, the last ones first."""
    names = [name for name, layer in module.named_modules() if name and any(True for _ in layer.parameters())][::-1]
    if not names:
        return "it has no layers"
    return "there are " + ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _sum_to_one(values: Tensor) -> bool:
    if values.shape[1] == 1 or bool((values < 0).any()):
        return False
    rounded = 1e-2 if values.element_size() < 4 else 1e-3
    return bool(((values.double().sum(1) - 1).abs() < rounded).all())


def _first_layer(module: nn.Module, inputs: Tensor) -> str:
    """What the first layer expects, if the rows are not that."""
    first = next((m for m in module.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)), None)
    if isinstance(first, nn.Linear):
        return "" if first.in_features == inputs.shape[-1] else f" (its first layer reads {first.in_features} numbers)"
    if first is None or (inputs.ndim > 2 and inputs.shape[1] == first.in_channels):
        return ""
    wanted = "channels, height, width" if isinstance(first, nn.Conv2d) else "channels, ..."
    return f" (its first layer reads {first.in_channels} channels: X must be of shape rows x ({wanted}))"


def _numpy(values: Tensor) -> Array:
    values = values.detach().cpu()
    array: Array = (values.float() if values.element_size() < 4 else values).numpy()
    return array
