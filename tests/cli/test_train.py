"""`invariscope train` as a user meets it: what is printed, written and refused, and that its models can be audited."""

from __future__ import annotations

import inspect
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
import skops.io
from click.testing import CliRunner, Result

import invariscope as iv
from invariscope.cli import main
from invariscope.cli.train import OBJECTIVES, train_command
from invariscope.models.files import load_model
from invariscope.objectives import REGISTRY
from invariscope.rows.spelling import SHELL, typed_in

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def hospitals(seed: int) -> pd.DataFrame:
    """Three hospitals that agree about age and disagree about cholesterol; patients of both sexes."""
    rng = np.random.default_rng(seed)
    n = 300
    hospital = np.repeat(["Bern [b]", "Oslo", "Rome, Italy"], n // 3)
    age, cholesterol = rng.normal(size=(2, n))
    days = age + np.where(hospital == "Rome, Italy", -1.5, 1.5) * cholesterol + rng.normal(size=n)
    frame = pd.DataFrame({"hospital": hospital, "age": age, "cholesterol": cholesterol, "days in bed": days})
    frame["ill"] = np.where(age + rng.logistic(size=n) > 0, "yes", "no")
    frame["sex"] = np.where(np.arange(n) % 2 == 0, "f", "m")
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


@pytest.fixture
def run(folder: Path) -> Run:
    """``run("--drop ill")`` trains on days in bed by hospital in 30 steps; exceptions come out as they are."""

    def call(options: str = "", *more: str, data: str = "h.csv", target: str = "days in bed") -> Result:
        given = [data, "--target", target, "--env", "hospital", "--steps", "30", "--out", "m.skops"]
        return CliRunner().invoke(main, ["train", *given, *options.split(), *more], catch_exceptions=False)

    return call


def pasted(done: Result) -> dict[str, Any]:
    """All numbers of the audit that the last line tells to type, typed as it stands."""
    assert done.exit_code == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    assert line.startswith("Next: invariscope audit ")
    arguments = shlex.split(line.removeprefix("Next: invariscope "))
    audited = CliRunner().invoke(
        main, [*arguments, "--n-boot", "99", "--quiet", "--json", "found.json"], catch_exceptions=False
    )
    assert (audited.exit_code, audited.output) == (0, "")
    return dict(json.loads(Path("found.json").read_text(encoding="utf-8")))


def plain(audit: iv.Audit) -> dict[str, Any]:
    return dict(json.loads(json.dumps(audit.to_dict())))


def cells(done: Result, name: str) -> list[str]:
    """What the table says about one environment."""
    line = next(line for line in done.stdout.splitlines() if line.strip().startswith(name))
    return re.split(r"\s{2,}", line.strip())


# --- what is printed and written --------------------------------------------------------------------------------------
def test_the_table_tells_the_loss_in_every_environment(run: Run, hospitals: pd.DataFrame) -> None:
    done = run("--features age,cholesterol --penalty 10 --hidden 4,3 --leave-out", "Rome, Italy")
    assert (done.exit_code, done.stderr) == (0, "")
    top = "Trained on 200 rows · 2 environments · 2 columns · network of 4, 3 · vrex, penalty 10"
    assert done.stdout.startswith(top)
    model = load_model("m.skops")
    errors = (hospitals["days in bed"] - model.predict(hospitals[["age", "cholesterol"]])) ** 2
    for name in ("Bern [b]", "Oslo", "Rome, Italy"):
        shown, rows, loss, *remark = cells(done, name)
        assert (shown, rows) == (name, "100")
        assert float(loss) == pytest.approx(errors[hospitals["hospital"] == name].mean(), abs=0.05001)
        assert remark == (["not trained on"] if name == "Rome, Italy" else [])
    assert "hospital" in done.stdout
    assert "mean squared error" in done.stdout
    assert sorted(path.name for path in Path().iterdir()) == ["h.csv", "m.skops"]


def test_classes_have_a_log_loss_and_an_accuracy(run: Run, hospitals: pd.DataFrame) -> None:
    done = run("--features age,sex --objective erm", target="ill")
    assert "linear model · erm " in done.stdout  # which has no penalty
    model = load_model("m.skops")
    X = pd.DataFrame({"age": hospitals["age"], "sex=f": hospitals["sex"] == "f", "sex=m": hospitals["sex"] == "m"})
    probability = model.predict_proba(X.astype(float))
    assert model.classes_.tolist() == ["no", "yes"]
    for name in ("Bern [b]", "Oslo", "Rome, Italy"):
        rows = np.flatnonzero(hospitals["hospital"] == name)
        own = np.array([probability[i, 1 if hospitals["ill"][i] == "yes" else 0] for i in rows])
        _, _, loss, accuracy = cells(done, name)
        assert float(loss) == pytest.approx(-np.log(own).mean(), abs=0.000501)
        assert float(accuracy.rstrip(" %")) == pytest.approx(100 * (own > 0.5).mean(), abs=0.501)


def test_it_is_the_model_of_the_library(run: Run, hospitals: pd.DataFrame) -> None:
    options = "--objective irm --penalty 3 --hidden 5 --batch-size 20 --learning-rate 0.02 --wait 4 --ramp 6 --seed 8"
    assert run(f"{options} --held-out 0.3 --quiet").output == ""
    data = iv.read("h.csv", target="days in bed", env="hospital")
    expected = iv.InvariantRegressor(
        "irm", penalty=3.0, hidden=(5,), steps=30, batch_size=20, learning_rate=0.02, wait=4, ramp=6, held_out=0.3,
        random_state=8,
    )  # fmt: skip
    expected.fit(data.X, data.y, env=data.env)
    model = load_model("m.skops")
    assert model.get_params() == expected.get_params()
    assert model.environments_ == tuple(sorted(set(hospitals["hospital"])))
    assert model.feature_names_in_.tolist() == list(data.X.columns)
    for name, weights in expected.weights_.items():
        np.testing.assert_array_equal(model.weights_[name], weights)


def test_rows_held_out_say_when_it_stopped(run: Run) -> None:
    done = run("--held-out 0.2")
    model = load_model("m.skops")
    said = f"Stopped after step {model.n_iter_} of at most 30; rows held out did best at step {model.kept_step_},"
    assert said in " ".join(done.stdout.split())


def test_names_and_defaults_are_those_of_the_library() -> None:
    assert tuple(sorted(REGISTRY)) == OBJECTIVES
    shown = " ".join(CliRunner().invoke(main, ["train", "--help"]).output.split())
    assert f"What is minimised: {', '.join(OBJECTIVES)}." in shown
    parameters = inspect.signature(iv.InvariantRegressor).parameters
    for option in train_command.params:
        if isinstance(option, click.Option) and option.name in set(parameters) - {"objective", "hidden", "penalty"}:
            default = option.default if isinstance(option.default, int | float) else None
            assert default == parameters[option.name].default, option.name


@pytest.mark.parametrize("name", ["m.safetensors", "M.ONNX"])
def test_other_files(name: str, run: Run, hospitals: pd.DataFrame) -> None:
    done = run("--features age,cholesterol --out", name)
    assert done.exit_code == 0, done.stderr
    run("--features age,cholesterol")
    X = hospitals[["age", "cholesterol"]]
    expected = load_model("m.skops").predict(X)
    if name == "m.safetensors":
        np.testing.assert_array_equal(load_model(name).predict(X), expected)
    else:
        session = pytest.importorskip("onnxruntime").InferenceSession(name)
        found = session.run(["prediction"], {"X": X.to_numpy()})[0]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert "for `invariscope audit --model`, train with --out model.skops" in done.stdout


# --- which rows and columns -------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_environments_left_out_change_nothing_in_the_model(run: Run, hospitals: pd.DataFrame) -> None:
    rome = hospitals["hospital"] == "Rome, Italy"
    run("--leave-out", 'Oslo,"Rome, Italy"', "--objective", "erm")
    alone = load_model("m.skops")
    assert alone.environments_ == ("Bern [b]",)
    run("--leave-out", "Rome, Italy")
    before = load_model("m.skops").weights_
    hospitals.assign(age=hospitals["age"].mask(rome, 99.0), ill=hospitals["ill"].mask(rome, "dead")).to_csv(
        "h.csv", index=False
    )
    done = run("--leave-out", "Rome, Italy")
    for name, weights in load_model("m.skops").weights_.items():
        np.testing.assert_array_equal(weights, before[name])
    note = "Left out because all rows trained on have the same value: ill=dead."
    assert note in done.stdout  # nobody knows what it does
    assert pasted(done)["data"]["rows"] == 300


# --- the next step ----------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [("m.skops", "days in bed"), ("my model.safetensors", "ill")])
def test_the_audit_it_tells_to_type_works(name: str, target: str, run: Run) -> None:
    done = run("--hidden 3 --out", name, target=target)
    data = iv.read("h.csv", target=target, env="hospital")
    with typed_in(SHELL):  # notes name options as whoever reads them types them
        expected = plain(iv.audit(load_model(name), *data, n_boot=99))
    found = pasted(done)
    assert found["results"] == expected["results"]
    assert found["data"]["model"] == expected["data"]["model"]
    assert found["data"]["columns"] == ["hidden 1", "hidden 2", "hidden 3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--features", "age,grade,smokes", "--missing", "indicator"], {}),
        (["--drop", "sex,ill", "--missing", "drop-columns"], {}),
        (["--features", "sex,age", "--features", "a, b", "--missing", "drop-rows"], {}),
        (["--categories", "grade", "--missing", "impute-median", "--na", "2"], {}),
        (["--features", "age,price", "--task", "classification"], {"target": "grade"}),
        (["--features", "age,price", "--task", "regression"], {"target": "grade"}),
        (["--missing", "impute-median", "--env", "day", "--env-bins", "month", "--drop-env", "2024-02"], {}),
        (["--missing", "impute-median", "--env", "number"], {}),
    ],
)
def test_the_audit_reads_the_table_as_the_training_did(
    options: list[str], named: dict[str, str], run: Run, hospitals: pd.DataFrame, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n = len(hospitals)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) * 119 // n, "D")
    hospitals.assign(
        grade=rng.integers(1, 4, n),
        smokes=rng.random(n) < 0.5,
        price=[f"{value:.2f}".replace(".", ",") for value in rng.normal(size=n)],  # numbers with decimal commas
        day=days.strftime("%Y-%m-%d"),
        number=np.where(hospitals["hospital"] == "Oslo", 7, 8),
        cholesterol=hospitals["cholesterol"].mask(rng.random(n) < 0.1),
        **{"a, b": rng.normal(size=n)},
    ).to_csv("t 1.csv", index=False)
    done = run("", *options, data="t 1.csv", **named)
    found = pasted(done)
    kind = "InvariantClassifier" if "classification" in options else "InvariantRegressor"
    assert found["data"]["model"] == f"{kind} (vrex): its score{'s' if kind == 'InvariantClassifier' else ''}"
    losses = re.findall(r"^  \S.*?  +\d+  +(\S+)", done.stdout, flags=re.M)
    worst = found["results"]["worst_environment_risk"]["value"]
    assert max(map(float, losses)) == pytest.approx(worst, abs=0.0051)


