"""Refusals of data sets: synthetic ones, tables, images and the files they come from."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import invariscope as iv
from invariscope.datasets import bike_sharing, catalogue
from invariscope.datasets.images import mnist
from invariscope.datasets.images.image_folder import image_folder, pacs
from invariscope.datasets.synthetic.ladder import ladder
from tests.conftest import data_folder
from tests.remedies.case import Case

ROOM = "datasets"


def from_files(name: str, **options: Any) -> Any:
    """A data set whose files are in the folder of real data; the test is skipped where that is absent."""
    folder = data_folder()
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} does not exist")
    return in_folder(str(folder), lambda: getattr(iv.datasets, name)(**options))


def in_folder(name: str, call: Callable[[], Any]) -> Any:
    with patch.dict(os.environ, {"INVARISCOPE_DATA": name}):
        return call()


def bikes(content: bytes | None) -> Any:
    """The rentals from a folder of the user's, whose file holds this; or is the original."""
    if content is None:
        return from_files("bike_sharing")
    Path("bike_sharing").mkdir()
    Path("bike_sharing/hour.csv").write_bytes(content)
    return in_folder(".", bike_sharing)


def dial(**options: Any) -> Any:
    return iv.datasets.overlap_dial(**{"n": 20, **options})


def sem(setting: str = "POU", **options: Any) -> Any:
    return iv.datasets.linear_sem(setting, **options)


def shifted(**options: Any) -> Any:
    return iv.datasets.null_shifted(**{"n": 20, **options})


def network(**options: Any) -> Any:
    return iv.datasets.bayesian_network(**{"n": 20, **options})


def digits(**options: Any) -> Any:
    return iv.datasets.colored_mnist(**{"images": "digits", "n": 50, **options})


def photos(*files: str, content: bytes | None = None, root: str = "images", **options: Any) -> Any:
    """Images in a folder: domain/class/file, all of them a small square, or this content."""
    from PIL import Image

    for name in files:
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            Image.new("RGB", (4, 4), "red").save(path)
        else:
            path.write_bytes(content)
    return image_folder(options.pop("read", root), side=4, **options)


def one_damaged(errors: str) -> Any:
    photos(*TWO, errors=errors)
    return photos("day/cat/2.png", content=b"no image", errors=errors)


def without_pillow() -> Any:
    with patch.dict(sys.modules, {"PIL": None, "PIL.Image": None}):
        return image_folder("images")


def idx(content: bytes) -> Any:
    Path("file").write_bytes(content)
    return mnist.read_idx(Path("file"), 1)


def unequal(images: int, labels: int) -> Any:
    """MNIST from files that hold so many images, and so many labels."""
    for path, counts in (("i", (images, 2, 2)), ("l", (labels,))):
        head = bytes([0, 0, 8, len(counts)]) + np.array(counts, dtype=">u4").tobytes()
        Path(path).write_bytes(head + bytes(int(np.prod(counts))))

    class Located:
        source = None

        def __init__(self, path: str) -> None:
            self.path = Path(path)

    with patch.object(mnist, "locate_all", lambda files: [Located(name) for name in ("i", "l", "i", "l")]):
        return mnist._from_files(mnist.MNIST_FILES, "digits")


IDX = bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"abc"
TWO = ("day/cat/1.png", "night/cat/1.png")

