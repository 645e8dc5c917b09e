"""Hostile options, files and outputs of every command: one sentence and exit code 2, never a traceback, no wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import invariscope as iv
from invariscope.cli import main
from tests.hostile.doors import ONE, ROWS, TABLE
from tests.hostile.exceptions import KNOWN_COMMANDS
from tests.hostile.judge import assert_is_clear, time_limit

AUDIT = ["audit", "t.csv", "--target", "y", "--env", "site", "--n-boot", "0", "--criteria", "regret", "--quiet"]
TRAIN = ["train", "t.csv", "--target", "y", "--env", "site", "--out", "m.skops", "--steps", "2", "--quiet"]
LONG = "x" * 5000
#: Bytes that are no table, by the name of the file.
FILES = {
    "empty.csv": b"",
    "zeros.csv": b"\x00" * 100,
    "one_line.csv": b"y,site,x0\n",
    "ragged.csv": b"y,site,x0\n1,a,2\n1,a\n",
    "utf16.csv": "y,site,x0\n1,a,2\n".encode("utf-16")[:-1],
    "no.parquet": b"PAR1 but not really PAR1",
    "no.feather": b"ARROW1\x00\x00",
    "bomb.csv.gz": b"\x1f\x8b\x08\x00\x00",
    "quote.csv": b'y,site,x0\n1,"a,2\n' * 3,
}
REFUSED = [
    *([*AUDIT[:1], name, *AUDIT[2:]] for name in (*FILES, "", "none.csv", ".", "a\x1b[31m.csv", LONG, "t.csv/x")),
    *([*TRAIN[:1], name, *TRAIN[2:]] for name in (*FILES, "", "none.csv", ".")),
    *([*AUDIT, *more] for more in (
        *(("--target", name) for name in ("", "none", "site", "\x1b[31m", LONG)),
        *(("--env", name) for name in ("", "none", "y", "x0", LONG)),
        *(("--n-boot", value) for value in ("-5", "2.5", "99x", "", "nan", "1e30", "5")),
        *(("--margin", value) for value in ("-1", "0", "1", "nan", "inf", "x", "")),
        *(("--seed", value) for value in ("-1", "x", "2.5", "nan")),
        *(("--env-bins", value) for value in ("0", "1", "-3", "1e30", "9" * 400, "nan", "x", "3,2", ",", "")),
        *(("--features", value) for value in ("none", ",", "x0,none")),
        *(("--criteria", value) for value in ("none", "", "regret,x")),
        *(("--ratio", value) for value in ("none", "", LONG)),
        *(("--weight", value) for value in ("none", "site", "x0")),
        *(("--drop-env", value) for value in ("none", "a,b", "a,b,c")),
        *(("--fail-on", value) for value in ("", "x", "regret>", "regret>x", "p<nan", LONG)),
        *(("--task", value) for value in ("x", "classification")),
        *(("--model", value) for value in ("none.skops", "t.csv", ".", "m.txt", "empty.csv")),
        *(("--prediction", value) for value in ("none", "site")),
        *(("--json", value) for value in (".", "none/none/x.json", LONG, "/dev/full", "/proc/x.json", "t.csv/x.json")),
    )),
    *([*TRAIN, *more] for more in (
        *(("--hidden", value) for value in ("x", "0", "-1", "9999999999", "8,,8", "1e3")),
        *(("--objective", value) for value in ("none", "")),
        *(("--learning-rate", value) for value in ("0", "-1", "nan", "x", "1e30")),
        *(("--steps", value) for value in ("0", "-1", "x", "2.5")),
        *(("--held-out", value) for value in ("1", "-0.1", "nan", "x")),
        *(("--out", value) for value in ("m.txt", ".", "none/none/m.skops", LONG + ".skops", "/dev/full")),
        *(("--leave-out", value) for value in ("none", "a,b,c")),
        *(("--penalty", value) for value in ("-1", "nan", "x")),
    )),
    *(["datasets", "describe", name] for name in ("none", "", LONG, "\x1b[31m")),
    *(["datasets", "fetch", name] for name in ("none", "")),
    *(["demo", "--offline", "--html", name] for name in ("none/none/x.html", ".")),
    *([["none"], ["audit"], ["train"], ["datasets", "none"], ["--none"]]),
]  # fmt: skip
#: Odd, and right: they end with exit code 0, or 1 where a condition is met.
TAKEN = [
    AUDIT,
    [*AUDIT, "--json", "-"],
    [*AUDIT, "--json", "/dev/stdout"],
    [*AUDIT, "--json", "\x1b[31m.json"],
    [*AUDIT, "--json", "/dev/null"],
    [*AUDIT, "--margin", "1e-300"],
    [*AUDIT, "--seed", "9" * 40],
    [*AUDIT, "--drop", "x0"],
    TRAIN,
]


@pytest.fixture
def _tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    for name, content in FILES.items():
        Path(name).write_bytes(content)


def _name(arguments: list[str]) -> str:
    return (
        " ".join(arguments)
        .replace(" ".join(AUDIT), "audit")
        .replace(" ".join(TRAIN), "train")[:80]
        .encode("unicode_escape")
        .decode()
    )


def _marks(arguments: list[str]) -> list[pytest.MarkDecorator]:
    reason = KNOWN_COMMANDS.get(tuple(arguments[-2:]))
    return [pytest.mark.xfail(reason=reason, strict=True)] if reason else []


@pytest.mark.usefixtures("_tables")
@pytest.mark.parametrize("arguments", [pytest.param(given, id=_name(given), marks=_marks(given)) for given in REFUSED])
def test_a_command_refuses_in_one_sentence(arguments: list[str]) -> None:
    with time_limit(20):
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, (result.exit_code, result.output[-300:], result.exception)
    assert "Traceback" not in result.output
    said = result.stderr.strip().splitlines()[-1]
    if not result.stderr.startswith("Usage:"):  # click's own words on options name the bounds, and --help
        assert_is_clear(said.removeprefix("Error: "))


@pytest.mark.usefixtures("_tables")
@pytest.mark.parametrize("arguments", TAKEN, ids=_name)
def test_a_command_takes_what_is_odd_but_right(arguments: list[str]) -> None:
    with time_limit(20):
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output[-300:]
    assert {*Path().glob("*.tmp")} == set()


@pytest.mark.usefixtures("_tables")
@pytest.mark.parametrize("method", ["to_html", "to_json"])
@pytest.mark.parametrize("path", ["", ".", "none/none/x", LONG, "t.csv/x", "/dev/full", "\x00", 1, None, b"x", [], 2.5])
def test_an_audit_is_not_written_where_nothing_can_be(method: str, path: object) -> None:
    audit = iv.audit(None, **ROWS, **ONE)
    with time_limit(20), pytest.raises(iv.InputError) as refused:
        getattr(audit, method)(path)
    assert_is_clear(str(refused.value))
