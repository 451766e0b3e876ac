"""The declared domain is part of the program: whoever runs it refuses what lies outside, and agrees with eager inside.

A module that is made here raises OutsideDomain. Of a loaded or unflattened program torch checks some before the graph
is run, and then the sentence is torch's; it has to name the size as well.
"""

from __future__ import annotations

import io

import pytest
import torch
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import guard_or_false

from shapeproof.export import check, export


class Model(torch.nn.Module):
    """Takes whatever is declared here; rows and columns are independent, so that no trace asks anything."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, x, y, z):
        return (x * self.scale + y).sin(), z * 2 + 1


def inputs(b, n, k4, columns=None):
    """Inputs with x: [b, n], y: [columns, or n], z: [k4, 3]."""
    torch.manual_seed(0)
    return torch.randn(b, n), torch.randn(n if columns is None else columns), torch.randn(k4, 3)


def declared():
    """Bounds, a dim that two inputs share, a derived dim and a relation."""
    b, n, k = Dim("b", min=2, max=8), Dim("n", min=2, max=12), Dim("k", min=1, max=4)
    return {"x": {0: b, 1: n}, "y": {0: n}, "z": {0: 4 * k}}


INSIDE = {
    "smallest": inputs(2, 2, 4),
    "most rows": inputs(8, 3, 16),
    "most columns": inputs(2, 12, 4),
    "on the relation": inputs(4, 6, 8),
}
OUTSIDE = {
    "above a bound": (inputs(9, 2, 4), "x.shape[0] <= 8"),
    "below a bound": (inputs(1, 2, 4), "x.shape[0] >= 2"),
    "empty": (inputs(0, 2, 4), "x.shape[0] >= 2"),
    "not shared": (inputs(2, 3, 4, columns=4), "y.shape[0] == x.shape[1]"),
    "not shared, and broadcast": (inputs(2, 3, 4, columns=1), "y.shape[0] == x.shape[1]"),
    "not of the derived form": (inputs(2, 2, 6), "z.shape[0] == 4*k"),
    "the root above its bound": (inputs(2, 2, 20), "k <= 4"),
    "the root below its bound": (inputs(2, 2, 0), "k >= 1"),
    "off the relation": (inputs(5, 5, 4), "x.shape[0]*x.shape[1] <= 24"),
}
TORCHS = {
    "x.shape[0] <= 8": ("x.size()[0] <= 8", "*args[0].shape[0] to be <= 8, but got 9"),
    "y.shape[0] == x.shape[1]": ("y.size()[0] == x.size()[1]", "*args[1].shape[0] to be equal to 3, but got "),
    "k <= 4": ("z.size()[0] <= 16", "*args[2].shape[0] to be <= 16, but got 20"),
    "k >= 1": ("z.size()[0] >= 4", "*args[2].shape[0] to be >= 4, but got 0"),
    "n <= 5": ("n <= 5", "*args[1] to be <= 5, but got 6"),
}
"""What torch checks by itself, as its modules and its `unflatten` say it."""


def names(said, declaration, because="declared"):
    """Whether a refusal is one of the sentences with which an input may be refused."""
    guard, check = TORCHS.get(declaration, (declaration, declaration))
    torchs = (
        f"input outside the declared domain: {declaration}",
        f"Guard failed: {guard}",
        f"Expected input at {check}",
    )
    return said.startswith(torchs) or said.endswith(f", but {declaration} is {because}")


def saved(program):
    """The program after a round trip through a file."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


FORMS = {
    "module": lambda program: program.module(),
    "unflatten": torch.export.unflatten,
    "saved": lambda program: saved(program).module(),
    "saved, unflatten": lambda program: torch.export.unflatten(saved(program)),
    "decomposed": lambda program: program.run_decompositions().module(),
    "decomposed, unflatten": lambda program: torch.export.unflatten(program.run_decompositions()),
}


