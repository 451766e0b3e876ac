"""Operators that create sizes from data, look up rows or write them; invalid elements are masked first (masking.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from shapeproof.export.forms.static.masking import (
    Forms,
    Given,
    Operand,
    Refused,
    Tensor,
    dims_of,
    filled,
    meant,
    positions,
    valid_first,
)
from shapeproof.export.shim.guarding import assert_all

# ---------------------------------------------------------------------- sizes that come of data


def _condition(operand: Operand) -> Tensor:
    mask = meant(operand)
    condition = operand.value != 0
    return condition if mask is None else condition & mask


def _nonzero(given: Given) -> Tensor:
    condition = _condition(given.tensor("self"))
    given.define(0, condition.sum())
    return positions(condition, given.limits[0][0])


def _masked_select(given: Given) -> Tensor:
    source, mask = given.tensor("self"), given.tensor("mask")
    condition = _condition(mask)
    own = meant(source)
    value, condition = torch.broadcast_tensors(source.value, condition if own is None else condition & own)
    given.define(0, condition.sum())
    found: Tensor = value.flatten()[positions(condition.flatten(), given.limits[0][0]).squeeze(1)]
    return found


def _unique(given: Given) -> tuple[Tensor, Tensor, Tensor]:
    if given["sorted"] is False:
        raise Refused("torch does not say in which order unsorted values are")
    return _distinct(given, *_ordered(given.tensor("self")))


def _consecutive(given: Given) -> tuple[Tensor, Tensor, Tensor]:
    if given["dim"] is not None:
        raise Refused("it is along a dim")
    operand = given.tensor("self")
    if len(operand.dims) > 1 or (operand.dims and 0 not in operand.dims):
        raise Refused("its elements are not the first ones")
    valid = _valid(operand)
    return _distinct(given, operand.value.flatten(), torch.arange(valid.numel(), device=valid.device), valid)


def _valid(operand: Operand) -> Tensor:
    mask = meant(operand)
    everywhere = torch.ones_like(operand.value, dtype=torch.bool)
    return (everywhere if mask is None else everywhere & mask).flatten()


def _ordered(operand: Operand) -> tuple[Tensor, Tensor, Tensor]:
    """Return the elements in order, valid ones first; their original places; and which of them are valid."""
    values, places = operand.value.flatten().sort(stable=True)
    valid = _valid(operand)[places]
    order = valid_first(valid)
    return values[order], places[order], valid[order]


def _distinct(given: Given, values: Tensor, places: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    changes = torch.ones_like(valid)
    changes[1:] = values[1:] != values[:-1]
    firsts = changes & valid
    given.define(0, firsts.sum())
    limit = given.limits[0][0]
    group = firsts.long().cumsum(0) - 1
    inverse = counts = values.new_empty(0, dtype=torch.int64)
    if given["return_inverse"]:
        inverse = torch.zeros_like(group).scatter(0, places, group).view(given.tensor("self").value.shape)
    if given["return_counts"]:
        ones = torch.zeros(limit + 1, dtype=torch.int64, device=values.device)
        counts = ones.index_add(0, torch.where(valid, group, limit), torch.ones_like(group))[:limit]
    return values[positions(firsts, limit).squeeze(1)], inverse, counts


def _repeats(given: Given, limit: int) -> tuple[Tensor, Tensor]:
    """Return, for each row of the result, the index of its source; and the number of rows."""
    operand = given.tensor("repeats")
    if operand.value.dim() != 1:
        raise Refused("its repeats are not one list")
    repeats = filled(operand, 0)
    assert_all(repeats >= 0, "repeats can not be negative")
    ends = repeats.cumsum(0)
    rows = torch.arange(limit, device=ends.device)
    if not len(ends):
        raise Refused("there is nothing to repeat")
    return torch.searchsorted(ends, rows, right=True).clamp(max=len(ends) - 1), ends[-1]


def _repeat_interleave(given: Given) -> Tensor:
    found, count = _repeats(given, given.limits[0][0])
    given.define(0, count)
    return found.to(given.tensor("repeats").value.dtype)


def _repeat_rows(given: Given) -> Tensor:
    source, dim = given.tensor("self"), given["dim"]
    if dim is None or dim < 0 or len(given.tensor("repeats").value) != source.value.shape[dim]:
        raise Refused("its repeats are not one for each row")
    found, count = _repeats(given, given.limits[0][dim])
    given.define(dim, count)
    return source.value.index_select(dim, found)


# ---------------------------------------------------------------------- looking up


def _placed(index: Operand, end: Tensor | int, message: str, *, otherwise: int) -> Tensor:
    """Return the places that an index names, `otherwise` for invalid elements; valid ones are asserted in range."""
    mask, value = meant(index), index.value.long()
    inside = (value >= -end) & (value < end)
    assert_all(inside if mask is None else inside | ~mask, message)
    value = torch.where(value < 0, value + end, value)
    return torch.where(inside if mask is None else inside & mask, value, otherwise)


def _looked_up(source: Operand, dim: int, index: Operand, what: str) -> Tensor:
    """Return an index into a dim that is in range everywhere: 0 for invalid elements."""
    if source.value.shape[dim] == 0:
        raise Refused("it looks up rows where there may be none")
    if not index.dims and dim not in source.dims:
        return index.value.long()
    end = source.dims.get(dim, source.value.shape[dim])
    return _placed(index, end, f"index out of range in {what}", otherwise=0)


def _columns(given: Given, source: Operand) -> dict[int, Operand]:
    """Return the index of each indexed dim; a mask becomes the positions of its true elements."""
    found: dict[int, Operand] = {}
    place = 0
    for index in given["indices"]:
        if index is None:
            place += 1
        elif index.value.dtype not in {torch.bool, torch.uint8}:
            found[place] = index
            place += 1
        else:
            for column in _where(given, index, source, place):
                found[place] = column
                place += 1
    return found


def _where(given: Given, index: Operand, source: Operand, place: int) -> list[Operand]:
    """Return the positions of a mask's true elements, one list for each of its dims."""
    if any(each is not None and each is not index for each in given["indices"]):
        raise Refused("it is indexed by a mask and more")
    condition = _condition(index)
    own = {dim - place: count for dim, count in source.dims.items() if place <= dim < place + condition.dim()}
    if own.keys() != index.dims.keys():
        raise Refused("its mask is of other sizes")
    count = condition.sum()
    limit = given.limits[0][place] if given.limits and given["values"] is None else condition.numel()
    if given["values"] is None:
        given.define(place, count)
    found = positions(condition, limit)
    return [Operand(column, {0: count}) for column in found.unbind(1)]


