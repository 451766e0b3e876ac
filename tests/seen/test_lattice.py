"""The lattice of points against brute force: it holds just what integer combinations of differences reach."""

from __future__ import annotations

import functools
import itertools
import operator

from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.seen.lattice import Lattice
from tests.thoroughness import examples

NEAR, FAR = 6, 30


def lattice(points):
    return functools.reduce(operator.or_, map(Lattice, points))


def reached(points):
    """All points within FAR that steps by the differences of the points reach from the first."""
    first = points[0]
    steps = [tuple(a - b for a, b in zip(point, first, strict=True)) for point in points[1:]]
    steps += [tuple(-value for value in step) for step in steps]
    found, left = {first}, [first]
    while left:
        point = left.pop()
        for step in steps:
            other = tuple(a + b for a, b in zip(point, step, strict=True))
            if other not in found and all(-FAR <= value <= FAR for value in other):
                found.add(other)
                left.append(other)
    return found


def points(width, largest=5):
    numbers = st.integers(-largest, largest)
    return st.lists(st.tuples(*[numbers] * width), min_size=1, max_size=5)


@settings(max_examples=examples(200))
@given(st.one_of(points(1), points(2)))
def test_the_lattice_holds_what_differences_reach(seen):
    found, brute = lattice(seen), reached(seen)
    for point in itertools.product(range(-NEAR, NEAR + 1), repeat=len(seen[0])):
        assert (point in found) == (point in brute), point


@settings(max_examples=examples(300))
@given(points(4, largest=50), st.data())
def test_a_join_is_a_least_upper_bound_in_canonical_form(seen, data):
    whole = lattice(seen)
    assert whole.is_canonical()
    assert all(point in whole for point in seen)
    assert lattice(data.draw(st.permutations(seen))) == whole
    cut = data.draw(st.integers(1, len(seen)))
    assert lattice(seen[:cut]) | whole == whole
    assert whole.projected((2, 0)) == lattice([(point[2], point[0]) for point in seen])


def test_numbers_stay_small():
    """Law: no number of the normal form is larger than the product of those seen; here it is far below."""
    points = [tuple((i * 7919 + j * 104729) % 1009 for j in range(12)) for i in range(60)]
    whole = lattice(points)
    assert max(abs(value) for row in whole.rows for value in row) < 1009**12
    assert whole.rank <= 12
