"""A regressor that is trained to hold in all environments."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from invariscope.estimators.estimator import InvariantEstimator
from invariscope.estimators.weight_files import readable
from invariscope.rows.arrays import Array, Floats


@readable
class InvariantRegressor(RegressorMixin, InvariantEstimator):  # type: ignore[misc]
    """Regression by a linear model or a network, trained so that it holds in all environments.

    ``fit(X, y, env=env)`` takes the environment of every row, ``predict(X)`` needs none. The target is brought to mean
    0 and spread 1 for training, so that penalties do not depend on its units; predictions are in the user's units.

    What it cannot do: make rows from one environment tell what changes between environments. The more the training
    environments differ, the more it can learn from them.

    Parameters
    ----------
    objective : a name such as "vrex", "irm" or "dric", or an object of :mod:`invariscope.objectives`
        "auto" is "vrex" if there are two environments or more; else plain "erm", with a warning.
    penalty : weight of the objective's penalty; None: its default
    options : dict of the objective's other hyper-parameters
    hidden : units of every hidden layer, such as (64, 64); () is a linear model
    activation : "relu", "tanh" or "identity"
    dropout : share of hidden units left out at every step of training
    network : a torch module in two halves (see :func:`invariscope.models.torch_networks.halves_of`), or a function
        (n_inputs, n_outputs) → module, in place of ``hidden``, ``activation`` and ``dropout``. Such a model can be
        pickled if the module can; .skops files cannot hold it, :meth:`to_safetensors` stores its weights alone.
    standardise : bring columns to mean 0 and spread 1 over all rows trained on. ``"together"`` shifts and divides all
        columns by one number each: for images, whose pixels have one unit. Each by its own spread, pixels near the
        border that are nearly always black would be blown up, and a change too small to see would turn predictions.
        A ``network`` with convolutions reads images: with True, pixels of a channel share their numbers.
    steps, batch_size, learning_rate, weight_decay : of Adam; ``batch_size`` is per environment, None: all rows
        (64 for "wasserstein_matching" and 256 for "mmd", whose work grows with its square)
    wait, ramp : steps before the penalty's weight starts to grow, and over which it grows
    held_out : share of every environment's rows that is not trained on but decides when to stop
    patience : looks at the held-out rows (every 10 steps) without gain after which training stops
    precision : "float64", or "float32" for large networks
    checkpoint : a file to store the training in, and to go on from if it is there
    progress : show on the terminal how far training is
    random_state : a whole number, None or a numpy RandomState; the same number gives the same model, bit for bit

    Attributes
    ----------
    weights_ : dict of arrays, the network's parameters
    centre_, scale_ : what columns are standardised by
    network_, n_representation_ : what it takes to build the network again, and the width of its representation
    objective_, environments_ : name of the objective, labels of the environments trained on
    history_ : dict of arrays: step, loss, risk, penalty and, with ``held_out``, held_out
    n_iter_, kept_step_ : steps done, and the step whose weights were kept
    notes_ : what there is to say of the training, and what to change: it hardly moved, predictions or hidden units are
        the same in all rows, digits were lost. Each is a ``ConvergenceWarning``, too. A training that diverged (ten
        times worse than the best constant on its own rows) is an ``InputError``.
    target_centre_, target_scale_ : what the target is standardised by

    >>> import invariscope as iv
    >>> X, y, env = iv.datasets.linear_sem("FEU", n=200)
    >>> model = iv.InvariantRegressor("irm", penalty=10.0, steps=200).fit(X, y, env=env)
    >>> model.predict(X).shape, model.environments_
    ((600,), (0.2, 2.0, 5.0))
    """

    _task: ClassVar[str] = "regression"

    def predict(self, X: Any) -> Floats:
        """Numbers in the units of the target, (n,)."""
        scores = self._outputs(X)[0][:, 0]
        return self.target_centre_ + self.target_scale_ * scores

    def _encoded(self, y: Array) -> tuple[Array, int]:
        y = np.asarray(y, dtype=np.float64)
        constant = y.min() == y.max()
        self.target_centre_ = float(y[0] if constant else y.mean())
        self.target_scale_ = 1.0 if constant or y.std() == 0 else float(y.std())
        return (y - self.target_centre_) / self.target_scale_, 1

    def _target_units(self) -> tuple[float, float]:
        return self.target_centre_, self.target_scale_
