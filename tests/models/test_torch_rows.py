"""Rows from loaders and data sets: every row once, in one order, with its own target and environment."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models import split
from invariscope.models.torch_rows import in_memory

N, D = 23, 3


@pytest.fixture
def rows(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    X = torch.randn(N, D)
    return X, (X[:, 0] * 1000).round(), torch.arange(N) % 2


@pytest.fixture
def module(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, 1))


class Named(Dataset[Any]):
    """Rows whose environments have names; draws random numbers as transforms do."""

    def __init__(self, X: Tensor, y: Tensor) -> None:
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, i: int) -> tuple[Tensor, float, str]:
        random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
        return self.X[i], float(self.y[i]), ["Bern", "Oslo"][i % 2]


class Stream(IterableDataset[Any]):
    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)


@pytest.mark.parametrize("size", [1, 5, N, 100])
def test_a_loader_that_shuffles_is_read_in_order(size: int, rows: Any, module: nn.Module) -> None:
    X, y, _ = rows
    loader = DataLoader(TensorDataset(X, y), batch_size=size, shuffle=True, drop_last=size == 5)
    halves = split(module)
    for _ in range(2):
        np.testing.assert_allclose(halves.represent(loader), halves.represent(X), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(halves.predict(loader), module(X).detach()[:, 0], rtol=1e-5, atol=1e-6)
    found, target, env = in_memory(loader)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(target, y)
    assert env is None


def test_columns_of_a_loader(rows: Any, module: nn.Module) -> None:
    halves = split(module)
    assert halves.columns(DataLoader(TensorDataset(rows[0]), batch_size=4)) == tuple(
        f"feature {j}" for j in (1, 2, 3, 4)
    )


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_batches_of_one_two_or_three_parts(parts: int, rows: Any) -> None:
    found = in_memory(DataLoader(TensorDataset(*rows[:parts]), batch_size=7))
    for k in range(3):
        if k < parts:
            np.testing.assert_array_equal(found[k], rows[k])
        else:
            assert found[k] is None


def test_what_is_given_counts_more_than_what_the_loader_has(rows: Any) -> None:
    y = np.arange(N)
    found = in_memory(DataLoader(TensorDataset(*rows), batch_size=7), y)
    assert found[1] is y
    np.testing.assert_array_equal(found[2], rows[2])


def test_names_of_environments_and_random_states_stay(rows: Any) -> None:
    X, y, _ = rows
    data = Named(X, y)
    for source in (data, DataLoader(data, batch_size=4, shuffle=True)):
        states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
        found, target, env = in_memory(source)
        np.testing.assert_array_equal(found, X)
        np.testing.assert_allclose(target, y)
        assert env.tolist() == [["Bern", "Oslo"][i % 2] for i in range(N)]
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]
        assert np.array_equal(np.random.get_state()[1], states[2])  # noqa: NPY002


def test_the_loaders_own_way_to_make_batches(rows: Any) -> None:
    def doubled(items: list[Any]) -> Any:
        return 2 * torch.stack([x for x, _ in items]).numpy(), [int(y) for _, y in items]

    X, y, _ = rows
    found, target, _ = in_memory(DataLoader(TensorDataset(X, y), batch_size=4, shuffle=True, collate_fn=doubled))
    np.testing.assert_array_equal(found, 2 * X)
    np.testing.assert_array_equal(target, y)


def test_a_part_of_the_rows(rows: Any) -> None:
    X, y, _ = rows
    chosen = [7, 2, 11]
    found, target, _ = in_memory(DataLoader(TensorDataset(X, y), batch_size=2, sampler=SubsetRandomSampler(chosen)))
    np.testing.assert_array_equal(found, X[chosen])
    np.testing.assert_array_equal(target, y[chosen])


def test_a_stream_is_taken_as_it_comes(rows: Any, module: nn.Module) -> None:
    X, y, _ = rows
    stream = Stream(list(zip(X[:10], y[:10], strict=True)))
    for source in (stream, DataLoader(stream, batch_size=4)):
        found, target, _ = in_memory(source)
        np.testing.assert_array_equal(found, X[:10])
        np.testing.assert_array_equal(target, y[:10])
        np.testing.assert_allclose(
            split(module).represent(source), split(module).represent(X[:10]), rtol=1e-5, atol=1e-6
        )
    whole_batches = DataLoader(Stream([X[:4], X[4:9]]), batch_size=None)
    np.testing.assert_array_equal(in_memory(whole_batches)[0], X[:9])


def test_tensors_become_arrays(rows: Any) -> None:
    X, y, env = rows
    for given in (X, X.clone().requires_grad_(), X.to(torch.bfloat16)):
        found = in_memory(given, y, env)
        assert all(type(values) is np.ndarray for values in found)
        np.testing.assert_array_equal(found[0], given.detach().float())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": None}, r"makes no batches \(batch_size=None\): give it a batch_size"),
        (
            {"sampler": WeightedRandomSampler([1.0] * N, N)},
            "WeightedRandomSampler draws rows that cannot be put in order",
        ),
        (
            {"sampler": RandomSampler(range(N), replacement=True)},
            "RandomSampler draws rows that cannot be put in order",
        ),
        ({"batch_sampler": [[0, 1], [2]]}, "list draws rows that cannot be put in order"),
        ({"collate_fn": lambda items: {"x": 1}}, r"batches are a dict: give x, \(x, y\) or \(x, y, env\)"),
        ({"collate_fn": lambda items: (1, 2)}, "batches are a tuple of 2 parts: give x"),
        (
            {"collate_fn": lambda items: (torch.ones(2),) * 4},
            r"^the batches have 2 parts behind \(x, y\): env_column=0 or 1 says which is the environment$",
        ),
        ({"collate_fn": lambda items: ()}, "batches are a tuple of 0 parts: give x"),
        ({"collate_fn": lambda items: (torch.ones(2, 1), torch.ones(3))}, "the loader gives 3 targets for 2 rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_loaders_that_cannot_be_read(settings: dict[str, Any], message: str, rows: Any) -> None:
    with pytest.raises(InputError, match=message):
        in_memory(DataLoader(TensorDataset(*rows), **settings))


def test_rows_of_different_shapes_and_streams_that_are_spent() -> None:
    uneven = in_memory(DataLoader(Stream([torch.ones(2, 3), torch.ones(2, 4)]), batch_size=None))[0]
    assert [batch.shape for batch in uneven.batches] == [(2, 3), (2, 4)]
    several = [(torch.ones(2, 3), torch.ones(2)), (torch.ones(2, 3), torch.ones(2, 4))]
    with pytest.raises(InputError, match="targets or environments of the loader's batches do not fit each other"):
        in_memory(DataLoader(Stream(several), batch_size=None))
    with pytest.raises(InputError, match="the loader gives no rows"):
        in_memory(DataLoader(Stream([]), batch_size=2))


def test_batch_samplers_of_torch_itself_are_read_in_order(rows: Any) -> None:
    own = BatchSampler(RandomSampler(range(N)), 4, False)
    np.testing.assert_array_equal(in_memory(DataLoader(TensorDataset(*rows), batch_sampler=own))[0], rows[0])
    again = BatchSampler(RandomSampler(range(N), replacement=True), 4, False)
    with pytest.raises(InputError, match="RandomSampler draws rows"):
        in_memory(DataLoader(TensorDataset(*rows), batch_sampler=again))


# --- a loader for every environment ----------------------------------------------------------------------------------
class Place(TensorDataset):
    """A data set that knows where it comes from."""

    def __init__(self, name: Any, *parts: Tensor) -> None:
        super().__init__(*parts)
        self.name = name


def in_two(*parts: Tensor) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """The first nine rows and the rest, shuffled."""
    return tuple(  # type: ignore[return-value]
        DataLoader(TensorDataset(*(part[rows] for part in parts)), batch_size=4, shuffle=True)
        for rows in (slice(9), slice(9, None))
    )


@pytest.mark.parametrize("parts", [2, 3])
def test_environments_may_have_loaders_of_their_own(parts: int, rows: Any, module: nn.Module) -> None:
    X, y, _ = rows
    one, other = in_two(*(X, y, torch.arange(N))[:parts])  # what comes behind (x, y) is no environment then
    for given, labels in (
        ({"photo": one, "sketch": other}, ["photo"] * 9 + ["sketch"] * 14),
        ({2019: one, "later": other}, [2019] * 9 + ["later"] * 14),
        ([one, other], [0] * 9 + [1] * 14),
        ((one, other.dataset), [0] * 9 + [1] * 14),
    ):
        found, target, env = in_memory(given)
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(target, y)
        assert env.tolist() == labels
        np.testing.assert_allclose(split(module).represent(given), split(module).represent(X), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(split(module).predict(given), split(module).predict(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("Bern", "Oslo"), ["Bern", "Oslo"]), (("Bern", "Bern"), [0, 1]), (("Bern", 7), [0, 1]), (("Bern", None), [0, 1])],
)
def test_loaders_in_a_list_are_called_as_their_data_sets(names: Any, expected: list[Any], rows: Any) -> None:
    X, y, _ = rows
    one, other = (Place(name, X, y) for name in names)
    env = in_memory([Subset(one, [3, 1]), DataLoader(other, batch_size=5)])[2]
    assert env.tolist() == [expected[0]] * 2 + [expected[1]] * N


def test_what_is_given_counts_more_than_whose_loader_it_is(rows: Any) -> None:
    X, y, env = rows
    loaders = dict(zip("ab", in_two(X, y, env), strict=True))
    np.testing.assert_array_equal(in_memory(loaders, env_column=0)[2], env)
    given = np.arange(N)
    assert in_memory(loaders, given, given)[1:] == (given, given)


def test_what_is_no_loader_for_every_environment(rows: Any) -> None:
    X, y, _ = rows
    one, _ = in_two(X, y)
    message = (
        r"X is a {} of loaders in which there is a Tensor: give a loader or a data set, such as TensorDataset\(x, y\), "
        "for every environment"
    )
    for given in ({"a": one, "b": X}, [X, one]):
        with pytest.raises(InputError, match=f"^{message.format(type(given).__name__)}$"):
            in_memory(given)
    assert in_memory({"a": one, "b": TensorDataset(X, y)})[2].tolist() == ["a"] * 9 + ["b"] * N
    uneven = in_memory([one, TensorDataset(X[:, :2], y)])[0]
    with pytest.raises(InputError, match=r"cannot use rows of shape \(2,\) \(its first layer reads 3 numbers\)"):
        split(nn.Linear(D, 1)).represent(uneven)
    with pytest.raises(InputError, match=r"some batches have rows of shape \(3,\), others of shape \(2,\), and one"):
        np.asarray(uneven)
    with pytest.raises(InputError, match='"environment" has only one environment'):
        iv.audit(nn.Linear(D, 1), {"a": one})


def test_an_audit_of_loaders_by_domain_is_that_of_their_rows(pictures: Any) -> None:
    images, y, env, module = pictures
    order = np.argsort(env, kind="stable")
    images, y, env = torch.tensor(images[order]), torch.tensor(y[order]), env[order]
    loaders = {
        place: DataLoader(TensorDataset(images[env == place], y[env == place]), batch_size=32, shuffle=True)
        for place in ("Oslo", "Bern", "Rome")
    }
    found = iv.audit(module, loaders, criteria=["regret", "risk_variance"], n_boot=99)
    expected = iv.audit(module, images, y, env, criteria=["regret", "risk_variance"], n_boot=99)
    assert found.data == expected.data
    assert found["regret"].value == pytest.approx(expected["regret"].value, rel=1e-6)
    assert found["risk_variance"].value == pytest.approx(expected["risk_variance"].value, rel=1e-6)


# --- audits ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def pictures(seed: int) -> tuple[Any, Any, Any, nn.Module]:
    """Small images of two classes in three places, and a network that looks at them."""
    rng = np.random.default_rng(seed)
    y, env = rng.integers(0, 2, 450), rng.permutation(np.repeat(["Bern", "Oslo", "Rome"], 150))
    images = rng.normal(size=(450, 2, 4, 4)).astype(np.float32)
    images[:, 0] += y[:, None, None]
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3, 2)
    )
    return images, y, env, module


class Pictures(Dataset[Any]):
    def __init__(self, images: Any, y: Any, env: Any) -> None:
        self.parts = images, y, env

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        return tuple(part[i] if not isinstance(part[i], np.str_) else str(part[i]) for part in self.parts)


@pytest.mark.slow
def test_an_audit_of_a_loader_is_that_of_its_rows(pictures: Any) -> None:
    images, y, env, module = pictures
    expected = iv.audit(module, images, y, env, n_boot=99)
    found = iv.audit(module, DataLoader(Pictures(images, y, env), batch_size=32, shuffle=True), n_boot=99)
    assert found.data == expected.data
    assert found.verdict == expected.verdict
    assert found.notes == expected.notes
    assert found.left_out == expected.left_out
    for name, result in expected.results.items():
        assert found[name].value == result.value
    assert found.data.labels == ("Bern", "Oslo", "Rome")
    given = iv.audit(module, torch.tensor(images), torch.tensor(y), env, n_boot=99)
    assert given["regret"].value == expected["regret"].value


def test_what_a_loader_does_not_give_is_asked_for(pictures: Any) -> None:
    images, y, env, module = pictures
    with pytest.raises(InputError, match="no environments given: pass env="):
        iv.audit(module, DataLoader(TensorDataset(torch.tensor(images), torch.tensor(y)), batch_size=32))
    found = iv.audit(module, DataLoader(TensorDataset(torch.tensor(images)), batch_size=32), y, env, criteria="regret")
    assert found["regret"].value == iv.audit(module, images, y, env, criteria="regret")["regret"].value


def test_inputs_of_density_ratios_are_the_pixels_if_they_are_few(
    pictures: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from invariscope.auditing import material

    images, y, env, module = pictures
    gathered, subject = material.gather(module, images, y, env)
    np.testing.assert_array_equal(gathered.inputs.X, images.reshape(450, 32)[np.argsort(env, kind="stable")])
    assert subject.notes == ()
    monkeypatch.setattr(material, "MOST_PIXELS", 31)
    gathered, subject = material.gather(module, images, y, env)
    assert gathered.inputs is gathered.representation
    assert "inputs of 32 numbers a row are too many (at most 31 for this target)" in subject.notes[0]


def test_a_network_may_be_the_baseline(pictures: Any) -> None:
    from invariscope.auditing import material

    images, y, env, module = pictures
    odds = nn.Sequential(nn.Flatten(), nn.Linear(32, 1))
    gathered, _ = material.gather(module, images, y, env, baseline=odds)
    second = torch.sigmoid(odds(torch.tensor(images))).detach().numpy()[:, 0]
    np.testing.assert_allclose(gathered.baseline.values, np.column_stack([1 - second, second]), rtol=1e-5, atol=1e-6)


# --- streams without end ----------------------------------------------------------------------------------------------
class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        for number in itertools.count():
            yield torch.full((50,), float(number)), number % 2, "AB"[number % 2]


def test_a_stream_without_end_is_refused_where_memory_would_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariscope.models.torch_rows.most_bytes", lambda: 300_000)
    for endless in (Endless(), DataLoader(Endless(), batch_size=64)):
        with pytest.raises(InputError, match=r"rows so far, and more would not fit into 0\.0003 GB, a quarter"):
            in_memory(endless)
    part = DataLoader(list(itertools.islice(Endless(), 1000)), batch_size=256)  # as told
    assert in_memory(part)[0].shape == (1000, 50)


def test_of_batches_of_single_rows_their_own_weight_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariscope.models.torch_rows.most_bytes", lambda: 1_000_000)
    with pytest.raises(InputError, match="has given 454 rows so far"):  # of 200 bytes, and 2,000 for the batch
        in_memory(DataLoader(Endless(), batch_size=1))


def test_a_stream_that_does_not_end_soon_is_told(monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    monkeypatch.setattr("invariscope.models.torch_rows.PATIENCE", 0.0)
    stream = DataLoader(Stream([*zip(*rows, strict=True)]), batch_size=5)
    with pytest.warns(UserWarning, match=r"a stream has given 5 rows so far: if it has no end, give a part") as told:
        in_memory(stream)
    assert len(told) == 1
    with warnings.catch_warnings(action="error"):
        in_memory(DataLoader(TensorDataset(*rows), batch_size=5))


def test_of_a_stream_no_more_is_read_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariscope.models.torch_rows.most_bytes", lambda: 300_000)
    given: list[int] = []

    class Long(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            for number in range(5_000):
                given.append(number)
                yield torch.zeros(50), number % 2, "AB"[number % 2]

    with pytest.raises(InputError, match="more would not fit"):
        in_memory(DataLoader(Long(), batch_size=64))
    assert len(given) == 64 * (300_000 // (2_000 + 64 * 50 * 4) + 1)
