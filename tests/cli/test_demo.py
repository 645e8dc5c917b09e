"""`invariscope demo` ends with a page, with or without the network."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from invariscope.cli import main
from invariscope.datasets import DataUnavailable, demonstrations


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bikes_at_hand(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The bike-sharing data in the user's folder: nothing is downloaded."""
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_file("bike_sharing/hour.csv").parents[1]))


def demo(*options: str) -> Result:
    return CliRunner().invoke(main, ["demo", *options], catch_exceptions=False)


@pytest.mark.slow  # 17,000 real rows; the demo offline is quick
@pytest.mark.usefixtures("bikes_at_hand")
def test_bikes_by_season() -> None:
    start = time.perf_counter()
    done = demo()
    assert time.perf_counter() - start < 60
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Trained on 2011, 8,645 hours; audited on 2012, 8,734 hours, by season." in done.stdout
    assert "8,734 rows · 4 environments" in done.stdout
    for season in ("winter", "spring", "summer", "fall"):
        assert re.search(rf"^ +{season} +2,\d\d\d ", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("\nPage: audit.html\n")
    page = Path("audit.html").read_text(encoding="utf-8")
    for name in ("season", "log rentals", "temperature", "8:00 on working days"):
        assert name in page
    assert [path.name for path in Path().iterdir()] == ["audit.html"]


def test_offline_uses_the_bundled_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrations, "bike_sharing", lambda **options: pytest.fail("asked for the bikes"))
    done = demo("--offline", "--html", "digits.html")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Trained on 899 images; audited on 898 others" in done.stdout
    assert "They disagree mostly about red." in done.stdout
    assert done.stdout.endswith("\nPage: digits.html\n")
    assert "ink in row 2, column 3" in Path("digits.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_digits_when_the_bikes_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**options: object) -> None:
        raise DataUnavailable("hour.csv could not be downloaded: no network.\nTo get it by hand: ...")

    monkeypatch.setattr(demonstrations, "bike_sharing", unreachable)
    done = demo()
    assert done.exit_code == 0
    assert done.stdout.startswith(
        "hour.csv could not be downloaded: no network.\nSo here are the digits that come with scikit-learn instead.\n"
    )
    assert "898 rows · 3 environments" in done.stdout
    assert Path("audit.html").is_file()


def test_bad_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = demo("--offline", "--html", "no/audit.html")
    assert done.exit_code == 2
    assert done.stderr == "InputError: --html no/audit.html: there is no folder no; make it first\n"
    monkeypatch.setenv("INVARISCOPE_DATA", str(tmp_path / "absent"))
    done = demo()
    assert done.exit_code == 2
    assert re.fullmatch(r"InputError: INVARISCOPE_DATA names .*absent, which is not a folder: .*\n", done.stderr)
