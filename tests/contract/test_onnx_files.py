"""A property of an ONNX file is found by its bytes alone, wherever it stands, and nothing else of the file is read."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.contract import load
from shapeproof.contract.archives import PROPERTY, kind_of
from shapeproof.contract.contract import contract_text
from shapeproof.contract.onnx_files import property_of
from tests.contract.test_contract import contract, tensor


def number(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + number(rest) if rest else bytes([low])


def field(index: int, content: bytes) -> bytes:
    return number(8 * index + 2) + number(len(content)) + content


def entry(key: str, value: bytes) -> bytes:
    return field(14, field(1, key.encode()) + field(2, value))


OTHERS = st.one_of(
    st.builds(lambda i, v: number(8 * i) + number(v), st.integers(1, 30), st.integers(0, 2**63 - 1)),
    st.builds(lambda i, v: number(8 * i + 1) + v, st.integers(1, 30), st.binary(min_size=8, max_size=8)),
    st.builds(lambda i, v: number(8 * i + 5) + v, st.integers(1, 30), st.binary(min_size=4, max_size=4)),
    st.builds(field, st.integers(1, 30).filter(lambda i: i != 14), st.binary(max_size=300)),
    st.builds(entry, st.sampled_from(["", "other", "shapeproof"]), st.binary(max_size=20)),
)


@given(st.lists(OTHERS), st.lists(OTHERS), st.binary(max_size=300))
def test_a_property_is_found_among_any_fields(before, after, value):
    content = b"".join([*before, entry(PROPERTY, value), *after])
    assert property_of(io.BytesIO(content), PROPERTY) == value
    assert property_of(io.BytesIO(b"".join([*before, *after])), PROPERTY) is None


@given(st.binary(max_size=200))
def test_other_files_raise_nothing_else(content):
    try:
        property_of(io.BytesIO(content), PROPERTY)
    except ValueError as error:
        assert "damaged" in str(error)  # noqa: PT017 - whether it raises is the file's affair


def test_a_contract_is_loaded_from_an_onnx_file(tmp_path):
    own = contract([tensor("x", "n", "4")], ["n >= 1"])
    path = tmp_path / "model.onnx"
    graph = field(7, bytes(1000))
    path.write_bytes(number(8) + number(10) + graph + entry(PROPERTY, contract_text(own).encode()))
    assert kind_of(path.read_bytes()) == "onnx"
    assert load(path) == own
    path.write_bytes(number(8) + number(10) + graph)
    with pytest.raises(UsageError, match="holds no contract: it is an ONNX file without the metadata property"):
        load(path)
    path.write_bytes(number(8) + number(10) + b"\xff" * 20)
    with pytest.raises(UsageError, match="holds no contract: it is damaged"):
        load(path)
