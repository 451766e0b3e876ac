"""Formulas compiled to one Python function, for trying very many points. evaluate.py defines the meaning.

The source of the function consists of operators, integers and local names that are generated here from interned nodes;
it contains no text from the user. The function computes every node, even those that Python's short-circuiting would
skip. If one of them raises, the function falls back to evaluate.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shapeproof.constraints import operators
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import And, BooleanConstant, Compare, Formula, Or, RealCompare, Truth
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.polynomials import Monomial
from shapeproof.constraints.reals import FromInt, RealCall, RealConstant, RealSymbol
from shapeproof.constraints.terms import Apply, FloorDiv, Max, Min, Symbol, Term, Unknown, Where
from shapeproof.constraints.work import charge

_LONGEST_SUM = 64
_SHORT = {"and", "or", "xor", "rshift", "trunc", "floor", "ceil", "round"}
"""Functions whose values are at most as long as their arguments, or as a double."""
_OF_DOUBLE = 1100


def compiled(formulas: Sequence[Formula], names: Sequence[str], bits: int = 64) -> Callable[..., bool]:
    """Compile the formulas to a predicate on the symbols, in the order of `names`: True if all the formulas hold.

    The symbols have at most `bits` bits. The predicate raises Unevaluable if a formula without a value decides the
    answer.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> compiled([parse_formula("h % 4 == 0"), parse_formula("h // w > 1")], ["h", "w"])(12, 4)
    True
    """
    fast = eager_predicate(formulas, names, bits)

    def test(*values: int) -> bool:
        try:
            return bool(fast(*values))
        except (ArithmeticError, ValueError, Unevaluable):
            point = dict(zip(names, values, strict=True))
            answers = {true_at(formula, point) for formula in formulas}
            if None in answers and False not in answers:
                raise Unevaluable("a formula has no value at this point") from None
            return answers <= {True}

    return test


def eager_predicate(formulas: Sequence[Formula], names: Sequence[str], bits: int = 64) -> Callable[..., bool]:
    """Return the predicate of `compiled` that raises wherever a node raises, even one that does not decide the answer.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> eager_predicate([parse_formula("h % 4 == 0"), parse_formula("h >= 1")], ["h"])(12)
    True
    """
    writer = _Writer(names, bits)
    for formula in formulas:
        writer.answer([f"not {writer.text(formula)}"], "False")
    return writer.function("True")


def first_holding(groups: Sequence[Sequence[Formula]], names: Sequence[str]) -> Callable[..., int | None]:
    """Compile the groups to a function that returns the index of the first group whose formulas all hold, or None.

    A formula without a value at a point does not hold there.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> find = first_holding([[parse_formula("n <= 3")], [parse_formula("n % 4 == 0")]], ["n"])
    >>> find(2), find(8), find(7)
    (0, 1, None)
    """
    writer = _Writer(names, 64)
    for index, formulas in enumerate(groups):
        writer.answer([writer.inline(formula) for formula in formulas], str(index))
    fast: Callable[..., int | None] = writer.function("None")

    def find(*values: int) -> int | None:
        try:
            return fast(*values)
        except (ArithmeticError, ValueError, Unevaluable):
            point = dict(zip(names, values, strict=True))
            held = (all(true_at(formula, point) is True for formula in formulas) for formulas in groups)
            return next((index for index, holds in enumerate(held) if holds), None)

    return find


class _Writer:
    """Writes the source lines of a function of some symbols. Each node is computed once, before its first use."""

    def __init__(self, names: Sequence[str], bits: int) -> None:
        self.arguments = {name: f"v{index}" for index, name in enumerate(names)}
        self.local: dict[Node, str] = {}
        self.lengths: dict[Node, int] = {}
        self._bits = bits
        self._constants: dict[str, Any] = {"power": operators.integer_power, "sized": operators.sized}
        self._lines: list[str] = []

    def text(self, formula: Formula) -> str:
        """Emit the lines that compute the formula, and return the local name of its value."""
        for node in postorder(formula):
            if node not in self.local:
                self.local[node] = f"t{len(self.local)}"
                self.lengths[node] = min(_length(node, self.lengths, self._bits), operators.MOST_BITS)
                self._lines.append(f"    {self.local[node]} = {_SOURCES[type(node)](node, self)}")
        return self.local[formula]

    def listed(self, nodes: Sequence[Node], separator: str = ", ") -> str:
        """Return the local names of computed nodes as a list."""
        return separator.join(map(self.local.__getitem__, nodes))

    def bound(self, value: Any) -> str:
        """Bind a value, such as a function, to a fresh name."""
        name = f"f{len(self._constants)}"
        self._constants[name] = value
        return name

    def inline(self, formula: Formula) -> str:
        """Return the value as an expression. Only comparisons of one symbol with a number are inlined."""
        return _compared(formula, self.arguments) or self.text(formula)

    def answer(self, conditions: Sequence[str], value: str) -> None:
        """Emit a line that returns `value` if all conditions are met."""
        self._lines.append(f"    if {' and '.join(conditions) or 'True'}: return {value}")

    def function(self, value: str) -> Callable[..., Any]:
        """Compile the lines; the function returns `value` if no earlier line returned."""
        source = "\n".join([f"def test({', '.join(self.arguments.values())}):", *self._lines, f"    return {value}"])
        charge(len(source))
        exec(source, self._constants)  # noqa: S102  (the text is made above, of names made above)
        function: Callable[..., Any] = self._constants["test"]
        return function


def _compared(formula: Formula, arguments: dict[str, str]) -> str | None:
    """Return a comparison of one symbol with a number, or `and`/`or` of such, as source; None for any other formula."""
    match formula:
        case Compare(op, term):
            parts = dict(term.monomials)
            offset = parts.pop((), 0)
            match list(parts.items()):
                case [(((Symbol(name), 1),), 1)]:
                    return f"{arguments[name]} {op} {hex(-offset)}"
                case [(((Symbol(name), 1),), -1)]:
                    return f"{hex(offset)} {op} {arguments[name]}"
        case And(args) | Or(args):
            texts = [_compared(arg, arguments) for arg in args]
            word = " and " if isinstance(formula, And) else " or "
            return None if None in texts else f"({word.join(map(str, texts))})"
    return None


def _length(node: Node, lengths: dict[Node, int], bits: int) -> int:
    """Return an upper bound on the bits of an integer value."""
    match node:
        case Symbol():
            return bits
        case Term():
            longest = max((_bits(*each, lengths) for each in node.monomials), default=0)
            return longest + len(node.monomials).bit_length()
        case Apply(op) if op not in _SHORT:
            return operators.MOST_BITS
        case _:
            return max((lengths[child] for child in node.children), default=0) + _OF_DOUBLE * isinstance(node, Apply)


def _bits(monomial: Monomial, coefficient: int, lengths: dict[Node, int]) -> int:
    return coefficient.bit_length() + sum(lengths[atom] * power for atom, power in monomial)


def _named(node: Any, writer: _Writer) -> str:
    return writer.arguments[node.name]


def _grouped(term: Term, writer: _Writer) -> str:
    """Return the sum as source, in parenthesised groups if it is long: Python's parser rejects deeply nested sums."""
    products = [_product(*each, writer) for each in term.monomials]
    while len(products) > _LONGEST_SUM:
        groups = (products[start : start + _LONGEST_SUM] for start in range(0, len(products), _LONGEST_SUM))
        products = [f"({'+'.join(group)})" for group in groups]
    return "+".join(products) or "0"


