"""Joint programs give what eager gives, results and gradients, or the model is refused in one sentence."""

from __future__ import annotations

import copy
import random
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.experimental import proxy_tensor

from shapeproof.constraints.errors import UsageError
from shapeproof.export import ConstraintViolation, Dim, OutsideDomain, export
from shapeproof.export.explore.beside_eager.runner import unequal
from tests.thoroughness import examples
from tests.tiny_models import Hundredfold

N = Dim("n", min=0, max=40)


def eagers(model, args, kwargs=None, given=()):
    """What eager gives, and the gradients by name; `given`: the names of the inputs that require them."""
    model = copy.deepcopy(model)
    args = [each.clone().requires_grad_() if name in given else each for name, each in zip("xyz", args, strict=False)]
    result = model(*args, **(kwargs or {}))
    results = [each for each in torch.utils._pytree.tree_leaves(result) if getattr(each, "requires_grad", False)]
    tangents = [torch.linspace(-1, 1, each.numel()).view(each.shape) for each in results]
    if results:
        torch.autograd.backward(results, tangents)
    named = {name: each.grad for name, each in model.named_parameters() if each.requires_grad}
    named |= {name: each.grad for name, each in zip("xyz", args, strict=False) if name in given}
    return tangents, (result, named)


def right(model, run, args, kwargs=None, given=()):
    """Whether a joint program gives what eager does."""
    tangents, want = eagers(model, args, kwargs, given)
    got = run(*args, **(kwargs or {}), tangents=tangents)
    return list(got[1]) == list(want[1]) and not unequal(want, got)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.unused, self.frozen = nn.Linear(4, 1), nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x):
        return self.frozen(self.second(self.first(x)).tanh())


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 2, 3, padding=1), nn.BatchNorm1d(2)

    def forward(self, x):
        return self.norm(self.conv(x[:, None])).relu().mean(2), x.shape[0]


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, *more, named):
        return {"y": [self.linear(x["a"][0]) + more[0] * named["b"]], "n": 3, "z": x["a"][0].detach()}


@pytest.mark.thorough
def test_the_gradients_of_a_perceptron_are_eagers_at_every_size():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2))
    program = export(model, (torch.randn(3, 4, requires_grad=True),), dynamic_shapes=({0: N},))
    joint = program.with_gradients()
    assert joint.report.status == "proved", str(joint.report)
    assert joint.report.domain == program.report.domain
    assert [each.split(".")[0] for each in joint.report.inputs] == ["input", "tangents[0]"]
    run = joint.module()
    for rows in (0, 1, 2, 7, 40):
        x = torch.randn(rows, 4)
        tangents, (result, named) = eagers(model, (x,), given="x")
        got, gradients = run(x, tangents=tangents)
        named["input"] = named.pop("x")
        assert not unequal((result, named), (got, gradients))
    with pytest.raises(OutsideDomain, match=r"input.shape\[0\] = 41"):
        run(torch.ones(41, 4), tangents=[torch.ones(41, 2)])
    with pytest.raises(RuntimeError):
        run(torch.ones(4, 4), tangents=[torch.ones(3, 2)])


@pytest.mark.thorough
def test_parameters_of_two_names_unused_ones_and_frozen_ones():
    model = Tied()
    run = export(model, (torch.randn(3, 4),), dynamic_shapes=({0: N},)).with_gradients().module()
    assert all(right(model, run, (torch.randn(rows, 4),)) for rows in (0, 1, 5))
    assert run(torch.ones(2, 4), tangents=[torch.ones(2, 4)])[1]["unused.bias"] is None


@pytest.mark.thorough
def test_buffers_go_on_as_eagers_do():
    model = Normed()
    joint = export(model, (torch.randn(3, 6),), dynamic_shapes=({0: Dim("n", min=2, max=9)},)).with_gradients()
    run, x = joint.module(), torch.randn(5, 6)
    eager = copy.deepcopy(model)
    for _ in range(2):
        eager(x)
        run(x, tangents=[torch.ones(5, 2)])
        assert not unequal(
            dict(eager.named_buffers()), {name: run.get_buffer(name) for name, _ in eager.named_buffers()}
        )
    assert right(model, run, (x,))


