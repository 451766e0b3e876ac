"""`compare`: what it calls the same is the same at every point, and at its witness the two programs differ."""

from __future__ import annotations

import functools

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, note, reject
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import check, compare, export
from tests.agreement import outcome as ran
from tests.agreement import same as gives_the_same
from tests.export.mutants import changes, copied
from tests.export.random_programs import few, programs, small_programs
from tests.export.tracing import alike, outcome

N = Dim("n", min=0, max=6)


class Model(torch.nn.Module):
    """Writes into a buffer and an input, checks data, returns a view of an input, and has a constant."""

    def __init__(self, forward=None, step=1.0, weight=0.5):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((4,), weight))
        self.register_buffer("count", torch.zeros(()))
        self.step, self.own = step, forward

    def forward(self, x, y):
        if self.own is not None:
            return self.own(self, x, y)
        return usual(self, x, y)


def usual(self, x, y):
    self.count.add_(self.step)
    y[:1].add_(1)
    total = y.sum().to(torch.int64).item()
    torch._check(total >= -50)
    return x * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0]), y[1:], x.t().contiguous()


@functools.cache
def of(forward=None, dim=N, **options):
    args = torch.ones(3, 4), torch.ones(3)
    return export(Model(forward, **options), args, dynamic_shapes=({0: dim}, {0: Dim("m", min=2, max=4)}))


def holds(comparison, point):
    texts = comparison.same_where
    return texts is not None and all(true_at(parse_formula(text), point) is True for text in texts)


def points(most=6):
    return [(n, m) for n in range(most + 1) for m in range(2, 5)]


def inputs(n, m):
    generator = torch.Generator().manual_seed(10 * n + m)
    return torch.randn(n, 4, generator=generator), torch.randn(m, generator=generator)


# ---------------------------------------------------------------------- laws over random programs


@pytest.mark.thorough
@few(4)
@given(small_programs(), small_programs(), st.booleans())
def test_where_two_are_called_the_same_they_give_the_same_and_at_the_witness_they_do_not(one, other, of_torch):
    object.__setattr__(other, "ranges", one.ranges)
    object.__setattr__(other, "example", one.example)
    made = [each.check(narrow=True).program for each in (one, other)]
    if None in made:
        reject()
    if of_torch:
        try:
            made[1] = other.check(how=torch.export.export)
        except Exception:  # noqa: BLE001 - torch does not export it
            reject()
    found = compare(*made)
    note(f"{one}\n{other}\n{found}")
    runs = [each.module() for each in made]
    for sizes in one.box:
        point = dict(zip(one.interface.names, sizes, strict=True))
        mine, its = (ran(run, one.inputs(sizes)) for run in runs)
        if found.status == "same" or holds(found, point):
            assert gives_the_same(mine, its), sizes
        if found.witness == {name: point[name] for name in found.witness or ()}:
            drawn = [(torch.randn(sizes),), one.inputs(sizes)]
            outcomes = [[ran(run, args) for run in runs] for args in drawn]
            assert found.status != "differs" or not all(gives_the_same(*each) for each in outcomes)
    assert found.status != "differs" or found.witness is not None


@pytest.mark.thorough
@few(4)
@given(programs())
def test_a_program_is_the_same_as_that_of_a_second_export(program):
    made = [program.check(narrow=True).program for _ in range(2)]
    if None in made or made[0].report.status != "proved":
        reject()
    assert compare(*made).status == "same"


@pytest.mark.thorough
@few(2)
@given(st.data())
def test_a_mutant_is_never_called_the_same_unless_it_gives_the_same(data):
    program = of()
    change, apply = data.draw(st.sampled_from(list(changes(program))))
    mutant = copied(program)
    try:
        apply(mutant)
        mutant.module()
    except Exception:  # noqa: BLE001 - torch cannot run such a program
        reject()
    try:
        found = compare(program, mutant)
    except (UsageError, AttributeError, TypeError, ValueError, IndexError, KeyError):  # it is no program
        reject()
    note(f"{change}\n{found}")
    for n, m in points():
        if holds(found, {"x.shape[0]": n, "y.shape[0]": m}):
            assert alike(outcome(program, inputs(n, m)), outcome(mutant, inputs(n, m))), (n, m)


# ---------------------------------------------------------------------- what "same" covers


def test_a_second_export_is_the_same_over_the_whole_domain():
    found = compare(
        of(), export(Model(), (torch.ones(2, 4), torch.ones(3)), dynamic_shapes=({0: N}, {0: Dim("m", min=2, max=4)}))
    )
    assert (found.status, found.witness, found.difference) == ("same", None, None)
    assert found.same_where == ("y.shape[0] >= 2", "x.shape[0] <= 6", "y.shape[0] <= 4")


