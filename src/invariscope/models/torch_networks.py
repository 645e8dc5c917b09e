"""Networks in two halves, representation and head: built-in ones, and anybody's own."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.models.torch_heads import as_it_predicts
from invariscope.rows.settings import shown

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "identity": nn.Identity}
HALVES = (
    "give a pair (representation, head), a module with attributes featurizer and classifier or represent and head, "
    "or an nn.Sequential that ends with an nn.Linear, whose outputs are logits (no sigmoid or softmax)"
)
MOST_WEIGHTS = 100_000_000  # with gradients and the optimiser's averages, 4 GB in double precision
MOST_LAYERS = 100  # plain layers on layers do not train long before that
PASSING = (nn.Identity, nn.Flatten)  # behind a head they change none of its numbers


class Halves(nn.Module):
    """A network that gives both its logits and the features its head reads.

    >>> network = Halves(nn.Linear(3, 2), nn.Linear(2, 1))
    >>> logits, features = network(torch.zeros(5, 3))
    >>> logits.shape, features.shape
    (torch.Size([5, 1]), torch.Size([5, 2]))
    """

    def __init__(self, represent: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.represent = represent
        self.head = head

    def forward(self, inputs: Tensor, noise: Tensor | None = None, flat: bool = True) -> tuple[Tensor, Tensor]:
        """Logits (n, K) and features (n, d), or as the head reads them if not ``flat``.

        ``noise`` is what :meth:`noise` drew for these rows.
        """
        features = self.represent(inputs) if noise is None else self.represent(inputs, noise)
        logits = self.head(features)
        logits = logits.reshape(logits.shape[0], -1)  # shape, not len: an export keeps rows variable
        return logits, features.flatten(1) if flat else features

    @property
    def drops(self) -> bool:
        """Whether units are dropped by numbers from outside."""
        return isinstance(self.represent, HiddenLayers) and self.represent.dropout > 0

    @property
    def draws_by_itself(self) -> bool:
        """Whether it may hold layers that draw from torch's own generator: any network but the built-in ones."""
        known = isinstance(self.represent, HiddenLayers | ImageLayers | nn.Linear)
        return not (known and isinstance(self.head, nn.Linear | nn.Identity))

    def noise(self, rows: int, generator: torch.Generator) -> Tensor:
        """The numbers of one training step, one uniform number per row and unit."""
        assert isinstance(self.represent, HiddenLayers)
        units = sum(layer.out_features for layer in self.represent.layers)  # type: ignore[misc]
        return torch.rand(rows, units, generator=generator)


