"""Files that appear whole or not at all, and tensors by the names they were stored under."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from invariscope.errors import InputError
from invariscope.files import appearing, group, read_tensors


def test_what_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def written(content: str, fails: bool) -> None:
        with appearing(target) as temporary:
            temporary.write_text(content)
            assert target.read_text() == "old"
            if fails:
                raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        written("ne", fails=True)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "old"
    written("new", fails=False)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "new"


def test_groups_are_told_by_their_whole_name() -> None:
    stored = {"best/w": 1, "best_step": 2, "best_step/w": 3, "history/best/w": 4, "best/a/b": 5}
    assert group(stored, "best") == {"w": 1, "a/b": 5}
    assert group(stored, "none") == {}


def test_tensors_come_back_with_their_header(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"weights/w": np.arange(3.0)}, path, metadata={"format": "mine"})
    header, tensors = read_tensors(path, "numpy", "model")
    assert header == {"format": "mine"}
    assert {name: value.tolist() for name, value in tensors.items()} == {"weights/w": [0.0, 1.0, 2.0]}
    save_file({"w": np.zeros(1)}, path)
    assert read_tensors(path, "numpy", "model")[0] == {}


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\xff" * 40])
def test_damaged_tensors_are_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors: not a readable checkpoint \(") as caught:
        read_tensors(path, "numpy", "checkpoint")
    assert "\n" not in str(caught.value)
