"""Files: written whole or not at all; safetensors read as named arrays and a header of texts, never as code."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from invariscope.errors import InputError

Value = TypeVar("Value")


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


def read_tensors(path: Path, framework: str, what: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Header and arrays, as of ``framework`` ("numpy" or "pt"); ``what`` the file should have been, for the refusal."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a readable {what} ({' '.join(str(error).split())})") from error


def group(tensors: Mapping[str, Value], name: str) -> dict[str, Value]:
    """Those whose names begin with "name/", without that.

    >>> group({"weights/a": 1, "weights/b": 2, "history/a": 3}, "weights")
    {'a': 1, 'b': 2}
    """
    return {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
