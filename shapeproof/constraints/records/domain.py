"""What the user declared about the sizes: variables, and formulas with where each was written. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shapeproof.constraints.formulas import And, Compare, Formula, eq
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.terms import FloorDiv, Symbol, modulo, symbol

VariableKind: TypeAlias = Literal["size", "int", "unbacked", "dim"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a declaration was written, and how."""

    text: str
    where: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """One claim about the sizes."""

    formula: Formula
    origin: Origin


@dataclass(frozen=True, slots=True)
class Variable:
    """A symbol: its name in formulas, what the user calls it (`x.shape[0]`), and what it is."""

    name: str
    user_name: str
    kind: VariableKind


@dataclass(frozen=True, slots=True)
class Domain:
    """The points at which every declaration holds.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> origin = Origin("Dim('b', max=8)")
    >>> domain = Domain({"b": Variable("b", "x.shape[0]", "dim")}, (Declaration(parse_formula("1 <= b <= 8"), origin),))
    >>> domain.ranges(), domain.user_names
    ({'b': Interval(lower=1, upper=8)}, {'b': 'x.shape[0]'})
    """

    symbols: Mapping[str, Variable] = field(default_factory=dict)
    declarations: tuple[Declaration, ...] = ()

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """What was declared."""
        return tuple(declaration.formula for declaration in self.declarations)

    @property
    def user_names(self) -> dict[str, str]:
        """What the user calls each symbol: the `rename` of text.py."""
        return {name: variable.user_name for name, variable in self.symbols.items()}

    def ranges(self) -> dict[str, Interval]:
        """The bounds that single declarations put on single symbols, for every symbol that has one."""
        return ranges(self.formulas)


def ranges(formulas: Iterable[Formula]) -> dict[str, Interval]:
    """The bounds of symbols that are written as such among the formulas: `n <= 8`, `n == 3`, or these joined by `and`.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> ranges([parse_formula("2*n <= 17"), parse_formula("n >= 3 and m == 4")])
    {'n': Interval(lower=3, upper=8), 'm': Interval(lower=4, upper=4)}
    """
    found: dict[str, Interval] = {}
    waiting = list(formulas)[::-1]
    while waiting:
        match waiting.pop():
            case And(args):
                waiting.extend(reversed(args))
            case Compare("<=" | "==" as op, term):
                match [monomial for monomial in term.poly if monomial]:
                    case [((Symbol(name), 1),) as monomial] if not term.checks:
                        bound = _bound(op, term.poly[monomial], term.poly.get(UNIT, 0))
                        found[name] = found.get(name, Interval()) & bound
    return found


def _bound(op: str, coefficient: int, offset: int) -> Interval:
    """The values of n with `coefficient*n + offset op 0`; the coefficient is 1 or -1, as in every such comparison."""
    value = -offset * coefficient
    if op == "==":
        return Interval(value, value)
    return Interval(None, value) if coefficient > 0 else Interval(value, None)


def residue(name: str, formula: Formula) -> tuple[int, int] | None:
    """`(modulus, rest)` if the formula says just that `name % modulus == rest`.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> residue("n", parse_formula("n % 16 == 3"))
    (16, 3)
    """
    for node in postorder(formula):
        if isinstance(node, FloorDiv) and node.divisor.is_constant and node.divisor.constant_value > 1:
            modulus = node.divisor.constant_value
            rest = next((value for value in range(modulus) if holds_at(formula, {name: value})), 0)
            if formula is eq(modulo(symbol(name), modulus), rest):
                return modulus, rest
    return None
