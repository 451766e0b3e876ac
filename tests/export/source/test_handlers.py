"""What may fail on data under a handler of the model's that goes on from it is refused; harmless handlers are not."""

from __future__ import annotations

import contextlib
import inspect
import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import ConstraintViolation, check, export
from shapeproof.export.shim.callers import OURS
from shapeproof.export.source.frames import entry
from shapeproof.export.source.handlers import catching
from tests.agreement import agree
from tests.export import handled
from tests.thoroughness import examples

N = Dim("n", min=1, max=6)
PAIRS = [(torch.tensor(pair),) for pair in itertools.product(range(4), repeat=2)]
WAYS = [function for name, function in vars(handled).items() if name.startswith(("goes_on", "raises"))]


def as_a_trace(function):
    """A call of the function, as from the entry that the model's frames end at."""
    scope = {}
    exec(compile("def trace(function):\n    function()", f"{OURS}/entry.py", "exec"), scope)  # noqa: S102
    entry(scope["trace"])(function)


@pytest.mark.quick
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_it_is_told_from_the_code_whether_a_handler_goes_on(way):
    found = []
    as_a_trace(lambda: way(lambda: found.append(catching(frozenset(handled.RAISED)))))
    assert (found[0] is not None) == way.__name__.startswith("goes_on")


@pytest.mark.quick
@pytest.mark.parametrize("kind", handled.RAISED)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_python_goes_on_there_and_nowhere_else(way, kind):
    def fails():
        raise kind

    handled.done.append("not the first time")
    if way.__name__.startswith("goes_on"):
        way(fails)
    else:
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it makes of it
            way(fails)


def test_no_handler_is_the_models_where_no_model_is_traced():
    try:
        assert catching(None) is None
    except Exception:  # noqa: BLE001
        pytest.fail("it looks at this handler")


class Checks(torch.nn.Module):
    def forward(self, x):
        u = x.sum().item()
        try:
            torch._check(u <= 3)
        except RuntimeError:
            return x * 2
        return x + 1


class Suppresses(torch.nn.Module):
    def forward(self, x):
        with contextlib.suppress(ValueError):
            torch._check_value(x.sum().item() <= 3)
            return x + 1
        return x * 2


