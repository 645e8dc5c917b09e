"""The tables of docs/influence_index.md: the influence paper's experiments, and how accurate the faster routes are.

python examples/influence_index.py                            everything, in its quick form (about two minutes)
python examples/influence_index.py --only table3 --preset full

Parts: colored (section 5.1.1), network (section 4.3), table3 (appendix A.1), wide (heads of many classes). Seeds are
fixed. `colored`, `network` and `wide` need the MNIST files: `invariscope datasets fetch colored_mnist`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.stats import kstest, pearsonr, spearmanr
from torch import nn

import invariscope as iv
from invariscope.datasets.images.mnist import gray_images
from invariscope.models.torch_networks import Halves, mlp
from invariscope.results import InfluenceResult
from invariscope.training import Rows, Settings, train

Array = np.ndarray
TABLE3 = {"ERM": (15.844, 0.582, 0.581), "IRM": (5.254, 0.122, 0.109), "REx": (1.341, 0.042, 0.033)}


def table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    print(f"\n**{title}**\n")
    for line in (header, ["---"] * len(header), *lines):
        print("| " + " | ".join(line) + " |", flush=True)


# --- section 5.1.1: Colored MNIST ------------------------------------------------------------------------------------
def colored_rows(x: float, seed: int) -> iv.datasets.Images:
    """Five domains whose colours are flipped with rates 0.2 ± {0, x, 2x}; 2,000 rows each, and as many unseen."""
    rates = [0.2 + k * x for k in (-2, -1, 0, 1, 2)]
    return iv.datasets.colored_mnist(rates, n=2000, n_test=2000, downsample=2, seed=seed)


def trained(data: iv.datasets.Images, epochs: int, seed: int) -> Halves:
    """The paper's network, three layers with 256 ReLU units, by ERM: Adam, batches of 500, weight decay 0.001."""
    rows = Rows.of(data.X, data.y, data.env, task="binary", dtype=torch.float32)
    torch.manual_seed(seed)
    settings = Settings(20 * epochs, 100, 1e-3, weight_decay=1e-3)
    return train(mlp(392, 1, (256, 256)), rows, "erm", settings=settings, seed=seed).network


def features(network: Halves, X: Array) -> Array:
    with torch.no_grad():
        return network(torch.tensor(np.asarray(X)))[1].double().numpy()


def top_model(network: Halves, data: iv.datasets.Images, **options: object) -> InfluenceResult:
    """V of the last layer on the rows it is given."""
    return iv.influence_index(features(network, data.X), data.y, data.env, head=network.head, **options)


def colored(preset: str) -> None:
    grid = np.linspace(0, 0.1, 11)
    seeds, nulls, all_epochs = (1, 6, (5,)) if preset == "quick" else (3, 30, (2, 5, 12))
    lines, null_lines = [], []
    for epochs in all_epochs:
        found = {name: np.empty((seeds, len(grid))) for name in ("auto", 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)}
        share = []
        for seed in range(seeds):
            for place, x in enumerate(grid):
                data = colored_rows(float(x), seed)
                network = trained(data, epochs, seed)
                chosen = top_model(network, data, n_boot=9)
                found["auto"][seed, place] = chosen.value
                share.append(chosen.damping / chosen.eigenvalues[0])
                for relative in list(found)[1:]:
                    damping = float(relative) * chosen.eigenvalues[0]
                    found[relative][seed, place] = top_model(network, data, n_boot=9, damping=damping).value
        for name, values in found.items():
            each = [pearsonr(grid, line).statistic for line in values]
            pooled = pearsonr(np.tile(grid, seeds), values.ravel()).statistic
            ranks = spearmanr(np.tile(grid, seeds), values.ravel()).statistic
            label = f"automatic ({np.mean(share):.2%})" if name == "auto" else f"{name:g}"
            lines.append([str(epochs), label, f"{min(each):.3f} … {max(each):.3f}", f"{pooled:.3f}", f"{ranks:.3f}"])
        null_lines += [colored_null(epochs, nulls)]
    header = ["epochs", "damping / λ₁", "correlation of V and x, seed by seed", "all seeds together", "ranks"]
    table(f"Colored MNIST, x = 0, 0.01, …, 0.1, {seeds} seed(s); the paper: 0.987", header, lines)
    header = [
        "epochs",
        "models",
        "V − mean of its shuffles",
        "mean p",
        "p uniform? (KS)",
        "on unseen rows",
        "mean p",
        "KS",
    ]
    table("No difference between domains (x = 0)", header, null_lines)


