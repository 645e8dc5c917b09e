"""Bring a file from the web, or take it out of the archive it travels in; nothing is installed, nothing is run.

A download goes on where a broken one stopped, and waits for no host twice.
"""

from __future__ import annotations

import http.client
import io
import lzma
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from invariscope.progress import Show

try:
    import fcntl
except ImportError:  # Windows: downloads work, but a broken one starts anew
    fcntl = None  # type: ignore[assignment]

#: Seconds to wait for a connection, and for the next bytes on one.
CONNECT, STALL = 10, 30
#: How often a connection that breaks is taken up again before giving up.
TRIES = 3

#: Hosts that could not be reached in this process: behind a firewall, every further file would cost CONNECT seconds.
_unreachable: set[str] = set()

_AR_MAGIC = b"!<arch>\n"
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, KeyError, ValueError, OSError)
_AR_HEADER = 60  # bytes: name 16, time 12, owner 6, group 6, mode 8, size 10, end 2


class DataUnavailable(Exception):  # noqa: N818 - a state of the world, not a mistake of the user's
    """A data set that cannot be had on this machine right now; the message lists the steps to get it by hand."""


def download(url: str, target: Path, partial: Path, show: Show) -> None:
    """Bring the file at ``url`` to ``target``.

    What has arrived is kept as ``partial`` if the process is killed or the connection breaks; the next call asks the
    server for the rest only. Whether the parts fit is for the caller's checksum to say. That checksum is also why
    plain http is allowed: some home pages offer nothing else, and a file changed on the way is refused.

    Raises
    ------
    DataUnavailable : the host cannot be reached, has no such file, or the connection broke too often
    """
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http"):
        raise DataUnavailable(f"{url} is no https address")
    host = parts.netloc.rpartition("@")[2]
    if host in _unreachable:
        raise DataUnavailable(f"{host} could not be reached a moment ago")
    with partial.open("ab") if fcntl else nullcontext() as stream:
        if stream is None or not _lock(stream, partial):  # another process is at it: leave its file alone
            with target.open("ab") as own:
                _receive_all(url, host, own, show)
            return
        try:
            _receive_all(url, host, stream, show)
            stream.flush()
            shutil.move(partial, target)  # while locked: nobody else may touch it in between
        finally:
            stream.flush()
            if os.fstat(stream.fileno()).st_size == 0:
                partial.unlink(missing_ok=True)


def _receive_all(url: str, host: str, stream: IO[bytes], show: Show) -> None:
    for left in reversed(range(TRIES)):
        try:
            _receive(url, stream, show)
        except urllib.error.HTTPError as error:
            if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or stream.tell() == 0:
                raise DataUnavailable(f"{host} answered {error.code} ({error.reason}) for {url}") from error
            stream.truncate(0)  # what was kept is longer than the file, so it is not its beginning
        except urllib.error.URLError as error:
            _unreachable.add(host)
            raise DataUnavailable(f"{host} could not be reached ({error.reason})") from error
        except (OSError, http.client.HTTPException) as error:
            if left == 0 or isinstance(error, TimeoutError):
                raise DataUnavailable(
                    f"the download of {url} broke off after {stream.tell():,} bytes ({error}); "
                    f"the next attempt goes on from there"
                ) from error
        else:
            return
    raise DataUnavailable(f"{host} did not deliver {url}")


def _receive(url: str, stream: IO[bytes], show: Show) -> None:
    """One request: append what is missing to ``stream``."""
    start = stream.seek(0, os.SEEK_END)
    headers = {"User-Agent": "invariscope", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with _opener().open(urllib.request.Request(url, headers=headers), timeout=CONNECT) as response:
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            start = 0  # this server sends the whole file, whatever it is asked
            stream.truncate(0)
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else 0
        arrived, words = start, f"downloading {Path(urlsplit(url).path).name}"
        show(words, arrived, total)
        while chunk := response.read(1 << 16):
            stream.write(chunk)
            arrived += len(chunk)
            show(words, arrived, total)
    if arrived < total:
        raise http.client.HTTPException(f"the connection was cut, {total - arrived:,} bytes are missing")


def _lock(stream: IO[bytes], path: Path) -> bool:
    """Whether this process alone writes to the file; the lock goes with the process, even if that is killed."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())  # not moved away before it was locked
    except OSError:
        return False


class _Http(http.client.HTTPConnection):
    """A connection has CONNECT seconds to come about; after that, STALL seconds may pass without a byte."""

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(STALL)


class _Https(_Http, http.client.HTTPSConnection):
    """The same, encrypted."""


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Http, request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Https, request)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Handler)


# --- archives ---------------------------------------------------------------------------------------------------------
def member_of_zip(archive: Path, member: str) -> Path:
    """Write the member of a zip archive (a wheel is one) beside it, as ``member``."""
    with _damage_told(archive, member), zipfile.ZipFile(archive) as opened, opened.open(member) as inside:
        return _written(inside, archive)


def member_of_tar(archive: Path, member: str) -> Path:
    """Write the member of a tar archive, compressed in any way that this Python can read, beside it."""
    with _damage_told(archive, member), tarfile.open(archive) as opened:
        return _written_from_tar(opened, member, archive)


def member_of_deb(archive: Path, member: str) -> Path:
    """Write the member of a Debian package beside it: an ar archive that holds the files as ``data.tar.xz``."""
    with _damage_told(archive, member), archive.open("rb") as stream:
        if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
            raise ValueError("not a Debian package")
        while header := stream.read(_AR_HEADER):
            name, size = header[:16].decode("ascii").rstrip(" /"), int(header[48:58])
            if name.startswith("data.tar"):
                break
            stream.seek(size + size % 2, os.SEEK_CUR)  # entries start at even places
        else:
            raise ValueError("no data.tar inside")
        if name.rpartition(".")[2] not in tarfile.TarFile.OPEN_METH:
            raise DataUnavailable(
                f"{archive.name} is compressed as {name}, which this Python cannot read: unpack it with dpkg-deb -x"
            )
        with tarfile.open(fileobj=io.BytesIO(stream.read(size))) as opened:
            return _written_from_tar(opened, member, archive)


def _written_from_tar(opened: tarfile.TarFile, member: str, archive: Path) -> Path:
    for entry in opened:
        # only a plain file is data: folders and devices have no content, links could lead anywhere
        if entry.name.removeprefix("./") == member and entry.isfile():
            inside = opened.extractfile(entry)
            assert inside is not None  # a plain file always opens
            return _written(inside, archive)
    raise KeyError(member)


def _written(inside: IO[bytes], archive: Path) -> Path:
    target = archive.with_name("member")
    with target.open("wb") as out:
        shutil.copyfileobj(inside, out)
    return target


@contextmanager
def _damage_told(archive: Path, member: str) -> Iterator[None]:
    """A damaged archive is removed, so that the next attempt does not meet it again."""
    try:
        yield
    except _DAMAGE as error:
        archive.unlink(missing_ok=True)
        raise DataUnavailable(f"{archive.name} is damaged or lacks {member} ({error})") from error
