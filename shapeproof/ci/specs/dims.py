"""Sizes and relations of a spec: parses a size such as "2*batch + 1", and states the conditions of a dim's entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from shapeproof.ci.specs.spec_errors import SpecError
from shapeproof.constraints.errors import Unevaluable, UsageError, nearest
from shapeproof.constraints.meaning.evaluate import Linear, linear
from shapeproof.constraints.syntax.text import parse_relation, parse_term

if TYPE_CHECKING:
    from shapeproof.ci.specs.spec import Dim, Model, Operator


def parse_size(text: str) -> Linear:
    """Parse a size: a dim, or a dim with a factor and an offset.

    >>> parse_size("2*batch + 1")
    Linear(name='batch', step=2, offset=1)

    Raises:
        ValueError: the text is neither a dim nor a dim with a factor and an offset.
    """
    form = linear(parse_term(text))
    if form is None or form.step < 1:
        raise ValueError(text)
    return form


def conditions(name: str, dim: Dim) -> Iterator[tuple[str, str]]:
    """Yield all conditions of a dim, each with its key."""
    if dim.min is not None:
        yield "min", f"{name} >= {dim.min}"
    if dim.max is not None:
        yield "max", f"{name} <= {dim.max}"
    if dim.multiple_of is not None:
        yield "multiple_of", f"{name} % {dim.multiple_of} == 0"
    if dim.one_of is not None:
        yield "one_of", " or ".join(f"{name} == {value}" for value in dim.one_of)


def check_dims(dims: Mapping[str, Dim], tables: Mapping[str, Mapping[str, Model | Operator]]) -> None:
    """Check that every size and relation can be parsed and names existing dims.

    Raises:
        SpecError: a size or relation is invalid, or a dim has min > max.
    """
    for name, dim in dims.items():
        if dim.min is not None and dim.max is not None and dim.min > dim.max:
            raise SpecError(f"`dims.{name}` has min = {dim.min}, above max = {dim.max}", ["dims", name, "min"])
    for table, name, model in ((table, *item) for table, items in tables.items() for item in items.items()):
        used = set()
        for key, input_ in (model.inputs or {}).items():
            for index, size in enumerate(input_.dims):
                if isinstance(size, str):
                    used.add(_dim_of(size, dims, [table, name, "inputs", key, "dims", index]))
        for index, text in enumerate(model.relations):
            _check_relation(text, None if model.inputs is None else used, [table, name, "relations", index])


def _dim_of(size: str, dims: Mapping[str, Dim], path: list[str | int]) -> str:
    """Return the dim that a size names."""
    try:
        derived = parse_size(size)
    except (ValueError, Unevaluable):
        raise SpecError(
            f"{size!r} is not a size: a dim makes one, or a dim with a factor and an offset (2*batch + 1)", path
        ) from None
    if derived.name not in dims:
        raise SpecError(
            f"{size!r} names `{derived.name}`, which is not among the dims{nearest(derived.name, dims)}", path
        )
    return derived.name


def _check_relation(text: str, known: set[str] | None, path: list[str | int]) -> None:
    """Check that a relation can be parsed; if the spec has the model's inputs, that it names their dims."""
    try:
        parse_relation(text, known)
    except UsageError as error:
        raise SpecError(f"relation {error}", path) from None
