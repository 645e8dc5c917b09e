"""Small networks that are trained against a representation, with one number to minimise for both sides."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from invariscope.errors import InputError
from invariscope.objectives.objective import Named, Tensors

Discriminator = Callable[[Tensor], Tensor]  # features (n, d) → scores (n, E)


def reverse(parameter: Tensor) -> Tensor:
    """The same number with the opposite gradient, 2 · detached − itself: descent becomes ascent.

    >>> parameter = torch.tensor(3.0)
    >>> float(reverse(parameter)), float(torch.func.grad(reverse)(parameter))
    (3.0, -1.0)
    """
    return 2 * parameter.detach() - parameter


def reverse_parameters(parameters: Named) -> Named:
    """Parameters that whoever minimises moves uphill, so that one optimiser trains a network and its adversary.

    For a discriminator of your own, an ``nn.Module`` whose parameters are given to the optimiser along with the rest::

        reversed_ = reverse_parameters(dict(module.named_parameters()))
        penalty = dann_penalty(logits, targets, features, discriminator=partial(functional_call, module, reversed_))
        (risk + weight * penalty).backward()

    with ``torch.func.functional_call``. Features then go down the penalty and the module goes up. The other way is an
    optimiser of the module's own that maximises the penalty of detached features between the steps of the model.
    """
    return {name: reverse(parameter) for name, parameter in parameters.items()}


def gradient_only(loss: Tensor) -> Tensor:
    """Zero, with the gradient of ``loss``: what trains something without counting in the value.

    >>> parameter = torch.tensor(3.0)
    >>> float(gradient_only(parameter**2)), float(torch.func.grad(lambda p: gradient_only(p**2))(parameter))
    (0.0, 6.0)
    """
    return loss - loss.detach()


def network(width: int, hidden: int, outputs: int, generator: torch.Generator) -> Named:
    """Parameters of one hidden layer: weights uniform within ±1/√(columns they read), biases 0."""
    return {
        "hidden_weight": uniform((hidden, width), generator),
        "hidden_bias": torch.zeros(hidden),
        "output_weight": uniform((outputs, hidden), generator),
        "output_bias": torch.zeros(outputs),
    }


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Numbers within ±1/√(last axis), so that standardised rows give scores of about the same size."""
    return (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(max(shape[-1], 1))


def network_scores(parameters: Named, rows: Tensor) -> Tensor:
    """What the :func:`network` says of rows (n, width): (n, outputs). The hidden units are smooth (GELU).

    Rows may be in a more precise number type than the one parameters start in.
    """
    layers = {name: parameter.to(rows.dtype) for name, parameter in parameters.items()}
    hidden = functional.gelu(rows @ layers["hidden_weight"].T + layers["hidden_bias"])
    return hidden @ layers["output_weight"].T + layers["output_bias"]


def environment_knowledge(scores: Tensors, weights: Tensors | None = None) -> Tensor:
    """What scores (n_e, E) tell about the environment, in nats: log E − mean_e cross-entropy(scores of e, e).

    At most log E; 0 for a guess, below 0 for those who guess worse than that. Every environment counts the same, its
    rows by ``weights`` that add up to 1, or all the same.

    >>> round(float(environment_knowledge([torch.tensor([[9.0, -9.0]]), torch.tensor([[-9.0, 9.0]])])), 4)  # log 2
    0.6931
    """
    knowledge = []
    for place, rows in enumerate(one_column_each(scores)):
        right = functional.log_softmax(rows, dim=1)[:, place]
        knowledge.append(right.mean() if weights is None else (weights[place] * right).sum())
    return math.log(len(scores)) + torch.stack(knowledge).mean()


def one_column_each(scores: Tensors) -> Tensors:
    """The scores of a discriminator, if every environment's have one column for each environment."""
    for place, rows in enumerate(scores):
        if rows.ndim != 2 or rows.shape[1] != len(scores):
            raise InputError(
                f"the discriminator gives {tuple(rows.shape)} scores for environment {place}: give one column for each "
                f"of the {len(scores)} environments"
            )
    return scores


def checked_adversary(name: str, adversary: Named, environments: int, place: str = "output_bias") -> Named:
    """The adversary, if it is there and made for this number of environments."""
    if place not in adversary:
        raise InputError(
            f'objective "{name}" trains an adversary: pass adversary=objective.adversary(width, environments, outputs, '
            "generator), and train it along with the model"
        )
    if adversary[place].shape[0] != environments:
        raise InputError(
            f'the adversary of objective "{name}" was made for {adversary[place].shape[0]} environments, the batch has '
            f"{environments}: make one for this many"
        )
    return adversary


def opposed_network(name: str, adversary: Named, environments: int) -> Discriminator:
    """The adversary as a function of rows whose parameters go up where everything else goes down."""
    parameters = reverse_parameters(checked_adversary(name, adversary, environments))
    return lambda rows: network_scores(parameters, rows)
