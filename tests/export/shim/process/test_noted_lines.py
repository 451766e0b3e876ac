"""The lines of the model that the nodes of a program note are those of torch.export's program."""

from __future__ import annotations

import re

import torch
from torch import nn

from shapeproof.export import check, export


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return _outside(self.linear(x)) if x.dim() == 2 else x


class _Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_Layer(), _Layer()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return _deeper(x, 6) + x.shape[0]


class _Branches(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))


def _outside(x):
    return x.relu() + 1


def _deeper(x, depth):
    def forward(x, depth):  # torch keeps functions of this name, and folds frames that repeat
        return x.sin() if depth == 0 else forward(x, depth - 1)

    return forward(x, depth)


def _noted(program):
    return [
        (str(node.target), re.sub(r"<eval_with_key>.\d+", "<generated>", node.meta.get("stack_trace") or ""))
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if "aten" in str(node.target) and "assert" not in str(node.target) and "sym" not in str(node.target)
    ]


def _both(model):
    shapes = ({0: torch.export.Dim("n", min=4, max=64)},)
    args = (torch.randn(6, 4),)
    return export(model, args, dynamic_shapes=shapes), torch.export.export(model, args, dynamic_shapes=shapes)


def test_nodes_note_the_lines_that_torch_notes():
    for model in (_Stack(), _Branches()):
        ours, torchs = map(_noted, _both(model))
        assert [each for each in ours if each[1]] == torchs  # the program's own clamps have no line


def test_the_lines_are_the_models():
    lines = [line for target, line in _noted(_both(_Stack())[0]) if target == "aten.linear.default"]
    assert len(lines) == 2
    assert all("for layer in" not in line and "return _outside(self.linear(x))" in line for line in lines)
    assert all("x = layer(x)" in line for line in lines)


def test_a_function_that_calls_itself_is_folded():
    (line,) = (line for target, line in _noted(_both(_Stack())[0]) if target == "aten.sin.default")
    assert "repeated" in line


class _Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def _place(self, x):
        return x + self.table(torch.arange(x.shape[0]))

    def forward(self, x):
        return self._place(x)


def test_what_an_operator_needs_is_shown_at_the_line_of_a_helper():
    report = check(_Positions(), (torch.randn(6, 4),), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},))
    (found,) = report.diagnostics
    place = _Positions._place.__code__
    assert found.witness == {"x.shape[0]": 21}
    assert (found.file, found.line) == (place.co_filename, place.co_firstlineno + 1)
