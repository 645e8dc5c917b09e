"""Density ratios by probabilistic classification: one multinomial logistic regression of the environment on x."""

from __future__ import annotations

import warnings

import numpy as np

from invariscope.environments import Environments
from invariscope.ratios.density_ratio import DensityRatio

RIDGE = 1.0  # on standardised columns, against the summed log-loss: keeps separated environments finite
NEWTON_LIMIT = 300  # parameters up to which a Newton solver is faster and more exact than a first-order one


def fit_logistic(data: Environments) -> DensityRatio:
    """Fit p̂(e | x) and correct for the sizes: ρ̂_{e,e'} = n_e' p̂(e | x) / (n_e p̂(e' | x))   (eq. 10 of the paper).

    Linear in x, so it sees shifts of the mean but not of the spread.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    standard = data.X - data.blocks.shift
    mean = np.average(standard, axis=0, weights=data.weight)
    scale = np.sqrt(np.average((standard - mean) ** 2, axis=0, weights=data.weight))
    scale[scale == 0] = 1.0
    standard = standard / scale
    count = len(data)
    small = count * standard.shape[1] <= NEWTON_LIMIT
    model = LogisticRegression(
        C=1.0 / RIDGE, solver="newton-cholesky" if small else "lbfgs", tol=1e-8 if small else 1e-5, max_iter=1000
    )
    with warnings.catch_warnings():
        # a search that cannot improve on what it has: the environments are alike, or columns are constant
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(standard, data.codes, sample_weight=data.weight)
    weight, bias = model.coef_, model.intercept_
    if count == 2:  # one row of coefficients: the log-odds of the second environment
        weight, bias = np.vstack([np.zeros_like(weight), weight]), np.concatenate([[0.0], bias])
    weight = weight / scale
    return DensityRatio(data.labels, weight, bias - weight @ data.blocks.shift - np.log(data.rows))
