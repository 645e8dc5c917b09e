"""The tables of docs/what_dric_measures.md: the published density-ratio criterion on data with a known answer.

python examples/what_dric_measures.py        (a minute or two; seeds are fixed)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

import invariscope as iv
from invariscope.criteria.dric.result import DricResult
from invariscope.datasets.synthetic.ladder import ladder


def table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    print(f"\n**{title}**\n")
    for line in (header, ["---"] * len(header), *lines):
        print("| " + " | ".join(line) + " |")


def middle(values: Sequence[float], spec: str = ".2f") -> str:
    """Median, and the range over seeds."""
    if np.ptp(values) < 1e-9:
        return format(values[0], spec)
    return f"{np.median(values):{spec}} ({min(values):{spec}} … {max(values):{spec}})"


def linear_ratio(X: np.ndarray, env: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Eq. 10 with plain logistic regression on x, fitted to the rows it is applied to."""
    scale = X.std(axis=0)
    labels, code = np.unique(env, return_inverse=True)
    model = LogisticRegression(max_iter=1000).fit(X / scale, code)
    rows = np.bincount(code, minlength=len(labels))
    return lambda x: model.predict_log_proba(x / scale) - np.log(rows)


def shrinkage() -> None:
    """(a): the invariant predictor scores about 1, a tenth of ERM exactly 0.01."""
    lines = []
    for n, seeds in ((400, 10), (4000, 5), (40_000, 2)):
        for name in ("linear", "default"):
            found = []
            for seed in range(seeds):
                data = iv.datasets.linear_sem("FEU", n=n, seed=seed)
                ratio = linear_ratio(data.X, data.env) if name == "linear" else iv.density_ratio(data.X, data.env)
                erm = data.X @ data.truth["erm"]
                invariant = data.X[:, list(data.invariant)] @ data.truth["head"]
                scores = [
                    iv.dric(f, data.X, data.env, baseline=erm, ratio=ratio, n_boot=0, overlap="ignored")
                    for f in (erm, invariant, 0.1 * erm, 3e-5 * erm)
                ]
                found.append([scores[0].value, scores[1].value, scores[2].value, scores[3].log10])
            erm_q, invariant_q, tenth, tiny = (middle(column) for column in zip(*found, strict=True))
            lines.append([f"{n:,}", name, erm_q, invariant_q, tenth, tiny])
    header = ["rows per environment", "ratio", "ERM", "invariant: 1ᵀX1", "0.1 × ERM", "log10 Q̂ of 0.00003 × ERM"]
    table("Linear SEM, setting FEU, e = 0.2, 2, 5: Q̂ (median and range over seeds)", header, lines)


def as_printed() -> None:
    """(a): with the weights as the paper prints them, least squares has nothing left to unlearn in the F settings."""
    lines = []
    for setting in ("FEU", "FOU", "PEU", "POU"):
        for law in ("effects", "printed"):
            truths, regrets, scores = [], [], []
            for seed in range(20):
                data = iv.datasets.linear_sem(setting, n=1000, law=law, seed=seed)
                fitted = data.X @ np.linalg.lstsq(data.X, data.y, rcond=None)[0]
                invariant = data.X[:, list(data.invariant)] @ data.truth["head"]
                ratio = linear_ratio(data.X, data.env)
                truths.append(np.mean(list(data.truth["erm_regret"].values())) + 0.0)
                regrets.append(iv.regret(fitted[:, None], data.y, data.env, n_boot=0).value)
                published = {"baseline": fitted, "ratio": ratio, "overlap": "ignored", "n_boot": 0}
                scores.append(iv.dric(invariant, data.X, data.env, **published).value)
            lines.append([setting, law, middle(truths), middle(regrets, ".4f"), middle(scores)])
    header = ["setting", "law", "ERM: true regret", "ERM fitted to the rows: regret", "Q̂ of the invariant predictor"]
    table("Linear SEM, both laws, 1000 rows per environment: median and range over 20 seeds", header, lines)


def means_of_zero() -> None:
    """(b): every mean prediction is 0, so there is nothing to transport."""
    data = iv.datasets.linear_sem("FEU", n=40_000, seed=0)
    lines = []
    for name, f in (
        ("ERM", data.X @ data.truth["erm"]),
        ("invariant: 1ᵀX1", data.X[:, :5].sum(axis=1)),
        ("spurious: first effect", data.X[:, 5]),
    ):
        lines.append([name])
        for e in (0.2, 2.0, 5.0):
            mine = f[data.env == e]
            lines[-1].append(
                f"{mine.mean():+.3f} ± {2 * mine.std() / np.sqrt(len(mine)):.3f} (spread {mine.std():.2f})"
            )
    header = ["predictor", "e = 0.2", "e = 2", "e = 5"]
    table("Linear SEM, FEU, 40,000 rows each: mean prediction ± two standard errors", header, lines)


