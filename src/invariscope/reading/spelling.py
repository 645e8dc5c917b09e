"""Options as the user typed them: ``env_bins=`` in Python, ``--env-bins`` in a shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spelling:
    """How messages name an option, so that their remedy can be typed as it stands.

    >>> PYTHON("env_bins"), SHELL("env_bins"), PYTHON("missing", "drop-rows"), SHELL("missing", "drop-rows")
    ('env_bins=', '--env-bins', 'missing="drop-rows"', '--missing drop-rows')
    """

    shell: bool = False

    def __call__(self, option: str, value: Any = None) -> str:
        if self.shell:
            name = f"--{option.replace('_', '-')}"
            return name if value is None else f"{name} {value}"
        quotes = '"' if isinstance(value, str) else ""
        return f"{option}={'' if value is None else f'{quotes}{value}{quotes}'}"


PYTHON = Spelling()
SHELL = Spelling(shell=True)
