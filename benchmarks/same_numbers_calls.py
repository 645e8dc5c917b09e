"""Direct calls of criteria, density ratios, penalties and training, for :mod:`same_numbers`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from same_numbers_audits import OUTPUTS, TASKS, Add, World, network, world
from sklearn.linear_model import Lasso, LogisticRegression
from torch import Tensor

DRAWS = {"n_boot": 99}
WEIGHTED = (("", False), (" weighted", True))
CLASS_LOSSES = ("log_loss", "hinge", "zero_one")
RATIOS = ("logistic", "gaussian", "mlp", "forest", "boosting", "ulsif", "rulsif", "kliep", "kmm")
OBJECTIVES = (
    *("erm", "irm", "vrex", "group_dro", "invrat", "mixup", "lisa", "mmd", "coral", "dann", "cdann", "ib_erm"),
    *("ib_irm", "wasserstein_matching", "g2dm", "dric", "transport_gap", "regret", "worst_case"),
)
Worlds = dict[str, World]


def cases(iv: Any) -> dict[str, Callable[[], Any]]:
    """All calls by name, ready to be made."""
    found: dict[str, Callable[[], Any]] = {}

    def add(name: str, function: Callable[..., Any], *given: Any, **options: Any) -> None:
        if name in found:
            raise ValueError(f"two cases are called {name}")
        found[name] = partial(function, *given, **options)

    worlds = {task: world(task) for task in TASKS}
    for part in (_regret, _influence, _worst_case, _transport_gap, _dric, _predictions, _ratios, _penalties, _training):
        part(add, iv, worlds)
    return found


def _weight(rows: World, weighted: bool) -> dict[str, Any]:
    return {"weight": rows.weight} if weighted else {}


def _heads(iv: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {task: iv.LinearHead(rng.normal(size=(count, 4)), np.zeros(count)) for task, count in OUTPUTS.items()}


def _log_densities(X: Any) -> Any:
    """The true ones of the three environments of a world, up to a common term."""
    return -0.5 * (X[:, [1]] - 0.3 * np.arange(3)) ** 2


# --- criteria ---------------------------------------------------------------------------------------------------------
def _regret(add: Add, iv: Any, worlds: Worlds) -> None:
    for (task, rows), (word, weighted) in product(worlds.items(), WEIGHTED):
        add(f"regret/{task}{word}", iv.regret, *rows.rows, **DRAWS, **_weight(rows, weighted))
    numbers, two, three = worlds.values()
    add("regret/folds and seed", iv.regret, *numbers.rows, folds=3, seed=4, n_boot=499)
    add("regret/whole numbers as numbers", iv.regret, *three.rows, task="regression", **DRAWS)
    add("regret/five environments", iv.regret, *world("binary", (80, 60, 90, 70, 100), seed=1).rows, **DRAWS)
    add("regret/Environments", lambda: iv.regret(iv.Environments(*two.rows, two.weight), **DRAWS))
    add("regret/table", iv.regret, *two.table, **DRAWS)
    add("regret/float32", iv.regret, numbers.X.astype(np.float32), numbers.y, numbers.env, **DRAWS)
    add("regret/dependent columns", iv.regret, np.column_stack([two.X, two.X.sum(axis=1)]), two.y, two.env, **DRAWS)
    add("regret/perfect", iv.regret, numbers.X, numbers.X[:, 0] * 2.0, numbers.env, **DRAWS)
    add("regret/many rows", iv.regret, *world("regression", (2000, 3000), seed=2).rows)
    add("regret/refused one environment", iv.regret, two.X, two.y, np.zeros(len(two.y)))
    add("regret/refused few rows", iv.regret, two.X[:20], numbers.y[:20], two.env[:20])
    add("regret/refused missing values", iv.regret, np.full_like(two.X, np.nan), two.y, two.env)
    add("regret/refused no target", iv.regret, two.X, None, two.env)


def _influence(add: Add, iv: Any, worlds: Worlds) -> None:
    index = partial(iv.influence_index, n_boot=29)
    for (task, rows), (word, weighted), exact in product(worlds.items(), WEIGHTED, (False, True)):
        given = {"exact": exact, **_weight(rows, weighted)}
        add(f"influence_index/{task}{word}{' exact' * exact}", index, *rows.rows, **given)
    for (task, rows), penalty in product(worlds.items(), ("irm", "irm_split", "vrex")):
        given = {"penalty": penalty, "penalty_weight": 3.0}
        add(f"influence_index/{task} {penalty}", index, *rows.rows, **given)
        add(f"influence_index/{task} {penalty} exact", index, *rows.rows, exact=True, weight=rows.weight, **given)
    heads = _heads(iv)
    for task, rows in worlds.items():
        module, layer = network(OUTPUTS[task], hidden=3), network(OUTPUTS[task], hidden=4)[2]
        add(f"influence_index/{task} head", index, *rows.rows, head=heads[task])
        add(f"influence_index/{task} nn.Linear", index, *rows.rows, head=layer)
        add(f"influence_index/{task} module", index, *rows.rows, head=module)
        add(f"influence_index/{task} cg", index, *rows.rows, head=module, solver="cg", damping=2.0)
    numbers, two, three = worlds.values()
    several = np.column_stack([numbers.y, np.tanh(numbers.y)])
    add("influence_index/module vrex", index, *two.rows, head=network(1), penalty="vrex", penalty_weight=1.0)
    add("influence_index/damping", index, *numbers.rows, damping=0.3, seed=2)
    add("influence_index/kronecker", index, *three.rows, solver="kronecker")
    add("influence_index/kronecker exact", index, *three.rows, solver="kronecker", exact=True)
    add("influence_index/squared", index, *two.rows, task="regression")
    add("influence_index/log_loss", index, *two.rows, task="classification")
    add("influence_index/log_loss classes", index, *three.rows, task="classification")
    add("influence_index/several targets", index, numbers.X, several, numbers.env)
    add("influence_index/years", index, numbers.X + 2000, numbers.y, numbers.env)
    add("influence_index/loadings", lambda: _loadings(index(*numbers.table)))
    add("influence_index/refused solver", index, *two.rows, solver="newton")


def _loadings(found: Any) -> dict[str, Any]:
    return {"top": list(found.loadings(2)), "loadings": found.loadings(), "of a": found.influence_of("a")}


def _worst_case(add: Add, iv: Any, worlds: Worlds) -> None:
    curve, heads = iv.worst_case, _heads(iv)
    losses = {task: ("squared",) if task == "regression" else CLASS_LOSSES for task in TASKS}
    for (task, rows), (word, weighted) in product(worlds.items(), WEIGHTED):
        for loss in losses[task]:
            given = {"env": rows.env, "loss": loss, **DRAWS, **_weight(rows, weighted)}
            add(f"worst_case/{task} {loss}{word}", curve, heads[task], rows.X, rows.y, **given)
    for task, rows in worlds.items():
        searched = partial(curve, network(OUTPUTS[task]), rows.X[:60], rows.y[:60], radii=[0.0, 0.2, 0.6], n_boot=0)
        for loss in losses[task][:2]:
            add(f"worst_case/{task} module {loss}", searched, loss=loss)
    numbers, two, three = worlds.values()
    linear, text, none = network(2, hidden=4)[2], two.labels("no", "yes"), {"n_boot": 0}
    constant = iv.LinearHead(np.zeros((1, 4)), 0.3)
    of_two, of_three = partial(curve, heads["binary"]), partial(curve, heads["multiclass"])
    add("worst_case/auto", of_two, two.X, two.y, **DRAWS)
    add("worst_case/auto classes", of_three, three.X, three.y, **none)
    add("worst_case/several losses", of_three, three.X, three.y, loss=list(CLASS_LOSSES), env=three.env)
    add("worst_case/relative", of_two, two.X, two.y, radii=[0.25, 0.5, 2.0], relative=True, **none)
    add("worst_case/radii", curve, heads["regression"], numbers.X, numbers.y, radii=np.linspace(0, 3, 7), seed=1)
    add("worst_case/labels", of_two, two.X, text, env=two.env, **none)
    add("worst_case/classes", of_two, two.X, text, classes=["yes", "no"], **none)
    add("worst_case/nn.Linear", curve, linear, two.X, two.y, **none)
    add("worst_case/vector", curve, linear, numbers.X, numbers.X[:, :2] + 1.0, loss="squared", **none)
    add("worst_case/constant head", curve, constant, two.X, two.y, **none)
    add("worst_case/Environments", lambda: of_two(iv.Environments(*two.rows, two.weight), **DRAWS))
    add("worst_case/module environments", curve, network(3), three.X[:50], three.y[:50], env=three.env[:50], **none)
    add("worst_case/refused loss", of_two, two.X, two.y, loss="cubic")
    add("worst_case/refused draws", of_two, two.X, two.y, n_boot=7)
    for task, loss in (("regression", "auto"), ("binary", "log_loss"), ("multiclass", "auto"), ("multiclass", "hinge")):
        kind = {"multiclass": None, "binary": "classification"}.get(task, task)
        add(f"worst_case_in_inputs/{task} {loss}", _in_inputs, iv, network(OUTPUTS[task]), kind, worlds[task], loss)
    add("worst_case_in_inputs/refused", _in_inputs, iv, Lasso().fit(numbers.X, numbers.y), None, numbers, "auto")


def _in_inputs(iv: Any, model: Any, task: str | None, rows: World, loss: str) -> Any:
    return iv.worst_case_in_inputs(iv.split(model, task=task), rows.X, rows.y, loss=loss, rows=15, **DRAWS)


def _transport_gap(add: Add, iv: Any, worlds: Worlds) -> None:
    gap = partial(iv.transport_gap, **DRAWS)
    for (task, rows), (word, weighted) in product(worlds.items(), WEIGHTED):
        add(f"transport_gap/{task}{word}", gap, *rows.rows, **_weight(rows, weighted))
    numbers, two, three = worlds.values()
    for ratio in ("gaussian", "ulsif", "boosting", "kmm"):
        add(f"transport_gap/ratio {ratio}", gap, *two.rows, ratio=ratio)
    add("transport_gap/ratio known", gap, *numbers.rows, ratio=_log_densities)
    add("transport_gap/ratio fitted", lambda: gap(*numbers.rows, ratio=iv.density_ratio(numbers.X, numbers.env)))
    add("transport_gap/ratio classifier", gap, *numbers.rows, ratio=LogisticRegression(C=0.5))
    add("transport_gap/predictions", gap, *three.rows, predictions=three.f, folds=3, seed=1)
    add("transport_gap/apart", gap, *world("regression", apart=4.0).rows)
    add("transport_gap/refused folds", gap, *two.rows, folds=1)


def _dric(add: Add, iv: Any, worlds: Worlds) -> None:
    for (task, rows), (word, weighted) in product(worlds.items(), WEIGHTED):
        given = {"baseline": 0.5 * rows.f + 0.5 / max(OUTPUTS[task], 2), **_weight(rows, weighted)}
        add(f"dric/{task}{word}", iv.dric, rows.f, rows.X, rows.env, n_boot=19, **given)
        add(f"dric/{task} bound{word}", iv.dric, rows.f, rows.X, rows.env, n_boot=0, y=rows.y, **given)
    numbers, two, three = worlds.values()
    base = partial(iv.dric, numbers.f, numbers.X, numbers.env, baseline=np.tanh(numbers.f))
    by_number = np.array([1.0, 2.0, 4.0])[np.searchsorted(["a", "b", "c"], numbers.env)]
    for ratio in RATIOS[1:]:
        add(f"dric/ratio {ratio}", base, ratio=ratio)
    add("dric/auto", base)
    add("dric/draws", base, n_boot=29, seed=5)
    add("dric/svd", base, svd=2, n_boot=19)
    add("dric/representation", base, representation=np.tanh(numbers.X[:, :2]), n_boot=19)
    add("dric/pair of ratios", base, representation=numbers.X[:, :2], ratio=("gaussian", "logistic"), n_boot=0)
    add("dric/ratio known", base, ratio=_log_densities, n_boot=19)
    add("dric/ratio fitted", lambda: base(ratio=iv.density_ratio(numbers.X, numbers.env), n_boot=0))
    add("dric/numbered environments", iv.dric, two.f, two.X, by_number, baseline=two.f**2, y=two.y, n_boot=0)
    add("dric/table", lambda: _dric_tables(base(n_boot=0)))
    add("dric/refused draws", base, n_boot=3)
    add("dric/refused shapes", iv.dric, two.f, two.X, two.env, baseline=three.f)


def _dric_tables(found: Any) -> dict[str, Any]:
    numbers = {"table": found.table(), "needed": found.rows_needed(0.1), "combined": found.combined(1.0, 0.5)}
    return numbers | {"words": found.sample_size(0.2)}


def _predictions(add: Add, iv: Any, worlds: Worlds) -> None:
    for (task, rows), (word, weighted) in product(worlds.items(), WEIGHTED):
        given, weight = (rows.f, rows.y, rows.env), _weight(rows, weighted)
        for loss in ("auto", "squared", "absolute") if task == "regression" else ("auto", "log_loss", "zero_one"):
            add(f"risk_variance/{task} {loss}{word}", iv.risk_variance, *given, loss=loss, **weight)
            add(f"worst_environment_risk/{task} {loss}{word}", iv.worst_environment_risk, *given, loss=loss, **weight)
        for form in ("square", "split"):
            add(f"irm_penalty/{task} {form}{word}", iv.irm_penalty, *given, form=form, **weight)
        for bins in (5, 15):
            add(f"calibration_variance/{task} {bins} bins{word}", iv.calibration_variance, *given, bins=bins, **weight)
    two = worlds["binary"]
    add("risk_variance/two columns", iv.risk_variance, np.column_stack([1 - two.f, two.f]), two.y, two.env)
    add("risk_variance/refused loss", iv.risk_variance, two.f, two.y, two.env, loss="squared")
    add("calibration_variance/refused range", iv.calibration_variance, 3 * two.f, two.y, two.env)


def _ratios(add: Add, iv: Any, worlds: Worlds) -> None:
    grid = np.random.default_rng(9).normal(size=(12, 4))

    def ratio(rows: World, **options: Any) -> dict[str, Any]:
        found = iv.density_ratio(rows.X, rows.env, **options)
        return {"ratio": found, "log": found.log(grid, "b", "a"), "densities": found.log_densities(grid)}

    numbers, small = worlds["regression"], world(sizes=(60, 80))
    for name in RATIOS:
        add(f"density_ratio/{name}", ratio, small, ratio=name)
    for name in ("logistic", "gaussian", "ulsif", "kliep"):
        add(f"density_ratio/{name} weighted", ratio, numbers, ratio=name, weight=numbers.weight)
        add(f"density_ratio/{name} folds", ratio, numbers, ratio=name, folds=3, seed=2)
    add("density_ratio/default", ratio, numbers)
    add("density_ratio/classifier", ratio, numbers, ratio=LogisticRegression(C=0.1))
    add("density_ratio/svd", ratio, numbers, svd=2)
    add("density_ratio/apart", ratio, world(apart=3.0))
    add("density_ratio/refused", ratio, numbers, ratio="magic")


# --- penalties and training -------------------------------------------------------------------------------------------
def _batch(task: str) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
    """Logits, targets, features and log densities of three environments."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    batch: tuple[list[Tensor], ...] = ([], [], [], [])
    for place, rows in enumerate((24, 30, 27)):
        codes = torch.arange(rows) % 3
        targets = {"regression": draw(rows), "binary": (codes > 0).long(), "multiclass": codes}[task]
        parts = (draw(rows, OUTPUTS[task]), targets, draw(rows, 3) + 0.4 * place, draw(rows, 3))
        for values, part in zip(batch, parts, strict=True):
            values.append(part)
    return batch  # type: ignore[return-value]


