"""The network of an estimator: made for training, and made again from its weights to predict."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead, of_weights
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import real_number, shown

if TYPE_CHECKING:
    import torch

    from invariscope.models.torch_networks import Halves, Scores

PRECISIONS = ("float64", "float32")
#: Networks made again, beside the estimators and not in them: whatever copies or stores an estimator sees plain arrays.
_MADE: WeakKeyDictionary[Any, tuple[Any, Any, Any]] = WeakKeyDictionary()


class Fitted(Protocol):
    """What networks, weight files and exports know of an estimator: attributes that ``fit`` sets, and their readers."""

    _task: ClassVar[str]
    hidden: Any
    activation: str
    dropout: float
    precision: str
    network: Any  # of the user's own, or None
    network_: dict[str, Any]
    weights_: dict[str, Array]
    history_: dict[str, Array]
    centre_: Floats
    scale_: Floats
    objective_: str
    environments_: tuple[Any, ...]
    notes_: tuple[str, ...]
    n_features_in_: int
    n_representation_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def predict(self, X: Any) -> Array: ...
    def represent(self, X: Any) -> Array: ...
    def _target_units(self) -> tuple[float, float]: ...


def need_torch() -> None:
    """Refuse with the command to type where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise InputError("training and its networks need torch: pip install 'invariscope[torch]'") from error


def dtype_of(precision: Any) -> torch.dtype:
    """torch's name for a precision."""
    import torch

    if precision not in PRECISIONS:
        raise InputError(f'precision is {precision!r}: use "float64", or "float32" for large networks')
    dtype: torch.dtype = getattr(torch, precision)
    return dtype


def new_network(estimator: Fitted, outputs: int, seed: int) -> tuple[Halves, int, dict[str, Any]]:
    """A network to start from, the width of its representation, and what is needed to make it again.

    It is the user's own, or has the hidden layers that the settings ask for.
    """
    import torch

    from invariscope.models.torch_networks import widths_of

    dtype, inputs = dtype_of(estimator.precision), estimator.n_features_in_
    plan: dict[str, Any] = {"outputs": outputs, "precision": estimator.precision}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if estimator.network is None:
            plan["hidden"] = _hidden_layers(estimator.hidden)
            plan |= {
                "activation": estimator.activation,
                "dropout": real_number(estimator.dropout, "dropout", below=1.0),
            }
            network = _planned_network(plan, inputs)
        else:
            network = _own_network(estimator.network, inputs, outputs)
            plan["layers"] = str(network)
    network = network.to(dtype)
    try:
        width, columns = widths_of(network, torch.zeros(2, inputs, dtype=dtype))
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(
            f"network cannot read rows of {inputs} columns ({_line(str(error))}): give one that takes as many"
        ) from error
    if columns != outputs:
        raise InputError(
            f"network gives {columns} outputs, but the target needs {outputs}: give its last layer as many"
        )
    return network, width, plan


def fitted_network(estimator: Fitted) -> Halves:
    """The network with the fitted weights, ready to predict; made once and kept as long as the estimator lives."""
    need_torch()
    weights, own, network = _MADE.get(estimator, (None, None, None))
    if network is None or weights is not estimator.weights_ or own is not estimator.network:
        network = _made_again(estimator)
        _MADE[estimator] = (estimator.weights_, estimator.network, network)
    return network  # type: ignore[no-any-return]


def scores_of(estimator: Fitted) -> Scores:
    """Standardised rows → scores (n, K): those of the classes, or numbers in the units of the target."""
    from invariscope.models.torch_networks import Scores

    return Scores(fitted_network(estimator), *estimator._target_units()).eval()


def image_channels(network: Halves, columns: int) -> int | None:
    """Channels of the images that a network reads, by its first convolution; ``None`` if it has none."""
    from torch import nn

    for layer in network.modules():
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            return layer.in_channels if columns % layer.in_channels == 0 else 1
    return None


def head_of(estimator: Fitted) -> LinearHead | None:
    """The network's last step as a linear head in the user's units, if it is one."""
    from torch import nn

    head, width, outputs = fitted_network(estimator).head, estimator.n_representation_, estimator.network_["outputs"]
    if isinstance(head, nn.Identity) and width == outputs:
        standard = LinearHead(np.eye(outputs), np.zeros(outputs))
    elif isinstance(head, nn.Linear) and head.in_features == width:
        standard = of_weights(head)
    else:
        return None
    centre, scale = estimator._target_units()
    return LinearHead(scale * standard.weight, centre + scale * standard.bias)


def passes_score_on(estimator: Fitted) -> bool:
    """Whether the representation is the score itself, as in a linear model."""
    from torch import nn

    return isinstance(fitted_network(estimator).head, nn.Identity)


def _hidden_layers(hidden: Any) -> tuple[int, ...]:
    units = (hidden,) if isinstance(hidden, int | np.integer) else hidden
    if isinstance(units, str) or not isinstance(units, Iterable):
        raise InputError(f"hidden is {shown(hidden)}: give the units of every layer, such as (64, 64)")
    widths = tuple(units)
    if not all(isinstance(width, int | np.integer) and not isinstance(width, bool) for width in widths):
        raise InputError(f"hidden is {shown(hidden)}: give whole numbers, such as (64, 64)")
    return tuple(map(int, widths))


def _planned_network(plan: dict[str, Any], inputs: int) -> Halves:
    from invariscope.models.torch_networks import mlp

    return mlp(inputs, plan["outputs"], plan["hidden"], activation=plan["activation"], dropout=plan["dropout"])


def _own_network(network: Any, inputs: int, outputs: int) -> Halves:
    from torch import nn

    from invariscope.models.torch_networks import halves_of

    if not isinstance(network, nn.Module | tuple) and callable(network):
        return halves_of(network(inputs, outputs))
    return copy.deepcopy(halves_of(network))  # the user's module stays as it is


def _made_again(estimator: Fitted) -> Halves:
    import torch

    plan = estimator.network_
    dtype = dtype_of(plan["precision"])
    weights = {name: torch.tensor(np.asarray(values)) for name, values in estimator.weights_.items()}
    if "hidden" in plan:
        weights = {name: values.to(dtype) for name, values in weights.items()}
        with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
            network = _planned_network(plan, estimator.n_features_in_)
    else:
        network = _given_again(estimator).to(dtype)
    try:
        network.load_state_dict(weights, assign="hidden" in plan)
    except RuntimeError as error:
        raise InputError(
            f"the weights do not fit the network ({_line(str(error))}): give the one they were trained in, or fit the "
            "model again"
        ) from error
    width = (*plan["hidden"], plan["outputs"])[-2:][0] if "hidden" in plan else estimator.n_representation_
    if estimator.n_representation_ != width:
        raise InputError(
            f"n_representation_ is {estimator.n_representation_}, but the network gives {width} features: "
            "fit the model again"
        )
    return network.eval()


def _given_again(estimator: Fitted) -> Halves:
    """A network of the user's own, which no file holds: the one given must look like the one that was trained."""
    import torch

    if estimator.network is None:
        raise InputError(
            "this model was trained with a network of your own, which is not stored with it: give the same one again, "
            "set_params(network=...) or from_safetensors(path, network=...)"
        )
    with torch.random.fork_rng(devices=[]):
        network = _own_network(estimator.network, estimator.n_features_in_, estimator.network_["outputs"])
    if str(network) != estimator.network_["layers"]:
        raise InputError(
            f"network is not the one these weights were trained in: that was {_line(estimator.network_['layers'])}, "
            f"this is {_line(str(network))}; give that one"
        )
    return network


def _line(text: str) -> str:
    return " ".join(text.split())
