"""A domain in terms of the sizes of inputs alone: what is declared as `16*_height` is said of `x.shape[2]`.

Law: a point of the sizes satisfies what is said here just where it comes from values of the symbols that satisfy the
domain. So who holds a contract need not know how a size was declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Compare, Formula
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import FloorDiv, Term, constant, modulo, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.solver.learned.substitution import substitute


@dataclass(frozen=True, slots=True)
class _Source:
    """A size that is `step*s + offset` of a symbol that is no size itself."""

    size: str
    step: int
    offset: int


def domain_of_sizes(formulas: Sequence[Formula], inputs: Inputs) -> tuple[str, ...]:
    """The formulas of a domain in the user's names of sizes, and of which residues the sizes are that were derived."""
    sources = _sources(inputs)
    said = [_of_sizes(formula, sources) for formula in formulas]
    said += [f.eq(modulo(symbol(each.size), constant(each.step)), each.offset % each.step) for each in sources.values()]
    texts = (format_formula(formula, rename=inputs.user_names) for formula in said if formula is not f.TRUE)
    return tuple(dict.fromkeys(texts))


def _sources(inputs: Inputs) -> dict[str, _Source]:
    """For each symbol that no size is, the first size that it makes."""
    found: dict[str, _Source] = {}
    sizes = {term for leaf in inputs.leaves for term in leaf.terms}
    for leaf in inputs.leaves:
        for index, term in enumerate(leaf.terms):
            for name in term.symbols:
                if inputs.user_names[name] == name and symbol(name) not in sizes and name not in found:
                    offset = evaluate(term, {name: 0})
                    found[name] = _Source(leaf.size_name(index), evaluate(term, {name: 1}) - offset, offset)
    return found


def _of_sizes(formula: Formula, sources: dict[str, _Source]) -> Formula:
    for name in sorted(formula.symbols & sources.keys()):
        source = sources[name]
        size = symbol(source.size) - constant(source.offset)
        if isinstance(formula, Compare) and not any(isinstance(node, FloorDiv) for node in postorder(formula)):
            linear = _linear(formula, name, source)
            formula = formula if linear is None else linear
        if name in formula.symbols:
            replaced = substitute(formula, {name: size // constant(source.step)})
            formula = replaced if isinstance(replaced, Formula) else formula
    return formula


def _linear(formula: Compare, name: str, source: _Source) -> Formula | None:
    """The comparison times the step, in terms of the size, if it is linear in the symbol."""
    rest, one = (substitute(formula.term, {name: constant(value)}) for value in (0, 1))
    if not isinstance(rest, Term) or not isinstance(one, Term) or not (one - rest).is_constant:
        return None
    factor = one - rest
    if factor * symbol(name) + rest is not formula.term:
        return None
    return f.compare(formula.op, source.step * rest + factor * (symbol(source.size) - constant(source.offset)))
