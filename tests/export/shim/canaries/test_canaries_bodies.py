"""What bodies.py relies on: how torch's tracer records a function within a function, and its `scan`."""

from __future__ import annotations

import torch
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.utils import reenter_make_fx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, get_proxy_slot, make_fx


def within(function):
    """Trace a function that is given an outer tensor; return what the function returned."""
    found = []
    make_fx(lambda x: found.append(function(x)) or x * 2)(torch.ones(3))
    return found[0]


def test_a_tensor_that_a_body_takes_beside_its_arguments_is_an_attribute():
    def traced(x):
        with disable_proxy_modes_tracing():
            body = reenter_make_fx(lambda h: h + x)(torch.zeros(3))
        (name,) = [node.target for node in body.graph.nodes if node.op == "get_attr"]
        return getattr(body, name) is x

    assert within(traced)


def test_the_same_tensor_given_as_an_argument_is_that_argument():
    def traced(x):
        with disable_proxy_modes_tracing():
            body = reenter_make_fx(lambda h, _: h + x)(torch.zeros(3), x)
        return [node.op for node in body.graph.nodes].count("get_attr")

    assert within(traced) == 0


def test_the_outer_tracer_knows_its_tensors_and_no_others():
    def traced(x):
        tracer = get_proxy_mode().tracer
        return [get_proxy_slot(each, tracer, None) is None for each in (x, torch.ones(3))]

    with_ones = within(traced)
    assert with_ones[0] is False


def test_scan_runs_its_body_in_order_and_may_need_a_step():
    """A loop that may have no step is recorded with a row that does not count, which torch 2.14 no longer needs."""
    body = make_fx(lambda h, row: (h * 2 + row, h + row))(torch.zeros(()), torch.zeros(()))
    last, rows = scan_op(body, [torch.zeros(())], [torch.arange(4.0)], ())
    assert (last.item(), rows.tolist()) == (11.0, [0.0, 1.0, 3.0, 7.0])
    try:
        last, rows = scan_op(body, [torch.ones(())], [torch.zeros(0)], ())
    except IndexError:
        return
    assert (last.item(), rows.tolist()) == (1.0, [])
