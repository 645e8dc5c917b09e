"""Train many small models as one program: seeds × penalty weights × draws of the data."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from invariscope.errors import InputError
from invariscope.models.torch_networks import Halves, halves_of
from invariscope.objectives.objective import Named, Objective
from invariscope.progress import Say
from invariscope.rows.arrays import Array, Booleans, Floats
from invariscope.rows.settings import real_number, shown, whole_number
from invariscope.training.loop import Loop, Settings
from invariscope.training.outcome import constant_risk, worse_than_constant
from invariscope.training.program import Program, Supply
from invariscope.training.rows import Rows
from invariscope.training.train import adversary_of, checked, checked_width, prepared


@dataclass(frozen=True)
class Replicates:
    """Many trained models; every array has one entry per model.

    ``seeds`` and ``weights`` say which is which; ``diverged`` marks models whose loss is no number any more, or whose
    risk ends at more than ten times that of the best constant.
    """

    seeds: NDArray[np.int64]
    weights: Floats
    objective: Objective
    history: dict[str, Array]
    kept_step: NDArray[np.int64]
    diverged: Booleans
    parameters: Named
    _network: Halves

    def __repr__(self) -> str:
        seeds, weights = (len(np.unique(values)) for values in (self.seeds, self.weights))
        return f"<Replicates: {len(self)} models by {self.objective.name}; {seeds} seeds, {weights} weights>"

    def __len__(self) -> int:
        return len(self.seeds)

    def network(self, model: int) -> Halves:
        """One of the models as a network of its own."""
        network = copy.deepcopy(self._network)
        network.load_state_dict({name: value[model] for name, value in self.parameters.items()})
        return network.eval()

    def __call__(self, inputs: Any, *, stacked: bool = False) -> tuple[Tensor, Tensor]:
        """Logits (models, n, K), features (models, n, d) of the same rows, or with ``stacked`` of each model's own."""

        def forward(parameters: Named, values: Tensor) -> Any:
            return functional_call(self._network, parameters, (values,))

        with torch.no_grad():
            values = torch.as_tensor(inputs, dtype=next(iter(self.parameters.values())).dtype)
            # one pass for all models m: f(parameters[m], values), or f(parameters[m], values[m]) if stacked
            outputs: tuple[Tensor, Tensor] = vmap(forward, in_dims=(0, 0 if stacked else None))(self.parameters, values)
        return outputs


def train_replicates(
    build: Callable[[], Any],
    rows: Rows | Sequence[Rows],
    objective: Any = "erm",
    *,
    seeds: Sequence[int] = (0,),
    weights: Sequence[float] | None = None,
    settings: Settings | None = None,
    held_out: Rows | Sequence[Rows] | None = None,
    progress: bool | Say = False,
) -> Replicates:
    """Train a model for every combination of seed and penalty weight, all at once.

    The papers' experiments are hundreds of small models. One after the other, nearly all the time goes into starting
    operations on small tensors; here every operation acts on all models together (``torch.func.vmap``). Each model gets
    the same start, batches and random numbers as :func:`~invariscope.training.train` would give it, so the results
    are those of a loop up to rounding.

    Parameters
    ----------
    build : function without arguments that makes a network; it is called once per seed, with torch's random numbers
        set to that seed, so that the seed decides where a model starts
    rows : rows that all models train on, or one :class:`Rows` per seed (another draw of the data for each), with as
        many rows per environment. Density ratios on x are fitted once, with the first seed.
    weights : penalty weights; default: that of the objective. Models are ordered seed by seed, weights within.
    held_out : rows to stop by, in the form of ``rows``; models stop at different steps and keep their own best

    What it cannot do: networks with running statistics (BatchNorm) or random layers of their own (nn.Dropout); those
    of :mod:`invariscope.models.torch_networks` work.

    >>> from invariscope.datasets import linear_sem
    >>> from invariscope.models.torch_networks import linear
    >>> X, y, env = linear_sem("FEU", n=100)
    >>> many = train_replicates(lambda: linear(10, 1), Rows.of(X, y, env), "vrex", seeds=range(3), weights=(0, 1, 10),
    ...                         settings=Settings(steps=50))
    >>> len(many), many.weights[:4]
    (9, array([ 0.,  1., 10.,  0.]))
    """
    _refuse_unusable(build, seeds, weights)
    settings = checked(settings, *_draws(rows), *([] if held_out is None else _draws(held_out)))
    chosen = [whole_number(seed, "seed") for seed in seeds]
    first = _draws(rows)[0]
    objective = prepared(objective, first, None if held_out is None else _draws(held_out)[0], chosen[0])
    if not isinstance(rows, Rows) and type(objective).fitted is not Objective.fitted:
        raise InputError(f'objective "{objective.name}" takes numbers from the data: give rows that all models share')
    each = _penalty_weights(objective, weights)
    every_seed, every_weight = [seed for seed in chosen for _ in each], each * len(chosen)
    networks = [_built(build, seed).to(first.inputs[0].dtype) for seed in chosen]
    refuse_state(networks[0])
    width = checked_width(networks[0], first)
    program = Program(
        copy.deepcopy(networks[0]).train(), objective, first.task, settings.schedule, settings.weight_decay
    )
    trained_on, judged = (_of_every_model(given, len(chosen), len(each)) for given in (rows, held_out))
    assert trained_on is not None
    supply = Supply(program, trained_on, judged, tuple(every_seed), settings.batch_size, lifted=True)
    stacked, _ = stack_module_state([network for network in networks for _ in each])
    loop = Loop(
        program,
        supply,
        settings,
        torch.tensor(every_weight, dtype=first.inputs[0].dtype),
        parameters={name: value.detach().requires_grad_(value.requires_grad) for name, value in stacked.items()},
        adversary=_stacked([adversary_of(objective, width, first, seed) for seed in every_seed], trained=True),
        memory=_stacked([objective.memory(len(first.labels))] * len(every_seed)),
        buffers={},
    )
    parameters = loop.run(None, progress, f"training {len(every_seed)} models by {objective.name}")
    history = loop.history_arrays()
    return Replicates(
        seeds=np.array(every_seed),
        weights=np.array(every_weight),
        objective=objective,
        history=history,
        kept_step=np.where(held_out is None, loop.step, loop.best_step.numpy()),
        diverged=~np.isfinite(history["loss"][-1])
        | worse_than_constant(history["risk"][-1], _constants(trained_on, supply)),
        parameters=parameters,
        _network=networks[0],
    )


