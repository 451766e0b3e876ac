"""The user's declarations about sizes: variables, and formulas with the place of each declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Flag, auto
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
    """The text of a declaration, and where it was written: its file is read when somebody asks.

    Attributes:
        name: the name by which `find` finds the place.
    """

    text: str
    name: str = ""
    find: Callable[[str], SourceLocation | None] | None = None

    @property
    def where(self) -> SourceLocation | None:
        """The place; None if it is unknown."""
        return None if self.find is None else self.find(self.name)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One claim about the sizes."""

    formula: Formula
    origin: Origin


class Role(Flag):
    """What may be inferred about a symbol, beyond the claims that were written."""

    CLAIMED = 0
    """Nothing."""
    LIFTABLE = auto()
    """The lower bound may rise to 1 or 2: a named Dim without written bounds."""
    INFERRED = auto()
    """The range may be narrowed to what the model supports: Dim.AUTO and Dim.DYNAMIC without bounds."""
    DYNAMIC = auto()
    """It must not become a constant: Dim.DYNAMIC."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A symbol: its name in formulas, the user's name for it (`x.shape[0]`), its kind, and what may be inferred."""

    name: str
    user_name: str
    kind: VariableKind
    role: Role = Role.CLAIMED


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
        """The declared formulas."""
        return tuple(declaration.formula for declaration in self.declarations)

    @property
    def user_names(self) -> dict[str, str]:
        """Symbol -> the user's name for it; the `rename` argument of text.py."""
        return {name: variable.user_name for name, variable in self.symbols.items()}

    def is_data(self, name: str) -> bool:
        """True if a symbol stands for a number from data (unbacked), not for a declared size."""
        return name not in self.symbols

    def about_data(self, formula: Formula) -> bool:
        """True if a formula contains a number from data."""
        return any(map(self.is_data, formula.symbols))

    def of_role(self, role: Role) -> frozenset[str]:
        """Return the symbols that have one of these roles.

        >>> domain = Domain({"b": Variable("b", "x.shape[0]", "dim", Role.LIFTABLE)})
        >>> domain.of_role(Role.LIFTABLE | Role.INFERRED), domain.of_role(Role.DYNAMIC)
        (frozenset({'b'}), frozenset())
        """
        return frozenset(name for name, variable in self.symbols.items() if variable.role & role)

    def claimed(self) -> Domain:
        """Return the domain with nothing left to be inferred."""
        return self._with_roles(lambda _: Role.CLAIMED)

    def inferring(self) -> Domain:
        """Return the domain with every range left to be narrowed."""
        return self._with_roles(lambda role: role | Role.INFERRED)

    def _with_roles(self, change: Callable[[Role], Role]) -> Domain:
        changed = {name: replace(each, role=change(each.role)) for name, each in self.symbols.items()}
        return replace(self, symbols=changed)

    def ranges(self) -> dict[str, Interval]:
        """Return the bounds that single declarations put on single symbols, for every symbol with such a bound."""
        return ranges(self.formulas)


def ranges(formulas: Iterable[Formula]) -> dict[str, Interval]:
    """Return the bounds that the formulas state directly: `n <= 8`, `n == 3`, or these joined by `and`.

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
    """Return the values of n with `coefficient*n + offset op 0`; in canonical form, the coefficient is 1 or -1."""
    value = -offset * coefficient
    if op == "==":
        return Interval(value, value)
    return Interval(None, value) if coefficient > 0 else Interval(value, None)


def residue(name: str, formula: Formula) -> tuple[int, int] | None:
    """Return `(modulus, rest)` if the formula says exactly that `name % modulus == rest`; otherwise None.

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
