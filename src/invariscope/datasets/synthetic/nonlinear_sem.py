"""Nonlinear structural equations with heavy-tailed noise: the target is a square of its cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.synthetic.linear_sem import LAWS, SETTINGS
from invariscope.datasets.synthetic.population import Population, linear_truth
from invariscope.datasets.synthetic.synthetic import (
    DRIC,
    Generator,
    Synthetic,
    designed,
    different_scales,
    drawn,
)
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import one_of, real_number, switch

T_VARIANCE = 3.0  # of Student's t with 3 degrees of freedom, at scale 1
_EFFECT = {
    "effects": "Section 4.1, to which the appendix refers, prints W_{Y→2} = 0 in the F settings and N(0, 1) in the P "
    'settings. Here it is 1 in all, so that x2 is an effect of Y. As printed: law="printed".',
    "printed": "W_{Y→2} is as section 4.1 prints it, to which the appendix refers: 0 in the F settings, N(0, 1) in the "
    "P settings.",
}


def nonlinear_sem(
    setting: str = "FEU",
    n: int | Sequence[int] = 1000,
    environments: Sequence[float] = (0.1, 1.0, 10.0),
    seed: int = 0,
    *,
    n_test: int | Sequence[int] = 500,
    law: str = "effects",
    hidden_scale: float = 1.0,
    square: bool = False,
) -> Synthetic:
    """A cause x1, a target that is its square, and an effect x2, with noise so heavy-tailed that squared losses jump.

        H ~ N(0, e²)                                   x1 = W_{H→1} H + N(0, e²)
        Y = x1² + W_{H→Y} H + σ_y t_3                  x2 = W_{Y→2} Y + W_{H→2} H + σ_2 t_3

    The settings are those of :func:`~invariscope.datasets.synthetic.linear_sem.linear_sem`: hidden weights are
    N(0, hidden_scale²) in the P settings and 0 in the F settings; (σ_y, σ_2) is (e, 1) in the O settings and (1, e) in
    the E settings. W_{Y→2} is 1, or, under ``law="printed"``, 0 in the F settings and N(0, 1) in the P settings. H and
    x1 share the factor e², so E[H | x1] = x1 W_{H→1} / (W_{H→1}² + 1) and

        E[Y | x1] = x1² + x1 · W_{H→Y} W_{H→1} / (W_{H→1}² + 1)      in every environment.

    That is a linear head on (x1, x1²). On x1 alone a linear head is NOT shared: its intercept is E_e[x1²], which
    differs, so the regret of linear heads on ``invariant`` is above 0 unless ``square`` is true.

    Parameters
    ----------
    n, n_test : training and test rows per environment. Appendix B.1.3 has 1000 and 500; B.4 has 600 and 400
    environments : the values of e, all different and positive; they are also the labels
    law : "effects" or "printed"
        What W_{Y→2} is. The appendix refers to section 4.1, which prints 0 for the F settings: x2 is then noise, ERM
        puts no weight on it, and with ``square`` ERM is invariant. The default keeps x2 an effect of Y in every
        setting; see :func:`~invariscope.datasets.synthetic.linear_sem.linear_sem`.
    hidden_scale : hidden weights are N(0, hidden_scale²); the printed law has 1
    square : columns (x1, x1², x2), with (x1, x1²) invariant for linear heads, instead of (x1, x2)

    Returns
    -------
    Synthetic, with truth ``head`` (2,): coefficients of x1 and x1² in E[Y | x1]; ``hidden_weights`` (3,): of H on x1,
    Y and x2; ``target_to_effect``: W_{Y→2}; ``mean`` and ``covariance``: environment → moments of (X, Y);
    ``invariant_risk``: environment → risk of E[Y | x1]; and ``erm``, ``erm_intercept``, ``erm_risk``, ``erm_regret``,
    ``V`` (with intercept) and ``population`` as in
    :func:`~invariscope.datasets.synthetic.population.linear_truth`.

    The noise has no fourth moment: sample variances and sample risks come close to these values very slowly, and a
    single row can dominate them. Medians and quantiles do not mind.

    Reference: appendices B.1.3 and B.4 of "Measuring invariance in representation learning: a robust evaluation
    framework".

    >>> data = nonlinear_sem("FOU", n=100, n_test=50, square=True)
    >>> data.columns, data.invariant, len(data.train), len(data.test)
    (('x1', 'x1²', 'x2'), (0, 1), 300, 150)
    >>> data.truth["head"].tolist()
    [0.0, 1.0]
    """
    one_of(setting, "setting", SETTINGS)
    one_of(law, "law", LAWS)
    scales = different_scales(environments)
    design, (weights_rng,) = designed(scales, n, seed, n_test=n_test, further=1)
    scale = real_number(hidden_scale, "hidden_scale") if setting[0] == "P" else 0.0
    to_cause, to_target, to_effect = weights = scale * weights_rng.standard_normal(3) + 0.0  # no −0
    drawn_effect = float(weights_rng.standard_normal())
    target_to_effect = 1.0 if law == "effects" else drawn_effect if setting[0] == "P" else 0.0
    noise = [(e, 1.0) if setting[1] == "O" else (1.0, e) for e in scales]
    features = [0, 1, 2] if switch(square, "square") else [0, 2]

    def sample(position: int, count: int, stream: Generator) -> tuple[Floats, Array]:
        e, (target_noise, effect_noise) = scales[position], noise[position]
        hidden, own = e * stream.standard_normal((count, 2)).T
        jumps = stream.standard_t(3, (count, 2)).T
        x1 = to_cause * hidden + own
        y = x1**2 + to_target * hidden + target_noise * jumps[0]
        x2 = target_to_effect * y + to_effect * hidden + effect_noise * jumps[1]
        return np.column_stack([x1, x1**2, x2])[:, features], y

    # x1² − E[x1²] is uncorrelated with H and x1 (odd moments of normals are 0), so (x1, x1², x2, Y) is a linear map of
    # five uncorrelated sources: H, noise of x1, x1² − E[x1²], noise of Y, noise of x2
    cause = np.array([to_cause, 1.0, 0.0, 0.0, 0.0])
    squared = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    target = squared + np.array([to_target, 0.0, 0.0, 1.0, 0.0])
    effect = target_to_effect * target + np.array([to_effect, 0.0, 0.0, 0.0, 1.0])
    system = np.vstack([cause, squared, effect, target])
    spread = np.array([e**2 * (to_cause**2 + 1.0) for e in scales])  # Var x1 = E[x1²]
    variances = [
        [e**2, e**2, 2.0 * s**2, T_VARIANCE * y_noise**2, T_VARIANCE * x2_noise**2]
        for e, s, (y_noise, x2_noise) in zip(scales, spread, noise, strict=True)
    ]
    covariances = np.stack([(system * source) @ system.T for source in variances])
    means = spread[:, None] * system[:, 2]
    whole = Population.of(covariances, means, rows=design.rows)
    shown = [*features, 3]
    return drawn(
        sample,
        design,
        columns=("x1", "x1²", "x2") if square else ("x1", "x2"),
        invariant=(0, 1) if square else (0,),
        description=f"Nonlinear structural equations, setting {setting}: a cause, its square with heavy-tailed noise "
        "as the target, and an effect.",
        source=f"drawn here, after appendix B.1.3 of {DRIC}",
        choices=(
            "t_3(0, σ²) is read as σ times a Student t with 3 degrees of freedom, whose variance is 3σ².",
            "W_{1→Y} is 1, as in section 4.1. W_{H→2}, of which section 4.1 says nothing, follows the law of the other "
            "hidden weights.",
            _EFFECT[law],
        ),
        truth={
            "head": np.array([to_target * to_cause / (to_cause**2 + 1.0), 1.0]),
            "hidden_weights": weights,
            "target_to_effect": target_to_effect,
            "mean": dict(zip(scales, means[:, shown], strict=True)),
            "covariance": dict(zip(scales, covariances[:, shown][:, :, shown], strict=True)),
            **linear_truth(whole.selected(features), whole.selected([0, 1]), scales),
        },
    )


ENTRY = Entry(
    kind="synthetic",
    title="Structural equations with a square and heavy-tailed noise, in four settings",
    load=nonlinear_sem,
    reference=f"appendices B.1.3 and B.4 of {DRIC}",
    published=(
        Published("training rows", 3000, "appendix B.1.3: 1000 in each of 3 environments"),
        Published("test rows", 1500, "appendix B.1.3: 500 in each of 3 environments"),
    ),
)
