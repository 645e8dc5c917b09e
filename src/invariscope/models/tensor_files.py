"""Reading safetensors files: named arrays and a header of texts. Nothing in them is code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from invariscope.errors import InputError

Value = TypeVar("Value")


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
