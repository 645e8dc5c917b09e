"""Mixup between environments: who is mixed with whom, by how much, and what comes out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import risks
from invariscope.objectives import Mixup
from invariscope.objectives.mixup import mixup
from tests.objectives.finite_differences import assert_gradient


def numbered(sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Targets that are never looked at, of these sizes."""
    return tuple(torch.zeros(size, dtype=torch.float64) for size in sizes)


def drawn_for(sizes: tuple[int, ...], seed: int, alpha: float = 0.2) -> dict[str, Tensor]:
    return Mixup(alpha=alpha).draw(numbered(sizes), torch.Generator().manual_seed(seed))


def test_mixes_by_hand() -> None:
    inputs = (torch.tensor([[0.0, 1.0], [2.0, 3.0]]), torch.tensor([[10.0, 20.0]]))
    targets = (torch.tensor([0.0, 1.0]), torch.tensor([1.0]))
    drawn = {"partners": torch.tensor([2, 2, 1]), "shares": torch.tensor([0.5, 0.5, 0.75])}
    (first, second), (values, other) = Mixup().mix(inputs, targets, drawn)
    # ½ (0, 1) + ½ (10, 20); ½ (2, 3) + ½ (10, 20); ¾ (10, 20) + ¼ (2, 3)
    assert first.tolist() == [[5.0, 10.5], [6.0, 11.5]]
    assert second.tolist() == [[8.0, 15.75]]
    assert values.tolist() == [0.5, 1.0]
    assert other.tolist() == [1.0]


@pytest.mark.parametrize("sizes", [(5, 5), (4, 9, 6), (3, 3, 3, 8, 2)])
def test_every_environment_meets_one_other_and_is_met_by_one(sizes: tuple[int, ...], seed: int) -> None:
    owner = np.repeat(np.arange(len(sizes)), sizes)
    seen = set()
    for place in range(30):
        drawn = drawn_for(sizes, 100 * seed + place)
        others, shares = owner[drawn["partners"].numpy()], drawn["shares"].numpy()
        after = []
        for environment in range(len(sizes)):
            met = np.unique(others[owner == environment])
            assert len(met) == 1
            assert met[0] != environment
            assert len(np.unique(shares[owner == environment])) == 1
            after.append(int(met[0]))
        assert sorted(after) == list(range(len(sizes)))
        seen.add(tuple(after))
    assert len(seen) == {2: 1, 3: 2}.get(len(sizes), len(seen))  # all circles there are
    assert len(sizes) < 4 or len(seen) > 5


def test_partners_repeat_only_where_the_other_environment_is_smaller(seed: int) -> None:
    drawn = drawn_for((40, 60), seed)
    partners = drawn["partners"].numpy()
    assert len(set(partners[:40])) == 40
    assert 1 < len(set(partners[40:])) < 40  # 60 draws out of 40 rows: all of them occur with probability below 1e-8
    assert partners[:40].min() >= 40
    assert partners[40:].max() < 40


def test_shares_follow_the_beta_law(seed: int) -> None:
    alpha = 0.5
    shares = np.concatenate([drawn_for((1,) * 50, 1000 * seed + place, alpha)["shares"].numpy() for place in range(80)])
    variance = 1 / (4 * (2 * alpha + 1))
    deviation = np.sqrt(variance / len(shares))
    assert abs(shares.mean() - 0.5) < 5 * deviation
    assert shares.var() == pytest.approx(variance, rel=0.08)  # five standard errors


def test_same_generator_gives_the_same_rows_and_no_global_state_is_touched(seed: int) -> None:
    before = torch.random.get_rng_state()
    first, second = drawn_for((5, 7), seed), drawn_for((5, 7), seed)
    assert torch.equal(first["partners"], second["partners"])
    assert torch.equal(first["shares"], second["shares"])
    assert torch.equal(before, torch.random.get_rng_state())
    assert not torch.equal(first["shares"], drawn_for((5, 7), seed + 1)["shares"])


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_mixed_targets_have_the_gradient_of_the_published_loss(task: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    outputs = 3 if task == "multiclass" else 1
    scores = torch.randn(6, outputs, generator=generator, dtype=torch.float64)
    pair = [torch.randint(2, (6,), generator=generator).double() for _ in range(2)]
    if task == "multiclass":
        codes = [torch.randint(3, (6,), generator=generator) for _ in range(2)]
        pair = [torch.nn.functional.one_hot(code, 3).double() for code in codes]
    share = 0.3
    mixed = share * pair[0] + (1 - share) * pair[1]

    def published(logits: Tensor) -> Tensor:
        each = [risks([logits], [values], task)[0] for values in pair]
        return share * each[0] + (1 - share) * each[1]

    def ours(logits: Tensor) -> Tensor:
        return risks([logits], [mixed], task)[0]

    torch.testing.assert_close(torch.func.grad(ours)(scores), torch.func.grad(published)(scores))
    if task != "regression":
        torch.testing.assert_close(ours(scores), published(scores))


def test_gradient_in_the_inputs(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(size, 2, generator=generator, dtype=torch.float64) for size in (3, 4)]
    targets = tuple(torch.randn(size, generator=generator, dtype=torch.float64) for size in (3, 4))
    drawn = drawn_for((3, 4), seed)

    def value(first: Tensor, second: Tensor) -> Tensor:
        rows, values = Mixup().mix((first, second), targets, drawn)
        return sum(((part**2).sum(dim=1) * truth).sum() for part, truth in zip(rows, values, strict=True))

    assert_gradient(value, *inputs)


def test_many_at_once_are_those_one_by_one(seed: int) -> None:
    generator, sizes = torch.Generator().manual_seed(seed), (3, 5)
    inputs = tuple(torch.randn(4, size, 2, 2, generator=generator) for size in sizes)
    targets = tuple(torch.rand(4, size, 3, generator=generator) for size in sizes)
    each = [drawn_for(sizes, 10 * seed + place) for place in range(4)]
    drawn = {key: torch.stack([one[key] for one in each]) for key in each[0]}
    rows, values = torch.func.vmap(Mixup().mix)(inputs, targets, drawn)
    for place in range(4):
        alone = Mixup().mix(tuple(part[place] for part in inputs), tuple(part[place] for part in targets), each[place])
        for together, single in zip((*rows, *values), (*alone[0], *alone[1]), strict=True):
            assert torch.equal(together[place], single)


def test_function_takes_codes_of_classes(seed: int) -> None:
    inputs, codes = [torch.eye(3), torch.eye(3)], [torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2])]
    rows, values = mixup(inputs, codes, classes=3, alpha=2.0, generator=torch.Generator().manual_seed(seed))
    for part, truth in zip(rows, values, strict=True):
        assert torch.equal(part, truth)  # inputs are the indicators of the classes
        assert torch.allclose(truth.sum(dim=1), torch.ones(3))


def test_refuses_what_it_cannot_mix() -> None:
    rows = [torch.zeros(2, 1), torch.zeros(2, 1)]
    with pytest.raises(InputError, match="classes="):
        mixup(rows, [torch.tensor([0, 2]), torch.tensor([1, 0])])
    with pytest.raises(InputError, match="alpha"):
        mixup(rows, [torch.zeros(2), torch.zeros(2)], alpha=0.0)
    with pytest.raises(InputError, match="2 rows of inputs, but 3"):
        mixup(rows, [torch.zeros(2), torch.zeros(3)])
    with pytest.raises(InputError, match="one of each"):
        mixup(rows, [torch.zeros(2)])
