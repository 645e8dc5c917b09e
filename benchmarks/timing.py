"""How every benchmark measures time."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_of(task: Callable[[], object], repeats: int = 5) -> float:
    """Seconds by the clock, the least of several runs: what else the machine does only ever adds to them."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)
