"""A served model does what eager does after anything that its code reads was replaced or changed."""

from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import enum
import functools
import importlib
import sys
import types
import weakref
from contextvars import ContextVar
from typing import Generic, TypeVar

import numpy as np
import pytest
import torch
from torch import nn

from shapeproof.serve import compile as served

SCALE, SHIFT, NUMBER, TABLE = 2.0, torch.ones(2), torch.tensor([2.0]), {"a": [2.0]}


def put_global(name, value):
    globals()[name] = value


@pytest.fixture(autouse=True)
def globals_are_restored():
    names = ("SCALE", "SHIFT", "NUMBER", "TABLE", "scaled", "times")
    before = {name: copy.deepcopy(globals()[name]) for name in names}
    classes = {name: vars(Scales)[name] for name in ("factor", "times")}
    yield
    globals().update(before)
    for name, value in classes.items():
        setattr(Scales, name, value)


def scaled(x):
    return x * SCALE


def measured():
    """A class with an attribute of its metaclass."""
    return type("Meta", (type,), {"z": 2.0})("Measured", (), {})


class Scales:
    factor = 2.0

    def __init__(self):
        self.own = 2.0

    def times(self, x):
        return x * self.factor * self.own

    @property
    def of_global(self):
        return SCALE

    def __getattr__(self, name):
        if name == "looked_up":
            return TABLE["a"][0]
        raise AttributeError(name)


times = Scales()


@dataclasses.dataclass(frozen=True)
class Frozen:
    s: float


class Letter(enum.Enum):
    A = 2.0
    B = 3.0


class Slots:
    __slots__ = ("s",)

    def __init__(self, s):
        self.s = s