def _with_gradients(penalty: Callable[..., Any], task: str, options: dict[str, Any]) -> dict[str, Any]:
    logits, targets, features, densities = _batch(task)
    leaves = [value.requires_grad_() for value in (*logits, *features)]
    on_call = {"log_densities": densities, "own_logits": [0.5 * value.detach() for value in logits]}
    options = {name: on_call[name] if value is None else value for name, value in options.items()}
    found = penalty(logits, targets, features, task=task, **options)
    value, *rest = found if isinstance(found, tuple) else (found,)
    gradients = torch.autograd.grad(value, leaves, allow_unused=True)
    return {"value": value, "rest": rest, "gradients": list(gradients)}


def _penalties(add: Add, iv: Any, worlds: Worlds) -> None:
    own = iv.torch
    for task, outputs in OUTPUTS.items():
        for name, *choices in (
            ("irm_penalty", {"form": "square"}, {"form": "split"}),
            ("group_dro_risk", {"rate": 0.5}),
            ("invrat_penalty", {"own_logits": None}),
            ("dric_penalty", {"log_densities": None, "denominator": 2.0}),
            ("transport_gap_penalty", {"log_densities": None}, {"log_densities": None, "debias": False}),
            ("regret_penalty", {"ridge": 0.01}),
            ("wasserstein_matching_penalty", {}, {"conditional": False, "iterations": 20}),
            *((name, {}) for name in ("vrex_penalty", "mmd_penalty", "coral_penalty", "bottleneck_penalty")),
            ("dann_penalty", {"discriminator": network(3, 3)}),
            ("cdann_penalty", {"discriminator": network(3, 3 + outputs)}),
            ("g2dm_penalty", {"discriminators": network(3, 3)}),
            (
                "worst_case_penalty",
                {"head": network(outputs, 3, 4)},
                {"head": network(outputs, 4, 3)[2]},
            ),
        ):
            for number, options in enumerate(choices):
                add(f"torch/{name} {task} {number}", _with_gradients, getattr(own, name), task, options)
        for name in ("mixup", "lisa"):
            add(f"torch/{name} {task}", _mixed, getattr(own, name), task)
    arrays = [worlds["regression"].X[:40], worlds["regression"].X[40:90] + 0.2]
    add("torch/log_densities_of", own.log_densities_of, arrays, ratio="logistic", seed=1)
    add("torch/discriminator_risk", lambda: own.discriminator_risk(_batch("binary")[2], network(3, 3)))