def _index(given: Given) -> Tensor:
    source = given.tensor("self")
    columns = _columns(given, source)
    safe = {dim: _looked_up(source, dim, each, "index") for dim, each in columns.items()}
    return source.value[tuple(safe.get(dim, slice(None)) for dim in range(max(safe) + 1))]


def _rows_looked_up(given: Given, source: str = "self", index: str = "index") -> Any:
    """`index_select`, `gather`, `embedding`: the rows along a dim, the first if none is given, that an index names."""
    rows = given.tensor(source)
    (dim,) = dims_of(given["dim"] or 0, rows.value.dim())
    places = _looked_up(rows, dim, given.tensor(index), f"a {source} of `{given.operator}`")
    return given.run(**{source: rows.value, index: places})


def _embedding(given: Given) -> Any:
    given.fixed("weight")
    return _rows_looked_up(given, "weight", "indices")


def _select(given: Given) -> Tensor:
    source, index = given.tensor("self"), given["index"]
    (dim,) = given.dims(source)
    if not isinstance(index, int):
        raise Refused("its index comes of data")
    at = Operand(torch.tensor([index], device=source.value.device))
    return source.value.index_select(dim, _looked_up(source, dim, at, "select()")).squeeze(dim)


def _flip(given: Given) -> Tensor:
    source = given.tensor("self")
    value = source.value
    for dim in dims_of(given["dims"], value.dim()):
        places = torch.arange(value.shape[dim], device=value.device)
        end = source.dims.get(dim, value.shape[dim])
        value = value.index_select(dim, (end - 1 - places).clamp(min=0))
    return value


