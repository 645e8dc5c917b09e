"""Criteria: one file each, a pure function from arrays to a frozen result, registered by one decorator."""
