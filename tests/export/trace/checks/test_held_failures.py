"""A check is made in every form of a program: wherever eager raises, each form raises, at every size."""

from __future__ import annotations

import io
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from shapeproof.export.build.closing_audit import checks_of, lost
from shapeproof.export.shim.numbers.symbols import ASSERTION, DATA_ASSERTION, UNSAID_ASSERTION
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.checks.failures import unheld
from tests.agreement import agree
from tests.thoroughness import examples

N = Dim("n", min=1, max=6)
SIZES, VALUES = (1, 2, 5), (1.0, -1.0)


def unsaid(a):
    torch._assert_async(a.sum() > 0)


def said(a):
    torch.ops.aten._assert_async.msg(a.sum() > 0, assert_msg="no")


def number(a):
    torch._check(a.sum().item() > 0)


def size(a):
    torch._check_is_size(a.sum().long().item())


def rows(a):
    torch._check(a[a[:, 0] > 0].shape[0] > 0)


def index(a):
    a.new_zeros(3)[1 - 4 * a[:1, 0].long().clamp(max=0)]


def embedding(a):
    torch.nn.functional.embedding(a[:1, 0].long(), a.new_zeros(3, 4))


def cholesky(a):
    torch.linalg.cholesky(a[:1, :1])


def division(a):
    torch.ones(1, dtype=torch.long) // (a[:1, 0].long() + 1)


def one_hot(a):
    torch.nn.functional.one_hot(a[:1, 0].long(), 3)


CHECKS = (unsaid, said, number, size, rows, index, embedding, cholesky, division, one_hot)


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def one(a):
    return a + 1


def checked(made):
    """A branch that makes a check."""

    def branch(a):
        made(a)
        return a * 2

    return branch


def by_if(branch):
    return lambda x: branch(x) if x.shape[0] > 1 else one(x)


def by_size(branch):
    return lambda x: torch.cond(x.shape[0] > 1, branch, one, (x,))


def by_data(branch):
    return lambda x: torch.cond(x[0, 0] < 9, branch, one, (x,))


def without_gradient(branch):
    def forward(x):
        with torch.no_grad():
            branch(x)
        return x * 3

    return forward


CONDITIONS = (by_size, by_data)


def exported(forward):
    """The program and, where the model is split, the regions' module."""
    found = export(model(forward), (torch.ones(3, 2),), dynamic_shapes=({0: N},), branches="split")
    assert found.report.status == "proved"
    return (found.merged(), found.module()) if hasattr(found, "merged") else (found, None)


def forms(program, regions):
    """Every form in which a program is handed out; one that is refused is left out."""
    file = io.BytesIO()
    torch.export.save(program, file)
    found = {
        "whole": program.module(),
        "loaded": torch.export.load(io.BytesIO(file.getvalue())).module(),
        "unflattened": torch.export.unflatten(program),
    }
    try:
        found["decomposed"] = program.run_decompositions().module()
        found["twice"] = program.run_decompositions({}).run_decompositions().module()
    except UsageError as refused:
        assert "torch cannot take the program apart" in str(refused)  # noqa: PT017 - nothing else may be refused
    return found if regions is None else found | {"split": regions}


def outcome(run, x):
    try:
        with torch.enable_grad():  # torch's modules leave gradients disabled where a region without them raises
            return run(x).tolist()
    except Exception:  # noqa: BLE001 - eager and a form may raise different kinds
        return "raises"


def outcomes(run):
    return {(n, value): outcome(run, torch.full((n, 2), value)) for n in SIZES for value in VALUES}


def differing(forward):
    """The forms that do not do what eager does."""
    expected = outcomes(model(forward))
    assert "raises" in expected.values()
    return {name for name, run in forms(*exported(forward)).items() if outcomes(run) != expected}


@pytest.mark.parametrize("made", CHECKS)
def test_an_operator_that_may_fail_is_kept_in_every_form(made):
    assert not differing(checked(made))


@pytest.mark.parametrize("made", [unsaid, said, number, size, rows])
def test_a_check_in_a_branch_of_torch_cond_by_size_is_kept(made):
    assert not differing(by_size(checked(made)))


@pytest.mark.thorough
@pytest.mark.parametrize("made", [unsaid, said, number, size, rows])
def test_a_check_in_a_branch_of_torch_cond_by_data_is_kept(made):
    assert not differing(by_data(checked(made)))


@pytest.mark.parametrize("made", [index, embedding, cholesky, division, one_hot])
def test_an_unused_operator_in_a_branch_of_torch_cond_is_kept(made):
    assert not differing(by_size(checked(made)))


@pytest.mark.thorough
@pytest.mark.parametrize("made", CHECKS)
def test_merged_regions_make_the_checks_of_each_region(made):
    assert not differing(by_if(checked(made)))


def test_a_check_on_every_path_is_made_by_both_branches_of_merged_regions():
    def forward(x):
        torch._check(x.sum().item() > 0)
        return x * 2 if x.shape[0] > 3 else x + 1

    assert not differing(forward)


@pytest.mark.parametrize("made", [unsaid, said, index, cholesky])
def test_a_region_without_gradients_that_only_checks_is_saved_and_kept(made):
    assert not differing(without_gradient(made))


