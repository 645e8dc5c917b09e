"""Cross-fitted outcome models: what each environment's own relation says about the rows of all the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from invariscope.heads.fit import fit_own, fit_shared
from invariscope.heads.linear_algebra import spectrum
from invariscope.heads.losses import loss_of
from invariscope.models.outputs import checked_predictions
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.blocks import refuse_out_of_range
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target
from invariscope.wording import count, listed, names

ROWS_PER_PARAMETER = 5  # of the rarest class: with fewer, a head of its own is more noise than relation


@dataclass(frozen=True)
class OutcomeModels(ABC):
    """One outcome model f_b for every environment b; what was fitted, in words; and remarks for the user.

    Unless a kind of model says otherwise, it was not fitted here and has no parameters: P = 0.
    """

    data: Environments
    target: Target
    description: str
    notes: tuple[str, ...]

    @abstractmethod
    def residuals(self, environment: int) -> Floats:
        """y − f_b(z) at the rows of one environment, for all b and classes: (n_e, E, K), K = 1 but for 3+ classes."""

    def slopes(self, environment: int, share: Floats) -> Floats:
        """Σ_i share_i ∂f/∂θ over the rows of an environment, P parameters: (2, E, K, P) for ``share`` (n_e, 2, E).

        In the first place f is the environment's own model throughout, in the second that of every environment.
        """
        return np.zeros((2, len(self.data), loss_of(self.target).n_scores, 0))

    def noise(self, environment: int, residual: Floats, slope: Floats) -> Floats:
        """What every row, of residuals (n_e, K), added to slopeᵀ θ̂ when that was fitted: (n_e, E, K) for (E, K, P)."""
        return np.zeros((len(residual), *slope.shape[:2]))


@dataclass(frozen=True)
class GivenPredictions(OutcomeModels):
    """The user's own predictions, one function f for all environments, taken as they are."""

    residual: Floats

    def residuals(self, environment: int) -> Floats:
        own = self.residual[self.data.offsets[environment] : self.data.offsets[environment + 1]]
        return np.broadcast_to(own[:, None], (len(own), len(self.data), own.shape[1]))


@dataclass(frozen=True)
class LinearHeads(OutcomeModels):
    """Linear heads, one per environment and fold, each fitted without its fold.

    A row of b meets f_b as fitted without its own fold, and so does every row where f_b is a head shared by all, which
    has seen it otherwise. A row of another environment was seen by none of b's heads and meets the mean of them all,
    in the shares in which they meet the rows of b: any error of a head then enters both means of a gap and cancels.
    """

    fold: Integers
    theta: Floats  # (F, E, P)
    inverse: Floats  # (E, P, P): of the curvature on all rows
    own: Booleans  # (E,): fitted on the environment's own rows

    def residuals(self, environment: int) -> Floats:
        loss, folds, environments = loss_of(self.target), len(self.theta), len(self.data)
        heads = self.theta.reshape(folds * environments * loss.n_scores, -1).T
        share = self._shares()
        start, stop = int(self.data.offsets[environment]), int(self.data.offsets[environment + 1])
        out = np.empty((stop - start, environments, loss.n_scores))
        for block, design in self.data.blocks.designs(slice(start, stop)):
            scores = (design @ heads).reshape(len(design), folds, environments, loss.n_scores)
            # rows of weight 0 are in no fold and count nowhere
            of_row = np.arange(len(design)), np.maximum(self.fold[block], 0)
            for b in range(environments):
                here = out[block.start - start : block.stop - start, b]
                if b == environment or not self.own[b]:
                    here[:] = -loss.residual(scores[*of_row, b], self.target.values[block])
                    continue
                here[:] = 0.0
                for k in range(folds):
                    here -= share[b, k] * loss.residual(scores[:, k, b], self.target.values[block])
        return out

    def slopes(self, environment: int, share: Floats) -> Floats:
        loss, environments = loss_of(self.target), len(self.data)
        n_scores = loss.n_scores
        if not self.own.any():
            return super().slopes(environment, share)
        heads = self.theta.mean(axis=0).reshape(environments * n_scores, -1).T
        out = np.zeros((2, environments, n_scores, n_scores, len(heads)))
        start, stop = int(self.data.offsets[environment]), int(self.data.offsets[environment + 1])
        for block, design in self.data.blocks.designs(slice(start, stop)):
            part = share[block.start - start : block.stop - start]
            # ∂f_c/∂s_l, prediction by score: the curvature of the loss
            curvature = loss.curvature((design @ heads).reshape(len(design), environments, n_scores))
            of_own = curvature[:, environment, None] * part[:, 0, :, None, None]
            of_each = curvature * part[:, 1, :, None, None]
            both = np.stack([of_own, of_each], axis=1).reshape(len(design), -1)
            out += (both.T @ design).reshape(out.shape)
        out[0] *= self.own[environment]  # a head of all environments together hardly moves with the rows of one
        out[1] *= self.own[:, None, None, None]
        return out.reshape(2, environments, n_scores, -1)

    def noise(self, environment: int, residual: Floats, slope: Floats) -> Floats:
        if not self.own.any():
            return super().noise(environment, residual, slope)
        # θ̂ − θ ≈ H⁻¹ Σ z r
        along = (slope.reshape(-1, slope.shape[-1]) @ self.inverse[environment]).reshape(-1, self.data.blocks.width).T
        start, stop = int(self.data.offsets[environment]), int(self.data.offsets[environment + 1])
        out = np.empty((stop - start, *slope.shape[:2]))
        for block, design in self.data.blocks.designs(slice(start, stop)):
            here = slice(block.start - start, block.stop - start)
            moved = (design @ along).reshape(len(design), *slope.shape[:2], -1)
            out[here] = np.einsum("iacl,il->iac", moved, residual[here])
        return out

    def _shares(self) -> Floats:
        """Share of every environment's rows in every fold: (E, F)."""
        folds, environments = len(self.theta), len(self.data)
        cell = self.data.codes * folds + np.maximum(self.fold, 0)
        counts = np.bincount(cell, self.data.weight, minlength=folds * environments).reshape(environments, folds)
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def given_predictions(data: Environments, target: Target, predictions: Floats) -> GivenPredictions:
    """Residuals from predictions in the user's row order: numbers, or probabilities for classes."""
    values = checked_predictions(
        data.grouped(predictions, "predictions"),
        task=target.task,
        classes=target.classes or None,
        target_name=data.target_name,
    )
    if target.task == "regression":
        refuse_out_of_range(max(1.0, float(np.abs(values).max())), "predictions")  # near 0 they may well be
        residual = (target.values - values)[:, None]
    else:
        residual = np.eye(len(target.classes))[target.values.astype(np.intp)] - values
        residual = residual[:, 1:] if target.task == "binary" else residual
    return GivenPredictions(data, target, "predictions as given", (), residual)


