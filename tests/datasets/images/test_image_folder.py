"""Trees of images: read in order, upright and opaque; other trees and damaged files are refused with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from invariscope.datasets import DataUnavailable
from invariscope.datasets.entry import facts
from invariscope.datasets.images.image_folder import ENTRY, PACS_CLASSES, PACS_DOMAINS, PACS_FILE, image_folder, pacs
from invariscope.errors import InputError
from invariscope.reading.dataset import TEST, TRAIN

Image = pytest.importorskip("PIL.Image", reason="Pillow is an extra")

COLOURS = {"red": (255, 0, 0), "lime": (0, 255, 0), "gold": (255, 215, 0), "navy": (0, 0, 128)}


def plain(
    root: Path, name: str, color: Any, size: tuple[int, int] = (20, 10), mode: str = "RGB", **options: Any
) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path, **options)
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two domains, two classes, one image each; a second one in the first folder."""
    plain(tmp_path, "street/cat/b.png", "lime")
    plain(tmp_path, "street/cat/a.png", "red")
    plain(tmp_path, "street/dog/c.png", "gold", size=(7, 31))
    plain(tmp_path, "home/cat/d.png", "navy", size=(200, 300))
    plain(tmp_path, "home/dog/e.png", "red", size=(1, 1))
    return tmp_path


def colour(data: Any, row: int) -> tuple[int, ...]:
    """The one colour of an image, in 0..255."""
    values = data.images[row].reshape(len(data.images[row]), -1) * 255
    assert np.ptp(values, axis=1).max() < 1e-3
    return tuple(int(value) for value in np.round(values[:, 0]))


# --- what is read ----------------------------------------------------------------------------------------------------
def test_a_tree_is_read_in_order(tree: Path) -> None:
    data = image_folder(tree, side=6)
    assert data.X.shape == (5, 3 * 36)
    assert data.X.dtype == np.float32
    assert data.image_shape == (3, 6, 6)
    assert data.per_row["file"].tolist() == [
        *("home/cat/d.png", "home/dog/e.png", "street/cat/a.png", "street/cat/b.png", "street/dog/c.png"),
    ]
    assert data.env.tolist() == ["home"] * 2 + ["street"] * 3
    assert data.y.tolist() == ["cat", "dog", "cat", "cat", "dog"]
    assert [colour(data, k) for k in range(5)] == [COLOURS[c] for c in ("navy", "red", "red", "lime", "gold")]
    assert (data.target_name, data.env_name, data.notes) == ("class", "domain", ())
    assert data.environments.classes == ("cat", "dog")
    assert data.columns[36] == "green 0,0"
    assert np.shares_memory(data.images, data.X)


def test_gray(tree: Path) -> None:
    data = image_folder(tree, side=3, gray=True)
    assert data.image_shape == (1, 3, 3)
    assert data.columns[0] == "gray 0,0"
    for row, (r, g, b) in enumerate(COLOURS[c] for c in ("navy", "red", "red", "lime", "gold")):
        assert abs(colour(data, row)[0] - (0.299 * r + 0.587 * g + 0.114 * b)) <= 1


def test_some_domains_and_classes(tree: Path) -> None:
    data = image_folder(tree, domains=["street"], classes=["dog"])
    assert data.per_row["file"].tolist() == ["street/dog/c.png"]
    assert image_folder(tree, limit=1).per_row["file"].tolist() == [
        *("home/cat/d.png", "home/dog/e.png", "street/cat/a.png", "street/dog/c.png"),
    ]


def test_hidden_and_other_files_are_passed_over(tree: Path) -> None:
    plain(tree, "street/cat/.thumb.png", "red")
    plain(tree, ".cache/cat/x.png", "red")
    plain(tree, "home/.old/x.png", "red")
    (tree / "street/cat/readme.txt").write_text("cats")
    (tree / "list.txt").write_text("all")
    plain(tree, "home/dog/Z.JPG", "red", format="JPEG")
    plain(tree, "home/dog/y.jpeg", "red")
    files = image_folder(tree).per_row["file"].tolist()
    assert len(files) == 7
    assert {"home/dog/Z.JPG", "home/dog/y.jpeg"} < set(files)