@pytest.mark.slow
def test_real_bikes_by_season(data_file: Callable[[str], Path], run: Run) -> None:
    done = run(
        "--features hr,workingday,weathersit,temp,hum --categories hr,weathersit --env season --leave-out 4",
        data=str(data_file("bike_sharing/hour.csv")),
        target="cnt",
    )
    assert done.stdout.startswith("Trained on 13,147 rows · 3 environments · 31 columns · linear model · vrex")
    assert cells(done, "4")[1::2] == ["4,232", "not trained on"]
    found = pasted(done)
    assert (found["data"]["rows"], len(found["data"]["labels"])) == (17379, 4)


# --- audits of our models in general ----------------------------------------------------------------------------------
def audit(*options: str) -> Result:
    given = ["h.csv", "--target", "days in bed", "--env", "hospital", "--model", "m.skops", "--n-boot", "99"]
    return CliRunner().invoke(main, ["audit", *given, *options], catch_exceptions=False)


def test_an_audit_minds_only_gaps_in_what_the_model_reads(run: Run, hospitals: pd.DataFrame) -> None:
    run("--features age,sex")
    hospitals.assign(cholesterol=hospitals["cholesterol"].mask(hospitals.index < 9)).to_csv("h.csv", index=False)
    assert audit().exit_code == 0
    hospitals.assign(age=hospitals["age"].mask(hospitals.index < 9)).to_csv("h.csv", index=False)
    assert 'InputError: column "age" has 9 missing values' in audit().stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--drop", "age"], 'm.skops reads column "age": take it out of --drop'),
        (["--features", "sex"], 'm.skops reads column "age": name it in --features as well'),
        (["--drop", "sex"], 'm.skops reads column "sex": take it out of --drop'),
    ],
)
def test_an_audit_of_our_model_without_its_columns(options: list[str], sentence: str, run: Run) -> None:
    run("--features age,sex")
    done = audit(*options)
    assert (done.exit_code, done.stderr) == (2, f"InputError: {sentence}\n")


