"""Rows of data: tables, environments and targets checked at the door, passes over them, sums of them, resampling."""

from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target, target_of

__all__ = ["Environments", "Target", "target_of"]
