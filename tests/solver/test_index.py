from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shapeproof.solver.learned.index import Index


@given(st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from("abc")), st.integers(0, 9))))
def test_an_index_finds_what_has_the_key(steps):
    index, filed = Index(), {key: set() for key in "abc"}
    for adds, keys, item in steps:
        (index.add if adds else index.discard)(sorted(keys), item)
        for key in keys:
            (filed[key].add if adds else filed[key].discard)(item)
    assert {key: set(index.of(key)) for key in "abc"} == filed
    assert set(index.among("ab")) == filed["a"] | filed["b"]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 3))))
def test_an_index_and_its_copy_change_apart(steps):
    one = Index()
    one.add("ab", 1)
    two = one.copy()
    for adds, key, item in steps:
        (two.add if adds else two.discard)(key, item)
    assert ([*one.of("a")], [*one.of("b")]) == ([1], [1])
    held = [*two.of("a")]
    one.discard("ab", 1)
    assert [*two.of("a")] == held
