"""Tensors that hold no data: what torch says about them, and which methods would read their elements unseen.

Torch's dispatcher shows each operator. A few methods of tensors read elements without one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from shapeproof.export.shim.replaced import replaced
from shapeproof.export.shim.storages import fresh, is_fake
from shapeproof.export.shim.trees import map_tensors

READERS = ("tolist", "numpy", "__array__", "data_ptr", "__dlpack__", "untyped_storage")
"""The methods that read the elements of a tensor, or tell where they are, and run no operator for it."""


class Fakes:
    """Runs operators on torch's fake tensors, for the layouts of their results."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the results of an operator, as fake tensors.

        >>> made = Fakes().run(torch.ops.aten.mm.default, (torch.ones(2, 3), torch.ones(3, 4)), {})
        >>> type(made).__name__, list(made.shape)
        ('FakeTensor', [2, 4])
        """
        given, named = map_tensors((tuple(args), dict(kwargs)), self._fake)
        with torch.no_grad(), self._mode:
            return func(*given, **named)

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        return fresh(self._mode, tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


def empty_twin(tensor: torch.Tensor, memory: torch.UntypedStorage) -> torch.Tensor:
    """Return a tensor that lies in some memory as another one lies in its own, with what the user noted at that one."""
    with torch.no_grad():
        made = torch.empty(0, dtype=tensor.dtype, device=memory.device)
        made.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=False)
    made.__dict__.update({} if is_fake(tensor) else tensor.__dict__)
    return made.requires_grad_(tensor.requires_grad)


@contextlib.contextmanager
def reads_told(told: Callable[[Any, str], None]) -> Iterator[None]:
    """Inside this block, call a function with each tensor whose elements are read without an operator, before it is.

    It is called with the thread that is started, or with what is set, where no operator would be seen, or others would.
    What other threads do is not told.
    """
    here = threading.get_ident()

    def telling(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def tell(about: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == here:
                told(about, name)
            return read(about, *args, **kwargs)

        return tell

    with contextlib.ExitStack() as stack:
        for holder, names in _TOLD:
            known = {name: telling(name, getattr(holder, name)) for name in names}
            stack.enter_context(replaced(holder, **known))
        yield


_TOLD: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (torch.Tensor, READERS),
    (torch, ("to_dlpack", "set_flush_denormal")),
    (torch.utils.dlpack, ("to_dlpack",)),
    (threading.Thread, ("start",)),
)
"""The functions to tell of, by what holds them."""
