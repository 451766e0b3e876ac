"""What was seen, as text: torch's own lines for automatic dynamic sizes, with bounds and multiples after them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shapeproof.seen.calls import Kind, Slot, Strides, size_names
from shapeproof.seen.joint import Joint, Texts
from shapeproof.seen.relations import Relation, relations, step

ENOUGH = 2
"""A relation is said where this many points more than determine it were seen: two points fit any line."""


def all_seen_are(number: int | str) -> str:
    """How a sentence about all that was seen begins.

    >>> all_seen_are(3), all_seen_are(1)
    ('all 3 inputs seen are', 'the one input seen is')
    """
    return "the one input seen is" if number in {1, "1"} else f"all {number} inputs seen are"


def rendered(joints: Mapping[Kind, Joint], *, omitted: bool) -> str:
    """All kinds of calls, the inputs of each line by line, and the relations of their sizes."""
    parts = ["\n".join(_lines(kind, joint, typed=len(joints) > 1)) for kind, joint in joints.items()]
    if omitted:
        parts.append(f"more than {len(joints)} kinds of calls: some are left out")
    return "\n\n".join(parts) or "nothing was seen"


def _lines(kind: Kind, joint: Joint, *, typed: bool) -> Iterator[str]:
    start = 0
    for index, slot in enumerate(kind):
        facts = "; ".join(_facts(slot, joint, start))
        yield f"{slot.source}: {_slot(slot, joint, index, start, typed=typed)}" + (f"   {facts}" if facts else "")
        start += len(slot.sizes)
    for relation in joint_relations(kind, joint):
        yield f"{relation.formula}   true of {relation.witnesses} seen, {relation.determined_by} determine it"


def joint_relations(kind: Kind, joint: Joint) -> list[Relation]:
    """The relations between sizes for which enough points speak."""
    found = relations(joint, size_names(kind))
    return [each for each in found if len(each.formula.symbols) > 1 and each.extra >= ENOUGH]


def _slot(slot: Slot, joint: Joint, index: int, start: int, *, typed: bool) -> str:
    sizes = [str(low) if low == high else "?" for low, high in joint.bounds[start : start + len(slot.sizes)]]
    if slot.kind == "tensor":
        dtype = f" {slot.dtype}" if typed else ""
        strides = _strides(joint.strides[index])
        return f"tensor{dtype} size=[{', '.join(sizes)}]{strides}{_layouts(joint.constants[index])}"
    if slot.kind == "int":
        return f"scalar {sizes[0]}"
    said = joint.constants[index]
    return slot.kind if not said else f"{slot.kind} {', '.join(sorted(said))}"


def _strides(strides: Strides) -> str:
    if strides is None:
        return ""
    return f" stride=[{', '.join('?' if each is None else str(each) for each in strides)}]"


def _layouts(texts: Texts) -> str:
    """How tensors lay in memory, where that was not row by row."""
    if texts is None:
        return " order=?"
    return f" order={' or '.join(f'[{text}]' for text in sorted(texts))}" if texts - {"rows"} else ""


def _facts(slot: Slot, joint: Joint, start: int) -> Iterator[str]:
    for place in range(len(slot.sizes)):
        low, high = joint.bounds[start + place]
        if low < high:
            name = f"size[{place}] " if slot.kind == "tensor" else ""
            yield f"{name}{low}..{high}{_multiple(joint, start + place)}"


def _multiple(joint: Joint, column: int) -> str:
    """`, % 8 == 0`, where one value more than the two that give a difference speaks for it."""
    divisor, rest = step(joint, column)
    values = {point[column] for point in joint.points}
    return f", % {divisor} == {rest}" if divisor > 1 and len(values) > ENOUGH else ""