CASES = [
    # --- names and places ---
    Case("did you mean bike_sharing?", lambda: catalogue.entry("bike_sharin"), lambda: catalogue.entry("bike_sharing")),
    Case("correct it or unset it", lambda: in_folder("nowhere", bike_sharing), lambda: from_files("bike_sharing")),
    Case("Replace it, or remove it", lambda: bikes(b"edited"), lambda: bikes(None)),
    # --- tables ---
    Case(
        'use "dteday"',
        lambda: bike_sharing(features=["rain"]),
        lambda: from_files("bike_sharing", features=["temp"]),
    ),
    Case(
        'use "class" or "price variation"',
        lambda: iv.datasets.financial_indicators(target="price"),
        lambda: from_files("financial_indicators", target="price variation"),
    ),
    Case(
        'use "gender" or "correlation"',
        lambda: iv.datasets.law_school(environments="race"),
        lambda: from_files("law_school", environments="gender"),
    ),
    Case('use "paper" or "all"', lambda: iv.datasets.adult(rows="some"), lambda: from_files("adult", rows="paper")),
    Case(
        'use "sex"',
        lambda: iv.datasets.adult(environments="race"),
        lambda: from_files("adult", environments="sex"),
    ),
    Case(
        'leave rows="all" away',
        lambda: iv.datasets.adult(environments="correlation", rows="all"),
        lambda: from_files("adult", environments="correlation"),
    ),
    Case(
        'use "age"',
        lambda: iv.datasets.heart_disease(drop=["weight"]),
        lambda: from_files("heart_disease", drop=["age"]),
    ),
    # --- synthetic ---
    Case("must be a positive number of rows", lambda: dial(n=0), lambda: dial(n=5)),
    Case(
        "must be different positive numbers", lambda: sem(environments=(1.0, 1.0)), lambda: sem(environments=(1.0, 2.0))
    ),
    Case("d is 0: give a whole number", lambda: dial(d=0), lambda: dial(d=1)),
    Case(
        "give a number of at least 0",
        lambda: iv.datasets.nonlinear_sem("POU", hidden_scale=-1.0),
        lambda: iv.datasets.nonlinear_sem("POU", hidden_scale=0.0),
    ),
    Case('use "uniform" or "normal"', lambda: dial(law="cauchy"), lambda: dial(law="normal")),
    Case("from 0 (disjoint) to 1", lambda: dial(overlap=2.0), lambda: dial(overlap=0.5)),
    Case(
        'use law="uniform", or a number above 0',
        lambda: dial(law="normal", overlap=0.0),
        lambda: dial(law="uniform", overlap=0.0),
    ),
    Case(
        'use "A" or "B"',
        lambda: dial().truth["log_ratio"](np.ones((2, 2)), "A", "C"),
        lambda: dial().truth["log_ratio"](np.ones((2, 2)), "A", "B"),
    ),
    Case('use "POU"', lambda: iv.datasets.nonlinear_sem("XYZ"), lambda: iv.datasets.nonlinear_sem("POU")),
    Case('use "POU"', lambda: sem("XYZ"), lambda: sem("POU")),
    Case("for other sizes give n and n_test", lambda: sem(total=1000), lambda: sem(n=400, n_test=100)),
    Case("leave n_test out", lambda: sem(total=1300, n_test=5), lambda: sem(total=1300)),
    Case("leave noise out", lambda: shifted(noise=[1.0, 2.0, 3.0], task="binary"), lambda: shifted(task="binary")),
    Case(
        "noise is [1.0]: give one positive number for each",
        lambda: shifted(noise=[1.0]),
        lambda: shifted(noise=[1.0, 2.0, 3.0]),
    ),
    Case('use "regression", "binary"', lambda: shifted(task="ranking"), lambda: shifted(task="multiclass")),
    Case("such as linear_sem()", lambda: ladder(None), lambda: ladder(sem())),
    Case("choose data with such columns", lambda: ladder(shifted()), lambda: ladder(sem())),
    Case("pass component=0", lambda: ladder(network(dim=2)), lambda: ladder(network(dim=2, component=0))),
    Case("give a list of finite numbers", lambda: ladder(sem(), []), lambda: ladder(sem(), [0.0, 1.0])),
    Case('use "identity" or "random"', lambda: network(weights="unit"), lambda: network(weights="random")),
    Case("a position from 0 to 1", lambda: network(dim=2, component=2), lambda: network(dim=2, component=1)),
    Case(
        "give two positive numbers",
        lambda: iv.datasets.two_domain_example(sigma=(1.0, -1.0)),
        lambda: iv.datasets.two_domain_example(sigma=(1.0, 2.0)),
    ),
    # --- grey and coloured images ---
    Case("n is 0: give a whole number", lambda: digits(n=0), lambda: digits(n=5)),
    Case("lower n to at most", lambda: digits(n=5000), lambda: digits(n=359)),
    Case("from 1 to 8", lambda: digits(downsample=9), lambda: digits(downsample=2)),
    Case('use "mnist", "fashion" or "digits"', lambda: digits(images="letters"), lambda: digits(images="digits")),
    Case("use", lambda: digits(variant="irm2"), digits),
    Case("give one rate between 0 and 1 per environment", lambda: digits(flip=[]), lambda: digits(flip=[0.1, 0.2])),
    Case("between 0 and 1", lambda: digits(flip=[0.1, 2.0]), lambda: digits(flip=[0.1, 0.2])),
    Case(
        "one number of degrees per environment, all different",
        lambda: iv.datasets.rotated_mnist(images="digits", angles=(0, 0), n=20),
        lambda: iv.datasets.rotated_mnist(images="digits", angles=(0, 90), n=20),
    ),
    Case(
        "remove it to have it downloaded again", lambda: idx(gzip.compress(IDX)[:-9]), lambda: idx(gzip.compress(IDX))
    ),
    Case("replace it by the original", lambda: idx(b"text"), lambda: idx(IDX)),
    Case("replace it by the original", lambda: idx(IDX[:-1]), lambda: idx(IDX)),
    Case("replace both by the originals", lambda: unequal(3, 2), lambda: unequal(3, 3)),
    # --- folders of images ---
    Case('use "raise" or "skip"', lambda: photos(*TWO, errors="ignore"), lambda: photos(*TWO, errors="skip")),
    Case("limit is 0: give", lambda: photos(*TWO, limit=0), lambda: photos(*TWO, limit=1)),
    Case("mend them", lambda: photos(*TWO, content=b"no image", errors="skip"), lambda: photos(*TWO)),
    Case('or say errors="skip"', lambda: one_damaged("raise"), lambda: one_damaged("skip")),
    Case("images are expected as", lambda: photos(read="nowhere"), lambda: photos(*TWO)),
    Case(
        "Pass deep/images",
        lambda: photos(*TWO, root="deep/images", read="deep"),
        lambda: photos(*TWO, root="deep/images", read="deep/images"),
    ),
    Case("choose from day, night", lambda: photos(*TWO, domains=["noon"]), lambda: photos(*TWO, domains=["day"])),
    Case('pip install "invariscope[images]"', without_pillow, lambda: photos(*TWO)),
    Case(
        '"photo" or "sketch"',
        lambda: pacs(test_domain="opera"),
        lambda: from_files("pacs", test_domain="sketch"),
    ),
    Case("pass root=, the images", lambda: pacs(side=64), lambda: from_files("pacs", side=32)),
]
