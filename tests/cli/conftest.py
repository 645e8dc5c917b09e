"""What every command is tested with."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_set_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test runners say how wide their own output is to be; commands are not theirs."""
    monkeypatch.delenv("COLUMNS", raising=False)
