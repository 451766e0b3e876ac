"""torch's spec language: what is declared by a ShapesSpec is what is declared by Dims, and is said in its own words."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from pathlib import Path

import pytest
import sympy
import torch
from hypothesis import given
from torch.export import Dim
from torch.fx.experimental import dynamic_spec
from torch.fx.experimental.dynamic_spec import (
    STATIC,
    DictSpec,
    IntVar,
    ObjectSpec,
    ParamsSpec,
    SeqSpec,
    ShapesSpec,
    ShapeVar,
    TensorSpec,
)

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from shapeproof.wording import short
from tests.agreement import agree
from tests.export.random_programs import few, is_a_counterexample, programs
from tests.spec_language import as_spec


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="tests.spec_language.Pair")


class Rows(torch.nn.Module):
    """Takes rows by fours."""

    def forward(self, x, y):
        return x.reshape(-1, 4).sum() + y.sum(0)


class Everything(torch.nn.Module):
    """Takes an input in each way."""

    def forward(self, x, *more, pair, n=3, **others):
        return x.sum(0) + n, [each * 2 for each in more], pair["p"].first + pair["q"][1], others["z"] + 1


def rows(*sizes):
    return tuple(torch.ones(size, 3) for size in sizes)


def everything():
    nested = {"p": Pair(torch.ones(6), torch.ones(2)), "q": [torch.ones(1), torch.ones(6)]}
    return (torch.ones(8, 3), torch.ones(4), torch.ones(5)), {"n": 4, "pair": nested, "z": torch.ones(7)}


def by_spec(mod, args, *, dynamic_shapes):
    return check(mod, args, dynamic_shapes=as_spec(mod, args, {}, dynamic_shapes))


# ---------------------------------------------------------------------- the same declarations


@pytest.mark.thorough
@few(10)
@given(programs())
def test_a_spec_declares_what_dims_declare(program):
    """Law: the same verdict, domain and places; what a spec adds is its own words. Each witness fails in eager."""
    by_dims, report = program.check(), program.check(how=by_spec)
    assert report.status == by_dims.status
    assert report.domain == by_dims.domain
    known = [(each.id, each.message, each.line, each.witness) for each in by_dims.diagnostics]
    assert [(each.id, each.message, each.line, each.witness) for each in report.diagnostics] == known
    assert all(
        is_a_counterexample(program, each, several=False) for each in report.diagnostics if each.id != "undecided"
    )


def test_every_input_has_its_spec_by_its_name_and_structure():
    """Positional, keyword, `*args`, `**kwargs`; in dicts, lists and objects; the rest is static."""
    a, n = ShapeVar("a"), IntVar("n", min=-3, max=9)
    of_pair = {"p": ObjectSpec({"first": TensorSpec([a + 2])}), "q": SeqSpec([None, TensorSpec([a + 2])])}
    spec = ShapesSpec(
        ParamsSpec(
            {
                "x": TensorSpec([ShapeVar("b", max=64), STATIC]),
                "*args": [TensorSpec([a])],
                "pair": DictSpec(of_pair),
                "n": n,
                "**kwargs": {"z": TensorSpec([ShapeVar()])},
            }
        )
    )
    args, kwargs = everything()
    report = check(Everything(), args, kwargs, dynamic_shapes=spec)
    assert report.status == "proved"
    of_x, of_n = ("x.shape[0] >= 0", "x.shape[0] <= 64"), ("n >= -3", "n <= 9")
    assert report.domain == (*of_x, "more[0].shape[0] >= 0", *of_n, "others['z'].shape[0] >= 0")
    assert agree(Everything(), report.program.module(), args, kwargs)


def test_a_keyword_argument_may_be_named_beside_the_parameters():
    args, kwargs = everything()
    specs = [{"z": TensorSpec([ShapeVar("z")])}, {"**kwargs": {"z": TensorSpec([ShapeVar("z")])}}]
    domains = [export(Everything(), args, kwargs, dynamic_shapes=ParamsSpec(each)).report.domain for each in specs]
    assert domains == [("others['z'].shape[0] >= 0",)] * 2


def test_a_spec_without_entries_is_static_whatever_is_marked():
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0)
    report = check(torch.nn.ReLU(), (x,), dynamic_shapes=ShapesSpec())
    assert report.status == "proved"
    assert report.domain == ()
    assert "have no effect" in report.notes[0]


def test_variables_of_one_name_are_two():
    """Torch tells variables apart by identity: their names are for people."""
    shapes = {"x": TensorSpec([ShapeVar("b"), None]), "y": TensorSpec([ShapeVar("b"), None])}
    report = check(Rows(), rows(8, 4), dynamic_shapes=ShapesSpec(shapes), constraints=["b % 4 == 0", "b_1 >= 1"])
    assert report.status == "proved"
    assert report.domain == ("x.shape[0] >= 0", "x.shape[0] % 4 == 0", "y.shape[0] >= 1")


def test_a_size_may_be_any_expression_of_the_variables():
    """`a*b` is neither a Dim nor a derived one: it is held by a relation, in the program too."""

    class Flat(torch.nn.Module):
        def forward(self, x, y):
            return x.reshape(-1) + y

    a, b = ShapeVar("a", max=4), ShapeVar("b", max=4)
    spec = ShapesSpec({"x": TensorSpec([a, b]), "y": TensorSpec([a * b])})
    program = export(Flat(), (torch.ones(2, 3), torch.ones(6)), dynamic_shapes=spec)
    run = program.module()
    for first in range(5):
        for second in range(5):
            x = torch.randn(first, second)
            assert agree(Flat(), run, (x, torch.ones(first * second)))
            with pytest.raises(RuntimeError):
                run(x, torch.ones(first * second + 1))


def test_no_rows_are_claimed_by_a_variable_without_bounds():
    """The lower bound of a Dim without bounds may rise to 1; a spec promises what it says, as in torch."""

    class Rowwise(torch.nn.Module):
        def forward(self, x):
            return x.max(0).values

    assert check(Rowwise(), rows(4), dynamic_shapes={"x": {0: Dim("b")}}).domain == ("x.shape[0] >= 1",)
    report = check(Rowwise(), rows(4), dynamic_shapes=ShapesSpec({"x": TensorSpec([ShapeVar("b"), 3])}))
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[0]": 0}


@pytest.mark.parametrize("name", ["n", "n_", "m"])
@pytest.mark.parametrize("of", [lambda v: torch.sym_max(v, 1), lambda v: v * v, lambda v: v // 2 + 1])
def test_an_int_may_be_an_expression_of_a_variable_with_its_name(of, name):
    """The fault: `n == max(1, n)` was read of the variable, the int was not held, and a size of 0 was lost."""

    class Times(torch.nn.Module):
        def forward(self, x, n: int):
            return x * n

    variable = ShapeVar(name, max=3)
    expr = of(variable).node.expr
    spec = ShapesSpec({"x": TensorSpec([variable]), "n": of(variable)})
    values = [int(expr.xreplace({variable.sympy_sym: sympy.Integer(rows)})) for rows in range(4)]
    run = export(Times(), (torch.ones(3), values[3]), dynamic_shapes=spec).module()
    for rows, number in itertools.product(range(5), range(11)):
        args = torch.ones(rows), number
        if rows < 4 and number == values[rows]:
            assert agree(Times(), run, args)
        else:
            with pytest.raises(RuntimeError):
                run(*args)


def test_a_derived_size_may_be_of_a_variable_that_is_negative():
    c = IntVar("c", min=-3, max=3)
    report = check(torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=ShapesSpec({"input": TensorSpec([c + 1, 3])}))
    assert (report.status, report.domain) == ("proved", ("input.shape[0] <= 4", "input.shape[0] >= 0"))


def test_a_hint_for_compilers_is_kept():
    spec = ShapesSpec({"input": TensorSpec([ShapeVar("b", max=64, optimization_hint=32), 3])})
    program = export(torch.nn.ReLU(), rows(4), dynamic_shapes=spec)
    (size,) = program.range_constraints
    node = next(iter(program.graph.nodes)).meta["val"].shape[0].node
    assert node.expr == size
    assert node.shape_env.var_to_hint_override[size] == 32


# ---------------------------------------------------------------------- its own words


def test_a_repair_is_an_assumption_and_is_proved():
    b = ShapeVar("b", max=64)
    shapes = {"x": TensorSpec([b, 3]), "y": TensorSpec([2 * b, 3])}
    report = check(Rows(), rows(8, 16), dynamic_shapes=ShapesSpec(shapes, assumptions=[b != 4]))
    (diagnostic,) = report.diagnostics
    assert [each.text for each in diagnostic.help] == ["assumptions=[b != 4, b % 4 == 0]"]
    assert 'x.shape[0] = ShapeVar("b", max=64)' in str(report)
    found = report.repair()
    again = check(Rows(), rows(8, 16), dynamic_shapes=found.dynamic_shapes, constraints=found.constraints)
    assert again.status == "proved"
    pasted = check(Rows(), rows(8, 16), dynamic_shapes=ShapesSpec(shapes, assumptions=[b != 4, b % 4 == 0]))
    assert (pasted.status, pasted.domain) == ("proved", again.domain)


def test_a_repair_that_python_cannot_compute_of_variables_is_a_text():
    """The fault: `max(a, b) <= 5` and `a != 7 and b != 8` in assumptions raise in torch, `x.shape[0]` in Python."""
    a, b = ShapeVar("a", max=9), ShapeVar("b", max=9)
    own = ["max(a, b) <= 8", "a != 7 and b != 5"]
    spec = ShapesSpec(
        {"x": TensorSpec([a, 3]), "y": TensorSpec([b, 3])},
        assumptions=[torch.sym_max(a, b) <= 8, (a != 7) & (b != 5)],
    )
    report = check(Rows(), rows(8, 4), dynamic_shapes=spec)
    (shown,) = [each.text for each in report.diagnostics[0].help]
    texts = ast.literal_eval(shown.removeprefix("constraints="))
    assert texts[:2] == own
    assert check(Rows(), rows(8, 4), dynamic_shapes=spec, constraints=texts).status == "proved"

    class Halved(torch.nn.Module):
        def forward(self, x, y):
            return x.narrow(0, 0, 1) + y.sum()

    spec = ShapesSpec({"x": TensorSpec([a // 2]), "y": TensorSpec([a])})
    report = check(Halved(), (torch.ones(2), torch.ones(4)), dynamic_shapes=spec)
    (shown,) = [each.text for each in report.diagnostics[0].help]
    texts = ast.literal_eval(shown.removeprefix("constraints="))
    assert check(Halved(), (torch.ones(2), torch.ones(4)), dynamic_shapes=spec, constraints=texts).status == "proved"


def test_a_variable_is_found_at_its_line():
    spec = ShapesSpec({"x": TensorSpec([ShapeVar("of_this_test"), 3])})
    said = " ".join(str(check(Rows(), rows(8, 16), dynamic_shapes=spec)).split())
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(at for at, line in enumerate(lines, 1) if 'ShapeVar("of_this_test")' in line)
    assert f'x.shape[0] = ShapeVar("of_this_test") at {short(__file__)}:{number}' in said


OF_ANOTHER_KIND = {
    "no input": ({"w": TensorSpec([ShapeVar()])}, r"the spec names \['w'\], but the inputs are \['x', 'more'"),
    "rank": ({"x": TensorSpec([ShapeVar()])}, "1 entries for `x`, which has 2 dimensions"),
    "a list for a tensor": (
        {"x": SeqSpec([None])},
        "SeqSpec for `x`, which is of class Tensor: expected TensorSpec",
    ),
    "a size for a tensor": ({"x": ShapeVar()}, "ShapeVar for `x`, which is of class Tensor: expected TensorSpec"),
    "a tensor for an int": (
        {"n": TensorSpec([None])},
        "TensorSpec for `n`, which is of class int: expected an IntVar",
    ),
    "a list for a dict": ({"pair": SeqSpec([])}, "gives SeqSpec for `pair`, which is of class dict: expected DictSpec"),
    "a dict for an object": (
        {"pair": DictSpec({"p": DictSpec({"first": None})})},
        r"gives DictSpec for `pair\['p'\]`, which is of class Pair: expected ObjectSpec",
    ),
    "no key": (
        {"pair": DictSpec({"r": None})},
        r"of `pair` has entries for \['r'\], but `pair` has \['p', 'q'\]",
    ),
    "too many": ({"*args": [None] * 3}, r"the spec of `\*args` has entries for \[2\], but `\*args` has \[0, 1\]"),
    "no keyword": ({"**kwargs": {"w": None}}, r"the spec of `\*\*kwargs` has entries for \['w'\]"),
    "another size": ({"x": TensorSpec([5, 3])}, r"`x.shape\[0\]` is declared to be 5, but the example has 8"),
    "a negative size": ({"x": TensorSpec([IntVar("k", min=-1), 3])}, "`k` has min=-1, but a size is never negative"),
    "outside": ({"x": TensorSpec([ShapeVar(min=9), 3])}, r"the example has x.shape\[0\] = 8, but x.shape\[0\] >= 9"),
    "odd": ({"x": TensorSpec([2 * ShapeVar("k") + 1, 3])}, r"which is not of the declared form 2\*k \+ 1"),
    "not told": (
        {"x": TensorSpec([ShapeVar("k") * ShapeVar("l"), 3])},
        "`k` in expressions and assumptions alone: expected",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", OF_ANOTHER_KIND)
def test_a_spec_of_other_inputs_is_refused_in_a_sentence(name):
    spec, said = OF_ANOTHER_KIND[name]
    args, kwargs = everything()
    with pytest.raises(UsageError, match=said):
        check(Everything(), args, kwargs, dynamic_shapes=ShapesSpec(spec))


def test_an_assumption_that_the_example_does_not_meet_is_refused():
    b = ShapeVar("b")
    spec = ShapesSpec({"input": TensorSpec([b, 3])}, assumptions=[b == 4])
    with pytest.raises(UsageError, match=r"has input.shape\[0\] = 8, but input.shape\[0\] == 4 is declared"):
        check(torch.nn.ReLU(), rows(8), dynamic_shapes=spec)


# ---------------------------------------------------------------------- on the model


@pytest.mark.skipif(not hasattr(dynamic_spec, "dynamic_spec"), reason="torch 2.13 has no @dynamic_spec")
def test_the_spec_of_a_decorated_forward_is_what_is_declared():
    """The fault: torch took the spec for dynamic_shapes, and what it makes dynamic was called constant, and proved."""
    b = ShapeVar("b", max=9)

    class Decorated(torch.nn.Module):
        @dynamic_spec.dynamic_spec(ShapesSpec({"x": TensorSpec([b, None])}, assumptions=[b % 2 == 0]))
        def forward(self, x):
            return x.reshape(-1, 2)

    program = export(Decorated(), rows(4))
    assert program.report.domain == ("x.shape[0] >= 0", "x.shape[0] <= 9", "x.shape[0] % 2 == 0")
    assert all(agree(Decorated(), program.module(), rows(size)) for size in (0, 2, 8))
    for shapes in ({"x": None}, {"x": {0: Dim("n")}}, ShapesSpec()):
        with pytest.raises(UsageError, match="forward has a @dynamic_spec, and dynamic_shapes is given"):
            check(Decorated(), rows(4), dynamic_shapes=shapes)
    assert Decorated.forward._dynamic_spec is not None  # a trace leaves it where it was
