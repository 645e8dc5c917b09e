"""Refusals of torch modules: where they are cut, and what they give."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import invariscope as iv
from invariscope.models.inputs import UnevenRows
from invariscope.models.torch_networks import mlp
from invariscope.torch import worst_case_penalty
from tests.remedies.case import Case

ROOM = tuple(f"models/torch_{name}" for name in ("calls", "heads", "models", "networks", "outputs", "passes"))

torch.manual_seed(0)
N = 40
X, Y, SITE = torch.randn(N, 3), torch.randn(N), torch.arange(N) % 2
IMAGES = torch.randn(N, 1, 3, 3)
NAMED = {"image": X, "number": torch.arange(N)}
BODY = nn.Sequential(nn.Linear(3, 4), nn.Tanh())


def net(outputs: int = 1, *behind: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs), *behind)


def answers(module: Any, rows: Any = X, **settings: Any) -> Any:
    return iv.split(module, **settings).predict(rows)


def audit(model: Any) -> Any:
    return iv.audit(model, X, Y > 0, SITE, criteria=["risk_variance"], n_boot=0)


class Module(nn.Module):
    """A network that ends as it likes: ``answer`` makes what it gives of its features and its two layers."""

    def __init__(self, answer: Callable[[Any, Tensor], Any], **layers: nn.Module) -> None:
        super().__init__()
        self.body, self.one, self.two, self.answer = BODY, nn.Linear(4, 2), nn.Linear(4, 2), answer
        self.mix = nn.Bilinear(4, 4, 2)
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Any:
        return self.answer(self, self.body(x))

    def probabilities(self, x: Tensor) -> Tensor:
        return self.one(self.body(x)).softmax(1)


class Scaled(nn.Module):
    """Reads two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return self.fc(scale * x)


POOL = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool1d(1))


class Sigmoid(nn.Linear):
    """A layer that gives probabilities, and does not say so."""

    def forward(self, z: Tensor) -> Tensor:
        return super().forward(z).sigmoid()


class Hungry(nn.Linear):
    """A layer for which there is room for few rows only."""

    def forward(self, z: Tensor) -> Tensor:
        if len(z) > 32:
            raise torch.OutOfMemoryError("no room")
        return super().forward(z)


def diverged() -> nn.Module:
    module = net()
    nn.init.constant_(module[0].weight, float("nan"))  # type: ignore[index]
    return module


def compiled(module: nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module)


def lazy() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 1))


def initialised() -> nn.Module:
    module = lazy()
    module(X)
    return module


def loaded(layer: nn.Module) -> None:
    layer.load_state_dict(nn.Linear(3, 1).state_dict())


def trained(network: Any) -> Any:
    """What looks like the result of a training."""
    return SimpleNamespace(network=network, objective=SimpleNamespace(name="erm"), history={})


def fitted(network: Any = None, **settings: Any) -> Any:
    model = iv.InvariantRegressor(network=network, steps=1, **settings)
    return model.fit(X.numpy(), Y.numpy(), env=SITE.numpy())


def penalty(head: Any) -> Tensor:
    return worst_case_penalty(None, [Y], [X], head=head, radius=0.1, task="regression")


def with_hole(hole: float) -> Tensor:
    images = IMAGES.clone()
    images[0, 0, 0, 0] = hole
    return images


def of_images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 1))


ONE_TENSOR = Module(lambda m, z: m.one(z))
BOTH = Module(lambda m, z: {"a": m.one(z), "b": m.two(z), "text": "none"})

