"""Losses of rows and risks of environments as torch tensors, for regression, two classes and several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from invariscope.errors import InputError
from invariscope.rows.targets import refuse_unknown_task


def task_of(logits: Sequence[Tensor], targets: Sequence[Tensor]) -> str:
    """What the shapes say: several columns of logits are classes, one column with whole-number targets is binary.

    >>> task_of([torch.zeros(4, 1)], [torch.tensor([0, 1, 1, 0])]), task_of([torch.zeros(4, 1)], [torch.zeros(4)])
    ('binary', 'regression')
    """
    if logits[0].ndim == 2 and logits[0].shape[1] > 1:
        return "multiclass"
    return "regression" if targets[0].is_floating_point() else "binary"


def task_of_outputs(task: str, outputs: int) -> str:
    """ "classification" as what a head of so many outputs does: one is the log-odds of the second of two classes."""
    refuse_unknown_task(task)
    return ("multiclass" if outputs > 1 else "binary") if task == "classification" else task


def refuse_no_tensors(name: str, given: Any) -> None:
    """What a batch is made of: a list of tensors, of numbers that can be computed with, at most a row of them a row."""
    usable = isinstance(given, list | tuple) and all(
        isinstance(part, Tensor) and 1 <= part.ndim <= 2 and not part.is_complex() and not part.is_meta
        for part in given
    )
    if not usable:
        raise InputError(
            f"{name} must be a list of torch tensors, one for every environment: give real numbers, (rows,) or "
            "(rows, columns)"
        )


def checked_task(task: str, logits: Sequence[Tensor], targets: Sequence[Tensor]) -> str:
    """ "regression", "binary" or "multiclass"; environments must match in number and rows.

    The rule of :func:`~invariscope.rows.targets.target_of`, as far as one batch can show: its few values do not tell
    two classes from numbers, so with "auto" their type does, and what may be meant either way must be said.
    """
    refuse_no_tensors("logits", logits)
    refuse_no_tensors("targets", targets)
    if not logits or len(logits) != len(targets):
        raise InputError(f"{len(logits)} environments of logits, but {len(targets)} of targets: give one of each")
    for scores, values in zip(logits, targets, strict=True):
        if len(scores) != len(values):
            raise InputError(
                f"{len(scores)} rows of logits, but {len(values)} of targets in one environment: give one of each"
            )
        if not len(scores):
            raise InputError("an environment has no rows: leave it out of the batch")
    if task != "auto":
        return task_of_outputs(task, logits[0].shape[1] if logits[0].ndim == 2 else 1)
    guess = task_of(logits, targets)
    _refuse_doubtful(guess, torch.cat([part.detach().reshape(-1) for part in targets]))
    return guess


def _refuse_doubtful(task: str, values: Tensor) -> None:
    """Zeros and ones, both of them, that are floats; and one output for whole numbers that are neither."""
    zeros, ones = values == 0, values == 1
    try:
        both, only = bool(zeros.any() & ones.any()), bool((zeros | ones).all())
    except RuntimeError:  # under vmap nobody can look at values
        return
    if task == "regression" and both and only:
        raise InputError('float targets that are all 0 or 1 may be meant either way: say task="binary" or "regression"')
    if task == "binary" and not only:
        raise InputError('one output cannot tell several classes apart: code two as 0 and 1, or say task="regression"')


def row_losses(logits: Tensor, targets: Tensor, task: str) -> Tensor:
    """Squared error, logistic loss or cross-entropy of every row, (n,).

    ``logits`` is (n, K), or (n,) for one output; ``targets`` is (n,) numbers or class codes, or (n, K) probabilities of
    classes (mixed rows). For two classes a target is the probability of the second.

    >>> row_losses(torch.tensor([[0.0]]), torch.tensor([1.0]), "binary").exp()
    tensor([2.])
    """
    if task == "multiclass":
        if targets.ndim == 1:
            return functional.cross_entropy(logits, targets.long(), reduction="none")
        return -(targets * functional.log_softmax(logits, dim=-1)).sum(dim=-1)
    scores = logits.reshape(logits.shape[0])
    values = targets.reshape(scores.shape).to(scores.dtype)
    if task == "binary":
        return functional.binary_cross_entropy_with_logits(scores, values, reduction="none")
    return (scores - values) ** 2


def risks(logits: Sequence[Tensor], targets: Sequence[Tensor], task: str) -> Tensor:
    """Mean loss of every environment, (E,)."""
    return torch.stack(
        [row_losses(scores, values, task).mean() for scores, values in zip(logits, targets, strict=True)]
    )


def probabilities(logits: Tensor, task: str) -> Tensor:
    """What a model predicts: numbers (n, 1), the probability of the second class (n, 1), or of every class (n, K)."""
    return predicted(logits if task == "multiclass" else logits.reshape(logits.shape[0], 1), task)


def predicted(scores: Tensor, task: str) -> Tensor:
    """What scores (..., K) stand for: numbers as they are, the sigmoid of log-odds, the softmax of classes."""
    if task == "regression":
        return scores
    return torch.sigmoid(scores) if task == "binary" else torch.softmax(scores, dim=-1)


def column_losses(scores: Tensor, columns: Tensor, task: str) -> Tensor:
    """Losses (...) of scores (..., K) for targets in the columns of :func:`target_columns`, however many axes lead."""
    if task == "regression":
        return ((scores - columns) ** 2).sum(dim=-1)
    if task == "binary":
        return (functional.softplus(scores) - columns * scores).sum(dim=-1)
    return torch.logsumexp(scores, dim=-1) - (columns * scores).sum(dim=-1)


def slopes(scores: Tensor, columns: Tensor, task: str) -> Tensor:
    """Derivative of every row's loss (numbers: ½ (s − y)²) in a factor on its scores (n, K), Σ_k s_k (f_k − y_k): (n,).

    >>> slopes(torch.tensor([[2.0]]), torch.tensor([[1.0]]), "regression")  # of ½ (2 t − 1)² at t = 1
    tensor([2.])
    """
    return (scores * (predicted(scores, task) - columns.reshape(scores.shape))).sum(dim=1)


def curvature(probabilities: Tensor, task: str) -> Tensor:
    """Second derivatives of class losses in the scores, diag(p) − p pᵀ: (..., K, K) for probabilities (..., K).

    The same constant added to all scores changes nothing: 1/K makes that direction solvable, and no step goes there.
    """
    outer = probabilities[..., :, None] * probabilities[..., None, :]
    if task == "binary":
        return probabilities[..., None] - outer
    return torch.diag_embed(probabilities) - outer + 1 / probabilities.shape[-1]


def target_columns(targets: Tensor, task: str, classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Targets in the columns of :func:`probabilities`: (n, 1), or one-hot (n, K)."""
    if task == "multiclass":
        if targets.ndim == 2:
            return targets.to(dtype)
        # not functional.one_hot, which looks at values and so cannot run under vmap
        return (targets.long()[:, None] == torch.arange(classes, device=targets.device)).to(dtype)
    return targets.reshape(targets.shape[0], 1).to(dtype)
