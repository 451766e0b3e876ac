"""The sizes that consumers of a finished program see: the simplest forms that the solver proves.

A size that is constant over the domain becomes that number. Any other size becomes the simplest expression that is
proved equal to it and whose bounds, as torch computes them (`bound_sympy` over the ranges of the symbols), are the
proved bounds: memory is planned by these bounds. For example, `s//(s//2)` becomes 2 where s is even. `s - s//2` is at
most 8, but torch derives only 15, so it becomes `min(8, s - s//2)`.

Law: each replacement is proved wherever the enforced domain holds. A size that stays undecided within the budget is
kept.

The program's metadata is written once (`note_sizes`). Passes that run its operators again under its FakeTensorMode
(run_decompositions, ExecuTorch's passes) get the same sizes (`KnownSizes.of`). Only sizes, strides and offsets of
tensors are replaced: the domain must not fold the conditions of the assertions that enforce it.

Also writes the tensor sizes that hold on the whole domain into the metadata of torch.cond's branches.

Dynamo traces a branch at the example and guards the answers. Behind the guard `n >= 5` it notes `y[:5]` as `[5]`, and
where `n < 5` as `[n]`. The code is the same, each note is right on one side only, and compilers rely on the notes. So
each branch is run again after it is traced, and its views get the sizes that hold in the whole domain: `[min(5, n)]`.

The trace records every assumption: a new question goes to the trial like any other.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.meaning.evaluate import linear, value_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.domain import ranges
from shapeproof.constraints.terms import Term, name_of, symbol
from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.numbers.symbols import ASSERTION
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.shim.storages import restrided, storage_of
from shapeproof.export.shim.trees import graph_modules, is_bare, leaves, map_all
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.size_symbols import SizeSymbols
from shapeproof.export.trace.translate import Untranslatable, Writer
from shapeproof.solver.answers.optimum import grows, least_upper_bound
from shapeproof.solver.answers.simplify import simplest
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts

QUESTION = Budget(rlimit=200_000, exhaustion_points=2**14, work=2**17)
"""The budget of one question about a size: an improvement, not a required proof."""


class KnownSizes:
    """The known sizes in the fake tensors of a program.

    The trial of its ShapeEnv knows what holds for every input that the program takes; `refine` tells torch the proved
    range of a symbol.
    """

    def __init__(self, env: SizeSymbols, refine: Callable[[sympy.Symbol], None]) -> None:
        self._env = env
        self._facts = env.trial.facts.within(QUESTION)
        self._refine = functools.cache(refine)
        self._known: dict[sympy.Expr, sympy.Expr] = {}
        self._written: set[sympy.Expr] = set()

    def of(self, value: Any, given: Any = ()) -> Any:
        """Return the value with the known sizes in its tensors; operands (`given`) are returned unchanged."""
        same = {id(leaf) for leaf in leaves(given)}
        return map_all(value, lambda leaf: leaf if id(leaf) in same else self._tensor(leaf))

    def number(self, value: Any) -> Any:
        """Return a size in its known form."""
        if not isinstance(value, torch.SymInt):
            return value
        known = self._env.create_symintnode(self.expression(value.node.expr), hint=None)
        self._env.note_example(known)
        return known

    def _tensor(self, tensor: Any) -> Any:
        if not is_bare(tensor) or storage_of(tensor) is None or tensor.requires_grad:
            return tensor
        noted = (*tensor.shape, *tensor.stride())  # nobody plans by an offset: it stays a sum of what was cut off
        symbolic = (each.node.expr for each in noted if isinstance(each, torch.SymInt))
        if all(self.expression(expr) is expr for expr in symbolic):
            return tensor
        known, rank = [self.number(each) for each in noted], tensor.dim()
        return restrided(tensor, known[:rank], known[rank:], tensor.storage_offset())

    def has_written(self, expr: sympy.Expr) -> bool:
        """True if an expression is the known form of some size."""
        return expr in self._written

    def expression(self, expr: sympy.Expr) -> sympy.Expr:
        """Return the known form of a size's expression."""
        if expr not in self._known:
            self._known[expr] = expr
            with contextlib.suppress(Untranslatable, Unevaluable):
                found = self._simplest(expr)
                self._known[expr], self._known[found] = found, found
                self._written.add(found)
        return self._known[expr]

    def _simplest(self, expr: sympy.Expr) -> sympy.Expr:
        for free in expr.free_symbols:
            if not symbols.is_of_input(free):  # an operator that is run again makes new symbols
                self._refine(free)
        found = simplest(self._env.translator.term(expr), self._facts)
        if found.is_constant:
            return sympy.Integer(found.constant_value)
        if expr.is_Symbol and found is self._env.terms.get(expr):
            return expr
        writer = _Writer(self._roots(expr, found))
        forms = [expr]
        with contextlib.suppress(Untranslatable):
            forms.append(writer.write(found))
        if len(forms) > 1 and grows(found, self._facts):  # no form has an upper bound
            return min(forms, key=writer.size)
        uppers = [symbols.upper_bound(form, self._env.var_to_range) for form in forms]
        best, upper = min(
            zip(forms, uppers, strict=True), key=lambda form: (form[1] is None, form[1] or 0, writer.size(form[0]))
        )
        return self._bounded(best, upper, found)

    def _bounded(self, expr: sympy.Expr, upper: int | None, term: Term) -> sympy.Expr:
        """Return an expression whose upper bound, as torch computes it, is the least upper bound, if that is found."""
        if upper is not None and self._attains(term, upper):
            return expr
        least = least_upper_bound(term, self._facts)
        return symbols.at_most(expr, least) if isinstance(least, int) and (upper is None or least < upper) else expr

    def _attains(self, term: Term, upper: int) -> bool:
        """True if the term attains the upper bound where all symbols have their greatest values."""
        top = {name: self._facts.range_of(name).upper for name in term.symbols}
        if None in top.values():
            return False
        return self._facts.contains(top) and value_at(term, top) == upper  # type: ignore[arg-type]

    def _roots(self, expr: sympy.Expr, term: Term) -> dict[str, tuple[sympy.Symbol, int, int]]:
        """Return for each name in a term an input size `offset + step*name`, or a data symbol of `expr`."""
        found: dict[str, tuple[sympy.Symbol, int, int]] = {}
        for free, read in self._env.terms.items():
            for name in read.symbols & term.symbols if symbols.is_of_input(free) or free in expr.free_symbols else ():
                if read is symbol(name) and (name not in found or free in expr.free_symbols):
                    found[name] = (free, 0, 1)
                elif name not in found and symbols.is_of_input(free) and (form := linear(read)) is not None:
                    found[name] = (free, form.offset, form.step)
        return found


