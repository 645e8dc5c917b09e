"""From a fitted model to representation, predictions and head: scikit-learn, torch, functions, files."""

from invariscope.models.adapters import split
from invariscope.models.splits import Split

__all__ = ["Split", "split"]
