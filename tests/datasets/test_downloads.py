"""Downloads from a server that breaks off, lies, is slow or absent: what has arrived is kept and never mixed up."""

from __future__ import annotations

import hashlib
import http.server
import io
import re
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from invariscope.datasets import downloads, fetch
from invariscope.datasets.downloads import DataUnavailable
from invariscope.datasets.fetch import DataFile, locate, locate_all
from invariscope.datasets.sources import Url

CONTENT = bytes(range(256)) * 2000


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files``; how well is up to the other attributes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/data.bin": CONTENT}
        self.asked: list[tuple[str, str]] = []
        self.ranges = True
        self.wrong_range = False
        self.cut_after: int | None = None  # bytes of one answer, then the connection ends
        self.cuts = 10**6  # how many answers are cut
        self.silence = 0.0  # seconds without a byte, in the middle
        self.chunk_delay = 0.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        asked_range = self.headers.get("Range", "")
        server.asked.append((self.path, asked_range))
        self.close_connection = True
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if asked_range and server.ranges:
            start = int(asked_range.removeprefix("bytes=").rstrip("-")) - (10 if server.wrong_range else 0)
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        body = content[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.cut_after is not None and server.cuts > 0:
            server.cuts -= 1
            body = body[: server.cut_after]
        half = len(body) // 2
        try:
            self.wfile.write(body[:half])
            time.sleep(server.silence)
            for at in range(half, len(body), 20_000):
                self.wfile.write(body[at : min(at + 20_000, len(body))])
                time.sleep(server.chunk_delay)
        except OSError:
            pass  # the client has gone

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(downloads, "_unreachable", set())
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(fetch, "cache_folder", lambda: folder)
    monkeypatch.delenv(fetch.DATA_FOLDER, raising=False)
    return folder


def file_at(server: Server, name: str = "data.bin", content: bytes = CONTENT) -> DataFile:
    return DataFile(
        f"tiny/{name}", hashlib.sha256(content).hexdigest(), len(content), (Url(f"{server.address}/{name}"),)
    )


def kept(cache: Path, content: bytes) -> Path:
    path = cache / "tiny/data.bin.part"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_download(server: Server, cache: Path) -> None:
    said: list[str] = []
    found = locate(file_at(server), said.append)
    assert found.path.read_bytes() == CONTENT
    assert files_in(cache) == ["tiny/data.bin"]
    assert server.asked == [("/data.bin", "")]
    assert said == ["downloading data.bin"]


def test_how_far_it_is_is_shown(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    downloads.download(f"{server.address}/data.bin", tmp_path / "a", tmp_path / "a.part", lambda *how: seen.append(how))
    assert seen[0] == ("downloading data.bin", 0, len(CONTENT))
    assert seen[-1] == ("downloading data.bin", len(CONTENT), len(CONTENT))
    arrived = [step[1] for step in seen]
    assert arrived == sorted(arrived)
    assert len(arrived) > 5


def test_a_member_of_a_zip_archive(server: Server, cache: Path) -> None:
    """Both members come out of one download, and the checksum is that of the member."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/one.csv", b"one")
        archive.writestr("two.csv", b"two")
    server.files["/all.zip"] = packed.getvalue()
    source = f"{server.address}/all.zip"
    files = [
        DataFile(f"tiny/{name}", hashlib.sha256(content).hexdigest(), 3, (Url(source, member=member),))
        for name, content, member in (("1.csv", b"one", "folder/one.csv"), ("2.csv", b"two", "two.csv"))
    ]
    assert [found.path.read_bytes() for found in locate_all(files)] == [b"one", b"two"]
    assert len(server.asked) == 1
    assert files_in(cache) == ["tiny/1.csv", "tiny/2.csv"]


# --- going on where it stopped --------------------------------------------------------------------------------------
def test_a_cut_connection_is_taken_up_again(server: Server, cache: Path) -> None:
    server.cut_after, server.cuts = 100_000, 2
    assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["", "bytes=100000-", "bytes=200000-"]
    assert files_in(cache) == ["tiny/data.bin"]


def test_what_has_arrived_is_kept_for_the_next_run(server: Server, cache: Path) -> None:
    server.cut_after = 50_000
    with pytest.raises(DataUnavailable, match=r"broke off after 150,000 bytes \(the connection was cut"):
        locate(file_at(server))
    assert files_in(cache) == ["tiny/data.bin.part"]
    assert (cache / "tiny/data.bin.part").read_bytes() == CONTENT[:150_000]
    server.cut_after = None
    assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert server.asked[-1] == ("/data.bin", "bytes=150000-")
    assert files_in(cache) == ["tiny/data.bin"]


def test_even_a_few_bytes_are_kept(server: Server, cache: Path) -> None:
    server.cut_after = 10
    with pytest.raises(DataUnavailable, match="broke off after 30 bytes"):
        locate(file_at(server))
    assert (cache / "tiny/data.bin.part").read_bytes() == CONTENT[:30]


def test_a_killed_process_is_taken_up_again(server: Server, cache: Path) -> None:
    server.chunk_delay = 0.1
    file = file_at(server)
    program = f"""
from pathlib import Path
from invariscope.datasets import fetch
from invariscope.datasets.sources import Url
fetch.cache_folder = lambda: Path({str(cache)!r})
fetch.locate(fetch.DataFile({file.path!r}, {file.sha256!r}, {file.size}, (Url({file.sources[0].url!r}),)))
"""
    partial = cache / "tiny/data.bin.part"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        for _ in range(600):
            if partial.exists() and partial.stat().st_size > 0:
                break
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    already = partial.stat().st_size
    assert 0 < already < len(CONTENT)
    server.chunk_delay = 0.0
    assert locate(file).path.read_bytes() == CONTENT
    assert server.asked[-1] == ("/data.bin", f"bytes={already}-")


def test_a_server_that_ignores_ranges_sends_all_of_it_again(server: Server, cache: Path) -> None:
    kept(cache, CONTENT[:1000])
    server.ranges = False
    assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["bytes=1000-"]


def test_a_server_that_sends_another_range_is_asked_for_all_of_it(server: Server, cache: Path) -> None:
    kept(cache, CONTENT[:1000])
    server.wrong_range = True
    assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["bytes=1000-", ""]


def test_a_kept_part_as_long_as_the_file_or_longer_is_thrown_away(server: Server, cache: Path) -> None:
    kept(cache, b"x" * len(CONTENT))
    assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [f"bytes={len(CONTENT)}-", ""]


def test_a_kept_part_of_something_else_is_noticed_and_downloaded_anew(server: Server, cache: Path) -> None:
    kept(cache, b"from another version of the file")
    assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["bytes=32-", ""]
    assert files_in(cache) == ["tiny/data.bin"]


def test_anew_only_once(server: Server, cache: Path) -> None:
    kept(cache, b"from another version of the file")
    server.files["/data.bin"] = CONTENT[::-1]
    with pytest.raises(DataUnavailable, match="was refused"):
        locate(file_at(server))
    assert len(server.asked) == 2
    assert files_in(cache) == []


def test_a_part_that_another_process_is_writing_is_left_alone(server: Server, cache: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="files are not locked on this system")
    part = kept(cache, CONTENT[:1000])
    with part.open("ab") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert part.read_bytes() == CONTENT[:1000]
    assert [asked for _, asked in server.asked] == [""]


def test_a_part_that_has_been_moved_away_is_not_written_to(tmp_path: Path) -> None:
    """The other process may finish between our opening the file and our locking it."""
    part = tmp_path / "data.bin.part"
    with part.open("ab") as stream:
        part.rename(tmp_path / "data.bin")
        assert not downloads._lock(stream, part)
        part.write_bytes(b"begun by a third process")
        assert not downloads._lock(stream, part)


def test_without_file_locks_downloads_start_anew(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "fcntl", None)  # as on Windows
    server.cut_after, server.cuts = 100_000, 1
    assert locate(file_at(server)).path.read_bytes() == CONTENT
    assert files_in(cache) == ["tiny/data.bin"]


def test_two_threads_at_once(server: Server, cache: Path) -> None:
    server.chunk_delay = 0.01
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(locate(file_at(server)).path.read_bytes())) for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 3
    assert files_in(cache) == ["tiny/data.bin"]


# --- what cannot be had ---------------------------------------------------------------------------------------------
def test_wrong_bytes_are_refused_and_leave_nothing(server: Server, cache: Path) -> None:
    server.files["/data.bin"] = b"<html>please log in to this network</html>"
    with pytest.raises(DataUnavailable, match=r"the data.bin from 127.0.0.1:\d+ was refused") as caught:
        locate(file_at(server))
    assert f"download {server.address}/data.bin and save it as {cache / 'tiny/data.bin'}" in str(caught.value)
    assert files_in(cache) == []
    assert len(server.asked) == 1


def test_a_file_that_is_not_there(server: Server, cache: Path) -> None:
    with pytest.raises(DataUnavailable, match=r"answered 404 \(Not Found\) for http://127"):
        locate(file_at(server, "absent.bin"))
    assert files_in(cache) == []
    assert locate(file_at(server)).path.read_bytes() == CONTENT  # the host itself is not given up


def test_a_server_that_falls_silent(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "STALL", 0.2)
    server.silence = 1.0
    with pytest.raises(DataUnavailable, match="timed out"):
        locate(file_at(server))
    assert len(server.asked) == 1  # waiting again would double the wait


def test_a_slow_server_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to connect does not limit how long the bytes may take."""
    monkeypatch.setattr(downloads, "CONNECT", 0.3)
    server.silence = 0.8
    assert locate(file_at(server)).path.read_bytes() == CONTENT


def test_a_host_that_cannot_be_reached_is_tried_once(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # taken, but nobody listens
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        files = [DataFile(f"tiny/{n}", "0" * 64, 3, (Url(f"{address}/{n}"),)) for n in "ab"]
        with pytest.raises(DataUnavailable, match=r"could not be reached \(.*refused"):
            locate(files[0])
        monkeypatch.setattr(downloads, "_opener", lambda: pytest.fail("the host was tried again"))
        with pytest.raises(DataUnavailable, match="could not be reached a moment ago"):
            locate(files[1])
    assert files_in(cache) == []


def test_only_web_addresses(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for download")
    with pytest.raises(DataUnavailable, match="no https address"):
        downloads.download(secret.as_uri(), tmp_path / "a", tmp_path / "a.part", lambda *how: None)


def test_full_disk_is_told(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(downloads.shutil, "move", full)
    with pytest.raises(DataUnavailable, match=re.escape(f"the cache folder {cache / 'tiny'} cannot be written")):
        locate(file_at(server))