def true_ratio() -> None:
    """(c): with the true ratio the numerator goes to 0 for every predictor, like 1/n."""
    scales, sizes = (1.0, 1.1, 1.2), (400, 4000, 40_000)
    names = ["invariant: x1", "ERM", "spurious: x2", "odd: x1² sign(x2) + 1"]
    by_size = []
    for n in sizes:
        found = []
        for seed in range(60):
            data = iv.datasets.linear_sem("FEU", n=n, environments=scales, dim=1, seed=seed)
            laws = [data.truth["covariance"][e][:2, :2] for e in scales]

            def truth(x: np.ndarray, laws: list[np.ndarray] = laws) -> np.ndarray:
                return np.column_stack(
                    [-0.5 * np.sum(x @ np.linalg.inv(s) * x, axis=1) - 0.5 * np.linalg.slogdet(s)[1] for s in laws]
                )

            x1, x2 = data.X.T
            f = np.column_stack([x1, data.X @ data.truth["erm"], x2, x1**2 * np.sign(x2) + 1.0])
            q = iv.dric(f, data.X, data.env, baseline=f, ratio=truth, n_boot=0).pairs
            gaps = q - np.einsum("aak->ak", q)[:, None]
            found.append(np.sum(gaps**2, axis=(0, 1)) / f.var(axis=0))
        by_size.append(np.mean(found, axis=0))
    power = np.log10(by_size[0] / by_size[-1]) / np.log10(sizes[-1] / sizes[0])
    lines = [[name, *(f"{means[k]:.2g}" for means in by_size), f"{power[k]:.2f}"] for k, name in enumerate(names)]
    header = ["predictor", *(f"{n:,} rows" for n in sizes), "power of 1/n"]
    table("True ratio, e = 1, 1.1, 1.2: mean numerator / Var(f)", header, lines)


def steps() -> None:
    """(d): the ladder of appendix B.5, and one with environments close enough to overlap."""
    published, close = (0.1, 1.0, 10.0), (1.0, 1.3, 1.6)
    for setting in ("FEU", "FOU"):
        rungs_of(setting, square=False, environments=published)
        first, last, data = rungs_of(setting, square=True, environments=published)
        if setting == "FEU":
            pairs(iv.dric(first, data.X, data.env, baseline=last, n_boot=0, overlap="ignored"))
    rungs_of("FEU", square=True, environments=close)


def rungs_of(
    setting: str, square: bool, environments: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray, iv.datasets.Dataset]:
    """One ladder as a table; its first and last predictions, and the data."""
    data = iv.datasets.nonlinear_sem(setting, n=1000, environments=environments, n_test=0, square=square, seed=0)
    rungs = ladder(data, betas=(0.0, 0.1, 0.25, 0.5, 1.0))
    first, last = rungs.predictions[0], rungs.predictions[-1]
    lines = []
    for beta, f, regret in zip(rungs.betas, rungs.predictions, rungs.regret, strict=True):
        score = iv.dric(f, data.X, data.env, baseline=last, n_boot=39, overlap="ignored")
        own = iv.regret(f[:, None], data.y, data.env)
        lines.append(
            [
                f"{beta:g}",
                f"{beta**2:.3f}",
                f"{f.std() / last.std():.2f}",
                f"{score.value:.3f} ({score.interval[0]:.3f} … {score.interval[1]:.3f})",
                f"{own.value:.2f} ({own.interval[0]:.2f} … {own.interval[1]:.2f})",
                f"{regret.mean():.2f}",
                transport(f, data),
            ]
        )
    columns = "(x1, x1², x2)" if square else "(x1, x2), as published"
    close = f"e = {', '.join(f'{e:g}' for e in environments)}, " if environments[0] == 1.0 else ""
    header = ["β", "β²", "spread / ERM's", "Q̂ (interval)", "regret (interval)", "true regret", "transport gap"]
    table(f"Nonlinear SEM, {setting}, {close}columns {columns}, 1000 rows each", header, lines)
    return first, last, data


