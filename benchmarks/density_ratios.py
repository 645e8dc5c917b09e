"""Estimators of density ratios side by side: error, time and memory, ours and the peers that are installed.

    python benchmarks/density_ratios.py                 all tables, as markdown
    python benchmarks/density_ratios.py --only table    the DRIC paper's Table 4 alone (or: accuracy, pairs, growth)

Every cell of the first table is measured in a process of its own. Peers (densratio, adapt) are optional: what is not
installed is listed as such and has no numbers.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import memory

import invariscope as iv
from invariscope.ratios.catalogue import ESTIMATORS

ROWS, DIMENSIONS = 10_000, (1, 5, 10)
#: mean absolute error of the log ratio for d = 1, 5, 10, as printed in Table 4 of the DRIC paper
PUBLISHED = {
    "RuLSIF": (0.4899, 1.45, 2.5778),
    "logistic regression": (0.2029, 0.5302, 0.8002),
    "multi-layer perceptron": (0.0894, 0.4540, 0.9004),
}
QUICK = [name for name in ESTIMATORS if name not in ("mlp", "forest", "boosting")]  # the others take minutes
PAIRWISE = ("logistic", "mlp", "rulsif")  # the estimators of the paper, as it fits them: one for every pair
#: classification accuracy by rows per environment, as printed in Tables 5 (ERM) and 6 (IRM) of the DRIC paper
SUBSAMPLES = {
    100: (0.7417, 0.7583),
    300: (0.8194, 0.8806),
    500: (0.9183, 0.8733),
    700: (0.9143, 0.9417),
    900: (0.9269,) * 2,
}
SMALLEST = 1e-6  # peers may give weights of 0 or below, whose logarithm does not exist
GAMMAS, LAMBDAS = [1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0], [1e-3, 1e-2, 1e-1, 1.0, 10.0]


def two_normal_laws(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of P = N(0, I), then of Q = N(0.2, 1.5 I), and ln p/q at all of them."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((ROWS, d)), 0.2 + np.sqrt(1.5) * rng.standard_normal((ROWS, d))])
    log_p = -0.5 * (X**2).sum(axis=1)
    log_q = -0.5 * ((X - 0.2) ** 2).sum(axis=1) / 1.5 - 0.5 * d * np.log(1.5)
    return X, log_p - log_q


def ours(name: str, X: np.ndarray) -> np.ndarray:
    estimator, *pairwise = name.split(", ")
    ratio = iv.density_ratio(X, np.repeat(["P", "Q"], ROWS), ratio=estimator, pairwise=bool(pairwise))
    return ratio.log(X, "P", "Q")


def raw_logistic(X: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(X, np.repeat([0, 1], ROWS)).decision_function(X) * -1.0


def with_densratio(method: str, X: np.ndarray) -> np.ndarray:
    from densratio import densratio

    fitted = densratio(X[:ROWS], X[ROWS:], method=method, verbose=False, alpha=0.1)
    return _logarithm(fitted.compute_density_ratio(X), method)


def with_adapt(method: str, X: np.ndarray) -> np.ndarray:
    """Weights of Q's rows that make them look like P. KMM weighs only rows it was given: P's are weighed towards Q."""
    from adapt import instance_based

    P, Q = X[:ROWS], X[ROWS:]
    estimator: Callable[..., Any] = getattr(instance_based, method)
    if method == "KMM":
        there, back = (estimator(verbose=0, random_state=0).fit_weights(*pair) for pair in ((Q, P), (P, Q)))
        return np.concatenate([-_logarithm(back, method), _logarithm(there, method)])
    options = {"gamma": GAMMAS} | ({} if method == "KLIEP" else {"lambdas": LAMBDAS})
    fitted = estimator(verbose=0, random_state=0, **options)
    fitted.fit_weights(Q, P)
    return _logarithm(fitted.predict_weights(X), method)


def _logarithm(weights: Any, method: str) -> np.ndarray:
    values = np.maximum(np.asarray(weights, dtype=np.float64).ravel(), SMALLEST)
    if method.lower() == "rulsif":  # these are ratios to 0.1 P + 0.9 Q
        values = 0.9 * values / np.maximum(1.0 - 0.1 * values, 1e-3)
    return np.log(values)


#: name → (package it needs, function of rows)
PEERS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "scikit-learn LogisticRegression on x": ("sklearn", raw_logistic),
    **{
        f"densratio {method}": ("densratio", lambda X, method=method: with_densratio(method, X))
        for method in ("uLSIF", "RuLSIF")
    },
    **{
        f"adapt {method}": ("adapt", lambda X, method=method: with_adapt(method, X))
        for method in ("ULSIF", "RULSIF", "KLIEP", "KMM")
    },
}


def available() -> list[str]:
    """Our estimators whose module is there."""
    return [name for name, (module, _) in ESTIMATORS.items() if importlib.util.find_spec(module)]


def measure(name: str, d: int) -> dict[str, float]:
    """Error, seconds, processor seconds and megabytes beyond data and imports of one estimator, in this process."""
    X, truth = two_normal_laws(d)
    estimate = PEERS[name][1] if name in PEERS else lambda X: ours(name, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in PEERS:
            importlib.import_module({"sklearn": "sklearn.linear_model"}.get(PEERS[name][0], PEERS[name][0]))
        else:
            iv.density_ratio(X[:: ROWS // 50], np.repeat(["P", "Q"], 50), ratio=name.split(", ")[0])  # imports
        np.random.seed(0)  # noqa: NPY002 (densratio draws from the global state)
        before = memory("VmRSS", forget=True)
        start, processor = time.perf_counter(), time.process_time()
        found = estimate(X)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    return {
        "error": float(np.abs(found - truth).mean()),
        "seconds": seconds,
        "processor": processor,
        "megabytes": memory("VmHWM") - before,
    }


def measured_apart(name: str, d: int) -> dict[str, float] | None:
    """The same in a fresh process; ``None`` if it fails, with the last line of what it said on the screen."""
    command = [sys.executable, __file__, "--measure", name, str(d)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}, d = {d}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def table_of_errors(peers: bool = True) -> list[str]:
    """Table 4 of the DRIC paper: lines of markdown."""
    dashes = "---:|" * len(DIMENSIONS)
    lines = [
        f"P = N(0, I), Q = N(0.2, 1.5 I), {ROWS:,} rows each: mean of |ln ρ̂ − ln ρ| over all rows; seconds and",
        "processor seconds for the three together; largest memory beyond imports and data.",
        "",
        f"| estimator | {' | '.join(f'd = {d}' for d in DIMENSIONS)} | seconds | processor | MB |",
        f"|---|{dashes}---:|---:|---:|",
    ]
    missing = []
    for name in [*available(), *(f"{name}, pairwise" for name in PAIRWISE), *(PEERS if peers else ())]:
        if name in PEERS and not importlib.util.find_spec(PEERS[name][0]):
            missing.append(name)
            continue
        cells = [measured_apart(name, d) for d in DIMENSIONS]
        if any(cell is None for cell in cells):
            missing.append(name)
            continue
        done = [cell for cell in cells if cell is not None]
        errors = " | ".join(f"{cell['error']:.3f}" for cell in done)
        seconds, processor = (sum(cell[key] for cell in done) for key in ("seconds", "processor"))
        lines.append(
            f"| {name} | {errors} | {seconds:.2f} | {processor:.2f} | {max(cell['megabytes'] for cell in done):.0f} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    for name, values in PUBLISHED.items():
        lines.append(f"| *published:* {name} | {' | '.join(f'{value:.3f}' for value in values)} | | | |")
    if missing:
        lines += ["", f"Not installed here, or failed, hence not run: {', '.join(missing)}."]
    return [*lines, ""]


def table_of_accuracies() -> list[str]:
    """Tables 5 and 6 of the DRIC paper: how often the environment is guessed, and what a ratio takes."""
    from invariscope.datasets import linear_sem

    lines = ["| rows per environment | network, pairwise | held out | seconds | published, ERM | published, IRM |"]
    lines.append("|---:|---:|---:|---:|---:|---:|")
    every = linear_sem("FEU", n=1000, seed=0)
    for rows, published in SUBSAMPLES.items():
        first = np.concatenate([np.arange(e * 1000, e * 1000 + rows) for e in range(3)])
        X, env = every.X[first], np.asarray(every.env)[first]
        start = time.perf_counter()
        seen = iv.density_ratio(X, env, ratio="mlp", pairwise=True)
        seconds = time.perf_counter() - start
        unseen = iv.density_ratio(X, env, ratio="mlp", pairwise=True, folds=3).accuracy_held_out
        theirs = " | ".join(f"{value:.3f}" for value in published)
        lines.append(f"| {rows} | {seen.accuracy:.3f} | {unseen:.3f} | {seconds:.1f} | {theirs} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return [*lines, "", "Guessing the larger environment of a pair without looking is right in 0.5 of the rows.", ""]


def normal_environments(environments: int, rows: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal laws of different means and spreads: rows, environments, and log densities (n, E) up to a constant."""
    rng = np.random.default_rng(1)
    means, spreads = 0.2 * rng.standard_normal((environments, d)), np.exp(0.1 * rng.standard_normal((environments, d)))
    codes = np.repeat(np.arange(environments), rows)
    X = means[codes] + spreads[codes] * rng.standard_normal((len(codes), d))
    scaled = [(X - mean) / spread for mean, spread in zip(means, spreads, strict=True)]
    densities = [-0.5 * (z**2).sum(axis=1) - np.log(spread).sum() for z, spread in zip(scaled, spreads, strict=True)]
    return X, codes, np.column_stack(densities)


