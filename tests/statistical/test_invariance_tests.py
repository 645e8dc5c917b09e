"""Table 18 of the DRIC paper in a small form: what its columns can tell, and what they cannot."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "invariance_tests.py"


def test_columns_tell_the_network_and_the_target_not_the_training(recwarn: pytest.WarningsRecorder) -> None:
    spec = importlib.util.spec_from_file_location("invariance_tests", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = example
    spec.loader.exec_module(example)
    example.METHODS = {name: example.METHODS[name] for name in ("ERM", "GroupDRO", example.ANOTHER)}
    found = {name: runs[0] for name, runs in example.experiment(1, 20, "FEU", 16, "spread", False, 99, False).items()}
    erm, same_start, other_start = found["ERM"], found["GroupDRO"], found[example.ANOTHER]
    assert erm["DRIC / ERM's"] == 1.0
    assert min(erm["DCA"], same_start["DCA"]) > other_start["DCA"] + 0.1
    assert abs(erm["DCA, own"] - other_start["DCA, own"]) < 0.1
    assert found[example.TARGET]["p"] == 0.01  # y alone has another law in every environment, and no z can mend that
    assert all(one["p"] == 0.01 for one in found.values())
    assert np.isfinite([one["KMaxIC"] for one in found.values()]).all()
