"""The front door of the data sets: every name is there, and nothing heavy comes with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from invariscope import datasets

PROBE = """
import json, sys
import invariscope.datasets as datasets
light = sorted(sys.modules)
datasets.linear_sem("FEU", n=2)
print(json.dumps([light, sorted(sys.modules)]))
"""


def test_import_brings_nothing_heavy() -> None:
    source = str(Path(datasets.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, env=environment)
    at_import, after_synthetic = (set(names) for names in json.loads(done.stdout))
    assert not at_import & {"pandas", "sklearn", "platformdirs", "torch", "invariscope.datasets.synthetic"}
    assert "invariscope.datasets.synthetic" in after_synthetic
    assert not after_synthetic & {"pandas", "sklearn", "platformdirs", "torch"}


def test_every_name_is_there_and_listed() -> None:
    assert set(datasets.__all__) == {"Dataset", *datasets._MODULE_OF}
    assert datasets.__all__ == sorted(datasets.__all__)
    assert set(datasets.__all__) <= set(dir(datasets))
    for name in datasets.__all__:
        assert getattr(datasets, name).__name__ == name


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bike_shering'"):
        datasets.bike_shering  # noqa: B018
