"""Take one file out of a zip archive, a tar archive or a Debian package; nothing else is written, nothing is run."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from invariscope.datasets.unavailable import DataUnavailable

_AR_MAGIC = b"!<arch>\n"
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, KeyError, ValueError, OSError)
_AR_HEADER = 60  # bytes: name 16, time 12, owner 6, group 6, mode 8, size 10, end 2


def member_of_zip(archive: Path, member: str, target: Path) -> None:
    """Write the member of a zip archive (a wheel is one) to ``target``."""
    with _damage_told(archive, member), zipfile.ZipFile(archive) as opened, opened.open(member) as inside:
        _write(inside, target)


def member_of_tar(archive: Path, member: str, target: Path) -> None:
    """Write the member of a tar archive, compressed in any way that this Python can read, to ``target``."""
    with _damage_told(archive, member), tarfile.open(archive) as opened:
        _write_from_tar(opened, member, target)


def member_of_deb(archive: Path, member: str, target: Path) -> None:
    """Write the member of a Debian package to ``target``: an ar archive that holds the files as ``data.tar.xz``."""
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
            _write_from_tar(opened, member, target)


def _write_from_tar(opened: tarfile.TarFile, member: str, target: Path) -> None:
    for entry in opened:
        # only a plain file is data: folders and devices have no content, links could lead anywhere
        if entry.name.removeprefix("./") == member and entry.isfile():
            inside = opened.extractfile(entry)
            assert inside is not None  # a plain file always opens
            _write(inside, target)
            return
    raise KeyError(member)


def _write(inside: IO[bytes], target: Path) -> None:
    with target.open("wb") as out:
        shutil.copyfileobj(inside, out)


@contextmanager
def _damage_told(archive: Path, member: str) -> Iterator[None]:
    """A damaged archive is removed, so that the next attempt does not meet it again."""
    try:
        yield
    except _DAMAGE as error:
        archive.unlink(missing_ok=True)
        raise DataUnavailable(f"{archive.name} is damaged or lacks {member} ({error})") from error