def pairs_at_once(environments: int = 10, rows: int = ROWS, d: int = 20) -> list[str]:
    """One fit for all environments against a scikit-learn fit for every pair: lines of markdown."""
    from sklearn.linear_model import LogisticRegression

    X, codes, truth = normal_environments(environments, rows, d)
    pairs = list(itertools.combinations(range(environments), 2))
    measured: list[tuple[str, float, float]] = []
    for name in QUICK:
        seconds = np.inf
        for _ in range(3):
            start = time.perf_counter()
            ratio = iv.density_ratio(X, codes, ratio=name)
            seconds = min(seconds, time.perf_counter() - start)
        found = ratio.log_densities(X)
        errors = [np.abs((found - truth)[:, a] - (found - truth)[:, b])[(codes == a) | (codes == b)] for a, b in pairs]
        measured.append((f"{name}, one fit", seconds, float(np.mean(errors))))
    upper = np.triu_indices(d)
    for name, columns in (
        ("columns as they are", X),
        ("columns and squares", np.hstack([X, X**2])),
        ("columns, squares and products", np.hstack([X, (X[:, :, None] * X[:, None, :])[:, upper[0], upper[1]]])),
    ):
        if columns is not X:
            columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
        errors, start = [], time.perf_counter()
        for a, b in pairs:
            both = (codes == a) | (codes == b)
            model = LogisticRegression(max_iter=1000).fit(columns[both], codes[both] == a)
            errors.append(np.abs(model.decision_function(columns[both]) - truth[both, a] + truth[both, b]).mean())
        seconds = time.perf_counter() - start
        measured.append((f"scikit-learn, {len(pairs)} pairs, {name}", seconds, float(np.mean(errors))))
    title = f"{environments} environments of {rows:,} rows, {d} columns"
    lines = [title, "", "| fit | seconds | ratio | mean abs. error of ln ρ |", "|---|---:|---:|---:|"]
    first = measured[0][1]
    lines += [f"| {name} | {seconds:.2f} | {seconds / first:.1f} | {error:.3f} |" for name, seconds, error in measured]
    return [*lines, ""]


