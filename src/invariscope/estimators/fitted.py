"""What a fitted estimator has: networks, weight files and exports read this and know nothing else of it."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from invariscope.rows.arrays import Array, Floats


class Fitted(Protocol):
    """Attributes that ``fit`` sets, in the manner of scikit-learn, and the methods that read them."""

    _task: ClassVar[str]
    network: Any  # of the user's own, or None
    network_: dict[str, Any]
    weights_: dict[str, Array]
    history_: dict[str, Array]
    centre_: Floats
    scale_: Floats
    objective_: str
    environments_: tuple[Any, ...]
    n_features_in_: int
    n_representation_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def predict(self, X: Any) -> Array: ...
    def represent(self, X: Any) -> Array: ...
    def _target_units(self) -> tuple[float, float]: ...
