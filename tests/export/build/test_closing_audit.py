"""What a trace has learned is checked by the program: read back from the graph, and run on data that fail it."""

from __future__ import annotations

import io
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import check, export
from shapeproof.export.build.closing_audit import unmatched
from shapeproof.export.declare.inputs import declare
from shapeproof.export.graph.emit import Computation, NoGraphForm
from shapeproof.export.graph.nodes import insert_call
from shapeproof.export.graph.readback import assertions
from shapeproof.export.shim.numbers.symbols import ASSERTION
from tests.strategies import NAMES, formula_texts
from tests.thoroughness import examples

DATA = (1.0, -1.0, 0.0, -0.0, 2.5, 3.0, 4.0, 7.0, math.nan, math.inf, -math.inf)
N = Dim("n", min=1, max=9)


def forms(program):
    """The program, and what becomes of it on its way to a consumer."""
    file = io.BytesIO()
    torch.export.save(program, file)
    loaded = torch.export.load(io.BytesIO(file.getvalue()))
    return {
        "whole": program.module(),
        "decomposed": program.run_decompositions().module(),
        "loaded": loaded.module(),
        "loaded and decomposed": torch.export.load(io.BytesIO(file.getvalue())).run_decompositions().module(),
        "unflattened": torch.export.unflatten(program),
    }


def raises(run, *args):
    try:
        run(*args)
    except Exception:  # noqa: BLE001 - that it raises is the answer
        return True
    return False


# Each of these was learned as a fact, and lost by torch's own pass.
CHECKS = {
    "a bound of a float": "torch._check(v >= 0)",
    "an assert": "assert v >= 0",
    "a raise": "if v < 0:\n            raise ValueError('negative')",
    "a raise, the other way about": "if not v >= 0:\n            raise ValueError('negative')",
    "a rounding": "torch._check(int(v * n) <= n)",
    "two divisions": "u = int(v)\n        torch._check(u / 2 == u // 2)",
    "a float and a size": "torch._check(v * 0.5 <= n)",
    "a number that is used": "torch._check(v > -1)\n        x = x * v",
    "two bounds of one float": "torch._check(v >= 0)\n        torch._check(v <= 3)",
    "a bound of an int": "u = c.item()\n        torch._check(u >= 1)",
    "a bound of an int that nothing uses": "u = c.item()\n        assert u != 3",
    "a disjunction": "u = c.item()\n        torch._check((u > 5) | (u < 2))",
    "a divisor": "u = c.item()\n        k = n // u",
}


def model_of(text, namespace):
    source = (
        f"def forward(self, x, c):\n        v, n = x.mean().item(), x.shape[0]\n        {text}\n        return x + 1\n"
    )
    exec(compile(source, __file__, "exec"), namespace)  # noqa: S102 - a model of this table
    return type("Model", (torch.nn.Module,), {"forward": namespace["forward"]})()


@pytest.mark.thorough
@pytest.mark.parametrize("text", CHECKS.values(), ids=CHECKS)
def test_a_check_on_data_is_made_in_every_form_of_the_program(text):
    model = model_of(text, {"torch": torch})
    report = check(model, (torch.ones(3), torch.tensor(6)), dynamic_shapes={"x": {0: N}, "c": None})
    assert report.status == "proved", str(report)
    made = forms(report.program)
    for value in DATA:
        for count in (0, 1, 3, 6):
            args = torch.full((2,), value), torch.tensor(count)
            wanted = raises(model, *args)
            assert {name: raises(run, *args) for name, run in made.items()} == dict.fromkeys(made, wanted), args


class Related(torch.nn.Module):
    def forward(self, x, y):
        return x.sum(0), y * 2


DECLARED = {
    "bounds": ({"x": {0: Dim("n", min=1, max=9)}, "y": None}, ()),
    "a derived dim": ({"x": {0: 2 * Dim("k", min=1) + 1}, "y": None}, ()),
    "a shared dim": ({"x": {0: Dim("m")}, "y": {0: Dim("m")}}, ()),
    "a relation": ({"x": {0: Dim("n")}, "y": {0: Dim("m")}}, ("n + 1 <= 2*m",)),
    "a product": ({"x": {0: Dim("n")}, "y": {0: Dim("m")}}, ("n*m <= 64",)),
    "a float": ({"x": {0: Dim("n")}, "y": None}, ("int(n*0.4) == n//3",)),
    "floor and ceil": ({"x": {0: Dim("n")}, "y": None}, ("floor(n*0.7) <= 6", "ceil(n*0.7) != 4")),
    "a choice": ({"x": {0: Dim("n")}, "y": None}, ("(n if n >= 4 else 2*n) <= 8",)),
    "an int": ({"x": {0: Dim("n")}, "y": None}, ("n % 3 == 0 or n > 6",)),
}


