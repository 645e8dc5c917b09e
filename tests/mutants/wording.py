"""Mistakes in numbers and names as people read them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="percent_whole_from_one_on",
        file="wording.py",
        old="return 0 if size >= 10 else",
        new="return 0 if size >= 1 else",
        seen="2.1 % reads as 2 %",
        tests=("test_wording.py::test_percentages_are_whole_from_ten_on",),
    ),
    Mutant(
        name="percent_of_a_share_not_times_hundred",
        file="wording.py",
        old="return _decimal(100 * share, _decimals(100 * share))",
        new="return _decimal(10 * share, _decimals(10 * share))",
        seen="percentages ten times too small",
        tests=("test_wording.py::test_percentages_are_whole_from_ten_on",),
    ),
    Mutant(
        name="p_below_its_draws",
        file="wording.py",
        old="if draws is not None and p <= 1.0 / (draws + 1):",
        new="if draws is not None and p < 1.0 / (draws + 1):",
        seen="p = 0.001 is claimed where draws only show p ≤ 0.001",
        tests=("test_wording.py::test_p_values_claim_no_more_than_their_draws",),
    ),
    Mutant(
        name="rounding_up_rounds_down",
        file="wording.py",
        old="return int(math.ceil(rows / step) * step)",
        new="return int(math.floor(rows / step) * step)",
        seen="advice of fewer rows than needed",
        tests=("test_wording.py::test_advice_on_rows_is_rounded_up_to_two_digits",),
    ),
    Mutant(
        name="interval_with_its_ends_swapped",
        file="wording.py",
        old="{text} ({low} … {high})",
        new="{text} ({high} … {low})",
        seen="an interval from high to low",
        tests=("test_wording.py::test_changes_carry_their_interval",),
    ),
    Mutant(
        name="names_that_read_alike_are_merged",
        file="wording.py",
        old=("        while name in seen:\n"),
        new=("        while False:\n"),
        seen="two environments under one name",
        tests=("test_wording.py::test_names_stay_apart_and_printable",),
    ),
    Mutant(
        name="minutes_of_a_hundred_seconds",
        file="wording.py",
        old="{whole % 3600 // 60:02d}",
        new="{whole // 60:02d}",
        seen="an hour and two minutes read as 1:62:05",
        tests=("test_wording.py::test_durations_are_hours_minutes_and_seconds",),
    ),
    Mutant(
        name="list_without_its_last",
        file="wording.py",
        old="{', '.join(items[:-1])} and {items[-1]}",
        new="{', '.join(items[:-2])} and {items[-1]}",
        seen="an environment is missing from a sentence",
        tests=("test_wording.py::test_lists_name_every_item",),
    ),
]
