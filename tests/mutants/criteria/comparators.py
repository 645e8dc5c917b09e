"""Mistakes in the comparators."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="comparators_units_without_weights",
        file="criteria/comparators/samples.py",
        old="np.average(values**2, axis=0, weights=weight)",
        new="np.average(values**2, axis=0)",
        seen="weighted rows are compared in other units than repeated ones",
        tests=("criteria/comparators/test_samples.py",),
    ),
]
