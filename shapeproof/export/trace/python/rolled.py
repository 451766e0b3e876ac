"""Records one step of a loop for all of them: `scan` of torch's graphs.

A loop over a symbolic size is recorded as one operator, whose body is one step. Law (induction over the steps): the
first step is given what the loop is given, each later one what the step before it carries on, and the body is that of
an arbitrary step. A body depends on its step only through rows: `x[:, i]` of a tensor that the loop leaves as it is.
Whatever else would depend on it raises, and then the loop is written into the program as often as it runs.

A body runs twice while it is recorded, and not once a step. So it may leave nothing behind in Python, and find nothing
there that changes. It calls torch's functions, methods of tensors and torch's own modules, reads attributes, and takes
elements of tensors and plain containers; each call, read and iteration passes through a function that refuses all else
(`call`, `read`, `take_of`, `each_of`), and no code of a user's or of another library may run within.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, BuiltinMethodType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.export.ops.shapes.layouts import lies_row_by_row
from shapeproof.export.shim.bodies import has_hooks
from shapeproof.export.shim.process.modes import unwatched
from shapeproof.export.source.abstract import is_a
from shapeproof.export.source.instructions import codes_within
from shapeproof.export.trace.python import loops
from shapeproof.export.trace.python.one_body import Body, Index, NotOneBody, is_recording
from shapeproof.export.trace.python.plain_numbers import CALLED, Range
from shapeproof.export.trace.python.plain_objects import FOREIGN

_Step = Callable[..., tuple[tuple[Any, ...], tuple[Any, ...]]]


class Rows(Sequence[Any]):
    """A list to which each step appended a tensor: it is stacked or concatenated, and nothing else."""

    def __init__(self, stacked: torch.Tensor) -> None:
        self.stacked = stacked

    def _refuse(self, *_: object) -> Any:
        raise NotOneBody("the rows of the loop are more than joined")

    __len__ = __getitem__ = __iter__ = __bool__ = _refuse


class Parted(list[Any]):
    """The rows of a tensor, of which there is a symbolic number: they are stacked or concatenated, and nothing else.

    Torch reads a list's elements past its methods: the one element passes the call of torch's function on.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__([_Joining()])
        self.stacked = tensor

    def _refuse(self, *_: object, **__: object) -> Any:
        raise NotOneBody("the rows of a tensor are more than joined")

    __radd__ = __copy__ = __deepcopy__ = _refuse

    def __bool__(self) -> bool:
        return True  # there is at least one


_LISTS = {name for name, value in vars(list).items() if callable(value)}
for _name in _LISTS - {"__new__", "__init__", "__getattribute__", "__hash__", "__class_getitem__"}:
    setattr(Parted, _name, Parted._refuse)  # noqa: SLF001 - it is the class's own


class _Joining:
    """The one element of a parted tensor."""

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Join the rows."""
        return join(function, *args, **(kwargs or {}))


def parted(tensor: torch.Tensor) -> Parted:
    """Return the rows of a tensor, if there is one at least, and if they lie so that one operator joins them."""
    env = tensor.shape[0].node.shape_env  # type: ignore[attr-defined]
    with unwatched():
        some = env.trial.settled(f.ge(env.read(tensor.shape[0]), 1)) is True
        if not (some and tensor.layout is torch.strided and lies_row_by_row(tensor, env.read)):
            raise NotOneBody("the rows of a tensor are joined in another layout")
    return Parted(tensor)


class Filled:
    """A tensor of which each step writes a row."""

    def __init__(self, tensor: torch.Tensor, dim: int) -> None:
        self.tensor = tensor
        self._dim = dim

    def row(self, row: Any) -> torch.Tensor:
        """Return what is written of a row, in the tensor's type."""
        to, device = self.tensor.dtype, self.tensor.device
        return row.to(to) if isinstance(row, torch.Tensor) else torch.full((), row, dtype=to, device=device)

    def take(self, start: int, stacked: torch.Tensor) -> None:
        """Write all rows, from a number on."""
        dim = self._dim % self.tensor.dim()
        for _ in range(self.tensor.dim() - stacked.dim()):
            stacked = stacked.unsqueeze(1)
        self.tensor.narrow(dim, start, stacked.shape[0]).copy_(stacked.movedim(0, dim))


