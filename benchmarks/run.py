"""Side-by-side timings: `make bench`. Ratios against the physical limit and against peers, all from the same run.

Timing never decides a test; the table is printed and kept in benchmarks/results.md.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
from density_ratios import growth, pairs_at_once, table_of_errors
from influence_index import shuffles_of_a_top_model
from kernel_tests import kernel_tests
from timing import best_of
from training import many_models
from worst_case import worst_case_curves

import invariscope as iv

ROWS, COLUMNS, ENVIRONMENTS = 1_000_000, 50, 5


def big_table(grouped: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((ROWS, COLUMNS))
    env = rng.integers(0, ENVIRONMENTS, ROWS)
    if grouped:
        env.sort()
    y = Z[:, 0] + 0.05 * env * Z[:, 1] + rng.standard_normal(ROWS)
    return Z, y, env


def against_the_limit() -> list[tuple[str, float, float]]:
    """Regret, score test and influence index on 1,000,000 x 50 rows against one ZᵀZ."""
    rows = []
    for grouped in (False, True):
        Z, y, env = big_table(grouped)
        limit = best_of(lambda Z=Z: Z.T @ Z)

        def everything(Z: np.ndarray = Z, y: np.ndarray = y, env: np.ndarray = env) -> None:
            data = iv.Environments(Z, y, env)
            iv.regret(data)
            iv.influence_index(data)

        name = "rows grouped by environment" if grouped else "rows in any order"
        rows.append((f"one ZᵀZ ({name})", limit, 1.0))
        door = best_of(lambda Z=Z, y=y, env=env: iv.Environments(Z, y, env))
        rows.append((f"  of which grouping and checking ({name})", door, door / limit))
        total = best_of(everything)
        rows.append(
            (
                f"grouping, regret, intervals, score test, influence index with 999 shuffles ({name})",
                total,
                total / limit,
            )
        )
    return rows


def against_a_loop() -> list[tuple[str, float, float]]:
    """Influence index: 999 shuffles drawn at once against recomputing it per shuffle."""
    rng = np.random.default_rng(1)
    Z, env = rng.standard_normal((10_000, 50)), rng.integers(0, 5, 10_000)
    y = Z[:, 0] + rng.standard_normal(10_000)
    data = iv.Environments(Z, y, env)
    fast = best_of(lambda: iv.influence_index(data))
    dealt = best_of(lambda: iv.influence_index(data, exact=True), repeats=2)

    def loop() -> None:
        design = np.column_stack([np.ones(len(Z)), Z])
        beta = np.linalg.lstsq(design, y, rcond=None)[0]
        inverse = np.linalg.inv(design.T @ design / len(Z))
        gradients = design * (design @ beta - y)[:, None]
        for _ in range(99):
            shuffled = rng.permutation(env)
            pull = np.stack([gradients[shuffled == e].mean(axis=0) for e in range(5)]) @ inverse
            np.log(np.linalg.eigvalsh(np.cov(pull.T, bias=True))[-1])

    slow = best_of(loop, repeats=2) * 999 / 99
    return [
        ("influence index, 10,000 x 50, 999 Gaussian shuffles", fast, 1.0),
        ("the same with rows really dealt (exact=True)", dealt, dealt / fast),
        ("a NumPy loop over 999 shuffles (99 timed)", slow, slow / fast),
    ]


def against_peers() -> list[tuple[str, float, float]]:
    """Own and shared heads with cross-validation, as one would write it with scikit-learn, on 200,000 x 20 rows."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.model_selection import cross_val_score

    rng = np.random.default_rng(2)
    Z, env = rng.standard_normal((200_000, 20)), rng.integers(0, 5, 200_000)
    y = Z[:, 0] + rng.standard_normal(200_000)
    labels = (rng.random(200_000) < 1 / (1 + np.exp(-Z[:, 0]))).astype(int)
    rows = []
    for name, target, model in (
        ("squared", y, LinearRegression()),
        ("logistic", labels, LogisticRegression(C=np.inf, solver="newton-cholesky")),
    ):
        ours = best_of(lambda target=target: iv.regret(Z, target, env), repeats=3)

        def peer(target: np.ndarray = target, model: object = model) -> None:
            cross_val_score(model, Z, target, cv=5)
            for e in range(5):
                cross_val_score(model, Z[env == e], target[env == e], cv=5)

        theirs = best_of(peer, repeats=2)
        rows.append((f"regret with intervals and test, {name} head, 200,000 x 20", ours, 1.0))
        rows.append(
            (f"scikit-learn: the same heads cross-validated, no interval or test ({name})", theirs, theirs / ours)
        )
    return rows