def declared_program(shapes, constraints):
    args = torch.ones(3, 2), torch.ones(3)
    inputs = declare(Related(), args, {}, shapes, constraints)
    report = check(Related(), args, dynamic_shapes=shapes, constraints=constraints)
    assert report.status == "proved", str(report)
    return inputs, report.program


def found_missing(program, inputs):
    return unmatched(program, inputs, inputs.domain.formulas)


@pytest.mark.parametrize(("shapes", "constraints"), DECLARED.values(), ids=DECLARED)
def test_the_domain_is_read_back_from_every_form(shapes, constraints):
    inputs, program = declared_program(shapes, constraints)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for each in (program, program.run_decompositions(), torch.export.load(file)):
        assert found_missing(each, inputs) == []


@pytest.mark.parametrize(("shapes", "constraints"), DECLARED.values(), ids=DECLARED)
def test_an_assertion_that_is_taken_out_is_missed(shapes, constraints):
    """Law: without any one of its assertions a program does not check its domain; that a size is not negative aside."""
    inputs, program = declared_program(shapes, constraints)
    asserted = {}
    for node in program.graph.nodes:
        if node.target is ASSERTION:
            asserted.setdefault(node.args[1], []).append((node, node.args))
    assert asserted
    for text, nodes in asserted.items():
        for node, _ in nodes:
            node.args = (True, "taken out")
        missed = found_missing(program, inputs)
        for node, args in nodes:
            node.args = args
        assert missed or text.endswith(">= 0"), text
    assert found_missing(program, inputs) == []


def test_what_no_graph_computes_is_undecided_and_said():
    shapes = {"x": {0: Dim("n", max=64)}, "y": {0: Dim("m", max=64)}}
    report = check(Related(), (torch.ones(8, 2), torch.ones(3)), dynamic_shapes=shapes, constraints=("n ^ m == 11",))
    assert report.status == "undecided"
    assert "the program cannot check `y.shape[0] ^ x.shape[0] == 11` at run time" in str(report)


POINTS = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})


@settings(max_examples=examples(150))
@given(formula_texts, POINTS)
def test_what_is_written_is_read_back_with_the_same_meaning(text, point):
    """Law: emit and readback are inverse, though they share no code: at every point both say what `evaluate` says."""
    formula = parse_formula(text)
    graph = torch.fx.Graph()
    inputs = {name: graph.placeholder(name) for name in NAMES}
    for node in inputs.values():
        node.meta["val"] = 1
    last = graph.output(())
    try:
        condition = Computation(inputs, lambda target, *args: insert_call(last, target, args)).formula(formula)
    except (NoGraphForm, ArithmeticError):
        return
    if isinstance(condition, torch.fx.Node):
        insert_call(last, ASSERTION, [condition, ""])
        (read,) = assertions(graph, lambda node: parse_formula(f"{node.name} == 0").term)
        try:
            wanted = holds(formula, point)
        except (ArithmeticError, ValueError, Unevaluable):
            return
        assert holds(read, point) == wanted


@pytest.mark.parametrize("block", [torch.no_grad, torch.enable_grad])
def test_an_assertion_in_a_block_of_another_mode_is_checked(block):
    """Torch makes a body of such a block, and the body runs whenever the program does."""

    class Model(torch.nn.Module):
        def forward(self, x):
            with block(), torch.autocast("cpu", dtype=torch.bfloat16):
                torch._assert((x > 0).all(), "not positive")
            return x * 2

    program = export(Model(), (torch.ones(5),), dynamic_shapes=({0: Dim("m", min=1, max=16)},))
    assert program.report.status == "proved"
    for run in (program.module(), program.run_decompositions().module()):
        assert torch.equal(run(torch.ones(3)), 2 * torch.ones(3))
        with pytest.raises(RuntimeError):
            run(-torch.ones(3))
        assert torch.is_grad_enabled()  # torch's own module leaves gradients off
