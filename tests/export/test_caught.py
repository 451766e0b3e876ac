"""What only the trace raises and the model catches is refused; what eager raises alike is let be."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import pickle
import sys

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check

TABLE = {5: 1}
ONLY_TRACED = {
    "data_ptr": lambda x, n: x.data_ptr(),
    "json": lambda x, n: json.dumps(list(x.shape)),
    "pickle": lambda x, n: pickle.dumps(x),
    "save": lambda x, n: torch.save(x, io.BytesIO()),
    "deepcopy": lambda x, n: copy.deepcopy(x),
    "pow": lambda x, n: pow(n, 3, 7),
    "numpy": lambda x, n: x.numpy(),
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
    "import": lambda x, n: __import__("no_such_module"),
    "attribute": lambda x, n: x.no_such_attribute,
    "key": lambda x, n: TABLE["missing"],
    "stop": lambda x, n: stopped(iter([1])),
    "own": lambda x, n: raises(ValueError),
    "remembered": lambda x, n: probed(),
}


class Caught(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        n, done = x.shape[0], 1
        try:
            self.body(x, n)
        except Exception:
            done = 0
        return x * 2 if done and n == 23 else x + 0


class Bare(Caught):
    def forward(self, x):
        n, done = x.shape[0], 1
        try:
            self.body(x, n)
        except:  # noqa: E722
            done = 0
        return x * 2 if done and n == 23 else x + 0


class Suppressed(Caught):
    def forward(self, x):
        n, done = x.shape[0], 0
        with contextlib.suppress(TypeError, RuntimeError, NotImplementedError):
            self.body(x, n)
            done = 1
        return x * 2 if done and n == 23 else x + 0


def checked(model):
    return check(model, (torch.randn(5),), dynamic_shapes={"x": {0: Dim("n", min=0, max=40)}}, branches="split")


def agrees(report, model):
    return all(torch.equal(report.program.module()(x), model(x)) for x in map(torch.ones, (0, 5, 23, 40)))


@pytest.mark.parametrize("name", ONLY_TRACED)
def test_what_only_a_trace_raises_is_not_proved_where_it_is_caught(name):
    """The fault: proved, and wrong at 23, which no replay happens to try."""
    model = Caught(ONLY_TRACED[name])
    try:
        report = checked(model)
    except UsageError as error:
        assert "test_caught.py" in str(error)
    else:
        assert report.status == "proved"
        assert agrees(report, model)


@pytest.mark.parametrize("model", [Bare, Suppressed])
def test_every_handler_is_seen(model):
    with pytest.raises(UsageError, match=r"test_caught.py:\d+: the model catches `TypeError: .*not in eager"):
        checked(model(ONLY_TRACED["json"]))


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
