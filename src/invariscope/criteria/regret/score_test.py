"""Score test of "one head serves all environments"."""

from __future__ import annotations

import numpy as np

from invariscope.criteria.regret.shared_head import SharedHead
from invariscope.heads.linear_algebra import spectrum
from invariscope.rows.arrays import Floats


def score_test(fit: SharedHead, draws: int, rng: np.random.Generator) -> tuple[float, Floats]:
    """Do the environments pull the shared head in directions that chance does not explain?

        S = Σ_e g_eᵀ J_e⁺ g_e;   null: s_e ~ N(0, J_e),  s_e ← s_e − H_e H⁻¹ Σ_k a_k s_k,  S again

    g_e is the summed gradient of environment e at the shared head, J_e its leverage-corrected covariance without
    misfit, H_e the Hessians, H = Σ a_e H_e. The projection is what fitting the shared head does to the gradients. J_e
    may differ between environments: other noise and other P(Z) are allowed under the null. Returns S and its draws.
    """
    # residuals at the shared head hold its misfit, too: counted as noise, it would hide what is being tested
    part = spectrum(fit.own_share[:, None, None] * fit.outer)
    whiten = part.inverse_root()  # S is a sum of squares in whitened gradients
    statistic = float(np.sum(np.einsum("epr,ep->er", whiten, fit.gradient) ** 2))
    root = part.root()
    environments, size = fit.gradient.shape
    pull = np.einsum("e,epr->epr", fit.weights, root)
    # whitened response of environment e to a unit draw in environment k: identity (e = k) − whitenᵀ H_e H⁻¹ a_k root_k
    back = np.einsum("epr,epq,qs->ers", whiten, fit.shared.hessian, fit.inverse, optimize=True)
    null = np.empty(draws)
    live = (part.values > 0).astype(np.float64)
    batch = max(1, int(2e7 // (environments * size)))
    for start in range(0, draws, batch):
        noise = rng.standard_normal((min(batch, draws - start), environments, size)) * live
        total = np.einsum("bkr,kpr->bp", noise, pull, optimize=True)  # Σ_k a_k s_k
        response = noise - np.einsum("ers,bs->ber", back, total, optimize=True)
        null[start : start + batch] = np.einsum("ber,ber->b", response, response)
    return statistic, null
