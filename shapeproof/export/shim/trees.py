"""Nested structures of tensors, as torch flattens them.

Also forms of a program for its consumers: compiled, decomposed, with structured results.
"""

from __future__ import annotations

import functools
import importlib
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from shapeproof.constraints.errors import UsageError

PAD_SEQUENCE = torch._C._nn.pad_sequence
"""The function that torch.nn.utils.rnn.pad_sequence calls."""
leaves: Callable[[Any], list[Any]] = pytree.tree_leaves
"""Returns the leaves of a nested structure, in order."""
_WITHOUT_TENSORS = frozenset({bool, int, float, str, type(None)})
flattened: Callable[[Any], tuple[list[Any], Hashable]] = pytree.tree_flatten
"""Returns the leaves of a nested structure, in order, and the structure."""


def graph_modules(module: torch.nn.Module) -> list[torch.fx.GraphModule]:
    """Return the graph modules in a module: a program's own, and the bodies of its higher-order operators."""
    return [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]


def sizes_as_tuples(tree: Any) -> Any:
    """Return a nested structure with a tuple for each torch.Size, as torch's modules give it.

    >>> sizes_as_tuples([torch.Size([2]), (3,)])
    [(2,), (3,)]
    """
    return pytree.tree_map(lambda leaf: tuple(leaf) if _is_size(leaf) else leaf, tree, is_leaf=_is_size)


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.Size)


def sized_as(spec: Any) -> Callable[[Any], Any] | None:
    """A function that has each torch.Size of this structure be one again, which torch's modules give as tuples.

    None where there is none.

    >>> sized_as(pytree.tree_structure([torch.Size([2]), (3,)]))([(2,), (3,)])
    [torch.Size([2]), (3,)]
    """
    return functools.partial(_sized, spec) if _has_sizes(spec) else None


def _has_sizes(spec: Any) -> bool:
    return spec.type is torch.Size or any(map(_has_sizes, spec.children()))


def _sized(spec: Any, value: Any) -> Any:
    if spec.type is torch.Size:
        return torch.Size(value)
    if not _has_sizes(spec):
        return value
    node = pytree.SUPPORTED_NODES[spec.type]
    parts, context = node.flatten_fn(value)
    return node.unflatten_fn(list(map(_sized, spec.children(), parts)), context)


def is_bare(value: Any) -> bool:
    """True if a value is a plain fake strided tensor: without known elements, tangent, conjugate or negative bit."""
    if type(value) is not FakeTensor or value.constant is not None or forward_ad._current_level >= 0:
        return False
    return value.layout == torch.strided and not (value.is_conj() or value.is_neg())


def keyed_children(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the parts into which torch flattens a node, each with its key, index or name; None for a leaf."""
    node = pytree.SUPPORTED_NODES.get(pytree._get_node_type(value))
    if node is None or node.flatten_with_keys_fn is None:
        return None
    return [(_key(key), part) for key, part in node.flatten_with_keys_fn(value)[0]]


def _key(key: Any) -> Any:
    match key:
        case pytree.SequenceKey(index):
            return index
        case pytree.MappingKey(own):
            return own
        case pytree.GetAttrKey(name):
            return name
    return key


def container_kind(value: Any) -> str:
    """Return the class of a container and what torch flattens with its parts, which are equal in all accepted values.

    >>> from collections import OrderedDict
    >>> container_kind(OrderedDict(a=1)), container_kind({"a": 1})
    ("collections.OrderedDict ['a']", '')
    """
    kind = type(value)
    return "" if kind is dict else f"{kind.__module__}.{kind.__qualname__} {pytree.tree_structure(value).context}"


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """Return the tensors among the leaves of a nested structure.

    >>> tensors_in([{"a": torch.tensor(1)}, torch.return_types.max((torch.tensor(2), 3)), "b", None])
    [tensor(1), tensor(2)]
    """
    found: list[torch.Tensor] = []
    _add_tensors(tree, found)
    return found


def _add_tensors(tree: Any, found: list[torch.Tensor]) -> None:
    """Walk as torch does, at a fifth of its time: it looks at the class of each leaf for a named tuple."""
    kind = type(tree)
    if kind in _WITHOUT_TENSORS:
        return
    if kind is list or kind is tuple or kind is dict or kind is OrderedDict:
        for each in tree.values() if issubclass(kind, dict) else tree:
            _add_tensors(each, found)
    elif kind in pytree.SUPPORTED_NODES or isinstance(tree, tuple):
        found += [each for each in leaves(tree) if isinstance(each, torch.Tensor)]
    elif isinstance(tree, torch.Tensor):
        found.append(tree)


def map_tensors(tree: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return the nested structure with every tensor changed."""
    return pytree.tree_map_only(torch.Tensor, change, tree)


def map_all(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return the nested structure with every leaf changed."""
    return pytree.tree_map(change, tree)


def unflattened(results: Sequence[Any], program: torch.export.ExportedProgram) -> Any:
    """Return the flat results of a program in the structure that the program returns."""
    return pytree.tree_unflatten(list(results), program.call_spec.out_spec)


def as_compiled(program: torch.export.ExportedProgram, whole: Container[Any] = ()) -> torch.export.ExportedProgram:
    """Return the program decomposed as AOTInductor decomposes it before compilation, but for these operators."""
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()  # torch's table, less operators kept whole, and the compiler's rules
    kept = {func: rule for func, rule in table.items() if func not in whole}
    return torch.export.ExportedProgram.run_decompositions(program, kept)


def aot_packaged(program: torch.export.ExportedProgram, path: str) -> None:
    """Compile the program by AOTInductor into a package, which has its own copy of the weights; `path` ends in .pt2."""
    import torch._inductor

    torch._inductor.aoti_compile_and_package(program, package_path=path)


def aot_loaded(path: str) -> Callable[..., Any]:
    """Return what a package of AOTInductor computes, as a callable that takes what the program takes."""
    import torch._inductor

    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(path)
    return loaded


def onnx_session(model: str | bytes) -> tuple[list[str], Callable[[Mapping[str, Any]], list[torch.Tensor]]]:
    """Return the names of the inputs of an ONNX model, a file or its content, and what runs it with inputs by name."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what it refuses is an error, and is not logged, too
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(given: Mapping[str, Any]) -> list[torch.Tensor]:
        feed = {name: torch.as_tensor(given[name], device="cpu").detach().numpy() for name in names}
        return [torch.as_tensor(each, device="cpu") for each in session.run(None, feed)]

    return names, run


def require(user: str, packages: Iterable[str]) -> None:
    """Import what something needs.

    Raises:
        UsageError: it is missing.
    """
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError:
            raise UsageError(f"{user} needs {package}: pip install shapeproof[consumers]") from None
