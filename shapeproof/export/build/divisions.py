"""Writes divisions of sizes such that every consumer computes what Python does.

Python rounds a quotient down. ONNX's Div rounds it towards 0, and ExecuTorch's `mod` has the sign of the dividend: at
t = 8, `(t - 9)//4` is -1, and 0 in ONNX Runtime. All agree where the dividend is at least 0 and the divisor positive.
A division is rewritten unless the solver proves that it is such a one. For b >= 1:

    a // b == -((b - 1 - a)//b)       where a <= 0: `-t // 8` becomes `-((t + 7)//8)`
    a // b == (a + k*b)//b - k        where a >= -k*b: with t >= 4, `(t - 9)//4` becomes `(t - 1)//4 - 2`
    a // b == q - (b - 1 - r)//b      else; q is `a // b`, rounded down or towards 0, and r = a - q*b is within -b..b

For b <= -1, `a // b` is `-a // -b`, and where the sign of b is open, `a*b // (b*b)`. The rules of `a % b` follow.

Law: each equation holds for all integers a. An assertion keeps its own divisions: the sign of b may rest on it.

Also writes rounded floats of sizes as divisions, where the solver proves that rounding cannot matter.

`math.ceil(t / 2)` becomes `-(-t // 2)` for t < 2**52. Law: it is the same integer for every input of the program. What
stays a float, a runtime may compute otherwise than Python: torch.onnx writes floats of 32 bits, and no `//` for them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Term
from shapeproof.export.graph import nodes, readback
from shapeproof.export.graph.emit import Computation, has_graph_form
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.known.known_sizes import QUESTION, proved_bounds
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.knowledge import within
from shapeproof.solver.prove import implied

_DIVISIONS = (operator.floordiv, operator.mod)


def write_divisions(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Rewrite the divisions of sizes whose operands may be negative; first those that are rounded floats.

    This is the last change of a program's graphs: their code is generated.

    Args:
        program: modified in place.
        facts: the facts that hold for every input of the program.
    """
    write_rounded(program, facts)
    read, facts = translator_of(program).read, facts.within(QUESTION)
    for module in graph_modules(program.graph_module):
        checking = nodes.checking(module.graph)
        for node in nodes.calls_of(module.graph, *_DIVISIONS):
            if all(isinstance(nodes.metadata(each), int | torch.SymInt) for each in node.args):
                _write(_Division(node, read, facts), [user for user in node.users if user in checking])
        module.recompile()


def _write(division: _Division, checks: Sequence[torch.fx.Node]) -> None:
    """Make the node of a division compute the same alike, for all its users but these checks."""
    node = division.node
    if len(checks) < len(node.users) and (made := division.written()) is not None:
        nodes.become(node, made, checks)