def _constants(rows: Rows, supply: Supply) -> Floats:
    """The risk of the best constant for every model."""
    places = range(len(supply.seeds) if rows.stacked else 1)
    each = np.array([constant_risk(rows.draw(place)) for place in places])
    return np.broadcast_to(each, len(supply.seeds))


def _refuse_unusable(build: Any, seeds: Any, weights: Any) -> None:
    for name, values in (("seeds", seeds), *([] if weights is None else [("weights", weights)])):
        listed = isinstance(values, Iterable) and getattr(values, "ndim", 1) == 1
        if not listed or (isinstance(values, Sized) and not len(values)):
            raise InputError(f"{name} is {shown(values)}: give a list, such as range(20) or (1, 10, 100)")
    if isinstance(build, torch.nn.Module) or not callable(build):
        raise InputError("build must be a function without arguments that makes a network: lambda: mlp(10, 1, (16,))")


def _penalty_weights(objective: Objective, weights: Sequence[float] | None) -> list[float]:
    return [real_number(weight, "a penalty weight") for weight in ([objective.weight] if weights is None else weights)]


def _draws(rows: Any) -> list[Any]:
    return [*rows] if isinstance(rows, Sequence) and len(rows) else [rows]


def _built(build: Callable[[], Any], seed: int) -> Halves:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return copy.deepcopy(halves_of(build()))


def refuse_state(network: Halves) -> None:
    """Networks whose layers keep or draw numbers by themselves cannot be trained as one program."""
    for name, module in network.named_modules():
        kind = type(module).__name__
        if next(module.buffers(recurse=False), None) is not None:
            raise InputError(
                f"layer {name} ({kind}) keeps numbers of its own, as BatchNorm its running statistics: "
                "use GroupNorm or LayerNorm instead"
            )
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            raise InputError(
                f"layer {name} ({kind}) draws random numbers by itself: use models.torch_networks.mlp(dropout=...)"
            )


def _of_every_model(rows: Rows | Sequence[Rows] | None, seeds: int, weights: int) -> Rows | None:
    if rows is None or isinstance(rows, Rows):
        return rows
    if len(rows) != seeds:
        raise InputError(f"{len(rows)} draws of the data for {seeds} seeds: give one per seed")
    return Rows.stack([draw for draw in rows for _ in range(weights)])


def _stacked(each: Sequence[Named], *, trained: bool = False) -> Named:
    return {name: torch.stack([one[name] for one in each]).requires_grad_(trained) for name in each[0]}
