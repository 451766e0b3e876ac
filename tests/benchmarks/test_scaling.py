from __future__ import annotations

import pytest

from benchmarks.scaling import Row, families, measure, table


@pytest.mark.parametrize("family", families(100), ids=lambda family: family.name)
def test_every_family_is_settled_without_z3(family):
    for size in family.sizes[:2]:
        row = measure(family, size)
        assert row.questions >= size
        assert (row.undecided, row.z3_rlimit) == (0, 0)


def test_a_family_begins_without_an_exponent():
    rows = [Row("a", 1, 1, 1.0, 0, 0), Row("a", 2, 2, 2.0, 0, 0), Row("b", 1, 1, 1.0, 0, 0)]
    assert list(table(rows).columns[5].cells) == ["", "1.00", ""]
