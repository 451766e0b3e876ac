"""Operators at the bounds of their sizes, where rows would mix: what lies beyond the rows is masked first.

A size from data becomes its bound, and the number that it was a count beside it: the first rows are meant, the others
hold anything. *Law* of each form here: the rows meant of its result are those that the operator gives of the rows meant
of its operands, at every count; where the operator raises, an assertion in the graph does. An operator that has no form
here, and keeps rows apart by no rule (row_by_row.py), has no place in a bounded program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from shapeproof.export.shim.asynchronous import assert_all

Tensor = torch.Tensor


class Operand(Protocol):
    """A tensor at its bounds."""

    value: Tensor
    dims: Mapping[int, Tensor]
    """The dims that vary, each with its count."""


class Refused(Exception):  # noqa: N818 - it becomes a UsageError that names the node
    """A call that has no form; the text says why."""


class Given:
    """A call at its bounds: what its operands are, and how large its results may get.

    Args:
        arguments: by name; a tensor is an Operand, a number that varies a tensor.
        limits: for each result, the bounds of its sizes.
        define: notes the count of what a result has rows of.
    """

    def __init__(
        self, arguments: Mapping[str, Any], limits: Sequence[tuple[int, ...]], define: Callable[[int, Tensor], None]
    ) -> None:
        self.arguments = arguments
        self.limits = limits
        self.define = define

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def tensor(self, name: str) -> Operand:
        """A tensor argument."""
        found: Any = self.arguments.get(name)
        if not is_operand(found):
            raise Refused(f"its {name} is no tensor")
        operand: Operand = found
        return operand

    def fixed(self, name: str) -> Tensor:
        """A tensor that does not vary."""
        found = self.tensor(name)
        if found.dims:
            raise Refused(f"its {name} has a size from data")
        return found.value


def is_operand(value: Any) -> bool:
    """Whether an argument is a tensor at its bounds."""
    return hasattr(value, "dims") and hasattr(value, "value")


def rows_of(operand: Operand, dim: int) -> Tensor:
    """Which places along a dim are meant."""
    places = torch.arange(operand.value.shape[dim], device=operand.value.device)
    return places < operand.dims[dim]


def meant(operand: Operand, dims: Sequence[int] | None = None) -> Tensor | None:
    """Which elements are meant, as a mask that broadcasts; None where all are."""
    found: Tensor | None = None
    for dim in operand.dims if dims is None else dims:
        if dim in operand.dims:
            shape = [-1 if other == dim else 1 for other in range(operand.value.dim())]
            mask = rows_of(operand, dim).view(shape)
            found = mask if found is None else found & mask
    return found


def filled(operand: Operand, value: float, dims: Sequence[int] | None = None) -> Tensor:
    """The tensor with a number where nothing is meant."""
    mask = meant(operand, dims)
    return operand.value if mask is None else operand.value.masked_fill(~mask, value)


def dims_of(value: Any, rank: int) -> list[int]:
    """The dims that an argument names, all where it names none."""
    if value is None or value in ((), []):
        return list(range(rank))
    return [each % rank for each in (value if isinstance(value, tuple | list) else (value,))]


def _positions(condition: Tensor, limit: int) -> Tensor:
    found: Tensor = torch.nonzero_static(condition, size=limit, fill_value=0)
    return found


# ---------------------------------------------------------------------- sizes that come of data


def _condition(operand: Operand) -> Tensor:
    mask = meant(operand)
    condition = operand.value != 0
    return condition if mask is None else condition & mask


def _nonzero(given: Given) -> Tensor:
    condition = _condition(given.tensor("self"))
    given.define(0, condition.sum())
    return _positions(condition, given.limits[0][0])


def _masked_select(given: Given) -> Tensor:
    source, mask = given.tensor("self"), given.tensor("mask")
    condition = _condition(mask)
    own = meant(source)
    value, condition = torch.broadcast_tensors(source.value, condition if own is None else condition & own)
    given.define(0, condition.sum())
    found: Tensor = value.flatten()[_positions(condition.flatten(), given.limits[0][0]).squeeze(1)]
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
    """The elements in order, those that are meant first; where each was; and which are meant."""
    values, places = operand.value.flatten().sort(stable=True)
    valid = _valid(operand)[places]
    order = (~valid).to(torch.uint8).argsort(stable=True)
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
    return values[_positions(firsts, limit).squeeze(1)], inverse, counts


def _repeats(given: Given, limit: int) -> tuple[Tensor, Tensor]:
    """For each row of a result whose it is, and how many rows there are."""
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


def _wrapped(index: Operand, size: int, count: Tensor | None, what: str) -> Tensor:
    """An index that is in range everywhere: 0 where nothing is meant; what is meant is asserted to be."""
    mask, value = meant(index), index.value.long()
    if size == 0:
        raise Refused("it looks up rows where there may be none")
    if mask is None and count is None:
        return value
    end = size if count is None else count
    inside = (value >= -end) & (value < end)
    assert_all(inside if mask is None else inside | ~mask, f"index out of range in {what}")
    value = torch.where(value < 0, value + end, value)
    return torch.where(inside if mask is None else inside & mask, value, 0)


def _columns(given: Given, source: Operand) -> dict[int, Operand]:
    """The index of each dim that is indexed: a mask as where it is true."""
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
    """The positions at which a mask is true, one list for each of its dims."""
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
    positions = _positions(condition, limit)
    return [_At(column, {0: count}) for column in positions.unbind(1)]


class _At:
    """An operand that is made here."""

    def __init__(self, value: Tensor, dims: Mapping[int, Tensor]) -> None:
        self.value = value
        self.dims = dims


def _index(given: Given) -> Tensor:
    source = given.tensor("self")
    columns = _columns(given, source)
    safe = {
        dim: _wrapped(each, source.value.shape[dim], source.dims.get(dim), "index") for dim, each in columns.items()
    }
    return source.value[tuple(safe.get(dim, slice(None)) for dim in range(max(safe) + 1))]


def _index_select(given: Given) -> Tensor:
    source, index = given.tensor("self"), given.tensor("index")
    (dim,) = dims_of(given["dim"], source.value.dim())
    return source.value.index_select(
        dim, _wrapped(index, source.value.shape[dim], source.dims.get(dim), "index_select()").view(-1)
    )


def _embedding(given: Given) -> Tensor:
    table, index = given.fixed("weight"), given.tensor("indices")
    return torch.nn.functional.embedding(_wrapped(index, table.shape[0], None, "embedding"), table)


def _gather(given: Given) -> Tensor:
    source, index = given.tensor("self"), given.tensor("index")
    (dim,) = dims_of(given["dim"], source.value.dim())
    return source.value.gather(dim, _wrapped(index, source.value.shape[dim], source.dims.get(dim), "gather"))


def _select(given: Given) -> Tensor:
    source, index = given.tensor("self"), given["index"]
    (dim,) = dims_of(given["dim"], source.value.dim())
    if not isinstance(index, int):
        raise Refused("its index comes of data")
    at = _At(torch.tensor([index], device=source.value.device), {})
    found = _wrapped(at, source.value.shape[dim], source.dims.get(dim), "select()")
    return source.value.index_select(dim, found).squeeze(dim)


def _flip(given: Given) -> Tensor:
    source = given.tensor("self")
    value = source.value
    for dim in dims_of(given["dims"], value.dim()):
        places = torch.arange(value.shape[dim], device=value.device)
        end = source.dims.get(dim, torch.tensor(value.shape[dim]))
        value = value.index_select(dim, (end - 1 - places).clamp(min=0))
    return value


# ---------------------------------------------------------------------- writing


def _onto(given: Given, dim: int, index: Operand, write: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Write rows along a dim: those that are not meant go to a row behind all, which is cut off again."""
    target = given.tensor("self")
    size, count = target.value.shape[dim], target.dims.get(dim)
    end = size if count is None else count
    value, mask = index.value.long(), meant(index)
    inside = (value >= -end) & (value < end)
    assert_all(inside if mask is None else inside | ~mask, "index out of range")
    value = torch.where(value < 0, value + end, value)
    value = torch.where(inside if mask is None else inside & mask, value, size)
    row = target.value.new_zeros([1 if each == dim else length for each, length in enumerate(target.value.shape)])
    return write(torch.cat([target.value, row], dim), value).narrow(dim, 0, size)