class _Writer(Writer):
    """Writes terms over input sizes: where `s` is `2*d + 1`, `4*d` becomes `2*(s - 1)`, and `d` `(s - 1)//2`."""

    def __init__(self, roots: Mapping[str, tuple[sympy.Symbol, int, int]]) -> None:
        super().__init__({})
        self._roots = roots
        self._symbols = {
            name: free if (offset, step) == (0, 1) else symbols.quotient(free - offset, step)
            for name, (free, offset, step) in roots.items()
        }

    def _monomial(self, factors: Any, coefficient: int) -> sympy.Expr:
        written = []
        for atom, power in factors:
            free, offset, step = self._roots.get(getattr(atom, "name", ""), (None, 0, 1))
            left = power
            while free is not None and step != 1 and left and coefficient % step == 0:
                coefficient, left = coefficient // step, left - 1
                written.append(free - offset)
            written.append(sympy.Pow(self._written[atom], left))
        return sympy.Mul(coefficient, *written)


def proved_bounds(term: Term, facts: Facts) -> Interval:
    """Return bounds of a size that hold wherever the facts hold, as tight as an inexpensive proof gives."""
    bounds = facts.known.bounds(facts.reduce(term))
    name = name_of(term)
    if name is not None:  # the reduced term may be another symbol's, and lose what was stated of this one
        bounds &= ranges(each for each in facts.formulas if name in each.symbols).get(name, Interval())
    if bounds.upper is None:
        least = least_upper_bound(term, facts.within(QUESTION))
        return Interval(bounds.lower, least if isinstance(least, int) else None)
    return bounds