def colored_null(epochs: int, models: int) -> list[str]:
    out = [str(epochs), str(models)]
    found: dict[str, list[InfluenceResult]] = {"seen": [], "unseen": []}
    for seed in range(100, 100 + models):
        data = colored_rows(0.0, seed)
        network = trained(data, epochs, seed)
        found["seen"].append(top_model(network, data, n_boot=499))
        found["unseen"].append(top_model(network, data.test, n_boot=499))
    for results in found.values():
        pvalues = [one.pvalue for one in results]
        gap = np.mean([one.value - one.null.mean() for one in results])
        out += [f"{gap:+.2f}", f"{np.mean(pvalues):.2f}", f"{kstest(pvalues, 'uniform').pvalue:.2f}"]
    return out


# --- section 4.3: the top model is enough ----------------------------------------------------------------------------
def network(preset: str) -> None:
    """V of the last layer against V of all parameters, by conjugate gradients with Hessian-vector products."""
    grid = (0.0, 0.05, 0.1) if preset == "quick" else np.linspace(0, 0.1, 6)
    deals = 2 if preset == "quick" else 5
    lines, values = [], {"top": [], "all": []}
    for x in grid:
        data = colored_rows(float(x), 0)
        model = trained(data, 5, 0)
        some = np.concatenate([np.flatnonzero(data.env == label)[:200] for label in np.unique(data.env)])
        X, y, env = (np.asarray(part)[some] for part in (data.X, data.y, data.env))
        Z = features(model, X)
        top = iv.influence_index(Z, y, env, head=model.head)
        start = time.perf_counter()
        iv.influence_index(Z, y, env, head=model.head, n_boot=deals)
        middle = time.perf_counter()
        whole = nn.Sequential(model.represent, model.head)
        every = iv.influence_index(X, y, env, head=whole, solver="cg", n_boot=deals)
        end = time.perf_counter()
        values["top"].append(top.value)
        values["all"].append(every.value)
        first = f"{top.value:.2f}", f"{top.null.mean():.2f}", f"{middle - start:.3f} s"
        second = f"{every.value:.2f}", f"{every.null.mean():.2f}", f"{end - middle:.0f} s"
        lines.append([f"{x:.2f}", *first, *second, f"{(end - middle) / (middle - start):,.0f}"])
        note = every.notes[-1]
    header = ["x", "V, top model", "shuffled", "time", "V, all parameters", "shuffled", "time", "ratio"]
    title = "The last layer (257 parameters) and the whole network (166,657), on 200 rows per domain"
    title += f"; times for V and {deals} shuffles"
    table(title, header, lines)
    print(
        f"\n{note} Correlation with x: "
        + ", ".join(f"{k} {pearsonr(grid, v).statistic:.3f}" for k, v in values.items())
    )