def _index_put(given: Given) -> Tensor:
    target, values = given.tensor("self"), given.tensor("values")
    columns = _columns(given, target)
    first = min(columns)
    others = {
        dim: _wrapped(each, target.value.shape[dim], target.dims.get(dim), "index_put")
        for dim, each in columns.items()
        if dim != first
    }
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
        have = columns[first].dims.get(0, torch.tensor(rows))
        if values.dims[0] is not have:
            assert_all(values.dims[0] == have, "shape mismatch: as many values as places are expected")
    return _onto(given, first, columns[first], write)


def _refuse_unlike(source: Operand, dim: int, index: Operand) -> None:
    if source.dims.get(dim) is not index.dims.get(0):
        raise Refused("its source has another size from data than its index")


def _index_add(given: Given) -> Tensor:
    target, source = given.tensor("self"), given.tensor("source")
    (dim,) = dims_of(given["dim"], target.value.dim())
    alpha = 1 if given["alpha"] is None else given["alpha"]
    _refuse_unlike(source, dim, given.tensor("index"))
    return _onto(given, dim, given.tensor("index"), lambda onto, at: onto.index_add(dim, at, source.value, alpha=alpha))


def _index_copy(given: Given) -> Tensor:
    target, source = given.tensor("self"), given.tensor("source")
    (dim,) = dims_of(given["dim"], target.value.dim())
    _refuse_unlike(source, dim, given.tensor("index"))
    return _onto(given, dim, given.tensor("index"), lambda onto, at: onto.index_copy(dim, at, source.value))


