"""Rows through torch modules: any form of rows, nothing left behind, and complaints in words."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models import split
from invariscope.models.torch_networks import convnet
from tests.small_networks import HIDDEN, Branches, D, N, body, three


@pytest.fixture(autouse=True)
def _same_weights(seed: int) -> None:
    torch.manual_seed(seed)


@pytest.fixture
def X(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


# --- rows of all kinds ----------------------------------------------------------------------------------------------
class Marked(Tensor):
    """A tensor of a type of its own."""


def test_rows_may_come_in_any_form(X: Any) -> None:
    module = three()
    halves = split(module)
    expected = halves.represent(X)
    read_only = X.astype(np.float64)
    read_only.setflags(write=False)
    forms = {
        "frame": pd.DataFrame(X, columns=list("abc")),
        "double": read_only,
        "backwards": X[::-1].copy()[::-1],
        "list": X.tolist(),
        "tensor": torch.tensor(X),
        "tensor with gradient": torch.tensor(X, requires_grad=True),
        "double tensor": torch.tensor(X, dtype=torch.float64),
        "tensor of a type of its own": torch.tensor(X).as_subclass(Marked),
    }
    for name, rows in forms.items():
        np.testing.assert_allclose(halves.represent(rows), expected, rtol=1e-5, atol=1e-6, err_msg=name)
        assert type(halves.predict(rows)) is np.ndarray


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_modules_precision_is_used(dtype: torch.dtype, X: Any) -> None:
    module = three().to(dtype)
    found = split(module).represent(X.astype(np.float64))
    assert found.dtype == (np.float64 if dtype is torch.float64 else np.float32)
    expected = module[:4](torch.tensor(X).to(dtype)).float().detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1, 7, N, 1000])
def test_batches_change_nothing(size: int, X: Any) -> None:
    module = three()
    np.testing.assert_allclose(
        split(module, batch_size=size).represent(X), split(module).represent(X), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        split(module, batch_size=size).predict(X), split(module).predict(X), rtol=1e-5, atol=1e-6
    )


def test_images_keep_their_shape(seed: int) -> None:
    images = np.random.default_rng(seed).integers(0, 255, (N, 1, 6, 6), dtype=np.uint8)
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    expected = module[:3](torch.tensor(images).float()).detach().numpy()
    np.testing.assert_allclose(split(module).represent(images), expected, rtol=1e-5, atol=1e-6)
    before_flattening = split(module, layer="2")
    np.testing.assert_allclose(before_flattening.represent(images), expected, rtol=1e-5, atol=1e-6)
    halves = split(convnet((1, 6, 6), 3))
    assert halves.represent(images).shape == (N, 128)


def test_whole_numbers_stay_codes_for_an_embedding(seed: int) -> None:
    words = np.random.default_rng(seed).integers(0, 9, (N, 4))
    module = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(8, 3))
    np.testing.assert_array_equal(
        split(module).represent(words), module[0].weight.detach().numpy()[words].reshape(N, 8)
    )
    with pytest.raises(InputError, match="cannot use rows of shape"):
        split(module).represent(words + 9)


def test_columns_of_a_linear_model_have_the_users_names(X: Any) -> None:
    halves = split(nn.Linear(D, 1))
    assert halves.columns(pd.DataFrame(X, columns=list("abc"))) == ("a", "b", "c")
    assert halves.columns(X) == ("x0", "x1", "x2")
    assert split(three()).columns(X) == tuple(f"feature {j}" for j in range(1, HIDDEN + 1))


class Witness(nn.Module):
    """Remembers how it was used."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, type, bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((len(x), type(x), torch.is_grad_enabled(), self.training))
        return x


def test_how_a_module_is_used(X: Any) -> None:
    witness = Witness()
    module = nn.Sequential(nn.Linear(D, 4), witness, nn.Linear(4, 3))
    halves = split(module, rows=X, batch_size=10)
    assert [rows for rows, *_ in witness.seen] == [2]  # a trial takes two rows, once
    witness.seen.clear()
    Z = halves.represent(torch.tensor(X).as_subclass(Marked))
    assert witness.seen == [(10, Tensor, False, False), (10, Tensor, False, False), (3, Tensor, False, False)]
    halves.predict(X, Z)
    assert len(witness.seen) == 3  # the representation was at hand


