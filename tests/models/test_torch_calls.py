"""How modules are called: with one tensor, with keywords, with a dict; and by which of their methods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import invariscope as iv
from invariscope.auditing.material import gather
from invariscope.criteria.material import have
from invariscope.errors import InputError
from invariscope.models import split
from invariscope.models.inputs import NamedInputs, UnevenRows

N, WORDS, LENGTH = 120, 11, 6


class Reader(nn.Module):
    """A small transformer with the inputs and outputs that text models have."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 4)
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.classifier = nn.Linear(4, 2)

    def pooled(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.encoder(self.words(input_ids), src_key_padding_mask=attention_mask == 0)
        return (hidden * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None, return_dict: Any = None
    ) -> Any:
        assert labels is None  # the network is not told what it is to predict
        pooled = self.pooled(input_ids, attention_mask)
        return SimpleNamespace(loss=None, logits=self.classifier(pooled), pooled=pooled)


class ReadsDict(Reader):
    def forward(self, batch: dict[str, Tensor]) -> Any:  # type: ignore[override]
        return super().forward(**batch)


class ByKeyword(Reader):
    def forward(self, *, input_ids: Tensor, attention_mask: Tensor) -> Any:  # type: ignore[override]
        return super().forward(input_ids, attention_mask)


class AnyKeyword(Reader):
    def forward(self, **inputs: Tensor) -> Any:  # type: ignore[override]
        return super().forward(**inputs)


class Body(nn.Module):
    """The half of a pair that reads words."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.reader.pooled(input_ids, attention_mask)


@pytest.fixture
def text(seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    mask = (torch.rand(N, LENGTH) > 0.3).long()
    mask[:, 0] = 1
    return {"input_ids": torch.randint(0, WORDS, (N, LENGTH)), "attention_mask": mask}


@pytest.fixture
def answers(text: Any, seed: int) -> tuple[Tensor, list[str]]:
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.integers(0, 2, N)), rng.permutation(np.repeat(["Bern", "Oslo"], N // 2)).tolist()


def batches(text: dict[str, Any], answers: Any, **more: Any) -> Any:
    columns = {**text, "labels": answers[0], "domain": answers[1], **more}
    return DataLoader([{name: column[i] for name, column in columns.items()} for i in range(N)], 32, shuffle=True)  # type: ignore[arg-type]


def reader(kind: type[Reader], seed: int) -> Reader:
    torch.manual_seed(seed)
    return kind()


@pytest.mark.parametrize("kind", [Reader, ReadsDict, ByKeyword, AnyKeyword])
def test_named_inputs_reach_the_network(kind: type[Reader], text: Any, answers: Any, seed: int) -> None:
    network = reader(kind, seed)
    with torch.no_grad():
        pooled = network.eval().pooled(**text)
        logits = network.classifier(pooled)
    loader = batches(text, answers)
    for halves in (split(network), split(network, rows=loader), split(network, rows=text)):
        for rows in (text, loader, {name: part.numpy() for name, part in text.items()}):
            np.testing.assert_allclose(halves.represent(rows), pooled, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(halves.predict(rows), logits.softmax(1), rtol=1e-4, atol=1e-5)
        assert halves.head is not None
    pair = split((Body(network), network.classifier))
    np.testing.assert_allclose(pair.represent(text), pooled, rtol=1e-4, atol=1e-5)


def test_an_audit_of_a_network_for_text(text: Any, answers: Any, seed: int) -> None:
    """Whatever way the words come, it is the audit of what the network makes of them."""
    network = reader(Reader, seed).eval()
    with torch.no_grad():
        pooled = network.pooled(**text)
        said = network.classifier(pooled).softmax(1)
    wanted = ["regret", "risk_variance", "dric", "worst_case_in_inputs"]
    settings: dict[str, Any] = {"criteria": wanted, "n_boot": 99}
    by_hand = iv.Split(represent=pooled, predict=said, task="classification", classes=(0, 1))
    expected = iv.audit(by_hand, np.zeros((N, 1)), *answers, **settings)
    rows_of_loader = iv.audit(network, batches(text, answers, number=torch.arange(N)), **settings)
    rows_of_dict = iv.audit(network, text, *answers, **settings)
    for found in (rows_of_loader, rows_of_dict):
        for name in ("regret", "risk_variance"):
            assert found[name].value == pytest.approx(expected[name].value, rel=1e-4, abs=1e-7)
        assert found.left_out["worst_case_in_inputs"] == (
            "the rows have several inputs (input_ids and attention_mask), and only one array can be moved"
        )
        assert found.notes[-1] == (
            "DRIC is measured on the representation: the rows have several inputs (input_ids and attention_mask)."
        )
    assert (rows_of_loader.data.env_name, rows_of_loader.data.target_name) == ("domain", "labels")


def test_masks_and_codes_keep_their_types_and_fractions_take_the_networks(seed: int) -> None:
    class Types(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(2, 1)

        def forward(self, values: Tensor, mask: Tensor, place: Tensor) -> Tensor:
            assert (values.dtype, mask.dtype, place.dtype) == (torch.float64, torch.bool, torch.int32)
            return self.out(values.masked_fill(mask, 0.0))

    rows = {
        "values": np.ones((4, 2), np.float32),
        "mask": np.array([[True, False]] * 4),
        "place": np.arange(4, dtype=np.int32),
    }
    module = Types().double()
    expected = module.out(torch.tensor([[0.0, 1.0]], dtype=torch.float64)).item()
    np.testing.assert_allclose(split(module).predict(rows), np.full(4, expected))


# --- one input among several ------------------------------------------------------------------------------------------
def pictures(seed: int) -> tuple[dict[str, Any], nn.Module]:
    torch.manual_seed(seed)
    images, module = torch.randn(N, 1, 3, 3), nn.Sequential(nn.Flatten(), nn.Linear(9, 3), nn.Tanh(), nn.Linear(3, 2))
    module[-1].bias.data -= module(images).detach().mean(0)
    label = (module(images).detach() + 0.3 * torch.randn(N, 2)).argmax(1)
    return {"image": images, "number": torch.arange(N), "label": label}, module


def test_which_of_several_inputs_is_asked_and_the_remedy_works(seed: int) -> None:
    columns, module = pictures(seed)
    env = np.arange(N) % 3
    rows: Any = [{name: column[i] for name, column in columns.items()} for i in range(N)]
    loader = DataLoader(rows, batch_size=32, shuffle=True)
    message = (
        r'Sequential cannot use rows of image \(1, 3, 3\) and number \(\): iv.split\(model, inputs="image"\) hands it '
        r"that one, a list of names several \(AttributeError: 'dict' object has no attribute 'flatten'\)"
    )
    with pytest.raises(InputError, match=f"^{message}$"):
        iv.audit(module, loader, env=env)
    settings: dict[str, Any] = {"n_boot": 99, "criteria": ["regret", "dric", "risk_variance"]}
    found = iv.audit(iv.split(module, inputs="image"), loader, env=env, **settings)
    expected = iv.audit(module, columns["image"], columns["label"], env, target_name="label", **settings)
    assert found.data == expected.data
    assert found.left_out == expected.left_out == {}
    for name, result in expected.results.items():
        np.testing.assert_allclose(found[name].value, result.value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_only_input_is_one_array_whatever_it_is_called(seed: int) -> None:
    columns, module = pictures(seed)
    del columns["number"]
    rows: Any = [{name: column[i] for name, column in columns.items()} for i in range(N)]
    material, _ = gather(module, DataLoader(rows, batch_size=32), None, np.arange(N) % 3)
    np.testing.assert_array_equal(have(material.network).inputs, columns["image"])  # whose worst case can be searched
    np.testing.assert_array_equal(have(material.inputs)[0].X, columns["image"][::3].flatten(1))
    flat: Any = [{"x": row["image"].flatten(), "y": row["label"]} for row in rows]
    without = iv.audit(None, DataLoader(flat), env=np.arange(N) % 3, criteria="regret")
    assert without.data.columns == tuple(f"x{j}" for j in range(9))


def test_one_input_that_is_not_the_first_goes_by_its_name(seed: int) -> None:
    class Embeds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(3, 1)

        def forward(self, input_ids: Any = None, inputs_embeds: Any = None) -> Tensor:
            assert input_ids is None
            return self.out(inputs_embeds)

    module, X = Embeds(), np.random.default_rng(seed).normal(size=(N, 3)).astype(np.float32)
    expected = module.out(torch.tensor(X))[:, 0].detach()
    halves = split(module)
    np.testing.assert_allclose(halves.predict({"inputs_embeds": X, "number": np.arange(N)}), expected, rtol=1e-5)
    found = iv.audit(module, {"inputs_embeds": X}, X[:, 0], np.arange(N) % 2, criteria="regret", n_boot=99)
    assert found.data.representation == 'representation level: Embeds: what its last linear layer "out" reads'


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inputs": "pixels"}, 'there is no input "pixels": inputs= names one or several of image and number'),
        ({"inputs": 3}, "inputs is 3: give the name of an input of the network, or a list of names"),
        ({"inputs": ["image", 3]}, r"inputs is \['image', 3\]: give the name of an input of the network, or a list of"),
        ({"output": 0.5}, "output is 0.5: give the name or the place of one of the network's outputs"),
        ({"output": True}, "output is True: give the name or the place of one of the network's outputs"),
        ({"inputs": "image", "output": 1}, "output=1 was asked for, but the module gives one tensor: leave it out"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], message: str, seed: int) -> None:
    columns, module = pictures(seed)
    with pytest.raises(InputError, match=f"^{message}"):
        split(module, **settings).predict({"image": columns["image"], "number": columns["number"]})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({}, "X is an empty dict: give an array or tensor for every input, or a loader for each domain"),
        (
            {"a": torch.ones(3, 2), "b": 1},
            'X is a dict whose "b" is a int: give an array or tensor for every input of the network, or a loader for '
            "every environment",
        ),
        (
            {"a": torch.ones(3, 2), "b": torch.ones(4)},
            r'the inputs differ in their numbers of rows \("a" 3, "b" 4\): they must be about the same rows',
        ),
    ],
)
def test_dicts_that_are_no_inputs(X: Any, message: str) -> None:
    for read in (split(nn.Linear(2, 1)).represent, lambda X: iv.audit(nn.Linear(2, 1), X, [1.0], [0])):
        with pytest.raises(InputError, match=f"^{message}$"):
            read(X)


def test_what_needs_one_table_says_so_and_functions_get_all_inputs(text: Any, answers: Any) -> None:
    message = r"the rows have several inputs \(input_ids and attention_mask\), and one table is needed: give one as X"
    with pytest.raises(InputError, match=f"^{message}$"):
        iv.audit(None, text, *answers)
    one = iv.audit(None, text["input_ids"], *answers, criteria="regret")
    assert one.data.columns == tuple(f"x{j}" for j in range(LENGTH))

    def first_word(rows: NamedInputs) -> Any:
        return rows["input_ids"][:, 0] / WORDS

    found = iv.audit(first_word, text, *answers, criteria="regret", task="classification")
    assert found.data.rows == N


# --- several inputs in their places, and batches of their own lengths -------------------------------------------------
class Masked(Reader):
    """Reads two tensors in their places."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.classifier(self.pooled(x, mask))


def test_several_inputs_are_handed_over_in_their_places(text: dict[str, Tensor], answers: Any) -> None:
    network, y, env = Masked(), *answers
    pairs = [*zip(zip(text["input_ids"], text["attention_mask"], strict=True), y, env, strict=True)]
    settings: dict[str, Any] = {"criteria": ["regret", "risk_variance"], "n_boot": 0}
    audit = iv.audit(network, DataLoader(pairs, batch_size=7), **settings)
    with torch.no_grad():
        pooled = network.eval().pooled(**text)
        said = network.classifier(pooled).softmax(1)
    by_hand = iv.Split(represent=pooled, predict=said, task="classification", classes=(0, 1))
    expected = iv.audit(by_hand, np.zeros((N, 1)), y, env, **settings)
    for name in settings["criteria"]:
        assert audit[name].value == pytest.approx(expected[name].value, rel=1e-4, abs=1e-7)
    named = iv.audit(network, {"x": text["input_ids"], "mask": text["attention_mask"]}, y, env, **settings)
    assert audit["regret"].value == pytest.approx(named["regret"].value, rel=1e-6)


def test_one_input_of_several_in_their_places_can_be_chosen(answers: Any) -> None:
    X = torch.randn(N, 3)
    loader = DataLoader([*zip(zip(torch.ones(N, 2), X, strict=True), *answers, strict=True)], batch_size=7)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    with pytest.raises(InputError, match=r'iv\.split\(model, inputs="0"\) hands it that one'):
        iv.audit(network, loader, n_boot=0)
    settings: dict[str, Any] = {"criteria": "risk_variance", "n_boot": 0}
    audit = iv.audit(iv.split(network, inputs="1"), loader, **settings)
    assert audit["risk_variance"].value == iv.audit(network, X, *answers, **settings)["risk_variance"].value


def test_a_network_that_reads_more_than_it_is_given_says_what_to_give(text: dict[str, Tensor], answers: Any) -> None:
    flat = DataLoader([*zip(text["input_ids"], text["attention_mask"], answers[0], strict=True)], batch_size=7)
    with pytest.raises(InputError, match=r"^Masked reads several inputs \(x, mask\), and there is one: give a loader"):
        iv.audit(Masked(), flat, n_boot=0)


def test_batches_that_are_padded_to_lengths_of_their_own(text: dict[str, Tensor], answers: Any) -> None:
    lengths = (text["attention_mask"] * torch.arange(1, LENGTH + 1)).amax(1)
    assert len({*lengths.tolist()}) > 1

    def padded(items: list[int]) -> dict[str, Any]:
        longest = int(lengths[items].max())
        return {
            **{name: part[items, :longest] for name, part in text.items()},
            "labels": answers[0][items],
            "domain": [answers[1][item] for item in items],
        }

    order = torch.argsort(lengths).tolist()
    loader = DataLoader(order, batch_size=10, collate_fn=padded)
    assert len({batch["input_ids"].shape for batch in loader}) > 1
    network, settings = Reader(), {"criteria": ["regret", "risk_variance", "worst_case_in_inputs"], "n_boot": 0}
    audit = iv.audit(network, loader, **settings)
    expected = iv.audit(network, text, *answers, **settings)
    for name in ("regret", "risk_variance"):
        assert audit[name].value == pytest.approx(expected[name].value, rel=1e-3, abs=1e-6)
    assert audit.left_out["worst_case_in_inputs"].startswith("some batches have rows of shape input_ids (")


def test_features_that_follow_the_length_of_the_rows_are_refused() -> None:
    uneven = UnevenRows((np.zeros((3, 4), dtype=np.float32), np.zeros((2, 5), dtype=np.float32)))
    halves = iv.split(network := nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool1d(1)), layer="1")
    assert halves.predict(uneven).shape == (5,)
    with pytest.raises(InputError, match="the network gives 4 and 5 numbers a row for batches of different shapes"):
        iv.split(network, layer="1").represent(uneven)
