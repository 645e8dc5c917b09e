"""Figures 2, 3 and 6 of the influence paper on real digits: V beside how far domains differ, and beside OOD accuracy.

python examples/influence_and_ood_accuracy.py --figure 2              V of ERM grows with x (about two minutes)
python examples/influence_and_ood_accuracy.py --figure 3 --objective vrex --chart vrex.png      (a few minutes)
python examples/influence_and_ood_accuracy.py --figure 3 --objective irm --chart irm.png

Colored MNIST at 14 × 14 pixels, two channels, as in the code of Arjovsky et al. (2019): the label is digit < 4, wrong
in 25 % of rows, the colour disagrees with it at rate p. `invariscope datasets fetch colored_mnist` brings the images.
Models have two hidden ReLU layers; all of one setting and seed are trained as one program.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

import invariscope as iv
from invariscope.models.torch_networks import mlp
from invariscope.training import Rows, Schedule, Settings
from invariscope.training.replicates import Replicates, train_replicates

Array = np.ndarray
ORACLE = 0.75  # accuracy of the shape alone, in every domain
WEIGHTS = (0.0, 50.0, 100.0, 500.0, 1000.0)
SETTINGS = {"two domains": (0.0, 0.1), "five domains": (0.1, 0.15, 0.2, 0.25, 0.3)}
CRITERIA = ("V", "V of the risks", "I(E; Y | ŷ)")
PAPER = {
    ("two domains", "vrex"): -0.9745,
    ("five domains", "vrex"): -0.9761,
    ("two domains", "irm"): -0.8417,
    ("five domains", "irm"): -0.9476,
}


@dataclass(frozen=True)
class Size:
    """How much is trained: rows of all domains together, hidden units, models per weight, steps before and after."""

    rows: int = 24_000
    hidden: int = 64
    models: int = 2
    before: int = 190
    after: int = 200
    batch: int = 800


@dataclass(frozen=True)
class Digits:
    """Rows to train on and rows held out of the same domains; and of the worst ones, p = 0 and p = 1."""

    seen: tuple[Array, Array, Array]
    held_out: tuple[Array, Array, Array]
    worst: tuple[Array, Array, Array]


def digits(rates: Sequence[float], rows: int, seed: int, images: str = "mnist") -> Digits:
    """``rows`` to train on in all, a quarter as many held out of the same domains, and others of p = 0 and of p = 1.

    Accuracy is linear in p for any model, so its worst is at one of the two ends.
    """
    each, small = rows // len(rates), images == "digits"
    made = (
        iv.datasets.colored_digits([*rates, 0.0, 1.0], n=each, n_test=each // 4, seed=seed)
        if small
        else iv.datasets.colored_mnist([*rates, 0.0, 1.0], n=each, n_test=each // 4, downsample=2, seed=seed)
    )
    labels = list(dict.fromkeys(np.asarray(made.env).tolist()))
    ends = labels[len(rates) :]

    def part(data: Any, wanted: Sequence[str]) -> tuple[Array, Array, Array]:
        there = np.isin(np.asarray(data.env), wanted)
        return np.asarray(data.X)[there], np.asarray(data.y)[there], np.asarray(data.env)[there]

    worst = [np.concatenate(pair) for pair in zip(part(made.train, ends), part(made.test, ends), strict=True)]
    return Digits(part(made.train, labels[: len(rates)]), part(made.test, labels[: len(rates)]), tuple(worst))


def trained(data: Digits, objective: str, weights: Sequence[float], size: Size, seed: int) -> Replicates:
    """All models of one experiment: λ = 1 first, then the penalty; each stops where its held-out rows say."""
    rows, held_out = (Rows.of(*part, task="binary", dtype=torch.float32) for part in (data.seen, data.held_out))
    settings = Settings(
        steps=size.before + size.after,
        batch_size=size.batch // len(rows.labels),
        learning_rate=1e-3,
        weight_decay=1e-3,
        schedule=Schedule(wait=size.before, before=1.0),
        check_every=20,
        patience=100,
    )
    seeds = range(100 * seed, 100 * seed + size.models)
    inputs = data.seen[0].shape[1]
    return train_replicates(
        lambda: mlp(inputs, 1, (size.hidden, size.hidden)),
        rows,
        objective,
        seeds=seeds,
        weights=weights,
        settings=settings,
        held_out=held_out,
    )


@dataclass(frozen=True)
class Model:
    """One trained model: its penalty's weight, accuracies, and what is computed on the rows it was trained on.

    ``values``: V through the Hessian of the objective, of the risks alone, and the exact I(E; Y | ŷ) of its decisions.
    """

    weight: float
    seen: float
    ood: float
    values: dict[str, float]

    @property
    def keeps_accuracy(self) -> bool:
        """Within 0.1 of the accuracy of the shape alone on held-out rows of the domains seen."""
        return self.seen >= ORACLE - 0.1


def judged(many: Replicates, data: Digits, objective: str) -> list[Model]:
    """Accuracies, V and the conditional information of every model."""
    X, y, env = data.seen
    logits, features = many(X)
    seen, worst = accuracies(many, data.held_out), accuracies(many, data.worst)
    found = []
    for k, weight in enumerate(many.weights.tolist()):
        penalty = {"penalty": objective, "penalty_weight": weight} if weight > 0 else {}
        index = iv.influence_index(features[k].double().numpy(), y, env, head=head_of(many, k), n_boot=0, **penalty)
        plain = index if index.without_penalty is None else index.without_penalty
        decided = (logits[k, :, 0].numpy() > 0).astype(float)
        information = iv.conditional_mutual_information(decided, y, env, method="counted", n_boot=0).value
        values = dict(zip(CRITERIA, (index.value, plain.value, information), strict=True))
        found.append(Model(weight, float(seen[k].mean()), float(worst[k].min()), values))
    return found


def head_of(many: Replicates, model: int) -> iv.LinearHead:
    """The last layer of one model."""
    weight, bias = (many.parameters[f"head.{name}"][model].detach().double().numpy() for name in ("weight", "bias"))
    return iv.LinearHead(weight, bias)


def accuracies(many: Replicates, rows: tuple[Array, Array, Array]) -> Array:
    """Accuracy of every model in every domain, (models, domains)."""
    X, y, env = rows
    logits, _ = many(X)
    right = (logits[..., 0].numpy() > 0) == (y == 1)
    return np.stack([right[:, env == label].mean(axis=1) for label in np.unique(env)], axis=1)


# --- figure 2 ---------------------------------------------------------------------------------------------------------
def figure2(size: Size, seed: int, points: int = 11, images: str = "mnist") -> tuple[Array, Array, Array]:
    """x, V of ERM at p = 0.2 ± {0, x, 2x}, and the mean V of its shuffles; a model and a start for every x."""
    grid = np.linspace(0.0, 0.1, points)
    draws = [digits([0.2 + k * x for k in (-2, -1, 0, 1, 2)], size.rows, seed, images) for x in grid]
    rows = [Rows.of(*renamed(draw.seen), task="binary", dtype=torch.float32) for draw in draws]
    settings = Settings(size.before, size.batch // 5, 1e-3, weight_decay=1e-3)
    inputs = draws[0].seen[0].shape[1]
    many = train_replicates(
        lambda: mlp(inputs, 1, (size.hidden, size.hidden)),
        rows,
        "erm",
        seeds=range(100 * seed, 100 * seed + points),
        settings=settings,
    )
    values, shuffled = np.empty(points), np.empty(points)
    for k, draw in enumerate(draws):
        X, y, env = draw.seen
        with torch.no_grad():
            Z = many.network(k)(torch.as_tensor(X))[1].double().numpy()
        found = iv.influence_index(Z, y, env, head=head_of(many, k), n_boot=99)
        values[k], shuffled[k] = found.value, found.null.mean()
    return grid, values, shuffled


def renamed(rows: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Domains by number, in their order, so that draws with other rates train as one program."""
    X, y, env = rows
    labels = list(dict.fromkeys(env.tolist()))
    return X, y, np.array([labels.index(label) for label in env.tolist()])


