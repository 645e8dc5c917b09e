"""The tables of docs/invariant_learning.md: what the training objectives do on data with a known answer.

python examples/invariant_learning.py                     (all tables; about twenty minutes)
python examples/invariant_learning.py --only sem          (or: paper, digits)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

import invariscope as iv
from invariscope.models.torch_networks import linear, mlp
from invariscope.objectives import objective_of
from invariscope.training import Rows, Schedule, Settings, train, train_replicates

SETTINGS = ("POU", "PEU", "FOU", "FEU")
METHODS = {"V-REx": "vrex", "IRM": "irm", "DRIC-regularised": "dric", "regret-regularised": "regret"}
WEIGHTS = (0.0, 0.01, 0.1, 1.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5)
TRAINING, UNSEEN = (0.2, 2.0), 5.0
#: Table 3 of the DRIC paper: mean squared error in training and testing domains
PUBLISHED = {
    "ERM": (0.2616, 0.8050),
    "V-REx": (0.2775, 0.7643),
    "IRM": (0.4334, 0.7889),
    "DRIC-regularised": (0.2459, 0.7472),
}


def table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    print(f"\n**{title}**\n")
    for line in (header, ["---"] * len(header), *lines):
        print("| " + " | ".join(line) + " |", flush=True)


# --- linear structural equations --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Draw:
    """800 rows to train on (400 in each of two environments), others to choose the weight by, and to judge."""

    data: iv.datasets.Dataset
    centre: np.ndarray
    scale: np.ndarray
    rows: Rows

    @classmethod
    def of(cls, setting: str, seed: int) -> Draw:
        data = iv.datasets.linear_sem(setting, n=400, environments=(*TRAINING, UNSEEN), seed=seed, n_test=2000)
        seen = np.isin(data.train.env, TRAINING)
        table = np.column_stack([data.train.X, data.train.y])[seen]
        centre, scale = table.mean(axis=0), table.std(axis=0)
        table = (table - centre) / scale
        return cls(data, centre, scale, Rows.of(table[:, :-1], table[:, -1], data.train.env[seen]))

    def coefficients(self, weight: torch.Tensor, bias: torch.Tensor) -> tuple[np.ndarray, float]:
        """Slopes and intercept in the units of the data."""
        slopes = weight.numpy() / self.scale[:-1] * self.scale[-1]
        return slopes, float(self.centre[-1] + self.scale[-1] * bias - slopes @ self.centre[:-1])

    def judged(self, slopes: np.ndarray, intercept: float) -> dict[str, float]:
        """What a linear predictor does on rows it has not seen, and on those it was trained on."""
        train, test, causes = self.data.train, self.data.test, self.data.truth["head"]
        error = (test.y - test.X @ slopes - intercept) ** 2
        known, new = np.isin(test.env, TRAINING), np.flatnonzero(test.env == UNSEEN)
        seen = np.isin(train.env, TRAINING)
        chosen_by = np.concatenate([np.flatnonzero(test.env == e)[:400] for e in TRAINING])
        rest = np.setdiff1d(np.flatnonzero(known), chosen_by)
        score = test.X @ slopes
        return {
            "train": float(np.mean((train.y - train.X @ slopes - intercept)[seen] ** 2)),
            "validation": float(error[new[:400]].mean()),
            "test": float(error[new[400:]].mean()),
            "held-out regret": _regret(score[chosen_by], test.y[chosen_by], test.env[chosen_by]),
            "regret": _regret(score[rest], test.y[rest], test.env[rest]),
            "causal": float(((slopes[:5] - causes) ** 2).sum()),
            "non-causal": float((slopes[5:] ** 2).sum()),
        }


def _regret(score: np.ndarray, y: np.ndarray, env: np.ndarray) -> float:
    return iv.regret(score[:, None], y, env, n_boot=99).value


def trained(
    method: str, draws: Sequence[Draw], weights: Sequence[float] = WEIGHTS, steps: int = 4000
) -> list[list[dict[str, float]]]:
    """For every draw and every weight, what the model does."""
    settings = Settings(steps, learning_rate=0.03, schedule=Schedule(wait=100, ramp=300))
    build = partial(linear, 10, 1)
    if objective_of(method).ratio_on is None:
        batches = [([draw.rows for draw in draws], range(len(draws)))]
    else:  # ratios and the baseline belong to a draw
        batches = [(draw.rows, (k,)) for k, draw in enumerate(draws)]
    many = [
        train_replicates(build, rows, method, seeds=seeds, weights=weights, settings=settings)
        for rows, seeds in batches
    ]
    slopes = torch.cat([one.parameters["represent.weight"][:, 0] for one in many]).reshape(len(draws), len(weights), -1)
    biases = torch.cat([one.parameters["represent.bias"][:, 0] for one in many]).reshape(len(draws), len(weights))
    return [
        [draw.judged(*draw.coefficients(*pair)) for pair in zip(*models, strict=True)]
        for draw, *models in zip(draws, slopes, biases, strict=True)
    ]


def chosen(models: Sequence[dict[str, float]], by: str) -> dict[str, float]:
    return min(models, key=lambda one: one[by])


def structural_equations(draws: int) -> None:
    """Regret and distance to the causal coefficients, and the DRIC paper's Table 3."""
    lines: list[list[str]] = []
    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in ("ERM", *METHODS)}
    for setting in SETTINGS:
        drawn = [Draw.of(setting, seed) for seed in range(draws)]
        for name, method in METHODS.items():
            found = trained(method, drawn)
            if name == "V-REx":
                lines.append([setting, "ERM", *_cells([models[0] for models in found])])
                errors["ERM"] += [(models[0]["train"], models[0]["test"]) for models in found]
            lines.append([setting, name, *_cells([chosen(models, "held-out regret") for models in found])])
            errors[name] += [(one["train"], one["test"]) for one in (chosen(models, "validation") for models in found)]
    header = ["setting", "objective", "regret", "error of X1's coefficients", "size of X2's", "MSE at e = 5"]
    table(
        f"Linear SEM, trained at e = 0.2 and 2, {draws} draws: weight of least regret on held-out rows", header, lines
    )

    lines = []
    for name, pairs in errors.items():
        ours = [f"{np.mean(column):.4f}" for column in zip(*np.reshape(pairs, (4, draws, 2)).mean(axis=1), strict=True)]
        each = [f"{train:.2f} / {test:.2f}" for train, test in np.reshape(pairs, (4, draws, 2)).mean(axis=1)]
        published = [f"{value:.4f}" for value in PUBLISHED.get(name, ())] or ["", ""]
        lines.append([name, *published, *ours, *each])
    header = ["objective", "published train", "published test", "train", "test", *SETTINGS]
    table("The DRIC paper's Table 3: MSE in training (e = 0.2, 2) and testing (e = 5)", header, lines)


