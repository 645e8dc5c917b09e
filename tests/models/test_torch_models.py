"""Splitting torch modules: the right layer, the module's own numbers, and nothing left behind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models import Split, split
from invariscope.models.torch_networks import linear, mlp
from tests.small_networks import HIDDEN, Algorithm, Backwards, Branches, D, N, Scaled, Wrapper, body, three


@pytest.fixture(autouse=True)
def _same_weights(seed: int) -> None:
    torch.manual_seed(seed)


@pytest.fixture
def X(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


def features_by_hand(module: Any, x: Tensor) -> Tensor:
    """What reaches the last linear layer, written out for every kind of module here."""
    match module:
        case (represent, _):
            return represent(x)
        case Algorithm() | Wrapper():
            return module.network[0](x)
        case Scaled():
            return module.represent(2 * x - 1)
        case Backwards():
            return module.features(module.extra(x))
        case Branches():
            return module.features(x)
        case nn.Linear():
            return x
        case nn.Sequential() if len(module) == 2:
            return module[0](x) if isinstance(module[1], nn.Linear) else module[1][0](module[0](x))
        case nn.Sequential():
            return module[:4](x)
    return module.represent(x)


MODULES: dict[str, Callable[[], Any]] = {
    "chain": three,
    "chain in a chain": lambda: nn.Sequential(body(), nn.Sequential(nn.Tanh(), nn.Linear(HIDDEN, 3))),
    "chain with names": lambda: nn.Sequential(OrderedDict(body=body(), out=nn.Linear(HIDDEN, 3))),
    "chain and identity": lambda: three(nn.Identity(), nn.Flatten()),
    "chain and softmax": lambda: three(nn.Softmax(dim=1)),
    "chain and log-softmax": lambda: three(nn.LogSoftmax(dim=1), nn.Identity()),
    "own module": Branches,
    "own module with softmax": lambda: Branches(link=lambda s: functional.softmax(s, dim=1)),
    "own module with log-softmax": lambda: Branches(link=lambda s: functional.log_softmax(s, dim=1)),
    "pair": lambda: (body(), nn.Linear(HIDDEN, 3)),
    "DomainBed": Algorithm,
    "wrapper": Wrapper,
    "halves with a forward": Scaled,
    "halves": lambda: mlp(D, 3, (7, HIDDEN)),
    "linear": lambda: nn.Linear(D, 3),
}


@pytest.mark.parametrize("kind", MODULES)
def test_the_representation_is_what_the_last_linear_layer_reads(kind: str, X: Any) -> None:
    module = MODULES[kind]()
    halves = split(module)
    found = halves.represent(X)  # before eval(): nothing is dropped, and batches are not normalised by themselves
    for part in module if isinstance(module, tuple) else (module,):
        part.eval()
    expected = features_by_hand(module, torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert halves.represent(X).dtype == np.float32
    assert halves.head is not None
    weight, bias = halves.top.weight.detach().numpy(), halves.top.bias.detach().numpy()
    np.testing.assert_array_equal(halves.head.weight, weight.astype(float))
    scores = expected @ weight.T + bias
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(halves.predict(X), probabilities, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(halves.predict(X, halves.represent(X)), probabilities, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(halves.network(torch.tensor(X)).detach().numpy(), scores, rtol=1e-4, atol=1e-5)
    assert (halves.task, halves.classes, halves.level) == ("classification", (0, 1, 2), "representation")
    assert len(halves.columns(X)) == expected.shape[1]


def test_gradients_flow_through_the_network_and_its_top(X: Any) -> None:
    module = Branches(link=lambda s: functional.softmax(s, dim=1)).eval()
    halves, rows = split(module), torch.tensor(X)
    halves.network(rows).square().sum().backward()
    found = module.first.weight.grad.clone()
    module.zero_grad()
    module.fc(module.features(rows)).square().sum().backward()
    torch.testing.assert_close(found, module.first.weight.grad)
    logits, features = halves.network.both(rows)
    torch.testing.assert_close(halves.top(features), logits)


def test_layers_of_a_network_trained_here_are_split(X: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = iv.training.Rows.of(X, rng.integers(0, 2, N), rng.integers(0, 2, N), dtype=torch.float32)
    trained = iv.training.train(mlp(D, 1, (HIDDEN,)), rows, settings=iv.training.Settings(steps=2))
    logits, features = trained(X)
    halves = split(trained, task="classification")
    np.testing.assert_allclose(halves.represent(X), features.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(halves.predict(X)[:, 1], torch.sigmoid(logits[:, 0]).numpy(), rtol=1e-5, atol=1e-6)


def test_a_linear_networks_representation_is_its_score(X: Any) -> None:
    network = linear(D, 1)
    halves = split(network)
    np.testing.assert_allclose(
        halves.represent(X), network.represent(torch.tensor(X)).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert halves.head is not None
    np.testing.assert_array_equal(halves.head.weight, [[1.0]])
    assert halves.columns(X) == ("score",)


# --- one output ------------------------------------------------------------------------------------------------------
def test_one_output_is_a_number_or_log_odds_as_the_task_says(X: Any) -> None:
    module = nn.Sequential(*body(), nn.Linear(HIDDEN, 1))
    scores = module(torch.tensor(X)).detach().numpy()[:, 0].astype(float)
    halves = split(module)
    assert halves.task is None
    np.testing.assert_allclose(halves.predict(X), scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(halves.for_task("regression").predict(X), scores, rtol=1e-5, atol=1e-6)
    probability = 1 / (1 + np.exp(-scores))
    for known in (halves.for_task("classification"), split(module, task="classification"), split(module, classes="ny")):
        assert known.task == "classification"
        np.testing.assert_allclose(
            known.predict(X), np.column_stack([1 - probability, probability]), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(known.predict(X, known.represent(X))[:, 1], probability, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inside", [False, True])
def test_a_sigmoid_makes_one_output_a_probability(inside: bool, X: Any) -> None:
    module: Any = Branches(1, torch.sigmoid) if inside else nn.Sequential(*body(), nn.Linear(HIDDEN, 1), nn.Sigmoid())
    halves = split(module)
    p = module.eval()(torch.tensor(X)).detach().numpy()[:, 0]
    np.testing.assert_allclose(halves.predict(X)[:, 1], p, rtol=1e-5, atol=1e-6)
    assert split(module, rows=X).task == "classification"
    with pytest.raises(InputError, match="ends with a sigmoid, which is for classes"):
        halves.for_task("regression").predict(X)
    with pytest.raises(InputError, match="ends with a sigmoid, which is for classes"):
        split(module, task="regression", rows=X)


def test_outputs_without_a_second_dimension(X: Any) -> None:
    module = Branches(1, lambda s: s.squeeze(1)).eval()
    np.testing.assert_allclose(split(module).predict(X), module(torch.tensor(X)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_the_target_of_an_audit_decides_what_one_output_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(400, D)).astype(np.float32), np.repeat(["a", "b"], 200)
    module = nn.Sequential(nn.Linear(D, 2), nn.Tanh(), nn.Linear(2, 1))
    scores = module(torch.tensor(X)).detach().numpy()[:, 0].astype(float)
    number, label = scores + rng.normal(size=400), np.where(rng.random(400) < 1 / (1 + np.exp(-scores)), "yes", "no")
    digit = rng.integers(0, 5, 400)
    for y, task, expected in (
        (number, "regression", np.mean((number - scores) ** 2)),
        (label, "binary", np.mean(np.log1p(np.exp(np.where(label == "yes", -scores, scores))))),
        (digit, "regression", np.mean((digit - scores) ** 2)),  # one output cannot be five classes
    ):
        found = iv.audit(module, X, y, env, criteria="worst_environment_risk")
        assert found.data.task == task
        assert np.mean(
            [risk.value for risk in found["worst_environment_risk"].per_environment.values()]
        ) == pytest.approx(expected, rel=1e-5)


# --- layers by name --------------------------------------------------------------------------------------------------
def test_a_layer_by_name_is_the_top_model(X: Any) -> None:
    module = Branches().eval()
    last = split(module, layer="fc")
    assert last.head is not None
    assert last.top is module.fc
    early = split(module, layer="norm")
    given = torch.relu(module.first(torch.tensor(X))) * torch.tanh(module.second(torch.tensor(X)))
    np.testing.assert_allclose(early.represent(X), given.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert early.head is None
    assert early.top is None
    np.testing.assert_allclose(
        early.predict(X), module(torch.tensor(X)).softmax(1).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert early.description == 'Branches: what its layer "norm" reads'


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_layer_of_a_chain_keeps_all_from_there_on_as_the_top(place: int, X: Any) -> None:
    module, rows = three(nn.Softmax(dim=1)), torch.tensor(X)
    halves = split(module, layer=str(place))
    assert halves.head is None
    assert halves.description == f'Sequential: what its layer "{place}" reads'
    before = module[:place](rows)
    np.testing.assert_allclose(halves.represent(X), before.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(halves.top(before).detach().numpy(), module(rows).detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(halves.predict(X), module(rows).detach().numpy(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(halves.network(rows).softmax(1), module(rows))  # logits, not probabilities


def test_a_head_that_is_not_linear_is_kept_as_the_top(X: Any) -> None:
    top = nn.Sequential(nn.Linear(HIDDEN, 4), nn.ReLU(), nn.Linear(4, 3))
    module, rows = Algorithm(top), torch.tensor(X)
    halves = split(module)
    assert halves.head is None
    assert halves.top is top
    np.testing.assert_allclose(halves.represent(X), module.featurizer(rows).detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        halves.predict(X), module.predict(rows).softmax(1).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert (halves.task, halves.classes) == (None, None)  # nothing says how many outputs there are
    known = split(module, rows=X)
    assert (known.task, known.classes) == ("classification", (0, 1, 2))


def test_probabilities_of_a_top_that_nobody_knows_are_seen(X: Any) -> None:
    class Top(nn.Linear):
        def forward(self, z: Tensor) -> Tensor:
            return functional.softmax(super().forward(z) ** 3, dim=1)

    module = nn.Sequential(body(), Top(HIDDEN, 3))
    pair = split((module[0], module[1]))
    assert pair.head is None  # a subclass may do anything
    np.testing.assert_allclose(pair.predict(X), module(torch.tensor(X)).detach().numpy(), rtol=1e-4)
    module[1].weight.data *= 5
    module.bfloat16()  # their sums are rounded
    expected = module(torch.tensor(X).bfloat16()).detach().double()
    assert float((expected.sum(1) - 1).abs().max()) > 1e-3
    found = split((module[0], module[1])).predict(X)
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdim=True), rtol=1e-5)


def test_a_last_layer_that_was_not_defined_last(X: Any) -> None:
    module = Backwards()
    with pytest.raises(InputError, match=r'"extra" is not the last step of Backwards: iv.split\(model, layer="fc"\)'):
        split(module).represent(X)
    halves = split(module, rows=X)
    assert halves.description == 'Backwards: what its last linear layer "fc" reads'
    expected = features_by_hand(module.eval(), torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(halves.represent(X), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(split(module, layer="fc", rows=X).represent(X), expected, rtol=1e-5, atol=1e-6)


def test_wrappers_for_speed_are_taken_off(X: Any) -> None:
    module = three()
    for wrapped in (nn.DataParallel(module), torch.compile(module, backend="eager")):
        np.testing.assert_array_equal(split(wrapped).represent(X), split(module).represent(X))


# --- methods of modules -----------------------------------------------------------------------------------------------
class Lit(nn.Module):
    """As trainers want it: steps that take batches, and methods of its own that predict."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.dropout = three(), nn.Dropout(0.5)
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # type: ignore[no-any-return]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return functional.cross_entropy(self(batch[0]), batch[1])

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self(batch)  # type: ignore[no-any-return]

    def predict_proba(self, x: Tensor) -> Tensor:
        assert type(x) is Tensor
        assert not torch.is_grad_enabled()
        assert not self.training
        self.seen.append(len(x))
        return self.dropout(self(x)).softmax(dim=1)  # type: ignore[no-any-return]

    def first_score(self, x: Tensor) -> Any:
        return self(x)[:, 0].numpy()

    def everything(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.net[:-1](x), "probabilities": self.predict_proba(x)}


