"""The contents of a torch.nn.Module, as torch stores them.

Also runs a module on tensors without data: sizes, dtypes and layouts are checked, and nothing is computed.

Torch's fake tensors look like those of eager, and are slow: Swin of four stages takes 0.33 s on them, 0.12 s on torch's
device `meta`, 0.03 s in eager at small sizes. But on `meta` a module may also raise because of the device: it asked for
another one, or holds tensors that are no parameters and no buffers.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
import operator
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any, TypeVar

import numpy as np
import torch
import torch._dynamo
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functional_call

from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.shim.storages import addresses, holds_data
from shapeproof.export.shim.trees import map_tensors, tensors_in

_ModuleT = TypeVar("_ModuleT", bound=torch.nn.Module)


def elements_held(module: torch.nn.Module) -> int:
    """Return the number of elements in the parameters and buffers of a module.

    >>> elements_held(torch.nn.Linear(2, 3))
    9
    """
    held = (*module.parameters(), *module.buffers())
    return sum(each.numel() for each in held if not torch.nn.parameter.is_lazy(each))


def without_data(*holders: Any) -> str | None:
    """Say in a few words why a module, or a tensor in nested values, has no data; None if all tensors have data.

    >>> without_data(torch.nn.Linear(2, 3, device="meta"), []), without_data(torch.nn.Linear(2, 3), [torch.ones(2)])
    ('device meta', None)
    """
    missing = (each for each in tensors_of(*holders) if not holds_data(each))
    return next(("fake tensors" if isinstance(each, FakeTensor) else f"device {each.device}" for each in missing), None)


def tensors_of(*holders: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in modules, those in attributes of their parts included, and in other nested values."""
    for holder in holders:
        values = map(vars, holder.modules()) if isinstance(holder, torch.nn.Module) else (holder,)
        yield from itertools.chain.from_iterable(map(tensors_in, values))


def deep_copied(module: _ModuleT, known: Mapping[Any, Any]) -> tuple[_ModuleT, dict[Any, Any]]:
    """Return a deep copy and its memo, as `copy.deepcopy` does, of what it refuses to copy, too.

    A computed tensor is copied without its history: `torch.nn.utils.weight_norm` leaves one in its module, which each
    call computes again. What else has no copy (a lock, a file, a generator, a scripted function) is shared. A function
    in place of a method, such as a `forward` that calls the first one, goes on to the copy's.
    `known`: the copies to take, by the ids of what they are copies of.

    >>> import threading
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 2))
    >>> layer.lock = threading.Lock()
    >>> computed = layer(torch.ones(1, 2)).grad_fn is not None and layer.weight
    >>> other, memo = deep_copied(layer, {})
    >>> other.lock is layer.lock, memo[id(computed)].is_leaf
    (True, False)
    """
    held = [value for each in module.modules() for value in vars(each).values()]
    computed = {id(each): _copy_alone(each) for each in held if _is_computed(each)}
    empty = {id(each): type(each)() for each in held if type(each) in _CONTAINERS and not each}
    kept: dict[Any, Any] = {**empty, **_fakes_copied(module), **known, **computed}
    while True:
        memo = {**kept, "torch": dict(kept.get("torch", {}))}
        try:
            made = copy.deepcopy(module, memo)
        except Exception as error:
            part = _refused(error)
            if id(part) in kept or isinstance(part, torch.nn.Module | None):
                raise
            kept[id(part)] = _copy_alone(part) if _is_computed(part) else part
        else:
            if any(isinstance(each, torch.fx.GraphModule) for each in module.modules()):
                _hold_as_before(module, made)
            _close_over_copies(made, memo)
            return made, memo


def _hold_as_before(module: torch.nn.Module, made: torch.nn.Module) -> None:
    """Hold each tensor as the module does; torch makes persistent buffers of all in a copy of a graph's module."""
    twins = dict(made.named_modules(remove_duplicate=False))
    for name, part in module.named_modules(remove_duplicate=False):
        twin = twins.get(name)
        if twin is None or twin is part:
            continue
        twin._non_persistent_buffers_set |= part._non_persistent_buffers_set & twin._buffers.keys()
        for field in twin._buffers.keys() - part._buffers.keys():
            twin.__dict__[field] = twin._buffers.pop(field)


def _close_over_copies(made: torch.nn.Module, memo: dict[Any, Any]) -> None:
    """Give a copy its own function, for each that it holds, hooks too, and that reaches what was copied.

    Lists and dictionaries in its closure are copied, as those are that a module holds.
    """
    for part in made.modules():
        held = vars(part)
        for each in (held, *(value for value in held.values() if isinstance(value, dict))):
            closed = {name: _closed(one, memo, {}) for name, one in each.items() if isinstance(one, FunctionType)}
            if closed:
                dict.update(each, closed)  # a model's own kind of dictionary may refuse (the frozen ones of diffusers)