def changed(**options):
    """The usual model with one line changed."""

    def forward(self, x, y):
        self.count.add_(1.0)
        if options.get("buffer", True):
            y[:1].add_(1)
        total = y.sum().to(torch.int64).item()
        if options.get("check", True):
            torch._check(total >= -50)
        first = options.get("operator", torch.mul)(x, self.scale)
        first = first + torch.tensor([1.0, 2.0, 3.0, options.get("constant", 4.0)])
        first = first.to(options.get("dtype", torch.float32))
        shared = y[1:].clone() if options.get("copied") else y[1:]
        turned = x.t() if options.get("strides") else x.t().contiguous()
        return first + torch.rand(()) * 0 if options.get("random") else first, shared, turned

    return forward


MUTANTS = {
    "operator": changed(operator=torch.add),
    "constant": changed(constant=5.0),
    "dtype": changed(dtype=torch.float64),
    "alias of a result": changed(copied=True),
    "strides": changed(strides=True),
    "mutation of an input": changed(buffer=False),
    "check on data": changed(check=False),
    "random numbers": changed(random=True),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_one_thing_changed_is_nowhere_called_the_same(name):
    found = compare(of(), of(MUTANTS[name]))
    assert (found.status == "same", found.same_where) == (False, None), found


@pytest.mark.parametrize("options", [{"step": 2.0}, {"weight": 0.25}], ids=["buffer", "parameter"])
def test_another_value_of_the_state_is_seen_in_a_run(options):
    found = compare(of(), of(**options))
    assert (found.status, found.same_where) == ("differs", None)
    assert found.witness == {"x.shape[0]": 0 if "step" in options else 1, "y.shape[0]": 2}


def test_a_parameter_that_no_run_tells_apart_is_undecided():
    found = compare(of(), of(weight=0.5 + 2.0**-20))
    assert (found.status, found.same_where) == ("undecided", None)
    assert "the constant `scale` differs" in found.difference


def test_the_first_operation_that_differs_has_its_line():
    found = compare(of(), of(MUTANTS["operator"]))
    assert found.witness == {"x.shape[0]": 1, "y.shape[0]": 2}
    assert found.where.text.strip().startswith("first = options.get")
    assert "`aten.mul.Tensor` in one program, `aten.add.Tensor` in the other" in found.difference
    assert "test_comparison.py" in str(found)


# ---------------------------------------------------------------------- sizes


def test_sizes_that_only_one_takes_are_a_difference_at_the_smallest_of_them():
    found = compare(of(), of(dim=Dim("k", min=2, max=5)))
    assert (found.status, found.witness) == ("differs", {"x.shape[0]": 0, "y.shape[0]": 2})
    assert set(found.same_where) >= {"x.shape[0] >= 2", "x.shape[0] <= 5"}
    assert "the second raises, the first does not: OutsideDomain" in found.difference


def doubled(x):
    return x * 2


def parted(x):
    return x * 2 if x.shape[0] <= 30 else x - 1


def kept(x):
    return torch.cond(x.shape[0] <= 30, lambda x: x * 2, lambda x: x - 1, (x,))


@functools.cache
def of_one(forward, **options):
    model = type("Of", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()
    return export(model, (torch.ones(5),), dynamic_shapes={"x": {0: Dim("n", min=0, max=100)}}, **options)


def times(dim):
    model = type("Of", (torch.nn.Module,), {"forward": lambda _, x, k: x * k})()
    return export(model, (torch.ones(5), 3), dynamic_shapes=({0: Dim("n", min=0, max=9)}, dim))


@pytest.mark.thorough
def test_an_int_that_one_program_fixes_is_a_size():
    found = compare(times(None), times(Dim.DYNAMIC(min=0, max=9)))
    assert (found.status, found.witness) == ("differs", {"x.shape[0]": 0, "k": 0})
    wider = compare(times(Dim.DYNAMIC(min=0, max=8)), times(Dim.DYNAMIC(min=0, max=9)))
    assert set(wider.same_where) == {"x.shape[0] <= 9", "k >= 0", "k <= 8"}
    assert wider.witness == {"x.shape[0]": 0, "k": 9}


def test_another_name_of_an_argument_makes_no_difference():
    made = [type("Of", (torch.nn.Module,), {"forward": each})() for each in (lambda _, x: x, lambda _, given: given)]
    one, other = (export(each, (torch.ones(5),), dynamic_shapes=({0: Dim("n", min=0)},)) for each in made)
    assert compare(one, other).status == "same"


OUTPUTS = [
    (lambda x: (x, 3), lambda x: (x, 4)),
    (lambda x: (x, x.shape[0]), lambda x: (x, x.shape[0] + 1)),
    (lambda x: [x], lambda x: (x,)),
    (lambda x: {"a": x}, lambda x: {"b": x}),
    (lambda x: x, lambda x: x.clone()),
    (lambda x: torch.rand(()) + x, lambda x: (torch.rand(()), torch.rand(()) + x)[1]),
]


@pytest.mark.thorough
@pytest.mark.parametrize("place", range(len(OUTPUTS)))
def test_numbers_containers_aliases_and_draws_are_compared(place):
    one, other = map(of_one, OUTPUTS[place])
    assert compare(one, one).status == "same"
    found = compare(one, other)
    assert (found.status, found.same_where) == ("differs", None)


@pytest.mark.thorough
def test_two_are_the_same_where_a_branch_is_kept_and_differ_beyond_it():
    found = compare(of_one(doubled), of_one(kept))
    assert (found.status, found.same_where, found.witness) == ("differs", ("x.shape[0] <= 30",), {"x.shape[0]": 31})


@pytest.mark.thorough
def test_the_programs_of_regions_are_compared_where_both_take_the_sizes():
    regions = of_one(parted, branches="split").programs
    assert [compare(each, of_one(doubled)).same_where for each in regions].count(("x.shape[0] <= 30",)) == 1
    assert compare(*regions).same_where is None


@pytest.mark.thorough
def test_torchs_program_and_a_loaded_one_compare_with_ours(tmp_path):
    path, model = tmp_path / "program.pt2", Model()
    args = torch.ones(3, 4), torch.ones(3)
    torch.export.save(of(), path)
    loaded = torch.export.load(path)
    assert compare(of(), loaded).status == "same"
    theirs = torch.export.export(model, args, dynamic_shapes=({0: Dim("k", min=2, max=6)}, {0: Dim("l", min=3, max=4)}))
    found = compare(theirs, of())
    # torch takes 0 and 1 where it notes at least 2
    assert set(found.same_where) == {"x.shape[0] <= 6", "y.shape[0] >= 3", "y.shape[0] <= 4"}
    assert found.witness == {"x.shape[0]": 0, "y.shape[0]": 2}


@pytest.mark.thorough
def test_a_loaded_program_takes_what_its_graph_asserts(tmp_path):
    half, forward = Dim("half", min=1, max=4), lambda _, x, y: (x + 1, y)
    args, model = (torch.ones(4), torch.ones(2)), type("Of", (torch.nn.Module,), {"forward": forward})()
    tied = export(model, args, dynamic_shapes=({0: 2 * half}, {0: half}))
    torch.export.save(tied, tmp_path / "tied.pt2")
    loaded = torch.export.load(tmp_path / "tied.pt2")
    assert [compare(tied, loaded).status, compare(loaded, tied).status, compare(loaded, loaded).status] == ["same"] * 3


def test_a_guard_that_torch_keeps_beside_its_bounds_is_part_of_what_its_program_takes():
    half = Dim("half", min=1, max=4)
    args, model = (
        (torch.ones(4), torch.ones(2)),
        type("Of", (torch.nn.Module,), {"forward": lambda _, x, y: (x + 1, y)})(),
    )
    theirs = torch.export.export(model, args, dynamic_shapes=({0: 2 * half}, {0: half}))
    ours = export(model, args, dynamic_shapes=({0: Dim("a", min=1, max=8)}, {0: half}))
    found = compare(ours, theirs)
    assert found.status == "differs"
    assert "x.shape[0] == 2*y.shape[0]" in found.same_where


# ---------------------------------------------------------------------- refusals


def test_inputs_of_other_kinds_or_structure_are_refused_in_a_sentence():
    whole = check(Model(lambda _, x, y: (x, y)), (torch.ones(3, 4, dtype=torch.int64), torch.ones(3))).program
    with pytest.raises(UsageError, match=r"the same inputs: `x` has dtype torch\.float32 in one, torch\.int64"):
        compare(of(), whole)
    with pytest.raises(UsageError, match="structured otherwise"):
        compare(of(), of_one(doubled))
    with pytest.raises(UsageError, match="takes two exported programs, not a Model"):
        compare(of(), Model())


@pytest.mark.thorough
def test_programs_with_other_state_are_not_the_same():
    """The fault: what may be trained, and what a state dict has, was not compared."""

    class Holds(torch.nn.Module):
        def __init__(self, *, trained=True, persistent=True):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4), requires_grad=trained)
            self.register_buffer("shift", torch.ones(4), persistent=persistent)

        def forward(self, x):
            return x * self.weight + self.shift

    def exported(**how):
        return export(Holds(**how), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))

    assert compare(exported(), exported()).status == "same"
    for other in ({"trained": False}, {"persistent": False}):
        assert "state dicts" in compare(exported(), exported(**other)).difference
        assert compare(exported(), exported(**other)).status == "undecided"
