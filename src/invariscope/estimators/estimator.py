"""What the regressor and the classifier share: from rows and environments to weights, and back to a network."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from invariscope.errors import InputError
from invariscope.estimators.given_rows import refuse_magnitudes_of, refuse_unreadable, validated
from invariscope.estimators.leave_one_environment_out import environment_codes
from invariscope.estimators.networks import (
    dtype_of,
    fitted_network,
    head_of,
    image_channels,
    need_torch,
    new_network,
    passes_score_on,
    scores_of,
)
from invariscope.estimators.onnx_export import export
from invariscope.estimators.weight_files import load, store
from invariscope.files import path_of
from invariscope.models.splits import InputSpace, Split
from invariscope.models.trained_with import trained_with
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.labels import unique_labels
from invariscope.rows.settings import shown, switch, whole_number
from invariscope.rows.tables import plain

if TYPE_CHECKING:
    from invariscope.models.torch_networks import Halves
    from invariscope.objectives import Objective


TOGETHER = "together"  # all columns in units of one spread
ROWS_AT_ONCE = 4096  # hidden images are large: a hundred thousand of them at a time would not fit into memory


class InvariantEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Rows from several environments → a network whose predictions hold in all of them."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"env": True}
    _task: ClassVar[str]

    def __init__(
        self,
        objective: Any = "auto",
        *,
        penalty: float | None = None,
        options: dict[str, Any] | None = None,
        hidden: Any = (),
        activation: str = "relu",
        dropout: float = 0.0,
        network: Any = None,
        standardise: bool | str = True,
        steps: int = 1000,
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        wait: int = 0,
        ramp: int = 0,
        held_out: float = 0.0,
        patience: int = 20,
        precision: str = "float64",
        checkpoint: Any = None,
        progress: Any = False,
        random_state: Any = 0,
    ) -> None:
        self.objective = objective
        self.penalty = penalty
        self.options = options
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.network = network
        self.standardise = standardise
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.wait = wait
        self.ramp = ramp
        self.held_out = held_out
        self.patience = patience
        self.precision = precision
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    # --- training -----------------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any, env: Any = None) -> Self:
        """Train on rows X (n, d) with targets y (n,) and the environment of every row, any labels (n,)."""
        need_torch()
        from invariscope.training import Rows, Schedule, Settings, train

        X, y = plain(X), plain(y)
        numeric = self._task == "regression"
        refuse_unreadable(X, y, numeric)
        y, classes = self._read(y)
        X, y = validated(self, X, y=y, ensure_min_samples=2, y_numeric=numeric)
        dtype = dtype_of(self.precision)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        notes = refuse_magnitudes_of(X, list(map(str, names)), y if numeric else None)
        if classes is not None:
            self.classes_ = classes
        targets, outputs = self._encoded(y)
        labels, codes = ((), None) if env is None else environment_codes(env, len(X))
        objective = self._chosen_objective(labels)
        seed = _seed_of(self.random_state)
        network, width, plan = new_network(self, outputs, seed)
        settings = Settings(
            steps=self.steps,
            batch_size=objective.rows_at_once if self.batch_size is None else self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            schedule=Schedule(wait=self.wait, ramp=self.ramp),
            patience=self.patience,
        )
        self.centre_, self.scale_ = _centre_and_scale(X, _groups(self.standardise, network, X.shape[1]))
        rows = Rows.of(self._standardised(X), targets, codes, task=self._task, outputs=outputs, dtype=dtype)
        rows, held_out = replace(rows, labels=labels or rows.labels).halved(self.held_out, seed)
        trained = train(
            network,
            rows,
            objective,
            settings=settings,
            held_out=held_out,
            seed=seed,
            checkpoint=self.checkpoint,
            progress=self.progress,
        )
        self.objective_, self.environments_ = trained.objective.name, labels
        self.network_, self.n_representation_ = plan, width
        self.weights_ = {name: value.numpy().copy() for name, value in trained.network.state_dict().items()}
        self.history_ = trained.history
        self.notes_ = (*notes, *trained.notes)
        for note in self.notes_:
            warnings.warn(note, ConvergenceWarning, stacklevel=2)
        self.n_iter_, self.kept_step_ = int(trained.history["step"][-1]), trained.kept_step
        return self

    def _read(self, y: Any) -> tuple[Any, Array | None]:
        """The target as scikit-learn can check it, and its classes, if it has any."""
        return y, None

    @abstractmethod
    def _encoded(self, y: Array) -> tuple[Array, int]:
        """Targets as the training loop wants them, and the network's outputs."""

    def _target_units(self) -> tuple[float, float]:
        """Centre and spread of the target the network was trained on."""
        return 0.0, 1.0

    def _chosen_objective(self, labels: tuple[Any, ...]) -> Objective:
        from invariscope.objectives import objective_of

        if isinstance(self.objective, str) and self.objective == "auto":
            if len(labels) < 2:
                reason = f'env has one environment only ("{labels[0]}")' if labels else "no env given"
                warnings.warn(f"{reason}: trained as plain ERM, which compares no environments", stacklevel=3)
            return objective_of("vrex" if len(labels) > 1 else "erm", self.penalty, self.options)
        objective = objective_of(self.objective, self.penalty, self.options)
        if self.penalty and not objective.penalises:
            raise InputError(f'objective "{objective.name}" has no penalty: leave penalty out')
        if not labels and objective.fewest_environments > 1:
            raise InputError(
                f'objective "{objective.name}" compares environments: pass env=, one label per row, or objective="erm"'
            )
        return objective

    # --- predicting ---------------------------------------------------------------------------------------------------
    def represent(self, X: Any) -> Array:
        """What the last step of the network reads, (n, d): the last hidden layer, or a linear model's score."""
        return self._outputs(X)[1]

    def split(self) -> Split:
        """The model in two halves, for :func:`invariscope.audit`: what it represents, and the head that predicts."""
        from invariscope.objectives import objective_of

        check_is_fitted(self)
        classes = unique_labels(self.classes_, "classes_")[0] if hasattr(self, "classes_") else None
        width, scores = self.n_representation_, passes_score_on(self)
        if not scores:
            kind = "hidden" if "hidden" in self.network_ else "feature"
            columns = [f"{kind} {j + 1}" for j in range(width)]
            words = "last hidden layer" if kind == "hidden" else "the features of its own network"
        else:
            words = "its score" if width == 1 else "its scores"
            labels = () if classes is None else classes[1:] if len(classes) == 2 else classes
            columns = [f'score of "{label}"' for label in labels] if len(labels) == width else ["score"] * width
        head = head_of(self)
        objective = self.objective_ if isinstance(self.objective, str) else self.objective  # "auto" is one of several
        name = f"{type(self).__name__} ({self.objective_}): {words}{'' if head else '; its head is not linear'}"
        return Split(
            self.represent,
            self.predict if classes is None else self.predict_proba,
            head,
            columns=columns,
            name=name,
            task=self._task,
            classes=classes,
            trained_with=trained_with(objective_of(objective, self.penalty, self.options), self._target_units()[1]),
            model=self,
            input_space=self._input_space,
        )

    def _input_space(self) -> InputSpace:
        """Rows as the network reads them; a distance of 1 is what the column was divided by."""
        scale = self.scale_
        if not switch_of(self.standardise):
            units = "the columns' own units"
        elif len(np.unique(scale)) == 1 < len(scale):
            units = f"units of {float(scale[0]):.3g}, the spread of all columns together when the model was trained"
        elif isinstance(self.standardise, str) or "hidden" not in self.network_:
            units = "spreads of the columns when the model was trained (pixels of a channel share one)"
        else:
            units = "spreads of each column when the model was trained"
        return InputSpace(scores_of(self), self._moved_rows, self._represent_moved, units)

    def _moved_rows(self, X: Any) -> Floats:
        return self._standardised(self._checked(X))

    def _represent_moved(self, rows: Any) -> Array:
        import torch

        with torch.no_grad():
            features = fitted_network(self)(torch.as_tensor(rows, dtype=dtype_of(self.network_["precision"])))[1]
        return np.asarray(features.numpy())

    def _checked(self, X: Any) -> Array:
        """Rows with the columns the model was fitted on, as numbers."""
        check_is_fitted(self)
        X = plain(X)
        refuse_unreadable(X)
        rows: Array = validated(self, X, reset=False)
        return rows

    def _outputs(self, X: Any) -> tuple[Floats, Array]:
        """Scores (n, K) in the network's units, and features (n, d)."""
        X = self._checked(X)
        network = fitted_network(self)
        import torch

        dtype, parts = dtype_of(self.network_["precision"]), []
        with torch.no_grad():
            for start in range(0, len(X), ROWS_AT_ONCE):
                rows = self._standardised(X[start : start + ROWS_AT_ONCE])
                parts.append(network(torch.as_tensor(rows, dtype=dtype)))
        logits, features = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        return logits.double().numpy(), features.numpy()

    def _standardised(self, X: Array) -> Floats:
        values: Floats = (X - self.centre_) / self.scale_
        return values

    # --- files --------------------------------------------------------------------------------------------------------
    def to_safetensors(self, path: str | Path) -> Path:
        """Store the fitted model without pickle: weights, and all settings but network, checkpoint and progress.

        A ``network`` of your own is not in the file: give it again to :meth:`from_safetensors`. Class labels must be
        text or numbers.
        """
        check_is_fitted(self)
        return store(self, path_of(path))

    @classmethod
    def from_safetensors(cls, path: str | Path, network: Any = None) -> Self:
        """The model that :meth:`to_safetensors` stored; no code from the file is run.

        ``network`` is the user's own, if one was trained. It must print like the one that was trained and take its
        weights; whether its ``forward`` does the same, nobody can check.
        """
        model: Self = load(Path(path), cls, network)
        return model

    def to_onnx(self, path: str | Path, *, precision: str | None = None) -> Path:
        """Export the fitted model, standardisation included, to run without Python.

        The input "X" is (n, d); outputs are "representation" and, for regression, "prediction" (n,), for classes
        "probabilities" (n, K). All are float64 (``precision="float64"``, the default for built-in networks trained in
        it) or float32 (the default for a network of your own: onnxruntime has no convolutions in float64).
        Where onnxruntime is installed, the file appears only if it predicts what the model predicts.
        """
        check_is_fitted(self)
        return export(self, path_of(path), precision)


