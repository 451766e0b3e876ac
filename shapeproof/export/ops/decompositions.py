"""Functions of torch that want a plain number for a size, rewritten in operators that take a symbolic size.

Law: each function returns what eager returns, for every size, and raises where eager raises. The results are equal to
the last bit, except for those in `ROUNDED`.
Torch's own reference of `linspace` branches on 0 and 1 steps, which is impossible for a number from data. Only public
torch is used.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from shapeproof.export.ops import rewritten
from shapeproof.export.ops.shapes.shape_functions import each_dim
from shapeproof.export.ops.table import SLICE
from shapeproof.export.shim.numbers.symbols import may_be_negative
from shapeproof.export.shim.trees import PAD_SEQUENCE, leaves


def linspace(start: Any, end: Any, steps: Any, **options: Any) -> torch.Tensor:
    """Return torch.linspace for ends that are numbers: both ends are exact, and one step is `start`.

    The options are those of torch.arange. Of an integer `dtype`, no single formula gives eager's rounding.

    >>> linspace(0, 1, 3), linspace(2, 9, 1), linspace(2, 9, 0)
    (tensor([0.0000, 0.5000, 1.0000]), tensor([2.]), tensor([]))
    """
    torch._check(steps >= 0, lambda: "number of steps must be non-negative")
    dtype = options.pop("dtype", None) or torch.get_default_dtype()
    index = torch.arange(steps, **options)
    place = index.to(dtype if dtype.itemsize >= torch.float32.itemsize else torch.float32)
    apart = (end - start) / torch.sym_max(steps - 1, 1)
    near_start = index < torch.sym_max(steps // 2, 1)
    made = torch.where(near_start, start + apart * place, end - apart * ((steps - 1) - place))
    alone = index < 2 - steps  # one step is `start`, for any end
    return torch.where(alone, start, made).to(dtype)


def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> torch.Tensor:
    """Return torch.logspace for ends that are numbers: powers of `base`.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    dtype = options.pop("dtype", None) or torch.get_default_dtype()
    return torch.pow(base, linspace(start, end, steps, dtype=torch.float64, **options)).to(dtype)


