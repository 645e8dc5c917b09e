"""Where a door differs from the rule of its kind of input, with the reason; and what is known to be wrong."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile import columns
from tests.hostile.case import REFUSED, REFUSED_OR_SAME, SOUND, Input

#: Doors behind which a model reads the rows, in its own way.
MODELS = (
    "audit of a linear model",
    "audit of a classifier",
    "audit of a network",
    "audit of an estimator",
    "audit, every criterion",
)
ESTIMATORS = (
    "audit of an estimator",
    "InvariantRegressor.fit",
    "InvariantRegressor.predict",
    "InvariantClassifier.predict_proba",
)
DIGITS = tuple(given.name for given in columns.OF_TABLES if given.name.startswith("digits lost"))
TEXTS = "texts", "text objects", "bytes", "byte strings"


def _rules() -> Iterator[tuple[str, str, str, str]]:
    """(door, parameter, input, what is right there); "*" is any."""
    for door in MODELS:
        for name in DIGITS:  # what a model makes of such numbers is what is audited
            yield door, "X", name, SOUND
        yield door, "X", "csr matrix", REFUSED_OR_SAME  # scikit-learn's models read them
        yield door, "X", "coo array", REFUSED_OR_SAME
        yield door, "X", "np.matrix", REFUSED_OR_SAME
    for door in ("audit of a network", *ESTIMATORS):
        for name in (
            "1e-200",
            "1e-300",
            "subnormal",
            "one infinity",
            "one minus infinity",
            "float16 overflown",
            "a number of 400 digits",
        ):
            yield door, "X", name, SOUND
    for door in ESTIMATORS:
        yield door, "X", "pandas sparse", REFUSED_OR_SAME
        yield door, "X", "np.matrix", REFUSED_OR_SAME
        for name in (*TEXTS, "pandas with a NaN in its index"):  # of numbers, which scikit-learn reads
            yield door, "X", name, REFUSED_OR_SAME
        for name in DIGITS:
            yield door, "X", name, SOUND  # with a warning that no column varies
        yield door, "X", "one column, flat", SOUND
    for door in (
        "InvariantRegressor.predict",
        "InvariantClassifier.predict_proba",
    ):  # of any number of rows, of any size
        for name in ("one row too few", "one row too many", "one row", "1e200", "1e300"):
            yield door, "X", name, SOUND
    for door in ("InvariantRegressor.fit", "training.Rows.of"):  # environments are for objectives to compare
        for name in ("one group", "a group for each row", "one row apart", "numbers that vary"):
            yield door, "env", name, SOUND
    for name in ("linear_sem", "nonlinear_sem", "bayesian_network"):
        yield name, "environments", "list [1.0]", SOUND  # one will do to draw from
    yield "read", "drop_env", "list ['a', 'b']", SOUND  # judged where environments are compared
    yield "split", "batch_size", "int huge", SOUND  # all rows at once
    yield "split", "device", "bytes b'cpu'", SOUND  # torch takes it
    yield "InvariantRegressor.fit", "hidden", "dict {}", SOUND  # no layers
    yield "training.Rows.of", "X", "3-d array", SOUND  # images
    for name in DIGITS:
        yield "training.Rows.of", "X", name, SOUND
    for parameter in ("X", "y"):  # numbers are judged where they are computed with
        for name in ("1e200", "1e300", "1e-200", "1e-300", "subnormal"):
            yield "Environments", parameter, name, SOUND
            yield "training.Rows.of", parameter, name, SOUND
    for name in ("1e200", "1e300"):  # DRIC alone is left out, with the reason
        yield "audit, every criterion", "baseline", name, SOUND
    for name in ("int 1000000000000", "int huge"):  # no more than there are
        yield "worst_case_in_inputs", "rows", name, SOUND
    for name in ("one row too few", "one row too many", "one row", "1e-200", "1e-300", "subnormal"):
        yield "log_densities_of", "X", name, SOUND  # one of several environments
    yield "influence_index", "y", "two columns", SOUND  # it takes several targets
    yield "InvariantClassifier.fit", "y", "a group for each row", SOUND  # with scikit-learn's own warning
    yield "influence_index", "y", "a row", SOUND
    yield "influence_index", "n_boot", "int 1", SOUND
    yield "influence_index", "n_boot", "int 98", SOUND
    for name in ("csr matrix", "coo array", "array.array"):
        yield "*", "model", name, REFUSED_OR_SAME
        yield "*", "predictions", name, REFUSED_OR_SAME
        yield "*", "baseline", name, REFUSED_OR_SAME
    for name in ("huge and near", "huge and unsigned", "huge, objects", "huge, pandas Int64"):
        yield "*", "y", name, REFUSED  # as floats they are one


EXPECTED = {(door, parameter, name): right for door, parameter, name, right in _rules()}
#: Defects that are known: (door, parameter, input) -> reason.
KNOWN: dict[tuple[str, str, str], str] = {}
#: The same for commands, by their last option.
KNOWN_COMMANDS: dict[tuple[str, ...], str] = {}


def _found(table: dict[tuple[str, str, str], str], door: str, parameter: str, given: Input) -> str:
    for key, value in table.items():
        if all(part in ("*", own) for part, own in zip(key, (door, parameter, given.name), strict=True)):
            return value
    return ""


def expected_of(door: str, parameter: str, given: Input) -> str:
    """What is right for this input at this door."""
    return _found(EXPECTED, door, parameter, given) or given.expected


def known_reason(door: str, parameter: str, given: Input) -> str:
    """Why it is wrong today, if that is known."""
    return _found(KNOWN, door, parameter, given)
