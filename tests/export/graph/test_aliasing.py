"""`contiguous` and its like share at some sizes and copy at others: where that can be told, it is another program."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export, load_regions
from shapeproof.export.declare.inputs import declare
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.verify import verified
from tests.agreement import agree

N = Dim("n", min=0, max=6)


def model(forward):
    """A model of one function."""
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def transposed(x):
    y = x.t().contiguous()
    y.add_(1)
    return x.sum(), y


def flattened(x):
    y = x.t().reshape(-1)
    y.add_(1)
    return x * 2


def written_before_it_is_read(x):
    y = x.t().contiguous()
    x.mul_(2)
    return y + 1


def of_a_result(x):
    z = x * 2
    y = z.t().contiguous()
    y.add_(1)
    return z, y


def summed(x):
    y = x.sum_to_size(1, 4)
    y.add_(1)
    return x * 2


ONLY_AT_ONE = [transposed, flattened, written_before_it_is_read, of_a_result, summed]


def programs_that_agree(mod, regions, sizes):
    """Whether the programs of a split model do at these sizes what eager does, also to its input; taken apart, too."""
    programs = [regions.module(), *(program.run_decompositions().module() for program in regions.programs)]
    for n in sizes:
        x = torch.randn(n, 4)
        for run in programs:
            if not agree(mod, run, (x,), may_refuse=run is not programs[0]):
                return False
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("forward", ONLY_AT_ONE)
def test_where_sharing_can_be_told_there_is_another_region(forward, tmp_path):
    mod = model(forward)
    regions = export(mod, (torch.randn(3, 4),), dynamic_shapes={"x": {0: N}}, branches="split")
    assert regions.report.status == "proved"
    assert regions.domains == ("x.shape[0] != 1", "x.shape[0] == 1")
    assert programs_that_agree(mod, regions, range(7))
    regions.save(tmp_path / "two.pt2")
    assert programs_that_agree(mod, load_regions(tmp_path / "two.pt2"), range(7))


@pytest.mark.parametrize("forward", ONLY_AT_ONE)
def test_one_program_says_what_differs_and_where(forward):
    report = check(model(forward), (torch.randn(3, 4),), dynamic_shapes={"x": {0: N}})
    (diagnostic,) = report.diagnostics
    assert report.status == "refuted"
    assert diagnostic.id == "other-program"
    assert diagnostic.file == __file__
    assert diagnostic.witness == {"x.shape[0]": 1}
    (required,) = (note.text for note in diagnostic.notes if note.label == "required")
    assert required.startswith("x.shape[0] != 1   by aten.")


@pytest.mark.thorough
def test_sharing_where_no_slice_alone_shows_it():
    """Only where both sizes are 1 does the copy share: each by itself makes no difference."""
    mod = model(lambda x: (x.permute(2, 1, 0).contiguous().add_(1), x * 2))
    shapes = {"x": {0: Dim("a", min=0, max=4), 1: Dim("b", min=0, max=4)}}
    report = check(mod, (torch.randn(3, 2, 5),), dynamic_shapes=shapes)
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[0]": 1, "x.shape[1]": 1}
    regions = export(mod, (torch.randn(3, 2, 5),), dynamic_shapes=shapes, branches="split")
    run = [regions.module(), *(program.run_decompositions().module() for program in regions.programs)]
    for a, b in itertools.product(range(5), repeat=2):
        x = torch.randn(a, b, 5)
        assert agree(mod, run[0], (x,))
        assert all(agree(mod, each, (x,), may_refuse=True) for each in run[1:])


def not_read_afterwards(x):
    z = x * 2
    y = z.t().contiguous()
    y.add_(1)
    return y


def written_before(x):
    z = x * 2
    z.add_(1)
    return z, z.t().contiguous()


def never_written(x):
    y = x.t().contiguous()
    return x + 1, y * 2


def fresh(x):
    y = (x * 2).add_(1)
    return y, x.sum()


def a_view_that_is_always_one(x):
    x[1:].add_(1)
    return x


def in_a_body(x):
    with torch.no_grad():
        y = x.t().contiguous()
        y.add_(1)
    return x.sum() + y.sum()


@pytest.mark.parametrize(
    "forward", [not_read_afterwards, written_before, never_written, fresh, a_view_that_is_always_one]
)
def test_where_nothing_can_tell_one_program_serves_all(forward):
    mod = model(forward)
    program = export(mod, (torch.randn(3, 4),), dynamic_shapes={"x": {0: N}})
    assert not observes_aliasing(program.graph)
    for run in (program.module(), program.run_decompositions().module()):
        assert all(agree(mod, run, (torch.randn(n, 4),)) for n in range(7))


@pytest.mark.parametrize("in_place", [True, False])
def test_a_reshape_that_nothing_can_tell_from_a_copy_needs_no_trace(in_place):
    """It shares where a level has one place: two levels had four programs to compare."""

    def levels(x, y):
        return torch.cat([each.permute(0, 2, 3, 1).reshape(each.shape[0], -1, 4) for each in (x, y)], 1)

    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, y: levels(x, y)})()
    a, b, c, d = (Dim(name, min=0, max=9) for name in "abcd")
    inputs = declare(mod, (torch.randn(2, 4, 3, 5), torch.randn(2, 4, 7, 6)), None, ({2: a, 3: b}, {2: c, 3: d}))
    report = verified(mod, inputs, in_place=in_place)
    assert report.status == "proved"
    assert (report.statistics["traces"] == 1) is in_place
    for sizes in itertools.product((0, 1, 2), repeat=4):
        given = torch.randn(2, 4, *sizes[:2]), torch.randn(2, 4, *sizes[2:])
        assert agree(mod, report.program.module(), given)


def test_the_body_of_an_operator_may_tell():
    with torch.enable_grad():
        program = torch.export.export(model(in_a_body), (torch.randn(3, 4),))
    assert observes_aliasing(program.graph)


def test_a_dropout_that_gives_its_operand_is_one_that_shares():
    """Before 2.14 torch takes it apart into a copy: the program has the operand in place of the operator."""

    def forward(x):
        y = x * 2
        functional.dropout(y, 0.5, training=False).add_(1)
        return y

    x = torch.randn(3, 4)
    report = check(model(forward), (x,), dynamic_shapes={"x": {0: N}})
    assert report.status == "proved"
    for program in (report.program, report.program.run_decompositions()):
        assert torch.equal(program.module()(x), x * 2 + 1)


def written_beside_a_body(x):
    with torch.no_grad():
        y = x.t().reshape(-1)
    y.add_(1)
    return x * 2


def test_a_write_into_what_a_body_shares_or_copies_is_seen():
    report = check(model(written_beside_a_body), (torch.randn(3, 4),), dynamic_shapes={"x": {0: N}})
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[0]": 1}


@pytest.mark.parametrize(
    ("copy", "asked"),
    [
        (torch.Tensor.contiguous, lambda y, x: y is x),
        (torch.Tensor.contiguous, lambda y, x: id(y) == id(x)),
        (torch.ravel, lambda y, x: torch._C._is_alias_of(x, y)),
        *itertools.product(
            (torch.Tensor.contiguous, torch.flatten, lambda x: x.reshape(-1)),
            (lambda y, _: y._base is not None, lambda y, _: y._is_view()),
        ),
    ],
)
def test_a_model_that_asks_what_shares_is_not_proved_from_one_answer(copy, asked):
    """The answer makes a difference at no corner of the domain: no run beside eager shows it."""

    def forward(x):
        z = x.t()
        shares = asked(copy(z), z)
        return x * ((500 - x.shape[1]) * (x.shape[1] // 400)) if shares else x * 0

    shapes = {"x": {0: Dim("n", min=1, max=4000), 1: Dim("m", min=2, max=500)}}
    assert check(model(forward), (torch.ones(4, 4),), dynamic_shapes=shapes).status != "proved"


@pytest.mark.parametrize("read", [lambda x, _: x.grad is None, lambda _, p: p.grad is None, lambda x, _: x._version])
def test_what_no_program_has_of_a_tensor_is_refused_where_a_model_reads_it(read):
    """The fault: a model that branches on the gradient of an input was proved."""
    parameter = torch.nn.Parameter(torch.ones(4))
    with pytest.raises(UsageError, match="a program would keep what the trace found"):
        check(model(lambda x: x * 2 if read(x, parameter) else x), (torch.ones(4, 4),), dynamic_shapes={"x": {0: N}})


@pytest.mark.parametrize(
    "storage", [torch.Tensor.untyped_storage, torch.Tensor.storage], ids=lambda read: read.__name__
)
def test_a_storage_that_a_model_reads_is_refused(storage):
    """The storages of all fakes lie at 0. Torch's own functions read them, too: torch.cond does."""

    def forward(x):
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, [x])
        return x + 1 if storage(y).data_ptr() == storage(x).data_ptr() else x

    with pytest.raises(UsageError, match="the model reads the storage of a tensor"):
        check(model(forward), (torch.ones(4, 4),), dynamic_shapes={"x": {0: N}})


