"""What three steps find: one entry per model, who is left at the end, and whether an OOD algorithm is needed at all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from invariscope import wording
from invariscope.auditing.algorithm_needed import shuffled_bound
from invariscope.results import Estimate, InfluenceResult, Label, plain

if TYPE_CHECKING:
    import pandas as pd

#: What a step says of a model.
PASSED, FAILED, OPEN = "passed", "failed", "open"
NO_ESTIMATE = Estimate(math.nan)


@dataclass(frozen=True, kw_only=True)
class ModelSteps:
    """One model in the three steps of :func:`invariscope.three_steps`.

    Attributes
    ----------
    per_environment, mean : accuracy (or loss) on the rows seen, in every environment and on average over them
    behind : how far it is behind the reference: points of accuracy, or extra loss as a share of the reference's
    above_constant : how far it is ahead of the best constant, in the same units
    influence : its influence index V with the shuffles; ``None`` where it cannot be had
    own_head : is V that of the model's own last step, or of a linear head refitted on its representation?
    reaches, unmoved : what steps 1 and 2 say: "passed", "failed" or "open"
    unseen : accuracy (or loss) in environments of target rows, where they were given
    notes : what cannot be had, and why
    """

    name: str
    trained_with: str
    per_environment: Mapping[Label, Estimate]
    mean: Estimate
    behind: Estimate
    above_constant: Estimate
    influence: InfluenceResult | None
    own_head: bool
    reaches: str
    unmoved: str
    unseen: Mapping[Label, Estimate]
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """V; NaN where it cannot be had."""
        return math.nan if self.influence is None else self.influence.value

    @property
    def eliminated_at(self) -> int | None:
        """The step at which the model is eliminated: 1, 2, or ``None``."""
        return 1 if self.reaches == FAILED else 2 if self.unmoved == FAILED else None

    @property
    def ready(self) -> bool:
        """Whether it has passed both steps that need no unseen rows."""
        return self.reaches == self.unmoved == PASSED


@dataclass(frozen=True, kw_only=True, repr=False)
class ThreeSteps:
    """The outcome of :func:`invariscope.three_steps`.

    ``needed`` says whether an OOD algorithm is needed: is V of the reference above its shuffles? ``None`` where that
    cannot be told. ``steps["IRM"]`` is short for ``steps.models["IRM"]``. ``measure`` is "accuracy" or the loss.
    ``sentences`` say it in plain words: whether an algorithm is needed, what becomes of every model, what unseen rows
    show.
    """

    models: Mapping[str, ModelSteps]
    reference: str
    needed: bool | None
    measure: str
    tolerance: float
    alpha: float
    labels: tuple[Label, ...]
    env_name: str
    seed: int
    n_boot: int
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> tuple[str, ...]:
        """Models that reach the reference and whose V is at its shuffles, in the order given."""
        return tuple(name for name, model in self.models.items() if model.ready)

    @property
    def verdict(self) -> str:
        """All of it as one paragraph."""
        return " ".join(self.sentences)

    def __getitem__(self, name: str) -> ModelSteps:
        """One model."""
        if name in self.models:
            return self.models[name]
        raise KeyError(f"{name}: no such model; there are {', '.join(self.models)}")

    def __iter__(self) -> Iterator[str]:
        """The names of the models."""
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def frame(self) -> pd.DataFrame:
        """One row per model: ``accuracy_mean`` and one column per environment (``loss_...`` for other losses);
        ``behind`` the reference with its interval; ``V``, ``shuffled_95`` up to which V goes by chance, ``pvalue``,
        ``head`` ("own" or "refitted"); ``step_1`` and ``step_2`` ("passed", "failed", "open"), ``eliminated_at``;
        and, where target rows were given, ``unseen_mean``, ``unseen_worst`` and one column per unseen environment.
        """
        import pandas as pd

        frame = pd.DataFrame([self._line(model) for model in self.models.values()])
        frame["eliminated_at"] = frame["eliminated_at"].astype("Int64")
        return frame.set_index("model")

    def _line(self, model: ModelSteps) -> dict[str, Any]:
        what = "accuracy" if self.measure == "accuracy" else "loss"
        seen = zip(wording.names(model.per_environment), model.per_environment.values(), strict=True)
        line = {
            "model": model.name,
            f"{what}_mean": model.mean.value,
            **{f"{what}_{label}": one.value for label, one in seen},
            "behind": model.behind.value,
            "behind_low": model.behind.interval[0],
            "behind_high": model.behind.interval[1],
            "V": model.value,
            "shuffled_95": math.nan if model.influence is None else shuffled_bound(model.influence, self.alpha),
            "pvalue": math.nan if model.influence is None else model.influence.pvalue,
            "head": "own" if model.own_head else "refitted",
            "step_1": model.reaches,
            "step_2": model.unmoved,
            "eliminated_at": model.eliminated_at,
        }
        if not model.unseen:
            return line
        unseen = zip(wording.names(model.unseen), model.unseen.values(), strict=True)
        line |= {"unseen_mean": self.unseen_mean(model.name), "unseen_worst": self.unseen_worst(model.name).value}
        return line | {f"unseen_{label}": one.value for label, one in unseen}

    def unseen_mean(self, name: str) -> float:
        """The mean over unseen environments; NaN without target rows."""
        values = [one.value for one in self[name].unseen.values()]
        return sum(values) / len(values) if values else math.nan

    def unseen_worst(self, name: str) -> Estimate:
        """OOD accuracy: that of the unseen environment in which it is lowest (or the loss highest)."""
        pick = min if self.measure == "accuracy" else max
        return pick(self[name].unseen.values(), key=lambda one: one.value, default=NO_ESTIMATE)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON."""
        own = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        return {**own, "ready": list(self.ready)}

    def __repr__(self) -> str:
        return f"<ThreeSteps of {wording.count(len(self), 'model')}: {self.verdict}>"