def _product(monomial: Monomial, coefficient: int, writer: _Writer) -> str:
    """Return the product as source, with a hexadecimal coefficient, since Python reads no long decimals.

    Products that may grow too long are wrapped in `sized` and `power`, which check the length.
    """
    short = _bits(monomial, coefficient, writer.lengths) <= operators.FEW_BITS
    power = "{}**{}" if short else "power({}, {})"
    factors = (writer.local[atom] if n == 1 else power.format(writer.local[atom], n) for atom, n in monomial)
    product = "*".join([hex(coefficient), *factors])
    return product if short else f"sized({product})"


def _called(node: Any, writer: _Writer) -> str:
    function = (operators.INTEGER if isinstance(node, Apply) else operators.REAL)[node.op]
    return f"{writer.bound(function)}({writer.listed(node.args)})"


def _no_meaning() -> int:
    raise Unevaluable("an opaque function has no meaning")


_SOURCES: dict[type[Node], Callable[[Any, _Writer], str]] = {
    Term: _grouped,
    Symbol: _named,
    FloorDiv: lambda node, to: f"{to.local[node.numerator]} // {to.local[node.divisor]}",
    Min: lambda node, to: f"min({to.listed(node.args)})",
    Max: lambda node, to: f"max({to.listed(node.args)})",
    Where: lambda node, to: f"{to.local[node.then]} if {to.local[node.condition]} else {to.local[node.otherwise]}",
    Apply: _called,
    Unknown: lambda _, to: f"{to.bound(_no_meaning)}()",
    RealConstant: lambda node, to: to.bound(node.value),
    RealSymbol: lambda node, to: f"float({_named(node, to)})",
    FromInt: lambda node, to: f"float({to.local[node.term]})",
    RealCall: _called,
    BooleanConstant: lambda node, _: str(node.value),
    Truth: lambda node, to: f"bool({_named(node, to)}) != {node.negated}",
    Compare: lambda node, to: f"{to.local[node.term]} {node.op} 0",
    RealCompare: lambda node, to: f"({to.local[node.left]} {node.op} {to.local[node.right]}) != {node.negated}",
    And: lambda node, to: to.listed(node.args, " and "),
    Or: lambda node, to: to.listed(node.args, " or "),
}
"""The source of a node's value, of the names of its children's values."""
