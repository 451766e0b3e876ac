"""A profile of seen inputs, written as a spec to edit: a draft of claims that `shapeproof check` proves or refutes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shapeproof.ci.specs.spec import Dim
from shapeproof.ci.specs.tables import dim_name, spec_of
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.syntax.text import format_formula, format_term
from shapeproof.constraints.terms import symbol
from shapeproof.seen import Seen
from shapeproof.seen.calls import Kind, size_names
from shapeproof.seen.joint import Joint
from shapeproof.seen.relations import Relation, affine, relations, step, witnesses
from shapeproof.seen.text import ENOUGH


def spec_text(seen: Seen, target: str) -> str:
    """Return the spec of one model.

    Raises:
        UsageError: a spec cannot express the profile: an input is no tensor, or there are several kinds of calls.
    """
    if len(seen.joints) != 1:
        raise UsageError(f"expected calls of one kind, got {len(seen.joints)}: a spec has one dtype and rank per input")
    (kind, joint) = next(iter(seen.joints.items()))
    for slot in kind:
        if slot.kind != "tensor" or not re.fullmatch(r"[A-Za-z_]\w*", slot.name):
            raise UsageError(f"`{slot.name}` is {slot.text}: a spec declares tensors, by the parameters of forward")
    return _drafted(kind, joint, target)


@dataclass(slots=True)
class _Sizes:
    """The text of each size: a number, a separate dim, or a dim with a factor and an offset."""

    texts: list[str]
    dims: dict[str, int] = field(default_factory=dict)
    """The column of the size that defines each dim."""
    own: dict[str, str] = field(default_factory=dict)
    """From the name of a size to its dim, for sizes that define a dim."""


def _sizes(kind: Kind, joint: Joint) -> _Sizes:
    names, sizes = size_names(kind), _Sizes([])
    for column, name in enumerate(names):
        low, high = joint.bounds[column]
        if low == high:
            sizes.texts.append(str(low))
            continue
        derived = _derived(joint, column, sizes)
        if derived is None:
            dim = dim_name(name)
            sizes.dims[dim] = column
            sizes.own[name] = dim
        sizes.texts.append(derived or dim)
    return sizes


def _derived(joint: Joint, column: int, sizes: _Sizes) -> str | None:
    """Express a size as a dim with a factor and an offset, if enough points beyond the two that fix them were seen."""
    for dim, earlier in sizes.dims.items():
        found = affine(joint, earlier, column)
        if found is None:
            continue
        factor, offset = found
        if factor > 0 and witnesses(joint, [earlier, column]) >= 2 + ENOUGH:
            return format_term(symbol(dim) * factor + offset)
    return None


def _drafted(kind: Kind, joint: Joint, target: str) -> str:
    number, exact = joint.distinct
    comment = (
        f"From {number if exact else f'about {number}'} inputs that were seen: claims, for you to widen or narrow."
    )
    believed = [each for each in relations(joint, size_names(kind)) if each.extra >= ENOUGH]
    sizes, dims = _sizes(kind, joint), {}
    for dim, column in sizes.dims.items():
        low, high = joint.bounds[column]
        divisor, rest = step(joint, column)
        stepped = rest == 0 and any(each.formula.symbols == {size_names(kind)[column]} for each in believed)
        dims[dim] = Dim(min=low, max=high, multiple_of=divisor if divisor > 1 and stepped else None)
    texts = iter(int(text) if text.isdecimal() else text for text in sizes.texts)
    inputs = {slot.name: (slot.dtype, list(itertools.islice(texts, slot.rank))) for slot in kind}
    return spec_of(target, dims, list(_joined(believed, sizes.own)), inputs, comment)


def _joined(believed: Sequence[Relation], own: Mapping[str, str]) -> Iterator[str]:
    """The relations between sizes that define a dim, except relations that the dims already state."""
    for relation in believed:
        symbols = relation.formula.symbols
        if symbols <= own.keys() and (len(symbols) > 1 or not str(relation.formula).endswith("== 0")):
            yield format_formula(relation.formula, rename=own)
