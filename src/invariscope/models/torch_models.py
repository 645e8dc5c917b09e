"""Splitting torch modules: which layer is the last step, and what its inputs and outputs mean."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead, of_weights, probabilities_of
from invariscope.models.inputs import NO_TABLE
from invariscope.models.outputs import Names, numbered, own_names
from invariscope.models.splits import BY_HAND, Split
from invariscope.models.torch_calls import Call, has_forward
from invariscope.models.torch_networks import PASSING, Halves, halves_of, is_chain
from invariscope.models.torch_outputs import LINKS, AmbiguousOutputError
from invariscope.models.torch_passes import Logits, Passes, is_linear, linear_layers, listed
from invariscope.models.torch_rows import BATCH_SIZE, sources_of
from invariscope.models.trained_with import TrainedNetwork, TrainedWith, trained_with
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.targets import class_labels, kind_of_task

BEHIND = (*PASSING, *LINKS)
FORWARD_NAMES = ("forward", "__call__", "_wrapped_call_impl", "_call_impl")


@dataclass(frozen=True, eq=False)
class Meaning:
    """What a network's outputs are: as far as it is known."""

    passes: Passes
    task: str | None
    classes: tuple[Any, ...] | None
    outputs: int | None
    layer: str  # as the user would name it; empty if there is only one, which reads the inputs themselves
    trained: TrainedWith | None = None

    def predict(self, X: Any) -> Floats:
        """Numbers, or class probabilities: softmax of K outputs, sigmoid of one if it is known to be a log-odds."""
        logits, link = self.passes.logits(X)
        scores: Floats = logits.astype(np.float64)
        width = scores.shape[1]
        _refuse_link(self.task, link, width)
        if width > 1 and self.task == "regression":
            raise InputError(f"the network gives {width} numbers per row: audit one target at a time")
        if width == 1 and self.task != "classification" and link != "sigmoid":
            return scores
        unclear = width == 1 and not link and not self.passes.network.ends_linearly
        if unclear and scores.min() >= 0 and scores.max() <= 1:
            raise InputError(
                "all outputs are between 0 and 1: probabilities, or log-odds? Name the last linear layer, "
                "iv.split(model, layer=...), or let the network give log-odds"
            )
        return probabilities_of(scores)


def split_module(
    model: Any,
    *,
    layer: str | None = None,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    batch_size: int = BATCH_SIZE,
    device: Any = None,
    inputs: Any = None,
    output: Any = None,
    rows: Any = None,
    again: Callable[[Any], Split] | None = None,
) -> Split:
    """Cut a torch module before its last step; :func:`invariscope.split` says where.

    ``again`` does the same for rows, where there are none yet.

    >>> split_module(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)))
    <Split Sequential: what its last linear layer "2" reads; LinearHead(2 outputs, 8 features)>
    """
    task = kind_of_task(task)
    _refuse_unnamed(inputs, rows)
    module, passes = _asked(model, batch_size, device, inputs, output)
    try:
        passes, outputs, link = _tried(passes, module, layer, rows)
    except AmbiguousOutputError:
        if rows is None or output is not None:
            raise
        passes = _passes(module, batch_size, Call.of(inputs, passes.output_name(rows)))
        passes, outputs, link = _tried(passes, module, layer, rows)
    _refuse_link(task, link, outputs)
    if task is None and (classes is not None or link or (outputs or 1) > 1):
        task = "classification"
    labels = _classes(classes, task, outputs)
    kind = "network" if isinstance(module, Halves) else type(module).__name__
    trained = trained_with(model.objective) if _is_trained(model) else None
    meaning = Meaning(passes, task, labels, outputs, layer or passes.network.layer, trained)
    return _split(meaning, kind, None if layer is not None or rows is not None else again)


def split_method(method: Any, *, layer: str | None = None, rows: Any = None, **settings: Any) -> Split:
    """A bound method of a torch module: ``forward`` is the module itself, any other a function of tensors.

    >>> split_method(nn.Linear(3, 2).extra_repr)
    <Split Linear.extra_repr: its predictions; no linear head>
    """
    name = method.__name__
    if name in FORWARD_NAMES:
        return split_module(method.__self__, layer=layer, rows=rows, **settings)
    if layer is not None:
        whole = "the module itself, iv.split(module, layer=...), has layers"
        raise InputError(f"layer= is for modules, and {name} is a method, which is asked for its answers: {whole}")
    return _split_answers(method.__self__, name, **settings)


def _split_answers(
    model: Any,
    name: str,
    *,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    batch_size: int = BATCH_SIZE,
    **how: Any,
) -> Split:
    module, passes = _asked(model, batch_size, method=name, **how)
    described = f"{type(module).__name__}.{name}: its predictions"
    return Split(predict=passes.answers, name=described, task=task, classes=classes)


