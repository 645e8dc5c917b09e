"""LISA: every partner is one that the paper allows, all of them occur, and rows without one stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives import LISA
from invariscope.objectives.lisa import lisa

CLASSES = ((0, 0, 1, 2, 1), (1, 0, 2, 2), (0, 1, 1, 0, 2, 0))
DRAWS = 300


def targets_of(classes: tuple[tuple[int, ...], ...], count: int) -> tuple[Tensor, ...]:
    codes = [torch.tensor(each) for each in classes]
    if count == 2:
        return tuple(code.double() for code in codes)
    return tuple(torch.nn.functional.one_hot(code, count).double() for code in codes)


def partners_seen(targets: tuple[Tensor, ...], p_sel: float, seed: int, draws: int = DRAWS) -> list[dict[int, int]]:
    """How often every row had every partner."""
    generator, counts = torch.Generator().manual_seed(seed), [{} for _ in range(sum(map(len, targets)))]
    for _ in range(draws):
        drawn = LISA(p_sel=p_sel).draw(targets, generator)
        for row, partner in enumerate(drawn["partners"].tolist()):
            counts[row][partner] = counts[row].get(partner, 0) + 1
    return counts


def allowed(classes: tuple[tuple[int, ...], ...], across: bool) -> list[set[int]]:
    """Which partners a row may have, by comparing it with every other."""
    rows = [(environment, label) for environment, labels in enumerate(classes) for label in labels]
    found = []
    for i, (environment, label) in enumerate(rows):
        if across:
            fine = {j for j, (other, value) in enumerate(rows) if value == label and other != environment}
        else:
            fine = {j for j, (other, value) in enumerate(rows) if value != label and other == environment}
        found.append(fine or {i})
    return found


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("count", [2, 3])
def test_partners_of_classes_are_all_those_allowed_and_no_others(across: bool, count: int, seed: int) -> None:
    classes = tuple(tuple(label % count for label in labels) for labels in CLASSES)
    seen = partners_seen(targets_of(classes, count), float(across), seed)
    for counts, fine in zip(seen, allowed(classes, across), strict=True):
        assert set(counts) == fine
        share = 1 / len(fine)
        for times in counts.values():
            assert abs(times / DRAWS - share) <= 6 * np.sqrt(share * (1 - share) / DRAWS)


def test_rows_without_a_partner_stay_as_they_are(seed: int) -> None:
    inputs = [torch.randn(3, 2, generator=torch.Generator().manual_seed(seed)), torch.ones(2, 2)]
    codes = [torch.tensor([0, 1, 1]), torch.tensor([1, 1])]  # class 0 is in the first environment only
    (first, second), (values, other) = lisa(inputs, codes, p_sel=1.0, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(first[0], inputs[0][0])
    assert not torch.equal(first[1], inputs[0][1])
    assert values.tolist() == [0.0, 1.0, 1.0]
    (_, second), (_, other) = lisa(inputs, codes, p_sel=0.0, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(second, inputs[1])  # nothing but class 1 in the second
    assert other.tolist() == [1.0, 1.0]


def test_numbers_meet_the_nearest_number_of_another_environment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=size) for size in (1, 12, 7)]
    values = np.concatenate(parts)
    owner = np.repeat(np.arange(3), [1, 12, 7])
    expected = []
    for row in range(len(values)):
        nearest = set()
        for other in {0, 1, 2} - {int(owner[row])}:
            candidates = [j for j in range(len(values)) if owner[j] == other]
            nearest.add(min(candidates, key=lambda j: abs(values[j] - values[row])))
        expected.append(nearest)
    seen = partners_seen(tuple(torch.from_numpy(part) for part in parts), 1.0, seed, draws=60)
    assert [set(counts) for counts in seen] == expected


def test_numbers_meet_any_other_row_of_their_environment(seed: int) -> None:
    parts = (torch.tensor([0.5]), torch.tensor([0.1, -2.0, 0.7]), torch.tensor([1.5, 2.5]))
    seen = partners_seen(parts, 0.0, seed, draws=60)
    assert [set(counts) for counts in seen] == [{0}, {2, 3}, {1, 3}, {1, 2}, {5}, {4}]


def test_one_way_of_choosing_holds_for_the_whole_step_and_both_occur(seed: int) -> None:
    targets, generator, ways = targets_of(CLASSES, 3), torch.Generator().manual_seed(seed), []
    owner = np.repeat(np.arange(3), [5, 4, 6])
    for _ in range(DRAWS):
        others = owner[LISA(p_sel=0.25).draw(targets, generator)["partners"].numpy()]
        moved = others != owner
        assert moved.all() or not moved.any()
        ways.append(bool(moved.all()))
    assert abs(np.mean(ways) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / DRAWS)


def test_shares_follow_the_beta_law_row_by_row(seed: int) -> None:
    shares = LISA().draw((torch.randn(4000), torch.randn(4000)), torch.Generator().manual_seed(seed))["shares"].numpy()
    assert len(np.unique(shares)) > 7000
    assert abs(shares.mean() - 0.5) < 5 * np.sqrt(0.05 / 8000)
    assert shares.var() == pytest.approx(0.05, rel=0.08)  # αβ / ((α + β)² (α + β + 1)) = 4 / 80


def test_mixes_by_hand() -> None:
    inputs, targets = (torch.tensor([[0.0], [4.0]]), torch.tensor([[8.0]])), (torch.zeros(2), torch.ones(1))
    drawn = {"partners": torch.tensor([1, 2, 2]), "shares": torch.tensor([0.25, 0.5, 0.1])}
    (first, second), (values, other) = LISA().mix(inputs, targets, drawn)
    assert first.tolist() == [[3.0], [6.0]]  # ¼ · 0 + ¾ · 4 and ½ · 4 + ½ · 8
    assert second.tolist() == [[8.0]]
    assert values.tolist() == [0.0, 0.5]
    assert other.tolist() == [1.0]


def test_many_at_once_are_those_one_by_one(seed: int) -> None:
    generator, sizes = torch.Generator().manual_seed(seed), (3, 5)
    inputs = tuple(torch.randn(4, size, 2, generator=generator) for size in sizes)
    targets = tuple(torch.randn(4, size, generator=generator) for size in sizes)
    each = [LISA().draw(tuple(part[place] for part in targets), generator) for place in range(4)]
    drawn = {key: torch.stack([one[key] for one in each]) for key in each[0]}
    rows, values = torch.func.vmap(LISA().mix)(inputs, targets, drawn)
    for place in range(4):
        alone = LISA().mix(tuple(part[place] for part in inputs), tuple(part[place] for part in targets), each[place])
        for together, single in zip((*rows, *values), (*alone[0], *alone[1]), strict=True):
            assert torch.equal(together[place], single)


def test_refuses_impossible_hyper_parameters() -> None:
    rows, values = [torch.zeros(2, 1)] * 2, [torch.zeros(2)] * 2
    with pytest.raises(InputError, match="p_sel"):
        lisa(rows, values, p_sel=1.5)
    with pytest.raises(InputError, match="alpha"):
        lisa(rows, values, alpha=-1.0)