class Scores(nn.Module):
    """A network in two halves as one that gives its scores alone (n, K), in the units of the target.

    >>> network = Scores(Halves(nn.Identity(), nn.Identity()), centre=10.0, scale=2.0)
    >>> network(torch.tensor([[1.0]]))
    tensor([[12.]])
    """

    def __init__(self, halves: Halves, centre: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.halves, self.centre, self.scale = halves, centre, scale

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of rows that are standardised as the network's training rows were."""
        scores: Tensor = self.halves(inputs)[0]
        return self.centre + self.scale * scores


class HiddenLayers(nn.Module):
    """Linear, activation and dropout, again and again.

    Which units are dropped comes from outside, so that hundreds of networks trained at once drop the same units as
    each of them alone, and a resumed training the same as one that was never interrupted.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], activation: str, dropout: float) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in itertools.pairwise(widths)])
        self.activation = ACTIVATIONS[activation]()
        self.dropout = dropout

    def extra_repr(self) -> str:
        """What no layer of its own shows; checkpoints tell networks apart by it."""
        return f"dropout={self.dropout}"

    def forward(self, values: Tensor, noise: Tensor | None = None) -> Tensor:
        """Activations of the last layer; without noise nothing is dropped."""
        start = 0
        for layer in self.layers:
            values = self.activation(layer(values))
            if noise is not None:
                # h ← h · 1{u ≥ p} / (1 − p): the mean over draws is h
                stays = noise[:, start : start + values.shape[1]] >= self.dropout
                values = values * stays.to(values.dtype) / (1 - self.dropout)
                start += values.shape[1]
        return values


class ImageLayers(nn.Module):
    """Four convolutions with ReLU and group normalisation, averaged over the image: 128 features.

    Rows may be flat or (channels, height, width).
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape
        widths, strides = (shape[0], 64, 128, 128, 128), (1, 2, 1, 1)
        layers: list[nn.Module] = []
        for before, after, stride in zip(widths[:-1], widths[1:], strides, strict=True):
            layers += [nn.Conv2d(before, after, 3, stride=stride, padding=1), nn.ReLU(), nn.GroupNorm(8, after)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, 128)."""
        return self.layers(images.reshape(images.shape[0], *self.shape)).mean(dim=(2, 3))  # type: ignore[no-any-return]


def linear(inputs: int, outputs: int) -> Halves:
    """A linear model: its representation is the score itself, which the head passes on.

    The features of a linear model would be its inputs, the same whatever is learned. What it learns is the score, as
    in IRM, where the head is the number 1.
    """
    return Halves(nn.Linear(inputs, outputs), nn.Identity())


def mlp(
    inputs: int, outputs: int, hidden: Sequence[int] = (256, 256), *, activation: str = "relu", dropout: float = 0.0
) -> Halves:
    """Hidden layers and a linear head. Table 8 of the DRIC paper is hidden=(256, 256), dropout=0.5.

    >>> mlp(4, 1, (8,)).head
    Linear(in_features=8, out_features=1, bias=True)
    """
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise InputError(f'activation "{activation}" is unknown: use one of {", ".join(ACTIVATIONS)}')
    if not 0 <= dropout < 1:
        raise InputError(f"dropout is {dropout!r}: give a share of at least 0 and below 1")
    if any(width < 1 for width in hidden):
        raise InputError(f"hidden is {shown(tuple(hidden))}: give the number of units of every layer, at least 1")
    _refuse_too_large(inputs, hidden, outputs)
    if not hidden:
        return linear(inputs, outputs)
    return Halves(HiddenLayers(inputs, hidden, activation, dropout), nn.Linear(hidden[-1], outputs))


def _refuse_too_large(inputs: int, hidden: Sequence[int], outputs: int) -> None:
    """Before any memory is touched."""
    if len(hidden) > MOST_LAYERS:
        raise InputError(f"hidden has {len(hidden):,} layers, and at most {MOST_LAYERS} are trained: give fewer")
    weights = sum((before + 1) * after for before, after in itertools.pairwise([inputs, *map(int, hidden), outputs]))
    if weights > MOST_WEIGHTS:
        raise InputError(
            f"hidden is {shown(tuple(hidden))}: with {inputs:,} columns that makes {weights:.2g} weights, and at most "
            f"{MOST_WEIGHTS:,} are trained: give fewer units"
        )


def convnet(shape: tuple[int, int, int], outputs: int) -> Halves:
    """The small network for images of the DRIC paper's Table 11, with a linear head.

    The paper gives neither the size of the kernels nor the padding: 3 × 3 and 1 here, as in DomainBed.
    """
    return Halves(ImageLayers(shape), nn.Linear(128, outputs))


def halves_of(network: Any, behind: tuple[type[nn.Module], ...] = PASSING) -> Halves:
    """Anybody's module in two halves, representation and head.

    It may be a pair of modules (representation, head), a module with attributes ``featurizer`` and ``classifier`` (as
    DomainBed's have) or ``represent`` and ``head``, an ``nn.Sequential``, nested or not, that ends with an
    ``nn.Linear``, or a module with one of these as its attribute ``network``. The head gives logits: one column for
    regression and two classes, K for K classes. Layers of the types ``behind`` may follow the last linear one; they
    are left out.

    >>> halves_of(nn.Sequential(nn.Linear(3, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 1)))).head
    Linear(in_features=8, out_features=1, bias=True)
    """
    if isinstance(network, tuple) and len(network) == 2 and all(isinstance(half, nn.Module) for half in network):
        return Halves(*network)
    halves = _halves_of_module(network, behind) if isinstance(network, nn.Module) else None
    if halves is None:
        raise InputError(
            f"this network ({type(network).__name__}) cannot be cut into representation and head: {HALVES}"
        )
    return halves


def _halves_of_module(network: nn.Module, behind: tuple[type[nn.Module], ...]) -> Halves | None:
    if isinstance(network, Halves):
        return network
    for names in (("featurizer", "classifier"), ("represent", "head")):
        represent, head = (getattr(network, name, None) for name in names)
        if isinstance(represent, nn.Module) and isinstance(head, nn.Module):
            return Halves(represent, head)
    if is_chain(network):
        before, last = _before_the_last_linear(network, behind)
        return Halves(nn.Sequential(before), last) if before and last is not None else None
    inner = getattr(network, "network", None)
    return _halves_of_module(inner, behind) if isinstance(inner, nn.Module) else None


def is_chain(network: Any) -> bool:
    """Whether it is an ``nn.Sequential`` that does what its name says: a subclass may do anything."""
    return isinstance(network, nn.Sequential) and type(network).forward is nn.Sequential.forward


def _before_the_last_linear(
    network: nn.Module, behind: tuple[type[nn.Module], ...]
) -> tuple[OrderedDict[str, nn.Module], nn.Linear | None]:
    """The layers of a chain before its last linear one, under their names, and that one if the chain ends with it."""
    named = OrderedDict((name, layer) for name, layer in network._modules.items() if layer is not None)
    while named and isinstance(named[next(reversed(named))], behind):
        named.popitem()
    if not named:
        return named, None
    name, last = named.popitem()
    if is_chain(last):
        inner, last_linear = _before_the_last_linear(last, behind)
        if inner:
            named[name] = nn.Sequential(inner)
        return named, last_linear
    return named, last if isinstance(last, nn.Linear) else None


def widths_of(network: Halves, inputs: Tensor) -> tuple[int, int]:
    """Columns of the features and of the logits, tried out on a few rows."""
    with in_use(network):
        logits, features = network(inputs[:2])
    return features.shape[1], logits.shape[1]


@contextmanager
def in_use(network: nn.Module) -> Iterator[None]:
    """The network as it predicts: no gradients, no dropout; afterwards every layer is in the mode it was in."""
    with as_it_predicts(network), torch.no_grad():
        yield
