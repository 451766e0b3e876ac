"""Reads torch's spec language (`ShapesSpec` and its parts) as a tree of dynamic_shapes and as relations.

spec                                      dynamic_shapes
`ShapeVar("b", max=8)`, `IntVar("n")`     a NamedDim
`2*b + 1`: linear in one variable         a NamedDim
`a*b`: any other expression               an Expression: a size of its own, equal to the expression
4, None, what the spec leaves out         4, None, None
`assumptions=[b % 2 == 0]`                the relation `b % 2 == 0`
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.dynamic_spec import (
    DictSpec,
    IntVar,
    ObjectSpec,
    ParamsSpec,
    SeqSpec,
    ShapesSpec,
    ShapeVar,
    TensorSpec,
)
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.printers import PythonPrinter

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula
from shapeproof.constraints.terms import symbol
from shapeproof.export.shim.inputs.dims import Expression, NamedDim
from shapeproof.export.shim.trees import keyed_children


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A spec in the terms of this project.

    Attributes:
        tree: the entry of each input, as in dynamic_shapes; an input without an entry is left out.
        relations: the assumptions, over the names of the variables.
        hints: the sizes for which compilers should tune, by name.
    """

    tree: Mapping[str, Any]
    relations: tuple[str, ...]
    hints: Mapping[str, int]


def read_spec(spec: Any, bound: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]) -> ReadSpec:
    """Read a spec for inputs that are bound to the parameters of a model.

    Raises:
        UsageError: the spec names no input, or an input has another structure.
    """
    whole = spec if isinstance(spec, ShapesSpec) else ShapesSpec(spec)
    tree = dict(_entries(whole._params or ParamsSpec(), bound, parameters))
    names = _Names([each for each in pytree.tree_leaves(tree) if isinstance(each, IntVar)])
    read = pytree.tree_map_only(torch.SymInt, names.entry, tree)
    assumed = [names.text(each.node.expr) for each in whole.assumptions]
    told = {each.root for each in pytree.tree_leaves(read) if isinstance(each, NamedDim)}
    for name in names.used:
        if name not in told:
            where = "in expressions and assumptions alone"
            raise UsageError(
                f"the spec has `{name}` {where}: expected some size or int to be `{name}`, or linear in it"
            )
    return ReadSpec(read, tuple(format_formula(parse_formula(each)) for each in assumed), dict(names.hints()))