class Mode(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x * 3


def model_of(use, value=None):
    """A model of a class of its own, which keeps a value and uses it."""

    class Model(nn.Module):
        by_class = 2.0

        def __init__(self):
            super().__init__()
            self.v, self.inner = value, nn.Identity()

        def forward(self, x):
            return use(self, x)

        def helper(self, x):
            return x * 2

    return Model()


def first(self, x):
    return x * self.v[0]


def field(self, x):
    return x * self.v.s


def call(self, x):
    return self.v(x)


def replacing(new):
    return lambda model: setattr(model, "v", new)


REPLACED = {
    "list": (first, [2.0], [3.0]),
    "tuple": (first, (2.0,), (3.0,)),
    "dict": (first, {0: 2.0}, {0: 3.0}),
    "object": (field, types.SimpleNamespace(s=2.0), types.SimpleNamespace(s=3.0)),
    "frozen dataclass": (field, Frozen(2.0), Frozen(3.0)),
    "enum": (lambda self, x: x * self.v.value, Letter.A, Letter.B),
    "function": (call, torch.relu, torch.neg),
    "lambda": (call, lambda x: x * 2, lambda x: x * 3),
    "partial": (call, functools.partial(torch.mul, other=2), functools.partial(torch.mul, other=3)),
    "dtype": (lambda self, x: x.to(self.v), torch.float64, torch.float16),
    "size": (lambda self, x: x.sum() + torch.ones(self.v), torch.Size([2]), torch.Size([3])),
    "slice": (lambda self, x: x[self.v], slice(0, 2), slice(1, 2)),
    "range": (lambda self, x: x * len(self.v), range(2), range(3)),
    "bytes": (first, b"\2", b"\3"),
    "frozenset": (lambda self, x: x * (2 if "a" in self.v else 3), frozenset("a"), frozenset("b")),
    "numpy number": (lambda self, x: x * float(self.v), np.float32(2), np.float32(3)),
    "names": (lambda self, x: getattr(torch, self.v[0])(x), ["relu"], ["neg"]),
    "deque": (first, collections.deque([2.0]), collections.deque([3.0])),
    "class": (lambda self, x: x * self.v(2.0).s, Frozen, lambda s: Frozen(s + 1)),
    "float": (lambda self, x: x * self.v, 2.0, 3.0),
    "zero": (lambda self, x: x.sign() / self.v, 0.0, -0.0),
    "bool": (lambda self, x: x * self.v, 1, 1.0),
}


def setting(key, value=3.0):
    return lambda model: model.v.__setitem__(key, value)


CHANGED = {
    "numpy array": (lambda self, x: x * float(self.v[0]), lambda: np.array([2.0]), setting(0)),
    "numpy scalar array": (lambda self, x: x * float(self.v), lambda: np.array(2.0), lambda model: model.v.fill(3.0)),
    "numpy objects": (first, lambda: np.array([2.0], dtype=object), setting(0)),
    "bytearray": (first, lambda: bytearray(b"\2"), setting(0, 3)),
    "set": (lambda self, x: x * (2 if "a" in self.v else 3), lambda: {"a"}, lambda model: model.v.clear()),
    "slots": (field, lambda: Slots(2.0), lambda model: setattr(model.v, "s", 3.0)),
    "a list in a dict in slots": (
        lambda self, x: x * self.v.s["a"][0],
        lambda: Slots({"a": [2.0]}),
        lambda model: model.v.s["a"].__setitem__(0, 3.0),
    ),
    "a member of an enum": (lambda self, x: x * self.v.z, lambda: marked(2.0), lambda model: setattr(model.v, "z", 3)),
    "the order of a dict": (
        lambda self, x: functools.reduce(lambda a, b: a * 2 + b, self.v.values(), x),
        lambda: {"a": 1.0, "b": 2.0},
        lambda model: setting("a", model.v.pop("a"))(model),
    ),
    "the order of an OrderedDict": (
        lambda self, x: functools.reduce(lambda a, b: a * 2 + b, self.v.values(), x),
        lambda: collections.OrderedDict(a=1.0, b=2.0),
        lambda model: model.v.move_to_end("a"),
    ),
    "a defaultdict": (
        lambda self, x: x * self.v["k"],
        lambda: collections.defaultdict(lambda: 2.0, k=1.0),
        setting("k"),
    ),
    "keywords of a partial": (
        call,
        lambda: functools.partial(torch.mul, other=2),
        lambda model: model.v.keywords.update(other=3),
    ),
    "the object of a bound method": (call, lambda: Scales().times, lambda model: setattr(model.v.__self__, "own", 3.0)),
    "the class of a bound method": (call, lambda: Scales().times, lambda _: setattr(Scales, "factor", 3.0)),
    "a method of a class": (call, lambda: Scales().times, lambda _: setattr(Scales, "times", lambda _, x: x * 9)),
    "a property's global": (
        lambda self, x: x * self.v.of_global,
        Scales,
        lambda _: put_global("SCALE", 3.0),
    ),
    "what __getattr__ reads": (lambda self, x: x * self.v.looked_up, Scales, lambda _: setting_table(3.0)),
    "what a weak reference leads to": (
        lambda self, x: x * self.v().own,
        lambda: weakref.ref(times),
        lambda _: setattr(times, "own", 3.0),
    ),
    "the code of a function": (
        call,
        lambda: lambda x: x * 2,
        lambda model: setattr(model.v, "__code__", (lambda x: x * 3).__code__),
    ),
    "a default": (call, lambda: lambda x, k=2.0: x * k, lambda model: setattr(model.v, "__defaults__", (3.0,))),
    "an attribute of a function": (
        lambda self, x: x * self.v.k,
        lambda: with_attribute(2.0),
        lambda model: setattr(model.v, "k", 3.0),
    ),
    "the mode of a module in a list": (lambda self, x: self.v[0](x), lambda: [Mode()], lambda model: model.v[0].eval()),
    "a parameter of a module in a list": (
        lambda self, x: self.v[0](x).detach(),
        lambda: [nn.Linear(2, 2)],
        lambda model: setattr(model.v[0], "weight", nn.Parameter(torch.ones(2, 2))),
    ),
    "a context variable": (
        lambda self, x: x * self.v.get(),
        lambda: ContextVar("v", default=2.0),
        lambda model: model.v.set(3.0),
    ),
    "an attribute of a metaclass": (lambda self, x: x * self.v.z, measured, lambda m: setattr(type(m.v), "z", 3.0)),
    "a global": (lambda _, x: x * SCALE, lambda: None, lambda _: put_global("SCALE", 3.0)),
    "a global of a function": (lambda _, x: scaled(x), lambda: None, lambda _: put_global("SCALE", 3.0)),
    "a global function": (lambda _, x: scaled(x), lambda: None, lambda _: put_global("scaled", lambda x: x - 1)),
    "a global tensor": (lambda _, x: x * SHIFT, lambda: None, lambda _: put_global("SHIFT", torch.zeros(2))),
    "a global tensor, in place": (lambda _, x: x * SHIFT, lambda: None, lambda _: SHIFT.add_(1)),
    "a number in a global tensor": (lambda _, x: x * float(NUMBER), lambda: None, lambda _: NUMBER.data.add_(1)),
    "a class attribute": (lambda self, x: x * self.by_class, lambda: None, lambda m: setattr(type(m), "by_class", 3.0)),
    "a class attribute, later": (
        lambda self, x: x * getattr(self, "later", 2.0),
        lambda: None,
        lambda model: setattr(type(model), "later", 3.0),
    ),
    "a method": (
        lambda self, x: self.helper(x),
        lambda: None,
        lambda model: setattr(type(model), "helper", lambda _, x: x * 3),
    ),
    "forward of the object": (call, lambda: torch.relu, lambda model: setattr(model, "forward", lambda x: x * 5)),
    "forward of the class": (call, lambda: torch.relu, lambda m: setattr(type(m), "forward", lambda _, x: x * 5)),
    "the dict of hooks": (
        lambda self, x: self.inner(x),
        lambda: None,
        lambda model: setattr(model.inner, "_forward_hooks", {0: lambda *given: given[-1] * 3}),
    ),
    "a class of a module": (
        lambda self, x: self.inner(x),
        lambda: None,
        lambda model: setattr(model.inner, "__class__", nn.Tanh),
    ),
}


def marked(value):
    member = enum.Enum("Other", {"A": 1}).A
    member.z = value
    return member


def with_attribute(value):
    def function():
        pass

    function.k = value
    return function


def setting_table(value):
    TABLE["a"][0] = value


def is_eagers(model, change):
    """True if a served model does what eager does, before and after a change; and is not exported for nothing."""
    run, x = served(model), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for rows in (3, 5):
        run(torch.ones(rows, 2))
    before = agrees(run, model, x)
    change(model)
    after = agrees(run, model, x)
    traced = run.traced
    return before and after and agrees(run, model, x) and run.traced == traced


def agrees(run, model, x):
    want, got = model(x), run(x)
    exact = torch.equal(1 / want, 1 / got)  # the sign of zero
    return want.dtype == got.dtype and want.shape == got.shape and exact


@pytest.mark.parametrize("name", REPLACED)
def test_an_attribute_is_replaced(name):
    """The fault: programs stayed where the value was a container, an object or a callable."""
    use, old, new = REPLACED[name]
    assert is_eagers(model_of(use, old), replacing(new))


@pytest.mark.parametrize("name", CHANGED)
def test_what_the_code_reads_is_changed(name):
    """The fault: programs stayed after changes in classes, globals, closures, arrays, slots and modules in lists."""
    use, make, change = CHANGED[name]
    assert is_eagers(model_of(use, make()), change)


def test_a_closure_is_changed():
    scale, shift = 2.0, torch.ones(2)

    def use(_, x):
        return x * scale + shift

    def change(_):
        nonlocal scale
        scale = 3.0
        shift.add_(1)

    assert is_eagers(model_of(use), change)


def test_a_model_of_an_abstract_generic_class_is_exported_once_for_all_sizes():
    """The fault: what Python keeps in such a class cannot be read, so the model ran itself."""

    class Abstract(nn.Module, abc.ABC, Generic[TypeVar("T")]):
        @abc.abstractmethod
        def scale(self, x): ...

        @functools.cached_property
        def by(self):
            return torch.ones(2)

        def forward(self, x):
            return self.scale(x) * self.by

    class Model(Abstract):
        def scale(self, x):
            return x * 2

    model = Model()
    model(torch.ones(1, 2))  # it has made what it caches
    run = served(model)
    assert all(torch.equal(run(torch.ones(rows, 2)), model(torch.ones(rows, 2))) for rows in (2, 3, 4, 0))
    assert (run.traced, len(run.programs)) == (2, 1)


def by(factor):
    return lambda _, args, out=None: (args[0] * factor,) if out is None else out * factor


HOOKS = {
    f"{kind}, {where}": (kind, where)
    for kind in ("forward_hook", "forward_pre_hook")
    for where in ("of the model", "of a part", "of all")
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_exchanged_for_another(name):
    """The fault: only the number of hooks was watched."""
    kind, where = HOOKS[name]
    model = nn.Sequential(nn.Identity())
    register = {
        "of the model": getattr(model, f"register_{kind}"),
        "of a part": getattr(model[0], f"register_{kind}"),
        "of all": getattr(nn.modules.module, f"register_module_{kind}"),
    }[where]
    run, x, handle = served(model), torch.ones(3), register(by(2))
    run(x)
    handle.remove()
    handle = register(by(3))
    want, got = model(x), run(x)
    handle.remove()
    assert torch.equal(want, got)
    assert torch.equal(model(x), run(x))


@pytest.mark.parametrize(
    "normed", [nn.utils.weight_norm, nn.utils.spectral_norm, nn.utils.parametrizations.weight_norm]
)
def test_normed_weights_are_not_exported_for_again_and_again(normed):
    model = normed(nn.Linear(2, 2)).eval()
    run, x = served(model), torch.ones(5, 2)
    for rows in (2, 3, 4):
        run(torch.ones(rows, 2))
    traced = run.traced
    for parameter in model.parameters():
        parameter.data.mul_(3)
        assert torch.allclose(run(x), model(x))
    assert run.traced == traced


def test_the_numbers_that_tolist_gives_of_a_tensor_in_a_list_change():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = [torch.ones(4)]

        def forward(self, x):
            return x * self.held[0].tolist()[0]

    model = Model()
    run, x = served(model), torch.ones(3)
    run(x)
    model.held[0].fill_(3.0)
    assert torch.equal(run(x), model(x))


@pytest.mark.parametrize("how", ["import", "from", "relative", "after many names"])
def test_a_module_is_imported_when_the_model_runs(how, tmp_path, monkeypatch):
    (tmp_path / "lazily_named").mkdir()
    body = {
        "import": "import lazily_named.part as part; return x * part.SCALE",
        "from": "from lazily_named.part import SCALE; return x * SCALE",
        "relative": "from . import part; return x * part.SCALE",
        "after many names": "from . import part; return x * part.SCALE",  # Python widens the arguments of instructions
    }[how]
    named = "".join(f"x.name_{index}; " for index in range(300 if how == "after many names" else 1))
    text = f"def scaled(x):\n    if x is None: {named}\n    {body}\n"
    (tmp_path / "lazily_named" / "__init__.py").write_text(text)
    (tmp_path / "lazily_named" / "part.py").write_text("SCALE = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("lazily_named", "lazily_named.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    package = importlib.import_module("lazily_named")

    class Model(nn.Module):
        def forward(self, x):
            return package.scaled(x)

    run, x = served(Model()), torch.ones(3)
    run(x)
    package.part.SCALE = 5.0
    assert torch.equal(run(x), x * 5)
    traced = run.traced
    run(x)
    assert run.traced == traced


BY_TEXT = {
    "eval": lambda x: x * eval("SCALE * 1"),  # noqa: S307 - what is tried
    "__import__": lambda x: x * __import__(__name__, fromlist=["SCALE"]).SCALE,
    "importlib": lambda x: x * importlib.import_module(__name__).SCALE,
    "sys.modules": lambda x: x * sys.modules[__name__].SCALE,
    "a frame": lambda x: x * sys._getframe().f_globals["SCALE"],
    "globals by a text": lambda x: x * globals()[NAMED],
    "a module by a text": lambda x: x * getattr(THIS, NAMED),
}
NAMED, THIS = "SCALE", sys.modules[__name__]


@pytest.mark.quick
@pytest.mark.parametrize("found", BY_TEXT.values(), ids=BY_TEXT)
def test_what_is_found_by_a_text_is_watched_or_the_model_runs_itself(found):
    """The fault: programs stayed after a value was replaced that no name in the model's code names."""

    class Model(nn.Module):
        def forward(self, x):
            return found(x)

    model = Model()
    run, x = served(model), torch.ones(3)
    run(x)
    put_global("SCALE", 5.0)
    assert torch.equal(run(x), model(x))
    assert run.traced or "cannot be read" in str(run.misses[0])


def test_parameters_are_laid_otherwise_in_memory():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3)

        def forward(self, x):
            return x * (2 if self.conv.weight.is_contiguous() else 3)

    model = Model()
    run, x = served(model), torch.ones(3)
    run(x)
    model.to(memory_format=torch.channels_last)
    assert torch.equal(run(x), model(x))
