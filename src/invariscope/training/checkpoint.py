"""A training on disk, to go on with: tensors in a safetensors file, no pickle, written whole or not at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from invariscope.errors import InputError
from invariscope.files import place_of, read_tensors, write_atomically
from invariscope.rows.settings import whole_number

FORMAT = "invariscope training 1"


@dataclass(frozen=True)
class Checkpoint:
    """Where to store a training and after how many steps each time."""

    path: Path
    every: int = 100

    def __post_init__(self) -> None:
        whole_number(self.every, "checkpoint_every", 1)

    def save(self, tensors: Mapping[str, Tensor], step: int, identity: str) -> None:
        """Write the state; an older one is replaced only when the new one is complete."""
        from safetensors.torch import save

        copies = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
        about = {"format": FORMAT, "step": str(step), "training": identity}
        write_atomically(self.path, save(copies, metadata=about))

    def stored(self, identity: str, last_step: int) -> tuple[dict[str, Tensor], int] | None:
        """The state of the training of that identity and the step it has come to; ``None`` if there is none yet."""
        if not self.path.exists():
            place_of(self.path)  # refused before the training, not after the first steps
            return None
        about, tensors = read_tensors(self.path, "pt", "checkpoint")
        if about.get("format") != FORMAT:
            raise InputError(f"{self.path} is not a checkpoint of a training: choose another file")
        if about.get("training") != identity:
            raise InputError(
                f"{self.path} belongs to another training (network, data, objective, settings or seed differ): "
                "delete it or choose another file"
            )
        if int(about["step"]) > last_step:
            raise InputError(
                f"{self.path} has come to step {about['step']} already: ask for at least as many or choose another file"
            )
        return tensors, int(about["step"])


def fingerprint(parts: Iterable[Any], tensors: Iterable[Tensor]) -> str:
    """One text for what must be equal for a training to be the same: how parts print, and numbers bit for bit."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr(part)).encode())  # functions, wherever they lie in memory
    for tensor in tensors:
        digest.update(repr((tuple(tensor.shape), tensor.dtype)).encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()
