from __future__ import annotations

import pytest

from tests.conftest import Golden


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