def _scatter(add: bool) -> Callable[[Given], Tensor]:  # noqa: FBT001
    def form(given: Given) -> Tensor:
        target, source = given.tensor("self"), given.tensor("src")
        (dim,) = dims_of(given["dim"], target.value.dim())
        name = "scatter_add" if add else "scatter"
        return _onto(given, dim, given.tensor("index"), lambda onto, at: getattr(onto, name)(dim, at, source.value))

    return form


def _masked_scatter(given: Given) -> Tensor:
    target, mask, source = given.fixed("self"), given.fixed("mask"), given.tensor("source")
    if set(source.dims) - {0}:
        raise Refused("the elements of its source are not the first ones")
    each = source.value[:1].numel() if len(source.value) else 0
    places = mask.expand(target.shape) if mask.dim() <= target.dim() else mask
    have = source.dims[0] * each if source.dims else torch.tensor(source.value.numel())
    assert_all(places.sum() <= have, "mask has more elements than the source")
    lacking = max(0, target.numel() - source.value.numel())
    elements = torch.cat([source.value.flatten(), source.value.new_zeros(lacking)])
    return target.masked_scatter(mask, elements)


# ---------------------------------------------------------------------- reductions


def _reducing(value: float, packet: Callable[..., Any]) -> Callable[[Given], Tensor]:
    """A reduction to which a number adds nothing."""

    def form(given: Given) -> Tensor:
        operand = given.tensor("self")
        rest = {name: each for name, each in given.arguments.items() if name != "self"}
        return packet(filled(operand, value), **rest)  # type: ignore[no-any-return]

    return form


def _sum(given: Given) -> Tensor:
    operand = given.tensor("self")
    dims = dims_of(given["dim"], operand.value.dim())
    return filled(operand, 0).sum(dims, keepdim=bool(given["keepdim"]), dtype=given["dtype"])


def _mean(given: Given) -> Tensor:
    operand = given.tensor("self")
    total = _sum(given)
    number = torch.ones((), dtype=torch.int64)
    for dim in dims_of(given["dim"], operand.value.dim()):
        number *= operand.dims.get(dim, torch.tensor(operand.value.shape[dim]))
    return total / number


def _copied(operand: Operand, dims: Sequence[int]) -> Tensor:
    """The tensor with its first row where none is meant; there must be one, since the result is one of the elements."""
    value = operand.value
    for dim in dims:
        if dim in operand.dims:
            if not value.shape[dim]:
                raise Refused("there is nothing to choose from")
            assert_all(operand.dims[dim] > 0, "expected a reduction dim with at least one element")
            shape = [-1 if other == dim else 1 for other in range(value.dim())]
            value = torch.where(rows_of(operand, dim).view(shape), value, value.narrow(dim, 0, 1))
    return value