def _closed(value: Any, memo: dict[Any, Any], made: dict[int, Any]) -> Any:
    """Return the copy of what was copied; a function over the copies in its closure and defaults; any other value.

    `made`: the result for each function, by its id: a recursive function is in its own closure.
    """
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, MethodType):
        owner = _closed(value.__self__, memo, made)
        return value if owner is value.__self__ else MethodType(value.__func__, owner)
    if not isinstance(value, FunctionType) or id(value) in made:
        return made.get(id(value), value)
    made[id(value)] = value
    closure, given, named = value.__closure__ or (), value.__defaults__ or (), value.__kwdefaults__ or {}
    cells = tuple(_closed_cell(each, memo, made) for each in closure)
    defaults = tuple(_closed(each, memo, made) for each in given)
    keywords = {name: _closed(each, memo, made) for name, each in named.items()}
    if all(map(operator.is_, (*cells, *defaults, *keywords.values()), (*closure, *given, *named.values()))):
        return value
    recursive = [each != CellType() and each.cell_contents is value for each in cells]
    own = tuple(CellType() if again else _held_apart(each, memo) for each, again in zip(cells, recursive, strict=True))
    function = FunctionType(value.__code__, value.__globals__, value.__name__, defaults or None, own or None)
    for each in itertools.compress(own, recursive):
        each.cell_contents = function
    function.__kwdefaults__ = keywords or None
    function.__dict__.update(value.__dict__)
    return function


def _held_apart(cell: CellType, memo: dict[Any, Any]) -> CellType:
    if cell == CellType() or not isinstance(cell.cell_contents, list | dict):
        return cell
    try:
        return CellType(copy.deepcopy(cell.cell_contents, memo))
    except Exception:  # noqa: BLE001 - it has no copy
        return cell


def _closed_cell(cell: CellType, memo: dict[Any, Any], made: dict[int, Any]) -> CellType:
    try:
        value = cell.cell_contents
    except ValueError:  # it is empty
        return cell
    other = _closed(value, memo, made)
    return cell if other is value else CellType(other)


def held_outside_torch(module: torch.nn.Module, objects: Iterable[Any]) -> tuple[str, Any] | None:
    """Return a tensor of a module in words, with the first of the objects (an array, say) that holds its memory, too.

    >>> layer = torch.nn.Linear(2, 2)
    >>> name, held = held_outside_torch(layer, [[], layer.bias.detach().numpy()])
    >>> name, type(held).__name__
    ('`bias`', 'ndarray')
    """
    reached = [(memory, held) for held in objects if (memory := _memory(held))]
    if not reached:
        return None
    names = {id(each): f"`{name}`" for name, each in (*module.named_parameters(), *module.named_buffers())}
    for each in tensors_of(module):
        if each.device.type == "cpu" and holds_data(each) and each.layout is torch.strided:
            own = addresses(each)
            for memory, held in reached:
                if max(own.start, memory.start) < min(own.stop, memory.stop):
                    return names.get(id(each), "a tensor"), held
    return None


def _memory(value: Any) -> range:
    """Return the addresses between the first and last byte that Python code may write into by an object; or none.

    An array whose memory is read-only is a view of one that may not be, and sees what torch writes.
    """
    try:
        if isinstance(value, np.flatiter):
            value = value.base
        if not isinstance(value, np.ndarray):
            view = memoryview(value)
            if view.readonly:
                return range(0)
            value = np.asarray(view)
    except (TypeError, ValueError, BufferError, RuntimeError):  # it has no memory of its own, or not any more
        return range(0)
    begin = end = np.ndarray.__array_interface__.__get__(value)["data"][0]
    for size, stride in zip(value.shape, value.strides, strict=True):
        begin += min(0, (size - 1) * stride)
        end += max(0, (size - 1) * stride)
    return range(begin, end + value.itemsize) if value.size else range(0)


def _fakes_copied(module: torch.nn.Module) -> dict[int, Any]:
    """Return copies of a module's fake tensors by their ids, as `copy.deepcopy` takes them; storages are shared.

    No elements are there to be copied, and torch's own copy of a fake tensor reads its memory.
    """
    fakes = {id(each): each for each in tensors_of(module) if isinstance(each, FakeTensor)}
    return {key: _detached(each) for key, each in fakes.items()}


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    alone = tensor.detach()
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return (
        torch.nn.Parameter(alone, tensor.requires_grad) if is_parameter else alone.requires_grad_(tensor.requires_grad)
    )