def test_a_region_without_gradients_that_only_writes_is_saved_and_kept():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            with torch.no_grad():
                self.seen.add_(x.sum(0))
            return x * 2

    program = export(Counting(), (torch.ones(3, 2),), dynamic_shapes=({0: N},))
    for run in forms(program, None).values():
        seen = dict(run.named_buffers())["seen"]
        before = seen.clone()
        run(torch.ones(4, 2))
        assert (seen - before).tolist() == [4.0, 4.0]


def test_gradients_come_with_the_checks():
    joint = export(
        model(by_size(checked(unsaid))), (torch.ones(3, 2, requires_grad=True),), dynamic_shapes=({0: N},)
    ).with_gradients()
    assert joint.module()(torch.ones(4, 2), tangents=[torch.ones(4, 2)])
    with pytest.raises(RuntimeError, match="nonzero"):
        joint.module()(-torch.ones(4, 2), tangents=[torch.ones(4, 2)])


@st.composite
def models(draw):
    """A model with a check at some depth of conditions."""
    forward = checked(draw(st.sampled_from(CHECKS)))
    for condition in draw(st.lists(st.sampled_from(CONDITIONS), max_size=2)):
        forward = condition(forward)
    return draw(st.sampled_from([forward, by_if(forward)]))


@pytest.mark.thorough
@settings(max_examples=examples(20))
@given(models())
def test_each_form_raises_where_eager_raises(forward):
    found = check(model(forward), (torch.ones(3, 2),), dynamic_shapes=({0: N},), branches="split")
    if found.status == "proved":
        assert not differing(forward)


# ---------------------------------------------------------------------- the audit of a form, against a planted fault


def erased(program, at):
    """Erase one of a program's checks on data."""
    module = list(graph_modules(program.graph_module))[at]
    for node in module.graph.nodes:
        if node.target in {ASSERTION, DATA_ASSERTION} and "outside the declared domain" not in str(node.args):
            module.graph.erase_node(node)
            return


@pytest.mark.parametrize(("forward", "at"), [(checked(number), 0), (by_size(checked(number)), 1)])
def test_the_audit_notices_a_check_that_a_form_lacks(forward, at):
    program, _ = exported(forward)
    form = program.run_decompositions()
    assert not lost(checks_of(program.graph_module), form)
    erased(form, at)
    (message,) = lost(checks_of(program.graph_module), form)
    assert message.startswith("does not hold at tests/export/trace/checks/test_held_failures.py")


def test_a_decomposition_without_a_check_is_refused(monkeypatch):
    program, _ = exported(checked(number))
    decompose = torch.export.ExportedProgram.run_decompositions

    def losing(*args, **kwargs):
        form = decompose(*args, **kwargs)
        erased(form, 0)
        return form

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", losing)
    with pytest.raises(UsageError, match=r"torch drops a check of the program in this form of it"):
        program.run_decompositions()


def test_an_operator_whose_failure_cannot_be_held_is_not_decomposed():
    with torch.library._scoped_library("held", "FRAGMENT") as lib:
        lib.define("refuse(Tensor x) -> ()")
        lib.impl("refuse", lambda _: None, "CompositeExplicitAutograd")
        torch.library.register_fake("held::refuse", lambda _: None, lib=lib)
        program = export(model(checked(torch.ops.held.refuse)), (torch.ones(3, 2),))
        assert [node.target for node in unheld(program)] == [torch.ops.held.refuse.default]
        with pytest.raises(UsageError, match=r"torch drops `refuse` .* but it may fail"):
            program.run_decompositions()


def test_checks_are_counted_by_graph():
    program, _ = exported(lambda x: torch.cond(x.shape[0] > 1, checked(said), checked(said), (x,)))
    assert checks_of(program.graph_module)["no"] == 2
    assert lost(Counter({"no": 3}), program) == ["no"]


def test_torch_still_drops_what_may_fail():
    """A canary: with an empty list here, `hold_failures` could go."""
    graph = torch.export.export(model(checked(unsaid)), (torch.ones(3, 2),)).graph
    assert graph.find_nodes(op="call_function", target=UNSAID_ASSERTION)
    graph.eliminate_dead_code()
    assert not graph.find_nodes(op="call_function", target=UNSAID_ASSERTION)


def test_a_program_without_such_checks_gets_no_assertion():
    program, _ = exported(by_size(lambda x: x.sort(0).values))
    every = [node.target for each in graph_modules(program.graph_module) for node in each.graph.nodes]
    assert DATA_ASSERTION not in every


def test_a_size_that_only_a_dead_operator_reads_may_be_dropped():
    """The fault: the program could not be decomposed, since reading a size was said to fail."""

    class Clamped(torch.nn.Module):
        def forward(self, x, v):
            number = v.clamp(0, x.shape[0])[0].item()
            torch._check(number <= x.shape[0])
            return x.sum()

    args = torch.ones(4), torch.tensor([2, 7])
    program = export(Clamped(), args, dynamic_shapes=({0: N}, {0: Dim("v", min=1, max=5)}))
    assert agree(Clamped(), program.run_decompositions().module(), args)
