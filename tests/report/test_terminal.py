from __future__ import annotations

import dataclasses
import functools
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

import invariscope as iv
from invariscope.criteria.registry import CRITERIA
from invariscope.report import terminal
from tests.report.audits import audited, replaced, with_regrets, without


def shown(audit: iv.Audit, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(terminal.table(audit))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(cell_len, text.splitlines())) <= width
    return text


def test_everything_at_a_glance(audit: iv.Audit) -> None:
    text = shown(audit, 120)
    lines = [line.rstrip() for line in text.splitlines()]
    assert re.fullmatch(r"920 rows · 4 environments · 13 features · linear head, log-loss +0:00:02", lines[0])
    assert lines[2] == f"   NOT INVARIANT   {audit.headline}"
    assert [line.strip() for line in lines[3:7]] == [*audit.sentences, audit.algorithm]
    assert lines[8].split() == ["shared", "own"]
    assert lines[9].split() == ["model", "head", "head"]
    assert lines[10].split() == ["hospital", "rows", "loss", "loss", "loss", "regret", "ECE", "overlap"]
    assert lines[11].split(maxsplit=5)[:5] == ["Switzerland", "123", "0.581", "0.581", "0.421"]
    assert lines[11].endswith("+38 % (21 … 60)  0.19  weak: 31 of 123 rows effective")
    assert lines[14].strip().startswith("Cleveland")
    said = " ".join(text.split())
    assert "DRIC 0.83 (0.61 … 1.1) against 0.11 … 0.49 when shuffled; spread 1.0 of the baseline's" in said
    assert "which alone gives 1.1 (the page says what it can tell), V" in said
    assert re.search(r"V −1\.20, up to −2\.\d+ when shuffled \(95 %\)\.", said)
    assert (
        "Transport gap: if VA Long Beach's relation held in Cleveland, mean disease would be 18 points lower "
        "(95 %: 14–22); 5 of 12 pairs differ surely, 4 cannot be compared." in said
    )
    assert "Left out: Worst-case loss in input space (needs a torch model)." in said


def test_what_takes_long_is_left_out_with_the_way_to_ask_for_it() -> None:
    X, env = np.random.default_rng(0).normal(size=(90, 2)).astype(np.float32), np.repeat(["a", "b", "c"], 30)
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
    found = iv.audit(network, X, X[:, 0] + X[:, 1] ** 2, env, n_boot=99)
    assert "worst_case" in found.results
    assert (
        'Worst-case loss in input space (it takes long: ask for it with criteria="all", or by name with '
        'criteria="worst_case_in_inputs")' in " ".join(str(found).split())
    )
    asked = iv.audit(network, X, X[:, 0] + X[:, 1] ** 2, env, n_boot=99, criteria="worst_case_in_inputs")
    assert set(asked.results) == {"regret", "worst_case_in_inputs"}


def test_the_baseline_itself_has_no_interval_to_show(audit: iv.Audit) -> None:
    same = {"value": 1.0, "interval": (1.0, 1.0 + 1e-12), "null": np.ones(99), "spread": math.nan}
    audit = replaced(audit, "dric", **same)
    assert "DRIC 1.0 (the page says what it can tell), V" in " ".join(shown(audit).split())
    audit = replaced(audit, "dric", interval=(math.nan,) * 2, null=np.empty(0))
    assert "DRIC 1.0 (the page says what it can tell), V" in " ".join(shown(audit).split())
    audit = replaced(audit, "dric", value=math.nan)
    assert "Published criteria: no DRIC (the page says why), V" in " ".join(shown(audit).split())


def test_the_transport_gap_takes_two_lines_at_most() -> None:
    names = tuple(f"the university hospital of a long name, number {k}" for k in range(10, 22))
    audit = audited(names, criteria=("transport_gap", "influence_index"), sizes=(40,))
    lines = shown(audit).splitlines()
    first = next(k for k, line in enumerate(lines) if "Transport gap:" in line)
    assert "Published criteria:" in lines[first + 2]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_column_is_pushed_off(width: int) -> None:
    names = ("y" * 200, "東京" * 40, "b", "c")
    audit = with_regrets(audited(names, sizes=(60, 60, 60, 60)), [(0.38, 0.21, 0.6), (0.02, 0.01, 0.03)])
    weak = dataclasses.replace(audit["transport_gap"].overlap, verdicts=("weak", "good", "none", "good"))
    text = shown(replaced(audit, "transport_gap", overlap=weak), width)
    assert text.count("effective") == 2
    assert "+38 % (21 … 60)" in text
    assert re.search(rf" {audit.frame()['ece'].max():.2f} ", text)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_what_has_no_bound_is_said_in_words_that_push_nothing_off(width: int) -> None:
    audit = with_regrets(audited(("a", "b")), [(0.38, 0.021, 40.93), (0.1, -0.05, 17635.15)])
    said = re.sub(r"\s+", " ", shown(audit, width))
    assert "1,763" not in said
    assert "4,093" not in said
    assert all(word in said for word in ("+38 % (at least", "cannot be", "bounded)", "ECE", "overlap"))


def test_regrets_of_six_figures_leave_room_for_the_names() -> None:
    labels = ("Northampton", "Southampton", "Wolverhampton")
    rates = ((6265.0, 4865.0, 7706.0), (6173.0, 4938.0, 7583.0), (0.1, 0.05, 0.2))
    text = shown(with_regrets(audited(labels, task="regression"), rates), 80)
    lines = text.splitlines()
    assert all(any(line.split()[:1] == [label] for line in lines) for label in labels)
    assert any(line.split()[:1] == ["hospital"] for line in lines)
    assert "+626,500 %" in text
    assert "(486,500 … 770,600)" in text


