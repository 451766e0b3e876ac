"""Chooses the sizes and the data for the trials of a padded program.

A leak may show only at some sizes, for some amounts of padding and for some values: `x.clamp(max=x.shape[0])` returns
the same until a value is larger than the size. So all three vary. That is a trial and never a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from shapeproof.serve.padded.plans import Point, dominates

PAIRS = 16
"""At how many pairs of sizes a program is tried, the first of each bucket first."""
Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def pairs(corners: Sequence[Point], least: Point) -> Iterator[tuple[Point, Point]]:
    """Yield sizes with a bucket above: one below it, the least, one between; then those with the largest bucket.

    >>> list(pairs([(4,), (8,)], (2,)))[:4]
    [((3,), (4,)), ((7,), (8,)), ((2,), (4,)), ((2,), (8,))]
    """
    rounds: list[list[tuple[Point, Point]]] = [[], [], [], []]
    for corner in corners:
        ends = list(zip(least, corner, strict=True))
        below = tuple(max(low, size - 1) for low, size in ends)
        between = tuple((low + size) // 2 for low, size in ends)
        for number, point in enumerate((below, least, between)):
            rounds[number].append((point, corner))
        rounds[3] += [(point, other) for point in (below, between) for other in corners[-1:]]
    found = dict.fromkeys(pair for each in rounds for pair in each)
    fitting = ((point, corner) for point, corner in found if point != corner and dominates(corner, point))
    yield from list(fitting)[:PAIRS]


def _times(factor: int) -> Change:
    """Return large values, more of one sign than of the other; integers larger by one or two, or all equal."""

    def change(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
        if tensor.dtype == torch.bool:
            return torch.full_like(tensor, factor > 0)
        if tensor.is_floating_point() or tensor.is_complex():
            return (tensor + 1) * factor
        return tensor + 1 if factor > 0 else torch.full_like(tensor, int(tensor.max()) if tensor.numel() else 0)

    return change


def _drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return values of all magnitudes; integers from 0 to one above the maximum."""
    if tensor.is_floating_point() or tensor.is_complex():
        scale = torch.rand(tensor.shape, generator=generator).mul(6).exp2()
        return tensor * scale.to(tensor.device, tensor.dtype) + 1
    high = 2 if tensor.dtype == torch.bool else 2 + int(tensor.max() if tensor.numel() else 0)
    drawn = torch.randint(max(2, high), tensor.shape, generator=generator)
    return drawn.to(tensor.device, tensor.dtype)


VALUES: Sequence[Change] = (lambda tensor, _: tensor, _times(1000), _times(-1000), _drawn, _drawn)
"""What becomes of the values that are made up like the example's."""
