"""How much of what comes without end, or unpacks to more than it says, may be kept in memory."""

from __future__ import annotations

import os
from pathlib import Path

#: Of the memory of this process: what is read, the numbers in it and what is made of them must lie there side by side.
SHARE_OF_MEMORY = 0.25


def most_bytes() -> int:
    """Bytes that may be read into memory: a quarter of what this process may have of it."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [1 << 33]
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        if Path(place).is_file() and (text := Path(place).read_text().strip()).isdecimal():
            limits.append(int(text))
    try:
        import resource

        limits += [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit != resource.RLIM_INFINITY]
    except ImportError:  # Windows
        pass
    return int(SHARE_OF_MEMORY * min(limits))
