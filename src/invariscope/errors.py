"""The one exception a user meets when an input cannot be used."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class InputError(ValueError):
    """Input that cannot be used: the message names the place (column, environment, count) and the remedy.

    ``environments`` are those that could be dropped to make it usable.
    """

    def __init__(self, message: str, *, environments: Iterable[Hashable] = ()) -> None:
        super().__init__(message)
        self.environments = tuple(environments)
