"""Density ratios between environments, in log space, with overlap diagnostics."""
