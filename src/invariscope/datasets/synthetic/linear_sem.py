"""Linear structural equations: causes X1, a target, and effects X2 whose link to it differs between environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.synthetic.population import Population, linear_truth
from invariscope.datasets.synthetic.synthetic import (
    DRIC,
    MOST_COLUMNS,
    Generator,
    Synthetic,
    cause_and_effect_names,
    designed,
    different_scales,
    drawn,
)
from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import is_whole, one_of, real_number, shown, whole_number

SETTINGS = ("POU", "PEU", "FOU", "FEU")
LAWS = ("effects", "printed")
#: Training and test rows of the paper, by their total.
PAPER_SIZES = {1300: (800, 500), 1800: (1200, 600)}

_OPEN = (
    "In Arjovsky et al. (2019) Y is a vector that is summed in the end; here Y is that sum itself.",
    "The paper does not say how long H is; here as long as X1.",
)
_EFFECTS = {
    "effects": "The paper prints W_{Y→2} = 0 in the F settings and N(0, 1) in the P settings. Here it is 1 in all, as "
    "in the code of Arjovsky et al.: with 0 the columns X2 say nothing of Y, and ERM is invariant. As printed: "
    'law="printed".',
    "printed": "All weights but W_{1→Y} = 1 are those the paper prints: 0 in the F settings, N(0, 1) in the P "
    "settings.",
}


def linear_sem(
    setting: str = "FEU",
    n: int | Sequence[int] = 1000,
    environments: Sequence[float] = (0.2, 2.0, 5.0),
    dim: int = 5,
    seed: int = 0,
    *,
    law: str = "effects",
    hidden_scale: float | None = None,
    n_test: int | Sequence[int] = 0,
    total: int | None = None,
) -> Synthetic:
    """Causes X1, a target Y and its effects X2, whose noise depends on the environment: X1 is invariant, X2 is not.

    In environment e, with H and X1 and X2 of length ``dim`` and Y a number:

        H ~ N(0, e² I)                           X1 = W_{H→1} H + N(0, e² I)
        Y = 1ᵀ X1 + W_{H→Y} H + N(0, σ_y²)       X2 = W_{Y→2} Y + N(0, σ_2² I)

    ========  ==========================  ======================  ===================================
    setting   W_{H→1}, W_{H→Y}            noise                   W_{Y→2}: "effects", and "printed"
    ========  ==========================  ======================  ===================================
    ``POU``   random: H is not observed   σ_y² = e², σ_2² = 1     1, and N(0, 1)
    ``PEU``   random: H is not observed   σ_y² = 1,  σ_2² = e²    1, and N(0, 1)
    ``FOU``   0: all causes are observed  σ_y² = e², σ_2² = 1     1, and 0
    ``FEU``   0: all causes are observed  σ_y² = 1,  σ_2² = e²    1, and 0
    ========  ==========================  ======================  ===================================

    X1 and H share the factor e², so E[Y | X1] = headᵀ X1 with the same ``head`` in every environment, also in the
    P settings, where it differs from the causal coefficients (all 1).

    Parameters
    ----------
    n : rows per environment; one number, or one per environment for imbalanced data
    environments : the values of e, all different and positive; they are also the labels
    law : "effects" or "printed"
        ``"printed"`` is the law as both papers cited below print it: every weight but W_{1→Y} = 1 is 0 in the F
        settings and N(0, 1) in the P settings, W_{Y→2} included. In the F settings X2 is then noise that has nothing
        to do with Y: ERM puts no weight on it and is invariant, its regret 0, so no method can be more invariant
        there. The default ``"effects"`` has W_{Y→2} = 1 in all settings, as in the code of Arjovsky et al. (there the
        identity), from whom the papers take these data: X2 are effects of Y, and ERM is invariant in no setting.
    hidden_scale : hidden weights are N(0, hidden_scale²). The default under ``"printed"`` is 1, as printed. Under
        ``"effects"`` it is 1/(2·``dim``), that of the code of Arjovsky et al.; with 1.0 hidden paths dominate Y, so
        the effects add little that could vary: over draws of the weights the median of the mean ``erm_regret`` is
        about 0.05 (POU) and 0.07 (PEU), not 0.26. (Under ``"printed"`` it is 0.06 and 0.07.)
    n_test : further rows per environment, as ``.test``; the training rows stay what they are without
    total : 1300 or 1800, the sizes of the paper (800 + 500 and 1200 + 600 rows for training and test), in place of
        ``n`` and ``n_test``; dealt to the environments as evenly as possible

    Returns
    -------
    Synthetic, with truth ``head`` (dim,): the head on X1; ``covariance``: environment → covariance of (X1, X2, Y);
    ``hidden_to_causes``, ``hidden_to_target``, ``hidden_to_effects``: the hidden weights (the last are 0 here);
    ``target_to_effects`` (dim,): W_{Y→2}; and ``erm`` (2·dim,), ``erm_intercept``, ``erm_risk``, ``erm_regret``,
    ``invariant_risk``, ``V`` and ``population`` as in
    :func:`~invariscope.datasets.synthetic.population.linear_truth`. Pooled numbers weigh environments by rows.

    Reference: section 4.1, Table 2 and Table 7 of "Measuring invariance in representation learning: a robust evaluation
    framework", and section 4.1 of "A robust assessment for invariant representations", after section 5.1 of Arjovsky
    et al. (2019), where Y is a vector that is summed in the end; here Y is that sum itself.

    >>> data = linear_sem("FEU", n=100)
    >>> data.X.shape, data.invariant
    ((300, 10), (0, 1, 2, 3, 4))
    >>> data.truth["head"].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    >>> [round(max(linear_sem("FEU", law=law).truth["erm_regret"].values()), 2) for law in ("effects", "printed")]
    [0.56, 0.0]
    >>> paper = linear_sem("FEU", total=1300)
    >>> len(paper.train), len(paper.test)
    (800, 500)
    """
    one_of(setting, "setting", SETTINGS)
    one_of(law, "law", LAWS)
    weight_scale = _scale(1.0 if law == "printed" and hidden_scale is None else hidden_scale, dim)
    scale = weight_scale if setting[0] == "P" else 0.0
    choices = [*_OPEN, _EFFECTS[law]]
    if scale not in (0.0, 1.0):
        choices.append(f"The paper states hidden weights of N(0, 1); here they are N(0, {scale:g}²).")
    if total is not None:
        n, n_test = _paper_rows(total, n_test, len(environments))
        choices.append(
            f"The paper does not say how its {total} rows are dealt to the environments; here as evenly as possible."
        )
    return _linear(
        environments,
        n,
        n_test,
        dim,
        seed,
        hidden_scales=(scale, 0.0),
        noise_powers=(1, 0) if setting[1] == "O" else (0, 1),
        effect_weights=(1.0, 0.0) if law == "effects" else (0.0, float(setting[0] == "P")),
        choices=tuple(choices),
        description=f"Linear structural equations, setting {setting}: causes, a target and its effects.",
        source=f"drawn here, after section 4.1 of {DRIC}",
    )


def linear_sem_b6(
    n: int | Sequence[int] = 1000,
    environments: Sequence[float] = (0.2, 2.0, 5.0),
    dim: int = 5,
    seed: int = 0,
    *,
    hidden_scale: float | None = None,
    n_test: int | Sequence[int] = 0,
) -> Synthetic:
    """Linear structural equations in which the hidden causes act on the effects as well: X1 is invariant, X2 is not.

        H ~ N(0, e² I)                        X1 = W_{H→1} H + N(0, e² I)
        Y = 1ᵀ X1 + W_{H→Y} H + N(0, 1)       X2 = 1 Y + W_{H→2} H + N(0, e² I)

    This is :func:`linear_sem` in the setting PEU with the path H → X2 added; for a seed, X1 and Y are the same rows.
    Parameters and truth are the same too.

    Reference: appendix B.6 of "Measuring invariance in representation learning: a robust evaluation framework".

    >>> data = linear_sem_b6(n=100, n_test=50)
    >>> data.train.X.shape, data.test.X.shape
    ((300, 10), (150, 10))
    """
    scale = _scale(hidden_scale, dim)
    return _linear(
        environments,
        n,
        n_test,
        dim,
        seed,
        hidden_scales=(scale, scale),
        noise_powers=(0, 1),
        choices=(
            "Appendix B.6 gives neither the environments nor the dimensions nor the number of rows; here those of "
            "section 4.1 are the default.",
            f"It gives no law for the hidden weights; here all are N(0, {scale:g}²), and W_{{Y→2}} is 1.",
            'It writes "Y ~ X + W_{H→Y} H + N(0, 1)"; X is read as the sum of the causes X1.',
        ),
        description="Linear structural equations of appendix B.6: hidden causes act on causes, target and effects.",
        source=f"drawn here, after appendix B.6 of {DRIC}",
    )


def _paper_rows(total: int, n_test: int | Sequence[int], environments: int) -> tuple[list[int], list[int]]:
    if not is_whole(total) or total not in PAPER_SIZES:
        raise InputError(
            f"total is {shown(total)}: the paper uses 1300 and 1800 rows; for other sizes give n and n_test"
        )
    if n_test != 0:
        raise InputError("total and n_test are both given: total brings the paper's test rows, so leave n_test out")
    train, test = ([len(part) for part in np.array_split(np.arange(size), environments)] for size in PAPER_SIZES[total])
    return train, test


def _scale(hidden_scale: float | None, dim: int) -> float:
    whole_number(dim, "dim", 1, MOST_COLUMNS)
    return real_number(0.5 / dim if hidden_scale is None else hidden_scale, "hidden_scale")


def _linear(
    environments: Sequence[float],
    n: int | Sequence[int],
    n_test: int | Sequence[int],
    dim: int,
    seed: int,
    *,
    hidden_scales: tuple[float, float],
    noise_powers: tuple[int, int],
    effect_weights: tuple[float, float] = (1.0, 0.0),
    **about: Any,
) -> Synthetic:
    """Rows and truth of all laws above.

    ``hidden_scales``: size of the weights of H on (X1, Y), and on X2; ``noise_powers``: σ_y and σ_2 as powers of e;
    ``effect_weights``: mean and standard deviation of the entries of W_{Y→2}.
    """
    scales = different_scales(environments)
    design, (weights_rng,) = designed(scales, n, seed, n_test=n_test, further=1)
    scale, effects_scale = hidden_scales
    hidden_to_causes = scale * weights_rng.standard_normal((dim, dim))
    hidden_to_target = scale * weights_rng.standard_normal(dim)
    hidden_to_effects = effects_scale * weights_rng.standard_normal((dim, dim))
    mean_effect, effect_scale = effect_weights
    target_to_effects = mean_effect + effect_scale * weights_rng.standard_normal(dim)

    # every variable is a linear map of independent standard normals (H, noise of X1, of Y, of X2): the sample and
    # the population covariance both follow from that one map
    causes = np.hstack([hidden_to_causes, np.eye(dim), np.zeros((dim, 1 + dim))])
    target = causes.sum(axis=0) + np.concatenate([hidden_to_target, np.zeros(dim), [1.0], np.zeros(dim)])
    effects = np.outer(target_to_effects, target) + np.hstack(
        [hidden_to_effects, np.zeros((dim, dim + 1)), np.eye(dim)]
    )
    system = np.vstack([causes, effects, target])
    target_power, effect_power = noise_powers
    mixings = [system * np.repeat([e, e, e**target_power, e**effect_power], [dim, dim, 1, dim]) for e in scales]
    covariances = np.stack([mixing @ mixing.T for mixing in mixings])

    def sample(position: int, count: int, stream: Generator) -> tuple[Floats, Array]:
        mixing = mixings[position]
        table = stream.standard_normal((count, mixing.shape[1])) @ mixing.T
        return table[:, :-1], table[:, -1]

    first = covariances[0]
    population = Population.of(covariances, rows=design.rows)
    truth = {
        "head": np.ones(dim) if scale == 0 else np.linalg.solve(first[:dim, :dim], first[:dim, -1]),
        "covariance": dict(zip(scales, covariances, strict=True)),
        "hidden_to_causes": hidden_to_causes,
        "hidden_to_target": hidden_to_target,
        "hidden_to_effects": hidden_to_effects,
        "target_to_effects": target_to_effects,
        **linear_truth(population, population.selected(range(dim)), scales),
    }
    return drawn(
        sample,
        design,
        columns=cause_and_effect_names(dim),
        invariant=tuple(range(dim)),
        truth=truth,
        **about,
    )


ENTRIES = (
    Entry(
        kind="synthetic",
        title="Linear structural equations in four settings: causes invariant, effects not",
        load=linear_sem,
        reference=f"section 4.1 of {DRIC}, after Arjovsky et al. (2019)",
        published=tuple(
            Published(what, count, "section 4.1 and Table 7", {"total": total})
            for total, sizes in PAPER_SIZES.items()
            for what, count in (("rows", total), *zip(("training rows", "test rows"), sizes, strict=True))
        ),
    ),
    Entry(
        kind="synthetic",
        title="Linear structural equations with hidden causes of causes, target and effects",
        load=linear_sem_b6,
        reference=f"appendix B.6 of {DRIC}",
    ),
)
