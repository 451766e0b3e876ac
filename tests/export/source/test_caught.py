"""What only the trace raises and the model catches is refused; what eager raises alike is let be."""

from __future__ import annotations

import copy
import functools
import io
import json
import pickle
import sys
from types import FunctionType

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.export.source.raised import has_other_handlers, named_handlers, raised_by_the_user
from shapeproof.export.trace.python.rewriting import EXCEPT, rewritten
from tests.export.random_programs import built

TABLE = {5: 1}
ONLY_TRACED = {
    "data_ptr": lambda x, _: x.data_ptr(),
    "json": lambda x, _: json.dumps(list(x.shape)),
    "pickle": lambda x, _: pickle.dumps(x),
    "save": lambda x, _: torch.save(x, io.BytesIO()),
    "deepcopy": lambda x, _: copy.deepcopy(x),
    "pow": lambda _, n: pow(n, 3, 7),
    "numpy": lambda x, _: x.numpy(),
}


def raises(kind):
    raise kind


@functools.lru_cache
def probed():
    try:
        import no_such_module  # noqa: F401
    except ImportError:
        return False
    return True


def stopped(values):
    try:
        next(values)
        next(values)
    except StopIteration:
        return


RAISED_BY_EAGER = {
    "import": lambda _x, _n: __import__("no_such_module"),
    "attribute": lambda x, _: x.no_such_attribute,
    "key": lambda _x, _n: TABLE["missing"],
    "stop": lambda _x, _n: stopped(iter([1])),
    "own": lambda _x, _n: raises(ValueError),
    "remembered": lambda _x, _n: probed(),
}


class Caught(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        n, done = x.shape[0], 1
        try:
            self.body(x, n)
        except Exception:  # noqa: BLE001 - as models do
            done = 0
        return x * 2 if done and n == 23 else x + 0


WATCHED = {
    "bare": """
        try: json.dumps(list(x.shape)); done = 1
        except: done = 0""",
    "an attribute": """
        try: json.dumps(list(x.shape)); done = 1
        except self.kind: done = 0""",
    "a call": """
        try: json.dumps(list(x.shape)); done = 1
        except type(TypeError()): done = 0""",
    "an attribute of a call": """
        try: json.dumps(list(x.shape)); done = 1
        except (KeyError, type(self)().kind): done = 0""",
    "a choice": """
        try: json.dumps(list(x.shape)); done = 1
        except (self.kind if x.dim() == 1 else KeyError): done = 0""",
    "the classes of a loop": """
        try: json.dumps(list(x.shape)); done = 1
        except tuple([kind for kind in (self.kind, KeyError)]): done = 0""",
    "suppress": """
        done = 0
        with contextlib.suppress(TypeError): json.dumps(list(x.shape)); done = 1""",
}
MODEL = """
import contextlib, json
class Model(torch.nn.Module):
    kind = TypeError
    def forward(self, x):{body}
        return x * 2 if done and x.shape[0] == 23 else x + 0
"""


def checked(model):
    return check(model, (torch.randn(5),), dynamic_shapes={"x": {0: Dim("n", min=0, max=40)}}, branches="split")


def agrees(report, model):
    return all(torch.equal(report.program.module()(x), model(x)) for x in map(torch.ones, (0, 5, 23, 40)))


@pytest.mark.parametrize("name", ONLY_TRACED)
def test_what_only_a_trace_raises_is_not_proved_where_it_is_caught(name):
    """The fault: proved, and wrong at 23, which no replay happens to try."""
    with pytest.raises(UsageError, match=r"test_caught.py:\d+:"):
        checked(Caught(ONLY_TRACED[name]))


@pytest.mark.parametrize("name", WATCHED)
def test_every_handler_is_seen(name):
    with pytest.raises(UsageError, match=r":\d+: the model catches `TypeError: .*not in eager"):
        checked(built(MODEL.format(body=WATCHED[name])))


def handling(what):
    try:
        try:
            what()
        except (KeyError, ValueError) as error:
            return "first", type(error)
        except TypeError:
            return "second", None
        finally:
            TABLE.pop(0, None)
    except Exception as error:  # noqa: BLE001 - whatever is left
        return "outer", type(error)
    return "none", None


@pytest.mark.quick
@pytest.mark.parametrize("kind", [KeyError, ValueError, TypeError, OSError, None])
def test_a_handler_that_notes_does_what_it_did(kind):
    code = rewritten(handling.__code__, handling.__code__.co_filename, frozenset({(EXCEPT, None)}))
    noting = FunctionType(code, globals())
    what = (lambda: raises(kind)) if kind else (lambda: None)
    with raised_by_the_user() as found:
        assert noting(what) == handling(what)
    assert {each for *_, each in found} == ({kind} if kind else set())


def finishing(what):
    try:
        return what()
    finally:
        try:
            TABLE.pop(0)
        except KeyError:
            TABLE.clear()


def test_handlers_that_cannot_note_are_told():
    assert not has_other_handlers(finishing.__code__)
    assert len(named_handlers(finishing.__code__)) in {1, 2}  # Python writes a `finally` once for each way out
    assert len(named_handlers(handling.__code__)) == 2
    assert not has_other_handlers(handling.__code__)


@pytest.mark.parametrize("name", RAISED_BY_EAGER)
def test_what_eager_raises_too_is_let_be(name):
    probed()
    model = Caught(RAISED_BY_EAGER[name])
    report = checked(model)
    assert report.status == "proved"
    assert agrees(report, model)


def test_a_debugger_is_back_after_a_trace():
    def nothing(*_):
        return None

    before = sys.gettrace()
    sys.settrace(nothing)
    try:
        checked(Caught(RAISED_BY_EAGER["key"]))
        assert sys.gettrace() is nothing
    finally:
        sys.settrace(before)
