"""Write a contract as a C++ header that checks it: C++17, the standard library alone.

Each formula is written from its Python text, so that both compute the same. Law: whatever Python refuses, the header
refuses, by the same sentence; what Python accepts the header accepts, unless a number on the way needs more than 64
bits. checks.h has the arithmetic: Python's, and undefined where 64 bits do not hold a number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from shapeproof import __version__
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.contract.inputs import ConstantInput, IntInput, TensorInput
from shapeproof.contract.sizes import Reading, SizeGuard

if TYPE_CHECKING:
    from shapeproof.contract.contract import Contract

_CHECKS = Path(__file__).with_name("checks.h").read_text(encoding="utf-8")
DTYPES = {name: word for word, name in re.findall(r'case DType::(\w+): return "(\w+)"', _CHECKS)}
"""Torch's name of a dtype -> the header's."""
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    DType outside std refusal"""
_RESERVED = frozenset(
    [
        *_WORDS.split(),
        *re.findall(r"^(?:inline|struct|enum|using|const)[^(]*?\b(\w+)(?=[({]| [{=])", _CHECKS, re.MULTILINE),
    ]
)
"""The words of C++, and the names in the header."""


def header(contract: Contract, name: str) -> str:
    """Return the text of the header, whose names are in the namespace `name`.

    Raises:
        UsageError: the name is none of C++, or the contract has a dtype or a formula that the header cannot check.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or name in _RESERVED:
        raise UsageError(f"{name!r} cannot name a namespace of C++")
    function = "\n".join(_Function(contract).lines())
    about = [
        *str(contract).splitlines(),
        *(f"not checked: {format_formula(each, rename=contract.names)}" for each in contract.guard.left),
    ]
    return "\n".join(
        [
            f"// What the program accepts; `{name}::outside` holds inputs against it, before the program runs.",
            f"// Written by shapeproof {__version__} from the program's contract. C++17, by GCC or Clang.",
            "//",
            *(f"//   {_plain(line)}" for line in dict.fromkeys(about)),
            "#pragma once",
            "",
            *(f"#include <{each}>" for each in ("cstdint", "initializer_list", "optional", "string")),
            "",
            f"namespace {name} {{",
            "",
            _CHECKS,
            function,
            "",
            f"}}  // namespace {name}",
            "",
        ]
    )


class _Function:
    """Writes the function that checks the inputs: each by its kind, then all sizes together, as a contract does."""

    def __init__(self, contract: Contract) -> None:
        self._inputs = contract.inputs
        self._guard: SizeGuard = contract.guard
        self._taken = set(_RESERVED)
        self._inputs_named = {leaf: self._named(each.graph_name) for leaf, each in enumerate(contract.inputs)}
        used = frozenset[str]().union(*(each.symbols for each in self._guard.formulas))
        self._places = {name: place for name, place in self._guard.places if name in used}
        self._symbols = {name: self._named(self._guard.names.get(name, name)) for name in self._places}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the function."""
        yield "/// Returns why the program refuses these inputs; nothing where it accepts them."
        yield f"inline Refusal outside({', '.join(self._parameters())}) {{"
        for leaf, each in enumerate(self._inputs):
            if isinstance(each, TensorInput):
                yield f"    if (Refusal refusal = {self._compared(leaf, each)}) return refusal;"
        for symbol, place in self._places.items():
            yield f"    const Int {self._symbols[symbol]} = {self._read(place)};"
        for formula in self._guard.formulas:
            yield f"    if (fails({_written(formula, self._symbols)}))"
            yield f"        return {self._refusal(formula)};"
        yield "    return std::nullopt;"
        yield "}"

    def _parameters(self) -> Iterator[str]:
        read = {place.leaf for place in self._places.values()}
        for leaf, each in enumerate(self._inputs):
            if isinstance(each, TensorInput):
                yield f"const Tensor& {self._inputs_named[leaf]}"
            elif isinstance(each, IntInput):
                yield f"{'' if leaf in read else '[[maybe_unused]] '}std::int64_t {self._inputs_named[leaf]}"

    def _compared(self, leaf: int, declared: TensorInput) -> str:
        if declared.dtype not in DTYPES:
            raise UsageError(f"a header cannot check {declared.name}: C++ has no number for the dtype {declared.dtype}")
        sizes = ", ".join(_number(each.constant_value) if each.is_constant else "ANY" for each in declared.sizes)
        name = self._inputs_named[leaf]
        return f"unlike({name}, {_quoted(declared.name)}, DType::{DTYPES[declared.dtype]}, {{{sizes}}})"

    def _size(self, place: Reading) -> str:
        match self._inputs[place.leaf]:
            case TensorInput():
                return f"{self._inputs_named[place.leaf]}.sizes[{place.index}]"
            case ConstantInput(value=value):
                return _number(value)
        return self._inputs_named[place.leaf]

    def _read(self, place: Reading) -> str:
        """Return the value of a symbol, which is read off a size."""
        shifted = f"Int({self._size(place)}) - {_number(place.offset)}" if place.offset else self._size(place)
        return shifted if place.step == 1 else f"floor_div({shifted}, {_number(place.step)})"

    def _refusal(self, formula: Formula) -> str:
        shown = self._guard.shown(formula).items()
        values = (self._symbols[each] if isinstance(each, str) else self._size(each) for _, each in shown)
        given = ", ".join(f"{{{_quoted(name)}, {value}}}" for (name, _), value in zip(shown, values, strict=True))
        text, because = self._guard.requirement(formula)
        return f"refused({{{given}}}, {_quoted(f'{text} is {because}')})"

    def _named(self, text: str) -> str:
        """Return a name of C++ that is not taken, and take it."""
        name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "input"
        name = f"_{name}" if name[0].isdigit() else name
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _quoted(text: str) -> str:
    """Return the text as a literal: what is not plain ASCII by its bytes."""
    return f'"{"".join(map(_character, text))}"'


