"""Outputs: whole or not at all, through links, into pipes and devices, and one sentence where that cannot be."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import invariscope as iv
from invariscope import files
from invariscope.errors import readable
from invariscope.files import place_of, write_atomically

#: In a process of its own nothing is renamed: broken code, run by root, would put a plain file in place of a device.
WRITE = (
    "import os, sys; os.replace = None; from invariscope.files import write_atomically; "
    "write_atomically(sys.argv[1], sys.argv[2])"
)
#: Writes as usual, but says so just before the new file would take its name, and waits for a line.
PAUSING = """
import os, sys
from invariscope import files
from invariscope.errors import readable
replace = os.replace
def waiting(source, target):
    print("written", flush=True)
    sys.stdin.readline()
    replace(source, target)
os.replace = waiting
files.write_atomically(sys.argv[1], "of the other process")
"""


def python(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- what stays as it was --------------------------------------------------------------------------------------------
def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "page.html"
    target.write_text("old")
    link, chain, ahead = (tmp_path / name for name in ("link", "chain", "ahead"))
    link.symlink_to("real/page.html")
    chain.symlink_to(link)
    ahead.symlink_to("real/new.html")  # leads to a file that is yet to come
    for path in (link, chain, ahead):
        assert write_atomically(path, f"by {path.name}") == path
        assert path.is_symlink()
        assert path.read_text() == f"by {path.name}"
    assert target.read_text() == "by chain"
    assert names_in(tmp_path / "real") == ["new.html", "page.html"]
    assert names_in(tmp_path) == ["ahead", "chain", "link", "real"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755, 0o444])
def test_permissions_stay_and_new_files_follow_the_umask(tmp_path: Path, mode: int) -> None:
    path, new = tmp_path / "a.json", tmp_path / "b.json"
    path.write_text("old")
    path.chmod(mode)
    before = os.umask(0o027)
    try:
        write_atomically(path, "new")
        write_atomically(new, "new")
    finally:
        os.umask(before)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_nobody_else_reads_a_secret_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o600)
    with files.appearing(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays_where_root_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    os.chown(path, 1234, 4321)
    write_atomically(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid, path.read_text()) == (1234, 4321, "new")


# --- processes that die, and others that do not ----------------------------------------------------------------------
def test_what_a_killed_process_leaves_is_swept_up_at_the_next_write(tmp_path: Path) -> None:
    path, others = tmp_path / "page.html", [".page.html.0a1b2c3d.tmp", ".page.html.tmp", "page.html~"]
    for name in (path.name, *others):
        (tmp_path / name).write_text("old")
    with python(PAUSING, str(path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left = set(names_in(tmp_path)) - {path.name, *others}
    assert len(left) == 1
    assert path.read_text() == "old"
    write_atomically(tmp_path / "another.html", "has nothing to do with it")
    assert left < set(names_in(tmp_path))
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert names_in(tmp_path) == sorted([path.name, "another.html", *others])


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with python(PAUSING, str(path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        write_atomically(path, "of this process")
        assert path.read_text() == "of this process"
        assert len(names_in(tmp_path)) == 2
        process.communicate(b"\n", timeout=30)
    assert process.returncode == 0
    assert path.read_text() == "of the other process"
    assert names_in(tmp_path) == ["page.html"]


def test_a_name_taken_away_in_the_moment_it_was_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may sweep a file between its making and its locking, and then holds the lock for a moment."""
    path, taken = tmp_path / "a", []
    flock = files.fcntl.flock

    def robbed(descriptor: int, how: int) -> None:
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()
        flock(descriptor, how)

    monkeypatch.setattr(files.fcntl, "flock", robbed)
    with files.appearing(path) as temporary:
        assert len(taken) == 1
        assert temporary != taken[0]
        with temporary.open("r+b") as stream, pytest.raises(BlockingIOError):
            flock(stream, files.fcntl.LOCK_EX | files.fcntl.LOCK_NB)  # it is held
        temporary.write_text("new")
    assert (path.read_text(), names_in(tmp_path)) == ("new", ["a"])


# --- what is open already, pipes and devices ------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_has_names(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    print("before")
    assert write_atomically(name, "Zürich\n") == Path(name)
    print("after")
    assert capsys.readouterr().out == "before\nZürich\nafter\n"


def test_standard_output_is_written_into_where_it_is_a_file_or_a_link_leads_to_it(tmp_path: Path) -> None:
    out, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to("/dev/stdout")
    for name in ("-", "/dev/stdout", str(link)):
        with out.open("wb") as stream:
            stream.write(b"first, ")
            stream.flush()
            number = out.stat().st_ino
            subprocess.run([sys.executable, "-c", WRITE, name, "second"], stdout=stream, check=True)
        assert out.read_bytes() == b"first, second"
        assert out.stat().st_ino == number  # what the shell has opened, not another file of its name
        assert link.is_symlink()
    assert names_in(tmp_path) == ["link", "out"]


def test_what_standard_output_cannot_take_is_told_once() -> None:
    """Nothing is left in a buffer that Python would try to write again when it ends."""
    code = (
        WRITE.replace("; write_atomically", "\ntry: write_atomically")
        + "\nexcept ValueError as error: sys.exit(f'{error}')"
    )
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", code, "-", "x"]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, timeout=60)
    assert (done.returncode, done.stderr) == (1, "- cannot be written: No space left on device; choose another place\n")