@pytest.mark.usefixtures("folder")
def test_our_model_may_read_the_environment(hospitals: pd.DataFrame) -> None:
    numbered = hospitals.assign(hospital=hospitals["hospital"].map(len))
    numbered.to_csv("h.csv", index=False)
    X = numbered[["hospital", "age"]].astype(float)
    model = iv.InvariantRegressor(steps=30).fit(X, numbered["days in bed"], env=numbered["hospital"])
    skops.io.dump(model, "m.skops")
    assert audit().exit_code == 0


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--objective", "vrx"], 'objective "vrx" is unknown: use one of cdann, coral, '),
        (["--objective", "erm", "--penalty", "3"], "--objective erm has no penalty: leave out --penalty"),
        (
            ["--leave-out", "Rome"],
            'there is no hospital "Rome" (--leave-out): there are "Bern [b]", "Oslo", "Rome, Italy"; a label with',
        ),
        (
            ["--leave-out", "Oslo", "--leave-out", "Rome, Italy"],
            "--objective vrex compares environments, but --leave-out leaves only one: leave out fewer, or pass",
        ),
        (
            ["--leave-out", 'Oslo,"Rome, Italy",Bern [b]', "--objective", "erm"],
            "--leave-out names every hospital: there would be nothing to train on",
        ),
        (["--hidden", "64,"], '--hidden is "64,": give the units of every layer, as in 64 or 64,64'),
        (["--hidden", "0"], '--hidden is "0": give the units'),
        (["--out", "m.pkl"], '--out m.pkl: a model file ends in .skops, .safetensors, .onnx, not ".pkl"'),
        (["--out", "no/m.skops"], "--out no/m.skops: there is no folder no; make it first"),
        (["--features", "agee"], 'column "agee" (--features) is not in h.csv: did you mean "age"?'),
        (["--task", "classification"], 'target "days in bed" has 300 different numbers: too many to be classes'),
        (["--hidden", "-3"], '--hidden is "-3": give the units'),
        (["--hidden", "64,,64"], '--hidden is "64,,64": give the units'),
        (["--hidden", "1e3"], '--hidden is "1e3": give the units'),
        (["--hidden", "9" * 5000], f'--hidden is "{"9" * 39}…": give the units'),
        (
            ["--hidden", "1000000000"],
            "hidden is (1000000000,): with 6 columns that makes 8e+09 weights, and at most 100,",
        ),
        (["--hidden", ",".join(["1"] * 10**5)], "hidden has 100,000 layers, and at most 100 are trained: give fewer"),
        (["--steps", "1000000000000"], "steps is 1000000000000: give a whole number from 1 to 1,000,000,000"),
        (
            ["--learning-rate", "1e200"],
            "training diverged at step 10: lower the learning rate (1e+200 now), to 0.01 say, or the penalty (10 now),",
        ),
        (["--learning-rate", "1e30"], "training diverged: the loss on the rows it was trained on is "),
    ],
)
def test_what_cannot_be_trained_is_told_in_one_sentence(options: list[str], sentence: str, run: Run) -> None:
    done = run("", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"InputError: {sentence}")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["h.csv"]


