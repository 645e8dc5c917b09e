"""Rows of data: tables, environments and targets checked at the door, passes over them, sums of them, resampling."""