def test_what_is_missing_is_noted(tree: Path) -> None:
    plain(tree, "home/bird/tit.png", "red")
    (tree / "attic").mkdir()
    (tree / "street/fish").mkdir()
    data = image_folder(tree)
    assert data.notes == (
        'folder "attic" has no images in folders of classes and was not read',
        'domain "street" has no images of class "bird"',
    )


def test_progress_is_shown_only_if_asked_for(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = image_folder(tree)
    assert capsys.readouterr() == ("", "")
    np.testing.assert_array_equal(image_folder(tree, progress=True).X, quiet.X)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "reading images" in shown.err


# --- kinds of images -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "color", "ending", "expected"),
    [
        ("L", 100, "png", (100, 100, 100)),
        ("1", 1, "png", (255, 255, 255)),
        ("LA", (100, 255), "png", (100, 100, 100)),
        ("LA", (100, 0), "png", (255, 255, 255)),
        ("RGBA", (10, 20, 30, 255), "png", (10, 20, 30)),
        ("RGBA", (10, 20, 30, 0), "png", (255, 255, 255)),  # what lies under full transparency is not seen
        ("RGBA", (0, 0, 0, 51), "png", (204, 204, 204)),
        ("I;16", 257 * 100 + 30, "png", (100, 100, 100)),
        ("L", 100, "jpg", (100, 100, 100)),
        ("CMYK", (0, 0, 0, 255), "jpg", (0, 0, 0)),
    ],
)
def test_every_mode_becomes_three_channels(
    tmp_path: Path, mode: str, color: Any, ending: str, expected: tuple[int, ...]
) -> None:
    plain(tmp_path, f"a/b/c.{ending}", color, mode=mode)
    assert np.abs(np.subtract(colour(image_folder(tmp_path, side=4), 0), expected)).max() <= 1
    gray = colour(image_folder(tmp_path, side=4, gray=True), 0)[0]
    assert abs(gray - (0.299 * expected[0] + 0.587 * expected[1] + 0.114 * expected[2])) <= 1.5


def test_palette_with_a_transparent_colour(tmp_path: Path) -> None:
    image = Image.new("P", (4, 2), 0)
    image.putpalette([10, 20, 30, 200, 100, 0])
    for row in range(2):
        image.putpixel((3, row), 1)
    (tmp_path / "a/b").mkdir(parents=True)
    image.save(tmp_path / "a/b/c.png", transparency=0)
    data = image_folder(tmp_path, side=4)
    np.testing.assert_array_equal(np.round(data.images[0, :, 0, 0] * 255), [255, 255, 255])
    np.testing.assert_array_equal(np.round(data.images[0, :, 0, 3] * 255), [200, 100, 0])


def test_photos_are_turned_upright(tmp_path: Path) -> None:
    """Orientation 6: the camera was turned, the first row stored is the right-hand side of the scene."""
    stored = np.zeros((64, 64, 3), np.uint8)
    stored[:32] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a/b").mkdir(parents=True)
    Image.fromarray(stored).save(tmp_path / "a/b/c.jpg", exif=exif, quality=95)
    pixels = image_folder(tmp_path, side=8).images[0, 0]
    assert pixels[:, 5:].min() > 0.95
    assert pixels[:, :3].max() < 0.05


def test_channels_and_directions_are_kept(tmp_path: Path, seed: int) -> None:
    stored = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    (tmp_path / "a/b").mkdir(parents=True)
    Image.fromarray(stored).save(tmp_path / "a/b/c.png")
    found = image_folder(tmp_path, side=6).images[0]
    np.testing.assert_allclose(found, stored.transpose(2, 0, 1) / 255, atol=1e-7)