def _mixed(mix: Callable[..., Any], task: str) -> Any:
    _, targets, features, _ = _batch(task)
    classes = {"classes": 3} if task == "multiclass" else {}
    return mix(features, targets, generator=torch.Generator().manual_seed(2), **classes)


def _training(add: Add, iv: Any, worlds: Worlds) -> None:
    numbers, two, three = worlds.values()
    few = {"steps": 25, "learning_rate": 0.03}
    regressor, classifier = partial(iv.InvariantRegressor, **few), partial(iv.InvariantClassifier, **few)
    for name in OBJECTIVES:
        add(f"fit/regressor {name}", _fitted, regressor(name, hidden=(4,)), numbers)
        add(f"fit/classifier {name}", _fitted, classifier(name, batch_size=32), two)
    for name in ("auto", "irm", "worst_case", "regret"):
        add(f"fit/three classes {name}", _fitted, classifier(name, hidden=(4,)), three)
    held_out = {"held_out": 0.3, "patience": 2, "dropout": 0.2, "hidden": (5, 4), "wait": 5, "ramp": 10}
    add("fit/held out", _fitted, regressor("vrex", weight_decay=0.01, random_state=3, **held_out), numbers)
    add("fit/options", _fitted, classifier("irm", options={"form": "split"}, precision="float32"), two)
    add("fit/ratio", _fitted, regressor("transport_gap", options={"ratio": "gaussian", "on": "x"}), numbers)
    add("fit/own network", _fitted, regressor("coral", network=network(1), standardise=False), numbers)
    add("fit/refused", _fitted, regressor("magic"), numbers)
    for name in ("vrex", "transport_gap", "dann"):
        add(f"training/train {name}", _trained, iv, numbers, name)
        add(f"training/train_replicates {name}", _replicated, iv, numbers, name)
    add("LeaveOneEnvironmentOut", lambda: list(iv.LeaveOneEnvironmentOut().split(two.X, two.y, groups=two.env)))


