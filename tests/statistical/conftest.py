"""Whatever stands in this folder is a simulation, and runs on one thread."""

from __future__ import annotations

from pathlib import Path

import pytest

import invariscope.rows.blocks


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small data sets by the thousand: starting threads would take most of the time. Results do not depend on it."""
    monkeypatch.setattr(invariscope.rows.blocks, "workers", lambda: 1)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.statistical)
