"""What a report proposes can be applied: the code of its help, and `report.repair()`, make the export proved.

The program then does what eager does wherever it accepts the input, and accepts whatever the new declarations allow.
The programs here are small; the cases that users reported lie beside the repository (`make cases`).
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.export import TensorSpec, check
from shapeproof.export.declare.reading import Leaf
from shapeproof.export.shim.inputs.binding import name_leaves
from tests.agreement import RAISES, agree, outcome
from tests.export.random_programs import built

CASES = Path(__file__).parents[4] / "shared" / "cases"
"""Where `make cases` finds them."""


@dataclass(frozen=True)
class Program:
    """A body of forward(x, y), its dims and where they are used as code, the example, and what is proposed."""

    body: str
    dims: str
    shapes: str
    example: tuple[int, ...]
    proposed: str
    constraints: tuple[str, ...] = ()


DIMS = 'n = Dim("n", min=0, max=40)\nm = Dim("m", min=0, max=40)'
LONG = ("n + m <= 60", "n*n + m*m <= 3000 or n == m + 1 or m == 2", "n*m != 11 or n == m")
ONE, TWO = "({0: n},)", "({0: n}, {0: m})"
PROGRAMS = {
    "a multiple": Program("return x.view(-1, 4)", DIMS, ONE, (12,), '_n = Dim("_n", min=0, max=10)\nn = 4*_n'),
    "a multiple and a rest": Program(
        "return x[2:].view(-1, 4)",
        'n = Dim("n", min=2, max=41)',
        ONE,
        (10,),
        '_n = Dim("_n", min=0, max=9)\nn = 4*_n + 2',
    ),
    "a multiple of a derived dim": Program(
        "return x.view(-1, 4)", DIMS, "({0: 2*n},)", (12,), '_n = Dim("_n", min=0, max=20)\nn = 2*_n'
    ),
    "a lower bound": Program("return x.repeat(24 // x.shape[0])", DIMS, ONE, (5,), 'n = Dim("n", min=1, max=40)'),
    "an upper bound": Program("return x * 2 if x.shape[0] > 7 else x", DIMS, ONE, (5,), 'n = Dim("n", min=0, max=7)'),
    "a constant": Program("return x.view(3, 4)", DIMS, ONE, (12,), "n = 12"),
    "an equality": Program(
        "return x + y",
        'n = Dim("n", min=2, max=40)\nm = Dim("m", min=2, max=30)',
        TWO,
        (6, 6),
        "n = m",
    ),
    "a line": Program(
        "return x.repeat_interleave(2) + y[1:]",
        'n = Dim("n", min=2, max=40)\nm = Dim("m", min=4, max=31)',
        TWO,
        (6, 13),
        'n = Dim("n", min=2, max=15)\nm = 2*n + 1',
    ),
    "a falling line": Program(
        "return torch.cat([x, y]) + torch.ones(32)", DIMS, TWO, (12, 20), 'constraints=["m + n == 32"]'
    ),
    "a product": Program(
        "torch._check(x.shape[0] * y.shape[0] <= 100)\nreturn x.sum() + y",
        DIMS,
        TWO,
        (8, 4),
        'constraints=["m*n <= 100"]',
    ),
    "a divisor": Program(
        "return x.repeat(y.shape[0] // x.shape[0]) + y",
        DIMS,
        TWO,
        (6, 12),
        'n = Dim("n", min=1, max=40)\nconstraints=["m % n == 0"]',
    ),
    "more constraints than a line holds": Program(
        "torch._check(x.shape[0] * y.shape[0] != 49)\nreturn x.sum() + y",
        DIMS,
        TWO,
        (8, 4),
        "\n".join(["constraints=[", *(f'    "{text}",' for text in (*LONG, "m*n != 49")), "]"]),
        LONG,
    ),
    "a dim that a constraint names": Program(
        "return x.view(-1, 4), y",
        DIMS,
        TWO,
        (8, 8),
        'constraints=["n + m <= 60", "n % 4 == 0"]',
        ("n + m <= 60",),
    ),
    "two requirements that are constraints": Program(
        "return x.view(-1, 4), y.view(-1, 3)",
        DIMS,
        TWO,
        (8, 9),
        'constraints=["n != 5", "m != 7", "m % 3 == 0", "n % 4 == 0"]',
        ("n != 5", "m != 7"),
    ),
    "values that take the same side": Program(
        "return x * 2 if x.shape[0] in (4, 8, 11) else x + 1",
        DIMS,
        ONE,
        (8,),
        'constraints=["n == 4 or n == 8 or n == 11"]',
    ),
}


def model(body, names):
    """A module whose forward has this body; its source can be shown, as that of a model in a file can."""
    lines = ["class Model(torch.nn.Module):", f"    def forward(self, {', '.join(names)}):"]
    source = "\n".join([*lines, *("        " + line for line in body.splitlines())])
    return built(source)


def vectors(sizes):
    return tuple(torch.arange(float(size)) for size in sizes)


@pytest.fixture(params=PROGRAMS.values(), ids=PROGRAMS)
def case(request):
    """A program, its model and arguments, and the names of its code."""
    program = request.param
    space = {"Dim": Dim, "constraints": program.constraints}
    exec(program.dims, space)  # noqa: S102 - written above
    mod = model(program.body, "xy"[: len(program.example)])
    return program, mod, vectors(program.example), space


@pytest.mark.thorough
def test_the_code_of_the_help_is_proved_when_pasted(case):
    program, mod, args, space = case
    report = check(mod, args, dynamic_shapes=eval(program.shapes, space), constraints=program.constraints)  # noqa: S307
    assert report.status == "refuted"
    (help_,) = [help_ for diagnostic in report.diagnostics for help_ in diagnostic.help]
    assert help_.text == program.proposed
    assert help_.proof.startswith("proved")
    exec(help_.text, space)  # noqa: S102 - what a user would paste
    shapes = eval(program.shapes, space)  # noqa: S307
    assert check(mod, args, dynamic_shapes=shapes, constraints=space["constraints"]).status == "proved"


@pytest.mark.thorough
def test_what_is_declared_anew_holds_and_is_refused_outside(case):
    program, mod, args, space = case
    given = eval(program.shapes, space)  # noqa: S307
    repair = check(mod, args, dynamic_shapes=given, constraints=program.constraints).repair()
    assert type(repair.dynamic_shapes) is type(given)
    report = check(mod, args, dynamic_shapes=repair.dynamic_shapes, constraints=repair.constraints)
    assert report.status == "proved"
    taken = 0
    for sizes in itertools.product(range(18), repeat=len(args)):
        inputs = vectors(sizes)
        eager, run = outcome(mod, inputs), outcome(report.program.module(), inputs)
        assert run == RAISES or agree(mod, report.program.module(), inputs)
        taken += isinstance(run, tuple)
        assert isinstance(run, str) or eager != RAISES
    assert taken


@pytest.mark.thorough
def test_one_line_that_branches_is_one_diagnostic_and_it_speaks_true():
    """Of the smallest sizes that fail; each size that it speaks of takes another side, whatever the other one is."""
    mod = model("return x + y.sum() if (x.shape[0], y.shape[0]) in ((4, 8), (8, 4)) else x - 1", "xy")
    shapes = ({0: Dim("n", min=1, max=9)}, {0: Dim("m", min=1, max=9)})
    report = check(mod, vectors((4, 8)), dynamic_shapes=shapes)
    (found,) = report.diagnostics
    told = "x.shape[0] != 4 and (y.shape[0] != 4 or x.shape[0] != 8)"
    assert found.message == f"the model does something else where `{told}`"
    assert found.witness == {"x.shape[0]": 1, "y.shape[0]": 1}
    assert [note.text for note in found.notes if note.label == "also"] == ["1 other question at this line"]
    repair = report.repair()
    assert repair.constraints == ("n == 4 or n == 8", "n != 4 or m == 8", "m == 4 or n == 4")
    again = check(mod, vectors((4, 8)), dynamic_shapes=repair.dynamic_shapes, constraints=repair.constraints)
    assert again.status == "proved"


def test_a_finite_set_is_found_by_narrowing():
    mod = model("if x.shape[0] in (4, 8, 11):\n    return x * 2\nreturn x", "x")
    report = check(mod, vectors((8,)), dynamic_shapes=({0: Dim("n", min=0, max=40)},), narrow=True)
    assert report.domain[-1] == "x.shape[0] == 4 or x.shape[0] == 8 or x.shape[0] == 11"
    assert report.repair().constraints == ("n == 4 or n == 8 or n == 11",)


@pytest.mark.thorough
def test_hints_and_ints_are_declared_anew():
    mod = model("torch._check(k >= 3)\nreturn x.view(-1, 4) * k", "xk")
    shapes = ({0: Dim.AUTO(min=1, max=99)}, Dim.AUTO(min=0, max=9))
    args = (*vectors((12,)), 7)
    repair = check(mod, args, dynamic_shapes=shapes).repair()
    assert repair.code == ("k: Dim.AUTO(min=3, max=9)", 'constraints=["x.shape[0] % 4 == 0"]')
    assert check(mod, args, dynamic_shapes=repair.dynamic_shapes, constraints=repair.constraints).status == "proved"


def test_nested_inputs_keep_their_form():
    mod = model("return a[0].view(-1, 4), a[1]['b'] + 1", "a")
    n, m = Dim("n", min=0, max=40), Dim("m", min=0, max=40)
    args = ([torch.ones(12), {"b": torch.ones(3)}],)
    repair = check(mod, args, dynamic_shapes={"a": [{0: n}, {"b": {0: m}}]}).repair()
    assert str(repair.dynamic_shapes) == "{'a': [{0: 4*_n}, {'b': {0: Dim('m', min=0, max=40)}}]}"


@pytest.mark.thorough
def test_a_tensor_without_an_example_is_declared_anew():
    mod = model("return x.view(-1, 4)", "x")
    args = (TensorSpec(torch.float32, (Dim("n", min=2, max=64),)),)
    repair = check(mod, args).repair()
    said = ("x.shape[0] >= 4", "x.shape[0] <= 64", "x.shape[0] % 4 == 0")
    assert check(mod, args, dynamic_shapes=repair.dynamic_shapes).domain == said


def test_what_was_proved_is_declared_as_it_was():
    shapes = ({0: Dim("n", min=0, max=9)},)
    report = check(torch.nn.ReLU(), vectors((5,)), dynamic_shapes=shapes, constraints=["n != 3"])
    repair = report.repair()
    assert (repair.dynamic_shapes, repair.constraints, repair.code) == (shapes, ("n != 3",), ())


def test_nothing_is_declared_anew_where_it_is_data_that_matter():
    mod = model("rows = x.nonzero()\nif rows.shape[0] > 3:\n    return rows * 2\nreturn rows", "x")
    report = check(mod, (torch.ones(6),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert report.status == "refuted"
    assert report.repair() is None


# ---------------------------------------------------------------------- the cases that users reported


def case_files():
    return sorted(path for path in CASES.glob("*.py") if path.name != "run.py")


@pytest.mark.slow
@pytest.mark.skipif(not case_files(), reason="the reported cases lie outside the repository, and are not here")
@pytest.mark.parametrize("path", case_files() or [None], ids=lambda path: path.stem if path else "none")
def test_every_reported_case_that_is_refuted_is_repaired(path):
    mod, args, kwargs, shapes, probes = loaded(path)
    with torch.no_grad():
        report = check(copy.deepcopy(mod), args, kwargs, dynamic_shapes=shapes)
        if report.status != "refuted":
            return
        for diagnostic in report.diagnostics:
            assert diagnostic.file in code_of(mod) | {str(path)}
            assert is_a_counterexample(mod, report, args, kwargs, diagnostic.witness)
        assert any(diagnostic.help for diagnostic in report.diagnostics)
        repair = report.repair()
        again = check(
            copy.deepcopy(mod), args, kwargs, dynamic_shapes=repair.dynamic_shapes, constraints=repair.constraints
        )
        assert again.status == "proved"
        run = again.program.module()
        assert agree(mod, run, args, kwargs)
        for inputs in probes:
            inside = all(map(bool, inside_domain(mod, again, inputs)))
            assert agree(mod, run, inputs, may_refuse=not inside)
            assert inside or outcome(run, inputs) == RAISES


def code_of(mod):
    """The files in which the classes of a model and its parts are written."""
    return {inspect.getsourcefile(type(part)) for part in mod.modules()}


def loaded(path):
    """The model of a case in evaluation mode, its example, declarations, and inputs to try."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    case = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = case
    spec.loader.exec_module(case)
    torch.manual_seed(0)
    mod, args, kwargs, shapes = case.build()
    if not isinstance(mod, torch.nn.Module):
        mod = Wrapped(mod)
    probes = [*case.probe_inputs(), *getattr(case, "reject_inputs", lambda: ())()]
    return mod.eval(), args, kwargs or {}, shapes, probes


