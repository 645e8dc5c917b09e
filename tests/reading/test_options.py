"""One object holds all options of reading; Python's and a shell's mean the same."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pandas as pd
import pytest

import invariscope as iv
from invariscope.errors import InputError
from invariscope.reading import ReadOptions
from invariscope.reading.environment_labels import with_remedy
from invariscope.reading.read import read_with
from invariscope.rows.spelling import SHELL, typed_in

TABLE = pd.DataFrame({"y": range(6), "age": [1, 5, 2, 4, 3, 6], "dose": [2, 4, 4, 2, 4, 2], "times": [1, 2] * 3})


def test_read_takes_every_option_with_the_same_default() -> None:
    parameters = inspect.signature(iv.read).parameters
    for field in fields(ReadOptions):
        if field.name in ("weight", "prediction", "baseline"):  # of commands, so far
            continue
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY
        if field.name not in ("target", "env"):
            assert (parameters[field.name].default or ()) == (field.default or ())


def test_a_shell_and_python_read_the_same() -> None:
    python = iv.read(TABLE, target="y", env="age", env_bins=2, drop=["times"])
    with typed_in(SHELL):
        typed = read_with(TABLE, ReadOptions(target="y", env="age", env_bins="2", drop=["times"]))
    pd.testing.assert_frame_equal(python.frame, typed.frame)


def test_weights_and_predictions_go_along_and_are_no_features() -> None:
    options = ReadOptions(target="y", env="age", env_bins=2, weight="times", prediction="dose")
    data = read_with(TABLE, options)
    assert {name: values.tolist() for name, values in data.others.items()} == {
        "weight": TABLE["times"].tolist(),
        "prediction": TABLE["dose"].tolist(),
    }
    assert data.columns == ()
    assert data.rows([1, 2]).others["weight"].tolist() == [2, 1]
    with pytest.raises(InputError, match=r'column "age" is both env= and weight=: name two columns'):
        read_with(TABLE, ReadOptions(target="y", env="age", weight="age"))


def test_only_what_fails_because_of_environments_gets_a_remedy() -> None:
    options = ReadOptions(target="y", env="site")
    env = pd.Series(["a", "b"], name="site")
    sentence = r"^too few\. To drop all of these, pass --drop-env a,b\.$"
    with pytest.raises(InputError, match=sentence), typed_in(SHELL), with_remedy(env, options):
        raise InputError("too few.", environments=["a", "b"])
    with pytest.raises(InputError, match=r"^wrong$"), with_remedy(env, options):
        raise InputError("wrong")


def test_names_with_commas_are_quoted_as_soon_as_there_are_two() -> None:
    assert SHELL("features", ["age, in years"]) == "--features 'age, in years'"
    assert SHELL("features", ["age, in years", "dose"]) == """--features '"age, in years",dose'"""
    assert SHELL("features", ["age", "dose"]) == "--features age,dose"
    assert SHELL("env_bins") == "--env-bins"
