"""Give a view the sizes that the call asked for.

Torch's rule for `view` splits dimensions one by one. It notes `x.view(-1, 2, 4)` of `x: [n, 4]` as `[n // 2, n // (n //
2), 4]`, which is right where there are elements and undefined at n = 0. Eager takes the sizes from the call and
computes the last one from the number of elements: `[4*n // 8, 2, 4]`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.export.ops import schemas
from shapeproof.export.ops.layouts import Size
from shapeproof.export.ops.table import known_of
from shapeproof.export.trace.shape_env import ProofShapeEnv


@functools.cache
def view_of_copy(func: Any) -> Any:
    """Return the viewing operator whose result an operator copies, if torch computes the copy's sizes from a hint."""
    name = known_of(func).copies_view
    return None if name is None else functools.reduce(getattr, name.split("."), torch.ops)


def as_asked(env: ProofShapeEnv, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Return the result; a view whose noted sizes may be undefined gets the sizes that the call asked for."""
    asked = known_of(func).as_asked
    if asked is None or all(env.read(size).total for size in result.shape):
        return result
    call = schemas.by_name(func, args, kwargs)
    sizes = _asked(call["self"], call[asked])
    strides = [math.prod(sizes[index + 1 :]) for index in range(len(sizes))]
    known = [*zip(result.shape, sizes, strict=True), *zip(result.stride(), strides, strict=True)]
    if not all(env.trial.settled(f.eq(env.read(noted), env.read(own))) for noted, own in known):
        return result
    return result.as_strided(sizes, strides, result.storage_offset())


def _asked(source: torch.Tensor, sizes: Sequence[Size]) -> list[Size]:
    """Return the sizes of a view, with the size -1 that is left to torch computed: eager checks that they fit."""
    given = [not isinstance(size, int) or size != -1 for size in sizes]
    others = math.prod(size for size, known in zip(sizes, given, strict=True) if known)
    return [size if known else source.numel() // others for size, known in zip(sizes, given, strict=True)]
