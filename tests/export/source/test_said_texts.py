"""A text made from a size: one that only goes into an error or a log costs no trace, any other one costs its traces."""

from __future__ import annotations

import logging
import pprint
from dataclasses import dataclass

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check

LOG = logging.getLogger(__name__)
SEEN = set()
TABLE = {str(n): n for n in range(20)}


def ensure(condition, message, *more):
    if not condition:
        raise ValueError(message, *more)


def lazily(condition, message):
    if not callable(message):

        def made():
            return message
    else:
        made = message
    torch._check(condition, made)


def keep(condition, message):
    SEEN.add(message)
    ensure(condition, message)


class Reporter:
    last = ""

    def fail(self, message):
        raise RuntimeError(message)

    def note(self, message):
        self.last = message


REPORTER = Reporter()


def formatted(x):
    return f"shape {tuple(x.shape)}"


def joined(x):
    return ", ".join(str(n) for n in x.shape)


def listed(x):
    return "x".join([str(n) for n in x.shape])


def asserted(x):
    torch._assert(x.dim() == 2, f"got {x.shape}")


def asserted_by_name(x):
    torch._assert(x.dim() == 2, message=f"got {x.shape[0]}")


def passed(x):
    ensure(x.dim() == 2, f"got {x.shape[0]}")


def passed_to_a_local_name(x):
    check_that = ensure
    check_that(x.dim() == 2, f"got {x.shape}")


def passed_by_name(x):
    ensure(x.dim() == 2, message=f"got {x.shape[0]}")


def passed_from_a_function(x):
    ensure(x.dim() == 2, formatted(x))


def passed_from_a_generator(x):
    ensure(x.dim() == 2, joined(x))


def passed_from_a_list(x):
    ensure(x.dim() == 2, listed(x))


def captured(x):
    lazily(x.dim() == 2, f"got {x.shape}")


def passed_to_a_method(x):
    text = "got %s" % x.shape[0]  # noqa: UP031 - the point
    if x.dim() != 2:
        REPORTER.fail(text)


def logged(x):
    LOG.info("{} {}".format(*x.shape).upper())


def printed(x):
    print(*x.shape, sep=",")  # noqa: T201


SAID = [
    asserted,
    asserted_by_name,
    passed,
    passed_to_a_local_name,
    passed_by_name,
    passed_from_a_function,
    passed_from_a_generator,
    passed_from_a_list,
    captured,
    passed_to_a_method,
    logged,
    printed,
]


def kept(x):
    keep(x.dim() == 2, f"{x.shape}")


def noted(x):
    REPORTER.note(f"{x.shape}")


def collected(x):
    SEEN.update(str(n) for n in x.shape)


def printed_later(x):
    print(SEEN.add(f"{x.shape[0]}"))  # noqa: T201


def appended(x):
    messages = []
    messages.append(f"{x.shape}")
    ensure(x.dim() == 2, messages)


def starred(x):
    def note(_, text):
        SEEN.add(text)

    note(*[x, f"{x.shape[0]}"])


def looked_up(x):
    print(TABLE[f"{x.shape[0]}"])  # noqa: T201


def opened(x):
    text = f"{x.shape[0]}"
    print(locals()["text"])  # noqa: T201


USED = [kept, noted, collected, printed_later, appended, starred, looked_up, opened]


class Callbacks:
    """Holds a function, which Python does not bind to it."""

    def __init__(self):
        self.back = lambda _, text: text


CALLS = Callbacks()


@dataclass
class Size:
    n: int


def compared(x):
    return 2 if formatted(x) == "shape (3, 3)" else 1


def checked(x):
    ensure(formatted(x) != "shape (3, 3)", "bad")


def measured(x):
    text = f"{10 ** x.shape[0]}"

    def length():
        return len(text)

    return length()


def largest(x):
    return max(str(n) for n in x.shape) == "4"


def raised_and_read(x):
    try:
        raise ValueError(f"{x.shape[0]}")  # noqa: TRY301 - the point
    except ValueError as error:
        return 2 if "3" in str(error) else 1


def raised_by_a_helper_and_read(x):
    try:
        ensure(x.dim() == 3, f"{x.shape[0]}")
    except ValueError as error:
        return 2 if "3" in str(error) else 1


def raised_below_and_read(x):
    def fails():
        ensure(x.dim() == 3, f"{x.shape[0]}")

    try:
        fails()
    except ValueError as error:
        return 2 if "3" in error.args[0] else 1


def checked_by_torch_and_read(x):
    try:
        torch._assert(x.dim() == 3, f"{x.shape[0]}")
    except AssertionError as error:
        return 2 if "3" in str(error) else 1


def read_where_it_is_raised(x):
    def fails(text):
        try:
            raise ValueError(text)  # noqa: TRY301 - the point
        except ValueError as error:
            return 2 if "3" in str(error) else 1

    return fails(f"{x.shape[0]}")


def asserted_and_read(x):
    try:
        assert x.dim() == 3, f"n={x.shape[0]}"
    except AssertionError as error:
        return 2 if "n=3" in str(error) else 1


def kept_by_a_callback(x):
    return 2 if CALLS.back(x, f"{x.shape[0]}") == "3" else 1


def unpacked(x):
    _, text = map(str, (x.shape[1], x.shape[0]))
    return 2 if text == "3" else 1


def of_a_dataclass(x):
    return 2 if "3" in repr(Size(x.shape[0])) else 1


def formatted_by_pprint(x):
    return 2 if "3" in pprint.pformat([x.shape[0]]) else 1


def of_a_condition(x):
    torch._check(str(x.shape[0]) != "3")
    return 1


READ = [
    asserted_and_read,
    kept_by_a_callback,
    unpacked,
    of_a_dataclass,
    formatted_by_pprint,
    of_a_condition,
    raised_and_read,
    raised_by_a_helper_and_read,
    raised_below_and_read,
    checked_by_torch_and_read,
    read_where_it_is_raised,
]
DIFFERENT = [compared, checked, measured, largest, *READ]


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        used = self.function(x)
        return x + (used if isinstance(used, int) else 1)


def checked_model(function):
    SEEN.clear()
    return check(Calls(function), (torch.randn(2, 3),), dynamic_shapes=({0: Dim("n", min=1, max=4)},))


@pytest.mark.quick
@pytest.mark.parametrize("function", SAID)
def test_a_text_that_is_only_said_costs_no_trace(function):
    report = checked_model(function)
    assert (report.status, report.statistics["traces"]) == ("proved", 1)


@pytest.mark.parametrize("function", USED)
def test_a_text_that_is_kept_costs_a_trace_each(function):
    assert checked_model(function).statistics["traces"] >= 4


@pytest.mark.parametrize("function", DIFFERENT)
def test_a_text_that_decides_is_no_text_that_is_said(function):
    assert checked_model(function).status == "refuted"
