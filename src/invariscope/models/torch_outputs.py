"""What a network gives: which of its outputs are the predictions, and the link (softmax, sigmoid) behind its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.models.inputs import listed
from invariscope.models.torch_networks import PASSING, is_chain

Output = str | int | None


class AmbiguousOutputError(InputError):
    """Several outputs may be the predictions, and neither names nor shapes tell which."""


LINKS: dict[type[nn.Module], str] = {nn.Softmax: "softmax", nn.LogSoftmax: "log-softmax", nn.Sigmoid: "sigmoid"}
#: Of several outputs the first of these is taken, where one is there.
PREDICTIONS = ("logits", "predictions", "prediction")


# --- which of the outputs -------------------------------------------------------------------------------------------
def predicted(result: Any, rows: int, name: Output = None) -> Tensor:
    """The predictions among what a module gives, as (n, K).

    A tensor is taken as it is. Of a dict, a tuple, a list or an object with attributes: the entry ``name``; else the
    one called logits, predictions or prediction; else the only one with a number, or one per class, for every row.

    >>> predicted({"logits": torch.ones(2, 3), "hidden": torch.ones(2, 9)}, 2).shape
    torch.Size([2, 3])
    >>> predicted((torch.ones(2), None), 2).shape
    torch.Size([2, 1])
    """
    if name is None:
        names = candidates(result, rows)
        if len(names) > 1:
            raise _ambiguous(result, names)
        name = names[0] if names else None
    return table(result if name is None else _entry(result, name), rows)


def candidates(result: Any, rows: int) -> list[Output]:
    """Names of the outputs that may be the predictions; none where the result is one tensor."""
    if isinstance(result, Tensor | np.ndarray):
        return []
    entries = _entries(result)
    usual: list[Output] = [name for name in PREDICTIONS if isinstance(entries.get(name), Tensor)]
    names = usual[:1] or [name for name, value in entries.items() if isinstance(value, Tensor) and _fits(value, rows)]
    if not names:
        raise InputError(
            f"the module gives a {type(result).__name__} without a tensor of a row per example: wrap it in a module "
            "that gives logits"
        )
    return names


def made_by_a_layer(result: Any, names: Sequence[Output], made: Sequence[Any]) -> Output:
    """The one of several outputs that is what some layer gave, but for a link; refused if that is not one."""
    found = [name for name in names if any(link_between(scores, _entry(result, name)) is not None for scores in made)]
    if len(found) != 1:
        raise _ambiguous(result, names)
    return found[0]


def _entries(result: Any) -> dict[Any, Any]:
    if isinstance(result, Mapping):
        return dict(result)
    if isinstance(result, tuple) and hasattr(result, "_asdict"):
        return dict(result._asdict())
    if isinstance(result, tuple | list):
        return dict(enumerate(result))
    named = {name: getattr(result, name) for name in PREDICTIONS if hasattr(result, name)}
    return {**getattr(result, "__dict__", {}), **named}


def _entry(result: Any, name: Output) -> Any:
    if isinstance(result, Tensor):
        raise InputError(f"output={name!r} was asked for, but the module gives one tensor: leave it out")
    entries = _entries(result)
    if name not in entries:
        raise InputError(f"the module gives no output {name!r}: it gives {listed(map(repr, entries or ['none']))}")
    return entries[name]


def _fits(values: Tensor, rows: int) -> bool:
    if values.ndim == 0 or len(values) != rows:
        return False
    return values.ndim <= 2 or values.numel() == rows * values.shape[1]


def _ambiguous(result: Any, names: Sequence[Output]) -> AmbiguousOutputError:
    entries = _entries(result)
    widths = [f"{name!r} with {entries[name].reshape(len(entries[name]), -1).shape[1]} columns" for name in names]
    return AmbiguousOutputError(
        f"the module gives a {type(result).__name__} of several tables ({listed(widths)}): iv.split(model, "
        f"output={names[0]!r}) takes that one for its predictions"
    )


def table(values: Any, rows: int) -> Tensor:
    """Outputs as (n, K)."""
    if isinstance(values, np.ndarray):
        values = torch.as_tensor(values)
    if not isinstance(values, Tensor):
        raise InputError(
            f"the module gives a {type(values).__name__}, not a tensor of logits: wrap it in a module that gives these"
        )
    if values.ndim == 0 or len(values) != rows:
        raise InputError(f"the module gives outputs of shape {tuple(values.shape)} for {rows} rows: give one each")
    if not _fits(values, rows):
        raise InputError(
            f"the module gives outputs of shape {tuple(values.shape)} for {rows} rows: one number, or one per class, "
            "is needed for every row"
        )
    return values.reshape(rows, -1)


# --- what is behind the scores --------------------------------------------------------------------------------------
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


def unlinked(values: Tensor, link: str) -> Tensor:
    """Probabilities back to logits, in single precision at least; log-probabilities are logits already."""
    values = values.float() if values.element_size() < 4 else values
    if link == "softmax":
        return values.clamp_min(torch.finfo(values.dtype).tiny).log()
    if link == "sigmoid":
        return values.logit(eps=torch.finfo(values.dtype).eps)
    return values


def sum_to_one(values: Tensor) -> bool:
    """Whether the rows look like class probabilities."""
    if values.shape[1] == 1 or bool((values < 0).any()):
        return False
    rounded = 1e-2 if values.element_size() < 4 else 1e-3
    return bool(((values.double().sum(1) - 1).abs() < rounded).all())