def smooth(side: int, seed: int) -> NDArray[np.uint8]:
    down, right = np.mgrid[0 : 1 : side * 1j, 0 : 1 : side * 1j]
    wave = np.random.default_rng(seed).uniform(2, 6, (3, 2))
    waves = np.sin(down[..., None] * wave[:, 0]) * np.cos(right[..., None] * wave[:, 1])
    return (127.5 + 127 * waves).astype(np.uint8)


@pytest.mark.parametrize("gray", [False, True])
def test_large_photos_are_shrunk_like_small_ones(tmp_path: Path, seed: int, gray: bool) -> None:
    """A JPEG is decoded at a fraction of its size; the mean over each field of pixels must not suffer."""
    stored = smooth(512, seed)
    (tmp_path / "a/b").mkdir(parents=True)
    Image.fromarray(stored).save(tmp_path / "a/b/c.jpg", quality=95)
    found = image_folder(tmp_path, side=16, gray=gray).images[0]
    fields = stored.reshape(16, 32, 16, 32, 3).mean(axis=(1, 3)).transpose(2, 0, 1) / 255
    expected = np.tensordot([0.299, 0.587, 0.114], fields, 1)[None] if gray else fields
    inner = (slice(None), slice(1, -1), slice(1, -1))  # at the border the interpolation is lopsided
    assert np.abs(found - expected)[inner].max() < 0.02


def test_detail_survives_the_shortcut_for_large_photos(tmp_path: Path, seed: int) -> None:
    fields = np.random.default_rng(seed).integers(0, 256, (64, 64), dtype=np.uint8)
    stored = Image.fromarray(np.kron(fields, np.ones((4, 4), np.uint8)))
    (tmp_path / "a/b").mkdir(parents=True)
    stored.save(tmp_path / "a/b/c.jpg", quality=95)
    found = image_folder(tmp_path, side=64, gray=True).images[0, 0]
    expected = np.asarray(stored.resize((64, 64), Image.Resampling.BILINEAR)) / 255
    assert np.abs(found - expected).mean() < 0.02


