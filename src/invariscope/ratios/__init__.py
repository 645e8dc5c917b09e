"""Density ratios between environments, in log space, with overlap diagnostics.

The function ``density_ratio`` is ``invariscope.density_ratio``: here that name is the module.
"""

from invariscope.ratios.density_ratio import DensityRatio

__all__ = ["DensityRatio"]
