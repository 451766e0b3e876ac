"""Nothing of a model is left once what was exported of it is dropped: no weight, and no object of ours."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import weakref

import pytest
import torch
from torch.export import Dim

from shapeproof import serve
from shapeproof.export import check, export
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.traced import env_of

ROWS = {"x": {0: Dim("n", min=1, max=16)}}


@pytest.fixture(autouse=True)
def only_what_a_test_makes():
    """Collections look at no older object: of those that thousands of tests leave, one took seconds."""
    gc.freeze()
    yield
    gc.unfreeze()


class Plain(torch.nn.Module):
    """A layer and a buffer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        return self.layer(x).relu()


class Written(Plain):
    def forward(self, x):
        self.seen.add_(x.sum(0))
        return self.layer(x) + self.seen


class Branches(Plain):
    def forward(self, x):
        return self.layer(x) if x.shape[0] > 3 else self.layer(x) + 1


class TakesRows(Plain):
    def forward(self, x):
        made = self.layer(x)
        return made[made[:, 0] > 0] * 2


class Steps(Plain):
    def forward(self, x):
        return self.layer(x) * torch.linspace(0, 1, x.shape[0])[:, None]


class Conditional(Plain):
    """Dynamo compiles its branches, and keeps what it has compiled."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.layer, lambda t: self.layer(t) - 1, (x,))


class Refuted(Plain):
    def forward(self, x):
        return self.layer(x).reshape(-1, 16 if x.shape[0] > 3 else 8)


class Raises(Plain):
    def forward(self, _):
        raise ValueError("no")


class Views(Plain):
    """A fake tensor holds the base of its view in C++."""

    def forward(self, x):
        return (self.layer.weight.t()[:4] @ x.t()).t().contiguous().view(-1)


MODELS = (Plain, Written, Branches, TakesRows, Steps, Conditional, Refuted, Raises, Views)


def called(mod, args):
    module = export(mod, args, dynamic_shapes=ROWS).module()
    module(*args)
    return module


def saved_and_loaded(mod, args):
    file = io.BytesIO()
    torch.export.save(export(mod, args, dynamic_shapes=ROWS), file)
    return torch.export.load(io.BytesIO(file.getvalue()))


def merged(mod, args):
    regions = export(mod, args, dynamic_shapes=ROWS, branches="split")
    return regions.merged() if hasattr(regions, "merged") else regions


def served(mod, args):
    run = serve.compile(mod)
    return run, [run(torch.randn(rows, 8)) for rows in (3, 5, 1)], args


WAYS = {
    "checked": lambda mod, args: check(mod, args, dynamic_shapes=ROWS),
    "exported": lambda mod, args: export(mod, args, dynamic_shapes=ROWS),
    "called": called,
    "decomposed": lambda mod, args: export(mod, args, dynamic_shapes=ROWS).run_decompositions(),
    "split": lambda mod, args: export(mod, args, dynamic_shapes=ROWS, branches="split"),
    "merged": merged,
    "served": served,
    "loaded": saved_and_loaded,
    "with gradients": lambda mod, args: export(mod, args, dynamic_shapes=ROWS).with_gradients(),
    "copied": lambda mod, args: copy.deepcopy(export(mod, args, dynamic_shapes=ROWS)),
}


def made(kind, way):
    """Weak references to a model, and to all that it holds, after something was made of it and dropped."""
    mod = kind()
    held = [weakref.ref(each) for each in (mod, *mod.modules(), *mod.parameters(), *mod.buffers())]
    with contextlib.suppress(Exception):  # some models have no program
        WAYS[way](mod, (torch.randn(3, 8),))
    return held


def collected():
    """Collect all garbage: the objects that one collection frees may hold others in C++."""
    for _ in range(4):
        gc.collect()


@pytest.mark.parametrize("kind", MODELS[:2])
@pytest.mark.parametrize("way", ["checked", "served"])
def test_weights_are_freed_with_the_program(kind, way):
    held = made(kind, way)
    collected()
    assert not any(each() is not None for each in held)


@pytest.mark.thorough
@pytest.mark.parametrize("tracked", [False, True], ids=["without gradients", "with gradients"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_model_is_held(kind, way, tracked):
    with torch.set_grad_enabled(tracked):
        held = made(kind, way)
    collected()
    assert not any(each() is not None for each in held)


def of_ours():
    """The number of objects alive whose classes are ours, and of torch's ShapeEnvs that we made."""
    collected()
    kinds = map(type, gc.get_objects())
    # A class's `__module__` may be a descriptor that its objects answer.
    return sum(str(kind.__module__).startswith("shapeproof") or issubclass(kind, ProofShapeEnv) for kind in kinds)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [each for each in MODELS if each is not Conditional])
def test_ten_more_exports_leave_as_many_objects_as_before(kind):
    def exported():
        with contextlib.suppress(Exception):
            check(kind(), (torch.randn(3, 8),), dynamic_shapes=ROWS)

    for _ in range(3):
        exported()
    before = of_ours()
    for _ in range(10):
        exported()
    assert of_ours() <= before


HOLDERS = torch.Tensor | torch._subclasses.FakeTensorMode | torch.nn.Module | torch.export.ExportedProgram


@pytest.mark.parametrize("kind", [Plain, Written, TakesRows, Steps, Views])
def test_no_tensor_can_be_reached_from_the_shape_env(kind):
    """Law of ProofShapeEnv: tensors hold it in C++, so a circle through it would never be collected."""
    program = export(kind(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: Dim("n", min=3, max=16)}})
    start = env_of(program)
    met, pending = {id(start)}, [start]
    while pending:
        for each in gc.get_referents(pending.pop()):
            shared = isinstance(each, type) or (isinstance(each, dict) and "__builtins__" in each)
            if not shared and id(each) not in met and type(each).__name__ != "module":
                assert not isinstance(each, HOLDERS)
                met.add(id(each))
                pending.append(each)