def _character(each: str) -> str:
    plain = each.isascii() and each.isprintable() and each not in '"\\'
    return each if plain else "".join(f"\\{byte:03o}" for byte in each.encode())


def _plain(line: str) -> str:
    """Return the line for a comment; one that ends in a backslash would go on in the next."""
    return "".join(each if each.isprintable() else "." for each in line).rstrip("\\ ")


def _number(value: int) -> str:
    if abs(value) >= 2**63:
        raise UsageError(f"a header cannot check a number of more than 64 bits: {value}")
    return str(int(value))


# ---------------------------------------------------------------------- formulas

_SUM, _PRODUCT, _PRIMARY, _COMPARISON, _AND, _OR = 4, 5, 6, 3, 2, 1
_INFIX = {ast.Add: ("+", _SUM), ast.Sub: ("-", _SUM), ast.Mult: ("*", _PRODUCT)}
_CALLED = {
    ast.FloorDiv: "floor_div", ast.Mod: "floor_mod", ast.Pow: "power", ast.LShift: "shift_left",
    ast.RShift: "shift_right", ast.BitAnd: "bit_and", ast.BitOr: "bit_or", ast.BitXor: "bit_xor",
}  # fmt: skip
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">"}
_EXTREMA = {"min": "least", "max": "greatest"}


def _written(formula: Formula, names: Mapping[str, str]) -> str:
    """Return the formula in C++.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> _written(parse_formula("(n + 7)//8 <= 4*m or n % 2 == 0"), {"n": "n", "m": "m"})
    'n <= 32 * m || floor_mod(n, 2) == 0'
    """
    try:
        parsed = ast.parse(format_formula(formula, rename=names), mode="eval")
        return _expression(parsed.body)[0]
    except (SyntaxError, RecursionError, MemoryError, KeyError, TypeError):
        text = format_formula(formula)
        raise UsageError(f"a header cannot check {text[:200]}: it has floats, or is nested too deeply") from None


def _expression(node: ast.expr) -> tuple[str, int]:
    """Return the expression and its precedence. Raises KeyError or TypeError for what a header does not have."""
    match node:
        case ast.Name(id=name):
            return name, _PRIMARY
        case ast.Constant(value=bool() as value):
            return f"Truth::{'yes' if value else 'no'}", _PRIMARY
        case ast.Constant(value=int() as value):
            return _number(value), _PRIMARY
        case ast.UnaryOp(ast.USub(), operand):
            return f"-{_operand(operand, _PRIMARY)}", _PRODUCT
        case ast.BinOp(left, op, right) if type(op) in _CALLED:
            return f"{_CALLED[type(op)]}({_operand(left)}, {_operand(right)})", _PRIMARY
        case ast.BinOp(left, op, right):
            sign, precedence = _INFIX[type(op)]
            return f"{_first(left, right, precedence)} {sign} {_operand(right, precedence + 1)}", precedence
        case ast.Compare(left, [op], [right]):
            return f"{_first(left, right, _SUM)} {_COMPARED[type(op)]} {_operand(right, _SUM)}", _COMPARISON
        case ast.BoolOp(op, values):
            sign, precedence = ("&&", _AND) if isinstance(op, ast.And) else ("||", _OR)
            return f" {sign} ".join(_operand(each, _COMPARISON) for each in values), precedence
        case ast.IfExp(test, body, orelse):
            return f"where({_operand(test)}, {_operand(body)}, {_operand(orelse)})", _PRIMARY
        case ast.Call(ast.Name(id=name), args):
            called = _EXTREMA[name]
            return reduce(lambda one, other: f"{called}({one}, {other})", map(_operand, args)), _PRIMARY
    raise TypeError(node)


def _operand(node: ast.expr, least: int = 0) -> str:
    text, precedence = _expression(node)
    return text if precedence >= least else f"({text})"


def _first(left: ast.expr, right: ast.expr, least: int) -> str:
    """Return the first operand: as an Int where both operands are numbers, which C++ would compute itself."""
    text = _operand(left, least)
    return f"Int({text})" if _is_number(left) and _is_number(right) else text


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and _is_number(node.operand))