def _chosen(name: str) -> Callable[[Given], Any]:
    """`amax`, `max`: one of the elements."""

    def form(given: Given) -> Any:
        operand = given.tensor("self")
        dims = dims_of(given["dim"], operand.value.dim())
        value = _copied(operand, dims)
        if given["dim"] is None or name.startswith("am"):
            return getattr(value, name if name.startswith("am") else f"a{name}")(dims, bool(given["keepdim"]))
        found = getattr(value, name)(dims[0], bool(given["keepdim"]))
        return found.values, _within(found.indices, operand, dims[0])

    return form


def _within(index: Tensor, operand: Operand, dim: int) -> Tensor:
    """A place that is meant: beyond, the row is the first's, so the first is as good."""
    return torch.where(index < operand.dims[dim], index, 0) if dim in operand.dims else index


def _placed(name: str) -> Callable[[Given], Tensor]:
    """`argmax`: where one of the elements is."""

    def form(given: Given) -> Tensor:
        operand = given.tensor("self")
        if given["dim"] is None and operand.value.dim() != 1:
            raise Refused("it counts elements of all dims")
        (dim,) = dims_of(given["dim"], operand.value.dim())
        found = getattr(_copied(operand, [dim]), name)(dim, bool(given["keepdim"]))
        return _within(found, operand, dim)

    return form


def _soft(name: str) -> Callable[[Given], Tensor]:
    """`softmax`: what is not meant has no weight."""

    def form(given: Given) -> Tensor:
        operand = given.tensor("self")
        if not operand.value.is_floating_point():
            raise Refused("it is of integers")
        (dim,) = dims_of(given["dim"], operand.value.dim())
        value = filled(operand, float("-inf"), [dim])
        return getattr(torch, name)(value, dim, given["dtype"])  # type: ignore[no-any-return]

    return form


# ---------------------------------------------------------------------- order


def _compacted(value: Tensor, valid: Tensor, dim: int) -> Tensor:
    """Where the rows that are meant stand along a dim, in order, and then the others."""
    return (~valid.expand_as(value)).to(torch.uint8).argsort(dim=dim, stable=True)


def _counts(operand: Operand, dims: Any) -> list[int]:
    """Which counts the dims have, in a form that can be compared: one count is one tensor."""
    return [id(operand.dims.get(dim)) for dim in dims]


def _cat(given: Given) -> Tensor:
    operands = [each for each in given["tensors"] if is_operand(each)]
    (dim,) = dims_of(given["dim"], operands[0].value.dim())
    first = {other: count for other, count in operands[0].dims.items() if other != dim}
    if any(_counts(each, first) != _counts(operands[0], first) for each in operands):
        raise Refused("its operands have other sizes from data")
    value = torch.cat([each.value for each in operands], dim)
    masks = [
        rows_of(each, dim) if dim in each.dims else torch.ones(each.value.shape[dim], dtype=torch.bool)
        for each in operands
    ]
    order = (~torch.cat(masks)).to(torch.uint8).argsort(stable=True)
    return value.index_select(dim, order[: given.limits[0][dim]])


def _in_order(operand: Operand, dim: int, *, descending: bool) -> tuple[Tensor, Tensor]:
    values, places = operand.value.sort(dim=dim, descending=descending, stable=True)
    if dim in operand.dims:
        shape = [-1 if other == dim else 1 for other in range(values.dim())]
        valid = rows_of(operand, dim).view(shape).expand_as(values).gather(dim, places)
        order = _compacted(values, valid, dim)
        values, places = values.gather(dim, order), places.gather(dim, order)
    return values, places


def _sort(given: Given) -> tuple[Tensor, Tensor]:
    operand = given.tensor("self")
    (dim,) = dims_of(given["dim"], operand.value.dim())
    return _in_order(operand, dim, descending=bool(given["descending"]))


def _argsort(given: Given) -> Tensor:
    return _sort(given)[1]