def switch_of(standardise: Any) -> bool:
    """Whether columns are standardised at all."""
    return standardise == TOGETHER if isinstance(standardise, str) else switch(standardise, "standardise")


def _groups(standardise: Any, network: Halves, columns: int) -> int | None:
    """Into how many runs of columns, each with one centre and one spread, rows are cut; 0 for as they are.

    ``None``: every column has its own. Pixels share one: a pixel that is nearly always black has next to no spread, and
    divided by it the few rows in which it is not would count for hundreds of others.
    """
    if isinstance(standardise, str) and standardise != TOGETHER:
        raise InputError(f'standardise is {shown(standardise)}: give True, False or "{TOGETHER}"')
    if not switch_of(standardise):
        return 0
    return 1 if isinstance(standardise, str) else image_channels(network, columns)


def _centre_and_scale(X: Array, groups: int | None) -> tuple[Floats, Floats]:
    if groups == 0:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    if groups is not None:
        parts = X.reshape(len(X), groups, -1)
        centre, scale = parts.mean(axis=(0, 2), dtype=np.float64), parts.std(axis=(0, 2), dtype=np.float64)
        one_value = (parts.min(axis=(0, 2)) == parts.max(axis=(0, 2))) | (scale == 0)
        each = X.shape[1] // groups
        return np.repeat(centre, each), np.repeat(np.where(one_value, 1.0, scale), each)
    centre, scale = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    constant = X.min(axis=0) == X.max(axis=0)  # their computed spread may be rounding error in place of 0
    return np.where(constant, X[0].astype(np.float64), centre), np.where(constant | (scale == 0), 1.0, scale)


def _seed_of(random_state: Any) -> int:
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return whole_number(random_state, "random_state", most=2**32 - 1)  # as scikit-learn has it
