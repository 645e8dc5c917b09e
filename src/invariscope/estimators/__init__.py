"""Invariant training in the manner of scikit-learn: fit with env=, predict, search, save, export."""

from invariscope.estimators.classifier import InvariantClassifier
from invariscope.estimators.leave_one_environment_out import LeaveOneEnvironmentOut
from invariscope.estimators.regressor import InvariantRegressor

__all__ = ["InvariantClassifier", "InvariantRegressor", "LeaveOneEnvironmentOut"]
