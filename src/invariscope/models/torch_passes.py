"""One pass of rows through a network: its logits, and the representation that its last step reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from invariscope import wording
from invariscope.errors import InputError
from invariscope.models.inputs import NamedInputs
from invariscope.models.torch_calls import FORWARD, Call, Inputs
from invariscope.models.torch_networks import in_use
from invariscope.models.torch_outputs import (
    Output,
    candidates,
    ending_of,
    link_between,
    made_by_a_layer,
    predicted,
    sum_to_one,
    unlinked,
)
from invariscope.models.torch_rows import batches, undisturbed
from invariscope.rows.arrays import Array

Seen = TypeVar("Seen")

LONGEST = 120  # characters of what torch says about arguments, which it repeats for every way to call a function
COMPLAINTS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError)


class Logits(nn.Module):
    """Anybody's module as one that gives logits (n, K), with a layer whose inputs are looked at on the way.

    If the layer is the last one (``final``), its outputs are the logits, whatever softmax, log-softmax or sigmoid the
    module has behind it; otherwise they are the module's outputs. Gradients flow through it.

    >>> module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Softmax(dim=1))
    >>> logits, features = Logits(module, "2").both(torch.zeros(5, 3))
    >>> logits.shape, features.shape
    (torch.Size([5, 2]), torch.Size([5, 4]))
    """

    def __init__(self, module: nn.Module, layer: str, final: bool = True, call: Call = FORWARD) -> None:
        super().__init__()
        self.module, self.layer, self.final, self.call = module, layer, final, call
        self.ending = ending_of(self.top if final else module)

    @property
    def top(self) -> nn.Module:
        """The layer whose inputs are the representation."""
        return self.module.get_submodule(self.layer)

    @property
    def ends_linearly(self) -> bool:
        """Whether the layer is the last one, and plainly linear."""
        return self.final and is_linear(self.top)

    def plain(self, rows: Any) -> Any:
        """Rows as one array, if the module reads no more than one of their inputs."""
        return self.call.plain(self.module, rows)

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits (n, K)."""
        return self.both(inputs)[0]

    def both(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Logits (n, K), and features (n, d)."""
        scores, features, _ = self.parts(inputs)
        return unlinked(scores, self.ending), features

    def parts(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """Scores (logits, but for a link at the layer's end), features, and what the module itself predicts."""
        output, calls = self.watched([self.layer], inputs)
        if not calls[self.layer]:
            raise InputError(
                f'layer "{self.layer}" is not used when {type(self.module).__name__} predicts: name another, '
                "iv.split(model, layer=...)"
            )
        (given, result), *others = calls[self.layer]
        if others and not self.final:
            raise InputError(f'layer "{self.layer}" is used {len(others) + 1} times in one pass: name one used once')
        if not isinstance(given, Tensor) or given.ndim < 2 or len(given) != len(inputs):
            raise InputError(f'layer "{self.layer}" does not receive one tensor with a row per example: name another')
        answer = predicted(output, len(inputs), self.call.output)
        if not self.final:
            return answer, given.flatten(1), answer
        own = None if isinstance(result, Tensor) else self.call.output  # of a head that gives several things itself
        return predicted(result, len(inputs), own), given.flatten(1), answer

    def watched(self, layers: list[str], inputs: Inputs) -> tuple[Any, dict[str, list[tuple[Any, Any]]]]:
        """All that the module gives, and what each layer received and made of it: the latest use first."""
        seen: dict[str, list[tuple[Any, Any]]] = {layer: [] for layer in layers}
        handles = [
            self.module.get_submodule(layer).register_forward_hook(partial(_remember, seen[layer]), with_kwargs=True)
            for layer in layers
        ]
        try:
            return self.call(self.module, inputs), seen
        finally:
            for handle in handles:
                handle.remove()


def _remember(calls: list[tuple[Any, Any]], layer: nn.Module, given: Any, named: Any, result: Any) -> None:
    calls.insert(0, ((*given, *named.values(), None)[0], result))


@dataclass(frozen=True, eq=False)
class Passes:
    """Rows in, arrays out: the module in the mode in which it predicts, and everything afterwards as it was before."""

    network: Logits
    batch_size: int
    device: torch.device
    dtype: torch.dtype

    def features(self, X: Any) -> Array:
        """The representation (n, d)."""
        return _joined([features for _, features, _ in self._over(X, self._seen)])

    def logits(self, X: Any) -> tuple[Array, str]:
        """Logits (n, K), and the link behind them: "softmax", "sigmoid", ... or an empty text."""
        logits, _, links = zip(*self._over(X, self._seen), strict=True)
        return _joined(logits), links[0]

    def trial(self, X: Any) -> tuple[Array, Array, str]:
        """Logits, features and link of the first two rows."""
        return self._over(X, self._seen, rows=2)[0]

    def last_among(self, X: Any, layers: list[str]) -> str | None:
        """Which of the layers is the last step: its outputs are the module's, but for a link. Two rows tell."""
        return self._over(X, partial(self._last_among, layers), rows=2)[0]

    def answers(self, X: Any) -> Array:
        """What the module predicts (n, K), whatever layers it has."""
        return _joined(self._over(X, self._answer))

    def output_name(self, X: Any) -> Output:
        """Which of several outputs holds the predictions, as far as names, shapes and layers tell. Two rows do."""
        return self._over(X, self._output_name, rows=2)[0]

    def _answer(self, inputs: Inputs) -> Array:
        return _numpy(self.network.call.predictions(self.network.module, inputs))

    def _output_name(self, inputs: Inputs) -> Output:
        result = self.network.call(self.network.module, inputs)
        names = candidates(result, len(inputs))
        if len(names) < 2:
            return names[0] if names else None
        result, calls = self.network.watched(linear_layers(self.network.module), inputs)
        return made_by_a_layer(result, names, [made for seen in calls.values() for _, made in seen])

    def _last_among(self, layers: list[str], inputs: Inputs) -> str | None:
        output, calls = self.network.watched(layers, inputs)
        output = predicted(output, len(inputs), self.network.call.output)
        last = (name for name, seen in calls.items() if seen and link_between(seen[0][1], output) is not None)
        return next(last, None)

    def _seen(self, inputs: Inputs) -> tuple[Array, Array, str]:
        """Logits, features and link of one batch, provided that the last layer is the last step."""
        scores, features, output = self.network.parts(inputs)
        behind = link_between(scores, output)
        if behind is None:
            raise self._not_last(inputs)
        link = behind or self.network.ending
        if not link and not self.network.ends_linearly and sum_to_one(scores):
            link, scores = "softmax", unlinked(scores, "softmax")
        else:
            scores = unlinked(scores, self.network.ending)
        self._refuse_missing(inputs, features)
        return _numpy(scores), _numpy(features), link

    def _over(self, X: Any, look: Callable[[Inputs], Seen], rows: int | None = None) -> list[Seen]:
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
                except COMPLAINTS as error:
                    raise self._unusable(inputs, error) from error
                if rows is not None:
                    break
        return looks

    def _unusable(self, inputs: Inputs, error: Exception) -> InputError:
        method, said = self.network.call.method, " ".join(str(error).split())
        kind = f"{type(self.network.module).__name__}{'.' if method else ''}{method}"
        if not isinstance(inputs, NamedInputs):
            wanted = self.network.call.reads(self.network.module)
            if len(wanted) > 1 and not method:
                several = f"({', '.join(wanted)})"
                return InputError(
                    f"{kind} reads several inputs {several}, and there is one: give a loader whose batches are "
                    f"({several}, y), or a dict with an array for each of them"
                )
            where = f"rows of shape {tuple(inputs.shape[1:])}{_first_layer(self.network.module, inputs)}"
            return InputError(f"{kind} cannot use {where}: give rows such as it was trained on ({said})")
        return InputError(
            f'{kind} cannot use rows of {inputs}: iv.split(model, inputs="{next(iter(inputs.parts))}") hands it that '
            f"one, a list of names several ({type(error).__name__}: {wording.short(said, LONGEST)})"
        )

    def _not_last(self, inputs: Inputs) -> InputError:
        module, layer = self.network.module, self.network.layer
        other = self._last_among(linear_layers(module), inputs)
        output = "" if self.network.call.output is None else f", output={self.network.call.output!r}"
        remedy = (
            f'iv.split(model, layer="{other}"{output}) takes the one that is'
            if other is not None
            else f"name the layer whose inputs are the representation, iv.split(model, layer=...): {listed(module)}"
        )
        return InputError(f'layer "{layer}" is not the last step of {type(module).__name__}: {remedy}')

    def _refuse_missing(self, inputs: Inputs, features: Tensor) -> None:
        """A table's missing values are refused later, by the names of their columns."""
        if bool(features.isfinite().all()):
            return
        named = isinstance(inputs, NamedInputs)
        parts = list(inputs.parts.values()) if isinstance(inputs, NamedInputs) else [inputs]
        broken = int(torch.stack([(~part.isfinite()).reshape(len(part), -1).any(1) for part in parts]).any(0).sum())
        kind = type(self.network.module).__name__
        if broken == 0:
            raise InputError(
                f"{kind} computes missing or infinite numbers from rows that hold none: if its training diverged, "
                "train it again with a smaller learning rate"
            )
        if named or parts[0].ndim > 2:
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


def _first_layer(module: nn.Module, inputs: Tensor) -> str:
    """What the first layer expects, if the rows are not that."""
    first = next((m for m in module.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)), None)
    if isinstance(first, nn.Linear):
        return "" if first.in_features == inputs.shape[-1] else f" (its first layer reads {first.in_features} numbers)"
    if first is None or (inputs.ndim > 2 and inputs.shape[1] == first.in_channels):
        return ""
    wanted = "channels, height, width" if isinstance(first, nn.Conv2d) else "channels, ..."
    return f" (its first layer reads {first.in_channels} channels: X must be of shape rows x ({wanted}))"


def _joined(parts: Sequence[Array]) -> Array:
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1:
        counts = wording.listed([str(shape[0]) for shape in sorted(widths)])
        raise InputError(
            f"the network gives {counts} numbers a row for batches of different shapes: give all rows one shape "
            "(resize images, pad texts to one length)"
        )
    return np.concatenate(parts)


def _numpy(values: Tensor) -> Array:
    values = values.detach().cpu()
    array: Array = (values.float() if values.element_size() < 4 else values).numpy()
    return array