def test_inputs_in_containers_positional_ones_and_keywords():
    model = Nested()

    def inputs(rows):
        return ({"a": [torch.randn(rows, 4)]}, torch.randn(rows, 4)), {"named": {"b": torch.randn(4)}}

    args, kwargs = inputs(3)
    shapes = {"x": {"a": [{0: N}]}, "more": ({0: N},), "named": {"b": None}}
    run = export(model, args, kwargs, dynamic_shapes=shapes).with_gradients().module()
    for rows in (0, 1, 5):
        args, kwargs = inputs(rows)
        tangents, want = eagers(model, args, kwargs)
        assert not unequal(want, run(*args, **kwargs, tangents=tangents))


@pytest.mark.thorough
def test_random_numbers_are_drawn_as_eager_draws_them():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    run = export(model, (torch.randn(3, 4),), dynamic_shapes=({0: N},)).with_gradients().module()
    (result, gradients), ones = run(torch.ones(6, 4), tangents=[torch.ones(6, 4)]), torch.ones(6, 4)
    assert torch.allclose(gradients["0.bias"], ((result != 0) * 2 * ones).sum(0))


class OfSome(nn.Module):
    """A loss over the rows that a mask names."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x, mask):
        return self.second(torch.relu(self.first(x[mask]))).square().sum()


def test_a_joint_program_over_rows_from_data_is_one_static_program_at_its_bound():
    model = OfSome()
    joint = export(model, (torch.randn(5, 4), torch.arange(5) < 3)).with_gradients()
    assert joint.report.status == "proved"
    static, counts = joint.bounded()
    assert counts == ()
    run, at_bounds = joint.module(), static.module()
    for number in range(6):
        args = torch.randn(5, 4), torch.arange(5) < number
        tangents, want = eagers(model, args)
        tangents = [torch.ones(())]
        model.zero_grad()
        model(*args).backward()
        want = (want[0], {name: each.grad for name, each in model.named_parameters()})
        assert not unequal(want, run(*args, tangents=tangents))
        got = at_bounds(*args, tangents=tangents)
        assert not unequal(want, got)


# ---------------------------------------------------------------------- what is refused


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.linear = function, nn.Linear(4, 4)

    def forward(self, x):
        return self.function(self.linear(x))


def hooked(x):
    x.register_hook(lambda grad: grad * 2)
    return x * 3


REFUSED = {
    "a function": (Hundredfold.apply, "its gradients are not those of the model: .* an autograd.Function"),
    "a hook": (hooked, "its gradients are not those of the model: .* a hook on a tensor"),
    "nothing": (lambda x: x.detach(), "no result of the program depends on what requires gradients"),
    "rows from data": (lambda x: x[x[:, 0] > 0], "the gradient of a result whose size comes from data"),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_gradients_of_its_operators_is_refused(name):
    function, said = REFUSED[name]
    program = export(Of(function), (torch.randn(3, 4),), dynamic_shapes=({0: N},))
    with pytest.raises(UsageError, match=said):
        program.with_gradients()


def test_what_was_traced_without_gradients_has_none():
    model = nn.Linear(4, 4)
    with torch.no_grad():
        program = export(model, (torch.randn(3, 4),))
    with pytest.raises(UsageError, match="it was traced without"):
        program.with_gradients()
    program = export(model, (torch.randn(3, 4),))
    model.bias.requires_grad_(False)
    with pytest.raises(UsageError, match=r"`bias`.requires_grad is False and was True: export the model again"):
        program.with_gradients()
    model.requires_grad_(False)
    with pytest.raises(UsageError, match="no parameter and no input requires gradients"):
        export(model, (torch.randn(3, 4),)).with_gradients()
    model.requires_grad_(True)
    model.weight.register_hook(lambda grad: grad * 2)
    with pytest.raises(UsageError, match="`weight` has a hook on its gradient"):
        export(model, (torch.randn(3, 4),)).with_gradients()


@pytest.mark.thorough
def test_a_backward_that_is_another_at_another_size_is_refuted():
    """Autograd unrolls a GRU in time, though its forward is one operator."""
    model = nn.GRU(4, 3, batch_first=True)
    program = export(model, (torch.randn(2, 3, 4),), dynamic_shapes={"input": {1: Dim("t", min=2, max=9)}})
    with pytest.raises(ConstraintViolation):
        program.with_gradients()


# ---------------------------------------------------------------------- a law


STEPS = {
    "linear": lambda m, x: m.linear(x) if x.shape[-1] == 4 else x,
    "norm": lambda m, x: m.norm(x) if x.shape[-1] == 4 else x,
    "table": lambda m, x: x + m.table.weight.sum(),
    "relu": lambda _, x: x.relu(),
    "gelu": lambda _, x: F.gelu(x),
    "softmax": lambda _, x: x.softmax(-1),
    "softmax 0": lambda _, x: x.softmax(0),
    "log softmax": lambda _, x: x.log_softmax(-1),
    "sized": lambda _, x: x * x.shape[0] / 3,
    "gram": lambda _, x: x @ x.t() if x.dim() == 2 else x,
    "cat": lambda _, x: torch.cat([x, x * 2], 0),
    "first": lambda _, x: x[:2],
    "last": lambda _, x: x[..., -1:],
    "flat": lambda _, x: x.flatten(),
    "sum": lambda _, x: x.sum(0, keepdim=True),
    "mean": lambda _, x: x.mean(-1, keepdim=True),
    "padded": lambda _, x: F.pad(x, (1, 1)),
    "repeated": lambda _, x: x.repeat(2, *[1] * (x.dim() - 1)),
    "clamped": lambda _, x: x.clamp(-0.5, 0.5),
    "where": lambda _, x: torch.where(x > 0, x, x.exp()),
    "branch": lambda _, x: x * 2 if x.shape[0] > 3 else x,
    "large": lambda _, x: x.cumsum(0),
    "maxed": lambda _, x: x.amax(-1, keepdim=True),
    "in place": lambda _, x: x.clone().mul_(2),
    "attention": lambda _, x: F.scaled_dot_product_attention(x[None], x[None], x[None])[0] if x.dim() == 2 else x,
}


class Steps(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.names = names
        self.linear, self.norm, self.table = nn.Linear(4, 4), nn.LayerNorm(4), nn.Embedding(3, 4)

    def forward(self, x):
        for name in self.names:
            x = STEPS[name](self, x)
        return x


def held(seed):
    """Whether a random model has a proved joint program; what it takes it gives as eager does."""
    draw = random.Random(seed)
    model = Steps(["linear", *(draw.choice(list(STEPS)) for _ in range(draw.randint(1, 4)))])
    x = torch.randn(3, 4, requires_grad=draw.random() < 0.5)
    given = "x" if x.requires_grad else ""
    try:
        program = export(model, (x,), dynamic_shapes=({0: Dim.AUTO},))
        joint = program.with_gradients()
    except (UsageError, ConstraintViolation):
        return False
    run, taken = joint.module(), 0
    for rows in (0, 1, 2, 3, 4, 5, 11):
        args = (torch.randn(rows, 4),)
        try:
            assert right(model, run, args, given=given), (model.names, rows)
            taken += 1
        except OutsideDomain:
            pass
        except IndexError:  # eager has no maximum of no elements
            assert not program.report.accepts(*args)
    return taken > 0 and joint.report.status == "proved"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        q = self.linear(x)[None, None]
        return F.scaled_dot_product_attention(q, q, q)


def test_a_kernel_that_eager_does_not_call_is_not_run_where_it_would_end_the_process():
    """The fault: the joint program calls the fused kernel, which divides by the length; it was replayed at length 0."""
    for least, proved in ((0, False), (1, True)):
        shapes = ({0: Dim("n", min=least, max=9)},)
        program = export(Attention(), (torch.randn(3, 4),), dynamic_shapes=shapes)
        if proved:
            assert program.with_gradients().report.status == "proved"
        else:
            with pytest.raises(ConstraintViolation, match=r"divides by a\s+size of 0"):
                program.with_gradients()


def test_a_frozen_batch_norm_of_no_rows():
    """The fault: the joint program calls a kernel that divides by the rows; run at no rows, it ended the process."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3).eval())
    for least in (0, 1):
        program = export(model, (torch.randn(3, 3),), dynamic_shapes=({0: Dim("n", min=least, max=9)},))
        if least:
            assert program.with_gradients().report.status == "proved"
        else:
            with pytest.raises(ConstraintViolation, match=r"divides by\s+a\s+size of 0"):
                program.with_gradients()


