"""The last step of a model: linear heads, their losses and derivatives, fits."""
