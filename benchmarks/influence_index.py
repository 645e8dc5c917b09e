"""The influence index of a top model with 1,000 shuffles: against forming its Hessian once, and against a loop.

python benchmarks/influence_index.py
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits
from timing import best_of

import invariscope as iv

ROWS, COLUMNS, ENVIRONMENTS, SHUFFLES = 10_000, 256, 5, 1000
LOOPED = 50  # deals that are timed; a thousand would take minutes


def top_model() -> tuple[np.ndarray, np.ndarray, np.ndarray, iv.LinearHead]:
    """Features of a wide layer, two classes, five environments, and the head."""
    rng = np.random.default_rng(0)
    Z, env = rng.standard_normal((ROWS, COLUMNS)), np.repeat(np.arange(ENVIRONMENTS), ROWS // ENVIRONMENTS)
    weight = rng.standard_normal(COLUMNS) / 16
    y = (rng.random(ROWS) < expit(Z @ weight)).astype(int)
    return Z, y, env, iv.LinearHead(weight, 0.0)


def timings() -> list[tuple[str, float, float]]:
    Z, y, env, head = top_model()
    data, parameters = iv.Environments(Z, y, env), np.append(head.bias, head.weight)
    rng = np.random.default_rng(1)

    def hessian() -> np.ndarray:
        design = np.column_stack([np.ones(ROWS), Z])
        p = expit(design @ parameters)
        scaled = design * np.sqrt(p * (1 - p))[:, None]
        return scaled.T @ scaled / ROWS

    def loop() -> None:
        design, inverse = np.column_stack([np.ones(ROWS), Z]), np.linalg.inv(hessian())
        for _ in range(LOOPED):
            order = rng.permutation(ROWS)
            pulled = []
            for rows in np.split(order, ENVIRONMENTS):
                residual = expit(design[rows] @ parameters) - y[rows]
                pulled.append(inverse @ (design[rows].T @ residual / len(rows)))
            np.log(np.linalg.eigvalsh(np.cov(np.transpose(pulled), bias=True))[-1])

    with threadpool_limits(1, user_api="blas"):
        once = best_of(hessian)
        ours = best_of(lambda: iv.influence_index(data, head=head, n_boot=SHUFFLES))
        grouped = best_of(lambda: iv.influence_index(Z, y, env, head=head, n_boot=SHUFFLES))
        dealt = best_of(lambda: iv.influence_index(data, head=head, n_boot=SHUFFLES, exact=True), repeats=2)
        penalised = {
            name: best_of(
                lambda name=name: iv.influence_index(
                    data, head=head, penalty=name, penalty_weight=10.0, n_boot=SHUFFLES
                )
            )
            for name in ("vrex", "irm")
        }
        slow = best_of(loop, repeats=2) * SHUFFLES / LOOPED
    return [
        ("forming the Hessian once", once, 1.0),
        (f"influence index, {SHUFFLES:,} shuffles drawn", ours, ours / once),
        ("the same, with grouping and checking the rows", grouped, grouped / once),
        ("the same, rows really dealt (exact=True)", dealt, dealt / once),
        *(
            (
                f"under a penalty ({name}), with and without it in H: {taken / ours:.1f} x that without one",
                taken,
                taken / once,
            )
            for name, taken in penalised.items()
        ),
        (
            f"a loop over deals: passes for gradients, products with H⁻¹ ({LOOPED} of {SHUFFLES:,} timed)",
            slow,
            slow / once,
        ),
    ]


def shuffles_of_a_top_model() -> list[str]:
    """The table, as markdown."""
    lines = timings()
    return [
        f"Logistic head given, {ROWS:,} × {COLUMNS} features, {ENVIRONMENTS} environments; BLAS on one thread. The "
        f"loop takes {lines[-1][1] / lines[1][1]:.0f} times as long as drawing the shuffles.",
        "",
        "| what | seconds | ratio |",
        "|---|---:|---:|",
        *(f"| {name} | {seconds:.3f} | {ratio:.1f} |" for name, seconds, ratio in lines),
        "",
    ]


if __name__ == "__main__":
    print("\n".join(shuffles_of_a_top_model()))