def _entries(
    spec: ParamsSpec, bound: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> Iterator[tuple[str, Any]]:
    """Yield the entry of each parameter; an argument in `**kwargs` may be named beside the parameters, too."""
    left = dict(spec._named_args)
    for name, value in bound.items():
        match parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                yield name, _entry(SeqSpec(spec._varargs or []), value, "*args")
            case inspect.Parameter.VAR_KEYWORD:
                keywords: dict[Any, Any] = {
                    **(spec._varkw or {}),
                    **{key: left.pop(key) for key in value if key in left},
                }
                yield name, _entry(DictSpec(keywords), value, "**kwargs")
            case _:
                yield name, _entry(left.pop(name, None), value, name)
    if left:
        raise UsageError(f"the spec names {sorted(left)}, but the inputs are {list(bound)}")


def _entry(spec: Any, value: Any, name: str) -> Any:
    """Return the entry of an input, or of a part of one, as dynamic_shapes has it."""
    parts = keyed_children(value)
    _check_kind(spec, value, parts, name)
    if parts is None:
        return tuple(spec) if isinstance(spec, TensorSpec) else spec
    given = dict(enumerate(spec._entries) if isinstance(spec, SeqSpec) else spec.items() if spec is not None else ())
    keys = [key for key, _ in parts]
    beyond = [key for key in given if key not in keys]
    if beyond:
        raise UsageError(f"the spec of `{name}` has entries for {beyond}, but `{name}` has {keys}")
    read = {key: _entry(given.get(key), part, f"{name}[{key!r}]") for key, part in parts}
    return (
        read if isinstance(value, dict) else tuple(read.values()) if isinstance(value, tuple) else list(read.values())
    )


def _check_kind(spec: Any, value: Any, parts: Any, name: str) -> None:
    if isinstance(value, torch.Tensor):
        kinds: tuple[type, ...] = (TensorSpec,)
    elif parts is None:
        kinds = (IntVar, int, torch.SymInt)
    else:
        kinds = (SeqSpec if isinstance(value, list | tuple) else DictSpec if isinstance(value, dict) else ObjectSpec,)
    if spec is not None and not isinstance(spec, kinds):
        of = f"`{name}`, which is of class {type(value).__name__}"
        expected = "an IntVar, an int" if int in kinds else kinds[0].__name__
        raise UsageError(f"the spec gives {type(spec).__name__} for {of}: expected {expected} or None")


class _Names:
    """Names each variable once: a variable whose name is taken, or that has none, gets a number."""

    def __init__(self, variables: list[Any]) -> None:
        self._variables = {each.sympy_sym: each for each in variables}
        self._names: dict[sympy.Symbol, str] = {}

    def of(self, variable: sympy.Symbol) -> str:
        if variable not in self._names:
            own = re.sub(r"\W|^(?=\d)", "_", variable.name.rpartition("#")[0]) or "_"
            taken, name, number = set(self._names.values()), own, 1
            while name in taken:
                name, number = f"{own}_{number}", number + 1
            self._names[variable] = name
        return self._names[variable]

    @property
    def used(self) -> Iterable[str]:
        """The names so far."""
        return self._names.values()

    def text(self, expr: sympy.Basic) -> str:
        """Return an expression as Python over the names."""
        return str(PythonPrinter().doprint(expr.xreplace({each: sympy.Symbol(self.of(each)) for each in _free(expr)})))

    def entry(self, size: torch.SymInt) -> NamedDim | Expression:
        """Return a variable, or an expression over variables, as an entry of dynamic_shapes."""
        expr = size.node.expr
        line = _line(expr)
        if line is None:
            return Expression(self.text(expr))
        (variable,) = _free(expr)
        text = format_term(line[0] * symbol(self.of(variable)) + line[1])
        known = size.node.shape_env.var_to_range[variable]
        ends = _end(known.lower), _end(known.upper)
        own = self._declared(variable, ends)
        return NamedDim(
            self.of(variable),
            *line,
            ends,
            liftable=False,
            root_text=own,
            text=own if expr == variable else text,
            shown=text,
        )

    def _declared(self, variable: sympy.Symbol, ends: tuple[int | None, int | None]) -> str:
        """Return a variable as source code."""
        given = self._variables.get(variable)
        of_size = (ends[0] is not None and ends[0] >= 0) if given is None else isinstance(given, ShapeVar)
        said = [f"{key}={end}" for key, end in zip(("min", "max"), ends, strict=True) if end is not None]
        said = [f'"{self.of(variable)}"', *(each for each in said if not (of_size and each == "min=0"))]
        return f"{'ShapeVar' if of_size else 'IntVar'}({', '.join(said)})"

    def hints(self) -> Iterator[tuple[str, int]]:
        """Yield the sizes for which compilers should tune, by name."""
        for variable, given in self._variables.items():
            if given.optimization_hint is not None:
                yield self.of(variable), given.optimization_hint


def _end(bound: Any) -> int | None:
    return None if abs(bound) == int_oo else int(bound)


def _free(expr: sympy.Basic) -> list[sympy.Symbol]:
    return sorted(expr.free_symbols, key=str)


def _line(expr: sympy.Basic) -> tuple[int, int] | None:
    """Return `(step, offset)` if the expression is `step*variable + offset`.

    >>> _line(3 * sympy.Symbol("b") - 1), _line(sympy.Symbol("a") * sympy.Symbol("b"))
    ((3, -1), None)
    """
    if len(expr.free_symbols) != 1 or not expr.is_polynomial():
        return None
    (variable,) = expr.free_symbols
    offset = expr.xreplace({variable: sympy.Integer(0)})
    step = expr.xreplace({variable: sympy.Integer(1)}) - offset
    return (int(step), int(offset)) if sympy.expand(expr - step * variable - offset) == 0 else None
