"""A fitted estimator as an ONNX file, standardisation inside, checked against the model before it appears."""

from __future__ import annotations

import copy
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.estimators.networks import PRECISIONS, Fitted, dtype_of, fitted_network
from invariscope.files import write_atomically

OPERATORS = 17  # the set of operators: old enough for every runtime that is about
TRACED_ROWS, PROBED_ROWS = 2, 5  # different on purpose: a network that is fixed to the rows it was traced with fails
INSTEAD = "store it with to_safetensors instead"
ALLOWED = {"float64": 1e-9, "float32": 1e-4}


def export(estimator: Fitted, path: Path, precision: str | None = None) -> Path:
    """Write the model to ``path``; :meth:`InvariantRegressor.to_onnx` says what is in it."""
    plan = estimator.network_
    chosen = precision or ("float32" if "layers" in plan else plan["precision"])
    if chosen not in PRECISIONS:
        raise InputError(f'precision is {precision!r}: use "float64" or "float32"')
    try:
        import onnx
    except ImportError as error:
        raise InputError("exporting needs onnx: pip install 'invariscope[onnx]'") from error
    probe = _probe(estimator, chosen)
    model = onnx.load_model_from_string(_traced(estimator, chosen, probe))
    about = {"estimator": type(estimator).__name__, "objective": estimator.objective_}
    for name in ("feature_names_in_", "classes_"):
        if hasattr(estimator, name):
            about[name.rstrip("_")] = json.dumps(getattr(estimator, name).tolist(), default=str)
    onnx.helper.set_model_props(model, about)
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    _compare(estimator, content, probe, ALLOWED[chosen])
    return write_atomically(path, content)


def _probe(estimator: Fitted, precision: str) -> Any:
    """Made-up rows where the training rows were."""
    rng = np.random.default_rng(0)
    rows = estimator.centre_ + estimator.scale_ * rng.standard_normal((PROBED_ROWS, estimator.n_features_in_))
    return rows.astype(precision)


def _traced(estimator: Fitted, precision: str, probe: Any) -> bytes:
    import torch

    dtype = dtype_of(precision)
    network = copy.deepcopy(fitted_network(estimator)).to(dtype)
    centre, scale = (torch.tensor(values, dtype=torch.float64) for values in (estimator.centre_, estimator.scale_))
    target_centre, target_scale = estimator._target_units()
    regression = estimator._task == "regression"

    class Whole(torch.nn.Module):
        """From the user's columns to what the user asks for."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            # in double precision: of a year like 2020.5, single precision would keep little after the subtraction
            logits, features = self.network(((X.double() - centre) / scale).to(dtype))
            if regression:
                return target_centre + target_scale * logits[:, 0], features
            if logits.shape[1] == 1:
                return torch.cat([torch.sigmoid(-logits), torch.sigmoid(logits)], dim=1), features
            return torch.softmax(logits, dim=1), features

    outputs = ["prediction" if regression else "probabilities", "representation"]
    buffer: Any = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # the older exporter needs no further packages; its notices are for us, not for users, and what tracing may get
        # wrong is found by running the result
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                Whole().eval(),
                (torch.tensor(probe[:TRACED_ROWS]),),
                buffer,
                input_names=["X"],
                output_names=outputs,
                dynamic_axes={name: {0: "rows"} for name in ["X", *outputs]},
                opset_version=OPERATORS,
                dynamo=False,
            )
        except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
            why = " ".join(str(error).split())
            raise InputError(f"the network cannot be exported to ONNX ({why}): {INSTEAD}") from error
    return bytes(buffer.getvalue())


def _compare(estimator: Fitted, content: bytes, probe: Any, allowed: float) -> None:
    """Refuse a file that says something else than the model, or that cannot be run."""
    try:
        import onnxruntime
    except ImportError:
        return
    no_such_kernel = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows without column names
        predict = getattr(estimator, "predict" if estimator._task == "regression" else "predict_proba")
        expected = predict(probe), estimator.represent(probe)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {"X": probe})
    except no_such_kernel as error:
        raise InputError(
            f'onnxruntime cannot run this network; try precision="float32" ({error}), or {INSTEAD}'
        ) from error
    except Exception as error:  # shapes that were fixed while tracing fail in the runtime's own ways
        raise InputError(f"the exported network does not run ({' '.join(str(error).split())}): {INSTEAD}") from error
    for ours, theirs in zip(expected, outputs, strict=True):
        size = max(1.0, float(np.abs(ours).max()))
        if ours.shape != theirs.shape or not np.allclose(theirs, ours, rtol=0, atol=allowed * size):
            raise InputError(f"the exported network predicts something else than the model: {INSTEAD}")
