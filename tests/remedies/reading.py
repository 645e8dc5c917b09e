"""Refusals of tables: what their columns hold, how environments are grouped, what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

import invariscope as iv
from invariscope.reading.baseline import baseline_in, baseline_of_model
from invariscope.reading.encoding import one_hot
from invariscope.reading.environment_labels import with_remedy
from invariscope.reading.model_columns import model_of_predictions
from invariscope.reading.options import ReadOptions
from invariscope.reading.read import read_with
from tests.remedies.case import Case

ROOM = tuple(
    f"reading/{name}"
    for name in (
        "baseline", "dataset", "encoding", "environment_bins", "environment_labels", "fitted_columns", "missing_values",
        "model_columns", "named_table", "options", "read.py", "stand_ins", "text_columns", "tidy_table",
        "written_values",
    )
)  # fmt: skip

N = 40
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"y": RNG.normal(size=N), "site": np.tile(["Bern", "Oslo"], N // 2), "age": RNG.integers(20, 60, N).astype(float)}
)
SEX = np.tile(["f", "m", "m", "f"], N // 4)
DAYS = pd.date_range("2024-01-01", periods=N, freq="10D")


def read(frame: pd.DataFrame = TABLE, **options: Any) -> Any:
    return iv.read(frame, **{"target": "y", "env": "site", **options})


def having(**columns: Any) -> pd.DataFrame:
    return TABLE.assign(**columns)


def grouped(values: Any, bins: Any = None, **options: Any) -> Any:
    """The table with these environments, in groups."""
    return read(having(site=values), env_bins=bins, **options)


def with_roles(frame: pd.DataFrame = TABLE, **options: Any) -> Any:
    """As the command line reads it."""
    return read_with(frame, ReadOptions(**{"target": "y", "env": "site", **options}))


def gap(values: Any, *places: int) -> Any:
    """Values of which those at some places are missing."""
    return pd.Series(values, dtype=object).mask(np.isin(np.arange(N), places)).infer_objects()


def fitted(frame: pd.DataFrame = TABLE, *names: str) -> Any:
    return LinearRegression().fit(frame[list(names or ["age"])], TABLE["y"])


def of_read(frame: pd.DataFrame, **options: Any) -> Any:
    """A model fitted on what was read."""
    X, y, _ = read(frame, **options)
    return LinearRegression().fit(X, y)


def predicted(target: Any, prediction: Any, **task: str) -> Any:
    options = ReadOptions(target="y", env="site", prediction="p")
    return model_of_predictions(read_with(having(y=target, p=prediction), options), options, **task)


def against(source: Any = TABLE, **options: Any) -> Any:
    return baseline_of_model(fitted(), source, ReadOptions(target="y", env="site", **options), "b.skops")


def in_columns(*names: str) -> Any:
    return baseline_in(read_with(having(base=TABLE["y"]), ReadOptions(target="y", env="site", baseline=names)))


def saved() -> str:
    TABLE.to_csv("t.csv", index=False)
    return "t.csv"


def few(drop_env: Any = (), **bins: Any) -> Any:
    """What fails because of some environment, as on the command line: site 3 has two rows."""
    options = ReadOptions(target="y", env="site", drop_env=drop_env, **bins)
    frame = having(site=np.array([1, 2] * 19 + [3, 3]))
    rows = read_with(frame, options)
    with with_remedy(rows.env, options):
        sizes = rows.env.value_counts()
        rare = [label for label in sizes.index if sizes[label] < 5]
        if rare:
            raise iv.InputError(f"site {rare[0]} has {sizes[rare[0]]} rows.", environments=rare)
    return rows


AS_TEXT = [f"{value:.1f}" for value in TABLE["age"]]
WITH_SEX, WITH_CODES = having(sex=SEX), having(code=np.tile([1, 2], N // 2))
WITH_GAP = having(age=gap(TABLE["age"], 3))
LISTS = [[1]] * N
CLASSES = np.tile(["no", "yes"], N // 2)

CASES = [
    # --- baseline ---
    Case("names no column: give one", in_columns, lambda: in_columns("base")),
    Case("save the table in a file", lambda: against("-"), lambda: against(saved())),
    Case("pass missing=", lambda: against(missing="drop-rows"), lambda: against(missing="impute-median")),
    # --- names of columns ---
    Case("give the name of a column, as text", lambda: read(target=0), lambda: read(target="y")),
    Case('did you mean "site"', lambda: read(env="sight"), lambda: read(env="site")),
    Case("it has y, site, age", lambda: read(env="hospital"), lambda: read(env="site")),
    Case("name two columns", lambda: read(env="y"), lambda: read(env="site")),
    Case("take it out of features=", lambda: read(features=["y", "age"]), lambda: read(features=["age"])),
    Case("take it out of drop=", lambda: read(WITH_SEX, drop=["y", "sex"]), lambda: read(WITH_SEX, drop=["sex"])),
    Case("take it out of one", lambda: read(features="age", drop="age"), lambda: read(features="age")),
    Case("give the fitted model itself", lambda: read(model="model.skops"), lambda: read(model=fitted())),
    Case("give the fitted model itself", lambda: read(model=5), lambda: read(model=fitted())),
    Case("leave it out to use all", lambda: read(features=[]), read),
    Case(
        "leave one out",
        lambda: read(having(p=TABLE["y"]), prediction="p", model=fitted()),
        lambda: read(having(p=TABLE["y"]), prediction="p"),
    ),
    Case("Give it a column of numbers or categories", lambda: read(drop="age"), lambda: read(WITH_SEX, drop="age")),
    Case(
        "name a column of numbers",
        lambda: with_roles(WITH_SEX, weight="sex"),
        lambda: with_roles(having(times=1.0), weight="times"),
    ),
    Case(
        "give the predicted value",
        lambda: with_roles(WITH_SEX, prediction="sex"),
        lambda: with_roles(having(p=0.5), prediction="p"),
    ),
    Case("name a column of labels", lambda: read(having(site=LISTS)), lambda: read(having(place=LISTS), env="site")),
    # --- what columns hold ---
    Case("leave it out there", lambda: read(WITH_SEX, categories="site"), lambda: read(WITH_SEX)),
    Case(
        "or drop the column",
        lambda: read(pd.concat([having(code=range(k * N, k * N + N)) for k in range(30)]), categories="code"),
        lambda: read(pd.concat([having(code=range(k * N, k * N + N)) for k in range(30)]), drop="code"),
    ),
    Case(
        "turn it into numbers (year, day of year, ...)",
        lambda: read(having(day=DAYS), features=["age", "day"]),
        lambda: read(having(day=DAYS.day_of_year), features=["age", "day"]),
    ),
    Case(
        "or leave it out",
        lambda: read(having(more=LISTS), features=["age", "more"]),
        lambda: read(having(more=LISTS), features=["age"]),
    ),
    Case(
        'or pass categories="name"',
        lambda: read(having(name=[f"n{k}" for k in range(N)]), features="name"),
        lambda: read(having(name=[f"n{k}" for k in range(N)]), features="name", categories="name"),
    ),
    Case(
        "write them as numbers",
        lambda: read(having(dose=np.tile(["1,234", "7"], N // 2))),
        lambda: read(having(dose=np.tile([1234, 7], N // 2))),
    ),
    Case(
        'or drop="dose"',
        lambda: read(having(dose=np.tile(["1,234", "7"], N // 2))),
        lambda: read(having(dose=np.tile(["1,234", "7"], N // 2)), drop="dose"),
    ),
    Case(
        'pass na="n.d."',
        lambda: read(having(dose=["n.d.", *AS_TEXT[1:]])),
        lambda: read(having(dose=["n.d.", *AS_TEXT[1:]]), na="n.d.", missing="impute-median"),
    ),
    Case(
        'or pass categories="dose"',
        lambda: read(having(dose=["n.d.", *AS_TEXT[1:]])),
        lambda: read(having(dose=["n.d.", *AS_TEXT[1:]]), categories="dose"),
    ),
    Case("fill them in first", lambda: one_hot(gap(SEX, 0)), lambda: one_hot(gap(SEX, 0).fillna("m"))),
    Case("add it", lambda: one_hot(pd.Series(SEX), ["f"]), lambda: one_hot(pd.Series(SEX), ["f", "m"])),
    # --- environments ---
    Case("give one of year, quarter", lambda: grouped(DAYS, "decade"), lambda: grouped(DAYS, "year")),
    Case('pass env_bins="month"', lambda: grouped(DAYS, 4), lambda: grouped(DAYS, "month")),
    Case("leave out env_bins=", lambda: grouped(SEX, 4), lambda: grouped(SEX)),
    Case("at least 2 groups", lambda: grouped(TABLE["age"], 1), lambda: grouped(TABLE["age"], 2)),
    Case("as numbers that go up", lambda: grouped(TABLE["age"], (50, 30)), lambda: grouped(TABLE["age"], (30, 50))),
    Case("with env_bins=4", lambda: grouped(RNG.normal(size=N)), lambda: grouped(RNG.normal(size=N), 4)),
    Case("pass env_bins=4 for that many", lambda: grouped(TABLE["age"], "year"), lambda: grouped(TABLE["age"], 4)),
    Case(
        'with drop_env="Rome", or give',
        lambda: grouped(["Rome", *TABLE["site"][1:]]),
        lambda: grouped(["Rome", *TABLE["site"][1:]], drop_env="Rome"),
    ),
    Case("name fewer", lambda: read(drop_env=["Bern", "Oslo"]), lambda: read(drop_env=["Bern"])),
    Case('there are "Bern", "Oslo"', lambda: read(drop_env="Rome"), lambda: read(drop_env="Oslo")),
    Case('To drop it, pass drop_env="3"', few, lambda: few("3")),
    Case("to group the values of site, pass env_bins=2", few, lambda: few(env_bins=2)),
    Case(
        'or pass env_bins="year"',
        lambda: grouped(np.tile(["1/2/2023", "3/4/2024"], N // 2), "month"),
        lambda: grouped(np.tile(["1/2/2023", "3/4/2024"], N // 2), "year"),
    ),
    Case(
        'na="soon" and missing="drop-rows"',
        lambda: grouped(["soon", *DAYS[1:].strftime("%d.%m.%Y")], "year"),
        lambda: grouped(["soon", *DAYS[1:].strftime("%d.%m.%Y")], "year", na="soon", missing="drop-rows"),
    ),
    Case("or leave out env_bins=", lambda: grouped(SEX, "year"), lambda: grouped(SEX)),
    # --- missing values ---
    Case("choose one of refuse", lambda: read(missing="guess"), lambda: read(missing="refuse")),
    Case(
        'pass missing="drop-rows"',
        lambda: read(having(y=gap(TABLE["y"], 0))),
        lambda: read(having(y=gap(TABLE["y"], 0)), missing="drop-rows"),
    ),
    Case(
        'pass missing="drop-rows"',
        lambda: read(having(risk=gap(TABLE["y"], 0, 1), age=np.nan), prediction="risk"),
        lambda: read(having(risk=gap(TABLE["y"], 0, 1), age=np.nan), prediction="risk", missing="drop-rows"),
    ),
    Case(
        "name another column",
        lambda: read(having(ill=np.nan), target="ill", missing="drop-columns"),
        lambda: read(having(ill=np.nan), target="y", missing="drop-columns"),
    ),
    Case('pass missing="impute-median"', lambda: read(WITH_GAP), lambda: read(WITH_GAP, missing="impute-median")),
    Case(
        "choose drop-rows or impute-median",
        lambda: read(WITH_GAP, missing="keep"),
        lambda: read(WITH_GAP, missing="drop-rows"),
    ),
    Case(
        'Leave out columns with drop="dose"',
        lambda: read(having(dose=np.nan), missing="drop-rows"),
        lambda: read(having(dose=np.nan), missing="drop-rows", drop="dose"),
    ),
    Case(
        'drop="dose"',
        lambda: read(having(dose=gap(TABLE["age"], *range(2, N, 2))), missing="drop-rows"),
        lambda: read(having(dose=gap(TABLE["age"], *range(2, N, 2))), missing="drop-rows", drop="dose"),
    ),
    Case(
        'pass drop="dose"',
        lambda: read(having(dose=np.nan), missing="impute-median"),
        lambda: read(having(dose=np.nan), missing="impute-median", drop="dose"),
    ),
    # --- models ---
    Case(
        "name them with features=, in the order of the fit",
        lambda: read(WITH_CODES, model=LinearRegression().fit(TABLE[["age"]].to_numpy(), TABLE["y"])),
        lambda: read(WITH_CODES, model=LinearRegression().fit(TABLE[["age"]].to_numpy(), TABLE["y"]), features="age"),
    ),
    Case(
        "give the model itself",
        lambda: predicted(np.tile(["a", "b", "c", "d"], N // 4), 0.5),
        lambda: iv.split(fitted()),
    ),
    Case(
        'or task="regression" if these are amounts',
        lambda: predicted(np.tile([1, 2, 3, 4], N // 4), 0.5, task="classification"),
        lambda: predicted(np.tile([1, 2, 3, 4], N // 4), 0.5, task="regression"),
    ),
    Case('give the probability of "yes"', lambda: predicted(CLASSES, 7.0), lambda: predicted(CLASSES, 0.7)),
    Case(
        'reads column "age": take it out of drop=',
        lambda: read(WITH_SEX, model=of_read(WITH_SEX), drop="age"),
        lambda: read(WITH_SEX, model=of_read(WITH_SEX)),
    ),
    Case(
        'reads column "sex": take it out of drop=',
        lambda: read(WITH_SEX, model=of_read(WITH_SEX), drop="sex"),
        lambda: read(WITH_SEX, model=of_read(WITH_SEX)),
    ),
    Case(
        "name it in features= as well",
        lambda: read(WITH_SEX, model=of_read(WITH_SEX), features="age"),
        lambda: read(WITH_SEX, model=of_read(WITH_SEX), features=["age", "sex"]),
    ),
    Case(
        'pass missing="indicator"',
        lambda: read(WITH_GAP, model=of_read(WITH_GAP, missing="indicator"), missing="impute-median"),
        lambda: read(WITH_GAP, model=of_read(WITH_GAP, missing="indicator"), missing="indicator"),
    ),
    Case("encodes its own, leave it out", lambda: read(model=fitted(), categories="age"), lambda: read(model=fitted())),
    Case(
        "choose drop-rows or impute-median",
        lambda: read(WITH_GAP, model=fitted(), missing="indicator"),
        lambda: read(WITH_GAP, model=fitted(), missing="impute-median"),
    ),
    Case(
        "choose drop-rows or impute-median",
        lambda: read(WITH_GAP, model=fitted(), missing="keep"),
        lambda: read(WITH_GAP, model=fitted(), missing="drop-rows"),
    ),
    Case(
        "leave out features=",
        lambda: read(WITH_CODES, model=fitted(), features="code"),
        lambda: read(WITH_CODES, model=fitted()),
    ),
    Case("take it out of drop=", lambda: read(model=fitted(), drop="age"), lambda: read(model=fitted())),
    Case(
        "which is the target: fit it without",
        lambda: read(model=fitted(TABLE, "age", "y")),
        lambda: read(model=fitted(TABLE, "age")),
    ),
    Case(
        "Give a table with all of them",
        lambda: read(TABLE, model=fitted(WITH_CODES, "age", "code")),
        lambda: read(WITH_CODES, model=fitted(WITH_CODES, "age", "code")),
    ),
    Case(
        "write it as it was for the fit",
        lambda: read(having(sex=np.tile(["male", "female"], N // 2)), model=of_read(WITH_SEX)),
        lambda: read(WITH_SEX, model=of_read(WITH_SEX)),
    ),
    # --- data sets ---
    Case(
        "as in bayesian_network(component=0)",
        lambda: iv.datasets.bayesian_network(n=20, dim=2).environments,
        lambda: iv.datasets.bayesian_network(n=20, dim=2, component=0).environments,
    ),
    Case("Choose rows with .rows(mask)", lambda: read().train, lambda: read().rows(np.arange(N) < 30)),
]
