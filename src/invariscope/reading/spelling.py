"""Options as the user typed them: ``env_bins=`` in Python, ``--env-bins`` in a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spelling:
    """How messages name an option, so that their remedy can be typed as it stands.

    >>> PYTHON("env_bins"), SHELL("env_bins"), PYTHON("missing", "drop-rows"), SHELL("missing", "drop-rows")
    ('env_bins=', '--env-bins', 'missing="drop-rows"', '--missing drop-rows')
    >>> PYTHON("drop", ["ca", "thal"]), SHELL("drop", ["ca", "thal"]), SHELL("drop", "days in bed")
    ('drop=["ca", "thal"]', '--drop ca,thal', "--drop 'days in bed'")
    """

    shell: bool = False

    def __call__(self, option: str, value: Any = None) -> str:
        values = [] if value is None else value if isinstance(value, list) else [value]
        if self.shell:
            name = f"--{option.replace('_', '-')}"
            # a list is split at its commas, unless they stand in quotes; one value is taken whole
            texts = [f'"{text}"' if "," in str(text) and len(values) > 1 else str(text) for text in values]
            return f"{name} {shlex.quote(','.join(texts))}" if values else name
        shown = [_quoted(text) for text in values]
        joined = ", ".join(shown)
        return f"{option}={f'[{joined}]' if len(shown) > 1 else joined}"

    def each(self, option: str, values: Sequence[str]) -> str:
        """An option that a shell repeats for every value, because a value may have commas.

        >>> PYTHON.each("na", ["-", "n.d."]), SHELL.each("na", ["-", "n.d."])
        ('na=["-", "n.d."]', '--na - --na n.d.')
        """
        return " ".join(self(option, value) for value in values) if self.shell else self(option, list(values))


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


PYTHON = Spelling()
SHELL = Spelling(shell=True)
