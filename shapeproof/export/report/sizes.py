"""Expresses a domain by the sizes of inputs alone: `_height`, of a size declared as `16*_height`, becomes `x.shape[2]`.

Law: sizes satisfy the result exactly if they come from values of the symbols that satisfy the domain. So a user of the
contract need not know how a size was declared.

Also the tensors of a program with sizes from data, and the bounds of these sizes, as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Compare, Formula
from shapeproof.constraints.meaning.evaluate import Linear, linear
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import FloorDiv, Term, constant, modulo, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.solver.learned.reduction import substitute


def domain_of_sizes(formulas: Sequence[Formula], inputs: Inputs) -> tuple[str, ...]:
    """Return the formulas of a domain in the user's names of sizes, and the residues of derived sizes."""
    sources = _sources(inputs)
    said = [_of_sizes(formula, sources) for formula in formulas]
    said += [f.eq(modulo(size, constant(form.step)), form.offset % form.step) for size, form in sources.values()]
    texts = (format_formula(formula, rename=inputs.user_names) for formula in said if formula is not f.TRUE)
    return tuple(dict.fromkeys(texts))


def _sources(inputs: Inputs) -> dict[str, tuple[Term, Linear]]:
    """Return, for each symbol that is not itself a size, the first size derived from it, and how that is derived."""
    found: dict[str, tuple[Term, Linear]] = {}
    sizes = {term for leaf in inputs.leaves for term in leaf.terms}
    for leaf in inputs.leaves:
        for index, term in enumerate(leaf.terms):
            form = linear(term)
            if form is not None and inputs.user_names[form.name] == form.name and symbol(form.name) not in sizes:
                found.setdefault(form.name, (symbol(leaf.size_name(index)), form))
    return found


def _of_sizes(formula: Formula, sources: dict[str, tuple[Term, Linear]]) -> Formula:
    for name in sorted(formula.symbols & sources.keys()):
        size, form = sources[name]
        scaled = size - constant(form.offset)
        if isinstance(formula, Compare) and not any(isinstance(node, FloorDiv) for node in postorder(formula)):
            multiplied = _multiplied(formula, form, scaled)
            formula = formula if multiplied is None else multiplied
        if name in formula.symbols:
            formula = substitute(formula, {name: scaled // constant(form.step)})
    return formula


def _multiplied(formula: Compare, form: Linear, scaled: Term) -> Formula | None:
    """Multiply a comparison by the step and express it by the size, if it is linear in the symbol; else return None."""
    rest, one = (substitute(formula.term, {form.name: constant(value)}) for value in (0, 1))
    factor = one - rest
    if not factor.is_constant or factor * symbol(form.name) + rest is not formula.term:
        return None
    return f.compare(formula.op, form.step * rest + factor * scaled)


@dataclass(frozen=True, slots=True)
class Bound:
    """A tensor of the program with a size that comes from data.

    `name` is its name in the graph. `sizes` are texts: a number, `<=25` for a least upper bound, or `?`. `limits` are
    the same as numbers, None if there is no bound. `missing` says what would bound an unbounded size.

    >>> print(Bound("nonzero", "i64", ("<=25", "2"), (25, 2)))
    nonzero: i64[<=25, 2]
    """

    name: str
    dtype: str
    sizes: tuple[str, ...]
    limits: tuple[int | None, ...]
    missing: str = ""

    def __str__(self) -> str:
        missing = f"   {self.missing}" if self.missing else ""
        return f"{self.name}: {self.dtype}[{', '.join(self.sizes)}]{missing}"


class Bounds(tuple[Bound, ...]):
    """The tensors of a program with sizes from data; a notebook shows them as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        from shapeproof.tables import table

        rows = [(each.name, each.dtype, ", ".join(each.sizes), each.missing) for each in self]
        return table(("from data", "dtype", "sizes", "what would bound it"), rows)
