"""What a .skops archive says of itself, looked at before anything in it is read.

The reader believes it: a few bytes can ask for any amount of memory, or of time.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from invariscope.models.fitted_arrays import TamperedError

DESCRIPTION = "schema.json"
TREE = "TreeNode"  # what makes the trees of scikit-learn
#: Nodes that the reader may visit for one that is written, and those that take no time: it visits again what is shared.
MOST_VISITS, FEW_VISITS = 100, 1_000_000
#: Words of a random number generator's seed: mixing them takes the square of their number, and numpy's own has 4.
SEED_WORDS = 64
#: Compiled code that is given a tuple and takes so many parts of it without asking whether they are there.
STATES = {"sklearn.metrics._dist_metrics": 3, "sklearn.neighbors._ball_tree": 13, "sklearn.neighbors._kd_tree": 13}
OF_FUNCTION = 5  # parts of a distance that a function computes


def unpacked_size(archive: zipfile.ZipFile) -> int:
    """Bytes that all members take: each as often as the description asks for it, archives among them unpacked.

    Raises
    ------
    TamperedError : a member is there twice, or an array or the description says what cannot be
    """
    _refuse_doubles(archive)
    sizes = {part.filename: part.file_size for part in archive.infolist()}
    if DESCRIPTION not in sizes:
        return sum(sizes.values())
    description = json.loads(archive.read(DESCRIPTION))
    nodes = list(_nodes(description))
    _refuse_visits(description, len(nodes))
    _refuse_kinds(nodes)
    stored = [node for node in nodes if node.get("file") in sizes]  # what is not there, the reader says
    if any(node["__loader__"] == TREE for node in nodes):
        _refuse_numbers(stored, archive)
    counts = Counter(node["file"] for node in stored)
    return sum(sizes.values()) + sum(
        count * (sizes[name] + _inner_size(name, archive)) for name, count in counts.items()
    )


def _refuse_doubles(archive: zipfile.ZipFile) -> None:
    doubles = [name for name, count in Counter(archive.namelist()).items() if count > 1]
    if doubles:
        raise TamperedError(f"it holds {doubles[0]} twice")


def _inner_size(name: str, archive: zipfile.ZipFile) -> int:
    """What an array or a sparse matrix takes beside its bytes; the heads of arrays are checked on the way."""
    with archive.open(name) as member:
        if name.endswith(".npy"):
            _check_head(name, member, archive.getinfo(name).file_size)
        if not name.endswith(".npz"):
            return 0
        with zipfile.ZipFile(io.BytesIO(member.read())) as inner:
            _refuse_doubles(inner)
            for part in inner.infolist():
                with inner.open(part) as array:
                    _check_head(f"{name}/{part.filename}", array, part.file_size)
            return sum(part.file_size for part in inner.infolist())


def _refuse_numbers(stored: list[dict[str, Any]], archive: zipfile.ZipFile) -> None:
    """A tree asks how many nodes there are before it asks whether they are a row of them; a number has no length."""
    for name in {node["file"] for node in stored if node.get("__class__") == "ndarray"}:
        with archive.open(name) as member:
            if name.endswith(".npy") and not _check_head(name, member, archive.getinfo(name).file_size):
                raise TamperedError(f"{name} is a number, where a tree takes arrays")


def _check_head(name: str, member: Any, size: int) -> tuple[int, ...]:
    """An array is as long as its head says: one of values that take no room would have any length."""
    version = np.lib.format.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise TamperedError(f"{name} is an array of version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read(member)
    length = math.prod(shape)
    if kind.hasobject or min(shape, default=1) < 0 or (kind.itemsize == 0 and length):
        raise TamperedError(f"{name} is an array of {length:,} values of type {kind}")
    if member.tell() + length * kind.itemsize != size:
        raise TamperedError(f"{name} has {size - member.tell():,} bytes for {length:,} values of {kind.itemsize}")
    return tuple(shape)


# --- the description --------------------------------------------------------------------------------------------------
def _nodes(description: Any) -> Iterator[dict[str, Any]]:
    waiting = [description]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _refuse_visits(description: Any, written: int) -> None:
    """Lists that hold each other twice, forty deep, are few bytes and a million million visits."""
    known: dict[Any, int] = {}

    def visits(part: Any) -> int:
        if isinstance(part, list):
            return sum(map(visits, part))
        if not isinstance(part, dict):
            return 0
        number = part.get("__id__")
        if number is not None and number in known:
            return known[number]
        known[number] = 0  # under way: what refers back to it is not visited again
        known[number] = 1 + sum(map(visits, part.values()))
        return known[number]

    count = visits(description)
    if count > max(FEW_VISITS, MOST_VISITS * written):
        raise TamperedError(f"its {written:,} parts hold each other {count:.0e} times")


def _refuse_kinds(nodes: list[dict[str, Any]]) -> None:
    """What the reader makes as large, takes as long over, or looks as far into as the file says."""
    by_number: dict[Any, list[dict[str, Any]]] = {}  # another node of its number may stand for a node
    for node in nodes:
        by_number.setdefault(node.get("__id__"), []).append(node)
        if (node.get("__module__"), node.get("__class__")) == ("numpy", "void"):
            raise TamperedError("it holds a numpy.void, which no fitted model has")
    for node in nodes:
        content = node.get("content")
        if not isinstance(content, dict):
            continue
        words = content.get("pool_size")
        if isinstance(words, dict) and words.get("__loader__"):
            for seed in (words, *by_number[words.get("__id__")]):
                size = json.loads(seed["content"])
                if not isinstance(size, int) or size > SEED_WORDS:
                    raise TamperedError(f"a random number generator has a seed of {size} words")
        if node.get("__module__") in STATES:
            for state in (content, *by_number.get(content.get("__id__"), ())):
                _refuse_other_state(str(node.get("__class__")), STATES[node["__module__"]], state)


def _refuse_other_state(kind: str, parts: int, state: dict[str, Any]) -> None:
    parts = OF_FUNCTION if kind.startswith("PyFunc") else parts
    if state.get("__loader__") != "TupleNode" or len(state["content"]) != parts:
        raise TamperedError(f"a {kind} is not made of {parts} parts")
