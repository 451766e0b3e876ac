"""Run a call without computing what depends on floats that are given: their tensors are hollow.

A hollow tensor has the class, sizes, strides, dtype and device that it has in eager, so the model cannot tell; nobody
has written into its memory. An operator that reads one is not run: its results are hollow again, and lie as torch's
fake kernels say. All else is computed: sizes, masks, positions, `item()` of them.

The contents of a hollow tensor have a *number*. Law: equal numbers stand for equal contents, to the bit: the same
kernels were called on equal operands, in the same modes, with the same random numbers.

A run gives up where it would need the elements of a hollow tensor: `item()`, a number of rows from data, an index that
may be out of range, an operator that is not torch's own.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shapeproof.export.limits import CHEAP_ELEMENTS
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import family_of, kind_of, known_of
from shapeproof.export.shim.process.modes import generators_restored, modes, precision
from shapeproof.export.shim.storages import (
    bytes_of,
    holds_data,
    identity,
    is_fake,
    is_own,
    kind,
    storage_objects,
    storage_of,
    strided_tensors,
)
from shapeproof.export.shim.trees import leaves, map_tensors
from shapeproof.export.shim.without_data import Fakes, empty_twin
from shapeproof.export.trace.checks.failures import is_of_tracing, may_fail

_META = torch.device("meta")

FEW_ELEMENTS = 64
"""A tensor of so few floats keeps them: a scale, or a bias, that a model may read."""

_MOST_DRAWN = 2**14
"""The most random numbers by which the generator is advanced for a call that is not run."""

Lies = tuple[Any, ...]
"""How a tensor lies in its storage: sizes, strides, offset, dtype, device."""


Laid = tuple[Any, tuple[Lies, ...], Hashable]
"""A call apart from contents: the operator, how its tensors lie, and its other arguments."""


class Unknown(RuntimeError):
    """What a run would need to know is the elements of a hollow tensor."""


@dataclass(frozen=True, slots=True)
class Hollow:
    """A hollow operand: the number of its storage's contents, and how it lies there; None: as it was computed."""

    contents: int
    lies: Lies | None


@dataclass(frozen=True, slots=True)
class Solid:
    """An operand whose elements are known, by a digest of them."""

    digest: bytes
    lies: Lies


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand that is no tensor; 1, 1.0 and True are three."""

    type: type
    text: str
    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class Made:
    """Contents that a call made.

    Attributes:
        number: their number.
        part: the place of the tensor among the results of the call, or among the operands that it writes.
        lies: how the tensor lies; None if it is only a part of what the storage holds.
    """

    number: int
    part: tuple[bool, int]
    lies: Lies | None


@dataclass(slots=True)
class Numbers:
    """The numbers of contents, the same for all runs that are compared."""

    known: dict[Hashable, int] = field(default_factory=dict)
    solid: dict[Solid | int, torch.Tensor] = field(default_factory=dict)
    """Elements that were read, by their digest; by number the bytes of storages that are given or became hollow."""
    laid: dict[Hashable, Any] = field(default_factory=dict)
    """The fake results of a call, by its operator, the layouts of its operands, and its constants."""
    tried: set[Hashable] = field(default_factory=set)
    """The calls whose kernels were seen to lay out their results so."""
    fakes: Fakes = field(default_factory=Fakes)

    def of(self, key: Hashable) -> int:
        """Return the number of what a key describes."""
        return self.known.setdefault(key, len(self.known))


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator that was not run.

    Attributes:
        func: the operator.
        told: its arguments, by name.
        around: what else its results depend on: modes, and the random numbers that it draws, if any.
        results: the contents that it made.
    """

    func: Any
    told: tuple[tuple[str, Any], ...]
    around: tuple[tuple[Hashable, ...], Hashable]
    results: list[Made]

    def number(self, numbers: Numbers) -> int:
        """Return the number of the call."""
        return numbers.of((self.func, self.told, self.around))


