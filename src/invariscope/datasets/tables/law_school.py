"""Law School: the undergraduate grades of law students, from the bar passage study of 1998."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.fetch import DataFile, locate
from invariscope.datasets.sources import Url
from invariscope.datasets.tables import engineered_environments
from invariscope.datasets.tables.engineered_environments import TESTING, TRAINING
from invariscope.reading.dataset import TEST, TRAIN, Dataset
from invariscope.rows.settings import one_of, whole_number

FILE = DataFile(
    "law_school/lawschool.csv",
    "7bc6ada636067f0613cbdc2e42db766684ca8fe32189006d315d84fbd8e1ef1a",
    106001,
    (Url("https://raw.githubusercontent.com/algowatchpenn/GerryFair/master/dataset/lawschool.csv"),),
)

_TARGET = "ugpa"
_ROWS = 364  # of each of five environments: 1,092 rows in three, 728 in two
# "is a woman" and "grades of at least 3.2" (the median) agree in 56.3 % of the rows. Nearly all rows are used, so what
# one environment has more of, another must have less of
_HIGH = 3.2
_SHIFTS = (0.3, 0.15, 0.0, -0.15, -0.3)


def law_school(environments: str = "gender", seed: int = 0) -> Dataset:
    """Students of U.S. law schools: what was their undergraduate grade point average?

    Parameters
    ----------
    environments : "gender": female and male, and gender is no feature. "correlation": five environments of 364 rows, as
        the DRIC paper describes its own, in which the share of rows where "is a woman" agrees with "ugpa of at least
        3.2" is 86 %, 71 % and 56 % (training), 41 % and 26 % (test); gender is a feature there
    seed : how rows fall into training (1,092) and test (728), or into environments

    Returns
    -------
    Dataset : 1,820 of the file's 1,823 rows. For environments="correlation", ``truth`` holds the agreement and the
        correlation of gender and ugpa measured in each environment

    What it cannot tell: anything of law students at large. The file is a selection whose rule is not documented.

    Raises
    ------
    InputError : an option is unknown, or the file in INVARISCOPE_DATA is damaged
    DataUnavailable : the file cannot be had; the message says how to get it by hand

    References
    ----------
    Wightman (1998), LSAC National Longitudinal Bar Passage Study; file of Kearns, Neel, Roth and Wu (2018),
    GerryFair; the DRIC paper, B.3.

    >>> law_school(environments="race")
    Traceback (most recent call last):
    invariscope.errors.InputError: environments "race" is unknown: use "gender" or "correlation"
    """
    engineered = one_of(environments, "environments", ("gender", "correlation")) == "correlation"
    generator = np.random.default_rng(whole_number(seed, "seed"))
    table = pd.read_csv(locate(FILE).path).astype(np.float64)
    woman = (table["gender"] == 1).to_numpy()
    agrees = woman == (table[_TARGET] >= _HIGH).to_numpy()
    truth: Mapping[str, Any] = {}
    labels: NDArray[np.str_]
    if engineered:
        shares = [float(agrees.mean()) + shift for shift in _SHIFTS]
        chosen, labels = engineered_environments.draw(agrees, shares, _ROWS, generator)
        truth = engineered_environments.strengths(agrees[chosen], woman[chosen], table[_TARGET].iloc[chosen], labels)
    else:
        chosen = generator.permutation(len(table))[: _ROWS * (TRAINING + TESTING)]
        labels = np.where(woman, "female", "male")[chosen]
    table = table.iloc[chosen].reset_index(drop=True)
    X = table.drop(columns=[_TARGET] if engineered else [_TARGET, "gender"])
    env_name = "environment" if engineered else "gender"
    return Dataset(
        X=X,
        y=table[_TARGET],
        env=pd.Series(labels, name=env_name),
        columns=tuple(X.columns),
        description="Students of U.S. law schools, one row each: score of the admission test (lsat), standardised "
        "grades in law school (zfygpa first year, zgpa overall), bar1 (1: passed the bar examination), cluster of law "
        "schools, fulltime 1 or 2, family income 1-5, age, and one column of 0/1 for each of eight race codes. The "
        "target is the undergraduate grade point average, 1.8 to 4.0.",
        source="GerryFair, dataset/lawschool.csv",
        choices=_choices(engineered),
        part=np.repeat([TRAIN, TEST], [TRAINING * _ROWS, TESTING * _ROWS]),
        truth=truth,
        target_name=_TARGET,
        env_name=env_name,
    )


ENTRY = Entry(
    kind="table",
    title="Undergraduate grades of law students, by gender",
    load=law_school,
    files=(FILE,),
    licence="MIT (the repository with the file); the study is the Law School Admission Council's",
    reference="Wightman (1998), LSAC National Longitudinal Bar Passage Study; file: github.com/algowatchpenn/GerryFair",
    published=(
        Published("training rows", 1092, "DRIC paper, B.3"),
        Published("test rows", 728, "DRIC paper, B.3"),
        Published("features", 18, "DRIC paper, B.3 (all columns of the file)"),
    ),
)


def _choices(engineered: bool) -> tuple[str, ...]:
    said = [
        "The paper's 18 attributes are all columns of the file. Without the target "
        + ("17 features are left, gender among them." if engineered else "and gender, 16 features are left."),
        "The file has no data dictionary. In GerryFair's own preparation gender 1 is female and 0 male, and bar1 1 is "
        "a bar examination passed; race1 to race8 are the study's codes.",
        "age is as stored, -68 to -21: its zero point is not documented, so only differences mean something.",
        "zfygpa, zgpa and bar1 came after the undergraduate grades they are to predict; the paper keeps them.",
        "GerryFair does not say how the 1,823 rows were selected from the study.",
    ]
    if engineered:
        said.append(
            'The paper speaks of environments of "different correlation strength" between gender and ugpa and gives '
            "neither their number nor the strengths. Its 1,092 + 728 rows fit five of 364 each, so three are drawn to "
            "train on and two to test on, with the agreement of all rows (56.3 %) plus 30, 15, 0, -15 and -30 points. "
            "The shares of women and of high grades differ between them as well."
        )
    else:
        said += [
            "The paper made environments of different correlation strength between gender and ugpa out of the rows; "
            'environments="correlation" does that. Here they are the genders themselves, with nothing engineered.',
            "The paper does not say how rows were split: here at random, 1,092 to train on and 728 to test on, which "
            "leaves out 3 of the 1,823.",
        ]
    return tuple(said)
