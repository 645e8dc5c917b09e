"""Data sets with environments: made up with a known truth, or real and checked.

Nothing is read, downloaded or even imported before a data set is asked for.

>>> from invariscope import datasets
>>> datasets.linear_sem("FEU", n=10).X.shape
(30, 10)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from invariscope.datasets.fetch import DataUnavailable
    from invariscope.datasets.images import colored_digits
    from invariscope.datasets.synthetic import (
        Synthetic,
        linear_sem,
        null_same_law,
        null_shifted,
        two_domain_example,
    )
    from invariscope.datasets.tabular import Table, bike_sharing, bike_sharing_demo

__all__ = [
    "DataUnavailable",
    "Synthetic",
    "Table",
    "bike_sharing",
    "bike_sharing_demo",
    "colored_digits",
    "linear_sem",
    "null_same_law",
    "null_shifted",
    "two_domain_example",
]

_MODULE_OF = {
    "DataUnavailable": "fetch",
    "Synthetic": "synthetic",
    "Table": "tabular",
    "bike_sharing": "tabular",
    "bike_sharing_demo": "tabular",
    "colored_digits": "images",
    "linear_sem": "synthetic",
    "null_same_law": "synthetic",
    "null_shifted": "synthetic",
    "two_domain_example": "synthetic",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