def as_tensor(data: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """Return torch.as_tensor, or torch.asarray, of numbers in lists: these share no memory with a tensor.

    >>> as_tensor([[2, 3], [4, 5]]), as_tensor((1, 0.5))
    (tensor([[2, 3],
            [4, 5]]), tensor([1.0000, 0.5000]))
    """
    if dtype is None:
        real = any(isinstance(number, float | torch.SymFloat) for number in leaves(data))
        dtype = torch.get_default_dtype() if real else torch.int64
    if isinstance(data, list | tuple):
        return torch.stack([as_tensor(each, dtype, device) for each in data])
    made = torch.float64 if dtype.is_floating_point else dtype  # a double that float32 cannot hold becomes infinite
    return torch.scalar_tensor(data, dtype=made, device=device).to(dtype)


def new_tensor(x: torch.Tensor, data: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """Return x.new_tensor(data) of numbers in lists: of the dtype and on the device of `x`.

    >>> new_tensor(torch.ones(1), [2, 3])
    tensor([2., 3.])
    """
    return as_tensor(data, dtype or x.dtype, device or x.device)


def tensor_split(x: torch.Tensor, sections: int, dim: int = 0) -> tuple[torch.Tensor, ...]:
    """Return torch.tensor_split into a number of parts; the first parts are longer by 1 if the size is not divisible.

    >>> [part.tolist() for part in tensor_split(torch.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    sizes = [(x.shape[dim] + sections - 1 - part) // sections for part in range(sections)]
    ends = itertools.accumulate(sizes)
    return tuple(SLICE(x, dim, end - size, end) for size, end in zip(sizes, ends, strict=True))


def max_pool1d(
    x: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> torch.Tensor:
    """Return torch.nn.functional.max_pool1d without indices, as a pooling of one row in two dimensions.

    >>> max_pool1d(torch.tensor([[1.0, 5.0, 2.0, 4.0, 9.0]]), 2)
    tensor([[5., 4.]])
    """
    stride = kernel_size if stride in (None, (), []) else stride
    window, step, around, apart = (each_dim(value, 1)[0] for value in (kernel_size, stride, padding, dilation))
    rows = (1, window), (1, step), (0, around), (1, apart)
    return torch.max_pool2d(x.unsqueeze(-2), *rows, ceil_mode).squeeze(-2)


def pad_sequence(
    sequences: Sequence[torch.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> torch.Tensor:
    """Return torch.nn.utils.rnn.pad_sequence: pads all to the longest; torch's decomposition branches on which that is.

    >>> pad_sequence([torch.ones(1), torch.ones(3)], batch_first=True)
    tensor([[1., 0., 0.],
            [1., 1., 1.]])
    """
    longest, first = functools.reduce(torch.sym_max, (each.shape[0] for each in sequences)), sequences[0]
    padded = []
    for each in sequences:
        alike = each.expand(each.shape[0], *first.shape[1:])  # torch's copy broadcasts it likewise
        missing = (0, longest - each.shape[0]) if padding_side == "right" else (longest - each.shape[0], 0)
        padded.append(torch.nn.functional.pad(alike, (*(0, 0) * (first.dim() - 1), *missing), value=padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def diagonal(x: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    """Return torch.diagonal, computed on the square that begins with it: no compiler asks for the shorter side.

    >>> diagonal(torch.arange(6).reshape(2, 3), 1)
    tensor([1, 5])
    """
    begun, at = (dim2, offset) if offset >= 0 else (dim1, -offset)
    x = SLICE(x, begun, torch.sym_min(at, x.shape[begun]))
    side = torch.sym_min(x.shape[dim1], x.shape[dim2])
    square: torch.Tensor = SLICE(SLICE(x, dim1, 0, side), dim2, 0, side)
    return square.diagonal(0, dim1, dim2)


def narrow(x: torch.Tensor, dim: int, start: Any, length: Any) -> torch.Tensor:
    """Return x.narrow from a start that may be negative; what torch makes of that reaches past the end, taken apart.

    >>> narrow(torch.arange(4), 0, -3, 2)
    tensor([1, 2])
    """
    first = start.item() if isinstance(start, torch.Tensor) else start
    first = torch.sym_ite(first < 0, first + x.shape[dim], first)
    torch._check(first >= 0, lambda: "the start lies before the first element")
    torch._check(first + length <= x.shape[dim], lambda: "start and length exceed the size of the dimension")
    return x.narrow(dim, first, length)


def pixel_unshuffle(x: torch.Tensor, downscale_factor: int) -> torch.Tensor:
    """As torch.pixel_unshuffle, whose kernel gives a tensor without elements as it is; torch's fake says otherwise.

    >>> [pixel_unshuffle(torch.ones(n, 1, 4, 4), 2).shape for n in (1, 0)]
    [torch.Size([1, 4, 2, 2]), torch.Size([0, 1, 4, 4])]
    """
    if downscale_factor < 1 or x.dim() < len("CHW") or x.numel():
        return torch.pixel_unshuffle(x, downscale_factor)
    for side in x.shape[-2:]:
        torch._check(side % downscale_factor == 0, lambda: "a side is no multiple of the downscale_factor")
    return x.clone()


def repeat(x: torch.Tensor, *repeats: Any, **named: Any) -> torch.Tensor:
    """As Tensor.repeat, which repeats an empty dim a negative number of times; torch's fake does not.

    >>> [repeat(torch.ones(n, 2), k, 1).shape for n, k in ((2, 3), (0, -1))]
    [torch.Size([6, 2]), torch.Size([0, 2])]
    """
    counts = [each.item() if isinstance(each, torch.Tensor) else each for each in leaves((repeats, named))]
    for size, count in zip((1,) * (len(counts) - x.dim()) + x.shape, counts, strict=True):
        torch._check(size * count >= 0, lambda: "a dim is repeated a negative number of times")
    return x.repeat([torch.sym_max(count, 0) for count in counts])


def tile(input: torch.Tensor, *dims: Any, **named: Any) -> torch.Tensor:
    """As torch.tile: `repeat`, where counts that are left out are 1.

    >>> tile(torch.ones(2, 0), -1).shape
    torch.Size([2, 0])
    """
    counts = leaves((dims, named))
    return repeat(input, [1] * (input.dim() - len(counts)) + counts)


def kron(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return torch.kron, which is one operator to torch, and reads sizes as plain numbers.

    >>> kron(torch.tensor([1, 2]), torch.tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    rank = max(x.dim(), y.dim())
    ours, theirs = ((*(1,) * (rank - each.dim()), *each.shape) for each in (x, y))
    apart = x.view([part for size in ours for part in (size, 1)])
    repeated = y.view([part for size in theirs for part in (1, size)])  # as in torch.kron: not every stride fits
    return (apart * repeated).view([one * other for one, other in zip(ours, theirs, strict=True)])


def _pooling(dims: int, reduce: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a pooling function with symbolic window sizes, without padding."""

    def pool(x: torch.Tensor, kernel_size: Any, stride: Any = None, *_: Any, **__: Any) -> torch.Tensor:
        sides = each_dim(kernel_size, dims)
        steps = sides if stride in (None, (), []) else each_dim(stride, dims)
        for dim, side, step in zip(range(-dims, 0), sides, steps, strict=True):
            x = reduce(_windows(x, dim, side, step), -1)
        return x

    return pool


def _windows(x: torch.Tensor, dim: int, side: Any, step: Any) -> torch.Tensor:
    """Return the elements of each window along a dimension, in a new last dimension."""
    torch._check(side >= 1, lambda: "a window has at least one element")
    torch._check(side <= x.shape[dim], lambda: "a window is no larger than what it is on")
    count = (x.shape[dim] - side) // step + 1
    places = torch.arange(count, device=x.device)[:, None] * step + torch.arange(side, device=x.device)
    found = x.movedim(dim, -1)
    return found[..., places].movedim(-2, dim - 1)


def one_hot(classes: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    """Return torch.nn.functional.one_hot for a number of classes that is a size, or comes from the data.

    >>> one_hot(torch.tensor([0, 2]), 3).tolist(), one_hot(torch.tensor([1])).tolist()
    ([[1, 0, 0], [0, 0, 1]], [[0, 1]])
    """
    if num_classes == -1:
        num_classes = classes.max().item() + 1
    torch._check(num_classes >= 1, lambda: "Class values must be non-negative.")
    found = torch.zeros([*classes.shape, num_classes], dtype=torch.int64, device=classes.device)
    return found.scatter(-1, classes.unsqueeze(-1), 1)


def tril_indices(row: Any, col: Any, offset: int = 0, **options: Any) -> torch.Tensor:
    """Return torch.tril_indices for a matrix of any size.

    >>> tril_indices(3, 2).tolist()
    [[0, 1, 1, 2, 2], [0, 0, 1, 0, 1]]
    """
    return _places(lambda i, j: j - i <= offset, row, col, _below(row, col, offset), **options)


def triu_indices(row: Any, col: Any, offset: int = 0, **options: Any) -> torch.Tensor:
    """Return torch.triu_indices for a matrix of any size.

    >>> triu_indices(3, 2, 1).tolist()
    [[0], [1]]
    """
    return _places(lambda i, j: j - i >= offset, row, col, row * col - _below(row, col, offset - 1), **options)


def _below(row: Any, col: Any, offset: int) -> Any:
    """Return the number of places on or below a diagonal: row `i` has `i + offset + 1`, clamped to 0..`col`."""

    def up_to(last: Any) -> Any:
        """Return 1 + 2 + ... + last; 0 if `last` is negative."""
        last = torch.sym_max(last, 0)
        return last * (last + 1) // 2

    return up_to(row + offset) - up_to(offset) - up_to(row + offset - col) + up_to(offset - col)


def _places(chosen: Callable[..., torch.Tensor], row: Any, col: Any, count: Any, **options: Any) -> torch.Tensor:
    device, dtype = options.get("device"), options.get("dtype") or torch.int64
    mask = chosen(torch.arange(row, device=device)[:, None], torch.arange(col, device=device))
    return torch.nonzero_static(mask, size=count).T.contiguous().to(dtype)


def _of_reals(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if the arguments are real numbers."""
    numbers = not any(isinstance(value, torch.Tensor | complex) for value in (*args, *kwargs.values()))
    return numbers and not kwargs.get("requires_grad")


def _in_parts(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a tensor is split into a number of parts; arguments with other names are left to torch."""
    return len(args) > 1 and type(args[1]) is int and args[1] > 0 and kwargs.keys() <= {"dim"} and args[0].dim() > 0


def _in_rows(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if rows of floats are pooled, without their indices."""
    indices = kwargs.get("return_indices", args[6] if len(args) > 6 else False)
    return not indices and len(args) > 0 and args[0].is_floating_point() and args[0].dim() in {2, 3}


def _wide(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if floats are made of 32 bits or more: eager rounds smaller ones otherwise."""
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return _of_reals(args, kwargs) and dtype.is_floating_point and dtype.itemsize >= torch.float32.itemsize


def _of_samples(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a number of samples is given, a distance that is not 0, and no option but a dtype."""
    spaced = (args[1] if len(args) > 1 else kwargs.get("d", 1)) != 0
    return spaced and _wide(args, kwargs) and kwargs.keys() <= {"n", "d", "dtype"}


def _of_a_window(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a length is given, and no option but a dtype."""
    return _wide(args, kwargs) and kwargs.keys() <= {"window_length", "periodic", "alpha", "beta", "dtype"}


def _alike(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if there are several sequences, all with the same rank, dtype and device."""
    sequences = args[0] if args else kwargs.get("sequences", ())
    return len(sequences) > 1 and len({(each.dim(), each.dtype, each.device) for each in sequences}) == 1


def _of_numbers(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if lists of numbers are given, none of them empty, and no other options than a dtype and a device."""
    numbers = leaves(args[-1:])
    plain = all(isinstance(number, int | float | torch.SymInt | torch.SymFloat) for number in numbers)
    return plain and len(numbers) > 0 and kwargs.keys() <= {"dtype", "device"}


def _by_number(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if the offset and the dims of a diagonal are plain ints, not dim names."""
    numbers = [*args[1:], *kwargs.values()]
    return len(args) > 0 and kwargs.keys() <= {"offset", "dim1", "dim2"} and all(type(n) is int for n in numbers)


_Suits = Callable[[Sequence[Any], Mapping[str, Any]], bool]
_NEUTRAL = {"padding": 0, "dilation": 1, "ceil_mode": False, "divisor_override": None}
"""Values of pooling options that have no effect."""
_OF_MAX = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
_OF_MEAN = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")


def _by_size(names: Sequence[str]) -> _Suits:
    """Return a test: window sizes are symbolic and nothing is padded; `names` are those of positional arguments."""

    def suits(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        given: dict[str, Any] = dict(zip(names, args[1:], strict=False)) | dict(kwargs)
        symbolic = any(isinstance(side, torch.SymInt) for side in each_dim(given.get("kernel_size"), 1))
        plain = all(value == _NEUTRAL[name] for name in _NEUTRAL.keys() & given for value in each_dim(given[name], 1))
        return symbolic and plain and args[0].is_floating_point() and not given.get("return_indices")

    return suits


def _by_factor(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a tensor is given, and a plain number."""
    numbers = [*args[1:], *kwargs.values()]
    return len(args) > 0 and len(numbers) == 1 and type(numbers[0]) is int


def _perhaps_negative(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a dim is repeated by a count, symbolic or a tensor, that is not known to be 0 or more."""
    counts = leaves((args[1:], kwargs))
    return any(may_be_negative(each) or (isinstance(each, torch.Tensor) and each.dim() == 0) for each in counts)


def _from_a_start(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a narrowing starts at a number from data, symbolic or a tensor, that may be negative."""
    start = args[2] if len(args) > 2 else kwargs.get("start")
    return _perhaps_negative((None, start), {})


def _as_ranked(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """The same, where there is a count for each dim."""
    return _perhaps_negative(args, kwargs) and len(leaves((args[1:], kwargs))) >= args[0].dim()


def _of_real_rows(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether real numbers are given, in rows, and no weights."""
    return len(args) == 1 and kwargs.keys() <= {"correction"} and not args[0].is_complex() and args[0].dim() <= 2


def _of_elements(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the elements of a vector are combined, one or more at a time."""
    taken = args[1] if len(args) > 1 else kwargs.get("r", 2)
    return len(args) > 0 and args[0].dim() == 1 and type(taken) is int and taken > 0


def _of_a_vector(args: Sequence[Any], _: Mapping[str, Any]) -> bool:
    return len(args) > 0 and args[0].dim() == 1


def _slid(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a window is slid whose size or step is symbolic."""
    return args[0].dim() > 0 and any(isinstance(each, torch.SymInt) for each in (*args[2:], *kwargs.values()))


def _of_a_length(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether one-sided spectra become real signals of a symbolic length, with arguments that torch accepts."""
    try:
        given = _ISTFT.bind(*args, **kwargs).arguments
    except TypeError:
        return False
    x, n_fft, window = given["x"], given["n_fft"], given.get("window")
    hop, wide = given.get("hop_length"), given.get("win_length")
    numbers = n_fft, n_fft // 4 if hop is None else hop, n_fft if wide is None else wide
    if not isinstance(given.get("length"), torch.SymInt) or any(type(each) is not int for each in numbers):
        return False
    plain = 0 < numbers[1] <= numbers[2] <= n_fft and given.get("onesided") is not False
    fits = window is None or (window.shape == (numbers[2],) and not window.is_complex())
    real = plain and fits and not given.get("return_complex")
    return real and x.is_complex() and x.dim() in {2, 3} and x.shape[-2] == n_fft // 2 + 1


def _always(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return True


_ISTFT = inspect.signature(rewritten.istft)
_Written = tuple[Callable[..., Any], _Suits]
_LARGEST = [(_pooling(dims, torch.amax), _by_size(_OF_MAX)) for dims in (1, 2, 3)]
_MEAN = [(_pooling(dims, torch.mean), _by_size(_OF_MEAN)) for dims in (1, 2, 3)]
_METHODS = (
    *((tensor_split, _in_parts), (kron, _always), (tile, _perhaps_negative), (diagonal, _by_number)),
    *((rewritten.cov, _of_real_rows), (rewritten.corrcoef, _of_real_rows)),
    *((rewritten.bincount, _always), (rewritten.istft, _of_a_length), (narrow, _from_a_start)),
)
"""What replaces both a function of torch and a method, by their name."""
_NAMED: Sequence[tuple[Any, _Written]] = [
    *itertools.product((torch, torch.Tensor), _METHODS),
    *itertools.product(
        [torch],
        [
            *((linspace, _of_reals), (logspace, _of_reals), (tril_indices, _always), (triu_indices, _always)),
            *((rewritten.hamming_window, _of_a_window), (rewritten.hann_window, _of_a_window)),
            *((rewritten.combinations, _of_elements), (rewritten.vander, _of_a_vector)),
            (pixel_unshuffle, _by_factor),
        ],
    ),
    *itertools.product([torch.fft], [(rewritten.fftfreq, _of_samples), (rewritten.rfftfreq, _of_samples)]),
    (functional, (one_hot, _always)),
    (torch.Tensor, (repeat, _as_ranked)),
]
"""What replaces a function of the same name, by where that function stands."""
_WRITTEN: Mapping[Any, Sequence[_Written]] = {
    **dict.fromkeys((torch.as_tensor, torch.asarray), ((as_tensor, _of_numbers),)),
    torch.Tensor.new_tensor: ((new_tensor, _of_numbers),),
    **dict.fromkeys((torch.max_pool1d, functional.max_pool1d), (_LARGEST[0], (max_pool1d, _in_rows))),
    **dict.fromkeys((torch.max_pool2d, functional.max_pool2d), (_LARGEST[1],)),
    **dict.fromkeys((torch.max_pool3d, functional.max_pool3d), (_LARGEST[2],)),
    functional.avg_pool1d: (_MEAN[0],),
    functional.avg_pool2d: (_MEAN[1],),
    functional.avg_pool3d: (_MEAN[2],),
    torch.Tensor.unfold: ((rewritten.unfold, _slid),),
    **{getattr(home, each[0].__name__): (each,) for home, each in _NAMED},
    PAD_SEQUENCE: ((pad_sequence, _alike),),
}
REWRITTEN = frozenset(_WRITTEN)
"""The functions of torch that are rewritten here."""


_ALSO = {
    **dict.fromkeys((torch.as_tensor, torch.asarray, torch.Tensor.new_tensor), torch.SymFloat),
    **dict.fromkeys((torch.Tensor.repeat, torch.tile, torch.Tensor.tile), torch.Tensor),
    **dict.fromkeys((torch.narrow, torch.Tensor.narrow), torch.Tensor),
}
"""What a function takes for a symbolic number besides a size; torch takes a tensor without dims for its number."""


def takes_symbols(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a function that is rewritten here is given a symbolic size, or makes a tensor of a symbolic number."""
    if func not in REWRITTEN:
        return False
    if is_alone(func, args, kwargs):
        return True
    kind = torch.SymInt | _ALSO.get(func, torch.SymInt)
    sizes = itertools.chain(*(getattr(value, "shape", None) or (value,) for value in leaves((args, kwargs))))
    return any(isinstance(size, kind) for size in sizes)


def is_alone(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True for one step: it is exact, and the number of steps may be symbolic in another part of the domain."""
    steps = args[2] if len(args) > 2 else kwargs.get("steps")
    return func in {torch.linspace, torch.logspace} and type(steps) is int and steps == 1


def reference(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function to call where a size is symbolic: ours, or torch's own where ours differs."""
    return next((written for written, suits in _WRITTEN[func] if suits(args, kwargs)), func)


ROUNDED = frozenset({linspace, logspace, *(written for written, _ in _MEAN)})
"""The functions that equal torch's only up to rounding; of other dtypes than floats, only in sizes, dtype and device.

Eager's own result depends on the machine: the vector width of the processor determines how many elements a kernel
takes at a time.
"""
