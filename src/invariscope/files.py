"""Files: written whole or not at all, through links and into pipes; safetensors read as arrays, never as code."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import select
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from invariscope.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: what a killed process leaves there stays
    fcntl = None  # type: ignore[assignment]

Value = TypeVar("Value")

STANDARD_OUTPUT = 1
STREAMS = {"-": 1, "/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self))/fd/(\d+)")
#: What is said of a name that leads nowhere.
NO_SUCH_FILE = "there is no such file; look at its name and folder"
#: Links to follow before they are taken for a circle, as Linux does.
LINKS = 40
#: Seconds to wait for the reader of a pipe, and bytes that a pipe with any room takes at once.
PATIENCE, AT_ONCE = 60.0, getattr(select, "PIPE_BUF", 512)
#: What else may bear a name, for the refusal.
KINDS = ((stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a disk"))


@dataclass(frozen=True)
class Place:
    """Where an output goes: a ``file``, links followed, that is replaced whole; or the open ``descriptor``, pipe or
    device that is written into."""

    given: Path
    file: Path | None = None
    descriptor: int | None = None

    def same_as(self, other: Place) -> bool:
        """Would one output overwrite the other, or run into it?"""
        mine, others = (self.file, self.descriptor), (other.file, other.descriptor)
        return mine == others != (None, None)


def path_of(path: str | os.PathLike[str]) -> Path:
    """The path that an output is given; what is none is refused.

    >>> path_of("audit.json").name
    'audit.json'
    """
    try:
        return Path(path)
    except TypeError:
        raise InputError(f'the output is {path!r}: give the path of a file, such as "audit.json"') from None


def place_of(path: str | os.PathLike[str]) -> Place:
    """Where an output of this name goes; refused, in a sentence that begins with the name, where it cannot."""
    given = path_of(path)
    with _told(given):
        descriptor = _descriptor(given)
        if descriptor is not None:
            return Place(given, descriptor=descriptor)
        try:
            mode = given.stat().st_mode
        except FileNotFoundError:  # or a link to where there is nothing yet
            mode = stat.S_IFREG
        if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
            return Place(given)
        if stat.S_ISDIR(mode):
            raise InputError(f"{given} is a folder: name a file in it")
        for is_kind, kind in KINDS:
            if is_kind(mode):
                raise InputError(f"{given} is {kind}: name a file, or - for standard output")
        file = Path(os.path.realpath(given))
        folder = file.parent
        if not folder.is_dir():
            shown = folder if given.is_symlink() else given.parent
            raise InputError(f"{given}: there is no folder {shown}; make it first")
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise InputError(f"{given}: you may not write into the folder {folder}; choose another place")
        return Place(given, file=file)


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file under a temporary name in its folder, then rename it: nobody ever sees half a file.

    A link stays, and so do the permissions of a file that is replaced. Standard output ("-"), open descriptors, pipes
    and devices are written into. What cannot be written is an :class:`InputError`. Halves of surrogate pairs, which
    UTF-8 cannot hold, are written as escapes (which is how JSON writes them).
    """
    place = place_of(path)
    encoded = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    with _told(place.given):
        if place.file is not None:
            with appearing(place.file) as temporary:
                temporary.write_bytes(encoded)
        elif place.descriptor == STANDARD_OUTPUT:
            _print(encoded)
        else:
            _pour(place, encoded)
    return place.given


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A temporary name to write under, which becomes ``target`` at the end, or nothing if that is not reached.

    A process that is killed leaves its temporary file behind; the next one that writes the same target takes it away.
    """
    _sweep(target)
    temporary, descriptor = _temporary(target)
    try:
        yield temporary
        _keep_permissions(temporary, target)
        if fcntl is None:
            os.close(descriptor)  # Windows renames no file that is open
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if fcntl is not None:
            os.close(descriptor)


# --- files ------------------------------------------------------------------------------------------------------
def _prefix(target: Path) -> str:
    """How temporary names for a target begin: short, however long its own name is, and nobody else's."""
    return f".invariscope-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}-"