def test_what_is_told_of_a_training_that_diverged_helps(run: Run) -> None:
    told = run("--learning-rate 1e30 --objective erm").stderr
    assert told.endswith("for the best constant: lower the learning rate (1e+30 now), to 0.01 say\n")
    assert not Path("m.skops").exists()
    assert run("--learning-rate 0.01 --objective erm --steps 100").exit_code == 0
    assert load_model("m.skops").notes_ == ()


def test_a_training_that_hardly_moved_says_so(run: Run) -> None:
    done = run("--learning-rate 1e-30 --objective erm")
    assert (done.exit_code, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert "Note: Training hardly moved: in 30 steps the loss went from " in said
    assert ". Raise the learning rate (1e-30 now), to 0.01 say." in said
    assert "hardly moved" not in run("--objective erm").stdout


def test_a_collapse_is_told_and_the_advice_helps(run: Run) -> None:
    pressed = "--features age --objective mmd --hidden 4 --steps 200 --learning-rate 0.05 --penalty"
    said = " ".join(run(f"{pressed} 1e6").stdout.split())
    assert "lower the penalty (1e+06 now), to 1 say, or let it grow slowly (wait, ramp)." in said
    assert "collapsed" not in run(f"{pressed} 1").stdout


def test_two_numbers_are_two_classes(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(dose=np.where(hospitals["ill"] == "yes", 1.5, 0.5)).to_csv("h.csv", index=False)
    found = pasted(run("--features age,cholesterol", target="dose"))
    assert load_model(Path("m.skops")).classes_.tolist() == [0.5, 1.5]
    assert found["data"]["task"] == "binary"


def test_nothing_varies(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(age=1).to_csv("h.csv", index=False)
    done = run("--features age")
    assert done.exit_code == 2
    assert "there is nothing to learn from. Left out because all rows trained on have the same value: age." in (
        done.stderr
    )


@pytest.mark.slow
def test_an_environment_with_one_class_can_be_dropped_as_told(run: Run, hospitals: pd.DataFrame) -> None:
    hospitals.assign(ill=hospitals["ill"].where(hospitals["hospital"] != "Oslo", "yes")).to_csv("h.csv", index=False)
    done = run(target="ill")
    assert done.exit_code == 2
    assert done.stderr.endswith("To drop it, pass --drop-env Oslo.\n")
    assert pasted(run("--drop-env Oslo", target="ill"))["data"]["rows"] == 200


def test_without_torch_one_sentence_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run()
    sentence = "InputError: training and its networks need torch: pip install 'invariscope[torch]'\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", sentence)


@pytest.mark.parametrize("given", ["-1", "4294967296"])
def test_seeds_that_no_training_takes_are_refused(given: str, run: Run) -> None:
    done = run(f"--seed {given}")
    assert done.exit_code == 2
    assert f"Invalid value for '--seed': {given} is not in the range 0<=x<=4294967295." in done.stderr


def test_what_writes_the_file_is_missed_before_training(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariscope.cli.output.find_spec", lambda package: None if package == "onnx" else object())
    done = run("--out m.onnx")
    assert (done.exit_code, done.stderr) == (
        2,
        "InputError: --out m.onnx needs onnx: pip install 'invariscope[onnx]'\n",
    )


def test_a_full_disk_leaves_the_old_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m.skops").write_bytes(b"old")

    def full(source: Any, target: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("invariscope.files.os.replace", full)
    done = run()
    assert (done.exit_code, done.stderr) == (
        2,
        "InputError: --out m.skops cannot be written: No space left on device; choose another place\n",
    )
    assert {path.name: path.read_bytes() for path in Path().iterdir()}["m.skops"] == b"old"
    assert sorted(path.name for path in Path().iterdir()) == ["h.csv", "m.skops"]


# --- in a shell of its own --------------------------------------------------------------------------------------------
@pytest.mark.slow  # a process of its own that imports torch
@pytest.mark.usefixtures("folder")
def test_a_terminal_shows_how_far_training_is() -> None:
    ours, theirs = pty.openpty()
    options = ["--target", "ill", "--env", "hospital", "--steps", "100", "--out", "m.skops"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "invariscope", "train", "h.csv", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        encoding="utf-8",
        check=True,
    )
    os.close(theirs)
    pieces = []
    with suppress(OSError):  # how Linux says that nothing more will come
        while piece := os.read(ours, 100_000):  # some thousand bytes at a time, whatever is asked for
            pieces.append(piece)
    os.close(ours)
    said = b"".join(pieces).decode()
    assert "training vrex" in said
    assert "100 of 100" in said
    assert "training vrex" not in done.stdout
    assert "Model: m.skops" in done.stdout