_ENDING = {
    "attention": "x = torch.ones(1, 1, 0, 4); aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)",
    "batch norm": "x, w = torch.ones(0, 3), torch.ones(3); "
    "aten.native_batch_norm_backward(x, x, w, w, w, w, w, False, 1e-5, [True] * 3)",
    "pooling": "aten._adaptive_avg_pool2d_backward(torch.ones(2, 3, 2, 2), torch.ones(2, 3, 0, 4))",
    "weight norm": "aten._weight_norm_interface(torch.ones(0, 3), torch.ones(0, 1))",
}


@pytest.mark.thorough
@pytest.mark.parametrize("kernel", _ENDING)
def test_canary_a_kernel_ends_the_process_where_a_size_is_0(kernel):
    call = f"import torch; aten = torch.ops.aten; {_ENDING[kernel]}"
    assert subprocess.run([sys.executable, "-c", call], check=False, capture_output=True).returncode < 0


@pytest.mark.thorough
def test_what_a_joint_program_takes_it_gives_as_eager_does():
    number = examples(15)
    assert sum(map(held, range(number))) >= number // 2


@pytest.mark.slow
def test_what_joint_programs_of_200_models_take_they_give_as_eager_does():
    assert sum(map(held, range(1000, 1200))) >= 100


def test_attention_stays_whole_where_its_gradient_reads_what_torch_takes_apart_without():
    """The fault: the gradients were others; torch's decomposition gives weights where the kernel gives their sums."""

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            q = self.linear(x)[:, None]
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum()

    shapes = ({1: Dim("n", min=1, max=64)},)
    joint = export(Attends(), (torch.randn(2, 5, 4),), dynamic_shapes=shapes).with_gradients()
    x, given = torch.randn(2, 7, 4), [torch.ones(())]
    apart = joint.run_decompositions()
    wanted, found = (each.module()(x, tangents=given)[1] for each in (joint, apart))
    assert all(torch.allclose(wanted[name], found[name], atol=1e-5) for name in wanted)
    with pytest.raises(UsageError, match="without the result that its gradient reads"):
        joint.run_decompositions(torch.export.default_decompositions())