def _temporary(target: Path) -> tuple[Path, int]:
    """A new file, open and locked for as long as this process lives."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    while True:
        temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}.tmp")
        descriptor = os.open(temporary, flags, 0o600 if target.exists() else 0o666)
        if fcntl is None:
            return temporary, descriptor
        with suppress(OSError):  # a file system without locks: nothing is swept up there either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # another process took it for a left-over before it was locked


def _sweep(target: Path) -> None:
    """Remove what killed processes left of this target: temporary files that nobody holds locked."""
    if fcntl is None:
        return
    for name in os.listdir(target.parent):
        if not (name.startswith(_prefix(target)) and name.endswith(".tmp")):
            continue
        with suppress(OSError):  # locked, somebody else's, or gone
            descriptor = os.open(target.with_name(name), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(target.with_name(name))
            finally:
                os.close(descriptor)


def _keep_permissions(temporary: Path, target: Path) -> None:
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    with suppress(AttributeError, PermissionError):  # Windows has no owners; others than root cannot give files away
        os.chown(temporary, old.st_uid, old.st_gid)
    temporary.chmod(stat.S_IMODE(old.st_mode))


# --- what is written into -----------------------------------------------------------------------------------------
def _descriptor(path: Path) -> int | None:
    """The number of the open descriptor that a path names, or that a link leads to."""
    name = os.fspath(path)
    for _ in range(LINKS):
        if name in STREAMS:
            return STREAMS[name]
        if known := DESCRIPTOR.fullmatch(name):
            return int(known[1])
        if not os.path.islink(name):
            return None
        name = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(name)))
    return None


def _print(content: bytes) -> None:
    """To standard output as Python has it, unbuffered: what fails is not tried again when Python ends."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # a notebook's
        sys.stdout.write(content.decode(errors="replace"))
        return
    unbuffered, rest = getattr(binary, "raw", binary), memoryview(content)
    while rest:
        rest = rest[unbuffered.write(rest) :]


def _pour(place: Place, content: bytes) -> None:
    """Into a descriptor, a pipe or a device; whoever should read there is not waited for without end."""
    try:
        if place.descriptor is not None:
            descriptor = os.dup(place.descriptor)
        else:
            descriptor = os.open(place.given, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO or not place.given.is_fifo():
            raise
        raise InputError(
            f"{place.given} is a pipe that nobody reads: start its reader first, or name a file"
        ) from error
    try:
        rest = memoryview(content)
        while rest:
            if not select.select([], [descriptor], [], PATIENCE)[1]:
                raise OSError(errno.ETIMEDOUT, f"nothing was read from it for {PATIENCE:g} s; name a file instead")
            rest = rest[os.write(descriptor, rest[:AT_ONCE]) :]
    finally:
        os.close(descriptor)


@contextmanager
def _told(given: Path) -> Iterator[None]:
    """What the system says about a name, in one sentence."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:  # a zero byte, or half a surrogate pair
        raise InputError(f"{given}: no file can have this name; choose another") from error
    except OSError as error:
        folder = given.parent
        sentences = {
            errno.ENAMETOOLONG: f"{given}: the name is too long; choose a shorter one",
            errno.ELOOP: f"{given} is a link that leads back to itself: name a file",
            errno.ENOTDIR: f"{given}: {folder} is a file, not a folder; choose another place",
            errno.EACCES: f"{given}: you may not write there; choose another place",
            errno.ETIMEDOUT: f"{given} cannot be written: {error.strerror}",
            errno.EROFS: f"{given}: the folder {folder} can only be read; choose another place",
        }
        usual = f"{given} cannot be written: {error.strerror or error}; choose another place"
        raise InputError(sentences.get(error.errno or 0, usual)) from error


def read_tensors(path: Path, framework: str, what: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Header and arrays, as of ``framework`` ("numpy" or "pt"); ``what`` the file should have been, for the refusal."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a readable {what} ({reason}); make it anew") from error


def group(tensors: Mapping[str, Value], name: str) -> dict[str, Value]:
    """Those whose names begin with "name/", without that.

    >>> group({"weights/a": 1, "weights/b": 2, "history/a": 3}, "weights")
    {'a': 1, 'b': 2}
    """
    return {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