def can_roll(steps: object) -> bool:
    """True for the numbers from a plain one on, of which there is a symbolic number, while a program is recorded."""
    if type(steps) is not Range or type(steps.length) is not torch.SymInt or not is_recording(steps.length):
        return False
    return type(steps.start) is int and steps.start >= 0 and type(steps.step) is int and steps.step == 1


def numbers_of_rows(*tensors: Any) -> Range | None:
    """Return the numbers of the rows over which a loop walks; None unless tensors have the same symbolic number."""
    if not all(is_a(each, torch.Tensor) and each.dim() for each in tensors):
        return None
    first, *others = (each.shape[0] for each in tensors)
    if type(first) is not torch.SymInt:
        return None
    env = first.node.shape_env
    alike = all(env.trial.settled(f.eq(env.read(first), env.read(each))) for each in others)
    return Range(0, first, 1) if alike else None


def roll(steps: Range, step: _Step, carried: tuple[Any, ...], sinks: tuple[Any, ...]) -> tuple[Any, Any]:
    """Record a loop: `step` takes the number of the step and what is carried; it returns what is carried on, and rows.

    The rows are for the sinks: lists, and tensors that are filled. Return what is carried on at last, and the rows. The
    first step is recorded apart if the loop begins with a plain number or None.
    """
    start, count, first = steps.start, steps.length, None
    peeled = not all(isinstance(each, torch.Tensor) for each in carried)
    filled = [each for each in sinks if type(each) is Filled]
    if peeled or len(filled) < len(sinks):
        if count == 0:
            return carried, sinks
        if peeled and filled:
            raise NotOneBody("a loop that fills a tensor begins with something else than tensors")
        if peeled:
            carried, first = step(start, *carried)
            start, count = start + 1, count - 1
    carried, rows = _recorded(step, sinks, Body(carried, start, count, [each.tensor for each in filled]))
    if first is not None:
        rows = [torch.cat([one.unsqueeze(0), others]) for one, others in zip(first, rows, strict=True)]
    for sink, stacked in zip(sinks, rows, strict=True):
        if type(sink) is Filled:
            sink.take(start, stacked)
    return carried, tuple(map(Rows, rows))


def _recorded(step: _Step, sinks: Sequence[Any], body: Body) -> tuple[tuple[Any, ...], Sequence[torch.Tensor]]:
    ways = iter((_leaving_nothing(step),))

    def run(*values: Any) -> tuple[Any, list[Any]]:
        with next(ways, contextlib.nullcontext()):  # the second time, it runs as it ran the first time
            carried, rows = step(Index(0), *values)
        pairs = zip(sinks, rows, strict=True)
        return carried, [sink.row(row) if type(sink) is Filled else row for sink, row in pairs]

    return body.record(run)


def join(function: Callable[..., Any], rows: Any, *args: Any, **kwargs: Any) -> Any:
    """Call torch.stack or torch.cat on the rows of a loop; any other call is left as it is."""
    if type(rows) not in {Rows, Parted}:
        return function(rows, *args, **kwargs)
    dim = args[0] if args else kwargs.get("dim", 0)
    known = function in {torch.stack, torch.cat, torch.concat} and type(dim) is int and kwargs.keys() <= {"dim"}
    if not known or len(args) > 1:
        raise NotOneBody("the rows of the loop are more than joined")
    stacked = rows.stacked
    if function is torch.stack:
        return _laid_out(stacked.movedim(0, dim))
    if stacked.dim() == 1:
        raise NotOneBody("numbers are concatenated")
    dim %= stacked.dim() - 1
    return _laid_out(stacked.movedim(0, dim).flatten(dim, dim + 1))


def _laid_out(joined: torch.Tensor) -> torch.Tensor:
    """Return a copy that lies as what torch joins: where a size is 1, `contiguous()` would leave other strides."""
    return joined.clone(memory_format=torch.contiguous_format)


