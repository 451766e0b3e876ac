"""Formulas as an SMT-LIB script over the integers, not over the reals.

    Python's a // b   (div a b) for b > 0, (div (- a) (- b)) for b < 0, since SMT-LIB's div leaves a remainder >= 0
    min, max, where   conditionals
    long products     beyond a degree, unknowns: there Z3 heeds neither its resource limit nor its clock
    Apply, Unknown    uninterpreted functions, so that equal arguments give equal values; for Apply, axioms.py adds more
    reals             an uninterpreted sort: doubles have congruence only

Definedness is neither asserted nor assumed: constraints/meaning/evaluate.py states it, and the caller proves it.
Where a formula is undefined, its lowering has an arbitrary value. Law: `unsat` is a proof for all points at which the
formulas are defined; `sat` gives only a candidate, which the caller evaluates.

The lowering produces text instead of Z3's expressions, because any solver can read it and it is built ten times faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shapeproof.constraints import polynomials
from shapeproof.constraints.formulas import And, BooleanConstant, Compare, Formula, Or, RealCompare, Truth
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.polynomials import Monomial
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant, RealSymbol
from shapeproof.constraints.terms import Apply, Extremum, FloorDiv, Symbol, Term, Unknown, Where, from_poly, of_atom
from shapeproof.solver.functions.axioms import axioms, is_strict, rising
from shapeproof.solver.functions.doubles import Bounds

_HIGHEST_DEGREE = 8
_MOST_ALIKE = 8
_USUAL_FACTORS = 128
_MOST_FACTORS = 1024
_USUAL_DIVISORS = 8
_USUAL_QUOTIENTS = 32
_MOST_QUOTIENTS = 64
_MOST_BITS = 512
_LITERAL_DIGITS = 1000
_LARGEST_LITERAL = 10**_LITERAL_DIGITS


@dataclass(frozen=True, slots=True)
class Script:
    """SMT-LIB text that is satisfiable where all the formulas hold, and the names of the symbols in it."""

    text: str
    integers: dict[str, str]
    booleans: dict[str, str]
    exact: bool = True
    """True if the text expresses the formulas completely.

    If not (doubles, bits, long products), `sat` proves nothing.
    """
    weight: int | None = 1
    """The cost of a Z3 step relative to a usual one, since Z3's counter ignores how many products a step handles.

    None if Z3 may not return: its counter stands still while it divides integers of very many digits, multiplies sums
    of very many products, or cuts corners of very many unknown quotients.
    """


def script(formulas: Iterable[Formula], bounds: Bounds | None, *, quotients: bool = False) -> Script:
    """Return the formulas as assertions.

    With `quotients`, a division is an unknown q with `b*q <= a < b*q + b`, not `div`.

    Each of the two encodings decides questions that the other cannot. `bounds` must follow from the formulas or from
    known facts. If `bounds` is None, the script contains no bounds and no axioms.

    >>> from shapeproof.constraints.meaning.intervals import Interval
    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> print(script([parse_formula("h % 4 == 1")], lambda _: Interval()).text)
    (declare-const v0 Int)
    (define-fun q1 () Int (div v0 4))
    (assert (= (+ v0 (* (- 4) q1) (- 1)) 0))
    """
    lowering = _Lowering(bounds, quotients=quotients)
    assertions = [f"(assert {lowering.text_of(formula)})" for formula in formulas]
    text = "\n".join([*lowering.lines, *assertions])
    return Script(text, lowering.integers, lowering.booleans, lowering.exact, lowering.weight())


class _Lowering:
    """The definitions so far, and the text that refers to each node."""

    def __init__(self, bounds: Bounds | None, *, quotients: bool) -> None:
        self._bounds = bounds or (lambda _: Interval())
        self._quotients = quotients
        self._with_axioms = bounds is not None
        self._texts: dict[Node, str] = {}
        self._functions: dict[str, str] = {}
        self._products: dict[Term, str] = {}
        self._rising: dict[object, list[tuple[str, str]]] = {}
        self.lines: list[str] = []
        self.integers: dict[str, str] = {}
        self.booleans: dict[str, str] = {}
        self.exact = True
        self.factors = 0
        self.longest = 0
        self.divisions = 0
        self.open_divisors = 0

    def weight(self) -> int | None:
        """Return `Script.weight`."""
        unknown = self.divisions if self._quotients else 0
        if max(unknown / _MOST_QUOTIENTS, self.factors / _MOST_FACTORS) > 1:
            return None
        if self.longest > _MOST_BITS and (self.factors or self.divisions):
            return None
        products = self.factors // _USUAL_FACTORS, self.open_divisors // _USUAL_DIVISORS
        return 1 + sum(times * times for times in products) + unknown // _USUAL_QUOTIENTS

    def text_of(self, root: Node) -> str:
        """Return the node as an SMT-LIB expression over the definitions in `lines`."""
        texts = self._texts
        if root not in texts:
            for node in postorder(root):
                if node not in texts:
                    texts[node] = self._lower(node)
        return texts[root]

    def _lower(self, node: Node) -> str:
        texts = self._texts
        match node:
            case Term():
                return self._sum(node)
            case Symbol(name):
                self.integers[name] = self._declared("v", "Int")
                return self.integers[name]
            case FloorDiv(numerator, divisor):
                self.open_divisors += not divisor.is_constant
                return self._division(texts[numerator], texts[divisor], self._sign(divisor))
            case Extremum(args):
                return self._extremum("<=" if node.sense > 0 else ">=", [texts[arg] for arg in args])
            case Where(condition, then, otherwise):
                return self._defined(f"(ite {texts[condition]} {texts[then]} {texts[otherwise]})")
            case Compare("!=", term):
                return f"(not (= {texts[term]} 0))"
            case Compare(op, term):
                return f"({'=' if op == '==' else op} {texts[term]} 0)"
            case And(args):
                return f"(and {' '.join(texts[arg] for arg in args)})"
            case Or(args):
                return f"(or {' '.join(texts[arg] for arg in args)})"
            case BooleanConstant(value):
                return "true" if value else "false"
            case Truth(name, negated):
                if name not in self.booleans:
                    self.booleans[name] = self._declared("b", "Bool")
                return f"(not {self.booleans[name]})" if negated else self.booleans[name]
            case _:
                return self._opaque(node)

    def _declared(self, prefix: str, sort: str) -> str:
        name = f"{prefix}{len(self.lines)}"
        self.lines.append(f"(declare-const {name} {sort})")
        return name

    def _defined(self, value: str) -> str:
        name = f"q{len(self.lines)}"
        self.lines.append(f"(define-fun {name} () Int {value})")
        return name

    def _sum(self, term: Term) -> str:
        texts = self._texts
        products = []
        for monomial, coefficient in term.monomials:
            factors = [texts[atom] for atom, exponent in monomial for _ in range(min(exponent, _HIGHEST_DEGREE + 1))]
            if len(factors) > _HIGHEST_DEGREE:
                factors = [self._product(monomial)]
            self.factors += len(factors) if len(factors) > 1 else 0
            self.longest = max(self.longest, coefficient.bit_length())
            if coefficient == -1 and len(factors) == 1:
                products.append(f"(- {factors[0]})")
                continue
            if coefficient != 1 or not factors:
                factors.insert(0, _integer(coefficient))
            products.append(_applied("*", factors))
        return _applied("+", products) if products else "0"

    def _product(self, monomial: Monomial) -> str:
        """Lower a product with too many factors for Z3 to an unknown within its bounds."""
        term = from_poly({monomial: 1})
        self.exact = False
        if term not in self._products:
            self._products[term] = self._declared("p", "Int")
            self._assert_bounds(self._products[term], self._bounds(term))
        return self._products[term]

    def _sign(self, divisor: Term) -> int:
        """Return 1 or -1 if the divisor is known to be positive or negative, else 0: a division by 0 is arbitrary."""
        value = divisor.constant_value if divisor.is_constant else None
        return (self._bounds(divisor) if value is None else Interval(value, value)).sign

    def _division(self, top: str, bottom: str, sign: int) -> str:
        self.divisions += 1
        if not self._quotients:
            positive, negative = f"(div {top} {bottom})", f"(div (- {top}) (- {bottom}))"
            either = f"(ite (> {bottom} 0) {positive} {negative})"
            return self._defined({1: positive, -1: negative, 0: either}[sign])
        quotient = self._declared("q", "Int")
        rest = f"(- {top} (* {bottom} {quotient}))"
        below, above = f"(<= 0 {rest} (- {bottom} 1))", f"(<= (+ {bottom} 1) {rest} 0)"
        either = f"(and (=> (> {bottom} 0) {below}) (=> (< {bottom} 0) {above}))"
        self.lines.append(f"(assert { ({1: below, -1: above, 0: either}[sign]) })")
        return quotient

    def _extremum(self, op: str, args: Sequence[str]) -> str:
        best = args[0]
        for arg in args[1:]:
            best = self._defined(f"(ite ({op} {best} {arg}) {best} {arg})")
        return best

    def _opaque(self, node: Node) -> str:
        """Lower a node without a theory to an uninterpreted function; an integer result gets its known bounds."""
        self.exact = self.exact and isinstance(node, Unknown)
        match node:
            case Apply(name, args) | Unknown(name, args):
                value = self._called(f"{type(node).__name__} {name}", args, "Int")
                self._assert_bounds(value, self._bounds(of_atom(node)))
                self._assert_axioms(node, value)
                return value
            case RealConstant(digits):
                return self._called(f"double {digits}", (), "Double")
            case RealSymbol(name):
                return self._called(f"symbol {name}", (), "Double")
            case FromInt(term):
                return self._called("float", (term,), "Double")
            case RealCall(op, args):
                return self._called(op, args, "Double")
            case RealCompare(op, left, right, negated):
                relation = self._called(f"is {op}", (left, right), "Bool")
                return f"(not {relation})" if negated else relation
            case _:
                raise TypeError(f"{type(node).__name__} has no lowering")

    def _called(self, meaning: str, args: Sequence[Node], sort: str) -> str:
        sorts = " ".join("Double" if isinstance(arg, Real) else "Int" for arg in args)
        signature = f"{meaning} ({sorts}) {sort}"
        if signature not in self._functions:
            if "Double" in signature and "(declare-sort Double 0)" not in self.lines:
                self.lines.append("(declare-sort Double 0)")
            name = self._functions[signature] = f"f{len(self.lines)}"
            self.lines.append(f"(declare-fun {name} ({sorts}) {sort})")
        return _applied(self._functions[signature], [self._texts[arg] for arg in args], always=bool(args))

    def _assert_axioms(self, node: Apply | Unknown, value: str) -> None:
        """Assert the axioms of a function value, and monotonicity for each pair of its values."""
        self._texts[node] = value
        if isinstance(node, Unknown) or not self._with_axioms:
            return
        for term in axioms(node, self._bounds):
            if polynomials.bits(term.poly) > _MOST_BITS:
                continue
            self.lines.append(f"(assert (>= {self.text_of(term)} 0))")
        function = rising(node)
        if function is not None:
            alike = self._rising.setdefault(function[0], [])
            here = self.text_of(function[1]), value
            for there in alike[:_MOST_ALIKE]:
                for one, other in ((here, there), (there, here)):
                    self.lines.append(f"(assert (=> (<= {one[0]} {other[0]}) (<= {one[1]} {other[1]})))")
                    if is_strict(node):
                        apart = f"(and (<= 0 {one[0]}) (< {one[0]} {other[0]}))"
                        self.lines.append(f"(assert (=> {apart} (< {one[1]} {other[1]})))")
            alike.append(here)

    def _assert_bounds(self, value: str, known: Interval) -> None:
        if known.lower is not None and known.lower.bit_length() <= _MOST_BITS:
            self.lines.append(f"(assert (<= {_integer(known.lower)} {value}))")
        if known.upper is not None and known.upper.bit_length() <= _MOST_BITS:
            self.lines.append(f"(assert (<= {value} {_integer(known.upper)}))")


def _integer(value: int) -> str:
    """Return the integer as text, in pieces if it is long: Python prints only some thousands of digits at once."""
    if value < 0:
        return f"(- {_integer(-value)})"
    pieces = []
    while value >= _LARGEST_LITERAL:
        value, low = divmod(value, _LARGEST_LITERAL)
        pieces.append(str(low).zfill(_LITERAL_DIGITS))
    return "".join([str(value), *reversed(pieces)])


def _applied(function: str, args: Sequence[str], *, always: bool = False) -> str:
    return f"({function} {' '.join(args)})" if len(args) > 1 or always else args[0] if args else function
