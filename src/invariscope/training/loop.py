"""The training loop: short, explicit, and the same for one model and for many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.files import group
from invariscope.objectives.objective import Named, Tensors
from invariscope.objectives.transported import RatioObjective
from invariscope.progress import Say, counting
from invariscope.rows.arrays import Array
from invariscope.rows.settings import one_of, real_number, shown, whole_number
from invariscope.training.checkpoint import Checkpoint, fingerprint
from invariscope.training.program import Parts, Program, Supply, mixed
from invariscope.training.schedule import Schedule

SMALL_STEP = 1e7  # rows × parameters
USUAL_RATE = 0.01
MOST_STEPS = 10**9  # of the smallest model these take days
TABLES = ("parameters", "buffers", "adversary", "memory", "best", "last")  # of the state: tensors by their names
NUMBERS = ("best_value", "best_step", "waited")


@dataclass(frozen=True)
class Settings:
    """How to train.

    Parameters
    ----------
    steps : updates of the parameters
    batch_size : rows of every environment in a batch, the same number of each (of a smaller environment all); None: all
        rows at every step
    learning_rate : of the optimiser, "adam" or "sgd" (with ``momentum``); the adversary's is the same
    weight_decay : weight of ½‖parameters‖² in what is minimised
    schedule : how the penalty's weight grows
    check_every : steps between two looks at the held-out rows, and between two entries of the history
    patience : looks without gain after which training stops, if rows are held out; the best parameters are kept
    """

    steps: int = 1000
    batch_size: int | None = None
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    optimiser: str = "adam"
    momentum: float = 0.9
    schedule: Schedule = field(default_factory=Schedule)
    check_every: int = 10
    patience: int = 20

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "check_every", "patience"):
            if name != "batch_size" or self.batch_size is not None:
                whole_number(getattr(self, name), name, 1, MOST_STEPS if name == "steps" else None)
        real_number(self.learning_rate, "learning_rate", above=True)
        for name in ("weight_decay", "momentum"):
            real_number(getattr(self, name), name)
        one_of(self.optimiser, "optimiser", ("adam", "sgd"))
        if not isinstance(self.schedule, Schedule):
            raise InputError(f"schedule is {shown(self.schedule)}: give Schedule(wait=..., ramp=...)")


@dataclass
class Loop:
    """Everything that changes while training; tensors have a leading axis of replicates if there are many models.

    What is random at a step follows from seed and step, so the state is numbers alone and can be stored at any step.
    """

    program: Program
    supply: Supply
    settings: Settings
    full_weight: Tensor
    parameters: Named
    adversary: Named
    memory: Named
    buffers: Named
    step: int = 0
    densities: Tensors = ()
    held_out_densities: Tensors = ()
    history: dict[str, list[Tensor]] = field(default_factory=dict)
    last: Named = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.supply.held_out is not None and self.settings.steps < self.settings.schedule.full_from:
            raise InputError(
                f"training ends at step {self.settings.steps}, but held-out rows are judged from step "
                f"{self.settings.schedule.full_from} on, under the full weight: train longer, or shorten the schedule"
            )
        self.optimiser = self._new_optimiser()
        self.best = {name: value.detach().clone() for name, value in self._weights().items()}
        self.best_value = torch.full_like(self.full_weight, torch.inf, dtype=torch.float64)
        self.best_step = torch.zeros_like(self.full_weight, dtype=torch.int64)
        self.waited = torch.zeros_like(self.best_step)

    def run(self, checkpoint: Checkpoint | None = None, progress: bool | Say = False, words: str = "training") -> Named:
        """Train to the last step, or until held-out rows have not gained for long; the tensors to keep."""
        settings, stops_early = self.settings, self.supply.held_out is not None
        gradient = self.program.gradient(self.supply.dims if self.supply.lifted else None)
        with counting(progress) as show, torch.random.fork_rng(enabled=self._draws_by_itself), self._threads():
            while self.step < settings.steps and bool((self.waited < settings.patience).any()):
                self._take_step(gradient)
                last, due = self.step == settings.steps, self.step % settings.check_every == 0
                if due:
                    self._look()
                if checkpoint is not None and (last or self.step % checkpoint.every == 0):
                    checkpoint.save(dict(self._state()), self.step, self.identity)
                if last or due:
                    show(words, self.step, settings.steps)
            if self.step == settings.steps and self.step % settings.check_every:
                self._look()  # never stored: a training that goes on for more steps does not look here
        return self.best if stops_early else {name: value.detach() for name, value in self._weights().items()}

    def history_arrays(self) -> dict[str, Array]:
        """The history as arrays."""
        return {name: torch.stack(values).double().numpy() for name, values in self.history.items()}

    @property
    def calmer(self) -> str:
        """What to change if training diverges."""
        rate, weight = self.settings.learning_rate, float(self.full_weight.max())
        proposed = USUAL_RATE if rate > USUAL_RATE else rate / 100
        penalty = f", or the penalty ({weight:g} now), or let it grow slowly (wait, ramp)" if weight > 1 else ""
        return f"lower the learning rate ({rate:g} now), to {proposed:g} say{penalty}"

    # --- going on from a file ---------------------------------------------------------------------------------------
    @cached_property
    def identity(self) -> str:
        """What must be equal for a training to be the same: all but the number of steps and where parameters start.

        Made once, because it reads all rows.
        """
        program, supply = self.program, self.supply
        sets = [rows for rows in (supply.rows, supply.held_out) if rows is not None]
        parts = (program.objective, program.network, program.task, replace(self.settings, steps=1), supply.seeds)
        frozen = [value for value in program.network.parameters() if not value.requires_grad]
        rows = [tensor for rows in sets for tensor in (*rows.inputs, *rows.targets)]
        return fingerprint([*parts, *(rows.labels for rows in sets)], [*frozen, *rows, self.full_weight])

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from where a training that was made in the same way was stored, if it was."""
        stored = checkpoint.stored(self.identity, self.settings.steps)
        if stored is not None:
            self._restore(*stored)

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for kind in TABLES:
            for name, value in getattr(self, kind).items():
                yield f"{kind}/{name}", value
        for kind in ("densities", "held_out_densities"):
            for place, value in enumerate(getattr(self, kind)):
                yield f"{kind}/{place}", value
        for name in NUMBERS:
            yield name, getattr(self, name)
        for name, values in self.history.items():
            yield f"history/{name}", torch.stack([torch.as_tensor(value) for value in values])
        for place, numbers in self.optimiser.state_dict()["state"].items():
            for name, value in numbers.items():
                if value is not None:
                    yield f"optimiser/{place}/{name}", torch.as_tensor(value)

    def _restore(self, tensors: Mapping[str, Tensor], step: int) -> None:
        self.step = step
        with torch.no_grad():
            for kind in ("parameters", "buffers", "adversary"):  # in place: optimiser and network hold on to them
                for name, value in getattr(self, kind).items():
                    value.copy_(tensors[f"{kind}/{name}"])
        self.memory, self.best, self.last = (group(tensors, kind) for kind in ("memory", "best", "last"))
        self.densities, self.held_out_densities = (
            tuple(numbered[str(place)] for place in range(len(numbered)))
            for numbered in (group(tensors, "densities"), group(tensors, "held_out_densities"))
        )
        for name in NUMBERS:
            setattr(self, name, tensors[name])
        self.history = {name: list(values) for name, values in group(tensors, "history").items()}
        state = self.optimiser.state_dict()
        state["state"] = {}
        for name, value in group(tensors, "optimiser").items():
            place, _, what = name.partition("/")
            state["state"].setdefault(int(place), {})[what] = value
        self.optimiser.load_state_dict(state)

    # --- one step ---------------------------------------------------------------------------------------------------
    def _take_step(self, gradient: Callable[..., tuple[Named, Named, Parts]]) -> None:
        """Ratios and optimiser made anew where that is due, then one update of all parameters."""
        if self._new_ratios_are_due():
            self.densities, self.held_out_densities = self.supply.densities(self.parameters)
        if self.settings.schedule.restarts_at(self.step):
            self.optimiser = self._new_optimiser()
        if self._draws_by_itself:
            torch.default_generator.manual_seed(mixed(self.supply.seeds[0], self.step))
        weight = self.settings.schedule.weight(self.step, self.full_weight)
        material = self.supply.at(self.step, self.densities)
        own, against, parts = gradient(self.parameters, self.adversary, self.memory, weight, material)
        self._update(own, against)
        self.memory, self.step = parts.memory, self.step + 1
        self.last = {"loss": parts.loss, "risk": parts.risk, "penalty": parts.penalty}

    @property
    def _draws_by_itself(self) -> bool:
        """Whether layers of the network (dropout, say) draw from torch's own generator."""
        return not self.supply.lifted and self.program.network.draws_by_itself

    def _update(self, own: Named, against: Named) -> None:
        for name, parameter in self.parameters.items():
            parameter.grad = None if self._rests(name) else own[name]
        for name, parameter in self.adversary.items():
            parameter.grad = against[name]
        self.optimiser.step()

    def _rests(self, name: str) -> bool:
        """Alternating updates: the representation at even steps, the head at odd ones."""
        if not self.parameters[name].requires_grad:  # frozen by whoever made the network
            return True
        if not self.program.objective.alternates or not any(one.startswith("head.") for one in self.parameters):
            return False
        return name.startswith("head.") == (self.step % 2 == 0)

    def _look(self) -> None:
        """Write down where training is, and judge the parameters by the held-out rows."""
        if not self.supply.lifted and not torch.isfinite(self.last["loss"]):
            raise InputError(f"training diverged at step {self.step}: {self.calmer}")
        seen = {"step": torch.tensor(self.step), **self.last}
        if self.supply.held_out is not None:
            judged = self.step >= self.settings.schedule.full_from
            seen["held_out"] = self._judge() if judged else torch.full_like(self.best_value, torch.nan)
        for name, number in seen.items():
            self.history.setdefault(name, []).append(number)

    def _judge(self) -> Tensor:
        """Keep the parameters of those models whose held-out rows gained; the others have waited once more."""
        material = self.supply.held_out_material(self.held_out_densities)
        dims = self.supply.held_out_dims if self.supply.lifted else None
        value = self.program.judgement(self.parameters, self.adversary, self.memory, self.full_weight, material, dims)
        waits = self.waited < self.settings.patience  # the others have stopped
        gained = (value < self.best_value) & waits
        self.waited = torch.where(gained, 0, self.waited + waits.long())
        self.best_value = torch.where(gained, value, self.best_value)
        self.best_step = torch.where(gained, self.step, self.best_step)
        for name, now in self._weights().items():
            mask = gained.reshape(gained.shape + (1,) * (now.ndim - gained.ndim))
            self.best[name] = torch.where(mask, now.detach(), self.best[name])
        return value

    def _new_ratios_are_due(self) -> bool:
        objective = self.program.objective
        if not isinstance(objective, RatioObjective):
            return False
        return not self.densities or (objective.ratio_on == "z" and self.step % objective.refresh == 0)

    def _weights(self) -> Named:
        """What the network consists of: parameters, and the running statistics of its layers."""
        return {**self.parameters, **self.buffers}

    def _new_optimiser(self) -> torch.optim.Optimizer:
        trained = [*self.parameters.values(), *self.adversary.values()]
        if self.settings.optimiser == "adam":
            return torch.optim.Adam(trained, lr=self.settings.learning_rate)
        return torch.optim.SGD(trained, lr=self.settings.learning_rate, momentum=self.settings.momentum)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """One thread where a step is so small that several would mostly wait for each other."""
        rows = sum(min(size, self.settings.batch_size or size) for size in self.supply.rows.sizes)
        work = rows * sum(value.numel() for value in self.parameters.values())
        before = torch.get_num_threads()
        torch.set_num_threads(1 if work < SMALL_STEP else before)
        try:
            yield
        finally:
            torch.set_num_threads(before)
