from __future__ import annotations

import dataclasses
import io
import math
import re
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from invariscope.criteria.registry import CRITERIA
from invariscope.report import terminal

Build = Callable[..., SimpleNamespace]


def shown(audit: SimpleNamespace, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(terminal.table(audit))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(cell_len, text.splitlines())) <= width
    return text


def test_everything_at_a_glance(audit: SimpleNamespace) -> None:
    text = shown(audit, 120)
    lines = [line.rstrip() for line in text.splitlines()]
    assert re.fullmatch(r"920 rows · 4 environments · 13 features · linear head, log-loss +0:00:02", lines[0])
    assert lines[2] == f"   NOT INVARIANT   {audit.headline}"
    assert [line.strip() for line in lines[3:7]] == [*audit.sentences, audit.algorithm]
    assert lines[8].split() == ["hospital", "rows", "shared", "own", "head", "regret", "ECE", "overlap"]
    assert lines[9].split(maxsplit=4)[:4] == ["Switzerland", "123", "0.581", "0.421"]
    assert lines[9].endswith("+38 % (21 … 60)  0.19  weak: 31 of 123 rows effective")
    assert lines[12].strip().startswith("Cleveland")
    said = " ".join(text.split())
    assert "DRIC 0.83 (0.61 … 1.1) against 0.11 … 0.49 when shuffled (the page says what it can tell), V" in said
    assert re.search(r"V −1\.20 against −3\.\d+ … −2\.\d+ when shuffled\.", said)
    assert (
        "Transport gap: if Long Beach's relation held in Cleveland, mean disease would be 18 points lower "
        "(95 %: 14–22); 5 of 12 pairs differ surely, 4 cannot be compared." in said
    )
    assert "Left out: Worst case (needs a torch model)." in text


def test_the_baseline_itself_has_no_interval_to_show(audit: SimpleNamespace) -> None:
    same = {"value": 1.0, "interval": (1.0, 1.0 + 1e-12), "null": np.ones(99)}
    audit.results["dric"] = dataclasses.replace(audit.results["dric"], **same)
    assert "DRIC 1.0 (the page says what it can tell), V" in " ".join(shown(audit).split())
    audit.results["dric"] = dataclasses.replace(audit.results["dric"], interval=(math.nan,) * 2, null=np.empty(0))
    assert "DRIC 1.0 (the page says what it can tell), V" in " ".join(shown(audit).split())


def test_the_transport_gap_takes_two_lines_at_most(build_audit: Build) -> None:
    audit = build_audit(labels=[f"the university hospital of a long name, number {k}" for k in range(12)])
    lines = shown(audit).splitlines()
    first = next(k for k, line in enumerate(lines) if "Transport gap:" in line)
    assert "Published criteria:" in lines[first + 2]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_column_is_pushed_off(build_audit: Build, width: int) -> None:
    text = shown(build_audit(labels=["y" * 200, "東京" * 40, "b", "c"]), width)
    assert text.count("effective") == 2
    assert "+38 % (21 … 60)" in text
    assert "0.19" in text


def test_user_text_is_not_markup(build_audit: Build) -> None:
    audit = build_audit(labels=["[red]x[/red]", "[/]", "b", "c"])
    audit.notes = ("[bold]note[/bold]",)
    audit.headline = "[blink]headline[/nothing]"
    text = shown(audit)
    for expected in ("[red]x[/red]", "[/]", "[bold]note[/bold]", "[blink]headline[/nothing]"):
        assert expected in text


def test_many_environments_are_cut_worst_first(build_audit: Build) -> None:
    regrets = [(k / 100, (k - 1) / 100, (k + 1) / 100) for k in range(50)]
    text = shown(build_audit(labels=[f"site {k}" for k in range(50)], regrets=regrets))
    assert "site 49" in text
    assert "site 30 " in text
    assert "site 29" not in text
    assert "… and 30 more" in text


def test_bare_audit(build_audit: Build) -> None:
    text = shown(build_audit(without=list(CRITERIA), state="UNINFORMATIVE"))
    assert "UNINFORMATIVE" in text
    assert "Published criteria" not in text
    assert "Transport gap:" not in text
    assert "Classical criteria" not in text
    assert "Shared-head regret (was not asked for)" in " ".join(text.split())
    assert re.search(r"Cleveland +303", text)