CASES = [
    Case("leave it out", lambda: iv.split(net(), inputs="x", rows=X), lambda: iv.split(net(), rows=X)),
    Case(
        "give a dict with an array for every name",
        lambda: iv.split(net(), inputs="x", rows=X),
        lambda: iv.split(net(), inputs="x", rows={"x": X}),
    ),
    Case(
        "give a loader whose batches are ((x, scale), y)",
        lambda: answers(Scaled()),
        lambda: iv.split(Scaled()).predict(DataLoader([((x, torch.ones(1)), y) for x, y in zip(X, Y, strict=True)], 8)),
    ),
    Case(
        "give all rows one shape",
        lambda: iv.split(POOL, layer="1").represent(UnevenRows((X.numpy(), X[:, :2].numpy()))),
        lambda: iv.split(POOL, layer="1").represent(X),
    ),
    # --- where to cut ---
    Case("pass iv.Split(represent=", lambda: iv.split(trained(net())), lambda: iv.Split(predict=net().forward)),
    Case("give the module itself", lambda: answers(compiled(nn.Linear(3, 1))), lambda: answers(nn.Linear(3, 1))),
    Case(
        "as in lambda X: model(torch.as_tensor(X, dtype=torch.float32)).softmax(1)",
        lambda: answers(compiled(nn.Linear(3, 2))),
        lambda: iv.split(
            lambda rows: compiled(nn.Linear(3, 2))(torch.as_tensor(rows, dtype=torch.float32)).softmax(1)
        ).predict(X.numpy().astype(np.float64)),
    ),
    Case("pass some rows through the module first", lambda: answers(lazy()), lambda: answers(initialised())),
    Case(
        "load the weights",
        lambda: answers(nn.Linear(3, 1, device="meta")),
        lambda: answers(nn.Linear(3, 1, device="meta").to_empty(device="cpu").requires_grad_(False).apply(loaded)),
    ),
    Case("leave device out", lambda: answers(net(), device="toaster"), lambda: answers(net())),
    Case('or say "cpu"', lambda: answers(net(), device="toaster"), lambda: answers(net(), device="cpu")),
    Case("give a whole number", lambda: answers(net(), batch_size=0), lambda: answers(net(), batch_size=1)),
    Case(
        "iv.split(model, layer=...); there are mix",
        lambda: iv.split(Module(lambda m, z: m.mix(z, z)), rows=X),
        lambda: iv.split(Module(lambda m, z: m.mix(z, z)), rows=X, layer="mix"),
    ),
    Case("did you mean one", lambda: answers(ONE_TENSOR, layer="on"), lambda: answers(ONE_TENSOR, layer="one")),
    Case(
        'iv.split(model, layer="one") takes the one that is',
        lambda: answers(Module(lambda m, z: m.one(z + m.two(z).sum()))),
        lambda: answers(Module(lambda m, z: m.one(z + m.two(z).sum())), layer="one"),
    ),
    Case(
        "name another, iv.split(model, layer=...)",
        lambda: answers(ONE_TENSOR, layer="two"),
        lambda: answers(ONE_TENSOR, layer="one"),
    ),
    Case(
        "name one used once",
        lambda: answers(Module(lambda m, z: m.one(m.again(m.again(z))), again=nn.ReLU()), layer="again"),
        lambda: answers(Module(lambda m, z: m.one(m.again(m.again(z))), again=nn.ReLU()), layer="one"),
    ),
    Case(
        "name another",
        lambda: answers(Module(lambda m, z: m.one(z) + m.two(z.mean(0))), layer="two"),
        lambda: answers(Module(lambda m, z: m.one(z) + m.two(z.mean(0))), layer="one"),
    ),
    Case(
        "the module itself, iv.split(module, layer=...)",
        lambda: answers(ONE_TENSOR.probabilities, layer="one"),
        lambda: answers(ONE_TENSOR, layer="one"),
    ),
    # --- what its outputs mean ---
    Case("one target at a time", lambda: answers(net(2), task="regression"), lambda: answers(net(), task="regression")),
    Case(
        "audit one target at a time",
        lambda: answers(net(2, nn.Sigmoid())),
        lambda: answers(net(1, nn.Sigmoid())),
    ),
    Case(
        "or let the network give log-odds",
        lambda: answers((BODY, Sigmoid(4, 1)), task="classification"),
        lambda: answers((BODY, nn.Linear(4, 1)), task="classification"),
    ),
    Case(
        "take it off to predict numbers",
        lambda: answers(net(1, nn.Sigmoid()), task="regression"),
        lambda: answers(net(1), task="regression"),
    ),
    Case(
        "leave one of them out",
        lambda: answers(net(), classes="ab", task="regression"),
        lambda: answers(net(), classes="ab"),
    ),
    Case("give 2, all different", lambda: answers(net(2), classes="abc"), lambda: answers(net(2), classes="ab")),
    Case("iv.split(model, output='a')", lambda: audit(BOTH), lambda: audit(iv.split(BOTH, output="a"))),
    Case("it gives 'a', 'b'", lambda: answers(BOTH, output="c"), lambda: answers(BOTH, output="b")),
    Case(
        "leave it out", lambda: answers(ONE_TENSOR, output="a", layer="one"), lambda: answers(ONE_TENSOR, layer="one")
    ),
    Case("the name or the place of one", lambda: answers(BOTH, output=0.5), lambda: answers(BOTH, output="b")),
    Case(
        "wrap it in a module that gives logits",
        lambda: answers(Module(lambda m, z: str(m.two(z)))),
        lambda: answers(ONE_TENSOR, layer="one"),
    ),
    Case(
        "wrap it in a module that gives these",
        lambda: answers(BOTH, output="text"),
        lambda: answers(ONE_TENSOR, layer="one"),
    ),
    Case(
        "give one each",
        lambda: answers(Module(lambda m, z: m.two(z)[1:])),
        lambda: answers(Module(lambda m, z: m.two(z))),
    ),
    Case(
        "one number, or one per class",
        lambda: answers(Module(lambda m, z: m.two(z)[:, None].expand(-1, 3, -1))),
        lambda: answers(Module(lambda m, z: m.two(z))),
    ),
    # --- one pass ---
    Case(
        "batch_size=32) reads fewer",
        lambda: answers(nn.Sequential(BODY, Hungry(4, 1))),
        lambda: answers(nn.Sequential(BODY, Hungry(4, 1)), batch_size=32),
    ),
    Case("give rows such as it was trained on", lambda: answers(net(), X[:, :2]), lambda: answers(net(), X)),
    Case(
        'iv.split(model, inputs="image")', lambda: answers(net(), NAMED), lambda: answers(net(), NAMED, inputs="image")
    ),
    Case("train it again with a smaller learning rate", lambda: answers(diverged()), lambda: answers(net())),
    Case(
        "mend or drop them",
        lambda: answers(of_images(), with_hole(np.nan)),
        lambda: answers(of_images(), with_hole(np.nan)[1:]),
    ),
    Case("mend or drop", lambda: answers(of_images(), with_hole(np.inf)), lambda: answers(of_images(), with_hole(0.0))),
    Case(
        "give the name of an input",
        lambda: answers(net(), NAMED, inputs=3),
        lambda: answers(net(), NAMED, inputs="image"),
    ),
    # --- networks that are trained ---
    Case("give a torch module", lambda: penalty(3), lambda: penalty(nn.Linear(3, 1))),
    Case("use one of relu, tanh", lambda: fitted(activation="swish"), lambda: fitted(activation="tanh")),
    Case("at least 0 and below 1", lambda: mlp(3, 1, dropout=1.0), lambda: mlp(3, 1, dropout=0.5)),
    Case("at least 1", lambda: fitted(hidden=(4, 0)), lambda: fitted(hidden=(4, 1))),
    Case("give fewer", lambda: fitted(hidden=(1,) * 101), lambda: fitted(hidden=(1,) * 100)),
    Case("give fewer units", lambda: fitted(hidden=(10**9,)), lambda: fitted(hidden=(10,))),
    Case(
        "or an nn.Sequential that ends with an nn.Linear",
        lambda: fitted(network=nn.Sequential(nn.Linear(3, 1), nn.ReLU())),
        lambda: fitted(network=nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))),
    ),
    Case(
        "give a pair (representation, head)",
        lambda: fitted(network=nn.Bilinear(3, 3, 1)),
        lambda: fitted(network=(nn.Linear(3, 4), nn.Linear(4, 1))),
    ),
]
