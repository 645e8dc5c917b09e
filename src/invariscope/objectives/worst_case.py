"""Training against the worst case: the loss where rows would be worst, within a distance, counts as well."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import checked_task, refuse_no_tensors, row_losses, target_columns, task_of_outputs
from invariscope.models.torch_heads import FeatureHead, feature_head
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, objective, objective_of
from invariscope.objectives.worst_points import Search, squared_unit, worst_moves

BASE = "base."  # in names of the memory


def worst_case_penalty(
    logits: Tensors | None,
    targets: Tensors,
    features: Tensors,
    *,
    head: Any,
    task: str = "auto",
    fraction: float = 0.25,
    radius: float | Tensor | None = None,
    iterations: int = 8,
    bisections: int = 12,
) -> Tensor:
    """Mean loss of the features (n_e, d) of all environments after they moved to where it is worst.

        sup { mean_i ℓ(h(z_i + δ_i), y_i) :  mean_i ‖δ_i‖² ≤ ρ² },    ρ = ``radius``, or ``fraction`` · R

    that is the largest mean loss within Wasserstein distance ρ (order 2) of the features, with labels that stay. R is
    the root mean squared distance of the rows to the nearest wrong answer, or for squared error the distance that
    doubles the root mean squared error, so that a fraction means the same whatever the units of the features.
    ``head`` is what turns features into logits: an ``nn.Linear`` (or ``nn.Identity`` where the features are the logits)
    is solved by closed forms, with ``bisections`` of the multiplier and ``iterations`` for each; of other modules or
    functions the gradient is followed for as many ``iterations``, which finds a part of the worst case only. Targets
    can be probabilities; logits only tell the task, and may be None if ``task`` does.

    The gradient goes through the head and the features, with the displacements δ and ρ held fixed, which at the
    maximum is exact (envelope theorem). With the default ``iterations`` it is reached to some per cent of the gradient.

    What it cannot tell: where unseen environments really lie. It protects in all directions alike, also in those that
    nothing ever moves in.

    Reference: the worst-case poster; Sinha et al. (2018), "Certifying some distributional robustness with principled
    adversarial training", for the multiplier form; Volpi et al. (2018), "Generalizing to unseen domains via adversarial
    data augmentation", for worst cases in features.

    >>> head = torch.nn.Linear(2, 1, bias=False)
    >>> head.weight.data = torch.tensor([[3.0, 4.0]])
    >>> rows, values = [torch.eye(2)], [torch.tensor([2.0, 11.0])]  # residuals 1 and −7: mean square 25
    >>> penalty = worst_case_penalty(None, values, rows, head=head, radius=0.2, task="regression")
    >>> round(penalty.item(), 3)  # (√25 + 0.2 · 5)²
    36.0
    """
    refuse_no_tensors("targets", targets)
    _check_features(targets, features)
    if task == "auto" and logits is None:
        raise InputError("neither logits nor a task are given: pass logits=, or task=")
    _check_counts(iterations=iterations, bisections=bisections)
    rows, layer = torch.cat(list(features)), feature_head(head, features[0])
    outputs = layer(rows[:1]).shape[1]
    task = task_of_outputs(task, outputs) if logits is None else checked_task(task, logits, targets)
    _check_targets(torch.cat(list(targets)), task, outputs)
    values = _joined(targets, task, layer, rows)
    if radius is None:
        _check_fraction(fraction)
        square = fraction**2 * squared_unit(layer, rows, values, task)
    elif isinstance(radius, float | int) and not 0 <= radius < float("inf"):
        raise InputError(f"radius is {radius!r}: give a distance of at least 0")
    else:
        square = torch.as_tensor(radius, dtype=rows.dtype, device=rows.device) ** 2
    return worst_loss(layer, rows, values, task, square, Search(iterations, bisections))


def worst_loss(
    head: FeatureHead, rows: Tensor, targets: Tensor, task: str, squared_radius: Tensor, search: Search
) -> Tensor:
    """The same for rows and floating targets of all environments in one, and ρ²."""
    moves = worst_moves(head, rows, targets, task, squared_radius, search)
    return torch.stack([(move.share * row_losses(head(rows + move.by), targets, task)).mean() for move in moves]).sum()


@objective("worst_case")
class WorstCase(Objective):
    """Another objective + weight · mean loss where the batch would be worst: :func:`worst_case_penalty`.

    ``base`` is the other objective, by name or as an object, with ``base_weight`` for its penalty (None: its own);
    ``fraction`` of the unit R gives the radius. R changes as the model does: it is a running mean over about
    ``refresh`` batches. The penalty of the base counts in full from the first step; a schedule is for the weight of the
    worst case alone. Bases that need density ratios ("dric", "transport_gap") are refused.
    """

    weight: float = 0.5
    base: Any = "erm"
    base_weight: float | None = None
    fraction: float = 0.25
    refresh: int = 20
    iterations: int = 8
    bisections: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction(self.fraction)
        if self.base_weight is not None and not self.base_weight >= 0:
            raise InputError(f"base_weight is {self.base_weight}: give a number of at least 0")
        base = self.inner
        if isinstance(base, WorstCase):
            raise InputError('"worst_case" cannot be its own base: name another objective, such as "erm" or "vrex"')
        if base.ratio_on is not None:
            raise InputError(
                f'"{base.name}" cannot be the base of "worst_case": its density ratios are fitted by the training '
                'loop, which serves one objective only. Use another base, such as "erm" or "vrex"'
            )

    @property
    def inner(self) -> Objective:
        """The base as an object, with the weight its penalty has here."""
        return objective_of(self.base, self.base_weight)

    @property
    def fewest_environments(self) -> int:  # type: ignore[override]
        """As many as the base needs: the worst case itself compares none."""
        return self.inner.fewest_environments

    @property
    def rows_at_once(self) -> int | None:  # type: ignore[override]
        """As for the base."""
        return self.inner.rows_at_once

    def draw(self, targets: Tensors, generator: torch.Generator) -> Named:
        return self.inner.draw(targets, generator)

    def mix(self, inputs: Tensors, targets: Tensors, drawn: Named) -> tuple[Tensors, Tensors]:
        return self.inner.mix(inputs, targets, drawn)

    def adversary(self, width: int, environments: int, outputs: int, generator: torch.Generator) -> Named:
        return self.inner.adversary(width, environments, outputs, generator)

    def memory(self, environments: int) -> Named:
        own = {"square": torch.zeros(()), "counted": torch.zeros(())}
        return own | {BASE + name: value for name, value in self.inner.memory(environments).items()}

    def remember(self, batch: Batch, memory: Named) -> Named:
        keep, square = 1 - 1 / self.refresh, self._square(batch)
        own = {
            "square": keep * memory["square"].to(square.dtype) + (1 - keep) * square,
            "counted": keep * memory["counted"] + (1 - keep),
        }
        inner = self.inner.remember(batch, _of_base(memory))
        return own | {BASE + name: value for name, value in inner.items()}

    def risk(self, batch: Batch, memory: Named) -> Tensor:
        """That of the base, without its penalty."""
        return self.inner.risk(batch, _of_base(memory))

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        """Mean loss at the worst points, at a radius from the batch alone."""
        return self._worst(batch, self._square(batch))

    def parts(self, batch: Batch, memory: Named, adversary: Named) -> tuple[Tensor, Tensor]:
        base = self.inner
        risk, penalty = base.parts(batch, _of_base(memory), adversary)
        return risk + base.weight * penalty, self._worst(batch, self._remembered(batch, memory))

    def judgement(self, batch: Batch, weight: Tensor | float, memory: Named, adversary: Named) -> Tensor:
        """What the base judges by, and the worst case at the radius of the training rows."""
        base = self.inner
        judged = base.judgement(batch, base.weight, _of_base(memory), adversary)
        return judged + weight * self._worst(batch, self._remembered(batch, memory))

    def _remembered(self, batch: Batch, memory: Named) -> Tensor:
        counted = memory["counted"]
        mean = memory["square"] / torch.where(counted > 0, counted, 1.0)
        return torch.where(counted > 0, mean, self._square(batch))

    def _square(self, batch: Batch) -> Tensor:
        head, rows = self._head(batch), torch.cat(list(batch.features))
        return squared_unit(head, rows, _joined(batch.targets, batch.task, head, rows), batch.task)

    def _worst(self, batch: Batch, square: Tensor) -> Tensor:
        head, rows = self._head(batch), torch.cat(list(batch.features))
        values = _joined(batch.targets, batch.task, head, rows)
        search = Search(self.iterations, self.bisections)
        return worst_loss(head, rows, values, batch.task, self.fraction**2 * square, search)

    def _head(self, batch: Batch) -> FeatureHead:
        if batch.head is None:
            raise InputError(
                'objective "worst_case" asks what the head says elsewhere, but this batch has no head: give it '
                "head=feature_head(module, features) of invariscope.models.torch_heads"
            )
        return batch.head


def _joined(targets: Tensors, task: str, head: FeatureHead, rows: Tensor) -> Tensor:
    """Targets of all environments as floats: (n,), or probabilities (n, K)."""
    values = torch.cat(list(targets))
    if task != "multiclass":
        return values.reshape(values.shape[0]).to(rows.dtype)
    classes = head(rows[:1]).shape[1] if values.ndim == 1 else values.shape[1]
    return target_columns(values, task, classes, rows.dtype)


def _of_base(memory: Named) -> Named:
    return {name.removeprefix(BASE): value for name, value in memory.items() if name.startswith(BASE)}


def _check_features(targets: Tensors, features: Tensors) -> None:
    if isinstance(features, Tensor) or not features or not all(isinstance(part, Tensor) for part in features):
        raise InputError("features must be a list of torch tensors, one for every environment")
    for rows, values in zip(features, targets, strict=False):
        if rows.ndim != 2 or len(rows) != len(values):
            raise InputError(f"features of shape {tuple(rows.shape)} for {len(values)} targets: give (rows, columns)")
    if len(features) != len(targets):
        raise InputError(f"{len(features)} environments of features, but {len(targets)} of targets: give one of each")


def _check_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or value < 1:
            raise InputError(f"{name} is {value!r}: give a whole number of at least 1")


def _check_targets(values: Tensor, task: str, outputs: int) -> None:
    """Targets that the head has outputs for; under vmap, where nobody can look at values, their shapes alone."""
    if task != "multiclass":
        if outputs != 1:
            raise InputError(f'the head gives {outputs} outputs, but task "{task}" needs one: say task="multiclass"')
        return
    if values.ndim == 2:
        if values.shape[1] != outputs:
            raise InputError(f"targets have {values.shape[1]} columns for a head of {outputs} outputs: give as many")
        return
    try:
        outside = bool(((values < 0) | (values >= outputs)).any())
    except RuntimeError:
        return
    if outside:
        raise InputError(f"targets must be class codes 0 to {outputs - 1}: the head tells so many apart")


def _check_fraction(fraction: float) -> None:
    if not fraction >= 0:
        raise InputError(f"fraction is {fraction!r}: give a number of at least 0, such as 0.25")