def test_any_open_descriptor_is_written_into(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        write_atomically(f"/dev/fd/{writing}", "through a pipe")
        assert os.read(reading, 100) == b"through a pipe"
    finally:
        os.close(reading)
        os.close(writing)


def test_no_test_puts_a_file_in_place_of_a_device(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(AssertionError, match="/dev/of-no-such-name would go"):
        os.replace(tmp_path / "a", "/dev/of-no-such-name")
    assert not Path("/dev/of-no-such-name").exists()


def test_devices_are_written_into() -> None:
    before = os.stat("/dev/null")
    assert write_atomically("/dev/null", "x" * 100_000) == Path("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.stat("/dev/null").st_ino == before.st_ino


def test_a_pipe_takes_everything_if_someone_reads_it(tmp_path: Path) -> None:
    pipe, content, arrived = tmp_path / "pipe", "0123456789" * 50_000, []
    os.mkfifo(pipe)
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # a reader is there before anybody writes
    kept = os.open(pipe, os.O_WRONLY)  # without any writer, a reader would be at the end at once
    os.set_blocking(opened, True)

    def read() -> None:
        with os.fdopen(opened) as stream:
            arrived.append(stream.read())

    reader = threading.Thread(target=read)
    reader.start()
    write_atomically(pipe, content)
    os.close(kept)
    reader.join(timeout=30)
    assert arrived == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_without_a_reader_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(iv.InputError) as refusal:
        write_atomically(pipe, "x")
    assert str(refusal.value) == f"{pipe} is a pipe that nobody reads: start its reader first, or name a file"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_reader_who_stops_reading_is_not_waited_for_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    try:
        with pytest.raises(iv.InputError) as refusal:
            write_atomically(pipe, "x" * 1_000_000)
    finally:
        os.close(opened)
    assert str(refusal.value) == f"{pipe} cannot be written: nothing was read from it for 0.05 s; name a file instead"


def test_a_reader_who_goes_away_is_told(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with pytest.raises(iv.InputError, match=rf"^/dev/fd/{writing} cannot be written: Broken pipe"):
            write_atomically(f"/dev/fd/{writing}", "x")
    finally:
        os.close(writing)


# --- refusals --------------------------------------------------------------------------------------------------------
def a_folder(at: Path) -> Path:
    return at


def a_loop(at: Path) -> Path:
    (at / "one").symlink_to("two")
    (at / "two").symlink_to("one")
    return at / "one"


def a_socket(at: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(at / "socket"))
    return at / "socket"


def under_a_file(at: Path) -> Path:
    (at / "file").write_text("old")
    return at / "file" / "page.html"


def a_link_into_nothing(at: Path) -> Path:
    (at / "link").symlink_to("nowhere/page.html")
    return at / "link"


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "folder": (a_folder, "{path} is a folder: name a file in it"),
    "loop": (a_loop, "{path} is a link that leads back to itself: name a file"),
    "socket": (a_socket, "{path} is a socket: name a file, or - for standard output"),
    "no folder": (lambda at: at / "no" / "a", "{path}: there is no folder {at}/no; make it first"),
    "link into nothing": (a_link_into_nothing, "{path}: there is no folder {at}/nowhere; make it first"),
    "under a file": (under_a_file, "{path}: {at}/file is a file, not a folder; choose another place"),
    "300 letters": (lambda at: at / ("n" * 300), "{path}: the name is too long; choose a shorter one"),
    "zero": (lambda at: at / "a\0b", "{path}: no file can have this name; choose another"),
    "surrogate": (lambda at: at / "a\ud800b", "{path}: no file can have this name; choose another"),
    "full": (lambda at: Path("/dev/full"), "{path} cannot be written: No space left on device; choose another place"),
    "closed": (lambda at: Path("/dev/fd/987"), "{path} cannot be written: Bad file descriptor; choose another place"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_written_is_told_in_one_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    make, sentence = REFUSED[kind]
    path = make(tmp_path)
    before = names_in(tmp_path)
    with pytest.raises(iv.InputError) as refusal:
        write_atomically(path, "x")
    assert str(refusal.value) == readable(sentence.format(path=path, at=tmp_path))
    assert names_in(tmp_path) == before


def test_names_of_255_bytes_are_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127 + "x")
    write_atomically(path, "a name as long as can be")
    assert names_in(tmp_path) == [path.name]


def test_following_the_remedies_leads_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "no").mkdir()
    for path in (tmp_path / "no" / "a", tmp_path / "no" / "b", tmp_path / ("n" * 200)):
        assert write_atomically(path, "x").read_text() == "x"


def test_a_folder_without_permission() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may write anywhere
        try:
            with pytest.raises(iv.InputError) as refusal:
                write_atomically(f"{folder}/a", "x")
        finally:
            os.seteuid(user)
    sentence = f"{folder}/a: you may not write into the folder {folder}; choose another place"
    assert str(refusal.value) == sentence


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(iv.InputError, match=re.escape(f"{path} cannot be written: No space left on device")):
        write_atomically(path, "new")
    assert (path.read_text(), names_in(tmp_path)) == ("old", ["a"])


def test_text_that_utf8_cannot_hold_is_escaped(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", '"Z\u00fcrich \ud800"')
    assert (tmp_path / "a").read_bytes() == '"Zürich \\ud800"'.encode()


def test_two_names_of_one_place_are_known(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert place_of(tmp_path / "link").same_as(place_of(tmp_path / "file"))
    assert place_of("-").same_as(place_of("/dev/stdout"))
    assert not place_of("-").same_as(place_of("/dev/fd/2"))
    assert not place_of(tmp_path / "file").same_as(place_of(tmp_path / "other"))
    assert not place_of("/dev/null").same_as(place_of("/dev/null"))  # it holds any number of files


@pytest.mark.parametrize("path", [5, None, b"audit.json"], ids=repr)
def test_what_is_no_path_is_refused(path: object) -> None:
    sentence = f'the output is {path!r}: give the path of a file, such as "audit.json"'
    with pytest.raises(iv.InputError, match=f"^{re.escape(sentence)}$"):
        write_atomically(path, "text")  # type: ignore[arg-type]
