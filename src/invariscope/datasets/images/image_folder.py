"""Images from a tree of folders, one per domain and class, or PACS from its archive of small images."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.fetch import DataFile, locate
from invariscope.datasets.images.images import Images, pixel_names
from invariscope.errors import InputError
from invariscope.reading.dataset import TEST, TRAIN
from invariscope.rows.settings import one_of, shown, switch, whole_number

if TYPE_CHECKING:
    from PIL.Image import Image

PACS_FILE = DataFile(
    "pacs/pacs32.npz",
    "fe55802fd6683bd32bcf9d6e7486dce5114243caa27e627f13a8c6b8929c9674",
    16_709_796,
    by_hand="get the images of PACS (https://domaingeneralization.github.io), unpack them and pass the folder that has "
    "art_painting, cartoon, photo and sketch in it: pacs(root=...)",
)
MOST_PIXELS = 10_000  # of a side: nobody has the memory for more
PACS_DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")

_ENDINGS = (".jpg", ".jpeg", ".png")
_EXPECTED = "root/<domain>/<class>/*.jpg (or .jpeg, .png)"


class _Labelled(NamedTuple):
    domain: str
    kind: str
    path: Path


def image_folder(
    root: str | Path,
    *,
    side: int = 32,
    domains: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    gray: bool = False,
    limit: int | None = None,
    errors: str = "raise",
    progress: bool = False,
) -> Images:
    """Images of the tree ``root/<domain>/<class>/*.jpg``: PACS, VLCS, Office-Home, or your own.

    Every image is turned upright as its EXIF data say, put on white where it is transparent, and shrunk or stretched
    to ``side`` × ``side`` pixels (bilinear). The domain is the environment, the class the target. Needs Pillow:
    ``pip install "invariscope[images]"``.

    Parameters
    ----------
    side : height and width of the images returned
    domains, classes : names of the folders to read; by default all, hidden ones excepted
    gray : one channel instead of red, green and blue
    limit : at most so many images of each class and domain, the first by file name
    errors : "raise" refuses a damaged image, "skip" leaves it out and counts it in the notes
    progress : show a bar while reading

    Returns
    -------
    Images by domain, class and file name; ``per_row["file"]`` is the path below ``root``.

    >>> import tempfile
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp())
    >>> for domain, color in (("night", "black"), ("day", "white")):
    ...     (root / domain / "cat").mkdir(parents=True)
    ...     Image.new("RGB", (60, 40), color).save(root / domain / "cat" / "tom.png")
    >>> data = image_folder(root, side=4)
    >>> data.images.shape, data.env.tolist(), data.y.tolist(), data.X.mean(axis=1).tolist()
    ((2, 3, 4, 4), ['day', 'night'], ['cat', 'cat'], [1.0, 0.0])
    """
    one_of(errors, "errors", ("raise", "skip"))
    whole_number(side, "side", 1, MOST_PIXELS)
    if limit is not None:
        whole_number(limit, "limit", 1)
    switch(gray, "gray")
    _require_pillow()
    root = _folder(root)
    there = _listed(root, limit)
    chosen_domains = _chosen("domain", domains, (one.domain for one in there))
    chosen_classes = _chosen("class", classes, (one.kind for one in there))
    listed = [one for one in there if one.domain in chosen_domains and one.kind in chosen_classes]
    channels = ("gray",) if gray else ("red", "green", "blue")
    X = np.empty((len(listed), len(channels), side, side), np.float32)
    decode = partial(_pixels, side=side, gray=gray)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow releases the interpreter while it decodes and resizes
        decoded = pool.map(decode, (one.path for one in listed))
        images, damaged = _filled(X, listed, _with_bar(decoded, len(listed), progress), skip=errors == "skip")
    if not images:
        raise InputError(
            f"none of the {len(damaged)} images below {root} can be read, {damaged[0].path} for one: mend them"
        )
    # in place: X may be most of the memory there is, and its first rows are all that is needed
    X = X[: len(images)]
    X /= 255
    notes = [f"{len(damaged)} damaged images were left out, {damaged[0].path} for one"] if damaged else []
    return Images(
        X=X.reshape(len(X), -1),
        y=np.array([one.kind for one in images]),
        env=np.array([one.domain for one in images]),
        columns=pixel_names(channels, side, side),
        description=f"{len(images):,} images of {side} × {side} pixels.",
        source=str(root),
        notes=(*notes, *_missing(root, there, images)),
        target_name="class",
        env_name="domain",
        image_shape=(len(channels), side, side),
        per_row={"file": np.array([one.path.relative_to(root).as_posix() for one in images])},
    )


def _filled(
    X: NDArray[np.float32], listed: Sequence[_Labelled], decoded: Iterable[Any], *, skip: bool
) -> tuple[list[_Labelled], list[_Labelled]]:
    """Write the pixels into the first rows of X: which images these are, and which are damaged and were skipped."""
    images: list[_Labelled] = []
    damaged: list[_Labelled] = []
    for one, pixels in zip(listed, decoded, strict=True):
        if isinstance(pixels, np.ndarray):
            X[len(images)] = pixels
            images.append(one)
        elif skip:
            damaged.append(one)
        else:
            raise InputError(f'{one.path} cannot be read ({pixels}): mend or remove it, or say errors="skip"')
    return images, damaged


def pacs(
    root: str | Path | None = None, *, side: int = 32, test_domain: str = "art_painting", progress: bool = False
) -> Images:
    """Photos, art paintings, cartoons and sketches of seven things: 9,991 images, the domain is the environment.

    Reads ``pacs/pacs32.npz`` (all images, 32 × 32 pixels) from the data folder, or the tree of images itself if
    ``root`` is given. It cannot be downloaded here.

    Parameters
    ----------
    root : folder with art_painting, cartoon, photo and sketch, see :func:`image_folder`
    side : height and width of the images; without ``root`` there is only 32
    test_domain : the domain that ``part`` keeps for the test, art as in the paper below; the other three are "train"

    References: Li et al. (2017), Deeper, broader and artier domain generalization; the DRIC paper, B.2.3.

    >>> pacs(test_domain="opera")
    Traceback (most recent call last):
    invariscope.errors.InputError: test_domain "opera" is unknown: use "art_painting", "cartoon", "photo" or "sketch"
    """
    one_of(test_domain, "test_domain", PACS_DOMAINS)
    whole_number(side, "side", 1, MOST_PIXELS)
    if root is not None:
        images = image_folder(root, side=side, domains=PACS_DOMAINS, classes=PACS_CLASSES, progress=progress)
    elif side == 32:
        images = _pacs_archive()
    else:
        raise InputError(f"{PACS_FILE.path} holds images of 32 × 32 pixels: for side={side} pass root=, the images")
    return replace(
        images,
        description=f"{len(images):,} images of {side} × {side} pixels that show a {', '.join(PACS_CLASSES[:-1])} or "
        f"{PACS_CLASSES[-1]} as a photo, art painting, cartoon or sketch.",
        choices=(f"The published images are larger (227 × 227 pixels): here {side} × {side}.",),
        part=np.where(images.env == test_domain, TEST, TRAIN),
    )


def _pacs_archive() -> Images:
    path = locate(PACS_FILE).path
    with np.load(path, allow_pickle=False) as archive:
        pixels = np.ascontiguousarray(archive["x"].transpose(0, 3, 1, 2))
        kind, domain = archive["classes"][archive["y"]], archive["domains"][archive["domain"]]
        file = np.char.replace(archive["path"], "PACS/", "")
    return Images(
        X=(pixels / np.float32(255)).reshape(len(pixels), -1),
        y=kind,
        env=domain,
        columns=pixel_names(("red", "green", "blue"), *pixels.shape[2:]),
        description="",
        source=str(path),
        target_name="class",
        env_name="domain",
        image_shape=pixels.shape[1:],
        per_row={"file": file},
    )


# --- the tree ---------------------------------------------------------------------------------------------------------
def _folder(root: Any) -> Path:
    try:
        folder = Path(root).expanduser()
        if folder.is_dir():
            return folder
        given = str(folder)
    except (TypeError, ValueError, OSError, RuntimeError):  # no path at all, or one that no file system takes
        given = shown(root)
    raise InputError(f"{given} is not a folder: images are expected as {_EXPECTED}")


def _listed(root: Path, limit: int | None) -> list[_Labelled]:
    images = [
        _Labelled(domain.name, kind.name, path)
        for domain in _folders(root)
        for kind in _folders(domain)
        for path in _images(kind)[:limit]
    ]
    if not images:
        raise InputError(_what_is_there(root))
    return images


def _chosen(what: str, wanted: Sequence[str] | None, names: Iterable[str]) -> set[str]:
    there = set(names)
    missing = set(wanted or ()) - there
    if missing:
        raise InputError(f'there are no images of {what} "{min(missing)}": choose from {", ".join(sorted(there))}')
    return there if wanted is None else set(wanted)


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in _ENDINGS and not p.name.startswith("."))


def _what_is_there(root: Path) -> str:
    """Tell a user whose tree has another depth which folder to pass instead, or what to add."""
    message = f"{root} has no images of the form {_EXPECTED}"
    below = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.suffix.lower() in _ENDINGS)
    first = next((path for path in below if not any(name.startswith(".") for name in path.parts)), None)
    if first is None:
        return f"{message}: there are no images in it at all, name another folder"
    if len(first.parts) > 3:
        return f"{message}: {first} lies deeper. Pass {root / first.parents[2]}, or move its class up to its domain"
    return f"{message}: {first} lies higher up. Pass the folder above the domains, or add the missing level"


def _missing(root: Path, there: list[_Labelled], images: list[_Labelled]) -> list[str]:
    """What a user may have expected to be there: folders without images, and classes that not all domains have."""
    empty = {folder.name for folder in _folders(root)} - {one.domain for one in there}
    pairs = {(one.domain, one.kind) for one in images}
    every = itertools.product(sorted({one.domain for one in images}), sorted({one.kind for one in images}))
    return [
        *(f'folder "{name}" has no images in folders of classes and was not read' for name in sorted(empty)),
        *(
            f'domain "{domain}" has no images of class "{kind}"'
            for domain, kind in every
            if (domain, kind) not in pairs
        ),
    ]


# --- one image --------------------------------------------------------------------------------------------------------
def _require_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401 - only to know that it is there
    except ImportError as error:
        raise InputError('reading images needs Pillow: pip install "invariscope[images]"') from error


def _pixels(path: Path, side: int, gray: bool) -> NDArray[np.uint8] | Exception:
    """The image as (channels, side, side), or why it cannot be read."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as stored:
            # a JPEG can be decoded at a half, a quarter or an eighth of its size; twice what is wanted loses nothing
            stored.draft(None, (2 * side, 2 * side))
            upright = _opaque(ImageOps.exif_transpose(stored)).convert("L" if gray else "RGB")
        pixels = np.asarray(upright.resize((side, side), Image.Resampling.BILINEAR))
    except Exception as error:  # decoders raise what they like on broken bytes: OSError, SyntaxError, struct.error, ...
        return error
    return pixels.reshape(side, side, -1).transpose(2, 0, 1)


def _opaque(image: Image) -> Image:
    from PIL import Image as pillow  # noqa: N813

    if image.mode.startswith("I"):  # 16 bits a pixel, which Pillow would clip at 255
        return pillow.fromarray((np.asarray(image) // 257).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    seen = image.convert("RGBA")
    return pillow.alpha_composite(pillow.new("RGBA", seen.size, "white"), seen)


def _with_bar(values: Iterable[Any], count: int, progress: bool) -> Iterable[Any]:
    if not progress:
        return values
    from rich.console import Console
    from rich.progress import track

    return track(values, description="reading images", total=count, console=Console(stderr=True))


ENTRY = Entry(
    kind="images",
    title="Photos, art paintings, cartoons and sketches of seven things",
    load=pacs,
    files=(PACS_FILE,),
    licence="none stated; collected for research from Caltech256, Sketchy, TU-Berlin and web search",
    reference="Li, Yang, Song, Hospedales (2017), Deeper, broader and artier domain generalization, ICCV",
    published=(
        Published("rows", 9_991, "Li et al. (2017)"),
        Published("rows in art_painting", 2_048, "Li et al. (2017)"),
        Published("rows in cartoon", 2_344, "Li et al. (2017)"),
        Published("rows in photo", 1_670, "Li et al. (2017)"),
        Published("rows in sketch", 3_929, "Li et al. (2017)"),
        Published("test rows", 2_048, "DRIC paper, B.2.3: art is the test domain"),
    ),
)