def reading() -> list[tuple[str, float, float]]:
    """A Parquet file of 1,000,000 rows, 13 columns of numbers and 5 of text, against pandas and a bare copy."""
    import tempfile

    import pandas as pd

    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.standard_normal((ROWS, 13)), columns=[f"x{j}" for j in range(13)])
    for k, levels in enumerate((3, 5, 10, 20, 100)):
        table[f"c{k}"] = np.array([f"level {j}" for j in range(levels)])[rng.integers(0, levels, ROWS)]
    table["y"], table["site"] = rng.standard_normal(ROWS), rng.integers(0, 5, ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        table.to_parquet(path)

        def by_hand() -> object:
            frame = pd.read_parquet(path)
            return pd.get_dummies(frame.drop(columns=["y", "site"]), dtype=np.float64).to_numpy()

        ours = best_of(lambda: iv.read(path, target="y", env="site"), repeats=3)
        theirs = best_of(by_hand, repeats=3)
        values = iv.read(path, target="y", env="site").X.to_numpy()
    limit = best_of(lambda: values.copy(order="K"), repeats=3)
    return [
        (f"iv.read: types, text cleaned, missing looked for, {values.shape[1]} columns", ours, 1.0),
        ("pandas: read_parquet and get_dummies alone", theirs, theirs / ours),
        ("copying the result once", limit, limit / ours),
    ]


def rotating() -> list[tuple[str, float, float]]:
    """10,000 images of 28 x 28 pixels turned by 30 degrees."""
    from scipy import ndimage

    from invariscope.datasets.images.rotated import rotation

    pixels = np.random.default_rng(4).random((10_000, 28, 28), dtype=np.float32)
    ours = best_of(lambda: (rotation(28, 28, 30.0) @ pixels.reshape(len(pixels), -1).T).T)
    theirs = best_of(lambda: ndimage.rotate(pixels, 30.0, axes=(2, 1), order=1, reshape=False), repeats=2)
    return [
        ("one sparse product for all images", ours, 1.0),
        ("scipy.ndimage.rotate, the same values", theirs, theirs / ours),
    ]


def extra_memory() -> tuple[float, float]:
    """Peak memory beyond the data, in a fresh process, as a share of the data: (rows in any order, grouped rows).

    Linux keeps the peak of a process in /proc and forgets it on request, so that making the data does not count.
    """
    script = (
        "import sys; sys.path[:0] = [{here!r}]; import run; import invariscope as iv\n"
        "def status(key): return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith(key))\n"
        "Z, y, env = run.big_table({grouped})\n"
        "iv.regret(Z[::500], y[::500], env[::500]); iv.influence_index(Z[::500], y[::500], env[::500])\n"
        "open('/proc/self/clear_refs', 'w').write('5'); before = status('VmRSS')\n"
        "data = iv.Environments(Z, y, env); iv.regret(data); iv.influence_index(data)\n"
        "print((status('VmHWM') - before) * 1024 / (Z.nbytes + y.nbytes + env.nbytes))\n"
    )
    here = str(Path(__file__).parent)
    shares = []
    for grouped in (False, True):
        code = script.format(here=here, grouped=grouped)
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        shares.append(float(out.stdout))
    return shares[0], shares[1]


def import_time() -> float:
    return best_of(lambda: subprocess.run([sys.executable, "-c", "import invariscope"], check=True), repeats=3)


def main() -> None:
    lines = [
        "# Benchmarks",
        "",
        f"Python {platform.python_version()}, NumPy {np.__version__}, {len(os.sched_getaffinity(0))} cores, "
        f"{platform.machine()}. Best of several runs; ratios are within one table, from one run. `make bench` repeats "
        "it.",
        "",
    ]
    for title, table in (
        (f"Against the physical limit: {ROWS:,} x {COLUMNS} rows, {ENVIRONMENTS} environments", against_the_limit()),
        ("Shuffles at once against a loop", against_a_loop()),
        ("Against scikit-learn", against_peers()),
        (f"Reading a table of {ROWS:,} rows", reading()),
        ("Turning 10,000 images", rotating()),
    ):
        lines += [f"## {title}", "", "| what | seconds | ratio |", "|---|---:|---:|"]
        lines += [f"| {name} | {seconds:.3f} | {ratio:.1f} |" for name, seconds, ratio in table]
        lines.append("")
    lines += ["## Density ratios", "", *table_of_errors(), *pairs_at_once(), *growth()]
    lines += ["## Training many models", "", *many_models()]
    lines += ["## Influence index of a top model", "", *shuffles_of_a_top_model()]
    lines += ["## Worst-case loss", "", *worst_case_curves()]
    lines += ["## Kernel tests by permutation", "", *kernel_tests()]
    unordered, grouped = extra_memory()
    lines += [
        "## Memory and start-up",
        "",
        f"Peak memory beyond the data: {unordered:.2f} x the data for rows in any order (they are copied once), "
        f"{grouped:.2f} x for grouped rows (they are not).",
        f"`import invariscope`: {import_time():.2f} s.",
        "",
    ]
    text = "\n".join(lines)
    print(text)
    Path(__file__).with_name("results.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