class Wrapped(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def inside_domain(mod, report, inputs):
    """For each formula of the domain whether it holds of the inputs."""
    sizes = {}
    for leaf in (Leaf(*named) for named in name_leaves(mod, inputs, {})):
        for index, text in enumerate(report.inputs.get(leaf.name, ())):
            actual = leaf.example.shape[index] if isinstance(leaf.example, torch.Tensor) else leaf.example
            name = f"{leaf.name}.shape[{index}]" if isinstance(leaf.example, torch.Tensor) else leaf.name
            sizes.setdefault(name, actual)
            term = parse_term(text)
            for symbol in term.symbols:
                start = evaluate(term, {symbol: 0})
                step = evaluate(term, {symbol: 1}) - start
                known = sizes.setdefault(symbol, (actual - start) // step)
                yield step * known + start == actual
            yield term.symbols or evaluate(term, {}) == actual
    for text in report.domain:
        yield holds(parse_formula(text), sizes)


def is_a_counterexample(mod, report, args, kwargs, witness):
    """Whether at a witness eager raises, or does something else than what torch records of it at the example."""
    inputs = resized(mod, report, args, kwargs, witness)
    if outcome(copy.deepcopy(mod), inputs) == RAISES:
        return True
    recorded = torch.export.export(copy.deepcopy(mod), args, kwargs).module(check_guards=False)
    return not agree(mod, recorded, inputs)


def resized(mod, report, args, kwargs, witness):
    """The example's inputs at the sizes of a witness."""
    values = dict(witness)
    for name, sizes in report.inputs.items():
        for index, text in enumerate(sizes):
            if f"{name}.shape[{index}]" in witness:
                values[text] = witness[f"{name}.shape[{index}]"]
    found = []
    for leaf in (Leaf(*named) for named in name_leaves(mod, args, kwargs)):
        sizes = [evaluate(parse_term(text), values) for text in report.inputs.get(leaf.name, ())]
        found.append(like(leaf.example, sizes) if isinstance(leaf.example, torch.Tensor) else leaf.example)
    return tuple(found)


def like(example, sizes):
    count = torch.Size(sizes).numel()
    return example.reshape(-1)[torch.arange(count) % example.numel()].reshape(sizes)
