"""Turns a profile of seen inputs into `Inputs`: sizes that varied are dynamic, and each kept input is an anchor.

The example counts as one more seen input. Relations that held for all seen inputs are not declared: the conditions that
the model needs are inferred and proved. Calls of another kind than the example's (rank, dtype, constants) are kept
apart, not dropped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import Term
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.source.declared_at import Where
from shapeproof.seen import Seen
from shapeproof.seen.calls import Call, Kind, Slot, read_call, size_names, user_name
from shapeproof.seen.joint import Joint


@dataclass(frozen=True, slots=True)
class Profile:
    """The calls like the example, by the names of the domain's symbols, and the calls of other kinds."""

    kind: Kind
    joint: Joint
    others: tuple[str, ...]
    """Seen inputs of other kinds than the example's, in words."""
    one_layout: bool
    """True if all seen tensors had the memory layout of the example's."""


def number_seen(joint: Joint) -> str:
    """Return the number of seen inputs, as text for a sentence."""
    number, exact = joint.distinct
    return str(number) if exact else f"about {number}"


def parameters(mod: torch.nn.Module) -> tuple[str, ...]:
    """Return the names of the parameters that take positional arguments, one each."""
    places = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return tuple(each.name for each in inspect.signature(mod.forward).parameters.values() if each.kind in places)


def declare_seen(
    mod: torch.nn.Module, declaring: Callable[..., Inputs], seen: Seen, constraints: Sequence[str], where: Where
) -> tuple[Inputs, Profile]:
    """Read a profile as declarations; `declaring`: `declare` of this model and example.

    Raises:
        UsageError: the profile has no calls of a model like this one, or the example is invalid.
    """
    plain = declaring(None)
    profile = _profile(mod, plain, seen)
    varying = dict(zip(size_names(profile.kind), profile.joint.varying, strict=True))
    shapes = plain.automatic(lambda leaf, index: varying[leaf.size_name(index)])
    inputs = declaring(shapes, constraints, where)
    return replace(inputs, anchors=(*inputs.anchors, *_points(inputs, profile))), profile


def _profile(mod: torch.nn.Module, inputs: Inputs, seen: Seen) -> Profile:
    """Return the calls like the example, and the example itself."""
    if inputs.example is None:
        raise UsageError("what was seen needs an example of each input, not a TensorSpec")
    call = read_call((leaf.source, leaf.example) for leaf in inputs.leaves)
    named = seen.named(parameters(mod))
    if not named:
        raise UsageError("nothing was seen: call the model while it is watched, or add its inputs")
    joint = Joint.of(call)
    known = named.joints.get(call.kind)
    others = [difference(kind, call.kind) for kind in named.joints if kind != call.kind]
    if named.omitted:
        others.append("further kinds of calls, which were too many to be kept")
    whole = joint if known is None else known | joint
    others += _constants(whole, call.kind, call.constants)
    return Profile(call.kind, whole, tuple(dict.fromkeys(others)), _has_one_layout(whole, call))


def _has_one_layout(joint: Joint, example: Call) -> bool:
    texts = zip(example.kind, joint.constants, example.constants, strict=True)
    return all(seen == frozenset((text,)) for slot, seen, text in texts if slot.kind == "tensor" and text is not None)


def difference(kind: Kind, example: Kind) -> str:
    """Describe the first difference between a kind of calls and the example's."""
    wanted, had = ({slot.source: slot for slot in each} for each in (example, kind))
    source = min(source for source in {*wanted, *had} if wanted.get(source) != had.get(source))
    return f"`{user_name(source)}` {_words(had.get(source))}; the example has {_words(wanted.get(source))}"


def _words(slot: Slot | None) -> str:
    return "absent" if slot is None else slot.text


def _constants(joint: Joint, kind: Kind, example: Sequence[str | None]) -> Iterator[str]:
    """The values of constants that differ from the example's, in words."""
    for slot, texts, text in zip(kind, joint.constants, example, strict=True):
        if slot.kind == "tensor":
            continue
        if texts is None:
            yield f"`{slot.name}` with more than one value; the example has {text}"
        else:
            yield from (f"`{slot.name}` = {other}; the example has {text}" for other in sorted(texts - {text}))


def _points(inputs: Inputs, profile: Profile) -> list[dict[str, int]]:
    """Return the kept points, over the symbols of the domain: each size that varied has one of its own."""
    terms = size_terms(inputs, profile.kind).values()
    points = (
        {name: size for term, size in zip(terms, point, strict=True) for name in term.symbols}
        for point in sorted(profile.joint.points)
    )
    return [point for point in points if point != inputs.example]


def size_terms(inputs: Inputs, kind: Kind) -> dict[str, Term]:
    """Return the declared term of each number of a point, by the name of the size."""
    terms = {leaf.source: leaf.terms for leaf in inputs.leaves}
    return {name: term for slot in kind for name, term in zip(slot.sizes, terms[slot.source], strict=True)}