@pytest.fixture(scope="module")
def program():
    return export(Model(), inputs(3, 5, 8), dynamic_shapes=declared(), constraints=("b*n <= 24",))


@pytest.fixture(scope="module", params=FORMS)
def run(request, program):
    """The program in one of the forms in which it is run in Python."""
    return FORMS[request.param](program)


def refusal(run, args):
    """What a runner says when it refuses its input; below the first line `unflatten` adds where in the graph it was."""
    with pytest.raises((RuntimeError, AssertionError)) as raised:
        run(*args)
    return str(raised.value).splitlines()[0]


def test_the_domain_is_proved(program):
    assert program.report.status == "proved"


@pytest.mark.parametrize("case", OUTSIDE)
def test_outside_the_domain_every_form_refuses_with_the_declaration(run, case):
    args, declaration = OUTSIDE[case]
    assert names(refusal(run, args), declaration)


@pytest.mark.parametrize("case", INSIDE)
def test_inside_the_domain_every_form_does_what_eager_does(run, case):
    args = INSIDE[case]
    torch.testing.assert_close(run(*args), Model()(*args))


def test_a_program_that_is_decomposed_after_it_was_loaded_still_refuses(program):
    """Only that: torch words the assertion anew when it traces a loaded program."""
    run = saved(program).run_decompositions().module()
    for args, _ in OUTSIDE.values():
        assert refusal(run, args)


class TakesConstants(torch.nn.Module):
    def forward(self, x, times, plus, again, mode, more=None):
        return (x * times + plus if again else x) if mode == "a" else more


def test_a_program_of_constants_is_decomposed_after_it_was_loaded():
    """The fault: torch decomposes on a symbol for 2 and on 1 for True, and the checks of their types refused it."""
    given = (2, -0.0, True, "a")
    program = saved(export(TakesConstants(), (torch.ones(3), *given), dynamic_shapes=({0: Dim("n")}, *[None] * 4)))
    run, x = program.run_decompositions().module(), torch.randn(5)
    torch.testing.assert_close(run(x, *given), TakesConstants()(x, *given))
    for index, other in enumerate((2.0, 0.0, 1, "b")):
        with pytest.raises(AssertionError, match="Guard failed"):
            program.module()(x, *given[:index], other, *given[index + 1 :])


class Apart(torch.nn.Module):
    """The same inputs, none of which an operator combines with another."""

    def forward(self, x, y, z):
        return x.sin(), y * 3, z * 2 + 1


REPLACED = pytest.mark.xfail(
    strict=True,
    raises=pytest.fail.Exception,
    reason="a loaded program has torch's ShapeEnv: where an operator broadcasts two sizes it makes them one symbol, "
    "AOTInductor traces again and drops what is then said of the other",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "form"),
    [(Model, lambda program: program), (Apart, saved), pytest.param(Model, saved, marks=REPLACED)],
    ids=["fresh", "saved", "saved, sizes that the model equates"],
)
def test_aot_inductor_refuses_outside_and_agrees_inside(model, form, tmp_path):
    """It words its refusal itself."""
    program = export(model(), inputs(3, 5, 8), dynamic_shapes=declared(), constraints=("b*n <= 24",))
    package = torch._inductor.aoti_compile_and_package(form(program), package_path=str(tmp_path / "model.pt2"))
    run = torch._inductor.aoti_load_package(package)
    for args in INSIDE.values():
        torch.testing.assert_close(run(*args), model()(*args))
    for args, _ in OUTSIDE.values():
        assert refusal(run, args)


class Cropped(torch.nn.Module):
    def forward(self, x):
        return x[:12].cumsum(0)


class Served(torch.nn.Module):
    """One program serves both sides of its branch; each side alone tells whether n is more than 12."""

    def forward(self, x):
        rows = x[:12].cumsum(0)
        return rows * 2 if x.shape[0] > 15 else 2 * rows


ROWS = Dim("n", min=0, max=20)


