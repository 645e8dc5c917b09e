"""Hostile settings: numbers, names and switches that are none, out of bounds, or of another kind."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from tests.hostile.case import REFUSED_OR_SAME, SOUND, Input, settings

REFUSED_OR_SOUND = SOUND

HUGE = 10**5000  # has no text
NO_NUMBER: tuple[Any, ...] = (
    *("99", True, np.nan, np.inf, -np.inf, None, [99], (), {}, 1j, b"99", Decimal(99), object, "nan", "", "\x1b[31m"),
    *(np.array([99]), np.array(99.5), torch.tensor(99), np.datetime64("2024-01-01"), np.True_, "x" * 1_000_000),
)
NO_WHOLE = (*NO_NUMBER, 2.5, 99.0, -1)
NO_NAME: tuple[Any, ...] = (
    *("", "no such name", "\x1b[31m", "\ud800", "x" * 1_000_000, 1, 2.5, True, b"auto", [], {}, np.nan, object),
    *(np.array(["auto"]), ("auto",)),
)

NO_THING: tuple[Any, ...] = ("", "x", 1, 2.5, True, b"x", [], {}, ["a"], object, np.nan, np.ones(2), set(), HUGE)
NO_COUNT = tuple(v for v in NO_WHOLE if v is not None)  # or none at all

FORMS = {
    "n_boot": settings(
        "n_boot",
        (*(v for v in NO_WHOLE if v is not None), 1, 98, -5, 10**12, 2**63, HUGE),
        (0, np.int64(0), np.uint8(0)),
    ),
    "n_boot_or_auto": settings(
        "n_boot", (*(v for v in NO_WHOLE if v is not None), -5, 10**12, 2**63, HUGE), (0, np.int64(0))
    ),
    "seed": settings("seed", NO_WHOLE, (0, 2**63, 10**30, np.uint8(7), np.int64(7))),
    "random_state": settings(
        "random_state|seed", ("99", 2.5, np.nan, [99], 1j, -1, {}), (np.int64(7), None, 2**32 - 1)
    ),
    "share": settings("alpha|margin", (*NO_NUMBER, 0, 0.0, -0.0, -0.1, 1e400, HUGE), (0.5, np.float32(0.5), 5e-324)),
    "hessian": settings(
        "hessian",
        (
            *(v for v in NO_NAME if v != {}),
            *({}, {"x": 1}, {0: np.nan}, {"a": "b"}, {None: None}, "worst"),
        ),
        ("domains", "rows"),
    ),
    "shuffles": settings("shuffles", (*NO_NAME, None), ("fixed_hessian", "recomputed")),
    "alpha": settings("alpha", (1, 1.0, 2, 1.5), ()),
    "task": settings("task", tuple(v for v in NO_NAME if v != ""), ("auto", "regression")),
    "ratio": settings(
        "ratio|density|classifier|estimator",
        (*NO_NAME, None, SVC(), LogisticRegression, np.ones((90, 3))),
        ("gaussian", "Logistic".lower()),
    ),
    "folds": settings("folds", (*NO_WHOLE, 1, 10**9, HUGE), (2, np.int64(3))),
    "bandwidth": settings(
        "bandwidth",
        (*(v for v in NO_NUMBER if not isinstance(v, list | np.ndarray)), 0, -1, 1e300, 1e-300, HUGE, "wide", [1, "a"]),
        ("median", "collection", 2, np.float32(0.5), [1, 2], np.array([0.5, 1.5])),
    ),
    "parts": settings("parts", (*NO_WHOLE, 0, 10**9, HUGE), (1, 2, np.int64(3))),
    "label": settings("environment", ("no such name", 7, 2.5, True, (), b"a"), (None,)),
    "folds_or_none": settings("folds", (*NO_WHOLE, 1, 10**9, HUGE), (0, 2, np.int64(3))),
    "count": settings(".", (*(v for v in NO_WHOLE if v is not None), 0, 10**12, HUGE), (np.int64(1),)),
    "criteria": settings(
        "criteri",
        (
            "",
            "no such name",
            ["regret", "x"],
            1,
            {"regret": 1, "x": 2},
            b"regret",
            np.nan,
            True,
            object,
            "\x1b[31m",
            "x" * 1_000_000,
        ),
        ("regret", ("regret",), ["regret", "regret"]),
    ),
    "name": settings(
        "name", (1, 2.5, b"site", ["site"], np.nan, object, True), ("", "<b>", "\x1b[31m", "\ud800", "x" * 100_000)
    ),
    "form": settings("form", tuple(NO_NAME), ("square",)),
    "loss": settings("loss", tuple(v for v in NO_NAME if not isinstance(v, tuple)), ("auto",)),
    "bins": settings("bins", (*NO_WHOLE, 0, 10**12, HUGE), (2, np.int64(3))),
    "damping": settings("damping", tuple(v for v in NO_NUMBER), (0.0, 1.0, np.float32(0.5), "auto")),
    "switch": settings(
        "True or False|exact|relative", ("no", 2, np.nan, [], None, np.array([True, False])), (True, False)
    ),
    "radii": settings(
        "radii|distance",
        ("1", True, np.nan, [np.nan], [-1.0], [], [[1.0]], 1j, {}, object, [np.inf], ["a"], -1.0),
        ([0.5], np.array([0.5, 1.0]), 0.5),
    ),
    "learning_rate": settings("learning_rate|learning rate", (*NO_NUMBER, 0, -1.0, HUGE), (np.float32(0.01),)),
    "steps": settings("steps", (*NO_WHOLE, 0, HUGE), (1, np.int64(2))),
    "objective": settings("objective", (*NO_NAME, None), ("vrex",)),
    "penalty": settings(
        "penalty|weight", (v for v in (*NO_NUMBER, -1.0, HUGE) if v is not None), (0, 1e3, np.float32(1.0))
    ),
    "held_out": settings("held.out", (*NO_NUMBER, -0.1, 1.0, 2, HUGE), (0, 0.25)),
    "hidden": settings(
        "hidden",
        ("8", True, -1, 2.5, [0], [-1], ["8"], [2.5], [np.nan], {}, object, 10**9, [10**9, 10**9]),
        (4, (4,), [4, 4], np.int64(4), ()),
    ),
    "rows per environment": settings(
        "n |n=|rows",
        ("99", True, np.nan, None, {}, 1j, b"99", 2.5, -1, 0, [], [1], [-5, -5, -5], object, HUGE, "x" * 1_000_000),
        (20, [20, 30, 40], np.int64(20)),
    ),
    "dimension": settings("dim|d |d=", (*NO_WHOLE, 0, HUGE), (2, np.int64(2))),
    "numbers of environments": settings(
        "environment",
        ("99", True, np.nan, 1, 2.5, [], [1.0], [np.nan, 1.0, 2.0], ["a", "b", "c"], {}, object),
        ([0.2, 2.0],),
    ),
    "thing in place of rows": settings("rows", (*NO_THING, None)),
    "thing in place of held-out rows": settings("rows", NO_THING, (None,)),
    "thing in place of settings": settings("settings", NO_THING),
    "thing in place of a schedule": settings("schedule", (*NO_THING, None)),
    "seeds": settings(
        "seed", (1, None, [], "x", [1.5], [True], object, np.array(1), torch.tensor(1), HUGE), ([1], range(2))
    ),
    "count of an objective": settings("hidden|refresh|svd|iterations", (*NO_COUNT, 0, HUGE, 10**12), (1, np.int64(2))),
    "number": settings("projection|slack|floor|fraction", (*NO_NUMBER, HUGE), (1.5, np.float32(1.5))),
    "number of environments": settings("environments", (*NO_WHOLE, 0, HUGE, 10**12), (2, np.int64(2))),
    "rates": settings(
        "flip|angles|noise|betas",
        (
            "0.1",
            True,
            np.nan,
            {},
            1j,
            b"99",
            object,
            [],
            [np.nan],
            ["a"],
            [[0.1]],
            [0.1, "a"],
            np.inf,
            [0.1, None],
            HUGE,
        ),
    ),
    "two scales": settings(
        "sigma|spread",
        ("0.1", True, 1.0, None, {}, object, [], [1.0], [1.0, "a"], [1.0, 0.0], [np.nan, 1.0], [1, 2, 3]),
    ),
    "fraction of any size": settings(
        "shift", ("1", True, np.nan, np.inf, None, [], {}, 1j, Decimal(9), object, HUGE), (-1.0, 0, np.float32(0.5))
    ),
    "place": settings("component", (*(v for v in NO_WHOLE if v is not None), 5, HUGE), (0, np.int64(1), None)),
    "total": settings("total", (*(v for v in NO_WHOLE if v is not None), 0, HUGE), (np.int64(1300),)),
    "rows of images": settings(
        "n is|too few", (*(v for v in NO_WHOLE if v is not None), 0, 10**12, HUGE), (5, np.int64(5))
    ),
    "count or none": settings("n_test is|too few", (*NO_WHOLE, 10**12, HUGE), (0, np.int64(5))),
    "count of pixels": settings("downsample|side", (*NO_WHOLE, 0, 10**12, HUGE)),
    "limit": settings("limit", (*(v for v in NO_WHOLE if v is not None), 0)),
    "seed, refused": settings("seed", NO_WHOLE),
    "features": settings(
        "feature|drop", ("rain", "", 1, 2.5, None, b"temp", True, np.nan, object, ["x"], [1], [None], HUGE)
    ),
    "setting": settings(
        "setting|law|task|weights|optimiser|variant|images|rows|environments|target|domain|errors|binning|unit",
        (*NO_NAME, None),
    ),
    "path": settings(
        ".",
        (
            "",
            "no such file.csv",
            "\x00",
            "\ud800",
            "x" * 5000,
            ".",
            "/dev/null",
            1,
            2.5,
            b"a",
            [],
            {},
            None,
            np.nan,
            True,
            object,
            "a\x1b[31m.csv",
            "https://example.org/a.csv",
            "s3://bucket/a.csv",
            "~/none.csv",
            "*.csv",
        ),
    ),
    "column": settings(
        ".",
        (
            "",
            "no such column",
            "\x1b[31m",
            "\ud800",
            "x" * 1_000_000,
            1,
            2.5,
            b"y",
            [],
            {},
            None,
            np.nan,
            True,
            object,
            ["y"],
            ("y",),
            "Y ",
        ),
    ),
    "columns": settings(
        ".",
        (
            "no such column",
            1,
            2.5,
            b"y",
            {"a": 1},
            np.nan,
            True,
            object,
            ["x0", "no"],
            [1],
            [None],
            "x" * 1_000_000,
            "\x1b[31m",
        ),
        (["x0"], ("x0", "x1")),
    ),
    "missing": settings("missing", tuple(NO_NAME), ("refuse", "drop-rows")),
    "env_bins": settings(
        ".",
        (
            "no such",
            0,
            1,
            -1,
            2.5,
            True,
            np.nan,
            [],
            [np.nan],
            ["a"],
            [2, 1],
            {},
            object,
            1e30,
            10**30,
            HUGE,
            b"3",
            "x" * 1_000_000,
        ),
    ),
    "drop_env": settings(
        ".",
        ("no such", ["a", "b", "c"], ["a", "b"], np.nan, object, {"a": 1, "zz": 2}, "\x1b[31m", "x" * 1_000_000),
        ("a", ["a"]),
    ),
    "layer": settings("layer", ("no such layer", 1, 2.5, b"0", [], {}, object, "\x1b[31m", "x" * 1_000_000), ("0",)),
    "batch_size": settings(
        "batch_size|batch", ("99", True, np.nan, 0, -1, 2.5, [], {}, object, HUGE), (1, np.int64(7), 10**9)
    ),
    "device": settings(
        "device", ("no such", 99, 2.5, b"cpu", [], {}, object, "cuda:99", "meta", "x" * 1_000_000), ("cpu",)
    ),
    "answers": settings("classes", (1, True, np.nan, [1], [1, 2, 3], object, b"ab"), ()),
    "fraction": settings(".", (*NO_NUMBER, -0.5, 2.0, HUGE), ()),
    "list of tensors": [
        Input("one tensor", lambda v: v[0], says="list|environment|tensor"),
        Input("no environment", lambda v: [], says="environment"),
        Input("one environment", lambda v: v[:1], REFUSED_OR_SOUND, says="environment"),
        Input("numpy arrays", lambda v: [part.numpy() for part in v], REFUSED_OR_SAME),
        Input("lists of numbers", lambda v: [part.tolist() for part in v], REFUSED_OR_SAME),
        Input("None", lambda v: None),
        Input("a text", lambda v: "abc"),
        Input("numbers", lambda v: [1.0, 2.0, 3.0]),
        Input("a dict", lambda v: dict(enumerate(v))),
        Input("an iterator", lambda v: iter(v), REFUSED_OR_SAME),
        Input("another length", lambda v: [part[:-1] for part in v], REFUSED_OR_SOUND),
        Input("one environment fewer", lambda v: v[:-1], REFUSED_OR_SOUND),
        Input("no rows in one", lambda v: [v[0][:0], *v[1:]], REFUSED_OR_SOUND),
        Input("three axes", lambda v: [torch.zeros(len(part), 2, 2) for part in v]),
        Input("complex", lambda v: [part + 1j for part in v]),
        Input("without data", lambda v: [part.to("meta") for part in v]),
        Input("a set", lambda v: set(v)),
        Input("NaN", lambda v: [part * np.nan for part in v], SOUND),  # a loop sees it in its loss
        Input("float32", lambda v: [part.float() for part in v], REFUSED_OR_SOUND),
    ],
}