# --- appendix A.1: Table 3 -------------------------------------------------------------------------------------------
class Moments:
    """Second moments of (x, y) by repetition and domain: (R, m, 10, 10), (R, m, 10, 5), (R, m)."""

    def __init__(self, draws: Sequence[tuple[Array, Array, Array]]) -> None:
        split = [[(X[env == e], y[env == e]) for e in np.unique(env)] for X, y, env in draws]
        self.xx = np.array([[X.T @ X / len(X) for X, _ in draw] for draw in split])
        self.xy = np.array([[X.T @ y / len(X) for X, y in draw] for draw in split])
        self.yy = np.array([[(y**2).sum() / len(y) for _, y in draw] for draw in split])

    def objective(self, W: Array, penalty: str, weight: float) -> tuple[Array, Array]:
        """Mean risk + weight · penalty of ŷ = x W, no intercept, and its gradient; all repetitions at once."""
        moved = np.matmul(self.xx, W[:, None])
        gradients = 2 * (moved - self.xy)
        risks = self.yy + np.einsum("rpk,rmpk->rm", W, moved - 2 * self.xy)
        if penalty == "irm":
            D = np.einsum("rpk,rmpk->rm", W, gradients)
            slopes = gradients + 2 * moved
        else:
            D, slopes = risks - risks.mean(axis=1, keepdims=True), gradients
        value = risks.mean(axis=1) + weight * (D**2).mean(axis=1)
        return value, gradients.mean(axis=1) + 2 * weight * (D[..., None, None] * slopes).mean(axis=1)

    def erm(self) -> Array:
        return np.linalg.solve(self.xx.mean(axis=1), self.xy.mean(axis=1))

    def fitted(self, penalty: str, weight: float, W: Array, steps: int = 3000, rate: float = 0.01) -> Array:
        """Adam from ``W``, for all repetitions at once, the rate falling to 0."""
        mean, square = np.zeros_like(W), np.zeros_like(W)
        for step in range(1, steps + 1):
            gradient = self.objective(W, penalty, weight)[1] / max(1.0, weight)
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            length = rate * (1 - step / steps) / (1 - 0.9**step)
            W = W - length * mean / (np.sqrt(square / (1 - 0.999**step)) + 1e-10)
        return W


def table3(preset: str) -> None:
    repetitions = 20 if preset == "quick" else 500
    draws = []
    for seed in range(repetitions):
        data = iv.datasets.bayesian_network(seed=seed)
        draws.append((np.asarray(data.X), np.asarray(data.y), np.asarray(data.env)))
    moments = Moments(draws)
    lines = []
    chosen = {}
    for name, penalty in (("ERM", None), ("IRM", "irm"), ("REx", "vrex")):
        heads, distances = {}, {}
        W = moments.erm()
        for weight in (0.0,) if penalty is None else (0.1, 1.0, 10.0, 100.0, 1000.0):
            W = W if penalty is None else moments.fitted(penalty, weight, W)  # on from the optimum of a smaller weight
            errors = np.array([((W[:, :5] - np.eye(5)) ** 2).sum(axis=(1, 2)), (W[:, 5:] ** 2).sum(axis=(1, 2))]).mean(
                1
            )
            heads[weight] = (W, errors)
            distances[weight] = np.abs(np.log(errors / TABLE3[name][1:])).sum()
        for weight, (W, errors) in heads.items():
            count = repetitions if distances[weight] == min(distances.values()) else min(20, repetitions)
            results = [v_of(draw, w, penalty, weight) for draw, w in zip(draws[:count], W, strict=False)]
            values = np.array([one.value for one in results])
            best = distances[weight] == min(distances.values())
            if best:
                chosen[name] = values
            published = [f"{number:.3f}" for number in TABLE3[name]] if best else [""] * 3
            lines.append(
                [f"{'**' if best else ''}{name}{'**' if best else ''}", "" if penalty is None else f"{weight:g}"]
                + [f"{values.mean():.2f} ± {values.std():.2f}", f"{np.mean([r.null.mean() for r in results]):.2f}"]
                + [f"{number:.3f}" for number in errors]
                + published
            )
    header = [
        "method",
        "weight",
        "V",
        "shuffled",
        "causal error",
        "non-causal error",
        "published V",
        "causal",
        "non-causal",
    ]
    table(f"Table 3 of the influence paper, {repetitions} repetitions (V of other weights: 20)", header, lines)
    first = draws[0]
    print("\nV of least squares if it were computed otherwise, first repetition (published: 15.844):\n")
    for what, value in other_readings(first):
        print(f"* {what}: {value:.3f}")


def v_of(draw: tuple[Array, Array, Array], W: Array, penalty: str | None, weight: float) -> InfluenceResult:
    """V of ŷ = x W, which has no intercept: a torch layer without bias."""
    head = nn.Linear(10, 5, bias=False).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor(W.T))
    options = {"penalty": penalty, "penalty_weight": weight, "n_boot": 19}
    return iv.influence_index(*draw, head=head, shuffles="recomputed", **options)


