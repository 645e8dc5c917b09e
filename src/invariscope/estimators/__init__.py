"""Invariant training in the manner of scikit-learn: fit with env=, predict, search, save, export."""

from invariscope.estimators.classifier import InvariantClassifier
from invariscope.estimators.leave_one_environment_out import LeaveOneEnvironmentOut
from invariscope.estimators.regressor import InvariantRegressor
from invariscope.estimators.weight_files import load as _load_weights
from invariscope.models.files import READERS as _READERS

__all__ = ["InvariantClassifier", "InvariantRegressor", "LeaveOneEnvironmentOut"]

_READERS[".safetensors"] = _load_weights