def note_sizes(program: torch.export.ExportedProgram, known: KnownSizes) -> None:
    """Write the known sizes into the metadata of a program's tensors, and of the sizes that it reads off them.

    Inputs stay unchanged: the assertions are about the input sizes.
    """
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            _note(node, known, outermost=module is program.graph_module)


def _note(node: torch.fx.Node, known: KnownSizes, *, outermost: bool) -> None:
    if "val" not in node.meta or (outermost and node.op != "call_function"):
        return
    value = node.meta["val"]
    if isinstance(value, torch.SymInt):
        read = known_of(node.target).reads
        source = node.args[0].meta.get("val") if read and isinstance(node.args[0], torch.fx.Node) else None
        if read and isinstance(source, torch.Tensor) and node.args[0].op != "placeholder":  # type: ignore[union-attr]
            node.meta["val"] = read(source, *node.args[1:])
    else:
        node.meta["val"] = known.of(value)


_COND = torch.ops.higher_order.cond


def note_branches(program: torch.export.ExportedProgram, env: ProofShapeEnv) -> None:
    """Note the results of a program's branches, computed from their operands' metadata, under its FakeTensorMode."""
    with replaced(env.trial.shared, views=env.trial.known):  # views are written as on the whole domain
        _note_branches(program.graph_module, {node: node.meta.get("val") for node in program.graph.nodes}, env)


def _note_branches(module: torch.fx.GraphModule, values: dict[torch.fx.Node, Any], env: ProofShapeEnv) -> None:
    for call in module.graph.find_nodes(op="call_function", target=_COND):
        _, taken, other, operands = call.args
        given = torch.fx.map_arg(operands, values.__getitem__)
        for branch in (taken, other):
            _note_sizes(getattr(module, str(branch.target)), given, env)


def _note_sizes(branch: torch.fx.GraphModule, operands: Sequence[Any], env: ProofShapeEnv) -> None:
    """Note the results of a branch if all of its operators return the same when they are run again."""
    values: dict[torch.fx.Node, Any] = {}
    given = iter(operands)
    before, writes = (
        env.brought,
        nodes.mutates(branch.graph),
    )  # an operator that mutates is not run: the notes of other nodes would change
    for node in branch.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "call_function" and not writes and _runs_again(node):
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = env.operators.record(node.target, args, kwargs)
        else:
            values[node] = node.meta.get("val")
    made = {
        node: value for node, value in values.items() if isinstance(value, torch.Tensor) and node.op != "placeholder"
    }
    if env.brought == before and all(map(_is_alike, made, made.values())):
        for node, value in made.items():
            node.meta["val"] = value
    _note_branches(branch, values, env)


def _is_alike(node: torch.fx.Node, value: torch.Tensor) -> bool:
    """True if a tensor equals a node's metadata except in sizes.

    The two differ if a mode was active while the branch was traced and is off now.
    """
    noted = node.meta.get("val")
    return isinstance(noted, torch.Tensor) and all(
        getattr(noted, name) == getattr(value, name) for name in ("dtype", "device", "layout", "requires_grad", "ndim")
    )


def _runs_again(node: torch.fx.Node) -> bool:
    """True if an operator returns the same when it is run again, and checks nothing."""
    taken = node.meta.get("unbacked_bindings") and known_of(node.target).view is None
    return not schemas.is_higher_order(node.target) and not taken and node.target is not ASSERTION
