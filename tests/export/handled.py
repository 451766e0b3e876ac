"""Functions that call an operation under some handler: those whose names begin with `goes_on` go on if it fails.

What fails is given, and what it may raise is RAISED. Read by test_handlers.py, which also runs them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading

import torch

RAISED = (RuntimeError, IndexError, ValueError)
LOCK = threading.Lock()
done = []


@contextlib.contextmanager
def swallowing():
    with contextlib.suppress(RuntimeError, IndexError, ValueError):
        yield


@contextlib.contextmanager
def catching():
    try:
        yield
    except RAISED:
        done.append("caught")


@contextlib.contextmanager
def tidying():
    try:
        yield
    finally:
        done.append("tidied")


@contextlib.contextmanager
def bare():
    yield


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return True


class Passes:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        done.append("left")


LOCK = threading.Lock()


class SwallowsStatically(Passes):
    @staticmethod
    def __exit__(*_):
        return True


class SwallowsUntold(Passes):
    __exit__ = functools.partial(lambda *_: True)


class SaysFalse(Passes):
    def __exit__(self, *_):
        return False


def protected(function):
    @functools.wraps(function)
    def called(*args):
        try:
            return function(*args)
        except RAISED:
            return None

    return called


def goes_on_bare(operation):
    try:
        operation()
    except:  # noqa: E722 - the point
        done.append(1)


def goes_on_exception(operation):
    with contextlib.nullcontext():
        try:
            operation()
        except Exception:  # noqa: BLE001 - the point
            return 1
    return 2


def goes_on_tuple(operation):
    try:
        operation()
    except (KeyError, *RAISED):
        return 1
    return 2


def goes_on_bound(operation):
    kinds = RAISED
    try:
        operation()
    except kinds as error:
        done.append(str(error))


def goes_on_second(operation):
    try:
        operation()
    except KeyError:
        raise
    except RAISED:
        return 1
    return 2


def goes_on_by_finally(operation):
    try:
        operation()
    finally:
        return 3  # noqa: B012 - the point


def goes_on_in_a_loop(operation):
    for _ in range(3):
        try:
            operation()
            break
        except RAISED:
            continue


def goes_on_now_and_then(operation):
    try:
        operation()
    except RAISED:
        if not done:
            raise
        return 1
    return 2


def goes_on_after_another(operation):
    try:
        try:
            operation()
        except RAISED as error:
            raise KeyError from error
    except KeyError:
        return 1
    return 2


def goes_on_after_finally(operation):
    try:
        try:
            operation()
        finally:
            done.append(1)
    except RAISED:
        return 1
    return 2


def goes_on_suppress(operation):
    with contextlib.suppress(*RAISED):
        operation()


def goes_on_suppress_named(operation):
    quiet = contextlib.suppress(*RAISED)
    with torch.no_grad(), quiet:
        operation()


def goes_on_generator(operation):
    with catching():
        operation()


def goes_on_generator_in_generator(operation):
    with swallowing():
        operation()


def goes_on_class(operation):
    with Swallows():
        operation()


def goes_on_static(operation):
    with SwallowsStatically():
        operation()


def goes_on_untold(operation):
    with SwallowsUntold():
        operation()


def raises_lock(operation):
    with LOCK:
        operation()


def goes_on_stack(operation):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Swallows())
        operation()


@protected
def goes_on_decorated(operation):
    operation()


@catching()
def goes_on_decorated_by_a_manager(operation):
    operation()


def goes_on_in_a_comprehension(operation):
    try:
        return [operation() for _ in range(1)]
    except RAISED:
        return 1


def goes_on_in_a_generator(operation):
    try:
        return sum(1 for _ in range(1) if operation() is None)
    except RAISED:
        return 1


def goes_on_in_a_lambda(operation):
    function = lambda: operation()  # noqa: E731, PLW0108 - the point
    try:
        return function()
    except RAISED:
        return 1


def raises_other_kinds(operation):
    try:
        operation()
    except (KeyError, ImportError, AttributeError, StopIteration, NotImplementedError):
        return 1
    return 2


def raises_again(operation):
    try:
        operation()
    except RAISED as error:
        done.append(str(error))
        raise


def raises_another(operation):
    try:
        operation()
    except RAISED as error:
        raise ValueError from error


def raises_another_past_a_handler(operation):
    try:
        try:
            operation()
        except RAISED as error:
            raise KeyError from error
    except ImportError:
        return 1
    return 2


def raises_by_finally(operation):
    try:
        operation()
    finally:
        done.append(1)


def raises_in_else(operation):
    try:
        done.append(1)
    except RAISED:
        return 1
    else:
        operation()
    return 2


def raises_in_a_handler(operation):
    try:
        raise KeyError  # noqa: TRY301 - the point
    except KeyError:
        operation()


def raises_after(operation):
    with contextlib.suppress(*RAISED):
        done.append(1)
    operation()


def raises_later(operation):
    try:
        function = lambda: operation()  # noqa: E731, PLW0108 - the point
    except RAISED:
        return 1
    return function()


def raises_through_suppress(operation):
    with contextlib.suppress(KeyError, ImportError):
        operation()


def raises_through_managers(operation):
    with torch.no_grad(), contextlib.nullcontext(), tidying(), bare(), Passes(), SaysFalse(), LOCK:
        operation()


def raises_through_torchs(operation):
    with torch.autocast("cpu", enabled=False), torch.autograd.profiler.record_function("operation"):
        operation()


@torch.no_grad()
@tidying()
def raises_decorated(operation):
    operation()


class Asserts(torch.nn.Module):
    """Here, since pytest makes something else of an assert statement in a file of tests."""

    def forward(self, x):
        u = x.sum().item()
        try:
            assert u <= 3
        except AssertionError:
            return x * 2
        return x + 1


def said(n):
    """Text of a size that nothing acts on; here for the same reason."""
    message = f"{n} rows"
    assert n < 40, message
    logging.getLogger(__name__).debug("%s: %s", n, str(n))
    with torch.autograd.profiler.record_function(f"{n:3d}"):
        torch._check(n < 30, lambda: f"{n} are too many")
    return 2
