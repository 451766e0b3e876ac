"""Inputs at the corners of a declared domain, for tests that compare programs there.

Understands what the models of examples/ and benchmarks/ declare: named Dims with both bounds, on
tensors, in dicts and sequences. It never chooses sizes by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch

Sizes = dict[str, int]


def declared_dims(shapes: Any) -> dict[str, Any]:
    """The Dims of a dynamic_shapes tree by name, in the order in which they are met.

    >>> batch = torch.export.Dim("batch", min=1, max=8)
    >>> list(declared_dims({"x": {0: batch}, "y": None}))
    ['batch']
    """
    match shapes:
        case dict():
            children = shapes.values()
        case list() | tuple():
            children = shapes
        case None:
            return {}
        case _:
            return {shapes.__name__: shapes}
    return {name: dim for child in children for name, dim in declared_dims(child).items()}


def corner_sizes(shapes: Any) -> Iterator[Sizes]:
    """Every choice of the least or the greatest size for each Dim.

    >>> batch = torch.export.Dim("batch", min=1, max=8)
    >>> list(corner_sizes({"x": {0: batch}}))
    [{'batch': 1}, {'batch': 8}]
    """
    dims = declared_dims(shapes)
    for sizes in itertools.product(*((dim.min, dim.max) for dim in dims.values())):
        yield dict(zip(dims, sizes, strict=True))


def at_sizes(value: Any, shapes: Any, sizes: Mapping[str, int]) -> Any:
    """The same arguments with the declared dims at these sizes; integers keep the example's range.

    >>> n = torch.export.Dim("n", min=1, max=8)
    >>> at_sizes({"x": torch.ones(3, 2)}, {"x": {0: n}}, {"n": 5})["x"].shape
    torch.Size([5, 2])
    """
    match value:
        case torch.Tensor():
            return _tensor(value, shapes or {}, sizes)
        case dict():
            return {key: at_sizes(item, (shapes or {}).get(key), sizes) for key, item in value.items()}
        case list() | tuple():
            entries = shapes.values() if isinstance(shapes, dict) else shapes
            return type(value)(
                at_sizes(item, entry, sizes) for item, entry in itertools.zip_longest(value, entries or ())
            )
        case _:
            return value


def _tensor(example: torch.Tensor, dims: Mapping[int, Any], sizes: Mapping[str, int]) -> torch.Tensor:
    shape = [sizes[dims[i].__name__] if i in dims else size for i, size in enumerate(example.shape)]
    if example.is_floating_point():
        return torch.randn(shape, dtype=example.dtype)
    low, high = int(example.min()), int(example.max())
    return torch.randint(low, high + 1, shape).to(example.dtype)
