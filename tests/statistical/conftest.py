"""Simulations run on one thread."""

from __future__ import annotations

import pytest

import invariscope.rows.blocks


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small data sets by the thousand: starting threads would take most of the time. Results do not depend on it."""
    monkeypatch.setattr(invariscope.rows.blocks, "workers", lambda: 1)
