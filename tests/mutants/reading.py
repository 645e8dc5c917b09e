"""Mistakes in reading tables: gaps, groups, categories, numbers and dates."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="gaps_filled_with_the_mean",
        file="reading/missing_values.py",
        old="numbers.mode()[0] if truths else numbers.median()",
        new="numbers.mode()[0] if truths else numbers.mean()",
        seen="an outlier moves what is filled in",
        tests=("reading/test_missing_values.py::test_median_and_most_frequent",),
    ),
    Mutant(
        name="worst_place_by_count",
        file="reading/missing_values.py",
        old="worst = int((missing / rows).argmax())",
        new="worst = int(missing.argmax())",
        seen="the largest environment is blamed for gaps",
        tests=(
            "reading/test_missing_values.py::test_the_worst_place_is_that_with_the_largest_share_not_the_most_rows",
        ),
    ),
    Mutant(
        name="rows_kept_are_those_with_gaps",
        file="reading/missing_values.py",
        old="return frame[~hit], tuple(notes)",
        new="return frame[hit], tuple(notes)",
        seen="the rows with gaps are what is left",
        tests=("reading/test_missing_values.py::test_rows_and_columns_left_out",),
    ),
    Mutant(
        name="indicator_turned_round",
        file="reading/missing_values.py",
        old="= gaps[name].astype(np.float64)",
        new="= (~gaps[name]).astype(np.float64)",
        seen="the column of gaps is 1 where there is none",
        tests=("reading/test_missing_values.py::test_indicator",),
    ),
    Mutant(
        name="edges_belong_to_the_group_below",
        file="reading/environment_labels.py",
        old='np.searchsorted(edges, values, side="right")',
        new='np.searchsorted(edges, values, side="left")',
        seen="age 65 falls into 30–64",
        tests=(
            "reading/test_environment_labels.py::test_an_edge_belongs_to_the_group_above_and_empty_groups_are_told",
        ),
    ),
    Mutant(
        name="groups_not_even",
        file="reading/environment_labels.py",
        old="goal = done + (len(values) - done) / left",
        new="goal = len(values) / left",
        seen="groups of very different sizes",
        tests=("reading/test_environment_labels.py::test_groups_of_equal_size",),
    ),
    Mutant(
        name="labels_sort_by_alphabet",
        file="reading/environment_labels.py",
        old="return self.rank < other.rank if isinstance(other, Bin) else str.__lt__(self, other)",
        new="return str.__lt__(self, other)",
        seen="age 100–120 stands before age 30–99",
        tests=("reading/test_environment_labels.py::test_labels_sort_by_value_not_by_alphabet",),
    ),
    Mutant(
        name="quarters_counted_from_zero",
        file="reading/environment_labels.py",
        old="date.year * 10 + date.quarter",
        new="date.year * 10 + date.quarter - 1",
        seen="May is in the first quarter",
        tests=("reading/test_environment_labels.py::test_parts_of_dates",),
    ),
    Mutant(
        name="dropped_environments_are_kept",
        file="reading/environment_labels.py",
        old="keep &= ~hit",
        new="keep &= hit",
        seen="an environment left out is the one that stays",
        tests=("reading/test_environment_labels.py::test_environments_left_out",),
    ),
    Mutant(
        name="one_hot_of_the_wrong_level",
        file="reading/encoding.py",
        old="out[positions[codes], np.arange(len(column))] = 1.0",
        new="out[codes, np.arange(len(column))] = 1.0",
        seen="levels under names of others",
        tests=("reading/test_encoding.py::test_given_levels_keep_their_order_and_may_be_empty",),
    ),
    Mutant(
        name="train_and_test_swapped",
        file="reading/dataset.py",
        old="return self._of_part(TRAIN)",
        new="return self._of_part(TEST)",
        seen="models are trained on the rows they are judged on",
        tests=("reading/test_dataset.py::test_the_split_gives_each_row_to_one_part_in_its_order",),
    ),
    Mutant(
        name="category_that_spans_environments_tells_them",
        file="reading/stand_ins.py",
        old="_pairs(codes, places) == codes.max() + 1",
        new="_pairs(codes, places) >= codes.max() + 1",
        seen="harmless columns are said to tell the environment",
        tests=("reading/test_stand_ins.py::test_a_feature_that_tells_the_environment",),
    ),
    Mutant(
        name="decimal_comma_read_as_thousands",
        file="reading/written_values.py",
        old='float(body.replace(".", "").replace(",", "."))',
        new='float(body.replace(".", "").replace(",", ""))',
        seen="0,5 is read as 5",
        tests=("reading/test_text_columns.py::test_numbers_written_as_text",),
    ),
]
