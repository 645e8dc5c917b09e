"""Worst-case loss at a distance: curves for each loss, exact, certified or searched."""
