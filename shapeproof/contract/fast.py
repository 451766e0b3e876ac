"""A contract as one generated function of the flat inputs, for the calls of a server.

Law: where the function returns True, every guard of inputs.py and sizes.py is satisfied. Where it returns False, the
guards decide and give the reason; so the function may return False for anything unusual. Its source consists of
numbers and names generated here.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from shapeproof.contract.inputs import (
    ConstantInput,
    Input,
    IntInput,
    TensorInput,
    dtype_name,
    is_torchs,
    same_constant,
)
from shapeproof.contract.sizes import SizeGuard

_remembered = functools.lru_cache(maxsize=256)


def accepting(inputs: Sequence[Input], guard: SizeGuard) -> Callable[[Sequence[Any]], bool]:
    """Return the generated function."""
    names: dict[str, Any] = {"torchs": _remembered(is_torchs), "same": same_constant, "holds": guard.holds}
    values = "".join(f"a{index}, " for index in range(len(inputs)))
    lines = [f"{values}= given"] if inputs else []
    for index, declared in enumerate(inputs):
        lines += _lines(index, declared, names)
    arguments = ", ".join(
        place.value(_size_text(inputs[place.leaf], place.leaf, place.index), _operation) for _, place in guard.places
    )
    lines.append(f"return holds({arguments})")
    body = "\n".join(f"        {line}" for line in lines)
    unusual = "    except Exception:\n        return False"
    exec(f"def accepts(given):\n    try:\n{body}\n{unusual}", names)  # noqa: S102 - the text is made above, of names made above
    found: Callable[[Sequence[Any]], bool] = names["accepts"]
    return found


def _lines(index: int, declared: Input, names: dict[str, Any]) -> list[str]:
    """Return the source lines that check one flat input."""
    value = f"a{index}"
    match declared:
        case TensorInput():
            names[f"dtype{index}"] = _called(declared.dtype)
            names[f"device{index}"] = _called(declared.device)
            names[f"layout{index}"] = _called(declared.layout)
            fixed = [(dim, term.constant_value) for dim, term in enumerate(declared.sizes) if term.is_constant]
            return [
                f"if not dtype{index}({value}.dtype): return False",
                f"if torchs(type({value})) and not (device{index}({value}.device) and layout{index}({value}.layout)):",
                "    return False",
                f"s{index} = {value}.shape",
                f"if len(s{index}) != {len(declared.sizes)}: return False",
                *(f"if s{index}[{dim}] != {size}: return False" for dim, size in fixed),
            ]
        case IntInput():
            return [f"if type({value}) is not int: return False"]
        case ConstantInput(value=expected):
            names[f"constant{index}"] = expected
            return [f"if {value} is not constant{index} and not same({value}, constant{index}): return False"]
        case _:
            return []


def _called(name: str) -> Callable[[Any], bool]:
    """Return a memoised test for a dtype, device or layout of this name."""
    return _remembered(lambda value: dtype_name(value) == name)


def _size_text(declared: Input, leaf: int, index: int) -> str:
    return f"s{leaf}[{index}]" if isinstance(declared, TensorInput) else f"a{leaf}"


def _operation(op: Callable[..., Any], size: str, number: int) -> str:
    return f"({size} - {number})" if op is operator.sub else f"{size} // {number}"
