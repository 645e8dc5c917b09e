"""Archives that ask for more memory or time than they are bytes: refused before anything in them is read."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.linear_model import LinearRegression, Ridge

from invariscope.errors import InputError
from invariscope.models.files import load_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = X @ [1.0, 2.0, 3.0]
LIST = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
Content = dict[str, bytes]


def array(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def head(kind: str, shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": kind, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def packed(content: Content) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in content.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def model_with(extra: Any, forge: Callable[[dict[str, Any], Content], None], path: Path) -> Path:
    """A sound model with one more attribute, which is forged in the file."""
    model = Ridge().fit(X, Y)
    model.extra = extra
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(content["schema.json"])
    forge(description["content"]["content"]["extra"], content)
    content["schema.json"] = json.dumps(description).encode()
    path.write_bytes(packed(content))
    return path


def often(node: dict[str, Any], content: Content) -> None:
    node["content"] += [{**node["content"][0], "__id__": 10**6 + k} for k in range(50)]


def inner_archive(node: dict[str, Any], content: Content) -> None:
    node |= {"__class__": "spmatrix", "__module__": "scipy.sparse._matrix"}
    content[node["file"]] = packed(
        {
            "data.npy": array(np.zeros(8_000_000)),
            "indices.npy": array(np.zeros(8_000_000, dtype=np.int64)),
            "indptr.npy": array(np.array([0, 8_000_000])),
            "format.npy": array(np.array(b"csr")),
            "shape.npy": array(np.array([1, 3])),
        }
    )


def other_array(data: bytes) -> Callable[[dict[str, Any], Content], None]:
    def forge(node: dict[str, Any], content: Content) -> None:
        content[node["file"]] = data

    return forge


def inner_array(node: dict[str, Any], content: Content) -> None:
    node |= {"__class__": "spmatrix", "__module__": "scipy.sparse._matrix"}
    content[node["file"]] = packed({"data.npy": head("<U0", (10**9,))})


def void(node: dict[str, Any], content: Content) -> None:
    node["__class__"] = "void"
    content[node["file"]] = array(np.array(2 * 10**9))


def nested(node: dict[str, Any], content: Content) -> None:
    inner: dict[str, Any] = {**LIST, "__id__": 7, "content": []}
    for level in range(40):
        again = {**LIST, "__id__": inner["__id__"], "content": []}
        inner = {**LIST, "__id__": 100 + level, "content": [inner, again]}
    node["content"] = [inner]


def seed(node: dict[str, Any], content: Content) -> None:
    node["content"]["seed_seq"]["content"]["pool_size"] |= {"__id__": 7, "content": "1000000"}


def seed_by_number(node: dict[str, Any], content: Content) -> None:
    """The description shows 4, under the number of a node that says otherwise."""
    state = node["content"]["bit_generator"]["content"]
    state["more"] = {**node["content"]["seed_seq"]["content"]["pool_size"], "__id__": 7, "content": "1000000"}
    node["content"]["seed_seq"]["content"]["pool_size"]["__id__"] = 7


FORGED: dict[str, tuple[Any, Callable[[dict[str, Any], Content], None], str]] = {
    "one array many times": ([np.zeros(500_000)], often, " MB unpack to 208 MB, which would fill the memory"),
    "an archive within": (sp.csr_matrix(np.eye(1)), inner_archive, " MB unpack to 128 MB, which would fill"),
    "values that take no room": (X, other_array(head("<U0", (10**15,))), ".npy is an array of 1,000,000,000,000,000"),
    "within, too": (sp.csr_matrix(np.eye(1)), inner_array, ".npz/data.npy is an array of 1,000,000,000 values"),
    "too few values": (X, other_array(array(X)[:-8]), ".npy has 472 bytes for 60 values of 8"),
    "more values": (X, other_array(array(X) + b"12345678"), ".npy has 488 bytes for 60 values of 8"),
    "objects": (X, other_array(head("|O", (1,)) + b"\x80\x04N."), ".npy is an array of 1 values of type object"),
    "another version": (X, other_array(b"\x93NUMPY\x03\x00" + array(X)[8:]), ".npy is an array of version (3, 0)"),
    "bytes by their number": (np.float64(1.0), void, "it holds a numpy.void, which no fitted model has"),
    "lists of lists": ([1], nested, "parts hold each other 2e+12 times"),
    "a long seed": (np.random.default_rng(0), seed, "a random number generator has a seed of 1000000 words"),
    "in disguise": (np.random.default_rng(0), seed_by_number, "a random number generator has a seed of 1000000 words"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_asks_for_too_much_is_refused(name: str, tmp_path: Path) -> None:
    extra, forge, sentence = FORGED[name]
    path = model_with(extra, forge, tmp_path / "model.skops")
    with pytest.raises(InputError) as told:
        load_model(path)
    assert str(told.value).startswith(f"{path}: ")
    assert sentence in str(told.value)


@pytest.mark.parametrize("extra", [[X, X], np.random.default_rng(0), np.float64(1.0), np.zeros((0, 3)), np.array("a")])
def test_what_is_as_it_says_is_read(extra: Any, tmp_path: Path) -> None:
    path = model_with(extra, lambda node, content: None, tmp_path / "model.skops")
    np.testing.assert_allclose(load_model(path).predict(X), Ridge().fit(X, Y).predict(X))


def test_a_member_that_is_there_twice(tmp_path: Path) -> None:
    """Another reader may take the other one."""
    path = tmp_path / "model.skops"
    skops.io.dump(LinearRegression().fit(X, Y), path)
    with zipfile.ZipFile(path) as archive:
        description = archive.read("schema.json")
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("schema.json", description)
    with pytest.raises(InputError, match=r"model\.skops: it holds schema\.json twice\. The file is damaged"):
        load_model(path)


def test_places_outside_a_large_sparse_matrix_take_no_memory(tmp_path: Path) -> None:
    def many_rows(node: dict[str, Any], content: Content) -> None:
        node |= {"__class__": "spmatrix", "__module__": "scipy.sparse._matrix"}

    wide = sp.coo_matrix(([1.0], ([0], [0])), shape=(10**15, 3))
    assert load_model(model_with(wide, many_rows, tmp_path / "model.skops")).extra.shape == (10**15, 3)
