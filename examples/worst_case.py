"""The tables of docs/worst_case.md: worst-case losses of models for rotated digits.

python examples/worst_case.py                              (full: about twenty minutes on one core)
python examples/worst_case.py --preset quick               (fewer rows and steps, one seed: under three minutes)
python examples/worst_case.py --only spaces                (or: losses, training)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

import invariscope as iv
from invariscope.criteria.worst_case.distances import distances
from invariscope.criteria.worst_case.torch_heads import worst_points
from invariscope.models.torch_networks import mlp
from invariscope.objectives import WorstCase, objective_of
from invariscope.training import Rows, Settings, Trained, train

SEEN, UNSEEN = (0, 20, 40, 60), 80
LOSSES = ("log_loss", "hinge", "zero_one")
RADII = (0.0, 0.1, 0.25, 0.5, 1.0)  # in units of R
WM = objective_of("wasserstein_matching", 0.1, {"iterations": 20})
OBJECTIVES: dict[str, Any] = {
    "ERM": "erm",
    "WM": WM,
    "G2DM": "g2dm",
    "ERM + worst case": WorstCase(0.5, fraction=0.25),
    "ERM + strong worst case": WorstCase(1.0, fraction=0.5),
    "G2DM + worst case": WorstCase(0.5, base="g2dm", fraction=0.25),
    "G2DM + strong worst case": WorstCase(1.0, base="g2dm", fraction=0.5),
    "WM + strong worst case": WorstCase(1.0, base=WM, fraction=0.5),
}
POSTER = ("ERM", "WM", "G2DM")
SCALED = ", scores scaled"


@dataclass(frozen=True)
class Preset:
    """How much of everything."""

    rows: int  # per rotation, to train on
    test_rows: int
    steps: int
    seeds: int
    slow_seeds: int  # of objectives that match distributions by optimal transport, 0.2 s a step
    searched: int  # rows that worst cases in input space are searched for

    def seeds_of(self, name: str) -> range:
        return range(self.slow_seeds if name.startswith("WM") else self.seeds)


PRESETS = {"quick": Preset(500, 200, 200, 1, 1, 150), "full": Preset(1500, 600, 600, 5, 3, 400)}


def table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    print(f"\n**{title}**\n")
    for line in (header, ["---"] * len(header), *lines):
        print("| " + " | ".join(line) + " |", flush=True)


@dataclass(frozen=True)
class Model:
    """A trained network and rows it has not seen: of the rotations it was trained on, and of another one."""

    trained: Trained
    X: np.ndarray
    y: np.ndarray
    env: np.ndarray
    seconds: float

    @property
    def head(self) -> iv.LinearHead:
        layer = self.trained.network.head
        return iv.LinearHead(layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy())

    def features(self, env: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        where = np.isin(self.env, env)
        return self.trained(self.X[where])[1].double().numpy(), self.y[where]

    def accuracy(self, env: Sequence[int]) -> float:
        where = np.isin(self.env, env)
        return float((self.trained(self.X[where])[0].numpy().argmax(axis=1) == self.y[where]).mean())

    def apart(self) -> np.ndarray:
        """Distances between all rotations in the representation, where the head looks and class by class."""
        Z, y = self.features((*SEEN, UNSEEN))
        env = self.env[np.isin(self.env, (*SEEN, UNSEEN))]
        codes = np.unique(env, return_inverse=True)[1]
        return distances(Z, y.astype(np.intp), codes, self.head.weight, np.random.default_rng(0)).pairs


@lru_cache(maxsize=64)
def model(name: str, seed: int, preset: Preset) -> Model:
    """A model for MNIST's digits in four rotations."""
    data = iv.datasets.rotated_mnist((*SEEN, UNSEEN), n=preset.rows, n_test=preset.test_rows, seed=seed)
    made = fitted(OBJECTIVES[name], data, seed, preset.steps)
    print(f"{name}, seed {seed}: {made.seconds:.0f} s", flush=True)
    return made