def other_readings(draw: tuple[Array, Array, Array]) -> list[tuple[str, float]]:
    X, y, env = draw
    W = np.linalg.lstsq(X, y, rcond=None)[0]
    labels = np.unique(env)
    gradients = np.array([(X[env == e].T @ (X[env == e] @ W - y[env == e]) / np.sum(env == e)).ravel() for e in labels])
    hessian = np.kron(X.T @ X / len(X), np.eye(5))
    influences = np.linalg.solve(hessian, gradients.T).T
    covariance = np.cov(influences.T, bias=True)
    base = float(np.log(np.linalg.norm(covariance, 2)))
    raw = np.cov(gradients.T, bias=True)
    return [
        ("as the paper's formula says", base),
        ("without the logarithm", float(np.exp(base))),
        ("trace in place of the largest eigenvalue", float(np.log(np.trace(covariance)))),
        ("no Hessian, loss (s − y)²", float(np.log(4 * np.linalg.norm(raw, 2)))),
        ("gradients summed over the 1,000 rows of a domain", base + 2 * np.log(1000)),
        ("gradients summed, Hessian of all 5,000 rows' sum", base - 2 * np.log(5)),
        ("gradients summed over 5,000 rows", base + 2 * np.log(5000)),
    ]


# --- heads of many classes -------------------------------------------------------------------------------------------
def wide(preset: str) -> None:
    """The Kronecker route against the whole Hessian, on digits with 10 classes, where both can be had."""
    lines = []
    for width in (128, 256) if preset == "quick" else (128, 256, 490):
        for noise in (0.0, 0.05):
            Z, y, env, head = digits(width, noise)
            start = time.perf_counter()
            whole = iv.influence_index(Z, y, env, head=head, solver="dense")
            middle = time.perf_counter()
            product = iv.influence_index(Z, y, env, head=head, solver="kronecker")
            end = time.perf_counter()
            spread = [f"{one.null.mean():.3f} ± {one.null.std():.3f}" for one in (whole, product)]
            first = (
                f"{len(whole.parameters):,}",
                "no" if noise == 0 else "yes",
                f"{whole.value:.3f} / {product.value:.3f}",
            )
            second = f"{abs(whole.direction @ product.direction):.4f}", " / ".join(spread)
            third = f"{whole.pvalue:.3f} / {product.pvalue:.3f}", f"{whole.damping:.3g} / {product.damping:.3g}"
            lines.append([*first, *second, *third, f"{middle - start:.0f} s / {end - middle:.0f} s"])
    header = ["parameters", "domains differ", "V", "cosine of directions", "shuffled", "p", "damping", "time"]
    table("Digits, ten classes, four domains of 1,500 rows: whole Hessian / Kronecker", header, lines)


def digits(width: int, noise: float) -> tuple[Array, Array, Array, nn.Linear]:
    """Digits whose labels are wrong in 10 % of rows, and by another ``noise`` · domain number."""
    rng, gray = np.random.default_rng(width), gray_images("mnist")
    chosen = rng.permutation(len(gray.pixels))[:6000]
    X, y, env = (
        gray.pixels[chosen][:, ::2, ::2].reshape(6000, -1) / 255,
        gray.digit[chosen].astype(int),
        np.arange(6000) % 4,
    )
    wrong = rng.random(6000) < 0.1 + noise * env
    y = np.where(wrong, rng.integers(0, 10, 6000), y)
    rows = Rows.of(X, y, env, task="multiclass", dtype=torch.float32)
    torch.manual_seed(width)
    settings = Settings(190, 64, 1e-3, weight_decay=1e-3)
    model = train(mlp(196, 10, (width, width)), rows, "erm", settings=settings).network
    return features(model, X.astype(np.float32)), y, env, model.head


PARTS: dict[str, Callable[[str], None]] = {"colored": colored, "network": network, "table3": table3, "wide": wide}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--preset", choices=("quick", "full"), default="quick")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            part(arguments.preset)
