"""Windows, frequencies, inverses of Fourier transforms, covariances, counts and powers, for symbolic sizes.

decompositions.py lists these functions, and has the law that they keep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch

_LEAST = 1e-11
"""Torch's own: below it, the windows do not overlap enough to be inverted."""


def istft(
    x: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """Return torch.istft of one-sided spectra for any length; torch takes a plain number there.

    >>> window = torch.hann_window(8)
    >>> spectrum = torch.stft(torch.arange(16.0), 8, 2, window=window, return_complex=True)
    >>> istft(spectrum, 8, 2, window=window, length=4).round().abs()
    tensor([0., 1., 2., 3.])
    """
    hop, wide = hop_length or n_fft // 4, win_length or n_fft
    frames = x.shape[-1]
    torch._check(x.numel() > 0, lambda: "istft input tensor cannot be empty")
    torch._check(length >= 0, lambda: "a length is not negative")
    around = (n_fft - wide) // 2
    ones = torch.ones(wide, dtype=x.real.dtype, device=x.device)
    shape = torch.nn.functional.pad(ones if window is None else window, (around, n_fft - wide - around))
    spectra = x if x.dim() == 3 else x.unsqueeze(0)
    signals = torch.fft.irfft(spectra.transpose(1, 2), n_fft, norm="ortho" if normalized else "backward")
    whole = n_fft + hop * (frames - 1)
    start = n_fft // 2 if center else 0
    overlaid = torch.ops.aten.unfold_backward
    found = overlaid(signals * shape, [signals.shape[0], whole], 1, n_fft, hop)[:, start : start + length]
    weight = overlaid(shape.square().expand(1, frames, n_fft), [1, whole], 1, n_fft, hop)[:, start : start + length]
    enough = weight.abs().min() >= _LEAST
    torch._check(enough.item(), lambda: "window overlap add min: 1")
    found = torch.nn.functional.pad(found / weight, (0, torch.sym_max(start + length - whole, 0)))
    return found if x.dim() == 3 else found.squeeze(0)


def unfold(x: torch.Tensor, dimension: int, size: Any, step: Any) -> torch.Tensor:
    """Return x.unfold: a view with the elements of each window in a last dimension.

    >>> unfold(torch.arange(5), 0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    dim = dimension % x.dim()
    torch._check(size >= 0, lambda: "size is not negative")
    torch._check(size <= x.shape[dim], lambda: "maximum size for tensor is smaller than size")
    torch._check(step > 0, lambda: "step is not positive")
    sizes, strides = list(x.shape), list(x.stride())
    sizes[dim] = (x.shape[dim] - size) // step + 1
    strides[dim] = x.stride(dim) * step
    return x.as_strided([*sizes, size], [*strides, x.stride(dim)], x.storage_offset())


def fftfreq(n: Any, d: float = 1.0, **options: Any) -> torch.Tensor:
    """Return torch.fft.fftfreq for any number of samples.

    >>> fftfreq(4), fftfreq(5, 0.2)
    (tensor([ 0.0000,  0.2500, -0.5000, -0.2500]), tensor([ 0.,  1.,  2., -2., -1.]))
    """
    index = torch.arange(n, **_real(options))
    places = torch.where(torch.arange(n, device=index.device) < (n + 1) // 2, index, index - n)
    return torch.mul(places, 1.0 / (torch.sym_max(n, 1) * d))


def rfftfreq(n: Any, d: float = 1.0, **options: Any) -> torch.Tensor:
    """Return torch.fft.rfftfreq for any number of samples: halves are rounded to 0, so -1 and 1 have one frequency.

    >>> rfftfreq(4), rfftfreq(-1)
    (tensor([0.0000, 0.2500, 0.5000]), tensor([-0.]))
    """
    count = torch.sym_max(n, 0) // 2 - torch.sym_max(-n, 0) // 2 + 1
    torch._check(count >= 0, lambda: "a tensor has no negative dimension")
    index = torch.arange(count, **_real(options))
    of_none = torch.arange(count, device=index.device) < 1 - n * n  # 0 / 0
    samples = torch.sym_max(n, 1) - 2 * torch.sym_max(torch.sym_min(-n, 1), 0)  # below 0 only -1 has a frequency
    return torch.where(of_none, torch.nan, index * (1.0 / (samples * d)))


def hamming_window(
    window_length: Any,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **options: Any,
) -> torch.Tensor:
    """Return torch.hamming_window of any length; a window of one element is 1.

    >>> hamming_window(4, False, 0.5, 0.5), hamming_window(1)
    (tensor([0.0000, 0.7500, 0.7500, 0.0000]), tensor([1.]))
    """
    torch._check(window_length >= 0, lambda: "a window has no negative length")
    last = window_length if periodic else window_length - 1
    angles = torch.arange(last + 1, **_real(options)) * (2.0 * math.pi / torch.sym_max(last, 1))
    window = (angles.cos() * -beta + alpha)[:window_length]
    places = torch.arange(window_length, device=window.device)
    return torch.where(places < 2 - window_length, torch.ones_like(window), window)


def hann_window(window_length: Any, periodic: bool = True, **options: Any) -> torch.Tensor:
    """Return torch.hann_window of any length.

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return hamming_window(window_length, periodic, 0.5, 0.5, **options)


def _real(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"dtype": torch.get_default_dtype()} | {name: value for name, value in options.items() if value is not None}


def cov(x: torch.Tensor, *, correction: int = 1) -> torch.Tensor:
    """Return torch.cov without weights; torch asks whether the divisor, a tensor, is positive.

    >>> cov(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    rows = x.view([1, -1]) if x.dim() < 2 else x
    count = rows.shape[1]
    centred = rows - (rows.sum(1) / _whole(count, x)).unsqueeze(1)
    found = torch.mm(centred, centred.t())
    return torch.true_divide(found, _whole(torch.sym_max(count - correction, 0), x)).squeeze()


def _whole(number: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.scalar_tensor(number, dtype=torch.int64, device=x.device)


def corrcoef(x: torch.Tensor) -> torch.Tensor:
    """Return torch.corrcoef.

    >>> corrcoef(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    found = cov(x)
    if found.dim() == 0:
        return found / found
    deviation = found.diagonal().sqrt()
    return (found / deviation.view([-1, 1]) / deviation.view([1, -1])).clip(-1, 1)


def bincount(input: torch.Tensor, weights: torch.Tensor | None = None, minlength: Any = 0) -> torch.Tensor:
    """As torch.bincount, which takes a weight for each number, and any where there is none; its fake takes any.

    >>> bincount(torch.tensor([1, 1]), torch.ones(2))
    tensor([0., 2.])
    """
    if weights is not None:
        numbers, given = input.numel(), weights.numel()
        torch._check((numbers - given) * numbers * given == 0, lambda: "there is not one weight for each number")
    return torch.bincount(input, weights, minlength)


def combinations(x: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """Return torch.combinations of at least one element each.

    >>> combinations(torch.tensor([5, 6, 7])).tolist()
    [[5, 6], [5, 7], [6, 7]]
    """
    count = x.shape[0]
    places = torch.meshgrid([torch.arange(count, device=x.device)] * r, indexing="ij")
    ordered = torch.ones([count] * r, dtype=torch.bool, device=x.device)
    for one, following in itertools.pairwise(places):
        ordered &= one <= following if with_replacement else one < following
    chosen = 1
    for taken in range(r):
        chosen = chosen * (count + (taken if with_replacement else -taken)) // (taken + 1)
    return x[torch.nonzero_static(ordered, size=chosen)]


def vander(x: torch.Tensor, N: Any = None, increasing: bool = False) -> torch.Tensor:  # noqa: N803
    """Return torch.vander: the powers of each number.

    >>> vander(torch.tensor([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    columns = x.shape[0] if N is None else N
    torch._check(columns >= 0, lambda: "N must be greater than 1.")
    ones = torch.ones_like(x).unsqueeze(1).expand(x.shape[0], columns)
    factors = torch.where(torch.arange(columns, device=x.device) < 1, ones, x.unsqueeze(1))
    powers = factors.cumprod(1)
    return powers if increasing else powers.flip(1)
