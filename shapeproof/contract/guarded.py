"""Check each call of what a program was made into, where it is used: `shapeproof.guard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from shapeproof.constraints.errors import UsageError
from shapeproof.contract.archives import PROPERTY
from shapeproof.contract.contract import Contract, load, read_contract

_T = TypeVar("_T")

METHODS = ("run", "run_async", "execute")
"""The methods that take inputs: of a session of ONNX Runtime, and of a method of ExecuTorch."""


class Guarded:
    """Stands for an object: some of its methods check their arguments first, the rest is the object's own."""

    __wrapped__: Any = None

    def __init__(self, target: Any, methods: Mapping[str, Any]) -> None:
        self.__dict__.update(methods, __wrapped__=target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return f"guard({self.__wrapped__!r})"


def guard(target: _T, contract: Contract | str | Path | None = None) -> _T:
    """Return the target with a check before each call: OutsideDomain is raised for inputs that are not accepted.

    Args:
        target: a session of ONNX Runtime, of which `run` and `run_async` are checked; a method of ExecuTorch, of which
            `execute` is; or a callable, such as a package of AOTInductor, which comes back as a function. Everything
            else of the session or method stays, unchecked: `run_with_iobinding`, too.
        contract: the contract, or the path of a file that holds it. Without it, a session of ONNX Runtime is asked
            for the metadata property `shapeproof_contract` of its model.

    Raises:
        UsageError: there is no contract, or the target is nothing that can be called.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> from shapeproof.contract.inputs import IntInput, Structure
    >>> inputs = (IntInput("n", "n", (parse_term("n"),)),)
    >>> even = parse_formula("n % 2 == 0")
    >>> contract = Contract(inputs, Structure((0,), {}, ("n",), {"n": 0}), (even,), frozenset([even]), {})
    >>> halve = guard(lambda n: n // 2, contract)
    >>> halve(8)
    4
    >>> halve(7)
    Traceback (most recent call last):
    shapeproof.contract.outside.OutsideDomain: n = 7, but n % 2 == 0 is declared
    """
    given = load(contract) if isinstance(contract, str | Path) else contract
    held = _embedded(target) if given is None else given
    if callable(target):
        return cast("_T", held.wrap(target))
    methods = {name: held.wrap(getattr(target, name)) for name in METHODS if hasattr(target, name)}
    if not methods:
        raise UsageError(f"expected a session, a method or a callable to guard, got {type(target).__name__}")
    return cast("_T", Guarded(target, methods))


def _embedded(target: Any) -> Contract:
    """Return the contract among the metadata properties of a session's model."""
    model = target.get_modelmeta() if hasattr(target, "get_modelmeta") else None
    text = None if model is None else model.custom_metadata_map.get(PROPERTY)
    if text is None:
        name = getattr(target, "__name__", type(target).__name__)
        raise UsageError(f"{name} carries no contract: give one, or the path of its file, as the second argument")
    return read_contract(text, "the session's model")