# --- refusals --------------------------------------------------------------------------------------------------------
def test_damaged_images_are_refused_or_counted(tree: Path) -> None:
    photo = tree / "home/cat/f.jpg"
    Image.fromarray(smooth(64, 0)).save(photo)
    photo.write_bytes(photo.read_bytes()[:-200])
    with pytest.raises(InputError, match=r'f\.jpg cannot be read \(.*\): mend or remove it, or say errors="skip"'):
        image_folder(tree)
    (tree / "street/cat/0.png").write_bytes(b"")
    (tree / "street/cat/1.png").write_text("not an image")
    whole = (tree / "street/cat/a.png").read_bytes()
    (tree / "street/cat/2.png").write_bytes(whole[: len(whole) // 2])
    data = image_folder(tree, side=4, errors="skip")
    assert len(data) == len(data.y) == len(data.env) == len(data.per_row["file"]) == 5
    assert data.notes == (f"4 damaged images were left out, {photo} for one",)
    assert [colour(data, k) for k in range(5)] == [COLOURS[c] for c in ("navy", "red", "red", "lime", "gold")]


def test_only_damaged_images(tmp_path: Path) -> None:
    plain(tmp_path, "a/b/c.png", "red").write_bytes(b"")
    with pytest.raises(InputError, match=r"none of the 1 images below .* can be read, .*c\.png for one"):
        image_folder(tmp_path, errors="skip")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (None, "there are no images in it at all"),
        ("x.png", r"x\.png lies higher up\. Pass the folder above the domains, or add the missing level"),
        ("dog/x.png", r"dog/x\.png lies higher up"),
        ("PACS/photo/dog/x.png", r"PACS/photo/dog/x\.png lies deeper\. Pass .*/PACS, or move"),
        (".hidden/photo/dog/x.png", "there are no images in it at all"),
    ],
)
def test_other_trees_are_refused(tmp_path: Path, file: str | None, words: str) -> None:
    (tmp_path / "empty").mkdir()
    if file is not None:
        plain(tmp_path, file, "red")
    with pytest.raises(InputError, match=rf"no images of the form root/<domain>/<class>/\*\.jpg .*{words}"):
        image_folder(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"domains": ["street", "farm"]}, 'no images of domain "farm": choose from home, street'),
        ({"classes": ["cow"]}, 'no images of class "cow": choose from cat, dog'),
        ({"errors": "ignore"}, 'errors "ignore" is unknown: use "raise" or "skip"'),
        ({"side": 0}, "side is 0: give a whole number from 1"),
        ({"limit": 0}, "limit is 0: give a whole number of at least 1"),
    ],
)
def test_impossible_requests_are_refused(tree: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        image_folder(tree, **arguments)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere is not a folder: images are expected as root/<domain>/<class>"):
        image_folder(tmp_path / "nowhere")


def test_without_pillow(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match=r'needs Pillow: pip install "invariscope\[images\]"'):
        image_folder(tree)


# --- PACS ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def real_pacs(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_file(PACS_FILE.path).parents[1]))


@pytest.mark.slow
def test_published_counts(real_pacs: None, data_file: Callable[[str], Path]) -> None:
    data = pacs()
    found = facts(data)
    assert {number.what: number.value for number in ENTRY.published} == {
        number.what: found[number.what] for number in ENTRY.published
    }
    assert data.image_shape == (3, 32, 32)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert data.environments.labels == PACS_DOMAINS
    assert data.environments.classes == PACS_CLASSES
    assert data.environments.order is None
    assert data.test.env.tolist() == ["art_painting"] * 2048
    assert set(data.train.env) == {"cartoon", "photo", "sketch"}
    with np.load(data_file(PACS_FILE.path), allow_pickle=False) as archive:
        np.testing.assert_allclose(data.images[::500].transpose(0, 2, 3, 1) * 255, archive["x"][::500], atol=1e-4)
    in_path = np.array([file.split("/")[:2] for file in data.per_row["file"]])
    np.testing.assert_array_equal(in_path, np.column_stack([data.env, data.y]))


def test_sketches_are_white(real_pacs: None) -> None:
    data = pacs(test_domain="sketch").test
    assert np.median(data.X) > 0.95
    np.testing.assert_allclose(data.images[:, 0], data.images[:, 2], atol=0.15)  # hardly any colour


def test_the_tree_gives_what_the_archive_gives(real_pacs: None, tmp_path: Path) -> None:
    archive = pacs()
    some = archive.rows(np.arange(0, len(archive), 97))
    for file, pixels in zip(some.per_row["file"], some.images, strict=True):
        path = (tmp_path / file).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.round(pixels.transpose(1, 2, 0) * 255).astype(np.uint8)).save(path)
    found = pacs(tmp_path)
    np.testing.assert_array_equal(found.X, some.X)
    for field in ("y", "env", "part"):
        np.testing.assert_array_equal(getattr(found, field), getattr(some, field))
    assert found.columns == some.columns
    assert found.notes == ()


def test_a_tree_of_all_domains(tmp_path: Path) -> None:
    for domain in PACS_DOMAINS:
        for kind in PACS_CLASSES:
            plain(tmp_path, f"{domain}/{kind}/1.png", "red", size=(4, 4))
    data = pacs(tmp_path, side=4, test_domain="photo")
    assert data.part is not None
    assert (data.part == np.where(data.env == "photo", TEST, TRAIN)).all()
    assert len(data.test) == 7
    plain(tmp_path, "sculpture/dog/1.png", "red")
    assert len(pacs(tmp_path, side=4)) == 28


def test_how_to_get_pacs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", str(tmp_path))
    monkeypatch.setattr("invariscope.datasets.fetch.cache_folder", lambda: tmp_path / "cache")
    with pytest.raises(
        DataUnavailable, match=r"pacs/pacs32\.npz .*(\n.*)*INVARISCOPE_DATA(.*\n)+.*pacs\(root=\.\.\.\)"
    ):
        pacs()
    with pytest.raises(InputError, match="32 × 32 pixels: for side=64 pass root="):
        pacs(side=64)
