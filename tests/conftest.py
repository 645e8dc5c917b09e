"""Options and fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# pytest-xdist already fills the cores with one process each: threads inside them would only get in each other's way.
# This must happen before numpy is imported anywhere, since BLAS reads these variables once.
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"

import pytest

import invariscope.rows.blocks

if "PYTEST_XDIST_WORKER" in os.environ:  # our own threads as well; tests of threads say how many
    invariscope.rows.blocks.workers = lambda: 1

ROOT = Path(__file__).resolve().parents[1]
DATA_VARIABLE = "INVARISCOPE_DATA"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=0, help="seed of every random test (default 0)")
    parser.addoption("--calibration", action="store_true", help="only the simulations that take minutes each")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # One option steers all randomness: hypothesis draws its examples from the same seed.
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(config.getoption("--seed"))


def pytest_report_header(config: pytest.Config) -> list[str]:
    folder = data_folder()
    return [f"seed: {config.getoption('--seed')}", f"data: {folder}{'' if folder.is_dir() else ' (absent)'}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Simulations that take minutes run by themselves, with ``--calibration``, and not beside the other tests."""
    wanted = bool(config.getoption("--calibration"))
    others = [item for item in items if (item.get_closest_marker("calibration") is not None) != wanted]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if (item.get_closest_marker("calibration") is not None) == wanted]


def data_folder() -> Path:
    """The folder of real data sets: $INVARISCOPE_DATA, or shared/data beside the repository."""
    return Path(os.environ.get(DATA_VARIABLE) or ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The number given as --seed; a test must pass whatever it is."""
    return int(request.config.getoption("--seed"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets; the test is skipped where there is none."""
    folder = data_folder()
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} does not exist (set {DATA_VARIABLE})")
    return folder


@pytest.fixture(scope="session")
def data_file(data_dir: Path) -> Callable[[str], Path]:
    """``data_file("bike_sharing/hour.csv")`` is the path of that file; the test is skipped where it is absent."""

    def find(name: str) -> Path:
        path = data_dir / name
        if not path.is_file():
            pytest.skip(f"no real data: {path} does not exist (set {DATA_VARIABLE})")
        return path

    return find


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests write to devices; broken code, run by root, would put a plain file in their place, for everybody."""
    replace = os.replace

    def guarded(source: Any, target: Any, **options: Any) -> None:
        name = os.path.abspath(os.fsdecode(target))
        assert not name.startswith(("/dev/", "/proc/", "/sys/")) or name.startswith("/dev/shm/"), f"{name} would go"
        replace(source, target, **options)

    monkeypatch.setattr(os, "replace", guarded)
