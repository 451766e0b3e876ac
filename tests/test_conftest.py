from __future__ import annotations

import pytest

from tests.conftest import Golden, pytest_collection_modifyitems
from tests.thoroughness import examples


def test_golden_accepts_the_same_text(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    Golden(tmp_path, update=False).check("a.txt", "one")


def test_golden_refuses_another_text_and_a_missing_file(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(AssertionError, match=r"a\.txt differs"):
        Golden(tmp_path, update=False).check("a.txt", "two")
    with pytest.raises(AssertionError, match=r"no golden file b\.txt"):
        Golden(tmp_path, update=False).check("b.txt", "two")


def test_golden_is_rewritten_when_asked(tmp_path):
    Golden(tmp_path, update=True).check("export/a.txt", "two")
    assert (tmp_path / "export" / "a.txt").read_text() == "two\n"


def test_of_many_parameters_all_but_the_first_are_thorough_unless_each_is_quick():
    class Item:
        def __init__(self, nodeid, *, quick=False):
            self.nodeid, self.marks, self.quick = nodeid, [], quick

        def get_closest_marker(self, name):
            return self.quick and name == "quick"

        def add_marker(self, mark):
            self.marks.append(mark.name)

    items = [
        Item(f"{file}::test_it[{number}]") for file in ("tests/export/a.py", "tests/seen/b.py") for number in "123"
    ]
    items += [Item(f"tests/export/c.py::test_it[{number}]", quick=True) for number in "123"]
    pytest_collection_modifyitems(items)
    assert [item.marks for item in items] == [[], ["thorough"], ["thorough"], *[[]] * 6]


def test_a_law_is_tried_as_often_as_the_profile_says():
    assert examples(300) in {60, 300, 20_000}
