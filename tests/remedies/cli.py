"""Refusals of the command line: options that contradict each other, and places that cannot be written."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import numpy as np
import pandas as pd
import skops.io
from sklearn.linear_model import LinearRegression

from invariscope.cli import main
from tests.remedies.case import Case

ROOM = "cli/"
NOISE = np.random.default_rng(0).normal(size=(3, 120))
TABLE = pd.DataFrame(
    {"site": np.repeat(["a", "b"], 60), "age": NOISE[0], "dose": NOISE[1], "days": NOISE[0] + NOISE[2]}
)
TABLE["guess"] = 0.9 * TABLE["age"]
TABLE["ward"] = np.tile(["a", "b", "c, d", "e"], 30)
TABLE["twice"] = 2 * TABLE["age"]


def raised(error: Exception) -> NoReturn:
    """In place of what tells a refusal on standard error."""
    raise error


def invariscope(*arguments: str) -> Any:
    """The command, in a folder with the table t.csv; refusals come out as they are."""
    TABLE.to_csv("t.csv", index=False)
    with patch("invariscope.cli.complain", raised), patch("invariscope.cli.output.complain", raised):
        code = main.main(list(arguments), standalone_mode=False)
    assert code in (None, 0, 1)  # 1: a condition is met
    return "done"


def audit(*options: str, target: str = "days", n_boot: int = 0) -> Any:
    given = ("t.csv", "--target", target, "--env", "site", "--n-boot", str(n_boot), "--quiet")
    return invariscope("audit", *given, "--features", "age,dose", "--criteria", "regret", *options)


def train(*options: str, out: str = "m.skops") -> Any:
    given = ("t.csv", "--target", "days", "--env", "site", "--steps", "2", "--quiet", "--features", "age,dose")
    return invariscope("train", *given, "--out", out, *options)


def with_model(*options: str) -> Any:
    Path("m.skops").write_bytes(skops.io.dumps(LinearRegression().fit(TABLE[["age", "dose"]], TABLE["days"])))
    return audit("--model", "m.skops", *options)


def without_packages(call: Callable[[], Any]) -> Any:
    with patch("invariscope.cli.output.find_spec", lambda name: None):
        return call()


class FullDisk(io.StringIO):
    """Standard output on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def listed(to: io.StringIO) -> Any:
    with redirect_stdout(to):
        return invariscope("datasets", "list")


CASES = [
    Case(
        "in an option of its own: --drop-env 'c, d'",
        lambda: audit("--env", "ward", "--drop-env", "c, d,a"),
        lambda: audit("--env", "ward", "--drop-env", "c, d", "--drop-env", "a"),
    ),
    Case(
        "goes in double quotes",
        lambda: audit("--env", "ward", "--drop-env", "c, d,a"),
        lambda: audit("--env", "ward", "--drop-env", '"c, d",a'),
    ),
    Case("leave one out", lambda: with_model("--prediction", "guess"), with_model),
    Case("write it like regret>0.1", lambda: audit("--fail-on", "regret"), lambda: audit("--fail-on", "regret>0.1")),
    Case(
        "name one data set or more",
        lambda: invariscope("datasets", "fetch"),
        lambda: invariscope("datasets", "fetch", "linear_sem"),
    ),
    Case("is read, too: choose another name", lambda: audit("--json", "t.csv"), lambda: audit("--json", "n.json")),
    Case("a model file ends in .skops", lambda: train(out="m.txt"), lambda: train(out="m.skops")),
    Case("pip install 'skops'", lambda: without_packages(train), train),
    Case("as in 64 or 64,64", lambda: train("--hidden", "64;64"), lambda: train("--hidden", "64,64")),
    Case(
        "leave out --penalty",
        lambda: train("--objective", "erm", "--penalty", "1"),
        lambda: train("--objective", "erm"),
    ),
    Case("send it elsewhere", lambda: listed(FullDisk()), lambda: listed(io.StringIO())),
]
