"""From a fitted model to representation, predictions and head: scikit-learn, torch, functions, files."""