def _topk(given: Given) -> tuple[Tensor, Tensor]:
    operand, k = given.tensor("self"), given["k"]
    (dim,) = dims_of(given["dim"], operand.value.dim())
    limit = given.limits[0][dim]
    if limit > operand.value.shape[dim]:
        raise Refused("it may choose more than there are")
    if dim in operand.dims:
        assert_all(operand.dims[dim] >= k, "selected index k out of range")
    values, places = _in_order(operand, dim, descending=bool(given["largest"]))
    return values.narrow(dim, 0, limit), places.narrow(dim, 0, limit)


# ---------------------------------------------------------------------- products


def _product(given: Given) -> Tensor:
    """A product of matrices: what is summed over adds nothing where it is not meant."""
    left = given.tensor("self")
    right = given.tensor("mat2" if "mat2" in given.arguments else "other")
    inner = left.dims.get(left.value.dim() - 1), right.dims.get(max(0, right.value.dim() - 2))
    if inner[0] is not inner[1]:
        raise Refused("it sums over sizes from data that are not one")
    if left.value.dim() > 2 or right.value.dim() > 2:
        raise Refused("it is of a batch")
    return torch.matmul(filled(left, 0), filled(right, 0))


def _attention(given: Given) -> Tensor:
    """`scaled_dot_product_attention` of a set with itself: keys that are not meant have no weight."""
    query, key, value = (given.tensor(name) for name in ("query", "key", "value"))
    mask = meant(key, [key.value.dim() - 2])
    rank = key.value.dim()
    if {id(each.dims.get(rank - 2)) for each in (query, key, value)} != {id(key.dims.get(rank - 2))}:
        raise Refused("it looks from one set at another")
    if any(set(each.dims) != {rank - 2} for each in (query, key, value)):
        raise Refused("it has more than one size from data")
    if mask is None or any(given[name] for name in ("is_causal", "dropout_p", "enable_gqa")):
        raise Refused("it is causal, drops elements or groups heads")
    if given["attn_mask"] is not None:
        raise Refused("it has a mask of its own")
    return torch.nn.functional.scaled_dot_product_attention(
        query.value, filled(key, 0), filled(value, 0), attn_mask=mask.transpose(-1, -2), scale=given["scale"]
    )


FORMS: Mapping[str, Callable[[Given], Any]] = {
    "nonzero.default": _nonzero,
    "masked_select.default": _masked_select,
    "_unique2.default": _unique,
    "unique_consecutive.default": _consecutive,
    "repeat_interleave.Tensor": _repeat_interleave,
    "repeat_interleave.self_Tensor": _repeat_rows,
    "index.Tensor": _index,
    "index_select.default": _index_select,
    "embedding.default": _embedding,
    "gather.default": _gather,
    "select.int": _select,
    "flip.default": _flip,
    "index_put.default": _index_put,
    "index_add.default": _index_add,
    "index_copy.default": _index_copy,
    "scatter.src": _scatter(add=False),
    "scatter_add.default": _scatter(add=True),
    "masked_scatter.default": _masked_scatter,
    "sum.default": _sum,
    "sum.dim_IntList": _sum,
    "mean.default": _mean,
    "mean.dim": _mean,
    "prod.default": _reducing(1, torch.prod),
    "prod.dim_int": _reducing(1, torch.prod),
    "any.default": _reducing(0, torch.any),
    "any.dim": _reducing(0, torch.any),
    "all.default": _reducing(1, torch.all),
    "all.dim": _reducing(1, torch.all),
    "logsumexp.default": _reducing(float("-inf"), torch.logsumexp),
    "amax.default": _chosen("amax"),
    "amin.default": _chosen("amin"),
    "max.default": _chosen("max"),
    "min.default": _chosen("min"),
    "max.dim": _chosen("max"),
    "min.dim": _chosen("min"),
    "argmax.default": _placed("argmax"),
    "argmin.default": _placed("argmin"),
    "softmax.int": _soft("softmax"),
    "log_softmax.int": _soft("log_softmax"),
    "cat.default": _cat,
    "sort.default": _sort,
    "sort.stable": _sort,
    "argsort.default": _argsort,
    "argsort.stable": _argsort,
    "topk.default": _topk,
    "mm.default": _product,
    "matmul.default": _product,
    "scaled_dot_product_attention.default": _attention,
}
"""The form of each operator; in place as out of place."""
