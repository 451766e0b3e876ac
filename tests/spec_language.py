"""Dims rewritten in torch's spec language, so that what holds of one form can be held of the other.

The cases of users are run so: `run.py --exporter tests.spec_language:export_by_spec`, and `torch_by_spec` beside it.
"""

from __future__ import annotations

import inspect

import torch
from torch.export.dynamic_shapes import _DerivedDim, _DimHintType
from torch.fx.experimental.dynamic_spec import DictSpec, ObjectSpec, SeqSpec, ShapesSpec, ShapeVar, TensorSpec
from torch.utils._sympy.numbers import int_oo

from shapeproof.export import export
from shapeproof.export.declare.reading import Leaf, listed_dims
from shapeproof.export.shim.inputs import binding, dims
from shapeproof.export.shim.modules import uncompiled
from shapeproof.export.shim.trees import keyed_children


def as_spec(mod, args, kwargs, dynamic_shapes, assumptions=lambda **_: ()):
    """Return dynamic_shapes as a ShapesSpec; `assumptions` makes some of its variables, by the names of the Dims."""
    variables = {}

    def size(entry):
        if dims.is_dim(entry):
            return entry.fn(size(entry.root)) if isinstance(entry, _DerivedDim) else variable(entry)
        return entry if entry is None or isinstance(entry, int) else hinted(entry)

    def variable(dim):
        upper = None if dim.max == int_oo else dim.max
        return variables.setdefault(dim.__name__, ShapeVar(dim.__name__, min=dim.min, max=upper))

    def hinted(hint):
        return None if hint.type == _DimHintType.STATIC else ShapeVar(min=hint.min or 0, max=hint.max)

    def leaf(source, entry):
        example = examples[source]
        if isinstance(example, torch.Tensor):
            return TensorSpec([size(each) for each in listed_dims(Leaf(source, source, example), entry)])
        return size(entry)

    if isinstance(dynamic_shapes, torch.export.ShapesCollection):
        args, kwargs, dynamic_shapes = binding.read_collection(mod, args, kwargs, dynamic_shapes)
    mod = uncompiled(mod)
    kwargs = binding.in_order(mod, args, kwargs or {})
    examples = {source: value for source, _, value in binding.name_leaves(mod, args, kwargs)}
    bound = binding.bind(mod, args, kwargs)
    named = dynamic_shapes
    if isinstance(named, tuple | list):
        named = dict(zip(bound, named, strict=True))
    tree = binding.map_shapes(mod, args, kwargs, named, leaf)
    params = dict(_parameters(mod, {name: _nested(bound[name], each) for name, each in tree.items()}))
    return ShapesSpec(params, assumptions=list(assumptions(**variables)))


def _parameters(mod, entries):
    for name, entry in entries.items():
        kind = inspect.signature(mod.forward).parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield "*args", entry._entries
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield "**kwargs", dict(entry.items())
        else:
            yield name, entry


def _nested(value, entry):
    parts = keyed_children(value)
    if parts is None:
        return entry
    entries = entry.values() if isinstance(entry, dict) else entry
    inside = {key: _nested(part, of) for (key, part), of in zip(parts, entries, strict=True)}
    if isinstance(value, list | tuple):
        return SeqSpec(list(inside.values()))
    return DictSpec(inside) if isinstance(value, dict) else ObjectSpec(inside)


def _inferred(dynamic_shapes):
    leaves = torch.utils._pytree.tree_leaves(dynamic_shapes, is_leaf=dims.is_hint)
    hints = [each for each in leaves if dims.is_hint(each) and each.type != _DimHintType.STATIC]
    return any(each.min is None and each.max is None for each in hints)


def export_by_spec(mod, args, kwargs=None, *, dynamic_shapes=None, **options):
    """Export by the ShapesSpec of dynamic_shapes; a spec infers nothing: sizes under a hint may be narrowed."""
    narrow = isinstance(dynamic_shapes, torch.export.ShapesCollection) or _inferred(dynamic_shapes)
    spec = as_spec(mod, args, kwargs, dynamic_shapes) if dynamic_shapes else dynamic_shapes
    return export(mod, args, kwargs, dynamic_shapes=spec, narrow=narrow, **options)


def torch_by_spec(mod, args, kwargs=None, *, dynamic_shapes=None):
    """The same by torch.export, from torch 2.14 on."""
    spec = as_spec(mod, args, kwargs, dynamic_shapes) if dynamic_shapes else dynamic_shapes
    return torch.export.export(mod, args, kwargs, dynamic_shapes=spec)