# ---------------------------------------------------------------------- writing


def _onto(given: Given, dim: int, index: Operand, write: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Write rows along a dim; invalid rows go to an extra row at the end, which is cut off afterwards."""
    target = given.tensor("self")
    size = target.value.shape[dim]
    value = _placed(index, target.dims.get(dim, size), "index out of range", otherwise=size)
    row = target.value.new_zeros([1 if each == dim else length for each, length in enumerate(target.value.shape)])
    return write(torch.cat([target.value, row], dim), value).narrow(dim, 0, size)


def _index_put(given: Given) -> Tensor:
    target, values = given.tensor("self"), given.tensor("values")
    columns = _columns(given, target)
    first = min(columns)
    others = {dim: _looked_up(target, dim, each, "index_put") for dim, each in columns.items() if dim != first}
    rows = max(each.value.shape[0] for each in columns.values())
    if values.dims and (set(values.dims) != {0} or first or any(each.value.dim() != 1 for each in columns.values())):
        raise Refused("its values do not lie row by row")
    if values.dims and values.value.dim() != target.value.dim() - len(columns) + 1:
        raise Refused("its values are broadcast")

    def write(onto: Tensor, value: Tensor) -> Tensor:
        at = [{**others, first: value}.get(dim) for dim in range(max(columns) + 1)]
        given_rows = values.value
        if values.dims and 0 in values.dims and given_rows.shape[0] < rows:
            lacking = given_rows.new_zeros(rows - given_rows.shape[0], *given_rows.shape[1:])
            given_rows = torch.cat([given_rows, lacking])
        return onto.index_put(at, given_rows, bool(given["accumulate"]))

    if values.dims:
        have = columns[first].dims.get(0, rows)
        if values.dims[0] is not have:
            assert_all(values.dims[0] == have, "shape mismatch: as many values as places are expected")
    return _onto(given, first, columns[first], write)


def _written(given: Given) -> Tensor:
    """An operator that writes rows along a dim; of `index_*`, each index has one row."""
    source = "source" if "source" in given.arguments else "src"
    rows, index = given.tensor(source), given.tensor("index")
    (dim,) = given.dims(given.tensor("self"))
    if source == "source" and rows.dims.get(dim) is not index.dims.get(0):
        raise Refused("its source has another size from data than its index")
    return _onto(given, dim, index, lambda onto, at: given.run(**{"self": onto, "index": at, source: rows.value}))


def _masked_scatter(given: Given) -> Tensor:
    target, mask, source = given.fixed("self"), given.fixed("mask"), given.tensor("source")
    if set(source.dims) - {0}:
        raise Refused("the elements of its source are not the first ones")
    each = source.value[:1].numel() if len(source.value) else 0
    places = mask.expand(target.shape) if mask.dim() <= target.dim() else mask
    have = source.dims[0] * each if source.dims else source.value.numel()
    assert_all(places.sum() <= have, "mask has more elements than the source")
    lacking = max(0, target.numel() - source.value.numel())
    elements = torch.cat([source.value.flatten(), source.value.new_zeros(lacking)])
    return target.masked_scatter(mask, elements)


ROWS: Forms = {
    "nonzero": _nonzero,
    "masked select": _masked_select,
    "unique": _unique,
    "consecutive": _consecutive,
    "repeats": _repeat_interleave,
    "repeated rows": _repeat_rows,
    "index": _index,
    **dict.fromkeys(("rows", "gather"), _rows_looked_up),
    "embedding": _embedding,
    "select": _select,
    "flip": _flip,
    "put": _index_put,
    "written": _written,
    "masked scatter": _masked_scatter,
}
