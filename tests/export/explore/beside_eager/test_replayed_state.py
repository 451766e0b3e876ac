"""A replay begins with the program's own state, whatever an earlier replay wrote, and leaves the model as it was."""

from __future__ import annotations

import copy
from collections import deque

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export
from shapeproof.export.declare.inputs import declare
from shapeproof.export.explore.beside_eager.forms import Form, copied, forms_of, fresh_modules, memory_shared
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.beside_eager.runner import Relation
from shapeproof.export.shim.storages import is_copied_when_written


@torch.library.custom_op("shapeproof_tests::secretly", mutates_args=())
def secretly(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Writes into an operand that it says it only reads."""
    weight.data.add_(1)
    return x * 2


@secretly.register_fake
def _(x, weight):  # noqa: ARG001 - the operator's signature
    return torch.empty_like(x)


class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(4))
        self.table = torch.arange(4.0)  # neither a parameter nor a buffer


class Counts(Held):
    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


class CountsThroughAView(Held):
    def forward(self, x):
        self.calls.detach()[1:].add_(1)
        return x + self.calls


class CountsWhatMayBeACopy(Held):
    def forward(self, x):
        self.calls[: x.shape[0]].contiguous().add_(1)
        return x + self.calls


class Secret(Held):
    def forward(self, x):
        return secretly(x, self.calls).add_(1)


class Norm(Held):
    def __init__(self):
        super().__init__()
        self.register_buffer("var", torch.ones(4))

    def forward(self, x):
        rows = x[:1].expand(2, 4) + torch.arange(2.0)[:, None]
        torch.nn.functional.batch_norm(rows, self.calls, self.var, training=True)
        return x + self.calls


class WritesItsOwn(Held):
    def forward(self, x):
        return (x + self.table).mul_(2)


WRITING = [Counts, CountsThroughAView, CountsWhatMayBeACopy, Secret, Norm]


def program_of(mod):
    return torch.export.export(mod, (torch.ones(3, 4),))


@pytest.mark.quick
@pytest.mark.parametrize("made", WRITING)
def test_what_writes_into_its_state_begins_again(made):
    fresh, x = fresh_modules(program_of(made())), torch.ones(3, 4)
    first = fresh()
    results = [first(x), fresh()(x), fresh()(x)]
    assert fresh() is not first
    assert all(torch.equal(results[0], each) for each in results)


def test_what_writes_into_its_own_results_is_not_copied_again():
    fresh, x = fresh_modules(program_of(WritesItsOwn())), torch.ones(3, 4)
    first = fresh()
    first(x)
    assert fresh() is first


@pytest.mark.parametrize(("made", "runs"), [(WritesItsOwn, 1), (Counts, 2)])
def test_two_calls_of_a_program_that_is_as_it_was_are_one(made, runs):
    """The fault: a program that writes into what it has computed itself, as an in-place ReLU does, was called again."""
    mod, ran = made(), []
    inputs = declare(mod, (torch.ones(3, 4),), None, {"x": {}})
    (form,) = [each for each in forms_of(program_of(mod)) if not each.name]
    form.fresh().register_forward_hook(lambda *_: ran.append(1))
    Eager(mod, inputs).compare([form], {}, calls=2)
    assert len(ran) == runs


class NormByStatistics(Norm):
    def forward(self, x):
        return torch.nn.functional.batch_norm(x, self.calls, self.var, training=False).mul_(2)


def test_what_uses_statistics_is_not_copied_again():
    """The fault: a batch norm that updates no statistics was taken for one that writes uncounted."""
    fresh, x = fresh_modules(program_of(NormByStatistics())), torch.ones(3, 4)
    first = fresh()
    first(x)
    assert fresh() is first


def test_in_inference_mode_every_replay_begins_again():
    with torch.inference_mode():
        fresh, x = fresh_modules(program_of(Counts())), torch.ones(3, 4)
        assert torch.equal(fresh()(x), fresh()(x))


def test_torch_counts_the_writes_through_a_view_as_writes_into_its_base():
    """fresh_modules relies on it."""
    base = torch.zeros(4)
    for view in (base[1:], base.detach(), base.view(2, 2), base.t()):
        before = base._version
        view.add_(1)
        assert base._version == before + 1


@pytest.mark.parametrize("made", [Counts, CountsThroughAView, WritesItsOwn])
def test_replays_leave_the_model_as_it_was(made):
    mod = made()
    before = {name: value.clone() for name, value in mod.state_dict().items()}
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=6)},))
    assert report.status == "proved"
    assert all(torch.equal(value, mod.state_dict()[name]) for name, value in before.items())
    program = export(made(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=6)},))
    assert torch.equal(program.module()(torch.ones(2, 4)), made()(torch.ones(2, 4)))


def _through_its_data(weight):
    weight.data.add_(1)


def _through_numpy(weight):
    weight.detach().numpy()[:] += 1


def _through_its_storage(weight):
    weight.untyped_storage().fill_(1)


def _through_dlpack(weight):
    torch.from_dlpack(weight.detach()).add_(1)


@pytest.mark.quick
@pytest.mark.parametrize("write", [_through_its_data, _through_numpy, _through_its_storage, _through_dlpack])
def test_copies_share_parameters_until_one_is_written_into(write):
    """However it is written: torch does not count these writes, or not all of them."""
    mod = torch.nn.Linear(3, 3)
    before = mod.weight.detach().clone()
    with memory_shared():
        one, other = copied(mod), copied(mod)
        again = copied(one)
        assert all(is_copied_when_written(each.weight) for each in (one, other, again))
        assert not is_copied_when_written(mod.weight)
        write(one.weight)
        assert not torch.equal(one.weight, before)
        assert all(torch.equal(each.weight, before) for each in (mod, other, again, copied(mod)))


def test_copies_have_what_was_written_into_the_model_since():
    mod = torch.nn.Linear(3, 3)
    with memory_shared(), torch.no_grad():
        copied(mod)
        mod.weight.zero_()
        assert not copied(mod).weight.any()


def test_a_parameter_that_two_layers_have_is_one_in_the_copy():
    mod = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    mod[1].weight = mod[0].weight
    with memory_shared():
        other = copied(mod)
        assert other[0].weight is other[1].weight
        assert other[0].weight is not mod[0].weight


class Normed(torch.nn.Module):
    """A layer whose weight each call computes, and leaves in an attribute."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 3))

    def forward(self, x):
        return self.layer(x)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_weight_that_autograd_computed_is_copied():
    mod = Normed()
    assert mod.layer.weight.grad_fn is not None
    assert check(mod, (torch.randn(2, 3),), dynamic_shapes=({0: Dim("n", min=1, max=6)},)).status == "proved"
    other = copied(mod)
    assert torch.equal(other.layer.weight, mod.layer.weight)
    assert other.layer.weight.data_ptr() != mod.layer.weight.data_ptr()


class WritesUncounted(torch.nn.Linear):
    def forward(self, x):
        if not torch.compiler.is_exporting():
            self.weight.data.add_(1)
        return super().forward(x)


def test_a_parameter_that_eager_writes_into_uncounted_is_seen():
    """The second call at the example differs; no later run begins with what the first left."""
    mod = WritesUncounted(3, 3)
    before = mod.weight.detach().clone()
    report = check(mod, (torch.randn(2, 3),), dynamic_shapes=({0: Dim("n", min=1, max=6)},))
    assert report.status == "refuted"
    assert torch.equal(mod.weight, before)


CALLS = []


class CountsGlobally(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting():
            CALLS.append(None)
        return x * (1 if len(CALLS) <= self.most else 2)


class CountsItsCalls(torch.nn.Module):
    """Its results differ from the third call on; the copy of each replay is called twice at most."""

    calls = 0

    def forward(self, x):
        if not torch.compiler.is_exporting():
            self.calls += 1
        return x * (1 if self.calls <= self.most else 2)


@pytest.mark.parametrize("model", [CountsGlobally, CountsItsCalls])
@pytest.mark.parametrize("shapes", [None, ({0: Dim("n", min=0, max=6)},)])
def test_what_a_second_call_does_otherwise_is_seen(model, shapes):
    """Copies share globals, and not attributes."""
    CALLS.clear()
    mod = model()
    mod.most = 1
    report = check(mod, (torch.randn(2, 3),), dynamic_shapes=shapes)
    assert (report.status, report.diagnostics[0].id) == ("refuted", "replay")


class Memory:
    """What holds anything for a model, out of the sight of torch."""

    def __init__(self):
        self.last = None


class HoldsAnObject(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = Memory()

    def forward(self, x):
        repeated = self.memory.last == x.shape[0]
        self.memory.last = x.shape[0]
        return x * 2 if repeated else x


class HoldsADeque(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = deque([None], maxlen=1)

    def forward(self, x):
        repeated = self.sizes[0] == x.shape[0]
        self.sizes.append(x.shape[0])
        return x * 2 if repeated else x


class HoldsNestedContainers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = ({"sizes": [{"last": None}]},)

    def forward(self, x):
        cache = self.cache[0]["sizes"][0]
        repeated = cache["last"] == x.shape[0]
        cache["last"] = x.shape[0]
        return x * 2 if repeated else x


class HoldsATensorInAnObject(HoldsAnObject):
    def forward(self, x):
        repeated = self.memory.last is not None and self.memory.last.shape == x.shape
        self.memory.last = x.clone()
        return x * 2 if repeated else x


class HoldsBytes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = [bytearray(8)]

    def forward(self, x):
        seen = self.seen[0]
        repeated = seen[x.shape[0] % 8]
        seen[x.shape[0] % 8] = 1
        return x * 2 if repeated else x


@pytest.mark.parametrize(
    "model", [HoldsAnObject, HoldsADeque, HoldsNestedContainers, HoldsATensorInAnObject, HoldsBytes]
)
def test_what_a_model_remembers_of_a_size_is_seen_when_the_size_comes_again(model):
    """The fault: the second call was one at another size, if the model looked unchanged: these were proved."""
    report = check(model(), (torch.ones(5, 2),), dynamic_shapes=({0: Dim("n", min=2, max=30)},))
    assert (report.status, report.diagnostics[0].id) == ("refuted", "replay")
    assert report.diagnostics[0].notes[0].text.endswith(", at the second of two calls")


class ServesZerosOnce(torch.nn.Module):
    """It takes zeros alone, and its second call gives other results."""

    def __init__(self):
        super().__init__()
        self.memory = Memory()

    def forward(self, x):
        if x.any():
            raise ValueError("zeros alone")
        again = self.memory.last is not None
        self.memory.last = True
        return x + 1 if again else x


def test_a_second_call_has_the_inputs_on_which_the_first_served():
    """The fault: where both raised on the data that were drawn, the second call raised on them again, and agreed."""

    def fixed(x):
        return ServesZerosOnce()(x)

    mod = ServesZerosOnce()
    eager = Eager(mod, declare(mod, (torch.full((3,), 7),), None, {"x": {}}))
    form = Form(lambda: fixed)
    assert eager.compare([form], {}).relation is Relation.SAME
    assert not eager.compare([form], {}, calls=2).agrees


class Remembers(torch.nn.Module):
    """Its first call, and it alone, fails at one row; no trace sees that."""

    def __init__(self, *, held):
        super().__init__()
        self.held = held

    def forward(self, x):
        if not torch.compiler.is_exporting():
            if not self.held[-1] and x.shape[0] == 1:
                raise ValueError("one row")
            self.held[-1:] = [True]
        return x * 2


def test_every_run_at_another_size_is_a_first_call():
    mod = Remembers(held=[False])
    report = check(mod, (torch.randn(2, 3),), dynamic_shapes=({0: Dim("n", min=1, max=6)},))
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[0]": 1})


@pytest.mark.parametrize("branches", ["error", "split"])
def test_a_branch_that_only_writes_a_buffer_makes_a_difference(branches):
    """The fault: results were compared, what is left in buffers was not: that part was undecided, and excluded."""

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            if x.shape[0] > 4:
                self.seen.add_(1)
            return x * 2

    report = check(Counts(), (torch.ones(6),), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}}, branches=branches)
    assert report.status == ("refuted" if branches == "error" else "proved"), str(report)
    if branches == "error":
        assert report.diagnostics[0].witness == {"x.shape[0]": 2}
        assert "in `seen`" in str(report)


class Own(torch.nn.Linear):
    """Says itself how it is copied."""

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), self)


