"""What every data set is: rows, a target, environments, and a text that says what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from invariscope.errors import InputError
from invariscope.rows.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

    from invariscope.rows.environments import Environments

TRAIN, TEST = "train", "test"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Dataset:
    """Rows with a target and the environment each comes from.

    Unpacks into what every function here takes, with names: ``X, y, env = data``, or ``iv.audit(model, *data)``.

    Attributes
    ----------
    X : (n, d) features, all numbers: a pandas table (tables) or an array (synthetic sets, images)
    y : (n,) target: numbers or classes
    env : (n,) environment label of every row
    columns : names of the d features
    description : what the rows are, in which units
    source : where this copy came from
    choices : what the paper that used the data leaves open, and what was done here
    notes : what was changed on the way in (columns left out, values filled in)
    part : (n,) "train" or "test" where the data come with a split, else ``None``
    truth : population quantities, where the law of the rows is known
    others : (n,) columns with another part, by that part: "weight", "prediction", "baseline" (a table)
    target_name, env_name : what the target and the environments are called

    >>> data = Dataset(X=np.eye(4), y=np.arange(4), env=np.array(list("abab")), columns=tuple("wxyz"),
    ...                description="four rows", part=np.array(["train", "train", "test", "test"]))
    >>> data.train.y.tolist(), data.test.env.tolist(), data.environments.labels
    ([0, 1], ['a', 'b'], ('a', 'b'))
    >>> X, y, env = data
    >>> data
    <Dataset 4 rows x 4 features; target by environment (2); 2 train, 2 test>
    four rows
    """

    X: Any
    y: Any
    env: Any
    columns: tuple[str, ...]
    description: str
    source: str = ""
    choices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    part: NDArray[np.str_] | None = None
    truth: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    target_name: str = "target"
    env_name: str = "environment"

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        count = len(set(np.asarray(self.env).tolist()))
        split = (
            "" if self.part is None else f"; {np.sum(self.part == TRAIN):,} train, {np.sum(self.part == TEST):,} test"
        )
        return (
            f"<{type(self).__name__} {len(self):,} rows x {len(self.columns)} features; {self.target_name} by "
            f"{self.env_name} ({count}){split}>\n{self.description}"
        )

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.X, np.ndarray):
            yield from (self.X, self.y, self.env)
            return
        import pandas as pd

        # a table has names, an array has not: reports should
        yield pd.DataFrame(self.X, columns=list(self.columns), copy=False)
        for values, name in ((self.y, self.target_name), (self.env, self.env_name)):
            yield pd.Series(values, name=name) if np.ndim(values) == 1 else values

    @property
    def environments(self) -> Environments:
        """The rows grouped by environment and checked: what criteria work on."""
        from invariscope.rows.environments import Environments

        if np.ndim(self.y) > 1:
            raise InputError(
                f"{self.target_name} has {np.shape(self.y)[1]} columns, and criteria take one: choose it, as in "
                "bayesian_network(component=0)"
            )
        return Environments(
            self.X, self.y, self.env, columns=self.columns, target_name=self.target_name, env_name=self.env_name
        )

    @property
    def frame(self) -> pd.DataFrame:
        """Features, target and environment in one table, under their names."""
        import pandas as pd

        frame = pd.DataFrame(self.X) if not isinstance(self.X, pd.DataFrame) else self.X.copy()
        frame.columns = pd.Index(self.columns)
        targets = {self.target_name: self.y}
        if np.ndim(self.y) > 1:
            targets = {f"{self.target_name} {k + 1}": column for k, column in enumerate(np.asarray(self.y).T)}
        for name, values in (*targets.items(), (self.env_name, self.env)):
            # the environment may be a feature as well
            frame[f"{name} (label)" if name in frame.columns else name] = np.asarray(values)
        return frame

    @property
    def train(self) -> Self:
        """The rows to learn from."""
        return self._of_part(TRAIN)

    @property
    def test(self) -> Self:
        """The rows to judge on."""
        return self._of_part(TEST)

    def rows(self, chosen: Array) -> Self:
        """The rows at these positions, or those where a mask is true; everything else stays as it is."""

        def take(values: Any) -> Any:
            return values.iloc[chosen].reset_index(drop=True) if hasattr(values, "iloc") else values[chosen]

        part = None if self.part is None else self.part[chosen]
        others = {name: take(values) for name, values in self.others.items()}
        return replace(self, X=take(self.X), y=take(self.y), env=take(self.env), part=part, others=others)

    def _of_part(self, name: str) -> Self:
        if self.part is None:
            raise InputError(f"these rows come without a split: there is no .{name}. Choose rows with .rows(mask).")
        return replace(self.rows(np.flatnonzero(self.part == name)), part=None)
