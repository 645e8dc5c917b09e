"""Models from disk, for the command line: without running code from the file unless the user asks for it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from invariscope.errors import InputError
from invariscope.files import NO_SUCH_FILE
from invariscope.models.archives import unpacked_size
from invariscope.models.file_checks import unchecked_parts
from invariscope.models.fitted_arrays import TamperedError
from invariscope.rows.spelling import spelling, spelt

#: Formats of rooms above this one, which they add when they are imported: ".safetensors" by `invariscope.estimators`.
READERS: dict[str, Callable[[Path], Any]] = {}
PICKLES = (".pkl", ".pickle", ".joblib")
#: What members of a .skops file may unpack to, each as often as it is asked for: fitted numbers hardly shrink when they
#: are packed, so a file that swells a hundred times was made to fill the memory; below the size, nothing is filled.
MOST_SWELLING, HARMLESS_SIZE = 100, 100_000_000

#: Parts of fitted scikit-learn models that skops does not list as known. All are plain Python objects that hold
#: settings, numbers and other (checked) parts; none runs code when it is rebuilt. Trees are left out on purpose:
#: a forged one can make scikit-learn read memory outside its arrays.
PLAIN_PARTS = (
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    *(f"sklearn.model_selection._split.{splits}" for splits in (
        "GroupKFold", "KFold", "LeaveOneGroupOut", "RepeatedKFold", "RepeatedStratifiedKFold", "ShuffleSplit",
        "StratifiedGroupKFold", "StratifiedKFold", "StratifiedShuffleSplit", "TimeSeriesSplit",
    )),
)  # fmt: skip

#: Our own: rebuilding them only sets attributes, and those are checked one by one like everything else in the file.
#: A fitted estimator holds plain arrays, and this package builds its network from them. A function that makes a network
#: of the user's own is in the file by its name only, and must be trusted by that name.
OWN_PARTS = (
    "invariscope.estimators.classifier.InvariantClassifier",
    "invariscope.estimators.leave_one_environment_out.LeaveOneEnvironmentOut",
    "invariscope.estimators.regressor.InvariantRegressor",
)


def load_model(path: str | Path, *, trust_pickle: bool = False, trusted: Sequence[str] = ()) -> Any:
    """Read a fitted model from a file.

    ``.skops`` files are read if they hold nothing but standard scikit-learn, scipy and numpy parts, invariscope's own
    estimators, and the types named in ``trusted`` (trees, say, or your own). What compiled code would read without
    looking (support vectors, nodes, indices) is checked, trusted or not. ``.safetensors`` files are those that
    ``to_safetensors`` of these estimators writes (import them first): they hold no code at all. ``.pkl``, ``.pickle``
    and ``.joblib`` files are read only with ``trust_pickle=True``, because reading them runs whatever code is inside.
    The flag does not widen what is accepted from ``.skops`` files: in a comparison of several models only some may be
    the user's own.

    It cannot tell whether the model inside is the one you mean, or whether it was trained on columns like yours.

    >>> import tempfile, skops.io
    >>> from sklearn.linear_model import LinearRegression
    >>> path = Path(tempfile.mkdtemp()) / "line.skops"
    >>> skops.io.dump(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]), path)
    >>> load_model(path).predict([[2.0]]).round(6).tolist()
    [5.0]
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        raise InputError(
            f"{path}: ONNX models are not read yet in this version. Save the scikit-learn model as .skops, "
            "or give the model's predictions as a column"
        )
    endings = (".skops", *READERS, *PICKLES)
    if suffix not in endings:
        raise InputError(f'{path}: a model file ends in {", ".join(endings)}, not "{suffix}"')
    if not path.is_file():
        raise InputError(f"{path} is a folder: name a file in it" if path.is_dir() else f"{path}: {NO_SUCH_FILE}")
    if suffix == ".skops":
        return _load_skops(path, trusted)
    if suffix in READERS:
        return READERS[suffix](path)
    if not trust_pickle:
        raise InputError(
            f"{path}: loading a pickle runs the code inside it; pass {spelt('trust_pickle', True)} if you made it "
            "yourself, or save the model as .skops"
        )
    return _load_pickle(path)


def _load_skops(path: Path, trusted: Sequence[str]) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise InputError(f"{path}: reading .skops files needs the package skops (pip install skops)") from error
    data = path.read_bytes()  # once, so that what is checked is what is loaded
    accepted = [*PLAIN_PARTS, *OWN_PARTS, *trusted]
    try:
        _refuse_swelling(path, data)
        unknown = [name for name in skops.io.get_untrusted_types(data=data) if name not in accepted]
        model = None if unknown else skops.io.loads(data, trusted=accepted)
        unknown = unknown or unchecked_parts(model, trusted)
    except InputError:
        raise
    except TamperedError as error:
        raise InputError(
            f"{path}: {_line(error)}. The file is damaged, was tampered with or comes from another version of "
            "scikit-learn: save the fitted model again"
        ) from error
    except Exception as error:  # a damaged file can fail anywhere in the reader
        raise InputError(
            f"{path}: not a readable .skops file ({type(error).__name__}: {_line(error)}): save the fitted model "
            "again, with skops.io.dump"
        ) from error
    if not unknown:
        return model
    trust = spelling().each("trust", unknown) if spelling().shell else f"trusted={unknown}"
    raise InputError(
        f"{path} holds types that are not trusted: {', '.join(unknown)}. If you made the file yourself, pass {trust}"
    )


def _refuse_swelling(path: Path, data: bytes) -> None:
    """A few bytes can be packed to become any number of them; how many is written in the archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(part.file_size for part in archive.infolist())
        if size <= (most := max(HARMLESS_SIZE, MOST_SWELLING * len(data))):
            size = unpacked_size(archive)
    if size > most:
        raise InputError(
            f"{path}: {len(data) / 1e6:,.1f} MB unpack to {size / 1e6:,.0f} MB, which would fill the memory. If the "
            "model is that large, save it without compression, as skops.io.dump does"
        )


def _load_pickle(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)  # reads plain pickles, too
    except Exception as error:  # unpickling can raise anything: a missing package, a renamed class, a cut-off file
        raise InputError(
            f"{path}: cannot be unpickled ({type(error).__name__}: {_line(error)}): install what it needs, or save the "
            "fitted model again"
        ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
