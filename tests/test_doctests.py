"""Examples in docstrings run as tests (`--doctest-modules` in pyproject.toml); here: none of them is switched off."""

from __future__ import annotations

from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "invariscope"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_example_is_skipped(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "+SKIP" not in text
    assert "__doctest_skip__" not in text


def test_source_is_collected(pytestconfig: pytest.Config) -> None:
    assert "src/invariscope" in pytestconfig.getini("testpaths")
    assert pytestconfig.getoption("doctestmodules")
    assert not pytestconfig.getoption("doctest_ignore_import_errors")
