"""What is guarded checks each call, and finds its contract: sessions, methods, callables.

The quick test of a call agrees with the slow one.
"""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shapeproof
from shapeproof.constraints.errors import UsageError
from shapeproof.contract import OutsideDomain
from shapeproof.contract.archives import PROPERTY
from shapeproof.contract.contract import contract_text
from shapeproof.contract.inputs import ConstantInput, Entries, IntInput, ObjectInput, Structure
from tests.contract.test_contract import PAIR, Array, contract, contracts, tensor

INSIDE, OUTSIDE = {"x": Array((4, 4)), "y": Array((3, 4))}, {"x": Array((5, 4)), "y": Array((3, 5))}


class Session:
    """Has the methods of an `onnxruntime.InferenceSession` that matter here."""

    def __init__(self, **properties):
        self.custom_metadata_map = properties

    def get_modelmeta(self):
        return self

    def get_inputs(self):
        return ["x", "y"]

    def run(self, output_names, input_feed, run_options=None):
        return output_names, run_options, sorted(input_feed)


class Method:
    def execute(self, inputs):
        return len(inputs)


def test_a_session_is_checked_by_the_contract_in_its_model():
    session = shapeproof.guard(Session(**{PROPERTY: contract_text(PAIR)}))
    assert session.run(["o"], INSIDE) == session.run(output_names=["o"], input_feed=INSIDE) == (["o"], None, ["x", "y"])
    assert session.run(None, INSIDE, run_options=1) == session.run(None, INSIDE, 1) == (None, 1, ["x", "y"])
    assert session.get_inputs() == ["x", "y"]
    for call in (lambda: session.run(None, OUTSIDE), lambda: session.run(output_names=["o"], input_feed=OUTSIDE)):
        with pytest.raises(OutsideDomain, match=r"^x.shape\[0\] = 5, but x.shape\[0\] % 4 == 0 is declared$"):
            call()


def test_a_method_and_a_function_are_checked(tmp_path):
    PAIR.save(tmp_path / "pair.json")
    method = shapeproof.guard(Method(), tmp_path / "pair.json")
    function = shapeproof.guard(lambda x, y: x.shape[:1] + y.shape[1:], str(tmp_path / "pair.json"))
    assert method.execute([*INSIDE.values()]) == 2
    assert function(*INSIDE.values()) == function(**INSIDE) == function(INSIDE["x"], y=INSIDE["y"]) == (4, 4)
    for call in (
        lambda: method.execute([*OUTSIDE.values()]),
        lambda: function(*OUTSIDE.values()),
        lambda: function(**OUTSIDE),
        lambda: function(OUTSIDE["x"], y=OUTSIDE["y"]),
    ):
        with pytest.raises(OutsideDomain) as raised:
            call()
        assert raised.value.point == {"x.shape[0]": 5}


def test_without_a_contract_one_sentence_says_how_to_give_one():
    for target in (Session(), Session(other="x"), Method(), len):
        with pytest.raises(UsageError, match=r"carries no contract: give one, or the path of its file, as the second"):
            shapeproof.guard(target)
    with pytest.raises(UsageError, match="the session's model holds no contract: it is no JSON"):
        shapeproof.guard(Session(**{PROPERTY: "{"}))
    with pytest.raises(UsageError, match="expected a session, a method or a callable to guard, got int"):
        shapeproof.guard(3, PAIR)


def test_what_is_guarded_is_the_target_otherwise():
    session = Session()
    guarded = shapeproof.guard(session, PAIR)
    assert guarded.__wrapped__ is session
    assert guarded.custom_metadata_map == {}
    assert not hasattr(guarded, "run_async")
    assert copy.copy(guarded).run(None, INSIDE) == (None, None, ["x", "y"])
    assert shapeproof.guard(len, PAIR).__name__ == "len"


def test_a_guard_needs_neither_torch_nor_z3():
    program = "import sys, shapeproof; shapeproof.guard; print({'torch', 'z3', 'sympy', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_onnx_has_no_operator_that_could_refuse_in_the_graph():
    """A canary: if one comes, the check may be part of the file."""
    onnx = pytest.importorskip("onnx")
    names = {each.name.lower() for each in onnx.defs.get_all_schemas()}
    assert len(names) > 150
    assert not [name for name in names if any(word in name for word in ("assert", "check", "raise", "error"))]


# ---------------------------------------------------------------------- the quick test of a call

