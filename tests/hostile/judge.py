"""What becomes of a hostile call, and whether that is right: the same numbers as a plain call, a note, or a refusal."""

from __future__ import annotations

import dataclasses
import math
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import invariscope as iv
from invariscope.datasets import DataUnavailable
from invariscope.errors import LONGEST, InputError

SECONDS = 10  # of a call that takes milliseconds, on a machine that is busy with others
#: Words with which a refusal says what to do.
REMEDY = re.compile(
    r"\b(add|apply|ask|audit|bin|bring|build|call|choose|close|convert|copy|count|divide|do|draw|drop|encode|fetch|fill"
    r"|fit|follow|free|give|group|install|join|leave|list|look|lower|make|mend|merge|move|multiply|must be|must hold"
    r"|must come|name|needs?|open|pass|pick|predict|put|raise|read|remove|rename|repeat|replace|restrict|save|say|see"
    r"|select|send|set|sort|split|start|store|subtract|take|there are|train|try|turn|unpack|use|wait|write|it has"
    r"|no such file|ends in|did you mean|there is no|expected as|is written)\b",
    re.IGNORECASE,
)
#: Texts that must survive a change of container; others quote numbers or names of columns.
TEXTS = ("state", "task", "verdicts")
NOT_COMPARED = ("settings", "seconds", "created", "notes", "labels", "classes", "worst", "columns")  # names may differ


@dataclass(frozen=True)
class Refused:
    """An outcome: input that was refused, in these words."""

    message: str


@contextmanager
def time_limit(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TimeoutError inside whatever has not returned by then."""

    def ring(*_: Any) -> None:
        raise TimeoutError(f"did not return within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome_of(call: Callable[[], Any]) -> Any:
    """The result, or the refusal; any other exception is a defect and comes out as it is."""
    with time_limit():
        try:
            return call()
        except (InputError, DataUnavailable) as error:
            refused = Refused(str(error))
    assert_is_clear(refused.message)
    return refused


def assert_is_clear(message: str) -> None:
    """One line that a terminal shows, not too long, with a remedy."""
    assert 20 < len(message) <= LONGEST, f"{len(message)} letters"
    assert message.isprintable(), f"what no terminal should see: {message!r}"
    assert REMEDY.search(message), f"no remedy: {message}"


def assert_same(result: Any, plain: Any, rtol: float) -> None:
    """The numbers and labels of the plain call."""
    found, wanted = dict(leaves(result)), dict(leaves(plain))
    assert [*found] == [*wanted], f"not the same parts: {sorted({*found} ^ {*wanted})[:5]}"
    for path, value in wanted.items():
        if isinstance(value, str):
            assert found[path] == value, path
        else:
            np.testing.assert_allclose(found[path], value, rtol=rtol, atol=rtol, err_msg=path)


def assert_sound(result: Any) -> None:
    """Finite, or NaN with a note that says why; what it says of itself is printable."""
    notes = tuple(getattr(result, "notes", ()) or ()) + tuple(getattr(result, "left_out", {}) or ())
    for path, value in leaves(result):
        if path in ("value", "values") and not np.all(np.isfinite(np.asarray(value, dtype=float))):
            assert notes, f"{path} is {value}, and no note says why"


def leaves(result: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, and the texts that count, of a result, by where they stand."""
    if isinstance(result, np.ndarray | torch.Tensor) and str(result.dtype) != "object":
        result = result.tolist()
    if isinstance(result, bool | np.bool_ | int | float | np.number):
        yield path, float(result)
    elif isinstance(result, str):
        if path.endswith(TEXTS):
            yield path, result
    elif isinstance(result, Mapping):
        own = path.endswith("per_environment")  # by label, which may be written otherwise
        for name, value in {
            place if own else name: value for place, (name, value) in enumerate(result.items())
        }.items():
            if name not in NOT_COMPARED:
                yield from leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(result, list | tuple):
        if result and all(isinstance(value, int | float) for value in result):
            yield path, [math.nan if value is None else float(value) for value in result]
        else:
            for place, value in enumerate(result):
                yield from leaves(value, f"{path}[{place}]")
    else:
        yield from _leaves_of_object(result, path)


def _leaves_of_object(result: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(result, np.ndarray):
        yield from leaves([value if isinstance(value, str | int | float) else str(value) for value in result], path)
    elif isinstance(result, iv.DensityRatio):
        yield from leaves({"values": result.at_rows}, path)
    elif isinstance(result, iv.Environments):
        weight = [] if result.weight is None else result.weight
        held = {"values": result.X, "y": [] if result.y is None else result.y, "weight": weight}
        yield from leaves({**held, "sizes": result.sizes}, path)
    elif isinstance(result, iv.datasets.Dataset):
        held = {"values": np.asarray(result.X), "y": np.asarray(result.y)}
        yield from leaves(held, path)
    elif isinstance(result, iv.LinearHead):
        yield from leaves({"values": result.weight, "bias": result.bias}, path)
    elif hasattr(result, "to_dict") and dataclasses.is_dataclass(result):
        yield from leaves(result.to_dict(), path)
    elif result is not None:
        yield f"{path}<{type(result).__name__}>", 0.0
