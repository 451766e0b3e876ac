"""Which code is read at all: bytes tell that nothing in the rest is rewritten (trace/python/rewriting.py)."""

from __future__ import annotations

import dis
import enum
import types
from collections.abc import Iterator

import pytest
import torch

from shapeproof.export.source.instructions import codes_within
from shapeproof.export.trace.python import builtins, rewriting
from shapeproof.export.trace.python.plain_numbers import CALLED, NAMES

LIBRARY = [dis, types, builtins, rewriting, torch.nn.functional, torch.nn.init, torch.nn.modules.rnn, torch._tensor]


def codes() -> Iterator[types.CodeType]:
    """All code of some modules, that of classes and inner functions included."""
    for module in LIBRARY:
        held = list(vars(module).values())
        held += [member for each in held if isinstance(each, type) for member in vars(each).values()]
        for function in (each for each in held if isinstance(each, types.FunctionType)):
            yield from codes_within(function.__code__)


@pytest.mark.parametrize("others", [NAMES, {**CALLED, rewriting.EXCEPT: None}], ids=["names", "handlers"])
def test_code_that_is_not_read_would_stay_as_it_is(others, monkeypatch):
    unread = [code for code in set(codes()) if not rewriting._may_change(code, others)]
    assert len(unread) > 100
    monkeypatch.setattr(rewriting, "_may_change", lambda *_: True)
    rewriting.rewritten.cache_clear()
    wanted = frozenset(others.items())
    read = [rewriting.rewritten(code.replace(co_consts=_plain(code)), code.co_filename, wanted) for code in unread]
    assert [each.co_code for each in read] == [code.co_code for code in unread]
    rewriting.rewritten.cache_clear()


def _plain(code: types.CodeType) -> tuple[object, ...]:
    """The constants without the functions that are defined inside, which are rewritten by themselves."""
    return tuple(None if isinstance(each, types.CodeType) else each for each in code.co_consts)


def test_global_names_that_are_assigned_are_found_in_inner_functions():
    def outer():
        def inner():
            global here, there  # noqa: PLW0603 - the point
            here = there = 1
            del there

        return inner

    assert rewriting.assigned(outer.__code__) == {"here", "there"}
    assert rewriting.assigned(codes.__code__) == frozenset()


class Order(enum.Enum):
    """Where an image has its channels."""

    FIRST = 1


class Held:
    """Holds a tensor in a class attribute."""

    last = None


@pytest.mark.parametrize(
    ("function", "asks"),
    [
        (lambda x: x is Order.FIRST, False),
        (lambda x: x is torch.nn.ReLU, False),
        (lambda x: x is torch.nn.functional.relu, True),
        (lambda x: x is Held.last, True),
        (lambda x: x is x.base, True),
        (lambda x: [y is x for y in (x,)], True),
    ],
)
def test_what_is_asked_of_a_class_or_a_member_of_an_enumeration_is_not_asked_of_a_tensor(function, asks):
    assert rewriting.compares_objects(function.__code__, function.__globals__) is asks
