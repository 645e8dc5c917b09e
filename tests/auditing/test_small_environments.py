"""One environment of a few rows keeps a question open: it is named, and without it the question is settled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import invariscope as iv
from invariscope.auditing.advice import outnumbered
from invariscope.cli import main

DRAWS = 199


def table(small: int) -> pd.DataFrame:
    """Four sites of 300 rows, of which D differs, and one of a few."""
    rng = np.random.default_rng(0)
    site = np.repeat(list("ABCDE"), [300] * 4 + [small])
    x = rng.normal(size=len(site))
    score = x * (1 + 0.8 * (site == "D")) + 0.7 * rng.normal(size=len(site))
    return pd.DataFrame({"x": x, "site": site, "ill": (score > 0).astype(int)})


def audited(rows: pd.DataFrame) -> Any:
    return iv.audit(None, rows[["x"]], rows.ill, rows.site, n_boot=DRAWS)


@pytest.mark.parametrize("small", [6, 12])
def test_dropping_or_merging_it_settles_the_question(small: int) -> None:
    rows = table(small)
    found = audited(rows)
    assert found.state == "CANNOT TELL YET"
    assert found.could_drop == ("E",)
    advice = found.sentences[-1]
    if small == 12:  # enough for a head of its own, and too few to say much
        assert advice.endswith(
            ' Or drop E (12 rows, others have 300; drop_env="E" of iv.read), or merge it with another site.'
        )
    else:
        assert advice == "Next: drop it, or merge it with another."
    assert found["influence_index"].pvalue > 0.05
    assert found.algorithm.endswith("The few rows of E may hide it: drop or merge them.")
    merged = rows.replace({"site": {"E": "A"}})
    for followed in (rows[rows.site != "E"], merged):
        settled = audited(followed)
        assert settled.state == "NOT INVARIANT"
        assert settled.could_drop == ()
        assert settled["influence_index"].pvalue < 0.05
        assert "few rows" not in settled.verdict


def test_the_option_can_be_typed_in_a_shell_and_in_python(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    table(12).to_csv(file, index=False)
    options = ["audit", str(file), "--target", "ill", "--env", "site", "--n-boot", str(DRAWS)]
    shown = " ".join(CliRunner().invoke(main, options, catch_exceptions=False).output.split())
    assert (
        "Or drop E (12 rows, others have 300), or merge it with another site. To drop it, pass --drop-env E." in shown
    )
    shown = CliRunner().invoke(main, [*options, "--drop-env", "E"], catch_exceptions=False).output
    assert "NOT INVARIANT" in shown
    assert iv.audit(None, *iv.read(file, target="ill", env="site", drop_env="E"), n_boot=DRAWS).state == "NOT INVARIANT"


def test_who_is_outnumbered() -> None:
    """By ten to one, and never so many that nothing is left to compare."""
    assert outnumbered("abcd", np.array([300.0, 29.0, 31.0, 310.0])) == ()
    assert outnumbered("abcde", np.array([300.0, 29.0, 31.0, 310.0, 320.0])) == ("b",)
    assert outnumbered("abcde", np.array([300.0, 29.0, 9.0, 310.0, 320.0])) == ("b", "c")
    assert outnumbered("abc", np.array([300.0, 6.0, 5.0])) == ()
    assert outnumbered("ab", np.array([300.0, 6.0])) == ()


def test_many_of_them_are_counted() -> None:
    rng = np.random.default_rng(1)
    site = np.repeat([f"s{k:02}" for k in range(16)], [300] * 9 + [12] * 7)
    x = rng.normal(size=len(site))
    found = iv.audit(None, x[:, None], x + rng.normal(size=len(site)), site, n_boot=DRAWS, env_name="site")
    assert found.state == "CANNOT TELL YET"
    assert len(found.could_drop) == 7
    assert " Or drop the 7 smallest (at most 12 rows, others have 300; drop_env=[" in found.sentences[-1]
    assert found.sentences[-1].endswith("or merge them with another site.")
