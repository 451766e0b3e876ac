"""Programs on demand give what eager gives, say why they were made, and are no more than are needed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import ConstraintViolation, OutsideDomain, load_regions
from shapeproof.seen import Seen
from shapeproof.serve import compile as served
from shapeproof.serve.on_demand import MOST_FAILED
from tests.agreement import agree
from tests.export.random_programs import few, programs


class Branches(torch.nn.Module):
    def forward(self, x):
        if x.size()[0] == 10:
            return x * 10
        if x.size()[0] <= 30:
            return x * 200
        return x * x.size()[0]


class Sine(torch.nn.Module):
    def forward(self, x):
        return x.sin()


def line_of(model, text):
    import inspect

    lines, first = inspect.getsourcelines(type(model))
    return first + next(index for index, line in enumerate(lines) if text in line)


def same(run, model, *inputs, **named):
    return torch.equal(run(*inputs, **named), model(*inputs, **named))


def test_one_program_serves_all_sizes_after_two_traces():
    run, model = served(Sine()), Sine()
    assert all(same(run, model, torch.randn(n)) for n in range(99))
    assert (run.traced, run.missed, len(run.programs)) == (2, 2, 1)
    assert run.programs[0].domain == ("x.shape[0] >= 0",)


@pytest.mark.thorough
def test_three_branches_need_three_traces_of_which_two_are_kept():
    run, model = served(Branches()), Branches()
    assert all(same(run, model, torch.randn(n)) for n in (10, 20, 40, *range(60)))
    assert (run.traced, len(run.programs)) == (3, 2)


@pytest.mark.thorough
def test_a_miss_says_which_size_which_program_and_which_line():
    run = served(Branches())
    for n in (10, 20, 40):
        run(torch.randn(n))
    first, second = run.misses
    assert str(first) == "x.shape[0] = 20; program 1 serves x.shape[0] == 10, the only one seen before"
    assert first.declare == 'dynamic_shapes={"x": {0: Dim.AUTO}}'
    line = line_of(run.model, "<= 30")
    assert str(second) == (f"x.shape[0] = 40; program 2 serves x.shape[0] <= 30, because of test_on_demand.py:{line}")
    assert second.declare == 'dynamic_shapes={"x": {0: Dim("x_0", min=10, max=40)}}'
    assert (second.nearest.file, second.nearest.line, second.outcome) == (__file__, line, "traced")
    assert second.about_sizes
    again = served(Branches(), {"x": {0: Dim("x_0", min=10, max=40)}})
    for n in (10, 20, 40):
        run(torch.randn(n))
        again(torch.randn(n))
    assert again.traced == 1


@pytest.mark.thorough
def test_a_branch_on_equality_is_the_reason_of_its_program():
    seen = Seen()
    for n in (10, 20):
        seen.add((torch.ones(n),))
    run = served(Branches(), seen=seen)
    run(torch.randn(10))
    run(torch.randn(20))
    line = line_of(run.model, "== 10")
    assert str(run.misses[0]) == (
        f"x.shape[0] = 20; program 1 serves x.shape[0] == 10, because of test_on_demand.py:{line}"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: x.double(), "x.dtype = torch.float64; program 1 serves x.dtype == torch.float32"),
        (lambda x: x[None], "x.dim() = 2; program 1 serves x.dim() == 1"),
        (lambda x: x.to_sparse(), "x.layout = torch.sparse_coo; program 1 serves x.layout == torch.strided"),
    ],
)
def test_what_is_not_about_sizes_is_said_not_to_be(change, said):
    run, model, x = served(Sine()), Sine(), torch.randn(4)
    run(x)
    assert torch.equal(run(change(x)).to_dense(), model(change(x)).to_dense())
    assert str(run.misses[0]).startswith(said)
    assert not run.misses[0].about_sizes
    assert run.misses[0].declare is None


class Noting(torch.nn.Module):
    """Does another thing in each mode."""

    def forward(self, x):
        if self.training:
            return x + 1
        return x * 2 if torch.is_grad_enabled() else x * 3


def test_each_mode_has_programs_of_its_own():
    model, x = Noting(), torch.ones(3)
    run = served(model)
    for _ in range(2):
        assert torch.equal(run(x), x + 1)
        model.eval()
        assert torch.equal(run(x), x * 2)
        with torch.no_grad():
            assert torch.equal(run(x), x * 3)
        model.train()
    assert run.traced == 3
    assert "which modules are in training mode: False; program 1 serves True" in str(run.misses[0])


def test_a_submodule_in_another_mode_is_another_mode():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.ReLU())
    run, x = served(model), torch.ones(100)
    assert (run(x) == 0).any()
    model[0].eval()
    assert torch.equal(run(x), x)


def test_autocast_and_the_default_dtype_are_modes():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x @ x.t() + torch.ones(1)

    run, x = served(Model()), torch.ones(3, 3)
    assert run(x).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert run(x).dtype == Model()(x).dtype
    torch.set_default_dtype(torch.float64)
    try:
        assert run(x).dtype == Model()(x).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert run(x).dtype == torch.float32


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.shift = torch.ones(3)

    def forward(self, x):
        return self.norm(x) + self.shift


def test_programs_use_the_models_own_parameters_and_buffers():
    torch.manual_seed(0)
    mine, other = Normed(), Normed()
    run = served(mine)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (mine, other)]
    for rows in (4, 7, 9, 4):
        x = torch.randn(rows, 3)
        for call, optimizer in zip((run, other), optimizers, strict=True):
            optimizer.zero_grad()
            call(x).square().sum().backward()
            optimizer.step()
        mine.shift += 1
        other.shift += 1
    assert run.traced == 2
    assert all(torch.equal(a, b) for a, b in zip(mine.state_dict().values(), other.state_dict().values(), strict=True))
    x = torch.randn(5, 3)
    assert torch.equal(run(x), other(x))


def test_a_replaced_parameter_is_used_and_one_of_another_kind_has_the_model_traced_anew():
    model = torch.nn.Linear(3, 2)
    run = served(model)
    for rows in (2, 3):
        run(torch.ones(rows, 3))
    model.weight = torch.nn.Parameter(torch.zeros(2, 3))
    assert same(run, model, torch.ones(4, 3))
    assert run.traced == 2
    model.double()
    assert same(run, model, torch.ones(4, 3, dtype=torch.float64))
    model.weight = torch.nn.Parameter(torch.zeros(5, 3, dtype=torch.float64))
    model.bias = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    assert run(torch.ones(4, 3, dtype=torch.float64)).shape == (4, 5)


def test_a_declared_domain_is_served_from_the_first_call():
    model = Branches()
    run = served(model, {"x": {0: Dim("n", min=0, max=100)}})
    assert all(same(run, model, torch.randn(n)) for n in (5, 10, 31, 0, 100))
    assert (run.traced, run.missed, len(run.programs)) == (1, 1, 2)
    assert same(run, model, torch.randn(101))
    assert (run.traced, str(run.misses[0])) == (2, "x.shape[0] = 101; program 2 serves x.shape[0] <= 100, as declared")


def test_what_is_declared_and_not_supported_is_an_error():
    with pytest.raises(ConstraintViolation, match="n"):
        served(torch.nn.Unflatten(0, (2, -1)), ({0: Dim("n", min=2, max=9)},))(torch.ones(4))
    with pytest.raises(UsageError, match="dynamic_shapes"):
        served(Sine(), {"y": {0: Dim.AUTO}})(torch.ones(4))


def test_what_was_seen_before_is_served_by_the_first_program():
    seen = Seen()
    for n in (4, 8, 12):
        seen.add((torch.ones(n),))
    run = served(torch.nn.Unflatten(0, (2, -1)), seen=seen)
    assert [run(torch.ones(n)).shape[1] for n in (8, 2, 40)] == [4, 1, 20]
    assert run.traced == 1


def test_otherwise_eager_and_raise_trace_nothing_more():
    run, model = served(Sine(), otherwise="eager"), Sine()
    assert all(same(run, model, torch.randn(n)) for n in (4, 5, 4, 5))
    assert (run.traced, run.missed, run.misses[0].outcome) == (1, 3, "eager")
    run = served(Sine(), otherwise="raise")
    run(torch.ones(4))
    with pytest.raises(OutsideDomain, match=r"x.shape\[0\] = 5; program 1 serves x.shape\[0\] == 4") as refused:
        run(torch.ones(5))
    assert refused.value.point == {"x.shape[0]": 5}
    assert run.misses[0].outcome == "raised"


@pytest.mark.thorough
def test_no_more_programs_are_kept_than_at_most():
    model = Branches()
    run = served(model, at_most=1)
    assert all(same(run, model, torch.randn(n)) for n in (10, 20, 40, 50, 20, 40))
    assert (run.traced, len(run.programs)) == (3, 1)
    assert {miss.outcome for miss in run.misses} == {"eager", "traced"}


def test_values_that_vary_without_end_are_traced_at_most_so_often():
    class Scaled(torch.nn.Module):
        def forward(self, x, scale: float):
            return x * scale

    model = Scaled()
    run = served(model, at_most=2)
    assert all(same(run, model, torch.ones(3), scale) for scale in (0.5, 1.5, 2.5, 3.5, 0.0, -0.0, True, 1))
    assert run.traced == 2


@pytest.mark.thorough
def test_a_model_that_cannot_be_traced_is_run_by_itself():
    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x):
            if x.sum() > 0:
                return x + 1
            return x - 1

    model = Counting()
    run = served(model)
    assert all(same(run, model, torch.full((n,), sign)) for n in range(1, 12) for sign in (-1.0, 1.0))
    assert run.traced <= 4
    assert run.programs == ()
    assert {miss.outcome for miss in run.misses} == {"eager"}


def test_what_eager_raises_is_raised():
    class Split(torch.nn.Module):
        def forward(self, x):
            return x.view(-1, 4) * 2

    run = served(Split())
    with pytest.raises(RuntimeError, match="invalid for input of size 6"):
        run(torch.ones(6))
    assert [run(torch.ones(n)).shape[0] for n in (8, 12, 0)] == [2, 3, 0]
    with pytest.raises(RuntimeError, match="invalid for input of size 5"):
        run(torch.ones(5))


class Nested(torch.nn.Module):
    def forward(self, pair, n: int, *, shift=None, twice=True):
        x = (pair["a"] + pair["b"][0]) * n
        x = x if shift is None else x + shift
        return x * 2 if twice else x


@pytest.mark.thorough
def test_containers_ints_constants_and_keywords():
    run, model = served(Nested(), at_most=20), Nested()
    for size in (2, 3, 5, 1):
        pair = {"a": torch.randn(size), "b": [torch.randn(size)]}
        assert same(run, model, pair, size)
        assert same(run, model, pair, n=3, twice=False)
        assert same(run, model, pair, 3, twice=True, shift=torch.ones(1))
        assert same(run, model, pair, 3, shift=torch.ones(1), twice=True)
        assert same(run, model, pair, 1)
        assert same(run, model, pair, True)
    assert run.traced <= 13


@pytest.mark.thorough
def test_how_inputs_lie_in_memory_is_looked_at_where_the_model_does():
    class Reading(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.is_contiguous() else x - 1

    run, model, x = served(Reading()), Reading(), torch.randn(4, 5)
    for each in (x, x.t(), x, torch.randn(6, 7).t(), torch.randn(6, 7)):
        assert same(run, model, each)


def test_inputs_that_share_memory_where_one_is_written_are_run_by_the_model():
    class Writing(torch.nn.Module):
        def forward(self, x, y):
            x.add_(1)
            return x + y

    run, model = served(Writing()), Writing()
    for _ in range(2):
        a, b = torch.ones(4), torch.ones(4)
        assert torch.equal(run(a.clone(), a.clone()), model(b.clone(), b.clone()))
        assert torch.equal(run(a, a), model(b, b))
        assert torch.equal(a, b)


def test_a_subclass_of_a_tensor_is_run_by_the_model():
    class Mine(torch.Tensor):
        pass

    run = served(Sine())
    assert type(run(torch.ones(3).as_subclass(Mine))) is Mine
    assert run.programs == ()
    assert "no program is made of it: Mine" in str(run.misses[0])


@pytest.mark.thorough
def test_all_programs_are_saved_as_one_archive(tmp_path):
    model = Branches()
    run = served(model)
    with pytest.raises(UsageError, match="no program"):
        run.save(tmp_path / "none.pt2")
    for n in (10, 20):
        run(torch.randn(n))
    run.save(tmp_path / "two.pt2")
    loaded = load_regions(tmp_path / "two.pt2").module()
    assert all(torch.equal(loaded(torch.ones(n)), model(torch.ones(n))) for n in range(31))
    with pytest.raises(OutsideDomain):
        loaded(torch.ones(31))
    run(torch.ones(3, dtype=torch.int32))
    with pytest.raises(UsageError, match="dtypes"):
        run.save(tmp_path / "three.pt2")


def test_an_archive_has_the_tensors_that_the_model_has_now(tmp_path):
    """The fault: it had those of the time of the trace, and each of its programs had copies."""

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            if x.shape[0] > 2:
                self.count.add_(1)
            return x * self.weight + self.count

    model = Counts()
    run = served(model)
    for n in (3, 1, 4, 2):
        run(torch.ones(n))
    assert len(run.programs) > 1
    model.weight, model.count = torch.nn.Parameter(torch.full((1,), 5.0)), torch.full((1,), 7.0)
    run.save(tmp_path / "counts.pt2")
    loaded = load_regions(tmp_path / "counts.pt2").module()
    assert all(torch.equal(loaded(torch.ones(n)), model(torch.ones(n))) for n in (1, 3, 2, 4, 1))


@pytest.mark.thorough
def test_numbers_are_saved_too(tmp_path):
    class Counted(torch.nn.Module):
        def forward(self, x, n: int):
            return x + n if n > 3 else x * n

    model = Counted()
    run = served(model)
    for n in (2, 5):
        run(torch.ones(n), n)
    run.save(tmp_path / "both.pt2")
    loaded = load_regions(tmp_path / "both.pt2").module()
    assert torch.equal(loaded(torch.ones(2), 2), torch.ones(2) * 2)
    assert torch.equal(loaded(torch.ones(4), 5), torch.ones(4) + 5)


def test_a_served_model_within_another_falls_to_eager_where_it_has_no_program():
    inner = served(Sine())

    class Outer(torch.nn.Module):
        def forward(self, x):
            return inner(x) + (x.sum() > 0)  # traced through

    run, x = served(Outer()), torch.ones(3)
    assert torch.equal(run(x), x.sin() + 1)

    class Untraceable(torch.nn.Module):
        def forward(self, x):
            return inner(x) + float(x.sum() > 0)

    assert torch.equal(served(Untraceable())(torch.ones(4)), torch.ones(4).sin() + 1)


@pytest.mark.parametrize("served_first", [False, True])
def test_within_a_transform_of_torch_func_the_model_itself_runs(served_first):
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 5, 3)
    run = served(model)
    if served_first:
        run(x[0])
        run(x[0, :2])
    traced = run.traced
    assert torch.equal(torch.vmap(run)(x), torch.vmap(model)(x))
    assert torch.equal(torch.func.jvp(run, (x,), (x,))[1], torch.func.jvp(model, (x,), (x,))[1])
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        assert torch.equal(run(dual), model(x))
    assert run.traced == traced


@pytest.mark.quick
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"otherwise": "eagr"}, "did you mean `eager`"),
        ({"at_most": 0}, "at_most"),
        ({"backend": "onnx_runtime"}, "did you mean `onnxruntime`"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_a_usage_error(arguments, said):
    with pytest.raises(UsageError, match=said):
        served(Sine(), **arguments)


@few(50)
@given(programs(), st.randoms(use_true_random=False))
def test_a_served_model_does_what_eager_does_whatever_comes_first(program, random):
    held_against_eager(program, random, 6)


@pytest.mark.slow
@few(1)
@given(programs(), st.randoms(use_true_random=False))
def test_many_served_models_do_what_eager_does_whatever_comes_first(program, random):
    held_against_eager(program, random, None)


def held_against_eager(program, random, count):
    run = served(program.model, at_most=4)
    box = list(program.box)
    random.shuffle(box)
    box = [*box[:count], *box[:count]]
    assert [sizes for sizes in box if not agree(program.model, run, program.inputs(sizes))] == []
    assert run.traced <= 4 + 4 + MOST_FAILED  # kept, replaced, and given up