def test_forward_is_the_module_itself(X: Any) -> None:
    module = Lit()
    expected = split(module)
    for method in (module.forward, module.__call__):
        found = split(method)
        assert found.description == expected.description == 'Lit: what its last linear layer "net.4" reads'
        np.testing.assert_array_equal(found.represent(X), expected.represent(X))
        np.testing.assert_array_equal(split(method, layer="net.2", rows=X).represent(X)[:, :2].shape, (N, 2))


def test_another_method_is_a_function_of_tensors(X: Any) -> None:
    module = Lit().train()
    halves = split(module.predict_proba, batch_size=10)
    module.net.eval()
    modes = [part.training for part in module.modules()]
    expected = module.net(torch.tensor(X)).softmax(dim=1).detach()
    for rows in (X, torch.tensor(X, requires_grad=True), torch.tensor(X, dtype=torch.bfloat16).float().bfloat16()):
        np.testing.assert_allclose(halves.predict(rows), expected, rtol=2e-2 if rows is not X else 1e-5)
    assert module.seen[:3] == [10, 10, 3]
    assert [part.training for part in module.modules()] == modes
    assert (halves.level, halves.head, halves.network) == ("prediction", None, None)
    assert halves.description == "Lit.predict_proba: its predictions"
    np.testing.assert_allclose(split(module.first_score).predict(X), module(torch.tensor(X))[:, 0].detach(), rtol=1e-5)
    some = split(module.everything, output="probabilities")
    np.testing.assert_allclose(some.predict(X), expected, rtol=1e-5)
    named = split(module.predict_proba, classes=["a", "b", "c"], task="classification")
    assert named.columns(X) == ('log-odds of "a" against "c"', 'log-odds of "b" against "c"')


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        (
            "predict_step",
            {},
            r"Lit.predict_step cannot use rows of shape \(3,\): give rows such as it was trained on "
            r"\(Lit.predict_step\(\) missing 1 required positional argument: 'batch_idx'\)",
        ),
        (
            "predict_proba",
            {"layer": "net.4"},
            "layer= is for modules, and predict_proba is a method, which is asked for its answers: the module itself, "
            r"iv.split\(module, layer=...\), has layers",
        ),
        (
            "everything",
            {},
            r"the module gives a dict of several tables \('features' with 5 columns and 'probabilities' with 3 "
            r"columns\): iv.split\(model, output='features'\) takes that one for its predictions",
        ),
    ],
)
def test_methods_that_cannot_be_asked(method: str, settings: dict[str, Any], message: str, X: Any) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        split(getattr(Lit(), method), **settings).predict(X)


