from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shapeproof.solver.learned.layers import Index, Layered

changes = st.lists(st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 5))), max_size=300)


def changed(mapping, steps):
    """Each step sets a key, or takes it out."""
    for key, value in steps:
        if value is not None:
            mapping[key] = value
        elif key in mapping:
            del mapping[key]


@given(changes, changes, changes)
def test_a_layered_dictionary_is_a_dictionary_and_its_copies_are_independent(first, here, there):
    one, plain = Layered(), {}
    changed(one, first)
    changed(plain, first)
    two, other = one.copy(), dict(plain)
    for mapping, steps in ((one, here), (plain, here), (two, there), (other, there)):
        changed(mapping, steps)
    for layered, expected in ((one, plain), (two, other)):
        assert dict(layered) == expected
        assert set(layered) == set(expected)
        assert len(layered) == len(expected)
        assert all(layered.get(key, "none") == expected.get(key, "none") for key in range(61))


@given(changes)
def test_the_order_is_the_same_for_the_same_changes(steps):
    one, two = Layered(), Layered()
    changed(one, steps)
    for step in steps:
        two = two.copy()
        changed(two, [step])
    assert list(one) == list(two)


@given(st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from("abc")), st.integers(0, 9))))
def test_an_index_finds_what_has_the_key(steps):
    index, filed = Index(), {key: set() for key in "abc"}
    for adds, keys, item in steps:
        (index.add if adds else index.discard)(sorted(keys), item)
        for key in keys:
            (filed[key].add if adds else filed[key].discard)(item)
    assert {key: set(index.of(key)) for key in "abc"} == filed
    assert set(index.among("ab")) == filed["a"] | filed["b"]
