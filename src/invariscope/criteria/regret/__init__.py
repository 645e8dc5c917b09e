"""Shared-head regret: what one head for all environments costs over heads of their own, and its score test."""
