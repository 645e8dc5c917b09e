"""The last step of a model: linear heads, their losses and derivatives, fits."""

from invariscope.heads.linear_head import LinearHead

__all__ = ["LinearHead"]
