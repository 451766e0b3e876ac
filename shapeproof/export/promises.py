"""What operators promise about the sizes that they take from data.

An operator whose result depends on data gives torch a fresh symbol with constant bounds at best. The relation to
its inputs is
here, with its source: each promise holds for every input on which eager does not raise, and a property test holds it
against eager. An operator that is not listed promises nothing.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term, constant


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of one operand or result: the sizes of a tensor, or the value of an int; and its dtype's name."""

    sizes: tuple[Term, ...] | None = None
    value: Term | None = None
    dtype: str = ""

    @property
    def numel(self) -> Term:
        """The number of elements."""
        return functools.reduce(operator.mul, self.sizes or (), constant(1))


Operands = Sequence[Shape | None]
Rule = Callable[[Operands, Operands], list[Formula]]


def promises(name: str, operands: Operands, results: Operands) -> list[Formula]:
    """What an operator promises, given its operands and results in order (None for what is neither tensor nor int)."""
    rule = _RULES.get(name)
    return rule(operands, results) if rule is not None else []


def _rows_within_elements(operands: Operands, results: Operands) -> list[Formula]:
    """`nonzero`, `masked_select`, `unique`: at most one row per element.

    https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
    """
    source, result = operands[0], results[0]
    if source is None or source.sizes is None or result is None or not result.sizes:
        return []
    return [f.ge(result.sizes[0], 0), f.le(result.sizes[0], source.numel)]


def _selected(operands: Operands, results: Operands) -> list[Formula]:
    """`masked_select`: at most as many as the mask and the input, broadcast, have elements.

    https://docs.pytorch.org/docs/stable/generated/torch.masked_select.html
    """
    source, mask = operands[0], operands[1]
    if source is None or mask is None or source.sizes != mask.sizes:
        return []
    return _rows_within_elements(operands, results)


def _unique(operands: Operands, results: Operands) -> list[Formula]:
    """`unique`: at most one value per element, and at least one where there is an element.

    https://docs.pytorch.org/docs/stable/generated/torch.unique.html
    """
    found = _rows_within_elements(operands, results)
    source, result = operands[0], results[0]
    if found and source is not None and result is not None and result.sizes:
        found.append(f.implies(f.ge(source.numel, 1), f.ge(result.sizes[0], 1)))
    return found


def _unique_consecutive(operands: Operands, results: Operands) -> list[Formula]:
    """`unique_consecutive`: as `unique`; along a dim it gives rows, of which nothing is promised here.

    https://docs.pytorch.org/docs/stable/generated/torch.unique_consecutive.html
    """
    along = operands[3] if len(operands) > 3 else None
    return _unique(operands, results) if along is None else []


def _scalar(operands: Operands, results: Operands) -> list[Formula]:
    """`item()`: a value of the tensor's dtype.

    https://docs.pytorch.org/docs/stable/tensor_attributes.html
    """
    source, result = operands[0], results[0]
    if source is None or result is None or result.value is None or source.dtype not in _INTEGERS:
        return []
    lower, upper = _INTEGERS[source.dtype]
    return [f.ge(result.value, lower), f.le(result.value, upper)]


_INTEGERS: Mapping[str, tuple[int, int]] = {
    "torch.uint8": (0, 2**8 - 1),
    "torch.int8": (-(2**7), 2**7 - 1),
    "torch.int16": (-(2**15), 2**15 - 1),
    "torch.int32": (-(2**31), 2**31 - 1),
}

_RULES: Mapping[str, Rule] = {
    "aten.nonzero.default": _rows_within_elements,
    "aten.masked_select.default": _selected,
    "aten._unique2.default": _unique,
    "aten.unique_consecutive.default": _unique_consecutive,
    "aten._local_scalar_dense.default": _scalar,
    "aten.item.default": _scalar,
}

PROMISING = frozenset(_RULES)
"""The operators that promise something."""
