from __future__ import annotations

import pytest
import torch
from torch import nn

from invariscope.errors import InputError
from invariscope.models.torch_networks import HiddenLayers, convnet, halves_of, linear, mlp, widths_of


def test_the_network_of_table_8() -> None:
    network = mlp(10, 1, dropout=0.5)
    sizes = [tuple(value.shape) for value in network.parameters()]
    assert sizes == [(256, 10), (256,), (256, 256), (256,), (1, 256), (1,)]
    assert isinstance(network.represent, HiddenLayers)


def test_the_network_of_table_11() -> None:
    network = convnet((2, 14, 14), 2)
    kinds = [type(layer).__name__ for layer in network.represent.layers]
    assert kinds == ["Conv2d", "ReLU", "GroupNorm"] * 4
    convolutions = [layer for layer in network.represent.layers if isinstance(layer, nn.Conv2d)]
    assert [(one.in_channels, one.out_channels, one.stride) for one in convolutions] == [
        (2, 64, (1, 1)), (64, 128, (2, 2)), (128, 128, (1, 1)), (128, 128, (1, 1))
    ]  # fmt: skip
    assert widths_of(network, torch.zeros(3, 2 * 14 * 14)) == (128, 2)
    flat = torch.rand(3, 2 * 14 * 14)
    assert torch.equal(network(flat)[0], network(flat.reshape(3, 2, 14, 14))[0])


def test_a_linear_models_representation_is_its_score() -> None:
    logits, features = linear(3, 1)(torch.rand(5, 3))
    assert torch.equal(logits, features)


def test_dropped_units_are_zero_and_the_others_are_scaled_up() -> None:
    layers = HiddenLayers(2, (4,), "identity", 0.25)
    x = torch.rand(3, 2)
    noise = torch.tensor([[0.0, 0.2, 0.3, 0.9]]).expand(3, 4)  # kept if at least 0.25
    whole = layers(x)
    expected = whole * torch.tensor([0.0, 0.0, 1.0, 1.0]) / 0.75
    torch.testing.assert_close(layers(x, noise), expected)


def test_anybodys_modules_are_cut_into_halves() -> None:
    represent, head = nn.Linear(3, 4), nn.Linear(4, 2)
    x = torch.rand(5, 3)
    pair = halves_of((represent, head))
    sequence = halves_of(nn.Sequential(represent, nn.Identity(), head))

    class Bed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.featurizer, self.classifier = represent, head

    bed = halves_of(Bed())
    for network in (pair, sequence, bed):
        logits, features = network(x)
        assert torch.equal(features, represent(x))
        assert torch.equal(logits, head(represent(x)))


def test_chains_in_chains_and_networks_in_wrappers_are_cut() -> None:
    first, second, head = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)
    x = torch.rand(5, 3)
    nested = nn.Sequential(first, nn.Sequential(nn.Tanh(), second, nn.Sequential(head, nn.Identity())), nn.Flatten())

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = nested

    for network in (halves_of(nested), halves_of(Wrapper())):
        logits, features = network(x)
        assert network.head is head
        assert torch.equal(features, second(torch.tanh(first(x))))
        assert torch.equal(logits, head(features))


class Reversed(nn.Sequential):
    """A chain by name only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in reversed(self):
            x = layer(x)
        return x


@pytest.mark.parametrize(
    "wrong",
    [
        nn.Linear(3, 1),
        "resnet",
        nn.Sequential(nn.Linear(3, 1), nn.ReLU()),
        nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2), nn.Softmax(dim=1)),  # not logits
        nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Identity())),
        Reversed(nn.Linear(3, 1), nn.Linear(3, 3)),
    ],
    ids=str,
)
def test_refuses_what_has_no_halves(wrong: object) -> None:
    with pytest.raises(InputError, match="cannot be cut into representation and head"):
        halves_of(wrong)


@pytest.mark.parametrize("wrong", [{"activation": "swish"}, {"dropout": 1.0}, {"hidden": (4, 0)}])
def test_refuses_layers_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        mlp(3, 1, **wrong)  # type: ignore[arg-type]
