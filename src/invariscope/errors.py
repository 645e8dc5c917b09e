"""The one exception a user meets when an input cannot be used."""

from __future__ import annotations


class InputError(ValueError):
    """Input that cannot be used: the message names the place (column, environment, count) and the remedy."""
