"""Torch's checks of a program's inputs: guards of a module, the structure of inputs, saved guards."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._guards import TracingContext
from torch.export._unlift import _ok_to_generate_guards_fn, eq_spec


def assert_all(condition: torch.Tensor, message: str) -> None:
    """Raise when the program runs if some element of the condition is false; an accelerator needs no host for it."""
    torch.ops.aten._assert_async.msg(condition.all(), message)


def guard_inputs(module: torch.fx.GraphModule, guards: torch.nn.Module, state: Iterable[str]) -> None:
    """Call `guards` first, with the flat inputs and these tensors of the model; torch's consumers know it by its name.

    A deep copy of the module keeps the call, but loses every hook.
    """
    inputs = module.graph.find_nodes(op="placeholder")
    held = {str(node.target): node for node in module.graph.find_nodes(op="get_attr")}
    called_with = [*inputs, *(held[name] for name in state)]
    module._guards_fn = guards
    guards._is_impure = True  # type: ignore[assignment] # torch's word for what no elimination of dead code drops
    last = max(called_with, key=list(module.graph.nodes).index)
    with module.graph.inserting_after(last):
        node = module.graph.call_module("_guards_fn", tuple(called_with))
    node.meta["nn_module_stack"] = torch.fx._utils.first_call_function_nn_module_stack(module.graph)
    module.recompile()


def takes_guards() -> bool:
    """True if the code that creates a module now supports guards in its graph; torch knows code that does not."""
    return bool(_ok_to_generate_guards_fn())


def is_traced() -> bool:
    """True if torch.compile, torch.export or AOTAutograd traces the program now; false if the program runs."""
    return torch.compiler.is_compiling() or TracingContext.try_get() is not None


def guard_structure(module: Any, refusal: Callable[[str], Exception]) -> None:
    """Refuse inputs whose structure differs from the example's, in place of torch's own check."""
    module.validate_inputs = False

    def structured(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return arranged(args, kwargs, module._in_spec, refusal)

    module.register_forward_pre_hook(structured, prepend=True, with_kwargs=True)


def arranged(
    args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, refusal: Callable[[str], Exception]
) -> tuple[Any, dict[str, Any]]:
    """Return inputs with the keys of each dict in the expected order; raise `refusal` of the first other difference.

    >>> spec = pytree.tree_structure((({"a": 1, "b": 2},), {}))
    >>> arranged(({"b": 3, "a": 4},), {}, spec, ValueError)
    (({'a': 4, 'b': 3},), {})
    """
    if pytree.tree_structure((args, kwargs)) != spec:
        args, kwargs = _in_order((args, kwargs), spec)
        said = _misfit(args, kwargs, spec)
        if said is not None:
            raise refusal(said)
    return args, kwargs


def _in_order(value: Any, spec: Any) -> Any:
    """Return a nested structure with the keys of each dict in the order of `spec`, wherever the two are alike."""
    node = pytree.SUPPORTED_NODES.get(spec.type)
    if node is None or pytree._get_node_type(value) is not spec.type:
        return value
    parts, context = node.flatten_fn(value)
    if spec.type in pytree.STANDARD_DICT_TYPES:
        keys = spec.context[1] if spec.type is collections.defaultdict else spec.context
        if value.keys() != set(keys):
            return value
        parts = [value[key] for key in keys]
        context = [value.default_factory, keys] if spec.type is collections.defaultdict else keys
    if len(parts) != spec.num_children:
        return value
    return node.unflatten_fn(list(map(_in_order, parts, spec.children())), context)


def _misfit(args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> str | None:
    """Describe the first difference between the structure of inputs and the expected one; None if there is none."""
    received = pytree.tree_structure((args, kwargs))
    if eq_spec(received, spec):
        return None
    positional, named = spec.children()
    if len(args) != positional.num_children:
        return f"{len(args)} positional arguments are given, but {positional.num_children} are declared"
    if kwargs.keys() != set(named.context):
        return f"the keyword arguments {sorted(kwargs)} are given, but {sorted(named.context)} are declared"
    mine = [each for half in received.children() for each in half.children()]
    given = zip(mine, [*positional.children(), *named.children()], strict=True)
    return next(
        f"argument {number} is structured as {_in_a_line(mine)}, but {_in_a_line(other)} is declared"
        for number, (mine, other) in enumerate(given, 1)
        if not eq_spec(mine, other)
    )


def _in_a_line(spec: Any) -> str:
    return "a leaf" if spec.is_leaf() else " ".join(str(spec).split())


def note_guards(program: torch.export.ExportedProgram, code: Iterable[str]) -> None:
    """Store guards in a program that is saved; torch's `module()` compiles them and refuses inputs that violate them.

    They are Python over `L['flat_args'][0]` and so on, the flat inputs in order.
    """
    program._guards_code = list(code)