def growth() -> list[str]:
    """Seconds of one fit as rows and environments grow."""
    rows = [(5, 5_000), (5, 10_000), (5, 20_000)]
    environments = [(5, 5_000), (10, 5_000), (20, 5_000)]
    lines = ["| estimator (seconds) | 5 x 5,000 | 2x rows | 4x rows | 10 environments | 20 environments |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for name in QUICK:
        seconds = []
        for count, size in [*rows, *environments[1:]]:
            X, codes, _ = normal_environments(count, size, 10)
            start = time.perf_counter()
            iv.density_ratio(X, codes, ratio=name)
            seconds.append(time.perf_counter() - start)
        lines.append(f"| {name} | {' | '.join(f'{second:.2f}' for second in seconds)} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("table", "accuracy", "pairs", "growth"))
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "D"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure[0], int(given.measure[1]))))
        return
    parts: dict[str, tuple[str, Callable[[], list[str]]]] = {
        "table": ("Density ratio of two normal laws (DRIC paper, Table 4)", table_of_errors),
        "accuracy": ("Accuracy of the environment classifier (DRIC paper, Tables 5 and 6)", table_of_accuracies),
        "pairs": ("All pairs from one fit", pairs_at_once),
        "growth": ("Rows and environments", growth),
    }
    for key, (title, lines) in parts.items():
        if given.only in (None, key):
            print("\n".join([f"## {title}", "", *lines()]), flush=True)


if __name__ == "__main__":
    main()
