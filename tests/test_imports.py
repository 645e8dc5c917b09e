"""What `import invariscope` may cost, and what it brings along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SOURCE / "invariscope"

HEAVY = {
    "torch", "pandas", "altair", "pyarrow", "sklearn", "click", "rich", "vl_convert", "skops", "platformdirs", "joblib",
    "onnx", "onnxruntime", "safetensors", "dask", "polars", "scipy.stats", "scipy.optimize",
}  # fmt: skip
PROBE = """
import json, sys, time
start = time.process_time()  # of work: on a busy machine others take their time
import invariscope
seconds = time.process_time() - start
print(json.dumps([seconds, sorted(sys.modules), invariscope.__file__]))
"""


@dataclass(frozen=True)
class FreshImport:
    seconds: float
    modules: frozenset[str]


@pytest.fixture(scope="module")
def fresh_imports() -> list[FreshImport]:
    """`import invariscope` in three fresh interpreters, warnings being errors."""
    runs = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROBE],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seconds, modules, file = json.loads(done.stdout)
        assert file == str(PACKAGE / "__init__.py")
        runs.append(FreshImport(seconds, frozenset(modules)))
    return runs


def test_import_is_light(fresh_imports: list[FreshImport]) -> None:
    assert sorted(HEAVY & fresh_imports[0].modules) == []


def test_import_takes_less_than_a_second(fresh_imports: list[FreshImport]) -> None:
    assert min(run.seconds for run in fresh_imports) < 1.0


def test_estimators_are_imported_and_made_without_torch() -> None:
    """torch is an extra: who has it not can still read about the estimators, clone them and set their parameters."""
    script = "import sys, invariscope as iv; iv.InvariantRegressor(hidden=(8,)), iv.InvariantClassifier('irm')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{script}; print(sorted({{'torch', 'sklearn'}} & set(sys.modules)))"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['sklearn']"


AUDIT_OF_A_TABLE = """
import sys
from invariscope.cli import main
try:
    main(["audit", "rows.csv", "--target", "{target}", "--env", "site", "--drop", "{other}", "--n-boot", "99"])
except SystemExit as done:
    assert done.code == 0
print(sorted({{"ot", "torch"}} & set(sys.modules)))
"""


@pytest.mark.parametrize("target", ["days", "grade", "grade weighted by days"])
def test_an_audit_of_a_table_brings_neither_torch_nor_a_library_of_transport(target: str, tmp_path: Path) -> None:
    """They take two seconds and 300 MB, more than the audit itself."""
    kind = np.arange(240) % (2 if "weighted" in target else 3)  # scores of three classes differ in two directions
    x, z = np.random.default_rng(0).normal(size=(2, 240)) + np.stack([kind, kind == 1])
    lines = [f"{x[i]:.3f},{z[i]:.3f},{'ns'[i % 7 < 3]},{1 + i % 5},{'uvw'[kind[i]]}" for i in range(240)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,z,site,days,grade", *lines]))
    script = AUDIT_OF_A_TABLE.format(target=target.split()[0], other="grade" if target == "days" else "days")
    if "weighted" in target:
        script = script.replace('"--drop", "days"', '"--weight", "days"')
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Worst case: " in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