# --- nothing is left behind -------------------------------------------------------------------------------------------
class Fails(nn.Module):
    """Breaks on the second batch, after drawing random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        torch.rand(3)
        if self.calls == 2:
            raise RuntimeError("second batch")
        return x


@pytest.mark.parametrize("breaks", [False, True])
def test_the_module_is_left_as_it_was(breaks: bool, X: Any) -> None:
    module = nn.Sequential(nn.Linear(D, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    if breaks:
        module.insert(3, Fails())
    module[0].bias.requires_grad_(False)
    module[1].eval()  # a frozen layer in a network that is being trained
    module(torch.tensor(X)).sum().backward() if not breaks else None
    modes = [part.training for part in module.modules()]
    assert len(set(modes)) == 2
    values = copy.deepcopy(module.state_dict())
    gradients = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    wanted = [p.requires_grad for p in module.parameters()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    halves = split(module, batch_size=10)
    if breaks:
        with pytest.raises(InputError, match="second batch"):
            halves.represent(X)
    else:
        halves.represent(X)
        halves.predict(X)
    assert [part.training for part in module.modules()] == modes
    assert all(torch.equal(value, values[name]) for name, value in module.state_dict().items())
    assert [p.requires_grad for p in module.parameters()] == wanted
    for p, gradient in zip(module.parameters(), gradients, strict=True):
        assert (p.grad is None) if gradient is None else torch.equal(p.grad, gradient)
    assert all(not part._forward_hooks and not part._forward_pre_hooks for part in module.modules())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.array_equal(np.random.get_state()[1], states[2])  # noqa: NPY002
    assert torch.is_grad_enabled()


def test_gradients_of_every_row_at_once(X: Any) -> None:
    """Other parts take gradients row by row with torch.func: nothing on the way may branch on values."""
    network, rows = split(three()).network, torch.tensor(X[:4])
    parameters = dict(network.named_parameters())

    def score(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return torch.func.functional_call(network, values, (row[None],))[0, 1]

    found = torch.func.vmap(torch.func.grad(score), in_dims=(None, 0))(parameters, rows)
    for k in range(4):
        slow = torch.autograd.grad(network(rows[k : k + 1])[0, 1], list(parameters.values()))
        for name, gradient in zip(parameters, slow, strict=True):
            torch.testing.assert_close(found[name][k], gradient)


# --- errors in words --------------------------------------------------------------------------------------------------
class Tuple(Branches):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.again, self.out = nn.Linear(D, D), nn.Linear(D, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.again(self.again(x)))


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x[..., None])


class Averages(Branches):
    """Ends with a mean over layers, not with one of them."""

    def forward(self, x: Tensor) -> Tensor:
        return (self.first(x) + self.second(x)) / 2


def diverged() -> nn.Module:
    module = three()
    with torch.no_grad():
        module[0].weight[:] = torch.nan
    return module


@pytest.mark.parametrize(
    ("module", "settings", "message"),
    [
        (three, {"layer": "fourth"}, r'Sequential has no layer "fourth": there are 4, 2, 0'),
        (Branches, {"layer": "frist"}, r'Branches has no layer "frist": did you mean first'),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()), {}, r"Sequential has no nn.Linear: name the .* are 0$"),
        (nn.ReLU, {}, r"ReLU has no nn.Linear: .* it has no layers"),
        (Averages, {}, r'"fc" is not used when Averages predicts'),
        (Averages, {"rows": np.ones((2, D))}, r"Averages does not end with an nn.Linear: .* are fc, norm"),
        (Averages, {"layer": "fc"}, r'"fc" is not used when Averages predicts'),
        (lambda: Branches(link=lambda s: s**2), {}, r'"fc" is not the last step of Branches: name the layer'),
        (Tuple, {}, r"the module gives a tuple of several tables \(0 with 3 columns and 1 with 3 columns\): iv.split"),
        (Twice, {"layer": "again"}, r'layer "again" is used 2 times in one pass'),
        (Sequences, {}, r"gives outputs of shape \(23, 3, 3\) for 23 rows"),
        (lambda: Branches(link=torch.sigmoid), {}, r"gives 3 sigmoids, so 3 targets: audit one target at a time"),
        (lambda: Branches(), {"task": "regression"}, r"gives 3 numbers per row: audit one target at a time"),
        (diverged, {}, r"numbers from rows that hold none: if its training diverged, train"),
        (lambda: nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1)), {}, r"of shape \(3,\) \(its first layer reads 4"),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 1)), {}, r"must be of shape rows x \(ch"),
        (lambda: nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 1)), {}, r'parameter "0.weight" has no values yet'),
        (lambda: nn.Linear(D, 1, device="meta"), {}, r'"weight" is on the device "meta", which holds no values'),
        (lambda: torch.jit.script(nn.Linear(D, 1)), {}, r"is compiled, so nobody can look into it"),
        (three, {"batch_size": 0}, r"batch_size is 0: give a whole number of at least 1"),
        (three, {"task": "guessing"}, r'task "guessing" is unknown'),
        (three, {"classes": ["a", "b"]}, r"classes has 2 labels for 3 outputs: give 3, all different"),
        (three, {"classes": "aab"}, r"classes has 3 labels for 3 outputs: give 3, all different"),
        (lambda: nn.Linear(D, 1), {"classes": "abc"}, r"classes has 3 labels for 1 output: give 2, all different"),
        (lambda: nn.Linear(D, 1), {"classes": "ab", "task": "regression"}, r"classes were given, but the task is"),
        (three, {"device": "meta"}, r'device "meta" cannot be used \(it holds no values\): leave device out'),
        (three, {"device": "toaster"}, r'device "toaster" cannot be used .*: leave device out, or say "cpu"'),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*is (deprecated|not supported)")
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_what_cannot_be_done_is_said_in_words(module: Any, settings: dict[str, Any], message: str, X: Any) -> None:
    with pytest.raises(InputError, match=message):
        split(module(), **settings).predict(X)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(InputError, match='device "cuda" cannot be used'):
        split(three(), device="cuda")


def test_a_device_may_be_named(X: Any) -> None:
    module = three()
    np.testing.assert_array_equal(split(module, device="cpu").represent(X), split(module).represent(X))
    assert split(module, device=torch.device("cpu")).top is module[-1]  # where it is already, nothing is copied


def test_outputs_that_could_be_probabilities_or_log_odds_are_refused(X: Any) -> None:
    class Top(nn.Linear):
        def forward(self, z: Tensor) -> Tensor:
            return torch.sigmoid(super().forward(z))

    halves = split((body(), Top(HIDDEN, 1)), task="classification")
    with pytest.raises(InputError, match="all outputs are between 0 and 1: probabilities, or log-odds"):
        halves.predict(X)


def test_missing_values_in_rows(X: Any) -> None:
    X[4, 1] = np.nan
    frame, y, env = pd.DataFrame(X, columns=list("abc")), np.arange(N) % 3, np.arange(N) % 2
    with pytest.raises(InputError, match='column "b"'):
        iv.audit(three(), frame, y, env)
    images = np.zeros((5, 1, 3, 3))
    images[3, 0, 1, 1] = np.inf
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 3))
    with pytest.raises(InputError, match="X has missing or infinite values in 1 of 5 rows"):
        split(module).represent(images)


def test_odd_inputs(X: Any) -> None:
    halves = split(three())
    for rows, message in (
        (X[:0], "X is empty"),
        (3.0, "X is a float: give an array, a table, a tensor or a torch DataLoader"),
        (np.array([["a", "b", "c"]]), 'column "x0" is text'),
        (pd.DataFrame({"a": ["x"], "b": [1], "c": [2]}), 'column "a" is text'),
    ):
        with pytest.raises(InputError, match=message):
            halves.represent(rows)
