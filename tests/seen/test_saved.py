"""The file: it is read as it was written, and damage is one clear error."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.seen import Seen
from tests.seen.calls import STREAMS, Tensor
from tests.seen.test_laws import watched
from tests.thoroughness import examples


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("seen") / "scores.seen.json"


@pytest.fixture(scope="module")
def written(path):
    seen = Seen()
    for n in (4, 8, 20, 44):
        seen.add(({"a": Tensor(n, 3)}, 2 * n, True, None), names=("x", "n"))
    seen.add((Tensor(3, dtype="torch.int64"),), names=("x",))
    seen.save(path)
    return seen, path.read_bytes()


@settings(max_examples=examples(100))
@given(STREAMS)
def test_what_is_saved_is_loaded(path, stream):
    seen = watched(stream)
    seen.save(path)
    content = path.read_bytes()
    assert Seen.load(path) == seen
    (seen | seen).save(path)
    assert path.read_bytes() == content


@settings(max_examples=examples(300))
@given(data=st.data())
def test_bytes_that_were_changed_are_another_profile_or_an_error(written, path, data):
    _, content = written
    at = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.integers(0, 3))
    path.write_bytes(content[:at] + data.draw(st.binary(max_size=3)) + content[at + cut :])
    with contextlib.suppress(UsageError):
        again = Seen.load(path)
        again.save(path)
        assert Seen.load(path) == again == again | again


def damaged(content, *steps_and_value):
    *steps, last, value = steps_and_value
    document = json.loads(content)
    at = document
    for step in steps:
        at = at[step]
    at[last] = value
    return json.dumps(document)


CALLS = ("calls", 0)
DAMAGE = {
    "a row that is not in normal form": (*CALLS, "rows", 0, [-4, -8, 0]),
    "a base off its place": (*CALLS, "base", [400, 0, 0]),
    "a point off the lattice": (*CALLS, "points", [[5, 8, 3]]),
    "a value that was not seen": (*CALLS, "values", 0, [1]),
    "no points": (*CALLS, "points", []),
    "strides of another rank": (*CALLS, "inputs", 3, "strides", [1]),
    "two inputs of one source": (*CALLS, "inputs", 0, "source", "L[3]"),
    "a size that is a text": (*CALLS, "base", 0, "4"),
    "a size that is a float": (*CALLS, "base", 0, 4.0),
    "a field of another name": (*CALLS, "extra", 1),
    "no calls": ("calls", None),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_parts_that_contradict_one_another_are_refused(name, written, path):
    _, content = written
    path.write_text(damaged(content, *DAMAGE[name]))
    with pytest.raises(UsageError, match="is not a saved profile of what was seen"):
        Seen.load(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is not a saved profile"),
        (b"\xff\xfe", "is not a saved profile"),
        (b"[" * 100_000, "is not a saved profile"),
        (b'{"format": 2}', "is a profile of format 2; this release reads format 1"),
        (b'{"format": true}', "is not a saved profile"),
        (b'{"format": 1' + b"0" * 5000 + b"}", "is not a saved profile"),
    ],
)
def test_other_files_are_refused(content, match, path):
    path.write_bytes(content)
    with pytest.raises(UsageError, match=match):
        Seen.load(path)


def test_a_file_that_is_not_there():
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        Seen.load("nowhere.seen.json")
