"""Data drawn from a known law, with the truth about it."""