def fitted(objective: Any, data: Any, seed: int, steps: int, learning_rate: float = 1e-3) -> Model:
    """Hidden layers of 128 and 64 units, 64 rows of every rotation in a batch."""
    where = np.isin(data.train.env, SEEN)
    rows = Rows.of(
        data.train.X[where], data.train.y[where], data.train.env[where], task="multiclass", dtype=torch.float32
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = mlp(data.train.X.shape[1], 10, (128, 64))
    start = time.perf_counter()
    trained = train(network, rows, objective, settings=Settings(steps, 64, learning_rate), seed=seed)
    return Model(trained, data.test.X, data.test.y.astype(int), data.test.env, time.perf_counter() - start)


# --- representation and inputs ----------------------------------------------------------------------------------------
def spaces(preset: Preset) -> None:
    """The worst case in the representation and in the inputs: each in its own units, and both on one axis."""
    own, shared = [], []
    for name in POSTER:
        found = [both_spaces(model(name, seed, preset), preset.searched) for seed in preset.seeds_of(name)]
        for place, space in enumerate(("representation", "inputs")):
            curves = np.array([one[place][1] for one in found])
            units = np.array([one[place][0] for one in found])
            own.append([name, space, mean_and_spread(units), *(mean_and_spread(column) for column in curves.T)])
        points = np.array([one[2] for one in found])  # (seeds, levels, 4)
        for level in points.transpose(1, 0, 2):
            shared.append([name, *(mean_and_spread(column) for column in level.T)])
    header = ["model", "space", "R", *(f"ρ = {radius:g} R" for radius in RADII)]
    table("Worst-case cross-entropy, radii in own units", header, own)
    header = ["model", "moved in inputs, of R", "moved in representation, of R", "loss reached from inputs",
              "worst case in representation", "share of its increase"]  # fmt: skip
    table("The same worst inputs, by how far their representation has moved", header, shared)


def both_spaces(made: Model, count: int) -> tuple[Any, Any, list[list[float]]]:
    rng = np.random.default_rng(0)
    where = rng.permutation(np.flatnonzero(np.isin(made.env, SEEN)))[:count]
    X, y = made.X[where].astype(np.float32), made.y[where]
    network = made.trained.network
    Z = made.trained(X)[1].double().numpy()
    inside = iv.worst_case(made.head, Z, y, loss="log_loss", radii=RADII, relative=True, n_boot=0)
    outside = iv.worst_case(network, X, y, loss="log_loss", radii=RADII, relative=True, n_boot=0)
    points = []
    for gamma in outside.gamma[1:]:
        worst = worst_points(network, X, y, "log_loss", float(gamma)).numpy()
        logits, moved_to = made.trained(worst)
        far = float(np.sqrt(((moved_to.double().numpy() - Z) ** 2).sum(axis=1).mean()))
        away = float(np.sqrt(((worst - X) ** 2).sum(axis=1).mean()))
        reached = float(torch.nn.functional.cross_entropy(logits.double(), torch.as_tensor(y)))
        there = iv.worst_case(made.head, Z, y, loss="log_loss", radii=[0.0, far], n_boot=0).loss
        share = (reached - there[0]) / (there[1] - there[0])
        points.append([away / outside.unit, far / inside.unit, reached, there[1], share])
    return (inside.unit, inside.loss), (outside.unit, outside.loss), points


# --- losses -----------------------------------------------------------------------------------------------------------
def losses(preset: Preset) -> None:
    """Cross-entropy, hinge and 0/1 loss side by side."""
    lines = []
    for name in POSTER:
        found = []
        for seed in preset.seeds_of(name):
            made = model(name, seed, preset)
            Z, y = made.features(SEEN)
            first = iv.worst_case(made.head, Z, y, loss=LOSSES, radii=RADII, relative=True, n_boot=0)
            found.append([first.loss, *(first.others[other].loss for other in LOSSES[1:])])
        for place, loss in enumerate(LOSSES):
            curves = np.array([one[place] for one in found])
            lines.append([name, loss, *(mean_and_spread(column) for column in curves.T)])
    header = ["model", "loss", *(f"ρ = {radius:g} R" for radius in RADII)]
    table("Worst case in the representation by loss", header, lines)


# --- training against it ----------------------------------------------------------------------------------------------
def training(preset: Preset) -> None:
    """The worst case of models trained against it, at equal fractions of R and at the environments' own distances."""
    fractions, own = [], []
    for name in (*OBJECTIVES, "ERM" + SCALED, "ERM + strong worst case" + SCALED):
        made = [model(name.removesuffix(SCALED), seed, preset) for seed in preset.seeds_of(name)]
        heads = [scaled(one) if name.endswith(SCALED) else one.head for one in made]
        found = np.array([judged(one, head) for one, head in zip(made, heads, strict=True)]).T
        seconds = f"{np.mean([one.seconds for one in made]):.0f}"
        fractions.append([name, *(mean_and_spread(column) for column in found[:7]), seconds])
        own.append([name, *(mean_and_spread(column) for column in found[7:])])
    header = ["objective", "accuracy seen, %", f"unseen ({UNSEEN}°), %", "loss", "ρ = 0.25 R", "ρ = 0.5 R", "ρ = R",
              "error at 0.5 R, %", "seconds"]  # fmt: skip
    table("Training against the worst case: cross-entropy on new rows of the rotations trained on", header, fractions)
    header = ["objective", "60° to 80°, of R", "worst case there", "error there, %", "0° to 60°, of R",
              "worst case there", "error there, %"]  # fmt: skip
    table("The same at the distances between rotations", header, own)


def judged(made: Model, head: iv.LinearHead) -> list[float]:
    Z, y = made.features(SEEN)
    apart = made.apart()
    distant = [float(apart[-1, -2]), float(apart[-2, 0])]  # 80° from 60°, and 60° from 0°
    first = iv.worst_case(head, Z, y, loss=LOSSES, radii=RADII, relative=True, n_boot=0)
    there = iv.worst_case(head, Z, y, loss=LOSSES, radii=distant, n_boot=0)
    errors = [100 * float(error) for error in there.others["zero_one"].loss]
    at_fractions = [*first.loss[[0, 2, 3, 4]], 100 * first.others["zero_one"].loss[3]]
    at_distances = [
        number
        for radius, loss, error in zip(distant, there.loss, errors, strict=True)
        for number in (radius / first.unit, float(loss), error)
    ]
    return [100 * made.accuracy(SEEN), 100 * made.accuracy((UNSEEN,)), *at_fractions, *at_distances]


def scaled(made: Model) -> iv.LinearHead:
    """The head with all scores smaller by the factor that makes the worst case at 0.5 R least: the same decisions."""
    Z, y = made.features(SEEN)
    heads = [iv.LinearHead(made.head.weight * by, made.head.bias * by) for by in np.geomspace(0.15, 1.2, 13)]
    return min(heads, key=lambda head: iv.worst_case(head, Z, y, loss="log_loss", n_boot=0).value)


def mean_and_spread(values: np.ndarray) -> str:
    if len(values) == 1 or np.ptp(values) < 1e-9:
        return f"{values[0]:.3g}"
    return f"{values.mean():.3g} ± {values.std(ddof=1):.1g}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=list(PRESETS), default="full")
    parser.add_argument("--only", choices=["spaces", "losses", "training"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    for task in (spaces, losses, training):
        if given.only in (None, task.__name__):
            task(PRESETS[given.preset])
    print(f"\n{time.perf_counter() - began:.0f} seconds")
