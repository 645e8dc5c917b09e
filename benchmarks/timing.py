"""How every benchmark measures time and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def best_of(task: Callable[[], object], repeats: int = 5) -> float:
    """Seconds by the clock, the least of several runs: what else the machine does only ever adds to them."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def memory(key: str, *, forget: bool = False) -> float:
    """Megabytes of this process now (VmRSS) or at most (VmHWM); Linux forgets the peak on request."""
    if forget:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(key)) / 1024