def test_audits_of_methods(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(150, D)).astype(np.float32), np.repeat([0, 1, 2], 50)
    y = np.argmax(X + rng.gumbel(size=X.shape), axis=1)
    module = Lit().eval()
    settings: dict[str, Any] = {"criteria": ["regret", "risk_variance"], "n_boot": 99}
    whole = iv.audit(module.forward, torch.tensor(X), y, env, **settings)
    assert whole["regret"].value == iv.audit(module, X, y, env, **settings)["regret"].value
    said = module(torch.tensor(X)).softmax(dim=1).detach().numpy()
    by_hand = iv.audit(lambda rows: said, X, y, env, **settings)
    for rows in (X, DataLoader(TensorDataset(torch.tensor(X)), batch_size=40, shuffle=True)):
        found = iv.audit(module.predict_proba, rows, y, env, **settings)
        for name, result in by_hand.results.items():
            assert found[name].value == pytest.approx(result.value, rel=1e-5, abs=1e-9)
        assert found.data.representation == "prediction level: Lit.predict_proba: its predictions"


def test_a_split_of_predictions_alone(X: Any) -> None:
    module = three()
    halves: Split = split(module, classes="abc").by_predictions()
    logits = module(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(halves.represent(X), logits[:, :2] - logits[:, 2:], rtol=1e-4, atol=1e-5)
    assert (halves.level, halves.classes, halves.head) == ("prediction", ("a", "b", "c"), None)
    number = split(nn.Linear(D, 1)).by_predictions()
    assert number.for_task("classification").predict(X).shape == (N, 2)


class Residual(nn.Module):
    """As torchvision's networks are made: blocks in chains inside a module of its own, and a layer "fc" at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.ReLU())
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.layer1(x)
        return self.fc(self.avgpool(z + self.layer2(z)).flatten(1))


def test_networks_made_like_torchvisions(seed: int) -> None:
    module, images = Residual().eval(), torch.randn(6, 1, 5, 5)
    stem = module.layer1(images)
    pooled = (stem + module.layer2(stem)).mean(dim=(2, 3)).detach().numpy()
    halves = split(module)
    np.testing.assert_allclose(halves.represent(images), pooled, rtol=1e-4, atol=1e-6)
    assert halves.top is module.fc
    inner = split(module, layer="layer2.1", rows=images)
    expected = module.layer2[0](stem).detach().numpy().reshape(6, 50)
    np.testing.assert_allclose(inner.represent(images), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inner.predict(images), halves.predict(images), rtol=1e-5, atol=1e-6)
    assert (inner.head, inner.top, inner.classes) == (None, None, (0, 1, 2, 3))