@pytest.mark.parametrize("model", [Cropped, Served])
@pytest.mark.parametrize("example", [5, 18])
def test_a_compiler_is_told_what_holds_everywhere_and_not_what_held_in_the_trace(model, example):
    program = export(model(), (torch.ones(example, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert program.report.status == "proved"
    (rows, _) = next(iter(program.graph.find_nodes(op="placeholder"))).meta["val"].shape
    assert guard_or_false(rows <= 20)
    assert not any(map(guard_or_false, (rows <= 12, rows > 12, rows <= 15, rows > 15, rows == 1, rows != 1)))


@pytest.mark.slow
@pytest.mark.parametrize("model", [Cropped, Served])
@pytest.mark.parametrize("example", [5, 18])
def test_aot_inductor_serves_sizes_that_the_trace_did_not_take(model, example, tmp_path):
    """A slice by a constant was compiled for the side of the example."""
    program = export(model(), (torch.ones(example, 4),), dynamic_shapes={"x": {0: ROWS}})
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    run = torch._inductor.aoti_load_package(package)
    for n in range(21):
        torch.testing.assert_close(run(x := torch.randn(n, 4)), model()(x))


# ---------------------------------------------------------------------- what else is enforced


class Reshaping(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 4)


class Selecting(torch.nn.Module):
    """Raises on data, as eager does."""

    def forward(self, x):
        rows = x.nonzero()
        torch._check(rows.shape[0] >= 2, lambda: "too few")
        return rows + 1


@pytest.mark.parametrize("form", FORMS)
def test_what_was_inferred_is_enforced(form):
    """Dim.AUTO is narrowed to what the model supports, and not only in the report."""
    program = export(Reshaping(), (torch.ones(8),), dynamic_shapes={"x": {0: Dim.AUTO}})
    run = FORMS[form](program)
    for n in (8, 12):
        assert torch.equal(run(torch.ones(n)), torch.ones(n // 4, 4))
    assert any("x.shape[0] % 4 == 0" in text for text in program.report.domain)
    assert names(refusal(run, (torch.ones(6),)), "x.shape[0] % 4 == 0", "required")


@pytest.mark.parametrize("form", FORMS)
def test_a_check_on_data_stays_in_the_program(form):
    """Eager raises on such data, so the program does; on all other data they agree."""
    program = export(Selecting(), (torch.ones(5),), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}})
    run = FORMS[form](program)
    enough = torch.tensor([0.0, 1, 1])
    assert torch.equal(run(enough), Selecting()(enough))
    assert refusal(run, (torch.tensor([0.0, 1, 0]),))


class Scaling(torch.nn.Module):
    def forward(self, x, n):
        return x * n


@pytest.mark.parametrize("form", FORMS)
def test_an_int_input_keeps_its_bounds(form):
    shapes = {"x": None, "n": Dim.AUTO(min=2, max=5)}
    run = FORMS[form](export(Scaling(), (torch.ones(3), 4), dynamic_shapes=shapes))
    assert torch.equal(run(torch.ones(3), 5), torch.full((3,), 5.0))
    assert names(refusal(run, (torch.ones(3), 6)), "n <= 5")


def test_a_fixed_size_is_refused_by_every_form(run):
    """Whose sentence it is does not matter: torch checks sizes that are constants."""
    x, y, _ = inputs(2, 2, 4)
    assert refusal(run, (x, y, torch.ones(4, 5)))


def test_a_power_is_asserted():
    shapes = {"x": {0: Dim("b", min=2, max=8)}, "n": None}
    report = check(Scaling(), (torch.ones(3), 2.0), dynamic_shapes=shapes, constraints=("2**b < 200",))
    assert report.status == "proved", str(report)
    assert "2**x.shape[0] <= 199" in report.domain
    run = report.program.module()
    run(torch.ones(7), 2.0)
    with pytest.raises(RuntimeError, match=r"2\*\*x.shape"):
        run(torch.ones(8), 2.0)
