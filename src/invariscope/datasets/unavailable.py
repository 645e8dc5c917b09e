"""What is raised when a data file cannot be had."""

from __future__ import annotations


class DataUnavailable(Exception):  # noqa: N818 - a state of the world, not a mistake of the user's
    """A data set that cannot be had on this machine right now; the message lists the steps to get it by hand."""