@pytest.mark.parametrize(
    "names",
    [
        tuple(f"age at admission (years) in ({k}.0, {k + 1}.0]" for k in range(4)),
        tuple(f"the university hospital of a long name, number {k}" for k in range(4)),
        tuple(f"東京都立病院東京都立病院第{k}病棟" for k in range(4)),
    ],
)
def test_shortened_names_stay_apart(names: tuple[str, ...], audit: iv.Audit) -> None:
    sizes = {f"{size:,}" for size in audit.data.sizes}
    audit = dataclasses.replace(without(audit, "regret"), data=dataclasses.replace(audit.data, labels=names))
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown(audit).splitlines()]
    named = [row[0] for row in rows if len(row) > 1 and row[1] in sizes]
    assert len(set(named)) == 4
    assert max(map(cell_len, named)) <= 26


#: What terminals obey: colours, a new title, a link, an overwritten line, a bell, and the same in eight bits.
ORDERS = ("\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;http://a\x1b\\link", "over\rwritten", "\x9b2J", "bell\x07")


@functools.cache
def ordering() -> iv.Audit:
    """An audit with such orders, and halves of surrogate pairs, wherever a user's words may be."""
    rng = np.random.default_rng(0)
    env = np.repeat([*ORDERS[:3], "a\ud800"], 50)
    columns = pd.Index([*ORDERS[3:], "b\udfff"], dtype=object)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=columns)
    y = np.where(X.iloc[:, 0] * np.where(env == env[0], -1, 1) + rng.normal(size=200) > 0, ORDERS[0], ORDERS[1])
    audit = iv.audit(None, X, y, env, n_boot=99, env_name="site\x1b[2J", target_name="ill\x1b[2J")
    return dataclasses.replace(audit, notes=ORDERS, left_out={"worst_case": ORDERS[0]})


@pytest.mark.parametrize(
    "show", [str, repr, shown, lambda audit: audit.verdict], ids=["str", "repr", "rich", "verdict"]
)
def test_nothing_that_a_terminal_would_obey_is_shown(show: Callable[[iv.Audit], str]) -> None:
    text = show(ordering())
    assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []
    assert "[31mred" in text
    text.encode()


def test_halves_of_surrogate_pairs_are_written(tmp_path: Path) -> None:
    numbers = ordering().to_json(tmp_path / "a.json").read_bytes()
    written = [label.encode(errors="backslashreplace").decode() for label in ordering().data.labels]
    assert json.loads(numbers.decode("utf-8"))["data"]["labels"] == written  # which strict readers take, too
    ordering().to_html(tmp_path / "a.html").read_bytes().decode("utf-8")


def test_user_text_is_not_markup() -> None:
    audit = audited(("[red]x[/red]", "[/]"), criteria=("regret",))
    audit = dataclasses.replace(audit, notes=("[bold]note[/bold]",), headline="[blink]headline[/nothing]")
    text = shown(audit)
    for expected in ("[red]x[/red]", "[/]", "[bold]note[/bold]", "[blink]headline[/nothing]"):
        assert expected in text


@pytest.mark.slow
def test_many_environments_are_cut_worst_first() -> None:
    regrets = [(k / 100, (k - 1) / 100, (k + 1) / 100) for k in range(64)]
    audit = audited(tuple(range(64)), task="regression", criteria=("risk_variance",), sizes=(30,))
    text = shown(with_regrets(audit, regrets))
    assert re.search(r"^ +63 +30 ", text, re.M)
    assert re.search(r"^ +44 +30 ", text, re.M)
    assert not re.search(r"^ +43 +30 ", text, re.M)
    assert "… and 44 more" in text


def test_without_a_regret_the_losses_are_the_model_s_and_the_reason_is_given(audit: iv.Audit) -> None:
    text = shown(without(audit, "regret", reason="Bern has 3 rows."))
    heads = [line.split() for line in text.splitlines() if line.split()[-1:] in (["overlap"], ["model"])]
    assert heads == [["model"], ["hospital", "rows", "loss", "ECE", "overlap"]]
    assert "– Shared-head regret was left out: Bern has 3 rows." in text


def test_an_audit_of_every_kind_fits(any_audit: iv.Audit) -> None:
    for width in (80, 100, 120):
        text = shown(any_audit, width)
        assert any_audit.state in text
        assert not re.search(r"\bnan\b|\bNone\b|\binf\b", text)


def test_a_reason_that_the_verdict_gives_is_not_given_three_times_more() -> None:
    rng = np.random.default_rng(0)
    env, X = np.repeat(["big", "small"], [100, 8]), rng.normal(size=(108, 4))
    said = " ".join(shown(iv.audit(None, X, X[:, 0] + rng.normal(size=108), env, n_boot=99)).split())
    assert said.count('nvironment "small" has 8 rows') == 2  # in the verdict, and where all that was left out is listed


def test_bare_audit(audit: iv.Audit) -> None:
    text = shown(without(dataclasses.replace(audit, state="UNINFORMATIVE"), *audit.results))
    assert "UNINFORMATIVE" in text
    assert "Published criteria" not in text
    assert "Transport gap:" not in text
    assert "Classical criteria" not in text
    said = " ".join(text.split())
    assert all(CRITERIA[name].title in said[said.index("Left out:") :] for name in audit.results)
    assert said.endswith("and Worst-case loss (too few rows here).")
    assert re.search(r"Cleveland +303", text)