_NUMBERS = {int, float, bool, len, abs, isinstance, *(CALLED[name] for name in ("int", "float", "len", "isinstance"))}
"""Functions of plain numbers."""
_OF_A_LAYOUT = frozenset(
    {"stride", "is_contiguous", "storage_offset", "data_ptr", "storage", "untyped_storage", "dim_order", "is_set_to"}
    | {"data", "_version", "grad", "grad_fn", "is_leaf", "_base", "requires_grad", "__dict__", "names"}
    | {"backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "requires_grad_", "set_"}
    | {"share_memory_", "resize_", "numpy", "tolist", "item", "apply_", "map_", "__setattr__", "__class__"}
)
"""What a step may not read or call of a tensor: a row lies otherwise in the body that is recorded."""
_MODULES = "torch.nn.modules."
_FUNCTIONS = {"torch.nn.functional", "torch.functional", "torch._tensor"}
_CONTAINERS = (list, tuple, dict, range, torch.Size, torch.nn.ModuleList)


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call what a step calls, if it is torch's and leaves nothing behind."""
    if not (_is_number(function) or _is_module(function) or _is_torchs(function)):
        raise NotOneBody("a step of the loop calls a function that is not torch's")
    return function(*args, **kwargs)


def _is_number(function: Any) -> bool:
    return type(function) in {type, FunctionType, BuiltinFunctionType} and function in _NUMBERS


def _is_module(function: Any) -> bool:
    """True for torch's own modules, whose calls run no code but torch's."""
    if not is_a(function, torch.nn.Module):
        return False
    parts = list(torch.nn.Module.modules(function))
    own = all(str(type(part).__module__).startswith(_MODULES) and "forward" not in vars(part) for part in parts)
    return own and not any(map(has_hooks, parts))


def _is_torchs(function: Any) -> bool:
    """True for functions and methods of tensors that compute, in torch's own code."""
    name, owner = getattr(function, "__name__", "_"), getattr(function, "__self__", None)
    if name.startswith(("_", "set", "manual", "seed", "save", "load")) or name in _OF_A_LAYOUT:
        return False
    if is_a(owner, torch.Tensor) and type(function) is BuiltinMethodType:
        return True
    if is_a(function, (FunctionType, MethodType)):
        return function.__module__ in _FUNCTIONS
    computes = owner is None or is_a(owner, (type, ModuleType))
    return (
        type(function) is BuiltinFunctionType and computes and str(function.__module__ or "torch").startswith("torch")
    )


def read(value: Any, name: str) -> Any:
    """Read an attribute in a step."""
    if is_a(value, torch.Tensor) and name in _OF_A_LAYOUT:
        raise NotOneBody("a step of the loop reads how a tensor lies in memory")
    return getattr(value, name)


def take_of(value: Any) -> Any:
    """Return a value of which a step takes an element."""
    if type(value) not in _CONTAINERS and not is_a(value, torch.Tensor):
        raise NotOneBody("a step of the loop takes an element of an object that is no plain container")
    return value


def each_of(value: Any) -> Any:
    """Return a value over which a step iterates."""
    if type(value) not in {*_CONTAINERS, Range} and not is_a(value, (tuple, torch.Tensor)):
        raise NotOneBody("a step of the loop iterates over an object that is no plain container")
    return value


_TRACING = FOREIGN | {"sympy", "mpmath", "z3", "numpy", "typing_extensions", "None"}
"""The packages that trace, and answer what is asked; what a graph has generated has no name."""


@contextlib.contextmanager
def _leaving_nothing(step: Any) -> Iterator[None]:
    """Refuse a step within which code of a user's or of another library runs: a property, a hook."""
    codes = dict[int, CodeType]()

    def observe(frame: FrameType, event: str, _: Any) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event == "call" and name.partition(".")[0] not in _TRACING and not name.startswith("namedtuple_"):
            codes[id(frame.f_code)] = frame.f_code

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what a collection runs is not the step's
    sys.setprofile(observe)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    within = set(map(id, codes_within(step.__code__)))
    if codes.keys() - within:
        raise NotOneBody("a step of the loop runs code that may leave something behind")


NAMES = {
    loops.CAN_ROLL: can_roll,
    loops.ROLL: roll,
    loops.WALK: numbers_of_rows,
    loops.JOIN: join,
    loops.FILL: Filled,
    loops.CALL: call,
    loops.READ: read,
    loops.TAKE_OF: take_of,
    loops.EACH_OF: each_of,
}
"""The functions that code with loops written over calls, by their global names."""
