"""Mistakes on the page and on the terminal: rows and columns, order, thresholds."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="heat_map_of_gaps_transposed",
        file="report/charts/heat_maps.py",
        old="return Cell(pair.moved, pair.borrowed, step,",
        new="return Cell(pair.borrowed, pair.moved, step,",
        seen="whose mean would move is drawn the wrong way round",
        tests=(
            "report/charts/test_heat_maps.py::test_rows_of_gaps_and_overlaps_are_the_environment_that_moves_and_is_looked_like",
        ),
    ),
    Mutant(
        name="heat_map_of_overlap_transposed",
        file="report/charts/heat_maps.py",
        old="return Cell(pair.target, pair.source, step,",
        new="return Cell(pair.source, pair.target, step,",
        seen="whose rows overlap is drawn the wrong way round",
        tests=(
            "report/charts/test_heat_maps.py::test_rows_of_gaps_and_overlaps_are_the_environment_that_moves_and_is_looked_like",
        ),
    ),
    Mutant(
        name="shades_begin_above_the_margin",
        file="report/charts/heat_maps.py",
        old="steps = [margin, *above][: HEAT_STEPS - 1]",
        new="steps = above[: HEAT_STEPS - 1]",
        seen="differences above the margin stay grey",
        tests=("report/charts/test_heat_maps.py::test_shades_begin_at_the_margin",),
    ),
    Mutant(
        name="extreme_pairs_named_the_wrong_way",
        file="report/parts/disagreement.py",
        old="Pair(names[k // len(names)], names[k % len(names)], float(flat[k]))",
        new="Pair(names[k % len(names)], names[k // len(names)], float(flat[k]))",
        seen="the worst match names served and head the wrong way round",
        tests=("report/parts/test_disagreement.py::test_extreme_pairs_are_the_largest_off_the_diagonal",),
    ),
    Mutant(
        name="extreme_pairs_smallest_first",
        file="report/parts/disagreement.py",
        old='np.argsort(-flat, kind="stable")',
        new='np.argsort(flat, kind="stable")',
        seen="the best match is called the worst",
        tests=("report/parts/test_disagreement.py::test_extreme_pairs_are_the_largest_off_the_diagonal",),
    ),
    Mutant(
        name="standing_of_the_wrong_end",
        file="report/parts/environments.py",
        old='return "over" if low > margin else "under" if high < margin else "open"',
        new='return "over" if high > margin else "under" if low < margin else "open"',
        seen="environments called over the margin that may be under it",
        tests=("report/parts/test_environments.py::test_standing_against_the_margin",),
    ),
    Mutant(
        name="environments_best_first",
        file="report/parts/environments.py",
        old="key=lambda r: -r.regret.value if",
        new="key=lambda r: r.regret.value if",
        seen="the table shows the best environments and cuts off the worst",
        tests=("report/parts/test_environments.py::test_worst_come_first_and_unknown_last",),
    ),
    Mutant(
        name="losses_by_place_not_by_label",
        file="report/parts/environments.py",
        old="shared = {} if regret is None else dict(zip(regret.labels, regret.shared_loss.tolist(), strict=True))",
        new=(
            "shared = {} if regret is None else dict(zip(audit.data.labels, regret.shared_loss.tolist(), strict=True))"
        ),
        seen="losses beside other environments than their own",
        tests=("report/parts/test_environments.py::test_numbers_follow_labels_not_places",),
    ),
    Mutant(
        name="own_and_shared_loss_swapped",
        file="report/parts/environments.py",
        old="own = {} if regret is None else dict(zip(regret.labels, regret.own_loss.tolist(), strict=True))",
        new="own = {} if regret is None else dict(zip(regret.labels, regret.shared_loss.tolist(), strict=True))",
        seen="the own head seems no better than the shared one",
        tests=("report/parts/test_environments.py::test_frame_holds_the_audit_s_numbers",),
    ),
    Mutant(
        name="finding_forgets_the_search",
        file="report/parts/environments.py",
        old='over = [row for row in known if row.standing == "over"]',
        new="over = [row for row in known if row.regret.value > margin]",
        seen="an environment is called over the margin although the verdict cannot tell",
        tests=("report/parts/test_environments.py::test_finding_allows_for_having_looked_at_all",),
    ),
    Mutant(
        name="drivers_of_the_mean",
        file="report/parts/drivers.py",
        old="parts = np.maximum(regret.drivers, 0.0)",
        new="parts = np.abs(regret.drivers)",
        seen="columns that lower the loss are said to carry it",
        tests=("report/parts/test_drivers.py::test_all_environments_together",),
    ),
    Mutant(
        name="bars_outside_the_axis",
        file="report/charts/interval_bars.py",
        old="inside = min(max(share, self.low), self.high)",
        new="inside = share",
        seen="bars that leave their cell",
        tests=("report/charts/test_interval_bars.py::test_axis_holds_every_estimate_and_cuts_only_intervals",),
    ),
    Mutant(
        name="bound_of_the_cloud_at_another_level",
        file="report/parts/influence.py",
        old='index_words(result, audit.settings.alpha, "by chance")',
        new='index_words(result, audit.settings.alpha / 2, "by chance")',
        seen="shuffles drawn with a narrower middle than said",
        tests=("report/parts/test_influence.py::test_cloud_is_the_histogram_of_all_finite_shuffles",),
    ),
    Mutant(
        name="gaps_of_noise_in_full_colour",
        file="report/parts/transport.py",
        old="1 if size < MIDDLE or not pair.sure else",
        new="1 if size < MIDDLE else",
        seen="noise shouts",
        tests=("report/parts/test_transport.py::test_shades_diverge_from_zero_and_noise_stays_pale",),
    ),
    Mutant(
        name="gaps_ranked_by_sign",
        file="report/parts/transport.py",
        old="-abs(np.nan_to_num(pair.gap))",
        new="-np.nan_to_num(pair.gap)",
        seen="a large negative gap comes last",
        tests=("report/parts/test_transport.py::test_sure_pairs_come_first_then_larger_gaps_and_refused_last",),
    ),
    Mutant(
        name="worst_case_distances_in_raw_units",
        file="report/parts/worst_case.py",
        old="(result.apart / result.unit).tolist()",
        new="result.apart.tolist()",
        seen="environments drawn at distances that mean nothing",
        tests=("report/parts/test_worst_case.py::test_the_finding_is_about_the_furthest_environment",),
    ),
]
