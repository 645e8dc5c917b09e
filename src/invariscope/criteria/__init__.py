"""Criteria: one file each, a pure function from arrays to a frozen result, registered by one decorator."""

from invariscope.criteria.registry import CRITERIA, Criterion, criterion

__all__ = ["CRITERIA", "Criterion", "criterion"]
