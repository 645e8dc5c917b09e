"""How a module is called: by forward or by another of its methods, with one tensor or with several named inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.models.inputs import NamedInputs, UnevenRows
from invariscope.models.torch_networks import Halves
from invariscope.models.torch_outputs import Output, predicted

Inputs = Tensor | NamedInputs


@dataclass(frozen=True)
class Call:
    """Which method is asked, which of several inputs it is handed, and which of several outputs is its answer.

    ``method`` is empty for ``forward``; ``inputs`` and ``output`` are ``None`` where the module itself tells.
    """

    method: str = ""
    inputs: tuple[str, ...] | None = None
    output: Output = None

    @classmethod
    def of(cls, inputs: Any, output: Any, method: str = "") -> Call:
        """The user's settings, checked."""
        names = (inputs,) if isinstance(inputs, str) else inputs
        known = isinstance(names, Collection) and len(names) > 0 and all(isinstance(name, str) for name in names)
        if names is not None and not known:
            raise InputError(f"inputs is {inputs!r}: give the name of an input of the network, or a list of names")
        if isinstance(output, bool) or not (output is None or isinstance(output, str | int)):
            raise InputError(f"output is {output!r}: give the name or the place of one of the network's outputs")
        return cls(method, None if names is None else tuple(names), output)

    def __call__(self, module: nn.Module, inputs: Inputs) -> Any:
        """All that the module gives: by ``forward``, or by ``predict`` where there is none (as DomainBed has it)."""
        if isinstance(module, Halves) and not self.method:
            return module.head(self._handed(module.represent, module.represent.forward, inputs))
        return self._handed(*self._function(module), inputs)

    def predictions(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """What the module predicts, (n, K)."""
        return predicted(self(module, inputs), len(inputs), self.output)

    def plain(self, module: nn.Module, rows: Any) -> Any:
        """Those of the inputs that the module reads: as one array, if it is one, and its first argument."""
        if isinstance(rows, UnevenRows):
            return UnevenRows(tuple(self.plain(module, batch) for batch in rows.batches))
        if not isinstance(rows, NamedInputs):
            return rows
        if rows.places:
            return (rows if self.inputs is None else rows.only(self.inputs)).alone
        function = self._first_function(module)
        arguments, named = self._arguments(function, rows)
        first = next((name for name, kind in _parameters(function) if kind in POSITIONAL), None)
        if arguments:
            return NamedInputs(arguments[0]) if isinstance(arguments[0], dict) else arguments[0]
        return named[first] if first is not None and {*named} == {first} else NamedInputs(named)

    def reads(self, module: nn.Module) -> list[str]:
        """The names of the inputs that it cannot do without."""
        try:
            parameters = inspect.signature(self._first_function(module)).parameters.values()
        except (TypeError, ValueError):
            return []
        return [one.name for one in parameters if one.default is one.empty and one.kind in POSITIONAL[:2]]

    def _first_function(self, module: nn.Module) -> Callable[..., Any]:
        """The function whose parameters tell what it reads: of two halves, that of the first."""
        return module.represent.forward if isinstance(module, Halves) else self._function(module)[1]

    def _function(self, module: nn.Module) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What is called, and the function whose parameters tell what it reads."""
        if self.method or not has_forward(module):
            method = getattr(module, self.method or "predict")
            return method, method
        return module, module.forward

    def _handed(self, called: Callable[..., Any], function: Callable[..., Any], inputs: Inputs) -> Any:
        if not isinstance(inputs, NamedInputs):
            return called(inputs)
        arguments, named = self._arguments(function, inputs)
        return called(*arguments, **named)

    def _arguments(self, function: Callable[..., Any], inputs: NamedInputs) -> tuple[list[Any], dict[str, Any]]:
        """Inputs by the names that the function's parameters have; if it has none of them, the one, or all as a dict.

        What the function has no parameter for (the number of a row, say) is left out.
        """
        parts = dict((inputs if self.inputs is None else inputs.only(self.inputs)).parts)
        if inputs.places:
            return [*parts.values()], {}
        parameters = _parameters(function)
        known = {name: parts[name] for name, _ in parameters if name in parts}
        if known:
            return [], known
        if not any(kind in POSITIONAL for _, kind in parameters):
            return [], parts
        return [next(iter(parts.values())) if len(parts) == 1 else parts], {}


FORWARD = Call()
POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    try:
        return [(parameter.name, parameter.kind) for parameter in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # a compiled function does not tell
        return [("", inspect.Parameter.POSITIONAL_ONLY)]


def has_forward(module: nn.Module) -> bool:
    """Whether it defines what it does to rows."""
    return type(module).forward is not nn.Module.forward