class Divides(torch.nn.Module):
    def forward(self, x):
        try:
            return x * (6 // x.sum().item())
        except ZeroDivisionError:
            return x


class Converts(torch.nn.Module):
    def forward(self, x):
        try:
            return x * int(x.float().mean().item())
        except ValueError:
            return x


class Decomposes(torch.nn.Module):
    def forward(self, x):
        square = x.float().outer(x.float())
        try:
            return torch.linalg.cholesky(square)
        except torch.linalg.LinAlgError:
            return torch.linalg.cholesky(square + torch.eye(2))


class Selects(torch.nn.Module):
    def forward(self, x):
        try:
            return torch.arange(3)[x]
        except IndexError:
            return x


def embedded(x):
    return torch.nn.functional.embedding(x, torch.ones(3, 2))


class CatchesWhatItCalls(torch.nn.Module):
    def forward(self, x):
        try:
            return embedded(x)
        except Exception:  # noqa: BLE001
            return torch.zeros(2, 2)


class IsProtected(torch.nn.Module):
    def forward(self, x):
        return handled.protected(embedded)(x)


class AsksForElements(torch.nn.Module):
    def forward(self, x):
        try:
            return x * int(x.numpy().max())
        except RuntimeError:
            return x


class ChecksHandedIn(torch.nn.Module):
    def forward(self, x):
        u = x.sum().item()
        with handled.catching():
            torch._check(u <= 3)
        return x


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return True


def swallowing(*, always):
    if always:
        return Swallows()
    return contextlib.nullcontext()


class ChecksWhereAFunctionMakesTheManager(torch.nn.Module):
    def forward(self, x):
        with swallowing(always=False):
            torch._check(x.sum().item() <= 3)
        return x


def handed_on(manager):
    return manager


class ChecksWhereAFunctionHandsOnTheManager(torch.nn.Module):
    def forward(self, x):
        with handed_on(contextlib.nullcontext()):
            torch._check(x.sum().item() <= 3)
        return x


@pytest.mark.parametrize(
    "model",
    [
        *(Checks, handled.Asserts, Suppresses, Divides, Converts, Decomposes, Selects, CatchesWhatItCalls, IsProtected),
        *(AsksForElements, ChecksHandedIn, ChecksWhereAFunctionMakesTheManager, ChecksWhereAFunctionHandsOnTheManager),
    ],
)
@pytest.mark.parametrize("branches", ["error", "split"])
def test_what_fails_on_data_may_not_be_caught(model, branches):
    with pytest.raises(UsageError, match=r"hand.*\.py:\d+: whether .* fails depends on data, and `.*` at .*:\d+"):
        check(model(), (torch.tensor([1, 1]),), branches=branches)


class RaisesAnother(torch.nn.Module):
    def forward(self, x):
        u = x.sum().item()
        try:
            torch._check(u <= 3)
        except RuntimeError as error:
            raise ValueError from error
        return x + 1


class CatchesOtherKinds(torch.nn.Module):
    def forward(self, x):
        try:
            torch._check(x.sum().item() <= 3)
            return torch.arange(9)[x]
        except (KeyError, ImportError, AttributeError):
            return x
        finally:
            handled.done.append(1)


class OnlyComputes(torch.nn.Module):
    def forward(self, x):
        try:
            return (x.float().reshape(-1, 1) @ x.float().reshape(1, -1)).softmax(-1).sum(0) / 3
        except RuntimeError:
            return x


class KnowsBefore(torch.nn.Module):
    def forward(self, x):
        u = x.sum().item()
        torch._check(u <= 3)
        try:
            torch._check(u <= 4)
        except RuntimeError:
            return x * 2
        return x + 1


def maybe_autocast(device, *, enabled):
    import torch as framework

    if device == "meta":
        return contextlib.nullcontext()
    if framework.is_autocast_enabled(device) or enabled:
        return framework.autocast(device, enabled=enabled)
    return contextlib.nullcontext()


class MayCast(torch.nn.Module):
    """The fault: a function that returns one of torch's managers, or none that does anything, counted as a handler."""

    def forward(self, x):
        with maybe_autocast(x.device.type, enabled=False):
            torch._check(x.sum().item() <= 3)
        return x + 1


@pytest.mark.quick
@pytest.mark.parametrize("model", [RaisesAnother, CatchesOtherKinds, OnlyComputes, KnowsBefore, MayCast])
def test_a_handler_that_does_no_harm_is_let_be(model):
    program = export(model(), (torch.tensor([1, 1]),))
    assert program.report.status == "proved"
    assert all(agree(model(), program.module(), pair) for pair in PAIRS)


class HalvesOrAll(torch.nn.Module):
    def forward(self, x):
        try:
            return x.reshape(2, -1) * 2
        except RuntimeError:
            return x[1:].reshape(2, -1) * 3


class FourthOrSum(torch.nn.Module):
    def forward(self, x):
        try:
            return x[3]
        except IndexError:
            return x.sum()


@pytest.mark.thorough
@pytest.mark.parametrize("model", [HalvesOrAll, FourthOrSum])
def test_what_fails_by_sizes_alone_is_caught_in_a_program_of_its_own(model):
    with pytest.raises(ConstraintViolation):
        export(model(), (torch.ones(4),), dynamic_shapes=({0: N},))
    low = Dim("n", min=2, max=6)
    regions = export(model(), (torch.ones(4),), dynamic_shapes=({0: low},), branches="split")
    assert regions.report.status == "proved"
    for n in range(2, 7):
        assert agree(model(), regions.module(), (torch.arange(float(n)),), may_refuse=False)


class RaisesForOneSize(torch.nn.Module):
    def forward(self, x, y):
        u = y.item()
        if x.shape[0] == 1:
            if u > 3:
                raise ValueError
        elif u > 3:
            x = x * 2
        return x + 1


class RaisesInsideForOneSize(torch.nn.Module):
    def forward(self, x, y):
        scale = 3 if x.shape[0] == 1 else 1
        if y.item() > 3:
            if x.shape[0] == 1:
                raise ValueError
            x = x * 2
        return x * scale


@pytest.mark.thorough
@pytest.mark.parametrize("model", [RaisesForOneSize, RaisesInsideForOneSize])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_branch_is_a_check_only_where_it_raises(model, rows):
    report = check(model(), (torch.ones(rows), torch.tensor(2)), dynamic_shapes=({0: N}, None))
    if report.program is None:
        return
    for n, u in itertools.product(range(1, 7), range(6)):
        arguments = (torch.ones(n), torch.tensor(u))
        assert agree(model(), report.program.module(), arguments, may_refuse=report.status == "undecided")


OPERATIONS = {
    "torch._check(u <= 3)": "x + u",
    "torch._check_value(u <= 3)": "x + u",
    "torch._check_index(u <= 3)": "x + u",
    "assert u <= 3": "x + u",
    "k = 6 // u": "x * k",
    "k = torch.arange(4)[x]": "k",
    "k = torch.linalg.inv(x.double().diag())": "k",
    "k = x.reshape(1, 2) * 3": "k",
}
KINDS = ["RuntimeError", "ValueError", "IndexError", "AssertionError", "ZeroDivisionError", "Exception", "KeyError"]
ENDS = ["return x * 5", "raise ValueError('no')", "raise", "pass", "done.append(1)"]


@st.composite
def sources(draw):
    """A model whose operation is under a handler or two, in its own frame or its caller's."""
    operation = draw(st.sampled_from(sorted(OPERATIONS)))
    lines = [operation, f"return {OPERATIONS[operation]}"]
    for _ in range(draw(st.integers(1, 2))):
        kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True))
        if draw(st.booleans()):
            end = draw(st.sampled_from(ENDS))
            lines = ["try:", *(f"    {line}" for line in lines), f"except ({', '.join(kinds)},):", f"    {end}"]
        else:
            lines = [f"with contextlib.suppress({', '.join(kinds)}):", *(f"    {line}" for line in lines)]
        if draw(st.booleans()):
            lines = ["def inner():", *(f"    {line}" for line in lines), "    return x - 7", "return inner()"]
    body = "\n".join(f"        {line}" for line in ["u = x.sum().item()", *lines, "return x - 9"])
    return f"class Model(torch.nn.Module):\n    def forward(self, x):\n{body}\n"


@pytest.mark.thorough
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(sources())
def test_a_program_of_random_handlers_does_what_eager_does(source):
    scope = {"torch": torch, "contextlib": contextlib, "done": []}
    exec(compile(source, "<string>", "exec"), scope)  # noqa: S102
    model = scope["Model"]
    try:
        report = check(model(), (torch.tensor([1, 1]),))
    except UsageError as refused:
        assert "depends on data" in str(refused)  # noqa: PT017 - what it raises instead is let through
        return
    for pair in PAIRS if report.program is not None else ():
        assert agree(model(), report.program.module(), pair, may_refuse=report.status == "undecided"), source


def test_the_ways_are_found():
    assert len(WAYS) > 30
    assert all(inspect.isfunction(way) for way in WAYS)
