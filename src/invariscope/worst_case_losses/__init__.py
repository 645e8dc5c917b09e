"""Worst-case losses over all laws within a Wasserstein distance: one file per loss, and the curve they share."""
