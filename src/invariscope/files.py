"""Files appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from invariscope.errors import InputError


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write under a temporary name in the same folder, then rename: nobody ever sees half a file."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f'cannot write {target}: there is no folder "{target.parent}". Create it first.')
    with appearing(target) as temporary, temporary.open("xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return target


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A temporary name to write under, which becomes ``target`` at the end, or nothing if that is not reached."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
