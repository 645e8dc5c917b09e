"""What every command is tested with."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest


@pytest.fixture(autouse=True)
def _no_set_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test runners say how wide their own output is to be; commands are not theirs."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hospitals: pd.DataFrame) -> Path:
    """The current folder, with the test file's own ``hospitals`` in it as `h.csv`."""
    monkeypatch.chdir(tmp_path)
    hospitals.to_csv("h.csv", index=False)
    return tmp_path
