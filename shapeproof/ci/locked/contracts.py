"""Compares two contracts: is there an input that the old one accepts and the new one refuses?

Law: where `lost` returns None, the new contract accepts each input that the old one accepts, in each form of a call.
tests/ci/test_contracts.py tries it.
"""

from __future__ import annotations

from collections.abc import Iterator

from shapeproof.ci.locked.sizes import Lost, lost_sizes
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.contract import Contract
from shapeproof.contract.inputs import ConstantInput, Input, IntInput, ObjectInput, TensorInput
from shapeproof.contract.structure import Entries, Items, Opaque, Tree


def lost(old: Contract, new: Contract) -> Lost | Undecided | None:
    """Return a loss of accepted inputs, or None if it is proved that there is none.

    The solver compares the sizes. Requirements that a contract does not check are compared as sentences: what a new
    sentence refuses is undecided.
    """
    other = next(_differences(old, new), None)
    if other is not None:
        return Lost(other)
    found = lost_sizes(old, new)
    more = [f"{each} (this is new)" for each in new.unchecked if each not in old.unchecked]
    if isinstance(found, Lost) or not more:
        return found
    return Undecided("; ".join([*more, found.reason] if found else more))


def _differences(old: Contract, new: Contract) -> Iterator[str]:
    """Yield the differences that no size decides, each in a sentence."""
    before, after = dict(_arguments(old)), dict(_arguments(new))
    for what in before | after:
        if before.get(what) != after.get(what):
            yield f"it takes {after.get(what, 'nothing')} as {what}, not {before.get(what, 'nothing')}"
    if old.structure != new.structure:
        yield "it takes its arguments in another structure"
    for mine, other in zip(old.inputs, new.inputs, strict=True):
        yield from _other_input(mine, other)


def _arguments(contract: Contract) -> Iterator[tuple[str, str]]:
    """Yield how a call gives the inputs, by what is described."""
    structure, inputs = contract.structure, contract.inputs
    yield "arguments", str(structure)
    yield "positional arguments", str(len(structure.args))
    for name, tree in structure.arguments.items():
        yield name, _text(tree)
    yield "inputs", ", ".join(each.name for each in inputs)
    yield "inputs of its files", ", ".join(each.graph_name for each in inputs)


def _text(tree: Tree) -> str:
    """Return a structure in Python's notation.

    >>> _text(Items(list, (0, Entries(("a",), (1,)))))
    "[_, {'a': _}]"
    """
    match tree:
        case int():
            return "_"
        case Items(kind, parts):
            inner = ", ".join(map(_text, parts)) + "," * (kind is tuple and len(parts) == 1)
            return f"[{inner}]" if kind is list else f"({inner})"
        case Entries(keys, parts, _, kind):
            inner = ", ".join(f"{key!r}: {_text(part)}" for key, part in zip(keys, parts, strict=True))
            return " ".join(filter(None, [kind, f"{{{inner}}}"]))
        case Opaque(leaves, kind):
            return f"{kind or 'an object'} of {len(leaves)} inputs"


def _other_input(old: Input, new: Input) -> Iterator[str]:
    """Yield the properties in which an input is to be another; sizes are left to the solver."""
    if isinstance(old, ConstantInput) and isinstance(new, IntInput | ObjectInput):
        yield f"{old.name} can be left out no more: it was always {old.value!r}"
    if isinstance(new, ObjectInput):
        return
    before, after = _properties(old), _properties(new)
    for what, value in after.items():
        if before.get(what, value) != value:
            yield f"it takes {value} as {new.name}{what}, not {before[what]}"


def _properties(declared: Input) -> dict[str, str]:
    match declared:
        case TensorInput(dtype=dtype, device=device, layout=layout):
            own = {".dtype": dtype, ".device": device, ".layout": layout, ".ndim": str(len(declared.sizes))}
            return {"": "a tensor"} | own
        case ConstantInput(value=value):
            return {"": repr(value)}  # another for 1, 1.0 and True, and for 0.0 and -0.0
        case ObjectInput():
            return {"": "any object"}
        case _:
            return {"": "an int"}
