"""What an input lost is: against brute force over calls, and on contracts that differ in one thing."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.ci.locked.contracts import Lost, lost
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.contract import Contract
from shapeproof.contract.inputs import (
    ConstantInput,
    Entries,
    IntInput,
    Items,
    ObjectInput,
    Opaque,
    Structure,
    TensorInput,
)
from tests.thoroughness import examples

LIMIT = 7
"""Sizes are at most this."""


class Array:
    """A tensor of no library: a shape and a dtype."""

    def __init__(self, shape, dtype="float32"):
        self.shape, self.dtype = shape, dtype


def tensor(name, *sizes, dtype="float32", device="cpu", layout="strided"):
    return TensorInput(name, name, dtype, device, layout, tuple(map(parse_term, sizes)))


def integer(name, term=None):
    return IntInput(name, name, (parse_term(term or name),))


def constant(name, value):
    return ConstantInput(name, name, value)


def contract(*inputs, domain=(), unchecked=(), args=None, keywords=()):
    """A contract of a model whose arguments are its inputs, the last ones by keyword; `args` nests them otherwise."""
    trees = tuple(range(len(inputs))) if args is None else args
    names = [each.name for each in inputs] if args is None else ["x", "k"][: len(args)]
    arguments = dict(zip(names, trees, strict=True))
    plain = tuple(name for name in names if name not in keywords)
    structure = Structure(
        tuple(arguments[name] for name in plain), {name: arguments[name] for name in keywords}, plain, arguments
    )
    formulas = tuple(map(parse_formula, domain))
    shown = {str(term): f"{each.name}.shape[{i}]" for each in inputs for i, term in enumerate(each.sizes)}
    names = {name: shown.get(name, name) for each in inputs for term in each.sizes for name in term.symbols}
    names |= {str(each.sizes[0]): each.name for each in inputs if isinstance(each, IntInput)}
    return Contract(inputs, structure, formulas, frozenset(formulas), names, tuple(unchecked))


# ---------------------------------------------------------------------- sizes

SHAPES = [["n", "m"], ["n", "n"], ["n", "2*n"], ["2*n", "m"], ["2*n + 1", "2*n - 1"], ["n", "4"], ["3", "4"]]
DEMANDS = ["{} >= 1", "{} <= 5", "{} % 2 == 0", "{} != 3", "{} == 2 or {} == 4"]


@st.composite
def sized(draw):
    sizes = draw(st.sampled_from(SHAPES))
    symbols = sorted({name for text in sizes for name in parse_term(text).symbols})
    domain = [text for name in symbols for text in (f"{name} >= 0", f"{name} <= {LIMIT}")]
    demand = st.builds(lambda text, name: text.format(name, name), st.sampled_from(DEMANDS), st.sampled_from(symbols))
    domain += draw(st.lists(demand, max_size=2)) if symbols else []
    return contract(tensor("x", *sizes), domain=domain)


def accepted(made):
    sizes = itertools.product(range(2 * LIMIT + 2), repeat=2)
    return {each for each in sizes if made.accepts(each)}


@settings(max_examples=examples(150))
@given(sized(), sized())
def test_lost_sizes_are_those_that_brute_force_finds(old, new):
    missing = accepted(old) - accepted(new)
    found = lost(old, new)
    if not missing:
        assert found is None
        return
    assert isinstance(found, Lost)
    given_sizes = tuple(found.point[f"x.shape[{index}]"] for index in range(2))
    assert given_sizes == min(missing, key=lambda sizes: measure(old, sizes))


def measure(made, sizes):
    """Sizes that do not vary do not count."""
    varying = [size for size, term in zip(sizes, made.inputs[0].sizes, strict=True) if not term.is_constant]
    return max(varying, default=0), sum(varying), varying


OLD = contract(tensor("x", "n", "4"), integer("k"), domain=("n >= 1", "k >= 0"))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("new", "sizes", "demand"),
    [
        (contract(*OLD.inputs, domain=("n >= 1", "n <= 64", "k >= 0")), [65, 0], "x.shape[0] <= 64"),
        (contract(*OLD.inputs, domain=("k >= 0", "k < n")), [1, 1], "k < x.shape[0]"),
        (contract(*OLD.inputs, domain=("n >= 1", "k >= 0", "k <= 5")), [1, 6], "k <= 5"),
        (contract(tensor("x", "n", "5"), integer("k"), domain=("n >= 1", "k >= 0")), [1, 0], "x.shape[1] == 5"),
        (contract(tensor("x", "2*n", "4"), integer("k"), domain=("n >= 0", "k >= 0")), [1, 0], "x.shape[0] == 2*n"),
    ],
)
def test_the_smallest_input_and_what_it_fails(new, sizes, demand):
    found = lost(OLD, new)
    assert (found.sizes, found.demand) == (dict(zip(("x.shape[0]", "k"), sizes, strict=True)), demand)


def test_more_is_no_loss():
    assert lost(OLD, contract(tensor("x", "n", "m"), integer("k"))) is None
    old, new = contract(tensor("x", "4*n"), domain=["n >= 0"]), contract(tensor("x", "2*m"), domain=["m >= 0"])
    assert lost(old, new) is None


# ---------------------------------------------------------------------- all else that a contract holds

X, K = tensor("x", "n"), tensor("k", "2")
NAN = float("nan")
PAIR = Items(tuple, (0, 1))
LAW = "k >= 2, which the program checks on its data"
CHANGES = {
    "dtype": (contract(X), contract(tensor("x", "n", dtype="int64"))),
    "device": (contract(X), contract(tensor("x", "n", device="cuda:0"))),
    "layout": (contract(X), contract(tensor("x", "n", layout="sparse_coo"))),
    "rank": (contract(X), contract(tensor("x", "n", "2"))),
    "a number": (contract(constant("k", 2.0)), contract(constant("k", 3.0))),
    "an int for a float": (contract(constant("k", 2.0)), contract(constant("k", 2))),
    "a flag": (contract(constant("k", value=True)), contract(constant("k", value=False))),
    "one for True": (contract(constant("k", value=True)), contract(constant("k", 1))),
    "the sign of zero": (contract(constant("k", 0.0)), contract(constant("k", -0.0))),
    "a string": (contract(constant("k", "sum")), contract(constant("k", "mean"))),
    "a tensor for None": (contract(constant("k", None)), contract(K)),
    "None for a tensor": (contract(K), contract(constant("k", None))),
    "a constant for an int": (contract(integer("k")), contract(constant("k", 3))),
    "an int for a tensor": (contract(tensor("k")), contract(integer("k"))),
    "what may be left out": (contract(X, constant("k", 3)), contract(X, integer("k"))),
    "a tensor for an object": (contract(ObjectInput("k", "k")), contract(K)),
    "keyword": (contract(X, K), contract(X, K, keywords=["k"])),
    "positional": (contract(X, K, keywords=["k"]), contract(X, K)),
    "swapped": (contract(X, K), contract(K, X)),
    "one more": (contract(X), contract(X, K)),
    "one less": (contract(X, K), contract(X)),
    "one more constant": (contract(X), contract(X, constant("k", None))),
    "another name": (contract(X), contract(tensor("y", "n"))),
    "another name in files": (contract(X), contract(dataclasses.replace(X, graph_name="x_1"))),
    "list": (contract(X, K, args=(PAIR,)), contract(X, K, args=(Items(list, (0, 1)),))),
    "longer": (
        contract(X, K, args=(Items(tuple, (0,)), 1)),
        contract(X, K, args=(Items(tuple, (0, Items(list, ()))), 1)),
    ),
    "a key": (contract(X, args=(Entries(("a",), (0,)),)), contract(X, args=(Entries(("b",), (0,)),))),
    "an int key": (contract(X, args=(Entries((1,), (0,)),)), contract(X, args=(Entries(("1",), (0,)),))),
    "an object": (
        contract(X, args=(Entries(("a",), (0,)),)),
        contract(X, args=(Entries(("a",), (0,), is_object=True, kind="nets.Box ['a']"),)),
    ),
    "a class": (contract(X, args=(Opaque((0,), "nets.Box"),)), contract(X, args=(Opaque((0,), "nets.Case"),))),
    "nested otherwise": (
        contract(X, K, args=(Items(tuple, (0, Items(list, (1,)))),)),
        contract(X, K, args=(Items(tuple, (Items(list, (0,)), 1)),)),
    ),
    "an emptied list": (contract(X, args=(0, Items(list, ()))), contract(X, args=(0, Items(tuple, ())))),
    "a check": (contract(X), contract(X, unchecked=[LAW])),
    "another check": (contract(X, unchecked=[LAW]), contract(X, unchecked=[LAW.replace("2", "3")])),
    "an object for a tensor": (contract(X), contract(ObjectInput("x", "x"), unchecked=["what x is"])),
}  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize("case", CHANGES)
def test_no_part_of_a_contract_changes_unseen(case):
    old, new = CHANGES[case]
    assert lost(old, new) is not None
    assert lost(old, old) is None
    assert lost(new, new) is None


def test_each_change_is_said_in_a_sentence(golden):
    found = {case: lost(old, new) for case, (old, new) in CHANGES.items()}
    lines = [
        f"{case}: undecided: {each.reason}" if isinstance(each, Undecided) else f"{case}: {each.message}"
        for case, each in found.items()
    ]
    golden.check("ci/lost.txt", "\n".join(lines))


def test_a_dropped_check_and_an_object_for_an_int_are_no_loss():
    assert lost(contract(X, unchecked=[LAW]), contract(X)) is None
    assert lost(contract(integer("x")), contract(ObjectInput("x", "x"))) is None
    assert lost(contract(constant("k", NAN)), contract(constant("k", float("nan")))) is None


def test_sizes_that_are_lost_are_named_before_what_is_undecided():
    new = contract(X, domain=["n >= 2"], unchecked=[LAW])
    assert lost(contract(X, domain=["n >= 0"]), new).sizes == {"x.shape[0]": 0}


# ---------------------------------------------------------------------- the law

KINDS = [
    tensor("x", "n"), tensor("x", "2*n"), tensor("x", "3"), tensor("x", "n", dtype="int64"), tensor("x"),
    integer("x", "n"), constant("x", 3), constant("x", 2.0), constant("x", None), constant("x", value=True),
    ObjectInput("x", "x"),
]  # fmt: skip
NESTED = [
    (0, 1), (1, 0), (Items(tuple, (0, 1)),), (Items(list, (0, 1)),), (Items(list, (0,)), 1), (0, Items(tuple, (1,))),
    (Entries(("a", "b"), (0, 1)),), (Entries(("b", "a"), (0, 1)),), (Entries(("a", "b"), (0, 1), is_object=True),),
]  # fmt: skip
DOMAINS = [(), ("n >= 2",), ("n <= 4",), ("n % 2 == 0",), ("n <= m",), ("m == 3",)]


PARTS = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(
        [tensor("k", "m"), integer("k", "m"), constant("k", "sum"), constant("k", 3), tensor("k", "n", "m")]
    ),
    st.sampled_from(NESTED),
    st.integers(0, 2),
    st.sampled_from(DOMAINS),
    st.sampled_from([(), (LAW,)]),
)


def assembled(first, second, args, keywords, domain, unchecked):
    """A contract of two inputs, whose last arguments are given by keyword."""
    known = {name for each in (first, second) for term in each.sizes for name in term.symbols}
    domain = [text for text in domain if parse_formula(text).symbols <= known]
    names = ["x", "k"][: len(args)]
    return contract(
        first, second, domain=domain, unchecked=unchecked, args=args, keywords=names[max(0, len(args) - keywords) :]
    )


@st.composite
def pairs(draw):
    """Two contracts that differ in some of their parts: all of them, few, or none."""
    old, other = draw(PARTS), draw(PARTS)
    changed = draw(st.sets(st.sampled_from(range(len(old))), max_size=3))
    return assembled(*old), assembled(*(other[i] if i in changed else part for i, part in enumerate(old)))


VALUES = [(3,), (4,), (2, 3), (), 3, 2, 2.0, None, True, "sum", Array((4,)), Array((3,), "int64")]


@st.composite
def calls(draw):
    """A call in one of the forms in which inputs may be given."""
    pair = [draw(st.sampled_from(VALUES)), draw(st.sampled_from(VALUES))]
    x, k = pair
    forms = [
        (pair, {}), ((x,), {}), ((), {"x": x, "k": k}), ((x,), {"k": k}), ((k,), {"x": x}), ((tuple(pair),), {}),
        ((pair,), {}), (({"x": x, "k": k},), {}), (({"k": k, "x": x},), {}), (({"a": x, "b": k},), {}),
        (({"x": x},), {}), ((), {"x": (x, k)}), ((), {"x": [x, k]}), (([x], k), {}), ((x, (k,)), {}), (([x],), {}),
        ((), {"x": {"a": x, "b": k}}),
    ]  # fmt: skip
    return draw(st.sampled_from(forms))


@settings(max_examples=examples(400))
@given(pairs(), st.lists(calls(), min_size=40, max_size=40))
def test_each_call_that_was_accepted_is_accepted_where_nothing_is_lost(pair, tried):
    """The pool of calls is small: most contracts accept some of it."""
    old, new = pair
    gone = [call for call in tried if old.accepts(*call[0], **call[1]) and not new.accepts(*call[0], **call[1])]
    assert not gone or lost(old, new) is not None, gone
