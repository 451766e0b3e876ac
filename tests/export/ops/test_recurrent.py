"""Recurrent operators are one program for every length: what the rule says of their results is what eager gives."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.ops.shapes.recurrent import results
from tests.agreement import agree

ATEN = torch.ops.aten
KINDS = {
    "LSTM": (torch.nn.LSTM, {}, ATEN.lstm.input),
    "projected LSTM": (torch.nn.LSTM, {"proj_size": 3}, ATEN.lstm.input),
    "GRU": (torch.nn.GRU, {}, ATEN.gru.input),
    "tanh": (torch.nn.RNN, {}, ATEN.rnn_tanh.input),
    "relu": (torch.nn.RNN, {"nonlinearity": "relu"}, ATEN.rnn_relu.input),
}
FLAGS = list(itertools.product((False, True), repeat=3))
SIZES = [(3, 5), (1, 1), (1, 5), (3, 1), (0, 5)]


def made(kind, **options):
    cls, own, operator = KINDS[kind]
    return cls(6, 4, **own, **options).eval(), operator


def arguments(module, x):
    """The arguments that the module calls its operator with."""
    batch = x.shape[0 if module.batch_first else 1]
    layers = module.num_layers * (2 if module.bidirectional else 1)
    states = [torch.zeros(layers, batch, module.proj_size or module.hidden_size)]
    if isinstance(module, torch.nn.LSTM):
        states.append(torch.zeros(layers, batch, module.hidden_size))
    state = states if isinstance(module, torch.nn.LSTM) else states[0]
    flags = (module.bias, module.num_layers, 0.0, False, module.bidirectional, module.batch_first)
    return (x, state, list(module.parameters()), *flags)


def laid(tensor):
    """Sizes, dtype, and the strides that elements are reached by."""
    strides = tensor.stride() if tensor.numel() else ()
    return tensor.shape, tensor.dtype, [s for s, n in zip(strides, tensor.shape, strict=False) if n > 1]


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(("bias", "batch_first", "bidirectional"), FLAGS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_rule_says_what_eager_gives(kind, bias, batch_first, bidirectional, grad):
    for layers, (batch, steps) in itertools.product((1, 2), SIZES):
        module, operator = made(
            kind, bias=bias, batch_first=batch_first, bidirectional=bidirectional, num_layers=layers
        )
        x = torch.randn(batch, steps, 6) if batch_first else torch.randn(steps, batch, 6)
        args = arguments(module, x)
        with torch.set_grad_enabled(grad):
            found, wanted = results(operator, args, {}, int.__eq__), operator(*args)
        assert [laid(each) for each in found] == [laid(each) for each in wanted]


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
def test_no_step_is_refused_as_in_eager(kind):
    module, operator = made(kind)
    args = arguments(module, torch.randn(0, 2, 6))
    for run in (lambda: operator(*args), lambda: results(operator, args, {}, int.__eq__)):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
            run()


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_is_left_to_torch(kind):
    module, operator = made(kind)
    x, states, params, *flags = arguments(module, torch.randn(5, 2, 6))
    narrower = [each[:, :1] for each in states] if isinstance(states, list) else states[:, :1]
    for args in [
        (x, narrower, params, *flags),
        (x, states, params[:-1], *flags),
        (x[..., :5], states, params, *flags),
        (x.double(), states, params, *flags),
        (x[0], states, params, *flags),
    ]:
        assert results(operator, args, {}, int.__eq__) is None
    with torch.autocast("cpu"):
        assert results(operator, (x, states, params, *flags), {}, int.__eq__) is None


class Tagger(torch.nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.recurrent = made(kind, **options)[0]
        self.head = torch.nn.LazyLinear(2)
        with torch.no_grad():
            self(torch.randn(2, 3, 6))

    def forward(self, x):
        out, _ = self.recurrent(x)
        return self.head(out + 1).log_softmax(-1)


SHAPES = ({0: Dim("b", min=1, max=8), 1: Dim("t", min=1, max=40)},)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_one_program_serves_every_length(kind):
    model = Tagger(kind, batch_first=True, bidirectional=True)
    report = check(model, (torch.randn(3, 5, 6),), dynamic_shapes=SHAPES)
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    whole = report.program.run_decompositions({})
    for run in (report.program.module(), whole.module(), torch.export.unflatten(report.program)):
        for batch, steps in ((1, 1), (8, 40), (3, 5), (1, 6), (2, 1)):
            assert agree(model, run, (torch.randn(batch, steps, 6),))


def test_an_empty_sequence_is_refuted():
    shapes = ({1: Dim("t", min=0, max=40)},)
    report = check(Tagger("GRU", batch_first=True), (torch.randn(3, 5, 6),), dynamic_shapes=shapes)
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[1]": 0}


def test_a_recurrence_over_a_dynamic_length_stays_whole():
    """The steps are not taken apart: torch's decomposition writes one piece for each step of the example."""
    model = Tagger("GRU", batch_first=True)
    report = check(model, (torch.randn(3, 5, 6),), dynamic_shapes=SHAPES)
    decomposed = report.program.run_decompositions()
    assert ATEN.gru.input in [node.target for node in decomposed.graph.nodes]
    run = decomposed.module()
    assert all(agree(model, run, (torch.randn(batch, steps, 6),)) for batch in (1, 8) for steps in (1, 2, 40))


@pytest.mark.thorough
def test_a_fixed_length_is_taken_apart():
    model = Tagger("GRU", batch_first=True)
    report = check(model, (torch.randn(3, 5, 6),), dynamic_shapes=({0: Dim("b", min=1, max=8)},))
    run = report.program.run_decompositions().module()
    assert all(agree(model, run, (torch.randn(batch, 5, 6),)) for batch in (1, 2, 8))


class Counting(Tagger):
    """One that changes a buffer in place is run after run_decompositions, too, where that can be."""

    def __init__(self):
        super().__init__("GRU", batch_first=True)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if hasattr(self, "calls"):
            self.calls.add_(1)
        return super().forward(x)


def test_a_program_that_cannot_be_taken_apart_is_run_as_it_is():
    report = check(Counting(), (torch.randn(3, 5, 6),), dynamic_shapes=SHAPES)
    assert report.status == "proved", str(report)