def print_figure2(size: Size, seeds: int) -> None:
    print(f"\n**Figure 2: ERM, five domains 0.2 ± {{0, x, 2x}}, {size.rows:,} rows, {size.hidden} hidden units**\n")
    line("seed", "V at x = 0", "V at x = 0.1", "shuffles", "Pearson", "Spearman", "paper")
    line(*["---"] * 7)
    for seed in range(seeds):
        x, V, shuffled = figure2(size, seed)
        along = f"{pearsonr(x, V).statistic:.3f}", f"{spearmanr(x, V).statistic:.3f}"
        line(str(seed), f"{V[0]:.2f}", f"{V[-1]:.2f}", f"{shuffled.mean():.2f}", *along, "0.987, 0.987")


# --- figures 3 and 6 --------------------------------------------------------------------------------------------------
def figure3(
    setting: str, objective: str, size: Size, seed: int, weights: Sequence[float] = WEIGHTS, images: str = "mnist"
) -> list[Model]:
    """All models of one setting, objective and seed."""
    data = digits(SETTINGS[setting], size.rows, seed, images)
    return judged(trained(data, objective, weights, size, seed), data, objective)


def correlation(models: Sequence[Model], name: str) -> float:
    """Pearson's, of a criterion and OOD accuracy."""
    if len(models) < 3:
        return float("nan")
    return float(pearsonr([m.values[name] for m in models], [m.ood for m in models]).statistic)


