"""DRIC and CRIC as published, and the information bound that comes with them."""
