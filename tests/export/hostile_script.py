"""A user's script whose globals run code when they are read; the tests load it, since pytest reads its own modules.

Tables of libraries load what they list when someone reads them (`from transformers import *`), or raise.
"""

from __future__ import annotations

import collections
import functools
import types
import weakref

import torch

READ: list[str] = []
"""What has been read of the objects below."""


def refuse(name):
    def read(*_: object, **__: object) -> object:
        READ.append(name)
        raise RuntimeError(f"{name} is not to be read")

    return read


METHODS = ("values", "keys", "items", "get", "__len__", "__iter__", "__contains__", "__getitem__", "__eq__", "__bool__")
SHOWN = ("__class__", "__module__", "__dict__", "__doc__", "__name__", "__wrapped__", "__func__", "__code__")


def hostile(base):
    """A class whose methods and properties raise, those that every object has included."""
    made = {name: refuse(name) for name in METHODS} | {name: property(refuse(name)) for name in SHOWN}
    made |= {"__getattr__": refuse("__getattr__"), "__hash__": refuse("__hash__")}
    return type("Hostile", (base,), made)


class Meta(type):
    """A metaclass that refuses each read of a class."""

    __getattribute__ = refuse("a class")


class Descriptor:
    """A descriptor that is not to be bound."""

    __get__ = refuse("__get__")


class Guarded:
    """A class of the user's with an attribute that runs code."""

    held = Descriptor()


class Referent:
    """What a weak reference refers to, for a while."""


LAZY_DICT = hostile(dict)(a=1)
LAZY_ORDERED = hostile(collections.OrderedDict)()
LAZY_LIST = hostile(list)([1, 2])
LAZY_TUPLE = hostile(tuple)((1, 2))
LAZY_SET = hostile(set)()
LAZY_OBJECT = hostile(object)()
LAZY_NUMBER = hostile(int)(3)
LAZY_MODULE = hostile(types.ModuleType)("lazy")
LAZY_CLASS = Meta("Lazy", (), {})
LAZY_FIELD = Guarded()
PROXY = weakref.proxy(Referent())
HELD = [LAZY_DICT, LAZY_LIST, LAZY_OBJECT, LAZY_MODULE, LAZY_CLASS, LAZY_FIELD, PROXY]
MAPPED = {"a": LAZY_ORDERED, "b": LAZY_TUPLE, "c": LAZY_SET, "d": LAZY_NUMBER}


def names_none(x):
    return torch.relu(x)


def names_them(x):
    """The code names the objects, and does nothing with them."""
    if x.dim() == 7:
        return LAZY_DICT, LAZY_LIST, LAZY_OBJECT, LAZY_MODULE, LAZY_CLASS, LAZY_FIELD, PROXY, HELD, MAPPED
    return x * int(x.shape[0] / 1)


def compares_them(x):
    return x + (LAZY_OBJECT is x) + (x.dtype is LAZY_MODULE) + (LAZY_DICT is None)


def has_them_beside_a_branch(x):
    held = (LAZY_DICT, LAZY_OBJECT, LAZY_CLASS)
    if x.shape[0] > 0 and held is not None:
        x = x + 1
    return x


def has_them_beside_a_text(x):
    held = (LAZY_DICT, LAZY_OBJECT, LAZY_NUMBER)
    if x.dim() == 7:
        raise ValueError(f"{x.shape[0]} of {held}")
    torch._check(x.shape[0] < 9, lambda: f"{x.shape} is too large")
    return x


def has_them_beside_data(x):
    """A number of data is named by the user's names, and a failure on it passes a handler and a `with`."""
    held, lazy = LAZY_LIST, LAZY_OBJECT
    with torch.no_grad():
        n = x.long().sum().item()
        torch._check(n >= 0)
    return x + n + (held is lazy)


class Registry(dict):
    """A registry of functions, as libraries of models have."""


REGISTRY = Registry()


def register(function):
    REGISTRY[function.__name__] = function
    return function


@register
def halved(x):
    return x[: int(x.shape[0] / 2)]


def by_registry(x):
    return REGISTRY["halved"](x)


def own(n):
    return int(n)


TABLES = {kind.__name__: kind(own=functools.partial(own, 1)) for kind in (dict, collections.OrderedDict, Registry)} | {
    "default": collections.defaultdict(list, own=own)
}