class _Division:
    """A division in a graph.

    Args:
        node: `a // b` or `a % b`.
        read: returns the term of a size.
        facts: the facts that hold for every input of the program.
    """

    def __init__(self, node: torch.fx.Node, read: Callable[[Any], Term], facts: Facts) -> None:
        self.node = node
        self._facts = facts
        self._call = functools.partial(nodes.call_beside, node)
        self._read: Callable[[Any], Term] = lambda number: read(nodes.metadata(number))

    def written(self) -> Any:
        """Return a new node of the same number that every consumer computes alike; None if this one is such."""
        a, b = self.node.args
        by, sign = operator.floordiv if self._is_quotient else operator.mod, self._sign(b)
        if sign > 0:
            return None if self._is_counted(a) or self._is_corrected() else self._over(by, a, b)
        if sign < 0:
            found = self._over(by, self._call(operator.neg, a), self._call(operator.neg, b))
            return found if self._is_quotient else self._call(operator.neg, found)
        quotient = self._over(operator.floordiv, self._call(operator.mul, a, b), self._call(operator.mul, b, b))
        return quotient if self._is_quotient else self._rest(a, quotient, b)

    @property
    def _is_quotient(self) -> bool:
        return self.node.target is operator.floordiv

    def _over(self, by: Callable[..., Any], a: Any, b: Any) -> Any:
        """Return `a // b` or `a % b` for a positive b."""
        if self._is_counted(a):
            return self._call(by, a, b)
        last, is_quotient = self._call(operator.sub, b, 1), by is operator.floordiv
        if self._holds(f.le(self._read(a), 0)):
            found = self._call(by, self._call(operator.sub, last, a), b)
            return self._call(operator.neg, found) if is_quotient else self._call(operator.sub, last, found)
        lower = self._least(a)
        if lower is not None:
            steps = max(0, -(lower // max(1, self._least(b) or 1)))
            found = self._call(by, self._call(operator.add, a, self._call(operator.mul, b, steps)), b)
            return self._call(operator.sub, found, steps) if is_quotient else found
        quotient = _corrected(self._call, self._call(operator.floordiv, a, b), a, b)
        return quotient if is_quotient else self._rest(a, quotient, b)

    def _rest(self, a: Any, quotient: Any, b: Any) -> Any:
        return self._call(operator.sub, a, self._call(operator.mul, quotient, b))

    def _is_corrected(self) -> bool:
        """True if the program uses this quotient only to correct it."""
        a, b = self.node.args
        uses = _existing(operator.mul, self.node, b), _corrected(_existing, self.node, a, b)
        return self._is_quotient and uses[1] is not None and set(self.node.users) <= set(uses)

    def _sign(self, number: Any) -> int:
        term = self._read(number)
        return 1 if self._holds(f.ge(term, 1)) else -1 if self._holds(f.le(term, -1)) else 0

    def _is_counted(self, number: Any) -> bool:
        return self._holds(f.ge(self._read(number), 0))

    def _least(self, number: Any) -> int | None:
        """Return a lower bound of a number; None if no bound is found."""
        term = self._read(number)
        lower = proved_bounds(term, self._facts).lower
        return (-proved_bounds(-term, self._facts)).lower if lower is None else lower

    def _holds(self, formula: Formula) -> bool:
        return implied(formula, self._facts)


def _corrected(call: Callable[..., Any], quotient: Any, a: Any, b: Any) -> Any:
    """Return `a // b` for a positive b, given a quotient that may be rounded towards 0."""
    rest = call(operator.sub, a, call(operator.mul, quotient, b))
    return call(operator.sub, quotient, call(operator.floordiv, call(operator.sub, call(operator.sub, b, 1), rest), b))


def _existing(target: Callable[..., Any], *args: Any) -> Any:
    """Return the node of a call that is in the graph, or the value of a call of plain numbers; else None."""
    users = next((arg.users for arg in args if isinstance(arg, torch.fx.Node)), None)
    if users is None:
        return None if None in args else target(*args)
    return next((user for user in users if user.target is target and user.args == args), None)


def write_rounded(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Write rounded floats as divisions.

    Args:
        program: modified in place.
        facts: the facts that hold for every input of the program.
    """
    for module in graph_modules(program.graph_module):
        checking = nodes.checking(module.graph)
        for node, term in list(_rounded(module.graph)):
            operands = {each.name: each for each in module.graph.nodes if each.name in term.symbols}
            whole = _known(operands, translator_of(program), facts).reduce(term)
            if not node.users.keys() <= checking and operands and _is_whole(whole):
                _write_whole(node, whole, operands, [user for user in node.users if user in checking])


def left_in_floats(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    """Yield the integers, quotients and remainders that a program computes from floats, other than to check them."""
    for module in graph_modules(program.graph_module):
        checking = nodes.checking(module.graph)
        for node in module.graph.nodes:
            inexact = isinstance(nodes.metadata(node), torch.SymInt) or node.target in _DIVISIONS
            if inexact and _takes_floats(node) and not node.users.keys() <= checking:
                yield node


def _takes_floats(node: torch.fx.Node) -> bool:
    return any(isinstance(nodes.metadata(arg), float | torch.SymFloat) for arg in node.args)


def _rounded(graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, t.Term]]:
    """Yield each integer that a graph computes from floats, as a term of other integers, named after their nodes."""
    values: dict[torch.fx.Node, readback.Value] = {}
    for node in graph.nodes:
        number = nodes.metadata(node)
        value = readback.value_of(node, values) if isinstance(number, torch.SymFloat) or _takes_floats(node) else None
        if isinstance(number, torch.SymInt) and isinstance(value, t.Term):
            yield node, value
        values[node] = t.symbol(node.name) if isinstance(number, torch.SymInt) else value


def _known(operands: Mapping[str, torch.fx.Node], translator: Translator, facts: Facts) -> Facts:
    """Return the bounds of operands as facts about their names."""
    bounds = {name: proved_bounds(translator.read(nodes.metadata(node)), facts) for name, node in operands.items()}
    return Facts(each for name, interval in bounds.items() for each in within(t.symbol(name), interval))


def _is_whole(term: t.Term) -> bool:
    """True if a graph can compute a term without floats."""
    return not any(isinstance(part, t.Real) for part in postorder(term)) and has_graph_form(f.eq(term, 0))


def _write_whole(
    node: torch.fx.Node, whole: t.Term, operands: Mapping[str, torch.fx.Node], checks: list[torch.fx.Node]
) -> None:
    """Make a node compute a term for all its users but these checks; erase the floats that nobody uses any more."""
    call: Any = functools.partial(nodes.call_beside, node)
    made, floats = Computation(operands, call).term(whole), node.all_input_nodes
    if whole.is_constant or made in operands.values():
        made = call(operator.add, call(operator.mul, next(iter(operands.values())), 0), made)
    nodes.become(node, made, checks)
    for each in floats:
        _erase_unused(each)


def _erase_unused(node: torch.fx.Node) -> None:
    if isinstance(nodes.metadata(node), torch.SymFloat) and node.op == "call_function" and not node.users:
        operands = node.all_input_nodes
        node.graph.erase_node(node)
        for each in operands:
            _erase_unused(each)
