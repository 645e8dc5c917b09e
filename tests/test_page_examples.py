"""The Python examples of README and pages run as they stand, given the data, models and files a reader would have."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import invariscope as iv

ROOT = Path(__file__).resolve().parents[1]
#: Pages whose examples need nothing; those of extending.md are performed by test_extending.
WHOLE = ("invariant_learning",)
N = 120


class Network(nn.Module):
    """Images, or rows of numbers, → three classes."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 5), nn.ReLU())
        self.fc = nn.Linear(5, 3)

    @property
    def head(self) -> nn.Module:
        return self.fc

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x.float()))

    def predict_proba(self, x: torch.Tensor) -> torch.Tensor:
        return self(x).softmax(dim=1)


class Reader(nn.Module):
    """Words → three classes, with the inputs and outputs that text models have."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.classifier = nn.Embedding(9, 5), nn.Linear(5, 3)

    def forward(self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None) -> SimpleNamespace:
        return SimpleNamespace(logits=self.classifier((self.words(input_ids) * attention_mask[..., None]).mean(1)))


class TwoTasks(nn.Module):
    """Images → an age group and a sex."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.age, self.sex = (
            nn.Sequential(nn.Flatten(), nn.Linear(9, 5), nn.ReLU()),
            nn.Linear(5, 3),
            nn.Linear(5, 2),
        )

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.body(x)
        return {"age": self.age(features), "sex": self.sex(features)}


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def presupposed(page: str, seed: int) -> dict[str, Any]:
    """What the examples of a page take for granted: names that a reader has for things of their own."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    X, env = rng.normal(size=(N, 4)), np.repeat(["Bern", "Oslo", "Rome"], N // 3)
    y = np.argmax(X[:, :3] + rng.gumbel(size=(N, 3)), axis=1)
    head = iv.LinearHead(rng.normal(size=(3, 4)), np.zeros(3))
    if page == "density_ratios":
        return {"iv": iv, "X": X, "site": env, "X_new": X[:5]}
    if page == "influence_index":
        model, other = (LogisticRegression(C=C).fit(X, y) for C in (1.0, 0.1))
        heads = {"model_head": head, "other_head": head}
        return {"Z": X, "X": X, "y": y, "env": env, "model": model, "other_model": other, **heads}
    if page == "your_data":
        table = pd.DataFrame(X[:, :3], columns=["age", "chol", "pressure"])
        table.assign(disease=np.where(X[:, 0] + rng.normal(size=N) > 0, "yes", "no"), hospital=env).to_csv("heart.csv")
        return {"iv": iv}
    if page == "worst_case":
        from invariscope.training import Rows

        network, rows = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), Rows.of(X, y, env)
        return {"W": head.weight, "b": head.bias, "Z": X, "X": X, "y": y, "network": network, "rows": rows}
    images = torch.randn(N, 1, 3, 3)
    codes = torch.tensor(np.repeat([0, 1, 2], N // 3))
    loader = DataLoader(TensorDataset(images, torch.tensor(y), codes), batch_size=40, shuffle=True)
    photos, sketches = (TensorDataset(images[rows], torch.tensor(y[rows])) for rows in (slice(60), slice(60, None)))
    metadata = torch.stack([codes, torch.arange(N)], dim=1)
    texts: Any = [
        {"input_ids": i % 5 + torch.arange(4), "attention_mask": torch.ones(4), "labels": y[i], "domain": env[i]}
        for i in range(N)
    ]
    return {
        "iv": iv,
        "network": Network(9),
        "reader": Reader(),
        "two_tasks": TwoTasks(),
        "images": images,
        "y": y,
        "env": env,
        "loader": loader,
        "photos": DataLoader(photos, batch_size=20, shuffle=True),
        "sketches": DataLoader(sketches, batch_size=20, shuffle=True),
        "wilds": DataLoader(TensorDataset(images, torch.tensor(y), metadata), batch_size=40),
        "texts": DataLoader(texts, batch_size=40),
    }


def own_loop(network: Network) -> dict[str, Any]:
    """What stands in a training loop of the reader's own: one tensor per environment."""
    features = [torch.randn(20, 5) for _ in range(3)]
    targets = [torch.randint(0, 3, (20,)) for _ in range(3)]
    logits = [network.fc(rows) for rows in features]
    return {"risk": torch.zeros(()), "logits": logits, "targets": targets, "features": features, "network": network}


@pytest.mark.slow  # networks are trained and audited
@pytest.mark.parametrize(
    "page",
    [page for page in sorted((ROOT / "docs").glob("*.md")) if examples(page) and page.stem != "extending"],
    ids=lambda page: page.stem,
)
def test_examples_run(page: Path, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {} if page.stem in WHOLE else presupposed(page.stem, seed)
    for place, text in enumerate(examples(page)):
        if "loss = risk" in text:
            names |= own_loop(Network(9))
        exec(compile(text, f"{page.name}, example {place + 1}", "exec"), names)


@pytest.mark.slow
def test_the_verdict_in_the_readme_is_the_one_that_is_printed(
    data_file: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_file("bike_sharing/hour.csv").parents[1]))
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    exec(compile(examples(ROOT / "README.md")[0], "README.md, example 1", "exec"), {})
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("NOT INVARIANT.")
    assert printed in " ".join(readme.split())
    assert (tmp_path / "audit.html").exists()
