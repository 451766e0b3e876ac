"""Compares two contracts: is there an input that the old one accepts and the new one refuses?

Law: where `lost` returns None, the new contract accepts each input that the old one accepts, in each form of a call.
tests/ci/test_contracts.py tries it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shapeproof.constraints.formulas import conjunction, eq, ge, negate
from shapeproof.constraints.meaning.evaluate import evaluate, holds_at
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import format_formula, parse_formula
from shapeproof.constraints.terms import Term, symbol
from shapeproof.contract import Contract
from shapeproof.contract.inputs import (
    ConstantInput,
    Entries,
    Input,
    IntInput,
    Items,
    ObjectInput,
    Opaque,
    TensorInput,
    Tree,
)
from shapeproof.wording import values_text


@dataclass(frozen=True, slots=True)
class Lost:
    """A loss of accepted inputs, in a sentence; of lost sizes the smallest, and the first condition they violate."""

    message: str
    sizes: Mapping[str, int] | None = None
    """The sizes that vary; None if other properties are lost."""
    point: Mapping[str, int] = field(default_factory=dict)
    """All sizes, and the values of the new contract's symbols at these sizes."""
    demand: str = ""


def lost(old: Contract, new: Contract) -> Lost | Undecided | None:
    """Return a loss of accepted inputs, or None if it is proved that there is none.

    The solver compares the sizes. Requirements that a contract does not check are compared as sentences: what a new
    sentence refuses is undecided.
    """
    other = next(_differences(old, new), None)
    if other is not None:
        return Lost(other)
    found = _lost_sizes(old, new)
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


def _lost_sizes(old: Contract, new: Contract) -> Lost | Undecided | None:
    """Return the smallest lost sizes, or None if it is proved that there are none. Both sides take the same inputs.

    The sizes are variables common to both sides. A symbol is the function of a size by which its contract reads it.
    """
    from shapeproof.solver import Facts, smallest

    before, after = _Side(old, "old"), _Side(new, "new")
    facts = Facts([*before.natural, *before.demands.values(), *before.definitions, *after.definitions])
    found = smallest(negate(conjunction(*after.demands.values())), facts, before.varying)
    if found is None or isinstance(found, Undecided):
        return found
    shown = {name: found[name] for name in before.varying}
    sizes = before.fixed | shown
    symbols = {name: evaluate(term, sizes) for name, term in after.read.items()}
    point = sizes | {after.rename[name]: value for name, value in symbols.items()}
    demand = next(text for text, formula in after.demands.items() if not holds_at(formula, point))
    given = values_text(shown) or "any input"
    return Lost(f"{given} is no longer accepted: {demand} is required", shown, symbols | sizes, demand)


class _Side:
    """A contract over sizes, by the user's names. A symbol that no size equals gets the prefix.

    Attributes:
        fixed: the sizes that are constant.
        varying: the other sizes.
        natural: no size of a tensor is negative.
        read: each symbol as a function of a size; `rename`: its name here.
        definitions: the same as equations, where that is no renaming.
        demands: the conditions for acceptance, by the text to show.
    """

    def __init__(self, contract: Contract, prefix: str) -> None:
        guard, sizes = contract.guard, list(_sizes(contract))
        self.fixed = {name: value for name, value, _ in sizes if value is not None}
        self.varying = [name for name, value, _ in sizes if value is None]
        self.natural = [ge(symbol(name), 0) for name, _, is_tensor in sizes if is_tensor]
        self.demands = {f"{name} == {value}": eq(symbol(name), value) for name, value in self.fixed.items()}
        self.read: dict[str, Term] = {}
        self.rename: dict[str, str] = {}
        for name, place in guard.places:
            size = guard.size_name(place.leaf, place.index)
            self.read[name] = (symbol(size) - place.offset) // place.step
            self.rename[name] = size if place.is_plain else f"{prefix}.{name}"
        self.definitions = [
            eq(symbol(self.rename[name]), self.read[name]) for name, place in guard.places if not place.is_plain
        ]
        for formula in guard.formulas:
            self.demands[format_formula(formula, guard.names)] = parse_formula(format_formula(formula, self.rename))


def _sizes(contract: Contract) -> Iterator[tuple[str, int | None, bool]]:
    """Yield the name of each size, its value if it is constant, and True if it is one of a tensor."""
    for leaf, declared in enumerate(contract.inputs):
        for index, term in enumerate(declared.sizes):
            value = term.constant_value if term.is_constant else None
            if isinstance(declared, ConstantInput) and isinstance(declared.value, int):
                value = declared.value
            yield contract.guard.size_name(leaf, index), value, isinstance(declared, TensorInput)