def fit_linear_heads(data: Environments, target: Target, fold: Integers, folds: int) -> LinearHeads:
    """Heads of every environment without each of ``folds`` folds; with 1, every row is seen.

    An environment with too few rows for a head of its own gets that of all environments together, and if those have too
    few as well, the mean outcome alone.
    """
    size = data.blocks.width
    # rows of every environment, or those of its rarest class
    scarcest = data.rows if target.task == "regression" else class_counts(data, target).min(axis=1)
    own = scarcest >= ROWS_PER_PARAMETER * size
    flat = scarcest.sum() < ROWS_PER_PARAMETER * size
    used = data.with_matrix(np.zeros((len(data.X), 1))) if flat else data
    theta, converged = [], True
    hessian = np.zeros((len(data), 0, 0))
    for k in range(folds):
        weight = np.ones(len(fold)) if data.weight is None else data.weight
        train = used.with_weight(np.where(fold == k, 0.0, weight) if folds > 1 else weight)
        heads = np.zeros((len(data), loss_of(target).n_scores, size))
        if not own.all():
            shared = fit_shared(train, target, np.ones(len(data)))
            heads[:, :, : used.blocks.width] = shared.theta.reshape(len(data), heads.shape[1], -1)
            converged &= shared.converged
        if own.any():
            fitted = fit_own(train, target)
            heads[own] = fitted.theta.reshape(heads.shape)[own]
            part = fitted.hessian / max(folds - 1, 1)  # every row is in all training sets but one
            hessian = hessian + part if k else part
            converged &= fitted.converged
        theta.append(heads.reshape(len(data), -1))
    inverse = spectrum(hessian).inverse() if own.any() else hessian
    notes = _notes(data, own, flat, converged)
    return LinearHeads(data, target, _description(own, flat), notes, fold, np.stack(theta), inverse, own)


def class_counts(data: Environments, target: Target) -> Floats:
    """Rows of every class in every environment: (E, K)."""
    classes = len(target.classes)
    cell = data.codes * classes + target.values.astype(np.intp)
    counts = np.bincount(cell, data.weight, minlength=len(data) * classes).reshape(-1, classes)
    return counts.astype(np.float64)


def _description(own: Booleans, flat: bool) -> str:
    if flat:
        return "mean outcome"
    if own.all():
        return "a linear head per environment"
    return "a linear head per environment or shared" if own.any() else "one shared linear head"


def _notes(data: Environments, own: Booleans, flat: bool, converged: bool) -> tuple[str, ...]:
    notes = []
    columns = count(data.X.shape[1], "column")
    if flat:
        notes.append(f"There are too few rows for an outcome model on {columns}: gaps rest on the density ratio alone.")
    elif not own.all():
        short = [name for name, ok in zip(names(data.labels), own, strict=True) if not ok]
        listing = listed(short) if len(short) <= 6 else f"{', '.join(short[:5])} and {len(short) - 5} more"
        notes.append(
            f"Too few rows for an outcome model of its own on {columns}: {listing}. The model of all environments "
            "together stands in, so there a gap is right only if the density ratio is."
        )
    if not converged:
        notes.append("An outcome model was still moving after 100 Newton steps: standard errors may be too large.")
    return tuple(notes)
