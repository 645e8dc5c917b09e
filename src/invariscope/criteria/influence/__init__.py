"""Influence index: how far the environments pull the top model apart, against shuffled rows."""
