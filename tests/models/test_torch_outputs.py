"""What networks give: dicts, tuples and objects; which of several are the predictions, and when nobody knows."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models import split
from invariscope.models.torch_outputs import predicted, sum_to_one, unlinked
from tests.small_networks import HIDDEN, D, N, body


@pytest.fixture(autouse=True)
def _same_weights(seed: int) -> None:
    torch.manual_seed(seed)


@pytest.fixture
def X(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


class Answers(nn.Module):
    """Gives whatever ``answer`` makes of its scores and features."""

    def __init__(self, answer: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.body, self.fc, self.answer = body(), nn.Linear(HIDDEN, 3), answer

    def forward(self, x: Tensor) -> Any:
        features = self.body(x)
        return self.answer(self.fc(features), features)


class ModelOutput(OrderedDict[str, Any]):
    """As text models have it: a dict whose entries are attributes, too."""

    @property
    def logits(self) -> Any:
        return self["logits"]


@dataclass
class Prediction:
    predictions: Tensor
    hidden: Tensor


class Slots:
    __slots__ = ("logits",)

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


Pair = namedtuple("Pair", "features logits")

KNOWN: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "dict with logits": lambda s, z: {"features": z, "logits": s},
    "dict with logits and probabilities": lambda s, z: {"probabilities": s.softmax(1), "logits": s},
    "dict with logits and predictions": lambda s, z: {"predictions": s.softmax(1), "prediction": s + 1, "logits": s},
    "dict with a prediction": lambda s, z: {"hidden": z, "prediction": s},
    "dict of one table": lambda s, z: {
        "loss": s.sum(),
        "out": s,
        "attention": z[:, :, None, None].expand(-1, -1, 2, 2),
    },
    "model output": lambda s, z: ModelOutput(logits=s, hidden_states=z),
    "dataclass": lambda s, z: Prediction(s, z),
    "object": lambda s, z: SimpleNamespace(loss=None, logits=s, hidden_states=(z, z)),
    "object with slots": lambda s, z: Slots(s),
    "named tuple": lambda s, z: Pair(z, s),
    "tuple of one": lambda s, z: (s,),
    "list with nothing": lambda s, z: [s, None],
    "loss and scores": lambda s, z: (s.sum(), s),
}
#: Neither names nor shapes tell, but only one of the tables was made by a linear layer.
MADE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "scores first": lambda s, z: (s, z),
    "scores last": lambda s, z: (z, s),
    "names of one's own": lambda s, z: {"embedding": z, "out": s},
    "a link behind": lambda s, z: (z, s.softmax(1)),
    "same width": lambda s, z: (z[:, :3], s),
}


@pytest.mark.parametrize("kind", [*KNOWN, *MADE])
def test_the_predictions_are_found_among_the_outputs(kind: str, X: Any) -> None:
    """The same halves as those of the module that gives its scores alone."""
    module = Answers({**KNOWN, **MADE}[kind])
    plain = Answers(lambda scores, features: scores)
    plain.load_state_dict(module.state_dict())
    expected = split(plain)
    for halves in [split(module, rows=X)] + ([split(module)] if kind in KNOWN else []):
        np.testing.assert_array_equal(halves.represent(X), expected.represent(X))
        np.testing.assert_allclose(halves.predict(X), expected.predict(X), rtol=1e-5)
        np.testing.assert_array_equal(halves.head.weight, expected.head.weight)
        by_layer = split(module, layer="fc", rows=X)
        np.testing.assert_array_equal(by_layer.represent(X), expected.represent(X))


def test_an_audit_does_not_care_what_is_around_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(150, D)).astype(np.float32), np.repeat([0, 1, 2], 50)
    y = np.argmax(X + rng.gumbel(size=X.shape), axis=1)
    module = Answers(KNOWN["object"])
    plain = Answers(lambda scores, features: scores)
    plain.load_state_dict(module.state_dict())
    expected = iv.audit(plain, X, y, env, criteria=["regret", "influence_index"], n_boot=99)
    for kind in ("object", "scores last", "named tuple"):
        module.answer = {**KNOWN, **MADE}[kind]
        found = iv.audit(module, X, y, env, criteria=["regret", "influence_index"], n_boot=99)
        assert found.verdict == expected.verdict
        assert found["regret"].value == expected["regret"].value
        assert found["influence_index"].value == expected["influence_index"].value


class TwoHeads(nn.Module):
    """Two tasks: each of its outputs was made by a linear layer."""

    def __init__(self, answer: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.body, self.one, self.two, self.answer = body(), nn.Linear(HIDDEN, 3), nn.Linear(HIDDEN, 2), answer

    def forward(self, x: Tensor) -> Any:
        features = self.body(x)
        return self.answer(self.one(features), self.two(features))


@pytest.mark.parametrize(
    ("answer", "names", "kind", "said"),
    [
        (lambda one, two: (one, two), (0, 1), "tuple", "0 with 3 columns and 1 with 2 columns"),
        (lambda one, two: [one, two], (0, 1), "list", "0 with 3 columns and 1 with 2 columns"),
        (lambda a, b: {"age": a, "sex": b}, ("age", "sex"), "dict", "'age' with 3 columns and 'sex' with 2 columns"),
        (lambda a, b: SimpleNamespace(a=a, b=b), ("a", "b"), "SimpleNamespace", "'a' with 3 .* and 'b' with 2 columns"),
    ],
    ids=["tuple", "list", "dict", "object"],
)
def test_ambiguous_outputs_are_refused_and_the_remedy_works(
    answer: Any, names: Any, kind: str, said: str, X: Any
) -> None:
    module = TwoHeads(answer)
    message = (
        rf"the module gives a {kind} of several tables \({said}\): iv.split\(model, output={names[0]!r}\) takes that "
        "one for its predictions"
    )
    for settings in ({}, {"rows": X}, {"layer": "one"}, {"layer": "one", "rows": X}):
        with pytest.raises(InputError, match=f"^{message}$"):
            split(module, **settings).predict(X)
    with torch.no_grad():
        features = module.body(torch.tensor(X))
    for name, layer in zip(names, (module.one, module.two), strict=True):
        halves = split(module, output=name, rows=X)
        np.testing.assert_allclose(halves.predict(X), layer(features).softmax(1).detach(), rtol=1e-5)
        np.testing.assert_array_equal(halves.head.weight, layer.weight.detach())
        again = split(split(module, output=name), rows=X)  # as an audit does: the order of definitions misleads
        np.testing.assert_array_equal(again.represent(X), halves.represent(X))
        np.testing.assert_array_equal(again.head.weight, layer.weight.detach())
        said = split(split(module, output=name).by_predictions(), rows=X)
        np.testing.assert_array_equal(said.predict(X), halves.predict(X))
    remedy = rf'layer "two" is not the last step of TwoHeads: iv.split\(model, layer="one", output={names[0]!r}\)'
    with pytest.raises(InputError, match=f"^{remedy} takes the one that is$"):
        split(module, output=names[0]).represent(X)
    np.testing.assert_array_equal(
        split(module, layer="one", output=names[0]).represent(X), split(module, output=names[0], rows=X).represent(X)
    )
    with pytest.raises(
        InputError, match=f"^the module gives no output 'other': it gives {names[0]!r} and {names[1]!r}$"
    ):
        split(module, output="other", rows=X)


def test_a_head_that_gives_a_dict(X: Any) -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(HIDDEN, 3)

        def forward(self, features: Tensor) -> Any:
            return {"logits": self.fc(features), "features": features}

    represent, head = body(), Head()
    halves = split((represent, head), rows=X)
    with torch.no_grad():
        features = represent(torch.tensor(X))
        np.testing.assert_allclose(halves.represent(X), features, rtol=1e-5)
        np.testing.assert_allclose(halves.predict(X), head.fc(features).softmax(1), rtol=1e-5)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            None,
            "the module gives a NoneType without a tensor of a row per example: wrap it in a module that gives logits",
        ),
        (("text", torch.ones(4, 3)), "the module gives a tuple without a tensor of a row per example: wrap it"),
        ({"logits": torch.ones(5, 7, 3)}, r"the module gives outputs of shape \(5, 7, 3\) for 5 rows: one number, or"),
        ({"logits": torch.ones(4, 3)}, r"the module gives outputs of shape \(4, 3\) for 5 rows: give one each"),
        (torch.ones(()), r"the module gives outputs of shape \(\) for 5 rows: give one each"),
    ],
)
def test_outputs_that_cannot_be_read(result: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        predicted(result, 5)


def test_gradients_of_every_row_flow_through_an_object(X: Any) -> None:
    """Other parts take gradients row by row with torch.func: nothing on the way may branch on values."""
    module = Answers(KNOWN["object"])
    network, rows = split(module).network, torch.tensor(X[:4])

    def score(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return torch.func.functional_call(network, values, (row[None],))[0, 1]

    parameters = dict(network.named_parameters())
    found = torch.func.vmap(torch.func.grad(score), in_dims=(None, 0))(parameters, rows)
    for k in range(4):
        slow = torch.autograd.grad(module(rows[k : k + 1]).logits[0, 1], list(parameters.values()))
        for name, gradient in zip(parameters, slow, strict=True):
            torch.testing.assert_close(found[name][k], gradient)


@pytest.mark.parametrize(
    ("rows", "dtype", "expected"),
    [
        ([[0.25, 0.75], [1.0, 0.0]], torch.float32, True),
        ([[0.25, 0.75], [1.5, -0.5]], torch.float32, False),  # scores that happen to sum to 1
        ([[0.25, 0.75], [0.4, 0.5]], torch.float32, False),
        ([[1.0], [1.0]], torch.float32, False),
        ([[0.4, 0.605]], torch.float32, False),
        ([[0.4, 0.605]], torch.bfloat16, True),  # as its digits go
    ],
)
def test_what_looks_like_probabilities(rows: Any, dtype: torch.dtype, expected: bool) -> None:
    assert sum_to_one(torch.tensor(rows, dtype=dtype)) is expected


def test_probabilities_become_the_scores_behind_them() -> None:
    scores = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(unlinked(scores.softmax(1), "softmax").softmax(1), scores.softmax(1))
    torch.testing.assert_close(unlinked(scores.sigmoid(), "sigmoid"), scores)
    assert unlinked(scores, "log-softmax") is scores
    assert torch.isfinite(unlinked(torch.tensor([[0.0, 1.0]]), "softmax")).all()
    assert unlinked(torch.tensor([[0.5]], dtype=torch.bfloat16), "sigmoid").dtype == torch.float32