def _asked(
    model: Any, size: Any = BATCH_SIZE, device: Any = None, inputs: Any = None, output: Any = None, method: str = ""
) -> tuple[nn.Module, Passes]:
    """The module within what was given, and passes through it as it is called."""
    module = _on(_unwrapped(model), device)
    return module, _passes(module, size, Call.of(inputs, output, method))


def _refuse_unnamed(inputs: Any, rows: Any) -> None:
    """One of several inputs was named, and the rows are an array or a table."""
    if inputs is None or rows is None or isinstance(rows, (Mapping, *NO_TABLE)) or sources_of(rows) is not None:
        return
    raise InputError(
        f"inputs={inputs!r} names one of several inputs, and X is one {type(rows).__name__}: leave it out, or give a "
        "dict with an array for every name"
    )


def _tried(passes: Passes, module: nn.Module, layer: str | None, rows: Any) -> tuple[Passes, int | None, str]:
    """Passes through the module as it is cut, columns of its logits and the link behind them, as far as rows tell."""
    passes = replace(passes, network=_cut(passes, module, layer, rows))
    if rows is None:
        return passes, _static_outputs(passes.network), ""
    logits, _, link = passes.trial(rows)
    return passes, logits.shape[1], link


def _passes(module: nn.Module, batch_size: Any, call: Call) -> Passes:
    """Passes through the whole module, where it is and in the precision it has."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InputError(f"batch_size is {batch_size!r}: give a whole number of at least 1")
    device = next((value.device for value in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    dtype = next((value.dtype for value in module.parameters() if value.is_floating_point()), None)
    return Passes(Logits(module, "", final=False, call=call), batch_size, device, dtype or torch.get_default_dtype())


def _split(meaning: Meaning, kind: str, of_rows: Callable[[Any], Split] | None = None) -> Split:
    network = meaning.passes.network
    head, top = _head(network, meaning.outputs), network.top if network.final else None
    if not meaning.layer:
        words, columns = "the features themselves", _own_columns
    elif network.final and isinstance(network.top, nn.Identity):
        words, columns = "its score", partial(_numbered_from_one, "score")
    else:
        what = "last linear layer" if head is not None else "layer"
        words, columns = f'what its {what} "{meaning.layer}" reads', partial(_numbered_from_one, "feature")
    return Split(
        meaning.passes.features,
        meaning.predict,
        head,
        columns=columns,
        name=f"{kind}: {words}",
        task=meaning.task,
        classes=meaning.classes,
        top=top,
        network=network,
        trained_with=meaning.trained,
        of_task=partial(_of_task, meaning, kind),
        of_rows=of_rows,
    )


def _of_task(meaning: Meaning, kind: str, named: str) -> Split:
    task = kind_of_task(named)
    return _split(replace(meaning, task=task, classes=_classes(meaning.classes, task, meaning.outputs)), kind)


# --- where to cut ---------------------------------------------------------------------------------------------------
def _unwrapped(model: Any) -> Any:
    """The module inside what was put around it for training or speed."""
    inner = getattr(model, "_orig_mod", None)  # torch.compile: compiled layers do not tell what they receive
    if isinstance(inner, nn.Module):
        return _unwrapped(inner)
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return _unwrapped(model.module)
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            f"{type(model).__name__} is compiled, so nobody can look into it: give the module itself, or what it "
            "predicts, as in lambda X: model(torch.as_tensor(X, dtype=torch.float32)).softmax(1)"
        )
    if _is_trained(model):
        return model.network
    return halves_of(model) if isinstance(model, tuple) else model


def _is_trained(model: Any) -> bool:
    return not isinstance(model, nn.Module) and isinstance(model, TrainedNetwork) and isinstance(model.network, Halves)


def _on(module: Any, device: Any) -> nn.Module:
    """The module where it is, or a copy of it on another device."""
    if not isinstance(module, nn.Module):
        raise InputError(f"a {type(module).__name__} cannot be split: {BY_HAND}")
    for name, value in module.named_parameters():
        if isinstance(value, nn.parameter.UninitializedParameter):
            raise InputError(f'parameter "{name}" has no values yet: pass some rows through the module first')
        if value.device.type == "meta":
            raise InputError(f'parameter "{name}" is on the device "meta", which holds no values: load the weights')
    if device is None:
        return module
    try:
        wanted = torch.device(device)
        torch.empty(0, device=wanted)
        if wanted.type == "meta":
            raise RuntimeError("it holds no values")
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise InputError(f'device "{device}" cannot be used ({reason}): leave device out, or say "cpu"') from error
    first = next(module.parameters(), None)
    return module if first is None or first.device == wanted else copy.deepcopy(module).to(wanted)


def _cut(passes: Passes, module: nn.Module, layer: str | None, rows: Any) -> Logits:
    """The module and the layer that is its last step, or the one the user names."""
    call = passes.network.call
    if layer is not None:
        return _named(passes, module, layer, rows)
    if is_linear(module):
        return Logits(module, "", call=call)
    try:
        halves = halves_of(module, BEHIND)
    except InputError:
        return _by_last_linear(passes, module, rows)
    head = _plain_head(halves.head)
    whole = module if has_forward(module) or hasattr(module, "predict") else halves
    return Logits(whole, next(name for name, step in whole.named_modules() if step is head), call=call)


def _by_last_linear(passes: Passes, module: nn.Module, rows: Any) -> Logits:
    candidates = linear_layers(module)
    last = candidates[0] if candidates else None
    if candidates and rows is not None:
        last = passes.last_among(rows, candidates)
    if last is None:
        end = "has no nn.Linear" if not candidates else "does not end with an nn.Linear"
        raise InputError(
            f"{type(module).__name__} {end}: name the layer whose inputs are the representation, "
            f"iv.split(model, layer=...); {listed(module)}"
        )
    return Logits(module, last, call=passes.network.call)


def _named(passes: Passes, module: nn.Module, layer: str, rows: Any) -> Logits:
    names = [name for name, _ in module.named_modules() if name]
    if layer not in names:
        near = difflib.get_close_matches(str(layer), names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else listed(module)
        raise InputError(f'{type(module).__name__} has no layer "{layer}": {hint}')
    try:
        last: nn.Module | None = _cut(passes, module, None, rows).top
    except InputError:
        last = None
    if module.get_submodule(layer) is last:
        return Logits(module, layer, call=passes.network.call)
    if is_chain(module) and layer in module._modules:  # all from there on is known, and is the top
        steps = [step for step in module._modules.values() if step is not None]
        place = next(k for k, name in enumerate(module._modules) if name == layer)
        return Logits(
            Halves(nn.Sequential(*steps[:place]), nn.Sequential(*steps[place:])), "head", call=passes.network.call
        )
    return Logits(
        module, layer, final=rows is not None and passes.last_among(rows, [layer]) is not None, call=passes.network.call
    )


def _plain_head(head: nn.Module) -> nn.Module:
    """The linear layer in a head that is nothing else but a link: Sequential(Linear, Softmax), say."""
    if is_chain(head):
        layers = [layer for layer in head.children() if not isinstance(layer, BEHIND)]
        if len(layers) == 1 and is_linear(layers[0]):
            return layers[0]
    return head


# --- what comes out -------------------------------------------------------------------------------------------------
def _static_outputs(network: Logits) -> int | None:
    """Columns of the logits, where the layers themselves tell."""
    top, module = network.top, network.module
    if isinstance(top, nn.Identity) and isinstance(module, Halves):
        top = module.represent
    return int(top.out_features) if network.final and is_linear(top) else None  # type: ignore[arg-type]


def _head(network: Logits, outputs: int | None) -> LinearHead | None:
    if network.final and isinstance(network.top, nn.Identity) and outputs is not None:
        return LinearHead(np.eye(outputs), np.zeros(outputs))
    return of_weights(network.top) if network.ends_linearly else None


def _classes(given: Sequence[Any] | None, task: str | None, outputs: int | None) -> tuple[Any, ...] | None:
    if given is not None:
        labels = class_labels(given)
        if task == "regression":
            raise InputError("classes were given, but the task is regression: leave one of them out")
        wanted = None if outputs is None else max(outputs, 2)
        if len(set(labels)) != len(labels) or (wanted is not None and len(labels) != wanted):
            outs = "outputs" if outputs != 1 else "output"
            raise InputError(f"classes has {len(labels)} labels for {outputs} {outs}: give {wanted}, all different")
        return labels
    return tuple(range(outputs)) if task == "classification" and outputs is not None and outputs > 1 else None


def _refuse_link(task: str | None, link: str, outputs: int | None) -> None:
    if link and task == "regression":
        raise InputError(f"the network ends with a {link}, which is for classes: take it off to predict numbers")
    if link == "sigmoid" and (outputs or 1) > 1:
        raise InputError(f"the network gives {outputs} sigmoids, so {outputs} targets: audit one target at a time")


def _own_columns(X: Any, Z: Array) -> Names:
    names = own_names(X)
    return names if names is not None and len(names) == Z.shape[1] else numbered("x", Z.shape[1])


def _numbered_from_one(word: str, X: Any, Z: Array) -> Names:
    return (word,) if word == "score" and Z.shape[1] == 1 else tuple(f"{word} {j + 1}" for j in range(Z.shape[1]))
