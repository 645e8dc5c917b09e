"""What a batch holds: inputs, target and environment, in tuples, dicts and metadata; what is ambiguous is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models.inputs import NamedInputs, UnevenRows
from invariscope.models.torch_rows import in_memory

N = 60


class Records(Dataset[Any]):
    """Rows that are dicts, as data sets for text give them."""

    def __init__(self, **columns: Any) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {name: column(i) if callable(column) else column[i] for name, column in self.columns.items()}


class Wilds(TensorDataset):
    """Metadata whose columns have names."""

    metadata_fields = ("hospital", "slide", "y")


@pytest.fixture
def rows(seed: int) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    X = torch.randn(N, 3)
    y = (X[:, 0] + torch.randn(N) > 0).long()
    metadata = torch.stack([torch.arange(N) % 2 + 7, torch.arange(N) % 3, y], dim=1)
    return {"X": X, "y": y, "metadata": metadata}


@pytest.fixture
def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2))


def read(*parts: Tensor, **settings: Any) -> Any:
    return in_memory(DataLoader(TensorDataset(*parts), batch_size=7, shuffle=True), **settings)


def as_dicts(**columns: Any) -> Any:
    return DataLoader(Records(**columns), batch_size=7, shuffle=True)


# --- metadata -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_column_of_metadata_is_the_environment(column: int, rows: Any) -> None:
    X, y, env = read(*rows.values(), env_column=column)
    np.testing.assert_array_equal(X, rows["X"])
    np.testing.assert_array_equal(y, rows["y"])
    np.testing.assert_array_equal(env, rows["metadata"][:, column])


def test_columns_of_metadata_may_have_names(rows: Any) -> None:
    loader = DataLoader(torch.utils.data.Subset(Wilds(*rows.values()), range(N)), batch_size=7)
    for column in ("slide", 1):
        _, _, env = in_memory(loader, env_column=column)
        np.testing.assert_array_equal(env, rows["metadata"][:, 1])
        assert env.name == "slide"
    message = (
        "the third part of a batch has the columns hospital, slide and y, and env_column='ward' is none of them: "
        "env_column=0 or 1 or 2 says which is the environment"
    )
    with pytest.raises(InputError, match=f"^{message}$"):
        in_memory(loader, env_column="ward")


def test_metadata_may_be_a_dict_or_a_list_of_columns(rows: Any) -> None:
    sites = ["Bern" if i % 2 else "Oslo" for i in range(N)]
    for metadata, column in (
        ([{"site": site, "year": i} for i, site in enumerate(sites)], "site"),
        ([(i, site) for i, site in enumerate(sites)], 1),
    ):
        loader = DataLoader([*zip(rows["X"], rows["y"], metadata, strict=True)], batch_size=7, shuffle=True)
        assert in_memory(loader, env_column=column)[2].tolist() == sites


def test_of_several_parts_behind_the_target_one_is_the_environment(rows: Any) -> None:
    parts = rows["X"], rows["y"], rows["metadata"][:, 0], torch.arange(N)
    np.testing.assert_array_equal(read(*parts, env_column=0)[2], parts[2])
    np.testing.assert_array_equal(read(*parts, env_column=1)[2], parts[3])
    given = np.arange(N) % 4
    assert read(*parts, env=given)[2] is given


@pytest.mark.parametrize(
    ("parts", "column", "message"),
    [
        (3, None, "the third part of a batch has 3 columns: env_column=0 or 1 or 2 says which is the environment"),
        (
            3,
            5,
            "the third part of a batch has 3 columns, and env_column=5 is none of them: env_column=0 or 1 or 2 says "
            "which is the environment",
        ),
        (2, 0, r"env_column=0, but the batches end with x and y: pass env, one label per row"),
        (4, None, r"the batches have 2 parts behind \(x, y\): env_column=0 or 1 says which is the environment"),
    ],
)
def test_what_the_metadata_leave_open_is_asked(parts: int, column: Any, message: str, rows: Any) -> None:
    given = (*rows.values(), torch.arange(N))[:parts]
    with pytest.raises(InputError, match=f"^{message}$"):
        read(*given, env_column=column)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"env_column": "site"},
            "env_column='site' says where the batches of a loader hold the environment, and X is a ndarray: pass the "
            r"environment of every row, env=\.\.\.",
        ),
        ({"env_column": 1.5}, "env_column is 1.5: give the number or the name of a column of a loader's metadata"),
        ({"env_column": True}, "env_column is True: give the number or the name of a column of a loader's metadata"),
        ({"env_column": 0, "env": [0, 1]}, "env and env_column were both given: leave one of them out"),
    ],
)
def test_env_column_is_for_loaders(settings: dict[str, Any], message: str, rows: Any) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        iv.audit(None, rows["X"].numpy(), rows["y"].numpy(), **settings)
    if settings == {"env_column": "site"}:
        with pytest.raises(InputError, match=f"^{message.replace('a ndarray', 'a Tensor')}$"):
            iv.audit(None, rows["X"], rows["y"], **settings)


def test_an_audit_by_a_column_of_metadata_is_that_of_its_values(rows: Any, network: nn.Module) -> None:
    X, y, metadata = rows.values()
    expected = iv.audit(network, X, y, metadata[:, 0], criteria="regret", n_boot=99)
    loader = DataLoader(Wilds(X, y, metadata), batch_size=7, shuffle=True)
    for column in (0, "hospital"):
        found = iv.audit(network, loader, env_column=column, criteria="regret", n_boot=99)
        assert found["regret"].value == expected["regret"].value
        assert (found.data.env_name, found.data.labels) == ("hospital", (7, 8))


# --- dicts ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["label", "labels", "target", "targets", "y"])
def test_target_and_inputs_of_a_dict(name: str, rows: Any) -> None:
    paths = [f"{i}.png" for i in range(N)]
    X, y, env = in_memory(as_dicts(**{"image": rows["X"], name: rows["y"], "domain": paths, "path": paths}))
    assert isinstance(X, NamedInputs)
    np.testing.assert_array_equal(X.alone, rows["X"])
    np.testing.assert_array_equal(y, rows["y"])
    assert (y.name, env.name, env.tolist()) == (name, "domain", paths)


def test_dicts_within_dicts_and_dicts_of_inputs(rows: Any) -> None:
    words, mask = rows["metadata"], rows["metadata"] > 1
    within = as_dicts(inputs=lambda i: {"words": words[i], "mask": mask[i]}, label=rows["y"], env=rows["y"])
    beside = DataLoader([({"words": words[i], "mask": mask[i]}, rows["y"][i], rows["y"][i]) for i in range(N)], 7)
    for loader in (within, beside):
        X, y, env = in_memory(loader)
        np.testing.assert_array_equal(X["words"], words)
        np.testing.assert_array_equal(X["mask"], mask)
        np.testing.assert_array_equal(y, rows["y"])
        np.testing.assert_array_equal(env, rows["y"])


def test_the_environment_of_a_dict_may_stand_in_any_entry(rows: Any) -> None:
    X, y, metadata = rows.values()
    for columns, column, name in (
        ({"site": metadata[:, 0]}, "site", "site"),
        ({"metadata": metadata}, 0, None),
        ({"meta": lambda i: {"site": metadata[i, 0]}}, "site", "site"),
        ({"metadata": metadata, "domain": y}, 0, None),
        ({"environment": metadata[:, 0], "site": y}, None, "environment"),
    ):
        found, _, env = in_memory(as_dicts(x=X, y=y, **columns), env_column=column)
        np.testing.assert_array_equal(env, metadata[:, 0])
        assert getattr(env, "name", None) == name
        assert "metadata" not in found.parts
        assert (column == "site" and "site" in found.parts) is False


def test_the_target_may_be_named(rows: Any) -> None:
    X, y, _ = rows.values()
    columns = {"x": X, "label": torch.zeros(N), "target": y, "env": y}
    message = "the batches are dicts with label and target: target_name='label' says which of them is the target"
    with pytest.raises(InputError, match=f"^{message}$"):
        in_memory(as_dicts(**columns))
    found, target, _ = in_memory(as_dicts(**columns), target="target")
    np.testing.assert_array_equal(target, y)
    assert list(found.parts) == ["x"]
    pairs = DataLoader([(X[i], {"dose": y[i], "age": 0}, 0) for i in range(N)], 7)
    with pytest.raises(
        InputError, match=r"^the targets of a batch are a dict of dose and age: target_name='dose' takes"
    ):
        in_memory(pairs)
    np.testing.assert_array_equal(in_memory(pairs, target="dose")[1], y)


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        (
            ("x", "diagnosis", "env"),
            {},
            "the batches are dicts of x, diagnosis and env, and none of them is called label, labels, target, targets "
            r"or y: say with target_name=\.\.\. which entry is the target, or pass y, one value per row",
        ),
        (
            ("x", "label", "site"),
            {},
            "the batches are dicts of x, label and site, and none of them is called env, environment or domain: say "
            r"with env_column=\.\.\. which entry is the environment, or pass env, one label per row",
        ),
        (
            ("x", "label", "site"),
            {"env_column": "sight"},
            "the batches are dicts of x, label and site, and env_column='sight' is none of them: name the entry of the "
            "environment",
        ),
        (
            ("x", "label", "env", "domain"),
            {},
            "the batches are dicts of x, label, env and domain: env_column='env' says which of env and domain is the "
            "environment",
        ),
    ],
)
def test_what_a_dict_leaves_open_is_asked_and_the_remedy_works(
    columns: tuple[str, ...], settings: dict[str, Any], message: str, rows: Any, network: nn.Module
) -> None:
    values = dict.fromkeys(columns, rows["y"]) | {"x": rows["X"]}
    values["env" if "env" in columns else "site"] = rows["metadata"][:, 0]
    with pytest.raises(InputError, match=f"^{message}$"):
        iv.audit(network, as_dicts(**values), **settings)
    remedy: dict[str, Any] = {"target_name": "diagnosis"} if "diagnosis" in columns else {}
    remedy["env_column"] = "env" if "env" in columns else "site"
    found = iv.audit(network, as_dicts(**values), criteria="regret", n_boot=99, **remedy)
    assert (found.data.labels, found.data.target_name) == ((7, 8), columns[1])
    by_hand = iv.audit(network, rows["X"], rows["y"], values[remedy["env_column"]], criteria="regret", n_boot=99)
    assert found["regret"].value == by_hand["regret"].value


def test_texts_of_different_lengths_stay_as_they_came_and_padded_ones_are_joined() -> None:
    def padded(length: int, items: list[Any]) -> dict[str, Any]:
        words = torch.zeros(len(items), length or int(items[0]) % 3 + 2, dtype=torch.int64)
        return {"input_ids": words, "labels": torch.zeros(len(items)), "env": torch.arange(len(items))}

    batches = [DataLoader(range(6), 2, collate_fn=lambda items, n=n: padded(n, items)) for n in (0, 4)]
    uneven = in_memory(batches[0])[0]
    assert isinstance(uneven, UnevenRows)
    assert [batch["input_ids"].shape for batch in uneven.batches] == [(2, 2), (2, 4), (2, 3)]
    assert in_memory(batches[1])[0]["input_ids"].shape == (6, 4)


def test_batches_that_differ_in_their_entries() -> None:
    def uneven(items: list[int]) -> dict[str, Any]:
        more = {"b": torch.ones(2)} if items[0] else {}
        return {"a": torch.ones(2), "c": torch.ones(2), "y": torch.ones(2), "env": torch.ones(2), **more}

    with pytest.raises(
        InputError,
        match=r"batches do not fit each other: only some of them hold a and c, give all of them the same entries$",
    ):
        in_memory(DataLoader(range(4), 2, collate_fn=uneven))
    with pytest.raises(
        InputError, match=r'inputs differ in their numbers of rows \("a" 2, "b" 3\): they must be about'
    ):
        in_memory(DataLoader(range(4), 2, collate_fn=lambda _: {"a": torch.ones(2), "b": torch.ones(3)}))


def test_metadata_of_one_column_in_a_dict_need_no_name(rows: Any) -> None:
    records = Records(x=rows["X"], y=rows["y"], metadata=rows["metadata"][:, :1])
    env = in_memory(DataLoader(records, batch_size=7, shuffle=True))[2]
    np.testing.assert_array_equal(np.ravel(env), rows["metadata"][:, 0])
