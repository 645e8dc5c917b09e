"""On the command line every piece of advice can be typed there: no sentence names an option as Python does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import invariscope as iv
from invariscope.cli import main
from invariscope.rows.spelling import PYTHON, SHELL, spelling, spelt, typed_in

#: An option as Python spells it; a condition of --fail-on ("verdict=...") is typed so in a shell, too.
PYTHONS = re.compile(r"(?<![\w-])(?!verdict=)[a-z]\w*=")
AUDIT = ["audit", "rows.csv", "--target", "y", "--env", "site", "--html", "page.html", "--json", "numbers.json"]
TRAIN = ["train", "rows.csv", "--target", "y", "--env", "site", "--out", "model.skops", "--steps", "20"]


def rows(count: int = 240, sites: int = 3, columns: int = 3, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, columns))
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(columns)])
    site = np.arange(count) % sites
    return frame.assign(site=[f"s{k}" for k in site], y=X[:, 0] * (1 + 0.5 * site) + rng.normal(size=count))


def split(frame: pd.DataFrame) -> pd.DataFrame:
    """Classes that no head confuses."""
    return frame.assign(y=np.where(frame["x0"] > 0, "yes", "no"))


def saved(model: object, name: str) -> None:
    import skops.io

    skops.io.dump(model, name)


def fitted(model: Ridge | DecisionTreeRegressor, frame: pd.DataFrame) -> object:
    return model.fit(frame.drop(columns=["y", "site"]), frame["y"])


def pickled(frame: pd.DataFrame) -> None:
    import pickle

    Path("model.pkl").write_bytes(pickle.dumps(fitted(Ridge(), frame)))


CASES: dict[str, tuple[pd.DataFrame, list[str], Callable[[pd.DataFrame], None] | None]] = {
    "plain": (rows(), AUDIT, None),
    "point estimates": (rows(), [*AUDIT, "--n-boot", "0"], None),
    "too few draws": (rows(), [*AUDIT, "--n-boot", "3"], None),
    "a condition beyond the draws": (rows(), [*AUDIT, "--n-boot", "99", "--fail-on", "p<0.001"], None),
    "a condition without draws": (rows(), [*AUDIT, "--n-boot", "0", "--fail-on", "p<0.5"], None),
    "few rows": (rows(30), AUDIT, None),
    "one small site": (rows(60).assign(site=["a"] * 30 + ["b"] * 27 + ["c"] * 3), AUDIT, None),
    "wide": (rows(60, 2, 90), AUDIT, None),
    "classes without errors": (split(rows()), AUDIT, None),
    "classes taken for numbers": (split(rows()), [*AUDIT, "--task", "regression"], None),
    "numbers taken for classes": (rows(), [*AUDIT, "--task", "classification"], None),
    "a linear model": (rows(), [*AUDIT, "--model", "m.skops"], lambda f: saved(fitted(Ridge(), f), "m.skops")),
    "a wide model": (
        rows(100, 2, 150), [*AUDIT, "--model", "m.skops"],
        lambda f: saved(fitted(DecisionTreeRegressor(max_depth=2), f), "m.skops"),
    ),
    "a pickle": (rows(), [*AUDIT, "--model", "model.pkl"], pickled),
    "predictions that are no probabilities": (
        split(rows()).assign(said=np.linspace(-3, 3, 240)), [*AUDIT, "--prediction", "said"], None,
    ),
    "missing values": (rows().mask(np.eye(240, 5) > 0), AUDIT, None),
    "trained": (rows(), TRAIN, None),
    "trained on one site": (rows(), [*TRAIN, "--leave-out", "s0,s1"], None),
    "trained too fast": (rows(), [*TRAIN, "--learning-rate", "1e30"], None),
    "trained on labels as numbers": (split(rows()), [*TRAIN, "--task", "regression"], None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_no_sentence_names_an_option_as_python_does(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame, words, make = CASES[case]
    frame.to_csv("rows.csv", index=False)
    if make is not None:
        make(frame)
    done = CliRunner().invoke(
        main, [*words, *(["--n-boot", "99"] if "--n-boot" not in words and words[0] == "audit" else [])]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    assert ("is 3: give 0" in done.output) == (case == "too few draws")
    page = Path("page.html").read_text(encoding="utf-8") if Path("page.html").exists() else ""
    shown = re.sub(r"(?s)<style.*?</style>|<[^>]*>", " ", page)  # what a person reads
    for text in (done.output, shown, Path("numbers.json").read_text("utf-8") if page else ""):
        assert not PYTHONS.findall(text)


def test_advice_is_spelt_for_whoever_reads_it() -> None:
    data = rows()
    given = iv.audit(None, data[["x0"]], data["y"], data["site"], n_boot=0)
    assert given.sentences[-1] == "Next: audit again with n_boot=999."
    assert "(baseline=...)" in given.left_out["dric"]
    with typed_in(SHELL):
        typed = iv.audit(None, data[["x0"]], data["y"], data["site"], n_boot=0)
    assert typed.sentences[-1] == "Next: audit again with --n-boot 999."
    assert typed.left_out["dric"].endswith(
        "Audit another model with --model, or give another baseline (--baseline ...)."
    )
    assert spelling() is PYTHON  # as before
    assert spelt("n_boot") == "n_boot="