def pairs(score: DricResult) -> None:
    """All pairs of the invariant predictor: where its gaps come from."""
    lines = [
        [
            *(f"{line.environment:g}", f"{line.from_rows_of:g}", f"{line.q:.3f}", f"{line.gap:+.2f}"),
            *(f"{line.effective_rows:.0f}", f"{ratio:.2f}"),
        ]
        for line, ratio in zip(score.table().itertuples(), score.overlap.mean_ratio.ravel(), strict=True)
    ]
    header = ["e", "e'", "q̂(e, e')", "gap", "effective rows of 1000", "mean of ρ̂ (should be 1)"]
    table("β = 0 in the table above (invariant): all pairs, rows of e' made to look like e", header, lines)


def transport(f: np.ndarray, data: iv.datasets.Dataset) -> str:
    """The transport gap of f, in a word or two."""
    if np.ptp(f) == 0:
        return "f is constant"
    found = iv.transport_gap(f[:, None], data.y, data.env)
    refused = int(np.isnan(found.pairs).sum())
    if not np.isfinite(found.value):
        return f"refused ({refused} of {found.pairs.size - len(found.labels)} pairs)"
    return f"{found.value:.3g}, p = {found.pvalue:.3f}" + (f" ({refused} pairs refused)" if refused else "")


def lower_bound() -> None:
    """(e): x = y = E + noise, so that φ(x) = x determines y."""
    rng = np.random.default_rng(0)
    code = np.repeat([0, 1], 50_000)
    normal = rng.normal(size=len(code))
    lines = []
    for noise, unit in ((1.0, 1), (0.5, 1), (0.1, 1), (0.1, 10), (1.0, 10)):
        y = code + noise * normal
        found = iv.dric(y, y[:, None], unit * code, baseline=y, y=y, n_boot=0, overlap="ignored")
        bound = found.bound
        lines.append(
            [
                f"{noise:g}",
                f"0, {unit}",
                f"{bound.model_variance:.4f}",
                f"{bound.covariance_squared:.4f}",
                f"{bound.value:.3g}",
                f"{bound.variance_form:.3f}",
                "yes" if bound.holds else "**no**",
            ]
        )
    header = ["noise", "E is", "R_φ", "Cov²(Y, E)", '"lower bound" of Q', "Q = R_φ / R_Υ", "bound holds"]
    table("x = y = E + noise · N(0, 1), two environments of equal size", header, lines)


def own_means() -> None:
    """(f): eq. 4 with conditional means of the environments' own, where the answer is known; A.3; and a constant.

    y = x1 + s x2 + noise, s = 1 in a and −1 in b; x is normal around (½, ½) in a and (−½, −½) in b. So E[y | x1] is
    x1 + ½ in both, E[y | x2] differs, and q(e, e') follows from the means.
    """
    centre, slope, n = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([1.0, -1.0]), 4000
    rng = np.random.default_rng(0)
    X = np.repeat(centre, n, axis=0) + rng.normal(size=(2 * n, 2))
    y = X[:, 0] + np.repeat(slope, n) * X[:, 1] + 0.5 * rng.normal(size=2 * n)
    env = np.repeat(["a", "b"], n)
    design = np.column_stack([np.ones(2 * n), X])
    erm = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    truth = {"x1": 0.0, "x2": 2.0, "x": 1.0}  # Σ (q(e, e') − q(e, e))² is 0, 4 and 2
    lines = []
    for name, f, columns in (("x1", X[:, 0] + 0.5, [0]), ("x2", X[:, 1], [1]), ("x", erm, [0, 1])):
        given = {"baseline": erm, "y": y, "n_boot": 0}
        published = iv.dric(f, X, env, **given)
        own = iv.dric(f, X, env, terms="own_means", representation=X[:, columns], **given)
        losses = iv.dric(f, X, env, terms="losses", representation=X[:, columns], **given)
        shifted = [
            iv.dric(f + 100.0, X, env, self_normalised=choice, **given).value / one
            for choice, one in (
                (False, published.value),
                (True, iv.dric(f, X, env, self_normalised=True, **given).value),
            )
        ]
        lines.append(
            [
                name,
                f"{published.value:.3g}",
                f"{published.spread_alone:.3g}",
                f"{own.value:.3f} ({truth[name]:g})",
                f"{own.bound.variance_form:.2f}",
                f"{losses.value:.3g}",
                f"× {shifted[0]:.3g}",
                f"× {shifted[1]:.3f}",
            ]
        )
    header = ["φ(x)", "Q̂, eq. 6", "spread alone", "own means, eq. 4 (true)", "right side of eq. 5", "losses, A.3"]
    header += ["Q̂ of f + 100", "self-normalised"]
    table("x1 is invariant, x2 is not; 4,000 rows in each of two environments", header, lines)


if __name__ == "__main__":
    for part in (shrinkage, as_printed, means_of_zero, true_ratio, steps, lower_bound, own_means):
        part()