class Passing(torch.nn.Module):
    """Has what it lacks looked up in the module that it holds, `__deepcopy__` too."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __getattr__(self, name):
        return super().__getattr__(name) if name == "inner" else getattr(self.inner, name)


class Sharing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        shared = torch.nn.Linear(2, 2)
        self.parts = torch.nn.ModuleList([shared, torch.nn.ReLU(), shared, Passing(Own(2, 2))])
        self.own = Own(2, 2)
        self.notes = {"seen": [1, 2], "part": shared}
        self.again = self.notes
        self.names = {"a"}
        self.parts.register_forward_hook(print)


def test_a_copy_is_what_copy_deepcopy_makes():
    model = Sharing()
    found, expected = copied(model), copy.deepcopy(model)
    assert [*map(type, found.modules())] == [*map(type, expected.modules())]
    assert all(vars(a).keys() == vars(b).keys() for a, b in zip(found.modules(), expected.modules(), strict=True))
    assert found.state_dict().keys() == expected.state_dict().keys()
    assert found.parts[0] is found.parts[2] is found.notes["part"] is not model.parts[0]
    assert found.notes is found.again is not model.notes
    assert found.notes["seen"] == [1, 2]
    assert found.notes["seen"] is not model.notes["seen"]
    assert found.names == {"a"}
    assert found.names is not model.names
    assert found.own is model.own
    assert list(found.parts._forward_hooks.values()) == [print]
    assert found._forward_hooks is not model._forward_hooks
    assert type(found._forward_hooks) is type(model._forward_hooks)


def test_a_class_that_says_later_how_it_is_copied_is_asked_again():
    """The fault: how a class is copied was asked once in a process."""

    class Late(torch.nn.Module):
        pass

    copied(Late())
    Late.__reduce_ex__ = lambda _self, _protocol: (torch.nn.ReLU, ())
    assert isinstance(copied(Late()), torch.nn.ReLU)


def test_a_module_that_says_itself_how_it_is_copied_is_asked():
    own = torch.nn.Linear(2, 2)
    vars(own)["__reduce_ex__"] = lambda _protocol: (torch.nn.ReLU, ())
    assert isinstance(copied(own), torch.nn.ReLU)


def test_a_program_that_holds_a_computed_tensor_is_copied():
    """A cache that was filled while gradients were on is computed, and torch refuses to copy it deeply."""

    class Cached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layer = torch.nn.Linear(4, 4)
            self.cache = layer(torch.ones(2, 4))
            self.register_buffer("other", layer(torch.ones(1, 4)))

        def forward(self, x):
            return x + self.cache.sum() + self.other

    report = check(Cached(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    assert report.status == "proved"