@contextlib.contextmanager
def writes_unnoted(module: torch.nn.Module) -> Iterator[None]:
    """Take away, at the end, what autograd noted of writes into buffers inside this block.

    A trace writes into a buffer that the model keeps in a list, too; its elements stay, since the operands are fake.
    """
    leaves = [each for each in module.buffers() if each.grad_fn is None and not each._is_view()]
    try:
        yield
    finally:
        for each in leaves:
            if each.grad_fn is not None:
                each.detach_()


def _is_computed(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def _copy_alone(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that is computed as well: autograd lets no leaf that requires gradients be written into."""
    with torch.enable_grad():
        return tensor.detach().requires_grad_().clone()


def _refused(error: Exception) -> Any:
    """Return the object that `copy.deepcopy` could not copy; None if the error is another's."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    copying = [frame for frame in frames if frame.f_code is copy.deepcopy.__code__]
    return copying[-1].f_locals["x"] if copying else None


_CONTAINERS = (dict, OrderedDict, list, set)
"""A module has ten of them, most of them empty: `copy.deepcopy` takes a third of its time for those."""

GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    torch.nn.modules.module._global_forward_hooks,
    torch.nn.modules.module._global_forward_pre_hooks,
    torch.nn.modules.module._global_backward_hooks,
    torch.nn.modules.module._global_backward_pre_hooks,
)
"""The hooks that every module's call runs."""

NOT_OF_FORWARD = frozenset(
    {
        "training",
        "_is_full_backward_hook",
        "_non_persistent_buffers_set",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    }
)
"""The mode of a module, and its attributes that saving and loading read."""

KNOWN_BY_IDENTITY = (
    *(torch.dtype, torch.layout, torch.memory_format, torch.finfo, torch.iinfo),
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch.fx.Graph),
)
"""Classes of torch's whose objects stay as they are; a module of a graph is compiled anew where the graph changes."""


def uncompiled(mod: Any) -> Any:
    """Return the model that torch.compile wraps in a module; one with hooks of its own stays, since it does more.

    >>> layer = torch.nn.Linear(2, 3)
    >>> uncompiled(torch.compile(layer)) is layer, uncompiled(layer) is layer
    (True, True)
    """
    if not isinstance(mod, torch._dynamo.OptimizedModule):
        return mod
    hooks = mod._forward_hooks, mod._forward_pre_hooks, mod._backward_hooks, mod._backward_pre_hooks
    return mod if any(hooks) else mod._orig_mod


def registered(module: torch.nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the dicts that hold the parameters and buffers of a module."""
    return module._parameters, module._buffers


def module_around(
    run: Callable[[dict[str, torch.Tensor], tuple[Any, ...], dict[str, Any]], Any],
    tensors: Mapping[str, torch.Tensor],
    taken: Iterable[inspect.Parameter],
) -> torch.nn.Module:
    """Return a module that takes some parameters and gives what `run` gives for its tensors, by name, and its inputs.

    Its tensors keep their dotted names. It holds nothing else, so copies are cheap.
    """

    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        own: dict[str, Any] = {name: functools.reduce(getattr, name.split("."), self) for name in tensors}
        return run(own, args, kwargs)

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    vars(forward)["__signature__"] = inspect.Signature([itself, *taken])
    module: torch.nn.Module = type("Around", (torch.nn.Module,), {"forward": forward})()
    for name, tensor in tensors.items():
        _put(module, name, tensor)
    return module


def _put(module: torch.nn.Module, path: str, tensor: torch.Tensor) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(module, parent):
            module.add_module(parent, torch.nn.Module())
        module = getattr(module, parent)
    if isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def error_on_meta(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception | None:
    """Return what a module raises on the device `meta`, or None; its own parameters and buffers stay where they are.

    >>> error_on_meta(torch.nn.Linear(2, 3), (torch.ones(4, 2),), {}) is None
    True
    >>> type(error_on_meta(torch.nn.Linear(2, 3), (torch.ones(4, 5),), {})).__name__
    'RuntimeError'
    """
    try:
        state = {name: _emptied(tensor) for name, tensor in (*mod.named_parameters(), *mod.named_buffers())}
        given, named = map_tensors((args, dict(kwargs)), _emptied)
        with quiet(), transforms_ended(), torch.device("meta"):
            functional_call(mod, state, given, named)
    except Exception as error:  # noqa: BLE001 - whatever the module raises is the answer
        return error
    return None


def _emptied(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="meta").requires_grad_(tensor.requires_grad)