def with_the_papers_settings(draws: int) -> None:
    """Table 7 and 8 of the DRIC paper to the letter: a wide network, 20 steps, λ of 0, 1e-4 or 1e-1."""
    settings = Settings(steps=20, learning_rate=1e-3, weight_decay=1.0, schedule=Schedule(wait=1))
    lines = []
    for name, method in {"ERM": "erm", "V-REx": "vrex", "IRM": "irm", "DRIC-regularised": "dric"}.items():
        found = []
        for setting in SETTINGS:
            for seed in range(draws):
                draw = Draw.of(setting, seed)
                weights = (0.0,) if method == "erm" else (0.0, 1e-4, 1e-1)
                build = partial(mlp, 10, 1, (256, 256), dropout=0.5)
                many = train_replicates(build, draw.rows, method, seeds=(seed,), weights=weights, settings=settings)
                models = []
                for part in (draw.data.train, draw.data.test):
                    scores, _ = many((part.X - draw.centre[:-1]) / draw.scale[:-1])
                    models.append(draw.centre[-1] + draw.scale[-1] * scores[:, :, 0].numpy())
                train_error, error = (
                    (p - f) ** 2 for p, f in zip((draw.data.train.y, draw.data.test.y), models, strict=True)
                )
                new = np.flatnonzero(draw.data.test.env == UNSEEN)
                best = int(error[:, new[:400]].mean(axis=1).argmin())
                seen = np.isin(draw.data.train.env, TRAINING)
                found.append((train_error[best, seen].mean(), error[best, new[400:]].mean()))
        published = [f"{value:.4f}" for value in PUBLISHED[name]]
        lines.append([name, *published, *(f"{value:.2f}" for value in np.mean(found, axis=0))])
    header = ["objective", "published train", "published test", "train", "test"]
    table("Table 3 with the settings of Tables 7 and 8: a network of 256 × 256, 20 steps", header, lines)


def _cells(models: Sequence[dict[str, float]]) -> list[str]:
    return [f"{np.mean([one[key] for one in models]):.3f}" for key in ("regret", "causal", "non-causal", "test")]


# --- coloured digits --------------------------------------------------------------------------------------------------
def coloured_digits(seeds: int) -> None:
    """Colour agrees with the label in 90 % and 80 % of the training images, and in 10 % of the test images."""
    lines = []
    for name, method, weight in (("ERM", "erm", 0.0), ("IRM", "irm", 1e4), ("V-REx", "vrex", 1e4)):
        found, seconds = [], 0.0
        for seed in range(seeds):
            start = time.perf_counter()
            found.append(accuracies(method, weight, seed))
            seconds += time.perf_counter() - start
        means = np.mean(found, axis=0)
        spread = f"{min(one[2] for one in found):.3f} … {max(one[2] for one in found):.3f}"
        lines.append([name, *(f"{mean:.3f}" for mean in means), spread, f"{seconds / seeds:.0f}"])
    header = ["objective", "+90%", "+80%", "-90% (unseen)", "range over seeds", "seconds each"]
    table(f"Colored MNIST: accuracy, mean of {seeds} seeds; the shape alone allows 0.75", header, lines)


def accuracies(
    method: str, weight: float, seed: int, *, n: int = 20_000, hidden: int = 128, batch: int = 2000, steps: int = 600
) -> list[float]:
    """Accuracy in +90%, +80% (training) and -90%, for 14 × 14 images and two hidden layers."""
    data = iv.datasets.colored_mnist(variant="dric", downsample=2, n=n, seed=seed)
    seen = data.env != "-90%"
    rows = Rows.of(data.X[seen], data.y[seen], data.env[seen], task="binary", dtype=torch.float32)
    settings = Settings(
        steps, batch, learning_rate=1e-3, weight_decay=1e-3, schedule=Schedule(wait=steps // 6), check_every=50
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = mlp(data.X.shape[1], 1, (hidden, hidden))
    logits, _ = train(network, rows, objective_of(method, weight), settings=settings, seed=seed)(data.X)
    right = (logits[:, 0].numpy() > 0) == (data.y == 1)
    return [float(right[data.env == label].mean()) for label in ("+90%", "+80%", "-90%")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["sem", "paper", "digits"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if given.only in (None, "sem"):
        structural_equations(given.draws)
    if given.only in (None, "paper"):
        with_the_papers_settings(given.draws)
    if given.only in (None, "digits"):
        coloured_digits(given.seeds)
