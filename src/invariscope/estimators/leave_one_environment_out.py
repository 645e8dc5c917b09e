"""Cross-validation that asks for what invariance promises: an environment nobody trained on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from invariscope.errors import InputError
from invariscope.rows.arrays import Integers
from invariscope.rows.labels import unique_labels
from invariscope.rows.tables import column_of_labels

Places = Integers


class LeaveOneEnvironmentOut(BaseCrossValidator):  # type: ignore[misc]
    """Every environment is the test set once, and the model is fitted on all others.

    With scikit-learn's metadata routing one ``env=`` serves the model and this splitter:
    ``GridSearchCV(model, grid, cv=LeaveOneEnvironmentOut()).fit(X, y, env=env)``. Without routing give the labels to
    the splitter as groups: ``.fit(X, y, env=env, groups=env)``.

    It cannot tell how a model fares in an environment unlike all of these.

    >>> splitter = LeaveOneEnvironmentOut()
    >>> [test.tolist() for _, test in splitter.split([[0], [1], [2], [3]], env=["a", "b", "a", "c"])]
    [[0, 2], [1], [3]]
    """

    __metadata_request__split: ClassVar[dict[str, bool]] = {"env": True, "groups": True}

    def split(self, X: Any, y: Any = None, env: Any = None, groups: Any = None) -> Iterator[tuple[Places, Places]]:
        """Places of the rows to train on and of those to test on, environment after environment."""
        codes = _codes(env, groups, _rows(X))
        for code in range(int(codes.max()) + 1):
            yield np.flatnonzero(codes != code), np.flatnonzero(codes == code)

    def get_n_splits(self, X: Any = None, y: Any = None, env: Any = None, groups: Any = None) -> int:
        """How many environments there are."""
        given = groups if env is None else env
        return int(_codes(env, groups, _rows(given if X is None else X)).max()) + 1


def _rows(X: Any) -> int:
    return 0 if X is None else int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _codes(env: Any, groups: Any, rows: int) -> Places:
    given = groups if env is None else env
    if given is None:
        raise InputError(
            "no environments reached LeaveOneEnvironmentOut: pass env= to fit, after "
            "sklearn.set_config(enable_metadata_routing=True), or without that env=env and groups=env"
        )
    labels, codes = environment_codes(given, rows)
    if len(labels) < 2:
        raise InputError(
            f'there is only one environment ("{labels[0]}"), and nothing is left to train on without it: give env with '
            "at least two labels"
        )
    return codes


def environment_codes(env: Any, rows: int) -> tuple[tuple[Any, ...], Integers]:
    """Sorted labels and the code of every row; labels that are neither text nor number are given as text.

    >>> labels, codes = environment_codes(["b", "a", "b"], 3)
    >>> labels, codes.tolist()
    (('a', 'b'), [1, 0, 1])
    """
    values, name = column_of_labels(env, "env")
    if len(values) != rows:
        raise InputError(f"X has {rows} rows but env has {len(values)}: give one label per row")
    labels, codes = unique_labels(values, name or "env")
    plain = (label.item() if isinstance(label, np.generic) else label for label in labels)
    return tuple(label if isinstance(label, int | float) else str(label) for label in plain), codes
