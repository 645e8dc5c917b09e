"""`invariscope audit` as a user meets it: what is printed, written and refused, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from click.testing import CliRunner, Result
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import invariscope as iv
from invariscope.cli import main
from invariscope.criteria.registry import CRITERIA
from invariscope.ratios.catalogue import ESTIMATORS
from invariscope.reading.options import MISSING_CHOICES
from invariscope.rows.spelling import SHELL, typed_in

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def hospitals(seed: int) -> pd.DataFrame:
    """Three hospitals that agree about age and disagree about cholesterol; patients of both sexes."""
    rng = np.random.default_rng(seed)
    n = 600
    hospital = np.repeat(["Bern <b>", "Oslo", "Rome"], n // 3)
    age, cholesterol = rng.normal(size=(2, n))
    days = age + np.where(hospital == "Rome", -1.5, 1.5) * cholesterol + rng.normal(size=n)
    frame = pd.DataFrame({"hospital": hospital, "age": age, "cholesterol": cholesterol, "days in bed": days})
    frame["ill"] = np.where(age + rng.logistic(size=n) > 0, "yes", "no")
    frame["sex"] = np.where(np.arange(n) % 2 == 0, "f", "m")
    frame["score"] = 2 * age + 1
    frame["risk"] = 1 / (1 + np.exp(-age))
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


@pytest.fixture
def run(folder: Path) -> Run:
    """``run("--drop ill")`` audits days in bed by hospital with 99 draws; exceptions come out as they are."""

    def call(options: str = "", *more: str, data: str = "h.csv", target: str = "days in bed") -> Result:
        given = [data, "--target", target, "--env", "hospital", "--n-boot", "99", *options.split(), *more]
        return CliRunner().invoke(main, ["audit", *given], catch_exceptions=False)

    return call


def numbers(run: Run, *arguments: str, **named: str) -> dict[str, Any]:
    """Everything the command found, from the file it writes."""
    done = run("--quiet --json found.json", *arguments, **named)
    assert (done.exit_code, done.output) == (0, "")
    return dict(json.loads(Path("found.json").read_text(encoding="utf-8")))


def plain(audit: iv.Audit) -> dict[str, Any]:
    return dict(json.loads(json.dumps(audit.to_dict())))


# --- what is printed and written ----------------------------------------------------------------------------------
def test_table_page_and_numbers(run: Run) -> None:
    done = run("--features age,cholesterol --html page.html --json numbers.json")
    assert done.exit_code == 0
    assert done.stderr == ""
    assert "600 rows · 3 environments · 2 features · linear head, squared loss" in done.stdout
    assert "NOT INVARIANT   One head does not serve all 3 hospitals" in done.stdout
    assert "They disagree mostly about cholesterol." in done.stdout
    assert re.search(r"\S *\n\nNumbers: numbers\.json\nPage: page\.html\n$", done.stdout)
    assert max(map(len, done.stdout.splitlines())) == 100
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Bern &lt;b&gt;" in page
    assert "Bern <b>" not in page
    for name in ("Oslo", "Rome", "cholesterol", "days in bed", "hospital"):
        assert name in page
    assert sorted(path.name for path in Path().iterdir()) == ["h.csv", "numbers.json", "page.html"]


def test_no_files_unless_asked_for(run: Run) -> None:
    done = run("--features age")
    assert done.exit_code == 0
    assert "Page:" not in done.stdout
    assert re.search(r"\S *\n\Z", done.stdout)  # and no blank line before files that are not there
    assert [path.name for path in Path().iterdir()] == ["h.csv"]


@pytest.mark.slow
def test_quiet(run: Run) -> None:
    done = run("--features age --quiet --html page.html")
    assert (done.exit_code, done.output) == (0, "")
    assert Path("page.html").is_file()


def test_it_is_the_audit_of_the_library(run: Run, hospitals: pd.DataFrame) -> None:
    found = numbers(run, "--seed", "7", "--margin", "0.5", "--features", "age,cholesterol")
    expected = iv.audit(
        None,
        hospitals[["age", "cholesterol"]],
        hospitals["days in bed"],
        hospitals["hospital"],
        n_boot=99,
        seed=7,
        margin=0.5,
    )
    assert found["results"] == plain(expected)["results"]
    assert found["verdict"]["state"] == expected.state
    assert (found["settings"]["seed"], found["settings"]["margin"]) == (7, 0.5)


@pytest.mark.slow
def test_csv_parquet_and_feather_give_the_same_numbers(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.to_parquet("h.parquet")
    hospitals.to_feather("h.feather")
    csv, parquet, feather = (numbers(run, data=name)["results"] for name in ("h.csv", "h.parquet", "h.feather"))
    assert csv == parquet
    assert csv == feather


@pytest.mark.slow
def test_weights_count_rows(run: Run, hospitals: pd.DataFrame) -> None:
    twice = np.where(np.arange(len(hospitals)) % 3 == 0, 2, 1)
    hospitals.assign(times=twice).to_parquet("weighted.parquet")
    hospitals.loc[hospitals.index.repeat(twice)].to_parquet("repeated.parquet")
    options = ("--features", "age,cholesterol")
    weighted = numbers(run, *options, "--weight", "times", data="weighted.parquet")["results"]["regret"]
    repeated = numbers(run, *options, data="repeated.parquet")["results"]["regret"]
    assert weighted["value"] == pytest.approx(repeated["value"], rel=1e-7)
    assert "times" not in weighted["columns"]


@pytest.mark.parametrize(("task", "expected"), [("regression", "regression"), ("classification", "multiclass")])
def test_task(task: str, expected: str, run: Run, hospitals: pd.DataFrame, seed: int) -> None:
    grade = np.random.default_rng(seed).integers(0, 3, len(hospitals))
    hospitals.assign(grade=grade).to_parquet("h.parquet")
    found = numbers(run, "--features", "age", "--task", task, data="h.parquet", target="grade")
    assert found["data"]["task"] == expected


# --- where it goes --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_numbers_on_standard_output_are_alone_there(name: str, run: Run) -> None:
    done = run(f"--features age --json {name}")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["data"]["columns"] == ["age"]
    assert "600 rows · 3 environments · 1 feature" in done.stderr
    assert "Numbers:" not in done.stderr
    assert [path.name for path in Path().iterdir()] == ["h.csv"]
    quiet = run(f"--features age --quiet --json {name}")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert json.loads(quiet.stdout)["data"]["columns"] == ["age"]


def test_the_page_on_standard_output_is_alone_there(run: Run) -> None:
    done = run("--features age --html - --json numbers.json")
    assert done.exit_code == 0
    assert done.stdout.startswith("<!doctype html>\n")
    assert done.stdout.endswith("</html>\n")
    assert done.stderr.endswith("\nNumbers: numbers.json\n")


def test_one_place_holds_one_file_and_a_device_any_number(run: Run) -> None:
    done = run("--html - --json /dev/stdout")
    sentence = "InputError: --json /dev/stdout is --html, too: choose another name\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", sentence)
    done = run("--features age --quiet --html /dev/null --json /dev/null")
    assert (done.exit_code, done.output) == (0, "")


def test_a_link_is_followed_and_what_is_read_is_not_overwritten_through_one(run: Run) -> None:
    Path("link.json").symlink_to("real.json")
    Path("input.json").symlink_to("h.csv")
    assert run("--features age --quiet --json link.json").exit_code == 0
    assert Path("link.json").is_symlink()
    assert json.loads(Path("real.json").read_text(encoding="utf-8"))["data"]["rows"] == 600
    done = run("--json input.json")
    assert (done.exit_code, done.stderr) == (2, "InputError: --json input.json is read, too: choose another name\n")


def test_the_verdict_and_the_numbers_are_out_before_a_page_is_drawn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def drawing(audit: iv.Audit, path: Path) -> Path:
        sys.stdout.flush()
        printed = sys.stdout.buffer.getvalue().decode()  # type: ignore[attr-defined]
        seen.append((audit.state in printed, printed.endswith("Numbers: n.json\n"), Path("n.json").is_file()))
        return path

    monkeypatch.setattr(iv.Audit, "to_html", drawing)
    assert run("--features age --html p.html --json n.json").exit_code == 0
    assert seen == [(True, True, True)]


@pytest.mark.parametrize(("limit", "code"), [("0", 1), ("1000", 2)])
def test_a_page_that_cannot_be_drawn_costs_the_page_only(
    limit: str, code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise iv.InputError("charts cannot be drawn: no memory")

    monkeypatch.setattr("invariscope.report.charts.renderer.Renderer.svg", broken)
    done = run("--features age,cholesterol --html p.html --json n.json --fail-on", f"regret>{limit}")
    assert done.exit_code == code  # a condition that is met is the answer that was asked for
    assert "NOT INVARIANT" in done.stdout
    assert done.stdout.endswith("\nNumbers: n.json\n")
    assert done.stderr.endswith("InputError: --html charts cannot be drawn: no memory\n")
    assert done.stderr.count("\n") == (2 if code == 1 else 1)
    assert sorted(path.name for path in Path().iterdir()) == ["h.csv", "n.json"]


def test_numbers_that_cannot_be_written_do_not_cost_the_page(run: Run) -> None:
    done = run("--features age --json /dev/full --html p.html")
    assert (done.exit_code, done.stderr) == (
        2,
        "InputError: --json /dev/full cannot be written: No space left on device; choose another place\n",
    )
    assert done.stdout.endswith("\nPage: p.html\n")
    assert Path("p.html").is_file()


@pytest.mark.parametrize("name", ["n" * 300, "loop", "pipe/page.html", "a\0b"])
def test_outputs_that_cannot_be_are_refused_before_anything_is_computed(name: str, run: Run) -> None:
    Path("loop").symlink_to("loop")
    Path("pipe").write_text("")
    done = run("--html", name)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("InputError: --html ")


RED = "\x1b[31mRome\x07"


def test_orders_to_the_terminal_are_shown_as_escapes(run: Run, hospitals: pd.DataFrame) -> None:
    given = hospitals.assign(hospital=hospitals["hospital"].replace("Rome", RED)).rename(columns={"age": "age\x1b[2J"})
    given.to_parquet("\x1b[1m.parquet")
    options = ("--features", "age\x1b[2J,cholesterol", "--json", "n\x1b[1m.json", "--fail-on", "regret>0")
    done = run("", *options, data="\x1b[1m.parquet")
    assert done.exit_code == 1
    assert done.stdout.endswith("\nNumbers: n\\x1b[1m.json\n")
    assert re.fullmatch(r"--fail-on regret>0: the largest regret, in .*, is \S+\n", done.stderr)
    refused = run("--features", "zzz\x1b[2J", data="\x1b[1m.parquet")
    assert refused.exit_code == 2
    for text in (done.stdout, done.stderr, refused.stderr):
        assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []


def test_a_very_long_label_makes_a_short_sentence(run: Run, hospitals: pd.DataFrame) -> None:
    label = "R" * 1_000_000
    hospitals.assign(hospital=hospitals["hospital"].replace("Rome", label)).to_parquet("long.parquet")
    done = run("--features age --drop-env nowhere", data="long.parquet")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        'InputError: there is no hospital "nowhere" (--drop-env): there are "Bern <b>", "Oslo", "RR'
    )
    assert len(done.stderr) < 2100
    assert numbers(run, "--features", "age", "--drop-env", "Oslo", data="long.parquet")["data"]["rows"] == 400


LIMITED = """
import resource, sys
from invariscope.cli import main
resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
main(sys.argv[1:])
"""


@pytest.mark.slow  # a process of its own
def test_a_limit_on_memory_costs_the_page_only(folder: Path) -> None:
    command = ["audit", "h.csv", "--target", "days in bed", "--env", "hospital", "--features", "age", "--n-boot", "99"]
    command += ["--html", "p.html", "--json", "n.json"]
    single = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *command], capture_output=True, text=True, env=single, timeout=120
    )
    assert done.returncode == 2
    assert done.stdout.endswith("\nNumbers: n.json\n")
    assert re.fullmatch(
        r"InputError: --html charts cannot be drawn: the process that draws them ended with SIG\w+, as it does where "
        r"memory is limited \(ulimit -v\): raise the limit, or do without the page\n",
        done.stderr,
    )
    assert json.loads((folder / "n.json").read_text())["data"]["rows"] == 600


@pytest.mark.slow  # two processes of their own
@pytest.mark.parametrize("options", [[], ["--json", "-"]])
@pytest.mark.usefixtures("folder")
def test_a_full_disk_behind_standard_output_is_told_in_one_sentence(options: list[str]) -> None:
    command = [sys.executable, "-m", "invariscope", "audit", "h.csv", "--target", "days in bed", "--env", "hospital"]
    command += ["--features", "age", "--n-boot", "99", *options]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, timeout=120)
    assert done.returncode == 2
    where, remedy = ("--json -", "choose another place") if options else ("standard output", "send it elsewhere")
    assert done.stderr.splitlines()[-1] == f"InputError: {where} cannot be written: No space left on device; {remedy}"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


# --- which columns --------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_text_is_encoded_and_what_cannot_be_used_is_left_out_and_named(run: Run, hospitals: pd.DataFrame) -> None:
    people = [f"patient {k}" for k in hospitals.index]
    hospitals.assign(day="2024-05-01", name=people).to_csv("dated.csv", index=False)
    done = run("--json found.json", data="dated.csv")
    assert done.exit_code == 0
    remarks = [
        "Left out because they are dates: day.",
        "Left out because they have too many different texts for categories: name (600).",
    ]
    for remark in remarks:
        assert remark in done.stdout
    assert "redundant" not in done.stdout  # that levels add up to 1 is no news
    found = json.loads(Path("found.json").read_text())
    assert found["data"]["columns"] == ["age", "cholesterol", "ill=no", "ill=yes", "sex=f", "sex=m", "score", "risk"]
    assert found["notes"][:2] == remarks


@pytest.mark.slow
def test_it_reads_as_the_library_does(run: Run, hospitals: pd.DataFrame) -> None:
    options = ("--features", "sex,age", "--categories", "age", "--env-bins", "3")
    hospitals.assign(age=hospitals["age"].round(), hospital=hospitals["score"]).to_parquet("h.parquet")
    found = numbers(run, *options, data="h.parquet")
    data = iv.read("h.parquet", target="days in bed", env="hospital", features=["sex", "age"], categories="age",
                   env_bins=3)  # fmt: skip
    expected = plain(iv.audit(None, *data, n_boot=99))
    assert found["results"] == expected["results"]
    assert found["data"]["labels"] == list(data.environments.labels)
    assert len(found["data"]["labels"]) == 3
    assert {"age=0", "age=-1", "sex=f"} <= set(found["data"]["columns"])


@pytest.mark.parametrize(
    ("bins", "labels"),
    [
        ("year", ["2023", "2024"]),
        ("weekday", ["Monday", "Sunday"]),
        ("month-of-year", ["January", "December"]),
    ],
)
def test_environments_from_dates(bins: str, labels: list[str], run: Run, hospitals: pd.DataFrame) -> None:
    days = np.where(hospitals["sex"] == "f", "2023-12-31", "2024-01-01")
    hospitals.assign(hospital=days).to_csv("dated.csv", index=False)
    found = numbers(run, "--features", "age,cholesterol", "--env-bins", bins, data="dated.csv")
    assert found["data"]["labels"] == labels


@pytest.mark.parametrize(
    ("bins", "labels"),
    [("30,65", ["hospital under 30", "hospital 30–64", "hospital 65 and over"]),
     ("30,", ["hospital under 30", "hospital 30 and over"]),
     ("2", ["hospital 0–49", "hospital 50–99"])],
)  # fmt: skip
def test_environments_from_numbers(bins: str, labels: list[str], run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(hospital=hospitals.index % 100).to_csv("aged.csv", index=False)
    found = numbers(run, "--features", "cholesterol", "--env-bins", bins, data="aged.csv")
    assert found["data"]["labels"] == labels


@pytest.mark.slow
def test_features_keep_their_order_and_may_be_repeated(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(**{"a, b": 1.0 * hospitals["age"] ** 2, 'x"y': hospitals["age"] ** 3}).to_parquet("h.parquet")
    options = ("--features", "cholesterol, age", "--features", "a, b", "--features", "age")
    assert numbers(run, *options, data="h.parquet")["data"]["columns"] == ["cholesterol", "age", "a, b"]
    quoted = ("--features", '"a, b",age', "--features", 'x"y')
    assert numbers(run, *quoted, data="h.parquet")["data"]["columns"] == ["a, b", "age", 'x"y']


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", "days in bet"], 'column "days in bet" (--target) is not in h.csv: did you mean "days in bed"?'),
        (["--env", "Hospitals"], 'column "Hospitals" (--env) is not in h.csv: did you mean "hospital"?'),
        (["--env-bins", "1e30"], '--env-bins is "1e30": give one of year, '),
        (["--env", "age", "--env-bins", "9" * 30], f"--env-bins is {'9' * 30}: give a whole number from 2 to 1,000"),
        (
            ["--missing", "keep", "--na", "f"],
            "--missing keep is for a model that fills gaps in by itself, and here is none",
        ),
        (["--categories", "AGE"], 'column "AGE" (--categories) is not in h.csv: did you mean "age"?'),
        (["--features", "age", "--categories", "sex"], 'column "sex" (--categories) is not among the features'),
        (["--env-bins", "decade"], '--env-bins is "decade": give one of year, quarter, month, week, day'),
        (["--env-bins", "year"], 'column "hospital" holds "'),
        (["--env-bins", "4"], 'column "hospital" is text, which cannot be cut into groups of numbers'),
        (["--env-bins", "1,b"], '--env-bins is "1,b": give one of'),
        (["--env", "cholesterol"], "Group it, for example with --env-bins 4."),
        (
            ["--features", "age,colesterol"],
            'column "colesterol" (--features) is not in h.csv: did you mean "cholesterol"?',
        ),
        (["--drop", "AGE"], 'column "AGE" (--drop) is not in h.csv: did you mean "age"?'),
        (
            ["--weight", "zzz"],
            'column "zzz" (--weight) is not in h.csv: it has hospital, age, cholesterol, days in bed',
        ),
        (["--weight", "hospital"], 'column "hospital" is both --env and --weight: name two columns'),
        (["--features", "age,days in bed"], 'column "days in bed" is --target: take it out of --features'),
        (["--features", "age", "--drop", "age"], 'column "age" is in --features and in --drop: take it out of one'),
        (
            ["--drop", "age,cholesterol,score,risk,ill,sex"],
            'h.csv has no feature besides "days in bed" and "hospital".',
        ),
        (
            ["--weight", "sex"],
            'column "sex" (--weight) does not hold numbers: weights count rows, name a column of numbers',
        ),
        (["--prediction", "score", "--model", "m.skops"], "--model and --prediction are two ways to give one model"),
        (["--prediction", "sex"], 'column "sex" (--prediction) does not hold numbers'),
        (["--prediction", "nope"], 'column "nope" (--prediction) is not in h.csv'),
        (["--model", "absent.skops"], "absent.skops: there is no such file"),
        (["--html", "no/page.html"], "--html no/page.html: there is no folder no; make it first"),
        (["--json", "no/n.json"], "--json no/n.json: there is no folder no; make it first"),
        (["--html", "."], "--html . is a folder: name a file in it"),
        (["--html", "h.csv"], "--html h.csv is read, too: choose another name"),
        (["--html", "a", "--json", "./a"], "--json a is --html, too: choose another name"),
        (
            ["--fail-on", "regrett>1"],
            'there is no quantity "regrett"; there are regret, regret-low, p, explained, verdict',
        ),
        (["--task", "regression", "--features", "age", "--target", "ill"], 'target "ill" holds labels, not numbers'),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(options: list[str], sentence: str, run: Run) -> None:
    done = run("", *options)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("InputError: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["h.csv"]


def test_the_table_itself_cannot_be_used(run: Run, hospitals: pd.DataFrame) -> None:
    done = run(data="absent.csv")
    assert (done.exit_code, done.stderr) == (
        2,
        "InputError: absent.csv: there is no such file; look at its name and folder\n",
    )
    hospitals.assign(age=hospitals["age"].where(hospitals["hospital"] != "Rome")).to_csv("holes.csv", index=False)
    done = run(data="holes.csv")
    assert done.exit_code == 2
    assert (
        'InputError: column "age" has 200 missing values (Rome: 200 of 200). Drop it, or pass --missing impute-median.'
        in (done.stderr)
    )
    assert run("--drop age", data="holes.csv").exit_code == 0


@pytest.mark.parametrize(
    ("how", "columns", "rows", "note"),
    [
        ("drop-rows", ["age", "cholesterol"], 560, "Left out 40 of 600 rows with missing values (age 40)."),
        ("drop-columns", ["cholesterol"], 600, "Left out because values are missing: age 40."),
        ("impute-median", ["age", "cholesterol"], 600, "Filled in for missing values: age "),
        ("indicator", ["age", "age missing", "cholesterol"], 600, "Filled in for missing values: age "),
    ],
)
def test_missing_values(how: str, columns: list[str], rows: int, note: str, run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(age=hospitals["age"].where(hospitals.index >= 40), times=2).to_csv("holes.csv", index=False)
    options = ("--features", "age,cholesterol", "--missing", how, "--weight", "times")
    found = numbers(run, *options, data="holes.csv")
    assert found["data"]["columns"] == columns
    assert found["data"]["rows"] == rows
    assert found["notes"][0].startswith(note)


@pytest.mark.slow
def test_predictions_leave_with_their_rows(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(score=hospitals["score"].where(hospitals.index >= 40)).to_parquet("holes.parquet")
    hospitals[40:].to_parquet("rest.parquet")
    found = numbers(run, "--prediction", "score", "--missing", "drop-rows", data="holes.parquet")
    assert found["results"] == numbers(run, "--prediction", "score", data="rest.parquet")["results"]


def test_texts_that_mean_missing(run: Run, hospitals: pd.DataFrame) -> None:
    signs = hospitals.assign(age=["-", "n,d", *map(str, hospitals["age"][2:])])
    signs.to_csv("signs.csv", index=False)
    done = run("--features age", data="signs.csv")
    assert done.exit_code == 2
    assert 'column "age" holds numbers in 598 of 600 rows, and 1 × "-", 1 × "n,d": pass --na - --na n,d' in done.stderr
    found = numbers(run, "--features", "age", "--na", "-", "--na", "n,d", "--missing", "drop-rows", data="signs.csv")
    assert found["data"]["rows"] == 598
    assert found["notes"][0] == "Left out 2 of 600 rows with missing values (age 2)."


def test_environments_left_out(run: Run) -> None:
    assert numbers(run, "--features", "age", "--drop-env", "Rome")["data"]["labels"] == ["Bern <b>", "Oslo"]
    done = run("--drop-env Rome,Oslo --drop-env", "Bern")
    assert done.exit_code == 2
    assert 'there is no hospital "Bern" (--drop-env): there are "Bern <b>", "Oslo", "Rome"' in done.stderr


@pytest.mark.parametrize(
    ("rows", "labels", "remedy"),
    [
        (3, ["Lyon", "Oslo", "Rome"], "To drop it, pass --drop-env Lyon."),
        (3, [7, 8, 9], "To drop it, pass --drop-env 7; to group the values of hospital, pass --env-bins 2."),
        (1, ["Lyon", "Oslo", "Rome"], "leave out what is so rare with --drop-env Lyon, or give it another label"),
    ],
)
def test_an_environment_with_too_few_rows_can_be_dropped_as_told(
    rows: int, labels: list[Any], remedy: str, run: Run, hospitals: pd.DataFrame
) -> None:
    named = np.where(hospitals.index < rows, labels[0], np.where(hospitals["sex"] == "f", labels[1], labels[2]))
    hospitals.assign(hospital=named).to_csv("rare.csv", index=False)
    done = run("--features age,score", data="rare.csv")
    assert done.exit_code == (2 if rows == 1 else 0)  # a row alone is refused; few rows leave out the regret
    said = " ".join((done.stderr if rows == 1 else done.stdout).split())
    assert remedy in said
    assert rows == 1 or "CANNOT TELL YET" in said
    found = numbers(run, "--features", "age,risk", "--drop-env", str(labels[0]), data="rare.csv")
    assert found["data"]["labels"] == labels[1:]
    assert found["notes"][0].startswith(f"Left out as asked: hospital {labels[0]} ({rows} row")
    if "--env-bins" in remedy:
        found = numbers(run, "--features", "age,risk", "--env-bins", "2", data="rare.csv")
        assert found["data"]["labels"] == ["hospital 7–8", "hospital 9"]


def test_an_environment_with_one_class_can_be_dropped_as_told(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(ill=hospitals["ill"].where(hospitals["hospital"] != "Rome", "yes")).to_csv("one.csv", index=False)
    done = run("--features age", data="one.csv", target="ill")
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert 'Class "no" of target "ill" never occurs in hospital "Rome"' in said
    assert "To drop it, pass --drop-env Rome." in said
    done = run("--features age --fail-on regret>0.1", data="one.csv", target="ill")
    assert done.exit_code == 2
    assert '--fail-on regret>0.1 cannot be judged: class "no" of target "ill" never occurs' in done.stderr
    assert numbers(run, "--features", "age", "--drop-env", "Rome", data="one.csv", target="ill")["data"]["rows"] == 400


@pytest.mark.slow
def test_a_column_that_tells_the_environment(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(town=hospitals["hospital"].str.lower()).to_csv("towns.csv", index=False)
    found = numbers(run, "--features", "age,town", data="towns.csv")
    assert found["notes"][0].endswith("Leave out with --drop town.")


def test_the_choices_are_those_of_the_library() -> None:
    shown = CliRunner().invoke(main, ["audit", "--help"]).output
    assert f"[{'|'.join(MISSING_CHOICES)}]" in shown
    assert f"estimated: {', '.join(ESTIMATORS)}." in " ".join(shown.split())
    assert f"There are {', '.join(CRITERIA)}." in " ".join(shown.split())


def test_criteria_are_computed_as_asked(run: Run) -> None:
    given = "--features", "age,cholesterol"
    few = numbers(run, *given, "--criteria", "risk_variance", "--criteria", "irm_penalty")
    assert set(few["results"]) == {"regret", "risk_variance", "irm_penalty"}
    default, every = numbers(run, *given), numbers(run, *given, "--criteria", "all")
    unasked = {name for name, criterion in CRITERIA.items() if not criterion.mentioned}
    assert set(every["results"]) == {*default["results"], *unasked} > set(few["results"])  # there is no network here
    done = run("--features age --fail-on dric>1 --criteria regret")
    assert (done.exit_code, done.stderr) == (
        2,
        'InputError: --fail-on dric>1 cannot be judged: "dric" was not asked for; add it to the criteria\n',
    )


@pytest.mark.slow
def test_density_ratios_are_estimated_as_asked(run: Run) -> None:
    given = "--features", "age,cholesterol"
    default, logistic = numbers(run, *given), numbers(run, *given, "--ratio", "logistic")
    gaussian = numbers(run, *given, "--ratio", "gaussian")
    assert [found["settings"]["ratio"] for found in (default, logistic, gaussian)] == ["logistic"] * 2 + ["gaussian"]
    assert default["results"] == logistic["results"]
    gap, other = (found["results"]["transport_gap"] for found in (default, gaussian))
    assert gap["labels"] == other["labels"] == ["Bern <b>", "Oslo", "Rome"]
    assert gap["pairs"] != other["pairs"]
    assert gap["overlap"]["effective_rows"] != other["overlap"]["effective_rows"]
    assert default["results"]["regret"] == gaussian["results"]["regret"]


@pytest.mark.slow
def test_the_terminal_and_the_page_tell_the_transport_gap(run: Run, hospitals: pd.DataFrame) -> None:
    """Oslo stays ten days longer whatever the patients are like."""
    hospitals.assign(**{"days in bed": hospitals["age"] + 10 * (hospitals["hospital"] == "Oslo")}).to_csv("far.csv")
    frame = pd.read_csv("far.csv", index_col=0)
    frame["days in bed"] += np.random.default_rng(0).normal(size=len(frame))
    frame.to_csv("far.csv", index=False)
    done = run("--features age,cholesterol --ratio gaussian --html page.html", data="far.csv")
    said = " ".join(done.stdout.split())
    assert re.search(
        r"Transport gap: if .*? held in .*?, mean days in bed would be (9|10|11)\.?\d* (higher|lower) ", said
    )
    assert "Oslo" in said[said.index("Transport gap:") : said.index("mean days in bed would be")]
    assert "4 of 6 pairs differ surely" in said
    page = Path("page.html").read_text(encoding="utf-8")
    assert "How far mean days in bed would move, in units of days in bed" in page
    assert "<dt>density ratios by</dt><dd>gaussian (" in page


@pytest.mark.parametrize(
    "options",
    ["--margin 0", "--n-boot -9", "--seed -1", "--task poetry", "--ratio poetry", "--criteria poetry", "--nonsense"],
)
def test_usage_errors(options: str, run: Run) -> None:
    done = run(options)
    assert done.exit_code == 2
    assert "Usage: " in done.stderr


def test_a_margin_is_a_share_and_not_per_cent(run: Run) -> None:
    refused = run("--margin 2")
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert said.endswith("'--margin': it is 2.0: give a number above 0 and below 1, such as 0.02 for 2 %")


def test_draws_may_be_none_but_not_too_few(run: Run) -> None:
    done = run("--features age --n-boot 0 --json a.json")
    assert done.exit_code == 0
    assert json.loads(Path("a.json").read_text())["results"]["regret"]["interval"] == [None, None]
    refused = run("--features age --n-boot 9")
    assert refused.exit_code == 2
    assert "--n-boot is 9: give 0 for point estimates without intervals, or a whole number of draws" in refused.stderr


def test_a_defect_is_not_dressed_up_as_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("invariscope.reading.read_table.read_table", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        run()


# --- predictions ------------------------------------------------------------------------------------------------------
def test_gaps_in_columns_that_nothing_needs_do_not_stop_an_audit_of_predictions(
    run: Run, hospitals: pd.DataFrame
) -> None:
    others = hospitals.drop(columns=["score", "days in bed", "hospital"])
    holes = hospitals.assign(**{name: others[name].where(others.index != 3) for name in others})
    holes.to_csv("holes.csv", index=False)
    audit = numbers(run, "--prediction", "score", data="holes.csv")
    assert audit["results"]["regret"] == numbers(run, "--prediction", "score")["results"]["regret"]
    assert any("--missing impute-median" in note for note in audit["notes"])
    assert any("on the representation" in note and "missing values" in note for note in audit["notes"])


def test_predicted_numbers(run: Run, hospitals: pd.DataFrame) -> None:
    found = numbers(run, "--prediction", "score")
    model = iv.Split(predict=hospitals["score"].to_numpy(), task="regression")
    inputs = iv.read(hospitals, target="days in bed", env="hospital", drop="score").X
    with typed_in(SHELL):
        expected = plain(iv.audit(model, inputs, hospitals["days in bed"], hospitals["hospital"], n_boot=99))
    assert found["data"]["columns"] == ["score"]
    assert found["results"]["risk_variance"] == expected["results"]["risk_variance"]
    assert found["results"]["dric"] == expected["results"]["dric"]
    assert found["results"]["regret"]["value"] == expected["results"]["regret"]["value"]
    assert found["data"]["model"] == 'the predictions in column "score"'


@pytest.mark.slow
@pytest.mark.parametrize("columns", [["risk"], ["risk", "age"]])
def test_predicted_probabilities_belong_to_the_second_class(
    columns: list[str], run: Run, hospitals: pd.DataFrame
) -> None:
    hospitals[["hospital", "ill", *columns]].to_parquet("p.parquet")
    found = numbers(run, "--prediction", "risk", data="p.parquet", target="ill")
    assert found["data"]["columns"] == ['log-odds of "yes"']
    loss = found["results"]["worst_environment_risk"]["value"]
    assert 0.4 < loss < 0.75  # the other way round it would be far above that of a coin, 0.69
    measured_on_predictions = any("on the representation" in note for note in found["notes"])
    assert measured_on_predictions == (len(columns) == 1)


def test_one_column_of_predictions_is_numbers_where_the_classes_would_be_three(
    run: Run, hospitals: pd.DataFrame
) -> None:
    frame = hospitals.assign(grade=np.digitize(hospitals["age"], [-1, 1]) + 1)
    frame[["hospital", "score", "grade"]].to_csv("p.csv", index=False)
    assert numbers(run, "--prediction", "score", data="p.csv", target="grade")["data"]["task"] == "regression"


@pytest.mark.parametrize(
    ("column", "target", "sentence"),
    [
        (
            "score",
            "ill",
            'for target "ill" with the classes no, yes give the probability of "yes", from 0 to 1',
        ),
        ("holes", "ill", 'column "holes" has 1 missing value, and it is not one that can be filled in'),
        ("risk", "grade", '--prediction is one column, but target "grade" has 3 classes (a, b, c)'),
    ],
)
def test_predictions_that_cannot_be_used(
    column: str, target: str, sentence: str, run: Run, hospitals: pd.DataFrame
) -> None:
    frame = hospitals.assign(grade=[*"abc"] * 200, holes=hospitals["risk"].where(hospitals.index > 0))
    frame[["hospital", "age", column, target]].to_csv("p.csv", index=False)
    done = run("--prediction", column, data="p.csv", target=target)
    assert done.exit_code == 2
    assert sentence in done.stderr


# --- models -----------------------------------------------------------------------------------------------------------
def fitted(frame: pd.DataFrame, columns: list[str]) -> Any:
    return make_pipeline(StandardScaler(), LinearRegression()).fit(frame[columns], frame["days in bed"])


def test_a_skops_model_reads_its_own_columns_in_its_own_order(run: Run, hospitals: pd.DataFrame) -> None:
    columns = ["cholesterol", "age"]
    model = fitted(hospitals, columns)
    skops.io.dump(model, "m.skops")
    found = numbers(run, "--model", "m.skops")
    expected = iv.audit(model, hospitals[columns], hospitals["days in bed"], hospitals["hospital"], n_boot=99)
    assert found["results"] == plain(expected)["results"]
    assert found["data"]["columns"] == columns
    assert numbers(run, "--model", "m.skops", "--features", "age,cholesterol")["results"] == found["results"]


def test_a_class_that_only_the_model_knows(run: Run, hospitals: pd.DataFrame) -> None:
    grade = np.digitize(hospitals["age"], [-1, 1])
    skops.io.dump(LogisticRegression().fit(hospitals[["age", "cholesterol"]], grade), "m.skops")
    hospitals.assign(grade=grade)[grade < 2].to_csv("two.csv", index=False)
    done = run("--model m.skops --html page.html --json found.json", data="two.csv", target="grade")
    assert (done.exit_code, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert "CANNOT TELL YET" in said
    assert 'Class "2" of target "grade" never occurs in any row' in said
    assert "--drop-env" not in said
    assert "never occurs in any row" in Path("page.html").read_text(encoding="utf-8")
    found = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert (found["data"]["task"], found["data"]["classes"]) == ("multiclass", [0, 1, 2])
    assert found["results"]["worst_environment_risk"]["value"] > 0
    done = run("--model m.skops --fail-on regret>0.1", data="two.csv", target="grade")
    assert done.exit_code == 2
    assert '--fail-on regret>0.1 cannot be judged: class "2" of target "grade" never occurs' in done.stderr


@pytest.mark.slow
def test_a_model_may_read_text(run: Run, hospitals: pd.DataFrame) -> None:
    encoder = OneHotEncoder(sparse_output=False)
    model = make_pipeline(encoder, LogisticRegression()).fit(hospitals[["sex"]], hospitals["ill"])
    skops.io.dump(model, "m.skops")
    found = numbers(run, "--model", "m.skops", target="ill")
    assert found["data"]["columns"] == ["sex_f", "sex_m"]
    assert found["data"]["task"] == "binary"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["refuse", "indicator"])
def test_a_model_fitted_on_what_the_library_read(how: str, run: Run, hospitals: pd.DataFrame) -> None:
    gap = (hospitals.index < 40) & (how == "indicator")
    hospitals.assign(age=hospitals["age"].mask(gap), town="x").to_csv("holes.csv", index=False)
    data = iv.read("holes.csv", target="days in bed", env="hospital", features=["sex", "age"], missing=how)
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(data.X, data.y)
    skops.io.dump(model, "m.skops")
    found = numbers(run, "--model", "m.skops", "--missing", how, data="holes.csv")
    assert found["results"] == plain(iv.audit(model, *data, n_boot=99))["results"]
    skops.io.dump(model.fit(data.X.assign(**{"age=d": 0.0}), data.y), "m.skops")
    done = run(f"--model m.skops --missing {how}", data="holes.csv")
    assert done.exit_code == 2
    assert "m.skops was fitted on columns that holes.csv lacks: age=d" in done.stderr


@pytest.mark.slow
def test_levels_come_and_go_between_the_table_of_the_fit_and_that_of_the_audit(
    run: Run, hospitals: pd.DataFrame
) -> None:
    data = iv.read("h.csv", target="days in bed", env="hospital", features=["sex", "age"])
    rng = np.random.default_rng(0)
    more = data.X.assign(**{"sex=d": rng.integers(0, 2, len(data.X)).astype(float)})
    model = LinearRegression().fit(more, data.y)
    skops.io.dump(model, "m.skops")
    done = run("--model m.skops")
    assert done.exit_code == 0
    assert "No row has sex=d, which the model knows: columns of 0." in " ".join(done.stdout.split())
    found = numbers(run, "--model", "m.skops")
    with typed_in(SHELL):
        expected = iv.audit(model, data.X.assign(**{"sex=d": 0.0})[more.columns], data.y, data.env, n_boot=99)
    assert found["results"] == plain(expected)["results"]
    first = sorted(name for name in data.X.columns if name.startswith("sex="))[0]
    skops.io.dump(LinearRegression().fit(data.X.drop(columns=first), data.y), "less.skops")
    assert f"The model has never seen {first}" in " ".join(run("--model less.skops").stdout.split())


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"age": "old"}, 'column "age" holds text, but m.skops was fitted on numbers: write it as it was for the fit'),
        (
            {"sex": 0},
            'column "sex" holds numbers, but m.skops was fitted on sex=f, sex=m: write it as it was for the fit',
        ),
    ],
)
def test_a_model_and_a_table_that_holds_something_else(
    columns: dict[str, Any], sentence: str, run: Run, hospitals: pd.DataFrame
) -> None:
    data = iv.read("h.csv", target="days in bed", env="hospital", features=["sex", "age"])
    skops.io.dump(LinearRegression().fit(data.X, data.y), "m.skops")
    hospitals.assign(**columns).to_csv("other.csv", index=False)
    done = run("--model m.skops", data="other.csv")
    assert (done.exit_code, done.stderr) == (2, f"InputError: {sentence}\n")


def test_a_model_that_knows_gaps_and_a_table_without(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(age=hospitals["age"].mask(hospitals.index < 40)).to_csv("holes.csv", index=False)
    holes = iv.read("holes.csv", target="days in bed", env="hospital", features=["sex", "age"], missing="indicator")
    model = LinearRegression().fit(holes.X, holes.y)
    skops.io.dump(model, "m.skops")
    found = numbers(run, "--model", "m.skops")
    data = iv.read("h.csv", target="days in bed", env="hospital", features=["sex", "age"])
    whole = data.X.assign(**{"age missing": 0.0})[list(holes.columns)]
    with typed_in(SHELL):
        assert found["results"] == plain(iv.audit(model, whole, data.y, data.env, n_boot=99))["results"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["drop-rows", "impute-median"])
def test_a_model_reads_its_columns_as_they_are_without_gaps(how: str, run: Run, hospitals: pd.DataFrame) -> None:
    columns = ["sex", "hospital", "age"]  # the environment as well, as it is and not as it was grouped
    encoder = ColumnTransformer([("text", OneHotEncoder(sparse_output=False), columns[:2])], remainder="passthrough")
    model = make_pipeline(encoder, LinearRegression()).fit(hospitals[columns], hospitals["days in bed"])
    skops.io.dump(model, "m.skops")
    gap = hospitals.index < 40
    holes = hospitals.assign(sex=hospitals["sex"].mask(gap), age=hospitals["age"].mask(gap))
    holes.to_parquet("holes.parquet")
    found = numbers(run, "--model", "m.skops", "--missing", how, data="holes.parquet")
    if how == "drop-rows":
        whole = hospitals[~gap]
    else:
        whole = holes.fillna({"sex": holes["sex"].mode()[0], "age": holes["age"].median()})
    with typed_in(SHELL):
        expected = iv.audit(model, whole[columns], whole["days in bed"], whole["hospital"], n_boot=99)
    assert found["results"] == plain(expected)["results"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            "--missing indicator",
            "--missing indicator adds columns to those the --model was fitted on: choose drop-rows",
        ),
        ("--missing drop-columns", "--missing drop-columns takes columns from those the --model was fitted on"),
        (
            "--categories age",
            "--categories is for columns that are audited themselves: a --model encodes its own, leave it out",
        ),
    ],
)
def test_a_model_wants_the_columns_it_was_fitted_on(
    options: str, sentence: str, run: Run, hospitals: pd.DataFrame
) -> None:
    skops.io.dump(fitted(hospitals, ["age"]), "m.skops")
    done = run(f"--model m.skops {options}")
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_a_model_fitted_on_a_bare_array_keeps_the_names_of_the_table(run: Run, hospitals: pd.DataFrame) -> None:
    values = hospitals[["cholesterol", "age"]].to_numpy()
    skops.io.dump(LinearRegression().fit(values, hospitals["days in bed"]), "m.skops")
    found = numbers(run, "--model", "m.skops", "--features", "cholesterol,age")
    assert found["data"]["columns"] == ["cholesterol", "age"]
    done = run("--model m.skops")
    assert done.exit_code == 2
    assert "m.skops was fitted on 2 columns without names, 6 are given (age, cholesterol, ill, sex" in done.stderr
    assert "name them with --features, in the order of the fit" in done.stderr


def test_pickles_are_loaded_only_when_trusted(run: Run, hospitals: pd.DataFrame) -> None:
    columns = ["age", "cholesterol"]
    joblib.dump(fitted(hospitals, columns), "m.joblib")
    skops.io.dump(fitted(hospitals, columns), "m.skops")
    refused = run("--model m.joblib")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("InputError: m.joblib: loading a pickle runs the code inside it")
    trusted = numbers(run, "--model", "m.joblib", "--trust-pickle")
    assert trusted["results"] == numbers(run, "--model", "m.skops")["results"]


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        (["age", "height"], "", "m.skops was fitted on columns that h.csv lacks: height"),
        (["age", "days in bed"], "", 'm.skops reads column "days in bed", which is the target: fit it without'),
        (
            ["age"],
            "--features age,cholesterol",
            "m.skops was fitted on age: leave out --features, or name exactly these",
        ),
        (["age"], "--drop age", 'm.skops reads column "age": take it out of --drop'),
    ],
)
def test_models_that_do_not_fit_the_table(
    columns: list[str], options: str, sentence: str, run: Run, hospitals: pd.DataFrame
) -> None:
    skops.io.dump(fitted(hospitals.assign(height=1.0 * hospitals.index), columns), "m.skops")
    done = run(f"--model m.skops {options}")
    assert done.exit_code == 2
    assert sentence in done.stderr


# --- --fail-on --------------------------------------------------------------------------------------------------------
@pytest.mark.slow  # eight audits; those of a condition that is not met are quick tests
@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("regret>0.1", "the largest regret, in "),
        ("regret-low > 0.02", "the lower end of the largest regret, in "),
        ("p<0.05", "p is 0.01"),
        ("explained>=0.01", "the share the shared head explains is "),
        ("verdict=not-invariant", "the verdict is not-invariant"),
        ("verdict!=invariant", "the verdict is not-invariant"),
        ("worst_environment_risk>0.5", "Risk in the worst environment is "),
        ("regret>1e6,p<0.05", "p is 0.01"),
    ],
)
def test_a_condition_that_is_met(condition: str, reason: str, run: Run) -> None:
    done = run("--features age,cholesterol --json numbers.json --fail-on", condition)
    assert done.exit_code == 1
    assert "NOT INVARIANT" in done.stdout
    assert Path("numbers.json").is_file()
    assert done.stderr.startswith("--fail-on ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_condition_that_is_met_is_told_even_when_quiet(run: Run) -> None:
    done = run("--features age,cholesterol --quiet --fail-on p<0.05 --fail-on verdict=not-invariant")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "--fail-on p<0.05: p is 0.01\n--fail-on verdict=not-invariant: the verdict is not-invariant\n"


@pytest.mark.parametrize(
    "condition", ["regret>1e6", "regret<0.1", "regret-low<=0.02", "p>0.05", "explained<0.01", "verdict=invariant"]
)
def test_a_condition_that_is_not_met(condition: str, run: Run) -> None:
    done = run("--features age,cholesterol --fail-on", condition)
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_condition_that_cannot_be_judged_does_not_pass(run: Run) -> None:
    done = run("--features age --fail-on", "calibration_variance>3")
    assert done.exit_code == 2
    assert "InputError: --fail-on calibration_variance>3 cannot be judged: needs class probabilities" in done.stderr


# --- in a shell of its own ----------------------------------------------------------------------------------------
def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "invariscope", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow  # two processes; test_version_and_help starts one as well
@pytest.mark.usefixtures("folder")
def test_from_the_shell() -> None:
    options = ["--target", "days in bed", "--env", "hospital", "--features", "cholesterol", "--n-boot", "99"]
    done = shell("audit", "h.csv", *options, "--fail-on", "regret>0.1", PYTHONIOENCODING="ascii")
    assert done.returncode == 1, done.stderr
    assert "NOT INVARIANT" in done.stdout
    assert done.stderr.startswith("--fail-on regret>0.1: the largest regret, in ")
    bad = shell("audit", "h.csv", *options, "--drop", "aeg")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == 'InputError: column "aeg" (--drop) is not in h.csv: did you mean "age"?\n'


def test_version_and_help_do_not_wait_for_big_libraries() -> None:
    assert shell("--version").stdout == f"invariscope, version {iv.__version__}\n"
    probe = (
        "import sys, runpy; sys.argv = ['invariscope', '--help']\n"
        "try: runpy.run_module('invariscope', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(sorted({'pandas', 'sklearn', 'pyarrow', 'altair', 'rich', 'skops', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("[]\n")
    assert "audit" in done.stdout
    assert "demo" in done.stdout


# --- real data ----------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_heart_disease_in_four_hospitals(data_file: Callable[[str], Path], run: Run) -> None:
    names = ["age", "sex", "pain", "pressure", "cholesterol", "sugar", "ecg", "rate", "angina", "oldpeak"]
    sites = {"cleveland": "Cleveland", "hungarian": "Budapest", "switzerland": "Zürich", "va": "Long Beach"}
    parts = [
        pd.read_csv(data_file(f"heart_disease/processed.{file}.data"), header=None, dtype=str)
        .set_axis([*names, "slope", "vessels", "thal", "num"], axis=1)
        .assign(hospital=site)
        for file, site in sites.items()
    ]
    whole = pd.concat(parts)
    whole.assign(disease=(whole.pop("num") != "0").map({True: "yes", False: "no"})).to_csv("heart.csv", index=False)
    done = run(data="heart.csv", target="disease")
    assert done.exit_code == 2  # "?" is missing, not text
    assert "InputError: 10 columns have missing values: vessels 611, thal 486, slope 309, sugar 90, " in done.stderr
    assert "(vessels in Long Beach: 198 of 200). Drop them, or pass --missing impute-median." in done.stderr
    done = run("--missing impute-median", data="heart.csv", target="disease")
    assert done.exit_code == 0, done.stderr
    assert "920 rows · 4 environments · 13 features" in done.stdout
    assert "Note: Filled in for missing values: vessels 0 (611 rows), thal 6 (486 rows), slope 2" in done.stdout
    done = run("--features age,sex,pain --html heart.html", data="heart.csv", target="disease")
    assert done.exit_code == 0, done.stderr
    assert "920 rows · 4 environments · 3 features · linear head, log-loss" in done.stdout
    page = Path("heart.html").read_text(encoding="utf-8")
    for word in ("Cleveland", "Budapest", "Zürich", "Long Beach", "pain", "hospital", "disease"):
        assert word in page


@pytest.mark.slow  # a process of its own
def test_a_table_may_come_through_standard_input(run: Run) -> None:
    options = ["--target", "days in bed", "--env", "hospital", "--n-boot", "99", "--quiet", "--json", "piped.json"]
    subprocess.run(
        [sys.executable, "-m", "invariscope", "audit", "-", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        input=Path("h.csv").read_bytes(),
        check=True,
    )
    run("--quiet --json", "named.json")
    piped, named = (json.loads(Path(name).read_text()) for name in ("piped.json", "named.json"))
    assert piped["results"] == named["results"]


# --- baselines --------------------------------------------------------------------------------------------------------
def test_a_column_may_hold_what_a_baseline_predicts(run: Run, hospitals: pd.DataFrame) -> None:
    given = ["--prediction", "score", "--baseline", "base", "--criteria", "dric"]
    hospitals.assign(base=2 * hospitals["score"] + hospitals["cholesterol"]).to_csv("b.csv", index=False)
    table = hospitals[["age", "cholesterol", "ill", "sex", "risk"]]
    found = numbers(run, *given, "--features", "age,cholesterol", data="b.csv")
    expected = iv.audit(
        hospitals["score"],
        table[["age", "cholesterol"]],
        hospitals["days in bed"],
        hospitals["hospital"],
        baseline=2 * hospitals["score"] + hospitals["cholesterol"],
        criteria="dric",
        n_boot=99,
    )
    assert found["results"]["dric"] == plain(expected)["results"]["dric"]
    assert "base" not in found["data"]["columns"]
    assert not any("fitted on the audited rows" in note for note in found["results"]["dric"]["notes"])
    without = numbers(run, "--prediction", "score", "--criteria", "dric", "--features", "age,cholesterol", data="b.csv")
    assert any("The baseline, linear ERM, was fitted on the audited" in n for n in without["results"]["dric"]["notes"])


@pytest.mark.parametrize(("given", "names"), [("p_no,p_yes", ["p_no", "p_yes"]), ("yes,no", ["no", "yes"])])
def test_a_baseline_of_classes_is_one_column_or_one_per_class(
    given: str, names: list[str], run: Run, hospitals: pd.DataFrame
) -> None:
    second = 1 / (1 + np.exp(-hospitals["cholesterol"]))
    hospitals.assign(**{names[0]: 1 - second, names[1]: second, "one": second}).to_csv("b.csv", index=False)
    options = ["--prediction", "risk", "--features", "age,cholesterol", "--criteria", "dric", "--baseline"]
    several = numbers(run, *options, given, data="b.csv", target="ill")["results"]["dric"]
    one = numbers(run, *options, "one", data="b.csv", target="ill")["results"]["dric"]
    assert several["value"] == pytest.approx(one["value"], rel=1e-9)
    assert several["denominator"] == pytest.approx(one["denominator"], rel=1e-9)


def test_a_model_file_may_be_the_baseline_with_columns_of_its_own(run: Run, hospitals: pd.DataFrame) -> None:
    skops.io.dump(fitted(hospitals, ["age"]), "m.skops")
    baseline = fitted(hospitals, ["cholesterol", "age", "risk"])
    skops.io.dump(baseline, "b.skops")
    joblib.dump(baseline, "b.joblib")
    options = ["--model", "m.skops", "--criteria", "dric", "--baseline"]
    found = numbers(run, *options, "b.skops")["results"]["dric"]
    audited = iv.audit(
        fitted(hospitals, ["age"]),
        hospitals[["age"]],
        hospitals["days in bed"],
        hospitals["hospital"],
        baseline=baseline.predict(hospitals[["cholesterol", "age", "risk"]]),
        criteria="dric",
        n_boot=99,
    )
    assert found["value"] == pytest.approx(audited["dric"].value, rel=1e-12)
    refused = run(*[" ".join(options), "b.joblib"])
    assert refused.exit_code == 2
    assert "InputError: --baseline b.joblib: loading a pickle runs the code inside it" in refused.stderr
    assert numbers(run, *options, "b.joblib", "--trust-pickle")["results"]["dric"]["value"] == found["value"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--baseline nothing", 'column "nothing" (--baseline) is not in h.csv'),
        ("--baseline sex", 'column "sex" (--baseline) does not hold numbers: give what the baseline predicts'),
        ("--baseline score --prediction score", 'column "score" is both --prediction and --baseline: name two columns'),
        ("--baseline none.skops", "--baseline none.skops"),
        ("--baseline=", "--baseline names no column: give one, or one per class with commas between them"),
        ("--baseline ,", "--baseline names no column"),
        ("--baseline b.skops --missing drop-rows", "pass --missing impute-median, or its predictions as a column"),
    ],
)
def test_baselines_that_cannot_be_used(options: str, sentence: str, run: Run, hospitals: pd.DataFrame) -> None:
    skops.io.dump(fitted(hospitals, ["age"]), "b.skops")
    done = run(options)
    assert done.exit_code == 2
    assert sentence in done.stderr
