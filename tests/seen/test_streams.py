"""Streams from hidden domains: the exact relations are found, and none that is accidental beyond the stated risk."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.seen import Seen
from shapeproof.seen.calls import size_names
from shapeproof.solver import Facts, decide
from tests.seen.calls import Tensor

RISK = Fraction(1, 10_000)

HIDDEN = {
    "equal dims": (lambda r: (n := r.randint(2, 40), Tensor(n, 4), Tensor(n, 4))[1:], ["a.shape[0] == b.shape[0]"]),
    "a multiple": (lambda r: (Tensor(8 * r.randint(1, 64)),), ["a.shape[0] % 8 == 0"]),
    "a residue": (lambda r: (Tensor(6 * r.randint(0, 64) + 5),), ["a.shape[0] % 6 == 5"]),
    "an affine relation": (
        lambda r: (n := r.randint(0, 99), Tensor(n), Tensor(3 * n + 2))[1:],
        ["b.shape[0] == 3*a.shape[0] + 2"],
    ),
    "a sum": (
        lambda r: (n := r.randint(0, 50), m := r.randint(0, 50), Tensor(n), Tensor(m), Tensor(n + m))[2:],
        ["c.shape[0] == a.shape[0] + b.shape[0]"],
    ),
    "a rational relation": (
        lambda r: (n := r.randint(1, 60), Tensor(3 * n), Tensor(2 * n))[1:],
        ["2*a.shape[0] == 3*b.shape[0]", "b.shape[0] % 2 == 0"],
    ),
    "one parity": (
        lambda r: (n := r.randint(0, 60), Tensor(n), Tensor(n + 2 * r.randint(0, 30)))[1:],
        ["(a.shape[0] + b.shape[0]) % 2 == 0"],
    ),
    "windows": (
        lambda r: (h := r.randint(1, 9), w := r.randint(1, 9), Tensor(1, 3, 32 * h, 32 * w), h, w)[2:],
        ["a.shape[2] == 32*b", "a.shape[3] == 32*c", "a.shape[2] % 32 == 0"],
    ),
    "an interval alone": (lambda r: (Tensor(r.randint(3, 77)), r.randint(-5, 5)), []),
    "a size, an int and a container": (
        lambda r: (n := r.randint(1, 30), {"mask": Tensor(n, n)}, [Tensor(4, n), n - 1])[1:],
        [
            "a['mask'].shape[0] == a['mask'].shape[1]",
            "b[0].shape[1] == a['mask'].shape[0]",
            "b[1] == b[0].shape[1] - 1",
        ],
    ),
}
"""Name -> a draw from the domain, and the relations that define it."""


def noisy(args, chance):
    """Now and then another dtype or rank of the first input: another kind of call, which hides nothing of the first."""
    first = args[0]
    if not isinstance(first, Tensor) or chance.random() > 0.1:
        return args
    other = chance.choice([Tensor(*first.shape, dtype="torch.float64"), Tensor(chance.randint(1, 3), *first.shape)])
    return (other, *args[1:])


@pytest.mark.parametrize("name", HIDDEN)
def test_the_relations_of_a_hidden_domain_are_recovered(name):
    draw, hidden = HIDDEN[name]
    chance = random.Random(name)
    seen, fresh = Seen(), Seen()
    for _ in range(300):
        seen.add(noisy(draw(chance), chance), names=tuple("abc"))
        fresh.add(draw(chance), names=tuple("abc"))
    (kind,) = fresh.joints
    names = size_names(kind)
    found = [each.formula for each in seen.relations()[kind] if each.risk <= RISK]
    for point in fresh.joints[kind].points:  # what was found is true of the domain, not of the sample alone
        assert all(holds(formula, dict(zip(names, point, strict=True))) for formula in found), name
    for text in hidden:
        wanted = parse_formula(text)
        assert decide(wanted, Facts(found)).status == "proved", (text, found)
    if not hidden:
        assert found == []


def test_a_relation_of_few_points_is_not_believed():
    """Two points fit any line: 10 and 20 are no evidence for multiples of 10."""
    seen = Seen()
    seen.add((Tensor(10), Tensor(21)), names=("x", "y"))
    seen.add((Tensor(20), Tensor(41)), names=("x", "y"))
    (found,) = seen.relations().values()
    assert {(str(each.formula), each.extra, each.risk) for each in found} == {
        ("x.shape[0] % 10 == 0", 0, 1), ("y.shape[0] % 20 == 1", 0, 1), ("y.shape[0] == 2*x.shape[0] + 1", 0, 1),
    }  # fmt: skip
    assert str(seen) == (
        "L['x']: tensor size=[?] stride=[1]   size[0] 10..20\nL['y']: tensor size=[?] stride=[1]   size[0] 21..41"
    )


def test_the_text_reads_like_that_of_torch():
    seen = Seen()
    for n in (2, 4096, 16, 408, 80):
        seen.add((Tensor(8 * n, 16) if n > 2 else Tensor(16, 16), 3), names=("x", "k"))
    assert str(seen).splitlines() == [
        "L['k']: scalar 3",
        "L['x']: tensor size=[?, 16] stride=[16, 1]   size[0] 16..32768, % 16 == 0",
    ]


def state_size(seen):
    """How many numbers and texts a profile holds."""
    return sum(
        len(joint.points) * (len(joint.lattice.base) + 1)
        + len(joint.lattice.rows) * len(joint.lattice.base)
        + sum(len(values or ()) for values in (*joint.values, *joint.constants))
        for joint in seen.joints.values()
    )


def streamed(number):
    """The sizes of the state of a stream, and how often a call changed it, in the first and in the second half."""
    chance, seen, sizes = random.Random(7), Seen(), []
    changes, before = [0, 0], None
    for index in range(number):
        n = chance.randint(1, 10**6)
        seen.add((Tensor(8 * n, chance.randint(1, 500), 16), chance.random(), chance.randint(0, 10**9)))
        joint = next(iter(seen.joints.values()))
        changes[2 * index // number] += joint is not before
        before = joint
        if index % (number // 10) == 0:
            sizes.append(state_size(seen))
    return sizes, changes


@pytest.mark.parametrize("number", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_long_stream_takes_bounded_memory_and_hardly_changes_it(number):
    sizes, (early, late) = streamed(number)
    assert max(sizes[1:]) < 1000
    assert early < 1500  # 64 ln(n / 64) points enter the sample
    assert late < 150