X, Y, WIDE = tensor("x", "n"), tensor("y", "n", "2"), tensor("k", "n", "m")
K, FLAG, IT = IntInput("k", "k", X.sizes), ConstantInput("flag", "flag", value=True), ObjectInput("it", "it")
NESTED = Structure((Entries(("x", "y"), (0, 1)),), {}, ("d",), {"d": Entries(("x", "y"), (0, 1))})
KEYWORDS = Structure((0,), {"y": 1, "k": 2}, ("x",), {"x": 0, "y": 1, "k": 2})
CONTRACTS = [
    contract([X], ["n >= 2"]),
    contract([X, Y], ["n % 2 == 0"]),
    contract([X, Y, FLAG], []),
    contract([K, X], []),
    contract([X, Y, WIDE], [], KEYWORDS),
    contract([IT, X], []),
    contract([replace(X, name="d['x']", graph_name="y"), replace(Y, name="d['y']", graph_name="x")], [], NESTED),
    contract([replace(X, name="x", graph_name="y"), ConstantInput("y", "z", value=True)], []),
]
ONE, TWO, THREE = Array((2,)), Array((2, 2)), Array((2, 3))
PARTS = [
    ONE, TWO, THREE, 2, None, [ONE, TWO], [2, ONE], {"x": ONE}, {"y": ONE}, {"x": ONE, "y": TWO}, {"x": TWO, "y": ONE},
    {"x": ONE, "y": TWO, "z": 1}, {"k": 2, "x": ONE}, {"x": ONE, "y": TWO, "flag": True},
]  # fmt: skip
NAMED = [{}, {"y": TWO}, {"y": TWO, "k": THREE}, {"k": TWO, "y": THREE}, {"flag": True}, {"flag": False}, {"x": ONE}]


def slow(made, args, kwargs):
    try:
        return bool(made._whole.judged(made._reader.flat(args, kwargs)))
    except OutsideDomain:
        return False


@pytest.mark.parametrize("made", CONTRACTS, ids=str)
def test_a_call_that_passes_the_quick_test_is_accepted_by_the_slow_one(made):
    args = [each for count in range(4) for each in itertools.product(PARTS, repeat=count)]
    passed = [call for call in itertools.product(args, NAMED) if made._fits(*call)]
    assert passed
    assert [call for call in passed if not slow(made, *call)] == []


@given(contracts(), st.lists(st.integers(-1, 9), min_size=3, max_size=6))
def test_in_usual_forms_both_tests_agree(made, sizes):
    a, n, b = Array(tuple(sizes[:2])), sizes[2], Array(tuple(sizes[3:]))
    expected = slow(made, (a, n, b), {})
    for call in ((a, n, b), ({"a": a, "n": n, "b": b},), (None, {"b": b, "n": n, "a": a}), ([a, n, b],)):
        assert made._fits(call, {}) == expected == slow(made, call, {})


def test_a_negative_size_is_refused_as_by_the_slow_test():
    made = contract([X, WIDE], [])
    assert made.accepts(ONE, TWO)
    for n, m in ((-2, 2), (2, -2), (-2, -2)):
        assert not made.accepts(Array((n,)), Array((n, m)))


def test_a_call_is_checked_while_torch_traces_it_with_symbols():
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    guarded = contract([X, X], ["n <= 8"]).wrap(torch.add)
    traced = make_fx(guarded, tracing_mode="symbolic")(torch.ones(3), torch.ones(3))
    assert traced(torch.ones(4), torch.ones(4)).shape == (4,)


def test_arrays_of_numpy_are_quick_and_an_int_may_be_an_array_in_a_feed():
    np = pytest.importorskip("numpy")
    made = contract([X, Y, K], [])
    feed = {"x": np.ones(2, "float32"), "y": np.ones((2, 2), "float32"), "k": np.array(2)}
    assert made._fits((None, feed), {})
    for name, value in {"k": np.array(3), "x": np.ones(2), "y": np.ones((2, 2), ">f4")}.items():
        assert not made.accepts(None, feed | {name: value})


def test_tensors_of_torch_are_compared_by_device_and_layout_each():
    import torch

    made = contract([X, X, X], [])
    good, sparse = torch.ones(2), torch.ones(2).to_sparse()
    assert made._fits((good, good, good), {})
    for bad in (sparse, torch.ones(2, device="meta"), torch.ones(2, dtype=torch.float64), torch.ones(3)):
        for args in itertools.permutations((good, good, bad)):
            assert not made.accepts(*args)
