"""Divisions of sizes mean the same to a consumer that rounds towards 0 as to Python (export/build/divisions.py)."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import export
from shapeproof.export.shim.numbers.symbols import ASSERTION

MOST_T, MOST_N = 12, 5
DIVISIONS = (operator.floordiv, operator.mod)


def truncated(a: Any, b: Any) -> Any:
    """As ONNX computes `a // b`: an integer rounded towards 0, and a float not at all."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if isinstance(a, int) else a / b


def remainder(a: int, b: int) -> int:
    """As C computes `a % b`."""
    return a - b * truncated(a, b)


class Consumer(torch.fx.Interpreter):
    """Runs a program as consumers do that erase assertions, and divide by a rule of their own."""

    def __init__(self, program: torch.export.ExportedProgram, rules: dict[Any, Callable[..., Any]]) -> None:
        module = program.module(check_guards=False)
        for node in module.graph.find_nodes(op="call_function", target=ASSERTION):
            module.graph.erase_node(node)
        module.graph.eliminate_dead_code()
        super().__init__(module)
        self._rules = rules

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(self._rules.get(target, target), args, kwargs)


class Computed(torch.nn.Module):
    """Gives the values of functions of two sizes."""

    def __init__(self, *functions: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [torch.full((1,), each(x.shape[0], y.shape[0])) for each in self.functions]


RULES = [
    dict(zip(DIVISIONS, each, strict=True))
    for each in itertools.product((truncated, operator.floordiv), (remainder, operator.mod))
]
BOUNDED = ({0: Dim("t", min=1, max=MOST_T)}, {0: Dim("n", min=1, max=MOST_N)})
OPEN = ({0: Dim("t", min=1)}, {0: Dim("n", min=1)})


def function(text: str) -> Callable[[Any, Any], Any]:
    """The function of t and n that a text says."""
    return eval(f"lambda t, n: {text}", {})  # type: ignore[no-any-return]  # noqa: S307 - written here


def exported(*functions: Callable[[Any, Any], Any], declared: Any = BOUNDED) -> Any:
    program = export(Computed(*functions), (torch.ones(7), torch.ones(3)), dynamic_shapes=declared)
    assert program.report.status == "proved"
    return program


def agree(program: Any, functions: Any) -> None:
    for form in (program, program.run_decompositions()):
        for rules in RULES:
            run = Consumer(form, rules).run
            for t, n in itertools.product(range(1, MOST_T + 1), range(1, MOST_N + 1)):
                found = [each.item() for each in run(torch.ones(t), torch.ones(n))]
                assert found == [each(t, n) for each in functions], (t, n, rules)


def divisions(program: Any) -> list[Any]:
    return [node.target for node in program.graph.nodes if node.target in DIVISIONS]


WRITTEN = {
    "shifted": lambda t, _: (t - 9) // 4 + (t - 20) % 7,
    "rounded up": lambda t, _: -(-t // 8),
    "padding": lambda t, _: -t % 8,
    "by a size": lambda t, n: (t - 9) // n + (t - 9) % n,
    "by a negative": lambda t, n: t // -3 + t % -3 + (t - 5) // -n,
    "by any sign": lambda t, n: t // (2 * n - 5) + (t - 6) % (2 * n - 5),
    "nested": lambda t, _: ((t - 9) // 2 - 3) // 3 % 5,
    "of two sizes": lambda t, n: (t - 3 * n) // 4 + (n - t) % (n + 1),
    "of a power": lambda t, _: (t - 9) ** 3 // 5,
    "of an extreme": lambda t, n: min(t - 9, n) // 4 + max(t - 9, -n) % 4,
    "divmod": lambda t, _: sum(divmod(t - 9, 4)),
    "by floats": lambda t, n: math.ceil(t / 2) + math.floor((t - 9) / n) + int(t * 0.5) + math.ceil((t - 9) * 0.25),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_division_means_the_same_however_a_consumer_rounds(name):
    agree(exported(WRITTEN[name]), [WRITTEN[name]])


@pytest.mark.thorough
def test_so_does_one_of_sizes_without_bounds():
    """No multiple of the divisor makes `t - 3*n` nonnegative, so the quotient is corrected; once, however often."""
    functions = [WRITTEN["by any sign"], WRITTEN["by a size"], lambda t, n: (t - 3 * n) // 4]
    program = exported(*functions, declared=OPEN)
    agree(program, functions)
    core = program.run_decompositions()
    assert len(divisions(core.run_decompositions())) == len(divisions(core))


def drawn(draw: random.Random, depth: int) -> str:
    """A random expression of t and n with a division in it, none by 0."""
    if depth == 0:
        return draw.choice(("t", "n", "1", "7", "(t - 6)", "(n - 3)"))
    left, right = (drawn(draw, depth - 1) for _ in range(2))
    divisor = draw.choice(("2", "5", "-3", "n", "(-t)", "(2*n - 5)", "(t + n)", f"max(1, {right})"))
    shape = draw.choice(
        ("({0} // {2})", "({0} % {2})", "({0} - {1})", "(-{0})", "(3 * {0})", "min({0}, {1})", "max({0}, {1})")
    )
    return shape.format(left, right, divisor)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_random_expressions_mean_the_same_however_a_consumer_rounds(seed):
    draw = random.Random(seed)
    written = dict.fromkeys(drawn(draw, 3) for _ in range(12))
    functions = [function(text) for text in written if "t" in text or "n" in text]
    agree(exported(*functions), functions)


def test_divisions_of_what_is_not_negative_stay():
    program = exported(lambda t, n: t // 4 + t % n + (t + n - 2) // 3)
    calls = [node.target for node in program.graph.nodes if node.target in (operator.sub, operator.neg, *DIVISIONS)]
    assert calls == [operator.floordiv, operator.mod, operator.sub, operator.floordiv]
    assert len(divisions(program.run_decompositions())) == 3


def test_the_forms():
    def form(text: str) -> list[Any]:
        nodes = exported(function(text)).graph.nodes
        found = {
            each: each.args for each in nodes if getattr(each.target, "__module__", "") == "_operator" and each.users
        }
        calls = {node: node.target.__name__ for node in found if node.target not in (operator.le, operator.ge)}
        return [(name, *(arg for arg in node.args if isinstance(arg, int))) for node, name in calls.items()]

    assert form("-t // 8") == [("neg",), ("sub", 7), ("floordiv", 8), ("neg",)]
    assert form("(t - 9) // 4") == [("sub", 9), ("add", 8), ("floordiv", 4), ("sub", 2)]
    assert form("(t - 9) % 4") == [("sub", 9), ("add", 8), ("mod", 4)]


def test_a_check_keeps_its_own_division():
    class Checked(torch.nn.Module):
        def forward(self, x):
            rows = x.sum().to(torch.int64).item()
            part = (rows - 9) // 4
            torch._check(part >= -1)
            torch._check(rows <= 40)
            return torch.full((1,), part)

    program = export(Checked(), (torch.ones(20),))
    for form in (program, program.run_decompositions()):
        check = next(
            node
            for node in form.graph.find_nodes(op="call_function", target=ASSERTION)
            if any(each.target is operator.floordiv for each in node.args[0].all_input_nodes)
        )
        (quotient,) = (each for each in check.args[0].all_input_nodes if each.target is operator.floordiv)
        assert quotient.args[0].target is operator.sub
        assert set(quotient.users) == {check.args[0]}
        for total in range(5, 41):
            assert form.module()(torch.eye(20)[0] * total).item() == (total - 9) // 4


def test_what_stays_a_float_is_said():
    (note,) = exported(lambda t, n: int(t * 0.29) - n).report.notes
    assert "test_divisions.py" in note
    assert "int(t * 0.29)" in note
    assert "is computed in floats" in note
    assert not exported(lambda t, _: math.ceil(t / 2)).report.notes


class PadUnfold(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x, (-x.shape[1] % 8, 0)).unfold(1, 8, 8).sum(-1)


def test_a_padding_is_never_negative():
    program = export(PadUnfold(), (torch.randn(2, 20),), dynamic_shapes=({1: Dim("t", min=1, max=33)},))
    for rules in RULES:
        run = Consumer(program.run_decompositions(), rules).run
        for t in range(1, 34):
            x = torch.randn(2, t)
            torch.testing.assert_close(run(x), PadUnfold()(x))
