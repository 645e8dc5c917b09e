"""Financial indicators: U.S. companies by year, and whether their share price rose in the year after."""

from __future__ import annotations

import numpy as np
import pandas as pd

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.fetch import DataFile, locate_all
from invariscope.datasets.sources import Url
from invariscope.reading.dataset import TEST, TRAIN, Dataset
from invariscope.rows.settings import one_of

_HOME = "https://raw.githubusercontent.com/capybaralet/REx_code_release/master/finance_experiments/data"


def _file(year: int, sha256: str, size: int) -> DataFile:
    name = f"{year}_clean.csv"
    return DataFile(f"financial_indicators/{name}", sha256, size, (Url(f"{_HOME}/{name}"),))


FILES = {
    2014: _file(2014, "0395ad0e3aec41cb6d7bce36f60d00fc1b65679a55e1ed68d579f8ac5e3c298b", 2482297),
    2015: _file(2015, "98e65b2bc0d18588c0b420d284fb9ed0d9950313b7557c4b5649cdb74d155f77", 2640677),
    2016: _file(2016, "ae316e4beca4c7ffd4dbbdc71ae914e9e64622127a6594c904285ffb86241ab4", 3371728),
    2017: _file(2017, "628d5eda85df902395998d98d61ab9ce43c2df9388f28344ddd1896726dc967e", 3610794),
    2018: _file(2018, "a97dda8776f93c84b4f5e6b657fa721e6be5dc70a1585d93995115ae219e63a1", 3058876),
}
_LAST_TRAINING_YEAR = 2016
_VARIATION = "price variation"


def financial_indicators(target: str = "class") -> Dataset:
    """Yearly figures of U.S. listed companies, 2014 to 2018: does the share price rise in the year after?

    The year is the environment; 2014 to 2016 are to train on, 2017 and 2018 to test on, as in the DRIC paper.

    Parameters
    ----------
    target : "class": 1 if the share price did not fall in the year after; "price variation": by how many % it changed

    Returns
    -------
    Dataset : 22,031 rows of the 37 indicators that all five files have

    What it cannot tell: 4,980 tickers make the 22,031 rows, most of them in every year, so environments share
    companies and are not independent of each other.

    Raises
    ------
    InputError : the target is unknown, or a file in INVARISCOPE_DATA is damaged
    DataUnavailable : a file cannot be had; the message says how to get it by hand

    References
    ----------
    Carbone (2020), 200+ financial indicators of US stocks (2014-2018), Kaggle; cleaned files of Krueger et al. (2021),
    Out-of-distribution generalization via risk extrapolation; the DRIC paper, B.3.

    >>> financial_indicators(target="price")
    Traceback (most recent call last):
    invariscope.errors.InputError: target "price" is unknown: use "class" or "price variation"
    """
    one_of(target, "target", ("class", _VARIATION))
    years = {
        # in the file of 2014 the target is the column "2015 PRICE VAR [%]"
        year: pd.read_csv(located.path, index_col=0).rename(columns={f"{year + 1} PRICE VAR [%]": _VARIATION})
        for year, located in zip(FILES, locate_all([*FILES.values()]), strict=True)
    }
    table = pd.concat(years.values(), join="inner", ignore_index=True)
    year = np.repeat(list(years), [len(frame) for frame in years.values()])
    X = table.drop(columns=["Sector", "Class", _VARIATION])
    y = table["Class"] if target == "class" else table[_VARIATION]
    target_name = "price rises" if target == "class" else "price variation in %"
    return Dataset(
        X=X,
        y=y.rename(target_name),
        env=pd.Series(year.astype(str), name="year"),
        columns=tuple(X.columns),
        description="Companies listed in the U.S., one row per company and year: 37 figures of their yearly accounts "
        "in dollars, shares, dollars per share, or as ratios. The target is how the share price went the year after.",
        source="V-REx authors' cleaned files, 2014_clean.csv to 2018_clean.csv",
        choices=_choices(target),
        part=np.where(year <= _LAST_TRAINING_YEAR, TRAIN, TEST),
        target_name=target_name,
        env_name="year",
    )


ENTRY = Entry(
    kind="table",
    title="Accounts of U.S. companies and their share price a year later, 2014-2018",
    load=financial_indicators,
    files=tuple(FILES.values()),
    licence="copyright remains with the authors of the Kaggle data",
    reference="Carbone (2020), kaggle.com/cnic92/200-financial-indicators-of-us-stocks-20142018; files: "
    "github.com/capybaralet/REx_code_release",
    published=(
        Published("features", 37, "DRIC paper, B.3"),
        Published("environments", 5, "DRIC paper, B.3"),
    ),
)


def _choices(target: str) -> tuple[str, ...]:
    return (
        "The paper's 37 features are the numbers that all five yearly files have. The sector, which is text, and the "
        "ticker are left out; rows are in the order of the files.",
        "The files were cleaned by their authors: gaps are filled and extremes capped, so the largest companies of a "
        "year share the same figures. Nothing further was done, and columns are not standardised.",
        "390 rows of 2016 and 405 of 2017, all of sector Financial Services, hold filled gaps only: the same 37 "
        "figures in every row. Of those of 2016, 89 % rise, of those of 2017 11 %, which alone sets the years apart. "
        "They are kept as in the paper; data.rows(~data.X.duplicated(keep=False)) leaves them out, and 212 others.",
        "EPS and EPS Diluted (correlation 0.998), and Net Income and Consolidated Income (0.995), are nearly the same.",
        "Classes are as frequent as they are; the V-REx authors' code drops rows until both are equally frequent.",
        'The paper\'s target "indicating stock price variation" is taken to be the column Class: 1 where the price '
        "rose in the year after, or stayed as it was (25 rows)."
        if target == "class"
        else "The price variation is not capped: it goes up to 3,757 %, and one row is stored as -100.4 %.",
    )
