"""Computes sizes and conditions by operators that a graph may hold; it works on nodes and on plain sizes.

Only operators that `torch.export.save` can write are used. A formula that needs others (an opaque function, `round` of
a float) raises NoGraphForm.

Also rewrites operations on symbolic numbers that `torch.export.save` cannot write by operations that it can.

Law: each replacement has the same value for all operands. Python computes it at run time.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.operators import COMPARISONS, REAL
from shapeproof.constraints.terms import Term
from shapeproof.contract.sizes import plainly
from shapeproof.export.graph import nodes
from shapeproof.export.graph.nodes import insert_call
from shapeproof.export.shim.trees import graph_modules, leaves

_INTEGER: Mapping[str, Callable[..., Any]] = {
    "pow": operator.pow,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "and": operator.and_,
    "or": operator.or_,
}
_REAL: Mapping[str, Callable[..., Any]] = {
    **{op: own for op, own in REAL.items() if own.__module__ == operator.add.__module__},
    **{op: symbolic for op in REAL if (symbolic := getattr(torch, f"sym_{op}", None))},
    "pow": operator.pow,
}
"""Python's operators, and torch's functions of symbolic numbers."""


class NoGraphForm(ValueError):
    """A formula that the operators of a graph cannot compute."""


def has_graph_form(formula: Formula) -> bool:
    """True if the operators of a graph can compute the formula."""
    try:
        Computation(dict.fromkeys(formula.symbols), lambda *_: None).formula(formula)
    except NoGraphForm:
        return False
    return True


def absolute(call: Callable[..., Any], value: Any, *, real: bool) -> Any:
    """Return `max(value, -value)`; for floats, plus 0.0: the maximum may be -0.0, and -0.0 + 0.0 is 0.0."""
    larger = call(torch.sym_max, value, call(operator.neg, value))
    return call(operator.add, larger, 0.0) if real else larger


class Computation:
    """Computes terms and formulas from the values of their symbols, to which the caller may add more later.

    `call` applies an operator to values.
    """

    def __init__(self, symbols: Mapping[str, Any], call: Callable[..., Any] = plainly) -> None:
        self._symbols = symbols
        self._call = call
        self._terms: dict[Term, Any] = {}

    def formula(self, formula: Formula) -> Any:
        """Return the value of a formula.

        Raises:
            NoGraphForm: the operators of a graph cannot compute it.
        """
        match formula:
            case f.Compare(op, term):
                plus = [(factors, value) for factors, value in term.monomials if value > 0]
                minus = [(factors, -value) for factors, value in term.monomials if value < 0]
                return self._call(COMPARISONS[op], self._sum(plus), self._sum(minus))
            case f.RealCompare(op, left, right, negated):
                condition = self._call(COMPARISONS[op], self._number(left), self._number(right))
                return self._call(torch.sym_not, condition) if negated else condition
            case f.And(parts):
                return functools.reduce(self._joined(operator.and_), map(self.formula, parts))
            case f.Or(parts):
                return functools.reduce(self._joined(operator.or_), map(self.formula, parts))
            case _ if formula is f.TRUE or formula is f.FALSE:
                return formula is f.TRUE
            case _:
                raise NoGraphForm(str(formula))

    def term(self, term: Term) -> Any:
        """Return the value of a term."""
        if term not in self._terms:
            self._terms[term] = self._sum(term.monomials)
        return self._terms[term]

    def _sum(self, monomials: Iterable[tuple[Any, int]]) -> Any:
        products = [self._monomial(factors, coefficient) for factors, coefficient in monomials]
        return functools.reduce(self._joined(operator.add), products) if products else 0

    def _monomial(self, factors: Any, coefficient: int) -> Any:
        values = [self._atom(atom) for atom, power in factors for _ in range(power)]
        if coefficient != 1 or not values:
            values.insert(0, coefficient)
        return functools.reduce(self._joined(operator.mul), values)

    def _atom(self, atom: t.Atom) -> Any:
        match atom:
            case t.Symbol(name) if name in self._symbols:
                return self._symbols[name]
            case t.FloorDiv(numerator, divisor):
                return self._call(operator.floordiv, self.term(numerator), self.term(divisor))
            case t.Min(args):
                return functools.reduce(self._joined(torch.sym_min), map(self.term, args))
            case t.Max(args):
                return functools.reduce(self._joined(torch.sym_max), map(self.term, args))
            case t.Where(condition, then, otherwise):
                return self._call(torch.sym_ite, self.formula(condition), *self._alike(then, otherwise))
            case t.Apply(op, args):
                return self._applied(op, [self._number(arg) for arg in args])
            case _:
                raise NoGraphForm(str(atom))

    def _alike(self, then: Term, otherwise: Term) -> list[Any]:
        """Return two values of one type: torch.sym_ite rejects a symbolic integer beside a plain one."""
        sides = [self.term(then), self.term(otherwise)]
        if then.is_constant == otherwise.is_constant:
            return sides
        nothing = self._call(operator.mul, sides[then.is_constant], 0)
        return [self._call(operator.add, nothing, side) if isinstance(side, int) else side for side in sides]

    def _applied(self, op: str, args: Sequence[Any]) -> Any:
        """Return an integer function of a double: `floor(x)` is `int(x // 1.0)`, and `ceil(x)` is `-floor(-x)`."""
        match op:
            case "trunc":
                return self._call(torch.sym_int, *args)
            case "floor":
                return self._call(torch.sym_int, self._call(operator.floordiv, *args, 1.0))
            case "ceil":
                return self._call(operator.neg, self._applied("floor", [self._call(operator.neg, *args)]))
            case _ if op in _INTEGER:
                return self._call(_INTEGER[op], *args)
            case _:
                raise NoGraphForm(op)

    def _number(self, number: t.Term | t.Real) -> Any:
        """Return the value of a term or of a float expression."""
        match number:
            case t.Term():
                return self.term(number)
            case t.FromInt(term):
                return self._call(torch.sym_float, self.term(term))
            case t.RealConstant():
                return number.value
            case t.RealSymbol(name) if name in self._symbols:
                return self._symbols[name]
            case t.RealCall("abs", (value,)):
                return absolute(self._call, self._number(value), real=True)
            case t.RealCall(op, args) if op in _REAL:
                return self._call(_REAL[op], *map(self._number, args))
            case _:
                raise NoGraphForm(str(number))

    def _joined(self, target: Callable[..., Any]) -> Callable[[Any, Any], Any]:
        return functools.partial(self._call, target)


_SQUEEZES = [getattr(torch.ops.aten.squeeze, name) for name in ("default", "dim", "dims")]
_Write = Callable[[Callable[..., torch.fx.Node], torch.fx.Node], Any]
"""Given a function that adds a call before a node, and the node: returns the replacement."""


def make_serializable(program: torch.export.ExportedProgram) -> None:
    """Rewrite the program and its bodies."""
    for module in graph_modules(program.graph_module):
        found = [node for node in module.graph.nodes if _is_to_write(node)]
        for node in found:
            written = _rewrite(node)
            if module is program.graph_module:
                program.graph_signature.replace_all_uses(node.name, written.name)
        if found:
            module.recompile()


def name_squeezed(program: torch.export.ExportedProgram) -> None:
    """Name the dims that each `squeeze` took away where it was traced; at other sizes, it takes no more.

    Law: each result has the rank that is noted. Whether eager takes more away is a question of the trace.
    """
    named = False
    for node in nodes.calls_of(program.graph, *_SQUEEZES):
        x, *dims = nodes.arguments(node).values()
        sizes = list(x.meta["val"].shape)
        asked = leaves(dims) or range(len(sizes))
        ones = [dim for dim in asked if type(sizes[dim]) is int and sizes[dim] == 1]
        if len(ones) < len(asked) and len(sizes) - len(ones) == node.meta["val"].dim():
            node.target, node.args = (_SQUEEZES[-1], (x, ones)) if ones else (torch.ops.aten.alias.default, (x,))
            node.kwargs, named = {}, True
    if named:
        program.graph_module.recompile()


def _is_to_write(node: torch.fx.Node) -> bool:
    if node.target is operator.pow and not (isinstance(node.args[0], int | float) and node.args[0] < 0):
        return False
    return node.target in _WRITTEN and "val" in node.meta


def _rewrite(node: torch.fx.Node) -> Any:
    written = _WRITTEN[node.target](functools.partial(_call, node), node)
    node.replace_all_uses_with(written)
    node.graph.erase_node(node)
    return written


def _call(before: torch.fx.Node, target: Any, *args: Any) -> torch.fx.Node:
    return insert_call(before, target, args)


def _abs(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    return absolute(call, *node.args, real=isinstance(node.meta["val"], torch.SymFloat))


def _sum(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    return functools.reduce(functools.partial(call, operator.add), node.args[0])  # type: ignore[arg-type]


def _power(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    """Raise a negative number, as a node: torch writes a number without brackets, and `-2 ** n` is never positive."""
    base, exponent = node.args
    return call(operator.pow, call(operator.neg, -base), exponent)  # type: ignore[operator]


_WRITTEN: Mapping[Any, _Write] = {
    operator.abs: _abs,
    torch.sym_sum: _sum,
    operator.pow: _power,
}
