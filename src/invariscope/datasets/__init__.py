"""Data sets with environments: made up with a known truth, or real and checked.

Nothing is read, downloaded or even imported before a data set is asked for.

>>> from invariscope import datasets
>>> datasets.linear_sem("FEU", n=10).X.shape
(30, 10)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from invariscope.reading.dataset import Dataset

if TYPE_CHECKING:
    from invariscope.datasets.downloads import DataUnavailable
    from invariscope.datasets.images.colored import colored_digits, colored_mnist
    from invariscope.datasets.images.image_folder import image_folder, pacs
    from invariscope.datasets.images.images import Images
    from invariscope.datasets.images.rotated import fashion_mnist, rotated_digits, rotated_mnist
    from invariscope.datasets.synthetic.bayesian_network import bayesian_network, two_domain_example
    from invariscope.datasets.synthetic.ladder import ladder
    from invariscope.datasets.synthetic.linear_sem import linear_sem, linear_sem_b6
    from invariscope.datasets.synthetic.nonlinear_sem import nonlinear_sem
    from invariscope.datasets.synthetic.nulls import null_same_law, null_shifted
    from invariscope.datasets.synthetic.overlap import overlap_dial
    from invariscope.datasets.synthetic.synthetic import Synthetic
    from invariscope.datasets.tables.adult import adult
    from invariscope.datasets.tables.bike_sharing import bike_sharing
    from invariscope.datasets.tables.financial_indicators import financial_indicators
    from invariscope.datasets.tables.heart_disease import heart_disease
    from invariscope.datasets.tables.law_school import law_school

__all__ = [
    "DataUnavailable",
    "Dataset",
    "Images",
    "Synthetic",
    "adult",
    "bayesian_network",
    "bike_sharing",
    "colored_digits",
    "colored_mnist",
    "fashion_mnist",
    "financial_indicators",
    "heart_disease",
    "image_folder",
    "ladder",
    "law_school",
    "linear_sem",
    "linear_sem_b6",
    "nonlinear_sem",
    "null_same_law",
    "null_shifted",
    "overlap_dial",
    "pacs",
    "rotated_digits",
    "rotated_mnist",
    "two_domain_example",
]

_MODULE_OF = {
    "DataUnavailable": "downloads",
    "Images": "images.images",
    "Synthetic": "synthetic.synthetic",
    "adult": "tables.adult",
    "bayesian_network": "synthetic.bayesian_network",
    "bike_sharing": "tables.bike_sharing",
    "colored_digits": "images.colored",
    "colored_mnist": "images.colored",
    "fashion_mnist": "images.rotated",
    "financial_indicators": "tables.financial_indicators",
    "heart_disease": "tables.heart_disease",
    "image_folder": "images.image_folder",
    "ladder": "synthetic.ladder",
    "law_school": "tables.law_school",
    "linear_sem": "synthetic.linear_sem",
    "linear_sem_b6": "synthetic.linear_sem",
    "nonlinear_sem": "synthetic.nonlinear_sem",
    "null_same_law": "synthetic.nulls",
    "null_shifted": "synthetic.nulls",
    "overlap_dial": "synthetic.overlap",
    "pacs": "images.image_folder",
    "rotated_digits": "images.rotated",
    "rotated_mnist": "images.rotated",
    "two_domain_example": "synthetic.bayesian_network",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