@dataclass(slots=True)
class Run:
    """What is known of the tensors of one run."""

    numbers: Numbers
    keeps_few: bool = True
    """Whether integers, and tensors of few floats, keep their elements."""
    tries_kernels: bool = True
    """Whether each kernel runs once for the layouts of its operands: it may refuse what torch's fake kernel accepts."""
    calls: list[Call] = field(default_factory=list)
    unknown: str | None = None
    """Why the run has given up. It stays so, should the model catch the error."""
    _contents: dict[Any, tuple[int, Lies | None]] = field(default_factory=dict)
    """By storage the number of its contents, and how the tensor lay that was computed into it."""

    def emptied(self, tensors: Iterable[torch.Tensor]) -> dict[Any, Any]:
        """Return the memo with which `copy.deepcopy` gives hollow twins of tensors that keep no elements.

        Tensors that share memory have twins that share memory, wherever the model holds them.
        """
        given = list(tensors)
        hollow = {storage_of(each) for each in given if self._is_emptied(each)}
        memory: dict[Any, torch.UntypedStorage] = {}
        twins: dict[Any, Any] = {"torch": {}}
        for each in given:
            storage = storage_of(each)
            if storage not in hollow:
                continue
            if storage not in memory:
                (own,) = storage_objects(each)
                made = torch.empty(own.nbytes(), dtype=torch.uint8, device=each.device if holds_data(each) else "cpu")
                memory[storage] = twins["torch"][identity(own)] = made.untyped_storage()
                number = self.numbers.of(("given", storage))
                self._contents[storage_of(made)] = number, None
                if holds_data(each):
                    self.numbers.solid[number] = bytes_of(own)
            twins[id(each)] = empty_twin(each, memory[storage])
        return twins

    def _is_emptied(self, tensor: torch.Tensor) -> bool:
        floats = tensor.is_floating_point() or tensor.is_complex()
        if not (is_plain(tensor) or is_fake(tensor)) or tensor.grad_fn is not None:
            raise Unknown(f"a tensor of class {type(tensor).__name__}")
        without = not holds_data(tensor) or not self.keeps_few
        return without or tensor.numel() > (FEW_ELEMENTS if floats else CHEAP_ELEMENTS)

    def is_hollow(self, value: Any) -> bool:
        """True if nobody has computed the elements of a tensor."""
        return isinstance(value, torch.Tensor) and value.layout == torch.strided and storage_of(value) in self._contents

    def read(self, tensor: torch.Tensor) -> Hollow | Solid:
        """Return what an operator reads of a tensor."""
        found = self._contents.get(storage_of(tensor)) if tensor.layout == torch.strided else None
        if found is not None:
            number, lies = found
            return Hollow(number, None if lies == lying(tensor) else lying(tensor))
        if not is_plain(tensor):
            raise Unknown(f"a tensor of class {type(tensor).__name__}")
        solid = Solid(_digest(tensor), lying(tensor))
        if tensor.numel() <= CHEAP_ELEMENTS and solid not in self.numbers.solid:
            self.numbers.solid[solid] = tensor.detach().clone()
        return solid

    def read_unseen(self, about: Any, how: str) -> None:
        """Give up if somebody reads a hollow tensor by a method that runs no operator, or does what no number tells."""
        if self.is_hollow(about) or not isinstance(about, torch.Tensor):
            self._give_up(f"`{how}`")

    # ------------------------------------------------------------------ calls

    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], plainly: Any) -> Any:
        """Call an operator: `plainly` if it reads nothing hollow, or no elements; else make its results hollow."""
        if self.unknown is not None:
            raise Unknown(self.unknown)
        if kwargs.get("device") == _META:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        tensors = list(strided_tensors([*args, *kwargs.values()]))
        if not _draws(func, args, kwargs) and not any(map(self.is_hollow, tensors)):
            return plainly(func, args, kwargs)
        if _reads_no_elements(func):
            return func(*args, **kwargs)
        self._check(func, args, kwargs, tensors)
        try:
            return self._hollowed(func, args, kwargs, tensors)
        except Unknown as unknown:
            self._give_up(str(unknown))
        except Exception as error:
            if is_of_tracing(error, func) or not self._kernel_raises((func, args, kwargs)):
                self._give_up(f"`{func}`")
            raise

    def _give_up(self, needs: str) -> None:
        self.unknown = needs
        raise Unknown(needs)

    def _check(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: Sequence[torch.Tensor]
    ) -> None:
        """Give up if a call may fail on elements that are known, or is not torch's own."""
        if getattr(func, "namespace", None) not in {"aten", "prims"} or known_of(func).resizes:
            self._give_up(f"`{func}`")
        if not may_fail(func, args, kwargs, lambda _: False):
            return
        checked = set(map(id, _indices_in_range(schemas.by_name(func, args, kwargs), known_of(func), self.is_hollow)))
        if any(_may_be_index(each) and not self.is_hollow(each) and id(each) not in checked for each in tensors):
            self._give_up(f"`{func}` of integers")

    def _hollowed(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: Sequence[torch.Tensor]
    ) -> Any:
        written = list(strided_tensors(schemas.written(func, args, kwargs)))
        for each in written:
            self._make_hollow(each)
        told = tuple((name, self._told(value)) for name, value in sorted(schemas.by_name(func, args, kwargs).items()))
        laid = func, tuple(map(lying, tensors)), _apart_from_contents(told)
        around = modes(), precision(), _shared(tensors) if written else ()
        call = Call(func, told, (around, self._drawn(laid) if _draws(func, args, kwargs) else None), [])
        number = call.number(self.numbers)
        result = self._results((func, args, kwargs), written, laid)
        if known_of(func).in_order and _is_alike(args[0], result):
            self._contents[storage_of(result)] = self._contents[storage_of(args[0])]
            return result
        for index, each in enumerate(strided_tensors(result)):
            if storage_of(each) not in self._contents:  # else it is what the call writes, or a view
                self._note(call, each, (number, (False, index)), lying(each))
        for index, each in enumerate(written):
            whole = self._contents[storage_of(each)][1] == lying(each) or _is_whole(each)
            self._note(call, each, (number, (True, index)), lying(each) if whole else None)
        self.calls.append(call)
        return result

    def _note(self, call: Call, tensor: torch.Tensor, made: tuple[int, tuple[bool, int]], lies: Lies | None) -> None:
        number = self.numbers.of(made)
        call.results.append(Made(number, made[1], lies))
        self._contents[storage_of(tensor)] = number, lies

    def _make_hollow(self, tensor: torch.Tensor) -> None:
        """Turn a tensor that is about to be written into a hollow one, whose contents are its present elements."""
        storage = storage_of(tensor)
        if storage in self._contents:
            return
        if not is_plain(tensor) or storage is None:
            raise Unknown(f"a tensor of class {type(tensor).__name__}")
        whole = bytes_of(tensor.untyped_storage())
        number = self.numbers.of(("known", _digest(whole)))
        self.numbers.solid.setdefault(number, whole.clone())
        self._contents[storage] = number, None

    def _drawn(self, laid: Laid) -> Hashable:
        """Return what random numbers a call draws, and advance the generator, which an operator not run leaves.

        It is advanced otherwise for another operator, other sizes or constants: a model may set its state back, and
        `torch.rand(2)` draws fewer numbers than `torch.rand(3)`.
        """
        func, tensors, constants = laid
        if not {each[4].type for each in tensors} <= {"cpu", "meta"} or _has_generator(constants):
            raise Unknown("random numbers of another generator")
        state = hashlib.blake2b(torch.default_generator.get_state().numpy().tobytes()).hexdigest()
        about = hashlib.blake2b(repr((str(func), tensors, constants)).encode(), digest_size=4).digest()
        torch.rand(1 + int.from_bytes(about, "big") % _MOST_DRAWN, device="cpu")
        return self.numbers.of(("drawn", state, laid))

    def _results(self, call: tuple[Any, Any, Any], written: Sequence[torch.Tensor], laid: Laid) -> Any:
        """Return the results of a call: what it writes, and hollow tensors that lie as torch says."""
        func, args, kwargs = call
        returns_written = bool(written) and schemas.returns_written(func)
        if laid not in self.numbers.laid and not returns_written:
            self.numbers.laid[laid] = self.numbers.fakes.run(func, args, kwargs)
        made = self.numbers.laid.get(laid)
        if self.tries_kernels and laid not in self.numbers.tried:
            self._try_kernel(call, written, written if returns_written else made)
            self.numbers.tried.add(laid)
        if returns_written:
            return tuple(written) if len(written) > 1 else written[0]
        if made is None or any(not isinstance(each, torch.Tensor | None) for each in leaves(made)):
            raise Unknown(f"`{func}`")
        return map_tensors(made, _hollow_like)

    def _try_kernel(self, call: tuple[Any, Any, Any], written: Sequence[torch.Tensor], expected: Any) -> None:
        """Give up unless a kernel runs, and its results lie as expected."""
        tensors = list(strided_tensors([*call[1], *call[2].values()]))
        if written and len(set(map(storage_of, tensors))) < len(set(map(id, tensors))):
            raise Unknown(f"memory that `{call[0]}` writes, and reads under another layout")
        try:
            made, read = self._run_kernel(call, written)
        except Exception as error:  # noqa: BLE001 - whatever it raises, data tell whether eager raises it, too
            raise Unknown(f"`{call[0]}`, which raises {type(error).__name__}") from None
        shares = not read.isdisjoint(map(storage_of, strided_tensors(made)))
        if shares or list(map(_laid_out, made)) != list(map(_laid_out, leaves(expected))):
            raise Unknown(f"how `{call[0]}` lays out its results")

    def _run_kernel(self, call: tuple[Any, Any, Any], written: Sequence[torch.Tensor]) -> tuple[list[Any], set[Any]]:
        """Run a kernel on numbers that nobody has computed; return its results, and the memory that it only reads.

        Large operands that it only reads are the hollow ones: their memory takes no room as long as nobody writes.
        """
        func, args, kwargs = call
        tensors = {id(each): each for each in strided_tensors([*args, *kwargs.values()])}
        written_to = set(map(id, written))
        own = {
            key: _of_one_number(each)
            for key, each in tensors.items()
            if key in written_to or (self.is_hollow(each) and each.numel() <= CHEAP_ELEMENTS)
        }
        read = {storage_of(own.get(key, each)) for key, each in tensors.items() if key not in written_to}
        given, named = map_tensors((tuple(args), dict(kwargs)), lambda each: own.get(id(each), each))
        with generators_restored():
            return leaves(func(*given, **named)), read

    def _kernel_raises(self, call: tuple[Any, Any, Any]) -> bool:
        """True if a kernel refuses its operands, too; torch's fake kernel of `_grouped_mm` refuses more than it."""
        try:
            self._run_kernel(call, list(strided_tensors(schemas.written(*call))))
        except Exception:  # noqa: BLE001 - which error it is does not matter
            return True
        return False

    def _told(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.read(value)
        if isinstance(value, list | tuple):
            return tuple(map(self._told, value))
        return Constant(type(value), repr(value), value)


def is_plain(tensor: torch.Tensor) -> bool:
    """True for a tensor of torch's own classes, in strided memory, that says by its bits what it holds."""
    read_otherwise = tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
    return is_own(tensor) and not read_otherwise and storage_of(tensor) is not None


def _shared(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Return for each tensor the place of the first one in the same memory, which a write may reach."""
    storages = list(map(storage_of, tensors))
    return tuple(map(storages.index, storages))


def lying(tensor: torch.Tensor) -> Lies:
    """Return how a tensor lies in its storage."""
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), *kind(tensor)


def reached(lies: Lies) -> tuple[Any, ...]:
    """Return a layout without the strides that reach no element, and without the device."""
    sizes, strides, offset, dtype, *_ = lies
    return sizes, [stride for size, stride in zip(sizes, strides, strict=True) if size > 1], offset, dtype


def reach(lies: Lies) -> int:
    """Return the elements of the storage up to the last one of a tensor."""
    sizes, strides, offset, *_ = lies
    if not math.prod(sizes):
        return int(offset)
    return int(offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))


def _is_whole(tensor: torch.Tensor) -> bool:
    (own,) = storage_objects(tensor)
    return tensor.numel() * tensor.itemsize == own.nbytes() and tensor.is_contiguous()


def _is_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors are the whole of their memory, and lie in it alike."""
    return lying(one) == lying(other) and _is_whole(one) and _is_whole(other)


def _laid_out(result: Any) -> Any:
    return reached(lying(result)) if isinstance(result, torch.Tensor) else None


def _of_one_number(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that lies in memory of its own as another does in its: of ones, or of 0 where it may index."""
    made = torch.zeros if _may_be_index(tensor) else torch.ones
    memory = made(reach(lying(tensor)), dtype=tensor.dtype, device=tensor.device)
    return memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _hollow_like(fake: torch.Tensor) -> torch.Tensor:
    if fake.layout != torch.strided or fake.is_conj() or fake.is_neg():
        raise Unknown("a result that is not strided")
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)


def _digest(tensor: torch.Tensor) -> bytes:
    with torch.no_grad():
        data = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.blake2b(data.numpy().tobytes(), digest_size=16).digest()


def _reads_no_elements(func: Any) -> bool:
    """True for reads of metadata and for views, those included whose schemas say no alias, as `_unsafe_view`."""
    if kind_of(func) == "metadata" or str(func).startswith("aten.sym_"):
        return True
    in_place = torch.Tag.inplace_view in getattr(func, "tags", ()) and not known_of(func).resizes
    unsaid = family_of(func) == "view" and not (known_of(func).alias_or_copy or schemas.is_mutable(func))
    return in_place or unsaid or schemas.is_view_operator(func, pure=False)


def _draws(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True if a call draws random numbers; attention without dropout draws none."""
    return schemas.is_random(func) and schemas.by_name(func, args, kwargs).get("dropout_p") != 0.0


def _may_be_index(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _indices_in_range(named: Mapping[str, Any], known: Any, is_hollow: Any) -> Iterator[torch.Tensor]:
    """Yield the indices of a call that are known to be in the range of what they index."""
    pairs: Iterable[tuple[int, torch.Tensor | None]] = ()
    if known.index is not None:
        source, dim = named[known.index.source], named[known.index.dim] if known.index.dim else 0
        pairs = [(source.shape[dim] if source.dim() else 1, named[known.index.index])]
    elif known.by_position:
        pairs = zip(named["self"].shape, named["indices"], strict=False)
    for size, index in pairs:
        if index is None or index.dtype in {torch.bool, torch.uint8} or is_hollow(index):
            continue
        least = -size if known.by_position else 0
        if not index.numel() or bool((index >= least).all() & (index < size).all()):
            yield index


def _apart_from_contents(told: Any) -> Hashable:
    """Return what a call was told, without its tensors."""
    if isinstance(told, tuple):
        return tuple(map(_apart_from_contents, told))
    return None if isinstance(told, Hollow | Solid) else told


def _has_generator(constants: Any) -> bool:
    if isinstance(constants, tuple):
        return any(map(_has_generator, constants))
    return isinstance(constants, Constant) and isinstance(constants.value, torch.Generator)


def changed(told: Any, change: Callable[[Any], Any]) -> Any:
    """Return what a call was told, with each operand and each constant changed."""
    return tuple(changed(each, change) for each in told) if isinstance(told, tuple) else change(told)


def operands(told: Any) -> Iterator[Hollow | Solid]:
    """Yield the tensors among what a call was told."""
    if isinstance(told, Hollow | Solid):
        yield told
    elif isinstance(told, tuple):
        yield from itertools.chain.from_iterable(map(operands, told))
