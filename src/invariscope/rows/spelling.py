"""How users type options, in Python or in a shell: said once, by whoever reads what they typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spelling:
    """How messages name an option, ``env_bins=`` or ``--env-bins``, so that their remedy can be typed as it stands.

    >>> PYTHON("env_bins"), SHELL("env_bins"), PYTHON("missing", "drop-rows"), SHELL("missing", "drop-rows")
    ('env_bins=', '--env-bins', 'missing="drop-rows"', '--missing drop-rows')
    >>> PYTHON("trust_pickle", True), SHELL("trust_pickle", True)
    ('trust_pickle=True', '--trust-pickle')
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
            return f"{name} {shlex.quote(','.join(texts))}" if values and value is not True else name
        shown = ", ".join(f'"{text}"' if isinstance(text, str) else str(text) for text in values)
        return f"{option}={f'[{shown}]' if len(values) > 1 else shown}"

    def each(self, option: str, values: Sequence[str]) -> str:
        """An option that a shell repeats for every value, because a value may have commas.

        >>> PYTHON.each("na", ["-", "n.d."]), SHELL.each("na", ["-", "n.d."])
        ('na=["-", "n.d."]', '--na - --na n.d.')
        """
        return " ".join(self(option, value) for value in values) if self.shell else self(option, list(values))

    def name(self, option: str) -> str:
        """The bare name of an option inside a sentence.

        >>> PYTHON.name("n_boot"), SHELL.name("n_boot")
        ('n_boot', '--n-boot')
        """
        return self(option) if self.shell else option

    def call(self, function: str, arguments: str) -> str:
        """A function that a shell has no option for: called with its arguments, or said to be there.

        >>> PYTHON.call("iv.dric", "n_boot=99"), SHELL.call("iv.dric", "n_boot=99")
        ('iv.dric(n_boot=99)', 'iv.dric in Python')
        """
        return f"{function} in Python" if self.shell else f"{function}({arguments})"


PYTHON = Spelling()
SHELL = Spelling(shell=True)
_TYPED: ContextVar[Spelling] = ContextVar("spelling", default=PYTHON)


def spelling() -> Spelling:
    """How whoever reads the next sentence types options."""
    return _TYPED.get()


def spelt(option: str, value: Any = None) -> str:
    """An option as it is typed here and now.

    >>> with typed_in(SHELL):
    ...     spelt("n_boot", 999)
    '--n-boot 999'
    >>> spelt("n_boot", 999)
    'n_boot=999'
    """
    return spelling()(option, value)


@contextmanager
def typed_in(how: Spelling) -> Iterator[None]:
    """All sentences made meanwhile name options in this spelling."""
    token = _TYPED.set(how)
    try:
        yield
    finally:
        _TYPED.reset(token)
