"""A classifier that is trained to hold in all environments."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from invariscope.errors import InputError
from invariscope.estimators.estimator import InvariantEstimator
from invariscope.estimators.weight_files import readable
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.labels import numbers_or_labels, refuse_too_many_labels
from invariscope.rows.tables import vector_of
from invariscope.rows.targets import MOST_CLASSES, label_array, labels_in, target_in


@readable
class InvariantClassifier(ClassifierMixin, InvariantEstimator):  # type: ignore[misc]
    """Classification by a linear model or a network, trained so that it holds in all environments.

    ``fit(X, y, env=env)`` takes the environment of every row, ``predict(X)`` and ``predict_proba(X)`` need none. Two
    classes or more, labels of any kind.

    What it cannot do: make rows from one environment tell what changes between environments. The more the training
    environments differ, the more it can learn from them.

    Parameters and attributes are those of :class:`~invariscope.InvariantRegressor`, but for the target: ``classes_``
    are its labels, sorted, in the order of the columns of ``predict_proba``.

    >>> import invariscope as iv
    >>> X, y, env = iv.datasets.linear_sem("FEU", n=200)
    >>> model = iv.InvariantClassifier("irm", penalty=10.0, steps=200).fit(X, y > 0, env=env)
    >>> model.predict_proba(X).shape, model.classes_.tolist()
    ((600, 2), [False, True])
    """

    _task: ClassVar[str] = "classification"

    def predict(self, X: Any) -> Array:
        """The most probable class of every row, (n,)."""
        scores = self._outputs(X)[0]
        codes = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        labels: Array = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, (n, K), in the order of ``classes_``."""
        scores = self._outputs(X)[0]
        if scores.shape[1] == 1:
            return np.hstack([expit(-scores), expit(scores)])
        values: Floats = softmax(scores, axis=1)
        return values

    def decision_function(self, X: Any) -> Floats:
        """Scores before sigmoid or softmax: (n,) for two classes, (n, K) for more."""
        scores = self._outputs(X)[0]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _read(self, y: Any) -> tuple[Any, Array | None]:
        """Codes of the classes that criteria would find in y, and the classes, in the type they came in if numpy's."""
        column, name = (np.empty(0), None) if y is None else vector_of(y, "y")
        if not len(column):
            return y, None  # refused with everything else that scikit-learn asks of y
        name = name or "y"
        values, labels = numbers_or_labels(column, name)
        refuse_too_many_labels(labels or (), len(column), name, most=MOST_CLASSES)
        found = labels_in(values, labels)
        if len(found) < 2:
            raise InputError(f'y holds one class only ("{found[0]}"), nothing to tell apart: give rows of at least two')
        target = target_in(values, labels, "classification", name=name)
        given, first = np.asarray(y), np.unique(target.values, return_index=True)[1]
        kept = given.dtype == column.dtype  # else they were texts, categories or objects that are numbers
        classes = column[first] if kept else label_array(target.classes)
        return target.values.astype(np.intp).reshape(given.shape), classes

    def _encoded(self, y: Array) -> tuple[Array, int]:
        return y, 1 if len(self.classes_) == 2 else len(self.classes_)
