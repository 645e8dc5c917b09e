"""Kernel tests by permutation, ours and hyppo's: time and memory, beside the product that none can spare.

    python benchmarks/kernel_tests.py          the table, as markdown

Every line is measured in a process of its own, on one core, in seconds of the processor: what else the machine does
adds little to them. hyppo's 1,000 permutations are extrapolated from few: each takes as long as any other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from timing import memory

import invariscope as iv

PERMUTATIONS, DIMENSION = 1_000, 10
TWO_SAMPLES, DEPENDENCE, MANY = 4_000, 1_000, 50_000
FEW, MORE = 2, 12  # permutations of hyppo that are timed


def seconds(task: Callable[[], object], repeats: int = 1) -> float:
    """Of the processor, the least of several runs."""
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        task()
        taken.append(time.process_time() - start)
    return min(taken)


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two environments of the same law."""
    return np.random.default_rng(0).normal(size=(n, DIMENSION)), np.repeat([0, 1], n // 2)


def product(n: int) -> float:
    """The Gram matrix times the membership of all rows in all permutations, in single precision."""
    K = np.random.default_rng(0).random((n, n), dtype=np.float32)
    P = np.random.default_rng(1).random((n, PERMUTATIONS), dtype=np.float32)
    return seconds(lambda: K @ P, repeats=3)


def ours(test: Callable[..., object], n: int, **options: object) -> float:
    Z, env = rows(n)
    settings = {"scale": "none", "bandwidth": "median", "n_boot": PERMUTATIONS, **options}
    return seconds(lambda: test(Z, env=env, **settings), repeats=3 if n < MANY else 1)


def hyppo(name: str, n: int) -> float:
    from hyppo.independence import Hsic
    from hyppo.ksample import MMD

    Z, env = rows(n)

    def test(reps: int) -> object:
        if name == "mmd":
            return MMD().test(Z[env == 0], Z[env == 1], reps=reps, workers=1, auto=False)
        return Hsic().test(Z, env[:, None].astype(float), reps=reps, workers=1, auto=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        timed = [seconds(lambda reps=reps: test(reps)) for reps in (FEW, MORE)]
    each = (timed[1] - timed[0]) / (MORE - FEW)
    return timed[0] + (PERMUTATIONS - FEW) * each


TASKS: dict[str, Callable[[], float]] = {
    "mmd, one product": lambda: product(TWO_SAMPLES),
    "mmd, ours": lambda: ours(iv.mmd, TWO_SAMPLES),
    "mmd, ours, five widths": lambda: ours(iv.mmd, TWO_SAMPLES, bandwidth="collection"),
    "mmd, hyppo": lambda: hyppo("mmd", TWO_SAMPLES),
    "hsic, one product": lambda: product(DEPENDENCE),
    "hsic, ours": lambda: ours(iv.hsic, DEPENDENCE),
    "hsic, hyppo": lambda: hyppo("hsic", DEPENDENCE),
    "many, mmd": lambda: ours(iv.mmd, MANY),
    "many, mmd, five widths": lambda: ours(iv.mmd, MANY, bandwidth="collection"),
    "many, hsic": lambda: ours(iv.hsic, MANY),
}


def _cell(name: str) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    Z, env = rows(100)
    for test in (iv.mmd, iv.hsic):
        test(Z, env=env, n_boot=99)  # everything is imported
    if "hyppo" in name:
        from hyppo.ksample import MMD

        MMD().test(Z[:50], Z[50:])
    before = memory("VmRSS", forget=True)
    print(json.dumps({"seconds": TASKS[name](), "megabytes": memory("VmHWM") - before}))


def measured(name: str) -> tuple[float, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--cell", name]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(out.stdout.splitlines()[-1])
    return found["seconds"], found["megabytes"]


def kernel_tests() -> list[str]:
    lines: list[str] = []
    for part, title in (
        ("mmd", f"MMD of 2 x {TWO_SAMPLES // 2:,} rows"),
        ("hsic", f"HSIC of {DEPENDENCE:,} rows and their environment"),
        ("many", f"{MANY:,} rows, by random features"),
    ):
        lines += [
            f"{title}, {DIMENSION} columns, {PERMUTATIONS:,} permutations, one core",
            "",
            "| what | processor seconds | ratio to ours | MB at most beyond the data |",
            "|---|---:|---:|---:|",
        ]
        found = {name: measured(name) for name in TASKS if name.startswith(part)}
        reference = found.get(f"{part}, ours", next(iter(found.values())))[0]
        for name, (taken, megabytes) in found.items():
            what = name.removeprefix(f"{part}, ")
            what = f"hyppo ({FEW} and {MORE} of {PERMUTATIONS:,} permutations timed)" if what == "hyppo" else what
            lines.append(f"| {what} | {taken:.2f} | {taken / reference:.1f} | {megabytes:.0f} |")
        lines.append("")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cell", help="measure one line, and print it as JSON")
    asked = parser.parse_args().cell
    if asked:
        _cell(asked)
    else:
        print("\n".join(kernel_tests()))
