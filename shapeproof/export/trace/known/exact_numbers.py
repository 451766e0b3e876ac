"""Numbers that models compute with tensors of one element: a length, a kernel's size in a buffer, `ceil(n / stride)`.

Law: what is told of a tensor is its element in every run. Integers are told where they fit the dtype; a float that is
rounded is told with the error that it may have, and only of float32 and float64 on a CPU, which divide once: a GPU
multiplies by a reciprocal. `ceil(n / s)` in float32 is a term for `n <= 2**22`, say, and unknown for any larger `n`.

The element of a buffer may be another one when the program runs. So a number tells on which buffers it rests, and a
program that has taken it as a size asserts their elements (`assert_rests`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.terms import Term, constant
from shapeproof.export.graph.aliasing import written_inputs
from shapeproof.export.graph.nodes import insert_call
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import Span
from shapeproof.export.ops.table import known_of
from shapeproof.export.ops.value_ranges import INTEGRAL
from shapeproof.export.shim.numbers.symbols import DATA_ASSERTION

_FLOATS = {torch.float32: 24, torch.float64: 53}
"""Floats whose operators round once, with the number of bits: integers up to `2**bits` are exact."""
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_DIVISIONS = ("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar")
_SUMS = {
    "aten.add.Tensor": (1, 1),
    "aten.sub.Tensor": (1, -1),
    "aten.rsub.Scalar": (-1, 1),
    "aten.rsub.Tensor": (-1, 1),
}
"""The signs of the operands."""
_COMPARISONS = {
    getattr(getattr(torch.ops.aten, name), overload): getattr(f, name)
    for name in ("eq", "ne", "le", "lt", "ge", "gt")
    for overload in ("Scalar", "Tensor")
}
_CONVERSIONS = ("aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout")


@dataclass(frozen=True, slots=True)
class Exact:
    """A number `top / bottom`, which a tensor holds with at most this error, and with none where it is whole."""

    top: Term
    bottom: int = 1
    error: Fraction = Fraction(0)
    rests: frozenset[str] = frozenset()
    """The buffers whose elements it is made of."""


class ExactNumbers:
    """The numbers in tensors of one element.

    Args:
        of: returns the value number of a tensor, which changes with each write.
        read: returns the term of a size.
        span: returns the bounds of the integers in a tensor.
        bounds: returns the bounds of a term.
    """

    def __init__(
        self,
        of: Callable[[torch.Tensor], int],
        read: Callable[[Any], Term],
        span: Callable[[torch.Tensor], Span],
        bounds: Callable[[Term], Interval],
    ) -> None:
        self._of, self._span, self._bounds = of, span, bounds
        self._found = WeakTensorKeyDictionary()  # to a value number and an Exact
        self._operands = schemas.Operands(read, self._told)

    def hold(self, name: str, buffer: torch.Tensor, value: int) -> None:
        """Note the integer that a buffer of one element holds."""
        self._found[buffer] = self._of(buffer), Exact(constant(value), rests=frozenset({name}))

    def number_in(self, tensor: torch.Tensor) -> Exact | None:
        """Return the only element of a tensor of integers, if it is known."""
        found = self._known(tensor)
        return found if found is not None and str(tensor.dtype) in INTEGRAL else None

    def note(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]) -> None:
        """Note the element of an operator's only result."""
        made = results[0] if len(results) == 1 else None
        if not isinstance(made, torch.Tensor) or made.dim() > 0 or schemas.is_mutable(func):
            return
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        known = [self._known(each) for each in given]
        if not known or None in known:
            return
        found = self._result(func, args, kwargs, made)
        if found is not None:
            rests = frozenset[str]().union(*(each.rests for each in known if each is not None))
            self._found[made] = self._of(made), replace(found, rests=rests)

    def _known(self, value: Any) -> Exact | None:
        """Return the number that an operand is, or holds."""
        if isinstance(value, torch.Tensor):
            if value.dim() > 0 or value.layout != torch.strided:
                return None
            number, found = self._found.get(value, (None, None))
            if found is None or number != self._of(value):
                held = self._span(value).value
                found = None if held is None else Exact(held)
            return found
        if isinstance(value, float) and value.is_integer():
            return Exact(constant(int(value)))
        whole = isinstance(value, int | torch.SymInt) and not isinstance(value, bool)
        return Exact(self._operands.read(value)) if whole else None

    def _told(self, tensor: torch.Tensor) -> Span:
        found = self.number_in(tensor)
        return self._span(tensor) if found is None else Span(found.top, found.top)

    def _result(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Exact | None:
        if known_of(func).unchanged:
            return self._known(args[0])
        if str(made.dtype) not in INTEGRAL:
            on_cpu = made.dtype in _FLOATS and made.device.type == "cpu"
            return self._rounded(str(func), args, kwargs, made) if on_cpu else None
        if func in _COMPARISONS:
            return self._compared(_COMPARISONS[func], args)
        if func is torch.ops.aten.where.self:
            condition, one, other = map(self._known, args)
            if condition is None or one is None or other is None:
                return None
            return Exact(t.where(f.ne(condition.top, 0), one.top, other.top))
        if str(func) in _CONVERSIONS and str(args[0].dtype) not in INTEGRAL:
            source = self._known(args[0])
            fits = source is not None and source.bottom == 1 and self._within(source.top, torch.iinfo(made.dtype).max)
            return source if fits and made.dtype != torch.bool else None
        found = schemas.contents(self._operands.call(func, args, kwargs, [made]), self._bounds)
        value = found[0].value if found else None
        return None if value is None else Exact(value)

    def _compared(self, compare: Callable[[Term, Term], Formula], args: Sequence[Any]) -> Exact | None:
        """Return 1 or 0 for a comparison of integers, which torch compares as such; with a float, as floats."""
        dtypes = [each.dtype if isinstance(each, torch.Tensor) else type(each) for each in args]
        one, other = map(self._known, args)
        if one is None or other is None or not {*dtypes} <= {*_INTEGERS, torch.bool, int, torch.SymInt}:
            return None
        return Exact(t.where(compare(one.top, other.top), 1, 0))

    def _rounded(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Exact | None:
        """Return the float that an operator makes."""
        bits, parts = _FLOATS[made.dtype], [self._known(each) for each in args]
        if name in _CONVERSIONS:
            whole = parts[0] if parts and self._is_whole(parts[0], bits) else None
            return whole if str(args[0].dtype) in INTEGRAL or args[0].dtype == made.dtype else None
        if args and isinstance(args[0], torch.Tensor) and args[0].dtype not in {*_FLOATS, *_INTEGERS}:
            return None
        if name in {"aten.ceil.default", "aten.floor.default"} and parts[0] is not None:
            return self._stepped(parts[0], bits, up=name == "aten.ceil.default")
        if len(parts) != 2 or parts[0] is None or parts[1] is None or kwargs:
            return None
        if name in _DIVISIONS:
            return self._divided(parts[0], parts[1], bits)
        return self._added(parts[0], parts[1], _SUMS[name], bits) if name in _SUMS else None

    def _divided(self, dividend: Exact, divisor: Exact, bits: int) -> Exact | None:
        """Return a quotient. Law: one that is whole, of numbers up to `2**bits`, is a float itself."""
        by = divisor.top
        if not self._is_whole(dividend, bits) or not self._is_whole(divisor, bits) or not by.is_constant:
            return None
        if by.constant_value < 1:
            return None
        error = Fraction(self._largest(dividend.top) or 0, by.constant_value * 2**bits)
        return Exact(dividend.top, by.constant_value, error)

    def _added(self, one: Exact, other: Exact, signs: tuple[int, int], bits: int) -> Exact | None:
        """Return the sum of a number and a whole one. Law: it is whole where the number is, and rounded once."""
        first, second = signs
        if not self._is_whole(other, bits):
            one, other, first, second = other, one, second, first
        top = one.top * first + other.top * second * one.bottom
        largest = self._largest(top)
        exact = self._is_whole(other, bits) and (one.bottom > 1 or self._is_whole(one, bits))
        if not exact or largest is None or largest > one.bottom * 2**bits:
            return None
        error = one.error + (Fraction(largest, one.bottom) + one.error) / 2**bits
        return Exact(top, one.bottom, error if one.bottom > 1 else Fraction(0))

    def _stepped(self, number: Exact, bits: int, *, up: bool) -> Exact | None:
        """Return the next whole number. Law: one that is not whole lies `1 / bottom` or more from each that is."""
        if number.error * number.bottom >= 1:
            return None
        bottom = constant(number.bottom)
        top = -t.floor_div(-number.top, bottom) if up else t.floor_div(number.top, bottom)
        return Exact(top) if self._within(top, 2**bits) else None

    def _is_whole(self, number: Exact | None, bits: int) -> bool:
        return number is not None and number.bottom == 1 and self._within(number.top, 2**bits)

    def _within(self, term: Term, limit: int) -> bool:
        largest = self._largest(term)
        return largest is not None and largest <= limit

    def _largest(self, term: Term) -> int | None:
        found = self._bounds(term)
        return None if found.lower is None or found.upper is None else max(abs(found.lower), abs(found.upper))


def held_in(module: torch.nn.Module) -> dict[str, int]:
    """Return the integers that a module's buffers of one element hold."""
    buffers = ((name, each) for name, each in module.named_buffers() if type(each) is torch.Tensor)
    return {
        name: int(each) for name, each in buffers if each.dim() == 0 and each.dtype in _INTEGERS and not each.is_meta
    }


def assert_rests(program: torch.export.ExportedProgram, held: Mapping[str, int]) -> bool:
    """Have a program assert the elements of buffers that it does not write; False if it writes one, or has it not."""
    names, inputs = program.graph_signature.inputs_to_buffers, program.graph.find_nodes(op="placeholder")
    found = {names[node.name]: node for node in inputs if names.get(node.name) in held}
    if found.keys() != held.keys() or not written_inputs(program.graph).isdisjoint(found.values()):
        return False
    first = next(node for node in program.graph.nodes if node.op != "placeholder")
    for name, node in found.items():
        equal = insert_call(first, torch.ops.aten.eq.Scalar, (node, held[name]))
        insert_call(first, DATA_ASSERTION, (equal, f"the program was made for {held[name]} in the buffer `{name}`"))
    return True


def rests_of(program: torch.export.ExportedProgram) -> dict[str, int]:
    """Return the elements of buffers that a program asserts: it computes what eager does while they are these."""
    names, found = program.graph_signature.inputs_to_buffers, {}
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.eq.Scalar):
        buffer, number = node.args
        if buffer.name in names and any(user.target is DATA_ASSERTION for user in node.users):
            found[names[buffer.name]] = number
    return found
