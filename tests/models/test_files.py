"""Models from disk: standard ones load, and no file runs code unless it was asked for."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import safetensors.numpy
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import invariscope.estimators  # noqa: F401  (it adds .safetensors to what can be read)
from invariscope.errors import InputError
from invariscope.models import split
from invariscope.models.files import load_model

AGAIN = r"save the fitted model again, with skops\.io\.dump$"


@pytest.fixture
def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(60, 3))


@pytest.fixture
def line(rows: np.ndarray) -> LinearRegression:
    return LinearRegression().fit(rows, rows @ [1.0, 2.0, 3.0])


class Trap:
    """An object whose pickle writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "the code ran")


class Homemade(LinearRegression):
    """A model class that no list of standard types holds."""


MODELS = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), PCA(2), LogisticRegression()),
    GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 1.0]}, cv=2),
    MLPClassifier((4,), solver="adam", max_iter=300, tol=1.0, random_state=0),
    MLPClassifier((4,), solver="sgd", max_iter=300, tol=1.0, random_state=0),
    CalibratedClassifierCV(LogisticRegression(), cv=2),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_standard_models_come_back_from_skops(model: Any, rows: np.ndarray, tmp_path: Path) -> None:
    model.fit(rows, rows[:, 0] > np.median(rows[:, 0]))
    skops.io.dump(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(split(loaded).represent(rows), split(model).represent(rows))


@pytest.mark.parametrize("name", ["model.pkl", "model.pickle", "model.joblib", "MODEL.PKL"])
@pytest.mark.parametrize("write", [joblib.dump, lambda model, path: path.write_bytes(pickle.dumps(model))])
def test_trusted_pickles_load(write: Any, name: str, line: LinearRegression, rows: np.ndarray, tmp_path: Path) -> None:
    write(line, tmp_path / name)
    loaded = load_model(str(tmp_path / name), trust_pickle=True)
    np.testing.assert_array_equal(loaded.predict(rows), line.predict(rows))


# --- nothing runs unasked --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["model.pkl", "model.pickle", "model.joblib"])
def test_a_pickle_does_not_run_without_the_flag(name: str, tmp_path: Path) -> None:
    written = tmp_path / "written.txt"
    (tmp_path / name).write_bytes(pickle.dumps(Trap(written)))
    with pytest.raises(
        InputError, match="loading a pickle runs the code inside it; pass trust_pickle=True if you made it"
    ):
        load_model(tmp_path / name)
    assert not written.exists()
    load_model(tmp_path / name, trust_pickle=True)  # the trap is real: with the flag it snaps
    assert written.read_text() == "the code ran"


@pytest.mark.parametrize("trust_pickle", [False, True])
def test_a_pickle_in_disguise_does_not_run(trust_pickle: bool, tmp_path: Path) -> None:
    written, disguised = tmp_path / "written.txt", tmp_path / "model.skops"
    disguised.write_bytes(pickle.dumps(Trap(written)))
    with pytest.raises(InputError, match=r"model.skops: not a readable .skops file \(BadZipFile"):
        load_model(disguised, trust_pickle=trust_pickle)
    assert not written.exists()


@pytest.mark.parametrize("trust_pickle", [False, True])
def test_unknown_types_in_skops_are_listed(trust_pickle: bool, rows: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops.io.dump(Homemade().fit(rows, rows[:, 0]), path)
    (name,) = skops.io.get_untrusted_types(file=path)
    assert name.endswith(".Homemade")
    with pytest.raises(InputError) as told:
        load_model(path, trust_pickle=trust_pickle)
    assert f"holds types that are not trusted: {name}. If you made the file yourself, pass" in str(told.value)
    assert f"trusted=['{name}']" in str(told.value)
    assert type(load_model(path, trusted=[name])).__name__ == "Homemade"


def test_trees_are_not_trusted_from_files(rows: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "forest.skops"
    skops.io.dump(RandomForestClassifier(2, random_state=0).fit(rows, rows[:, 0] > 0), path)
    with pytest.raises(InputError, match=r"not trusted: sklearn\.tree\._tree\.Tree\."):
        load_model(path)
    assert len(load_model(path, trusted=["sklearn.tree._tree.Tree"]).estimators_) == 2


# --- errors a person can act on --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.onnx", "ONNX models are not read yet in this version"),
        ("model.h5", r'a model file ends in .skops, .safetensors, .pkl, .pickle, .joblib, not ".h5"'),
        ("model", 'a model file ends in .skops, .safetensors, .pkl, .pickle, .joblib, not ""'),
        ("absent.skops", "absent.skops: there is no such file; look at its name and folder$"),
        ("absent.pkl", "absent.pkl: there is no such file; look at its name and folder$"),
        ("folder.skops", "folder.skops is a folder: name a file in it$"),
    ],
)
def test_files_that_are_not_models(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.skops").mkdir()
    with pytest.raises(InputError, match=message):
        load_model(tmp_path / name)


def test_damaged_files(line: LinearRegression, tmp_path: Path) -> None:
    (tmp_path / "cut.pkl").write_bytes(pickle.dumps(line)[:-20])
    with pytest.raises(InputError, match=r"cut.pkl: cannot be unpickled \(.*\): install what it needs, or save the"):
        load_model(tmp_path / "cut.pkl", trust_pickle=True)
    with zipfile.ZipFile(tmp_path / "empty.skops", "w"):
        pass
    with pytest.raises(InputError, match=r"empty.skops: not a readable .skops file \(KeyError"):
        load_model(tmp_path / "empty.skops")


# --- files that are not what they say ---------------------------------------------------------------------------------
def rewritten(path: Path, parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """The file with other parts in it."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, part in {**content, **parts}.items():
            archive.writestr(name, part)
    return path


@pytest.fixture
def stored(line: LinearRegression, tmp_path: Path) -> Path:
    skops.io.dump(line, tmp_path / "line.skops")
    return tmp_path / "line.skops"


def test_a_file_that_would_fill_the_memory(stored: Path, line: LinearRegression, rows: np.ndarray) -> None:
    """It is refused by what its archive says, before anything is unpacked; saving without compression helps."""
    rewritten(stored, {"extra.npy": bytes(120_000_000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError) as told:
        load_model(stored)
    assert str(told.value) == (
        f"{stored}: 0.1 MB unpack to 120 MB, which would fill the memory. If the model is that large, save it without "
        "compression, as skops.io.dump does"
    )
    rewritten(stored, {})
    np.testing.assert_array_equal(load_model(stored).predict(rows), line.predict(rows))


def test_packed_models_are_read(line: LinearRegression, rows: np.ndarray, tmp_path: Path) -> None:
    skops.io.dump(line, tmp_path / "packed.skops", compression=zipfile.ZIP_DEFLATED)
    np.testing.assert_array_equal(load_model(tmp_path / "packed.skops").predict(rows), line.predict(rows))


ENDLESS = io.BytesIO()
np.lib.format.write_array_header_1_0(ENDLESS, {"descr": "<f8", "fortran_order": False, "shape": (10**14,)})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (b"[" * 100_000, "RecursionError"),
        (b"{", "JSONDecodeError"),
        (b"[]", "AttributeError"),
        (b"\xff\xfe", "JSONDecodeError|UnicodeDecodeError"),
    ],
)
def test_damaged_descriptions(schema: bytes, words: str, stored: Path) -> None:
    with pytest.raises(
        InputError,
        match=rf"line\.skops: not a readable \.skops file \(({words}): [^\n]*\): {AGAIN}",
    ):
        load_model(rewritten(stored, {"schema.json": schema}))


def test_cut_off_archives_and_arrays_that_lie(stored: Path) -> None:
    with zipfile.ZipFile(stored) as archive:
        arrays = [name for name in archive.namelist() if name.endswith(".npy")]
    rewritten(stored, dict.fromkeys(arrays, ENDLESS.getvalue()))
    with pytest.raises(
        InputError,
        match=r"\d+\.npy has 0 bytes for 100,000,000,000,000 values of 8\. .*: save the fitted model again$",
    ):
        load_model(stored)
    stored.write_bytes(stored.read_bytes()[:-100])
    with pytest.raises(
        InputError,
        match=rf"not a readable \.skops file \(BadZipFile: File is not a zip file\): {AGAIN}",
    ):
        load_model(stored)


@pytest.mark.parametrize(
    "forge",
    [
        lambda data: struct.pack("<Q", 10**15) + data[8:],
        lambda data: struct.pack("<Q", 5) + b"words",
        lambda data: data.replace(b"[3]", b"[9]"),
        lambda data: data.replace(b"F64", b"F99"),
        lambda data: data[:20],
        lambda data: b"",
    ],
    ids=["length", "words", "shape", "type", "cut", "empty"],
)
def test_weights_whose_header_lies(forge: Any, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(forge(safetensors.numpy.save({"a": np.ones(3)})))
    sentence = r"weights\.safetensors: not a readable \.safetensors file \([^\n]*\); make it anew$"
    with pytest.raises(InputError, match=sentence):
        load_model(path)


def test_what_was_loaded_must_still_be_fitted(tmp_path: Path) -> None:
    skops.io.dump(Ridge(), tmp_path / "blank.skops")
    with pytest.raises(InputError, match=r"model is not fitted: call fit first \(Ridge\)"):
        split(load_model(tmp_path / "blank.skops"))
