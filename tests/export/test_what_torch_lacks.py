"""What torch cannot trace is said in one sentence of what to do; what is advised is proved."""

from __future__ import annotations

import io

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from tests.agreement import agree

SHAPES = {"x": {0: Dim("n", min=2, max=8)}}


def of(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def jagged(x):
    return torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 2, 5])).values()


def listed(x):
    return torch.nested.nested_tensor([x, x * 2], layout=torch.jagged).values()


def counted(x):
    return x * x.to_sparse()._nnz()


def around(x):
    number = x.sum().to(torch.int64).item()
    return torch.cond(x.sum() > 0, lambda x: x * number, lambda x: x - number, (x,))


def around_float(x):
    number = x.sum().item()
    return torch.cond(x.sum() > 0, lambda x: x * number, lambda x: x - number, (x,))


def operand(x):
    number = x.sum().to(torch.int64).item()
    return torch.cond(number > 0, lambda x, n: x * n, lambda x, n: x - n, (x, number))


REFUSED = {
    jagged: r"makes a nested tensor, which torch cannot trace: use padded tensors and lengths",
    listed: r"cannot trace nested tensors, at .*: use padded tensors and lengths",
    counted: r"torch has no rule for what `aten\._to_sparse\.default` gives without data",
    around: r"a branch of torch\.cond uses a number that is taken from data outside of it: pass the tensor",
    operand: r"an operand of torch\.cond is a number: pass the tensor that holds it",
    around_float: r"a branch of torch\.cond uses a number that is taken from data outside of it: pass the tensor",
}


@pytest.mark.parametrize("forward", REFUSED, ids=lambda forward: forward.__name__)
def test_it_is_refused_in_one_sentence_with_the_line(forward):
    with pytest.raises(UsageError, match=REFUSED[forward]) as raised:
        export(of(forward), (torch.rand(5, 4),), dynamic_shapes=SHAPES)
    assert len(str(raised.value).splitlines()) == 1
    assert "test_what_torch_lacks.py:" in str(raised.value)


@pytest.mark.quick
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_a_nested_input_is_refused_by_its_name(layout):
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=layout)
    with pytest.raises(UsageError, match="`x` is a nested tensor, which cannot be exported: pass a padded tensor"):
        export(of(lambda x: x * 2), (nested,))


def inside(x):
    total = x.sum()
    return torch.cond(total > 0, lambda x, t: x * t.item(), lambda x, t: x - t.item(), (x, total))


def derived(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad((x**3).sum(), x)
    return slope


class Potential(torch.nn.Module):
    """An energy and the forces: what autograd reads again of the tanh is a tensor of its own."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.layers(x).sum()
            return energy.detach(), -torch.autograd.grad(energy, x)[0]


class OfEachSample(Potential):
    """The gradients of the parameters, one for each row."""

    def forward(self, x):
        def loss(held, row):
            return torch.func.functional_call(self.layers, held, (row,)).sum()

        held = {name: each.detach() for name, each in self.layers.named_parameters()}
        return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(held, x)["0.weight"]


class Adapted(Potential):
    """A step of training inside."""

    def forward(self, x):
        def loss(held):
            return torch.func.functional_call(self.layers, held, (x,)).pow(2).mean()

        held = dict(self.layers.named_parameters())
        steps = torch.func.grad(loss)(held)
        return torch.func.functional_call(self.layers, {name: held[name] - 0.1 * steps[name] for name in held}, (x,))


class Second(Potential):
    def forward(self, x):
        def of_row(row):
            return (torch.func.grad(lambda given: self.layers(given).sum())(row) * row).sum()

        return torch.vmap(torch.func.grad(of_row))(x)


class Jacobian(Potential):
    def forward(self, x):
        return torch.func.jacrev(lambda given: self.layers(given).sum(0))(x)


class Pulled(Potential):
    def forward(self, x, k):
        rows = k.item()
        torch._check(rows >= 1)
        torch._check(rows <= x.shape[0])
        result, pull = torch.func.vjp(lambda given: self.layers(given[:rows]), x)
        return result, pull(torch.ones_like(result))


GRADIENTS = (Potential, OfEachSample, Adapted, Second, Jacobian, Pulled)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", GRADIENTS, ids=lambda kind: kind.__name__)
def test_gradients_that_a_model_takes_are_in_its_program(kind):
    model, rest, n = kind().eval(), [torch.tensor(1)] * (kind is Pulled), Dim("n", min=1, max=64)
    program = export(model, (torch.rand(5, 4), *rest), dynamic_shapes=({0: n}, *(None for _ in rest)))
    assert program.report.status == "proved", program.report
    forms = program.module(), program.run_decompositions().module(), torch.export.unflatten(program)
    for size in (1, 2, 33):
        assert [agree(model, form, (torch.randn(size, 4), *rest)) for form in forms] == [True] * 3, size


def without(x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
    return torch.func.grad(lambda x: x.tanh().sum())(y.float())


def test_a_program_with_gradients_in_it_is_saved_with_what_ran_in_blocks():
    model, file = of(without), io.BytesIO()
    torch.export.save(export(model, (torch.rand(5, 4),), dynamic_shapes=SHAPES), file)
    file.seek(0)
    run = torch.export.load(file).module()
    assert all(agree(model, run, (torch.randn(n, 4),)) for n in (2, 3, 8))


def test_a_model_that_raises_first_has_its_gradients_followed_elsewhere():
    def few(x):
        if x.shape[0] > 6:
            raise ValueError
        return torch.func.grad(lambda x: x.tanh().sum())(x)

    report = check(of(few), (torch.rand(5, 4),), dynamic_shapes=SHAPES)
    assert [(each.id, each.witness) for each in report.diagnostics] == [("bound", {"x.shape[0]": 7})]


def test_gradients_of_a_program_with_gradients_in_it_are_not_the_models():
    program = export(Potential(), (torch.rand(5, 4),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
    with pytest.raises(UsageError, match="its gradients are not those of the model"):
        program.with_gradients()


def test_a_branch_in_what_is_differentiated_is_asked_about():
    def steep(x):
        return torch.func.grad(lambda x: (x.tanh() * x.shape[0]).sum() if x.shape[0] > 3 else x.sum())(x)

    report = check(of(steep), (torch.rand(5, 4),), dynamic_shapes=SHAPES)
    assert report.status == "refuted"
    assert [each.witness for each in report.diagnostics] == [{"x.shape[0]": 2}]


@pytest.mark.parametrize("forward", [inside, derived], ids=lambda forward: forward.__name__)
def test_what_can_be_written_otherwise_is_proved(forward):
    model = of(forward)
    run = export(model, (torch.rand(5, 4),), dynamic_shapes=SHAPES).module()
    assert all(agree(model, run, (torch.randn(n, 4),)) for n in range(2, 9))


def test_a_scan_is_unrolled_for_its_length_and_no_other_is_claimed():
    model = of(lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"))
    assert check(model, (torch.rand(5, 4),)).status == "proved"
    report = check(model, (torch.rand(5, 4),), dynamic_shapes=SHAPES)
    assert report.status == "refuted"
    assert "n = 5" in [each.text for found in report.diagnostics for each in found.help]
