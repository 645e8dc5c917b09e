"""A training on disk, to go on with: tensors in a safetensors file, no pickle, written whole or not at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.files import group, read_tensors, write_atomically

if TYPE_CHECKING:
    from invariscope.training.loop import Loop

FORMAT = "invariscope training 1"
NUMBERS = ("best_value", "best_step", "waited")


@dataclass(frozen=True)
class Checkpoint:
    """Where to store a training and after how many steps each time."""

    path: Path
    every: int = 100

    def save(self, loop: Loop) -> None:
        """Write the state; an older one is replaced only when the new one is complete."""
        from safetensors.torch import save

        tensors = {name: value.detach().contiguous().clone() for name, value in _state(loop)}
        about = {"format": FORMAT, "step": str(loop.step), "training": loop.identity}
        write_atomically(self.path, save(tensors, metadata=about))

    def restore(self, loop: Loop) -> bool:
        """Put a stored state into a loop that was made in the same way; False if there is none yet."""
        if not self.path.exists():
            if not self.path.parent.is_dir():
                raise InputError(f'cannot write {self.path}: there is no folder "{self.path.parent}". Create it first.')
            return False
        about, tensors = read_tensors(self.path, "pt", "checkpoint")
        if about.get("format") != FORMAT:
            raise InputError(f"{self.path} is not a checkpoint of a training: choose another file")
        if about.get("training") != loop.identity:
            raise InputError(
                f"{self.path} belongs to another training (network, data, objective, settings or seed differ): "
                "delete it or choose another file"
            )
        if int(about["step"]) > loop.settings.steps:
            raise InputError(
                f"{self.path} has come to step {about['step']} already: ask for at least as many or choose another file"
            )
        _restore(loop, tensors, int(about["step"]))
        return True


def fingerprint(loop: Loop) -> str:
    """What must be equal for a training to be the same: all but the number of steps and the parameters at the start."""
    told = hashlib.sha256()
    settings, network = replace(loop.settings, steps=1), loop.program.network
    for part in (loop.program.objective, network, loop.program.task, settings, loop.supply.seeds):
        told.update(re.sub(r" at 0x[0-9a-f]+", "", repr(part)).encode())  # functions, wherever they lie in memory
    tensors = [value.detach() for value in network.parameters() if not value.requires_grad]
    for rows in (loop.supply.rows, loop.supply.held_out):
        told.update(repr(None if rows is None else rows.labels).encode())
        tensors += () if rows is None else (*rows.inputs, *rows.targets)
    for tensor in tensors:
        told.update(repr((tuple(tensor.shape), tensor.dtype)).encode())
        told.update(tensor.contiguous().numpy().tobytes())
    told.update(loop.full_weight.numpy().tobytes())
    return told.hexdigest()


def _state(loop: Loop) -> Iterator[tuple[str, Tensor]]:
    for kind in ("parameters", "buffers", "adversary", "memory", "best", "last"):
        for name, value in getattr(loop, kind).items():
            yield f"{kind}/{name}", value
    for kind in ("densities", "held_out_densities"):
        for place, value in enumerate(getattr(loop, kind)):
            yield f"{kind}/{place}", value
    for name in NUMBERS:
        yield name, getattr(loop, name)
    for name, values in loop.history.items():
        yield f"history/{name}", torch.stack([torch.as_tensor(value) for value in values])
    for place, numbers in loop.optimiser.state_dict()["state"].items():
        for name, value in numbers.items():
            if value is not None:
                yield f"optimiser/{place}/{name}", torch.as_tensor(value)


def _restore(loop: Loop, tensors: Mapping[str, Tensor], step: int) -> None:
    loop.step = step
    with torch.no_grad():
        for kind in ("parameters", "buffers", "adversary"):  # in place: optimiser and network hold on to them
            for name, value in getattr(loop, kind).items():
                value.copy_(tensors[f"{kind}/{name}"])
    loop.memory = group(tensors, "memory")
    loop.best = group(tensors, "best")
    loop.last = group(tensors, "last")
    loop.densities, loop.held_out_densities = (
        tuple(found[str(place)] for place in range(len(found)))
        for found in (group(tensors, "densities"), group(tensors, "held_out_densities"))
    )
    for name in NUMBERS:
        setattr(loop, name, tensors[name])
    loop.history = {name: list(values) for name, values in group(tensors, "history").items()}
    state = loop.optimiser.state_dict()
    state["state"] = {}
    for name, value in group(tensors, "optimiser").items():
        place, _, what = name.partition("/")
        state["state"].setdefault(int(place), {})[what] = value
    loop.optimiser.load_state_dict(state)