def test_canary_below_autograd_a_tracer_within_a_trace_sees_what_a_backward_does():
    """torch: make_fx nests in torch.export where the modes of the outer tracer are put aside."""

    class Model(nn.Module):
        def forward(self, x):
            def gradient(x):
                x = x.detach().requires_grad_()
                with torch.enable_grad():
                    return torch.autograd.grad(x.sin().sum(), [x])

            if proxy_tensor.get_proxy_mode() is None:
                return gradient(x)
            with proxy_tensor.disable_proxy_modes_tracing():
                graph = proxy_tensor.make_fx(gradient)(x)
            return graph(x)

    program = torch.export.export(Model(), (torch.randn(3),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    x = torch.randn(5)
    assert torch.allclose(program.module()(x)[0], x.cos())


class MeanOfElements(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.linear(x), y[:, :1].expand(-1, 3))


def test_the_gradient_of_a_mean_of_no_rows_is_traced():
    """The fault: torch's fake kernel divides by the number of elements in Python, so the program was undecided."""
    model, rows = MeanOfElements(), Dim("n", min=0, max=9)
    example = (torch.randn(3, 4), torch.randn(3, 3))
    joint = export(model, example, dynamic_shapes=({0: rows}, {0: rows})).with_gradients()
    assert joint.report.status == "proved"
    model(torch.ones(0, 4), torch.ones(0, 3)).backward()
    _, found = joint.module()(torch.ones(0, 4), torch.ones(0, 3), tangents=[torch.ones(())])
    assert torch.equal(found["linear.weight"], model.linear.weight.grad)


@pytest.mark.parametrize("formula", [torch.var, torch.std])
def test_a_division_of_autograds_own_by_a_number_from_data_is_refused(formula):
    """The fault: autograd's 2/(n - 1) is infinite in C++ for one row, and a program that was called proved raised."""

    class Spread(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x, m):
            return formula((x * self.w)[m], 0).sum()

    program = export(Spread(), (torch.randn(4, 3), torch.tensor([True, False, True, False])))
    with pytest.raises(UsageError, match="autograd divides by a number from data that may be 0"):
        program.with_gradients()