def written_beside_a_block(x):
    y = x * 1
    with torch.no_grad():
        flat = (x + 1).t().reshape(-1)
    return y.mul_(3), flat


def written_after_a_block(x):
    y = x * 1
    with torch.no_grad():
        flat = y[:, :1].flatten()
    y.mul_(3)
    return flat


def test_a_write_beside_a_block_that_may_share_tells_nothing():
    """The fault: whatever a model wrote into, a block under `no_grad` with a `reshape` counted as telling."""
    example = (torch.rand(3, 3, requires_grad=True),)
    beside, after = (
        torch.export.export(model(each), example) for each in (written_beside_a_block, written_after_a_block)
    )
    assert not observes_aliasing(beside.graph)
    assert observes_aliasing(after.graph)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("learns", [False, True])
def test_a_write_into_what_a_block_may_share_is_told(columns, learns):
    """Eager returns a view made without gradients whose base is written into: comparing it was an InternalError."""
    example = torch.rand(3, columns, requires_grad=learns)
    report = check(model(written_after_a_block), (example,), dynamic_shapes=({0: N},))
    assert report.status == "proved"
    for rows in range(7):
        x = torch.rand(rows, columns)
        mine, other = x.clone().requires_grad_(learns), x.clone().requires_grad_(learns)
        with torch.no_grad():
            assert torch.equal(report.program.module()(mine), model(written_after_a_block)(other))