def print_figure3(objective: str, settings: Sequence[str], size: Size, seeds: int, chart: str | None) -> None:
    made = f"{size.rows:,} rows, {size.hidden} hidden units, {size.models} models per λ"
    print(f"\n**Figures 3 and 6: {objective}, {made}**\n")
    names = [f"{name}: {which}" for name in CRITERIA for which in ("kept", "kept, λ > 0", "all")]
    line("domains", "seed", "models kept", *names, "paper's V", "time")
    line(*["---"] * (len(names) + 5))
    everything = []
    for setting in settings:
        for seed in range(seeds):
            start = time.perf_counter()
            models = figure3(setting, objective, size, seed)
            kept = [model for model in models if model.keeps_accuracy]
            penalised = [model for model in kept if model.weight > 0]
            cells = [f"{correlation(some, name):.3f}" for name in CRITERIA for some in (kept, penalised, models)]
            counts = f"{len(kept)} of {len(models)}, {len(penalised)} penalised"
            paper = f"{PAPER[setting, objective]:.3f}"
            line(setting, str(seed), counts, *cells, paper, f"{time.perf_counter() - start:.0f} s")
            everything += [(setting, seed, model) for model in models]
    for setting in settings:
        print(f"\n{setting}, by weight, all seeds:\n")
        line("λ", "accuracy seen", "OOD accuracy", *CRITERIA, "kept")
        line(*["---"] * (4 + len(CRITERIA)))
        for weight in WEIGHTS:
            some = [m for s, _, m in everything if s == setting and m.weight == weight]
            accuracy = [f"{np.mean([getattr(m, a) for m in some]):.3f}" for a in ("seen", "ood")]
            values = [f"{np.mean([m.values[name] for m in some]):.3g}" for name in CRITERIA]
            line(f"{weight:g}", *accuracy, *values, f"{sum(m.keeps_accuracy for m in some)} of {len(some)}")
    if chart:
        draw(everything, objective, chart)


def draw(found: Sequence[tuple[str, int, Model]], objective: str, path: str) -> None:
    """V and OOD accuracy of every model; crosses are models that lost their accuracy."""
    import altair as alt
    import pandas as pd

    table = pd.DataFrame(
        [
            {"domains": s, "λ": f"{m.weight:g}", "kept": m.keeps_accuracy, "OOD accuracy": m.ood, **m.values}
            for s, _, m in found
        ]
    )
    panels = [
        alt.Chart(table[table.domains == setting], title=f"{objective}, {setting}")
        .mark_point(filled=True, size=45)
        .encode(
            x=alt.X(field=name, type="quantitative", scale=alt.Scale(zero=False)),
            y=alt.Y("OOD accuracy:Q"),
            color=alt.Color("λ:N", sort=[f"{w:g}" for w in WEIGHTS]),
            shape=alt.Shape("kept:N", scale=alt.Scale(domain=[True, False], range=["circle", "cross"])),
        )
        .properties(width=260, height=220)
        for name in ("V", "V of the risks")
        for setting in dict.fromkeys(s for s, _, _ in found)
    ]
    alt.concat(*panels, columns=2).resolve_scale(x="independent").save(path)


def line(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", choices=("2", "3", "all"), default="all")
    parser.add_argument("--objective", choices=("vrex", "irm", "both"), default="both")
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--models", type=int, default=Size.models, help="models per penalty weight (figure 3)")
    parser.add_argument("--hidden", type=int, default=Size.hidden)
    parser.add_argument("--chart", help="file for the scatter chart of figure 3 (.png, .svg, .html)")
    given = parser.parse_args()
    size = Size(hidden=given.hidden, models=given.models)
    if given.figure in ("2", "all"):
        print_figure2(size, given.seeds)
    if given.figure in ("3", "all"):
        for objective in ("vrex", "irm") if given.objective == "both" else (given.objective,):
            print_figure3(objective, given.settings, size, given.seeds, given.chart)


if __name__ == "__main__":
    main()