def _fitted(model: Any, rows: World) -> dict[str, Any]:
    model.fit(*rows.rows)
    predict = getattr(model, "predict_proba", model.predict)
    parts = {"predictions": predict(rows.X[:20]), "representation": model.represent(rows.X[:5])}
    return parts | {"weights": model.weights_, "history": model.history_, "kept": model.kept_step_}


def _settings(iv: Any) -> Any:
    return iv.training.Settings(steps=20, schedule=iv.training.Schedule(wait=5, ramp=5, restart=True))


def _trained(iv: Any, rows: World, name: str) -> dict[str, Any]:
    given = iv.training.Rows.of(*rows.rows)
    found = iv.training.train(network(1), given, name, settings=_settings(iv), seed=1)
    return {"history": found.history, "weights": found.network.state_dict(), "outputs": found(rows.X[:5])}


def _replicated(iv: Any, rows: World, name: str) -> dict[str, Any]:
    given, many = iv.training.Rows.of(*rows.rows), {"seeds": (0, 1), "weights": (0.0, 1.0, 10.0)}
    build = partial(network, 1, hidden=3)
    found = iv.training.train_replicates(build, given, name, settings=_settings(iv), **many)
    return {"history": found.history, "weights": found.parameters, "outputs": found(rows.X[:5])}
