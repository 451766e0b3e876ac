"""Expresses a domain by the sizes of inputs alone: `_height`, of a size declared as `16*_height`, becomes `x.shape[2]`.

Law: sizes satisfy the result exactly if they come from values of the symbols that satisfy the domain. So a user of the
contract need not know how a size was declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Compare, Formula
from shapeproof.constraints.meaning.evaluate import linear
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import FloorDiv, constant, modulo, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.solver.learned.reduction import substitute


@dataclass(frozen=True, slots=True)
class _Source:
    """A size `step*s + offset`, where the symbol `s` is not itself a size."""

    size: str
    step: int
    offset: int


def domain_of_sizes(formulas: Sequence[Formula], inputs: Inputs) -> tuple[str, ...]:
    """Return the formulas of a domain in the user's names of sizes, and the residues of derived sizes."""
    sources = _sources(inputs)
    said = [_of_sizes(formula, sources) for formula in formulas]
    said += [f.eq(modulo(symbol(each.size), constant(each.step)), each.offset % each.step) for each in sources.values()]
    texts = (format_formula(formula, rename=inputs.user_names) for formula in said if formula is not f.TRUE)
    return tuple(dict.fromkeys(texts))


def _sources(inputs: Inputs) -> dict[str, _Source]:
    """Return, for each symbol that is not itself a size, the first size derived from it."""
    found: dict[str, _Source] = {}
    sizes = {term for leaf in inputs.leaves for term in leaf.terms}
    for leaf in inputs.leaves:
        for index, term in enumerate(leaf.terms):
            form = linear(term)
            if form is not None and inputs.user_names[form.name] == form.name and symbol(form.name) not in sizes:
                found.setdefault(form.name, _Source(leaf.size_name(index), form.step, form.offset))
    return found


def _of_sizes(formula: Formula, sources: dict[str, _Source]) -> Formula:
    for name in sorted(formula.symbols & sources.keys()):
        source = sources[name]
        size = symbol(source.size) - constant(source.offset)
        if isinstance(formula, Compare) and not any(isinstance(node, FloorDiv) for node in postorder(formula)):
            linear = _linear(formula, name, source)
            formula = formula if linear is None else linear
        if name in formula.symbols:
            formula = substitute(formula, {name: size // constant(source.step)})
    return formula


def _linear(formula: Compare, name: str, source: _Source) -> Formula | None:
    """Multiply a comparison by the step and express it by the size, if it is linear in the symbol; else return None."""
    rest, one = (substitute(formula.term, {name: constant(value)}) for value in (0, 1))
    factor = one - rest
    if not factor.is_constant or factor * symbol(name) + rest is not formula.term:
        return None
    return f.compare(formula.op, source.step * rest + factor * (symbol(source.size) - constant(source.offset)))
