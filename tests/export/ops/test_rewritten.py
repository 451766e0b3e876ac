"""Functions that are rewritten for symbolic sizes give what eager gives, and raise where eager raises."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check, export
from shapeproof.export.ops.decompositions import narrow
from shapeproof.export.ops.rewritten import combinations, corrcoef, cov, istft, unfold, vander
from tests.agreement import agree

KINDS = st.sampled_from((torch.float32, torch.float64, torch.int64, torch.bool))
counts = st.integers(0, 40)


def drawn(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).mul(3).to(dtype)


def raised(call):
    """The result of a call; None if it raises."""
    try:
        return call()
    except (RuntimeError, IndexError):
        return None


def alike(ours, eagers):
    """To the last bit, and in the same layout; or both raise."""
    found, wanted = raised(ours), raised(eagers)
    if found is None or wanted is None:
        return found is wanted
    same_kind = (found.dtype, found.shape, found.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
    return same_kind and torch.equal(found.nan_to_num(nan=7.5), wanted.nan_to_num(nan=7.5))


@given(st.lists(counts, min_size=1, max_size=2), KINDS, st.integers(0, 3))
def test_covariances_are_eagers(sizes, dtype, correction):
    x = drawn(*sizes, dtype=dtype)
    assert alike(lambda: cov(x, correction=correction), lambda: torch.cov(x, correction=correction))
    assert alike(lambda: corrcoef(x), lambda: torch.corrcoef(x))


@given(st.integers(0, 6), st.integers(1, 4), st.booleans(), KINDS)
def test_combinations_are_eagers(count, together, again, dtype):
    x = drawn(count, dtype=dtype)
    assert alike(lambda: combinations(x, together, again), lambda: torch.combinations(x, together, again))


@given(st.integers(1, 5), st.integers(-6, 6), st.integers(-1, 6), st.booleans())
def test_a_part_of_a_dimension_is_eagers(size, start, length, of_data):
    x, first = drawn(2, size), torch.tensor(start) if of_data else start
    assert alike(lambda: narrow(x, 1, first, length), lambda: torch.narrow(x, 1, first, length))


class Part(torch.nn.Module):
    def forward(self, x, places):
        start, length = places.tolist()
        return x.narrow(0, start, length)


def test_a_part_from_a_negative_start_raises_where_eager_raises_once_taken_apart():
    """The fault: the slice that torch makes of it gave what is there of a part that reaches past the end."""
    model, x = Part(), torch.arange(3.0)
    apart = export(model, (x, torch.tensor([0, 2]))).run_decompositions().module()
    for places in itertools.product(range(-4, 5), range(-1, 5)):
        at = torch.tensor(places)
        assert alike(functools.partial(apart, x, at), functools.partial(model, x, at)), places


@given(st.integers(0, 9), st.none() | st.integers(-1, 9), st.booleans(), KINDS)
def test_powers_of_each_number_are_eagers(count, columns, increasing, dtype):
    x = drawn(count, dtype=dtype)
    assert alike(lambda: vander(x, columns, increasing), lambda: torch.vander(x, columns, increasing))


@given(st.integers(0, 6), st.integers(-2, 1), st.integers(-1, 7), st.integers(0, 4), st.booleans())
def test_windows_that_slide_are_eagers_views(count, dim, size, step, turned):
    x = drawn(count, 3).t() if turned else drawn(count, 3)[1:]
    assert alike(lambda: unfold(x, dim, size, step), lambda: x.unfold(dim, size, step))
    found = raised(lambda: unfold(x, dim, size, step))
    assert found is None or found.data_ptr() == x.unfold(dim, size, step).data_ptr()


@given(
    st.sampled_from((8, 9, 16)),
    st.sampled_from((None, 2, 4)),
    st.sampled_from((None, 6)),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.sampled_from((None, torch.ones, torch.hann_window)),
    st.integers(1, 6),
    st.integers(0, 60),
)
def test_signals_of_any_length_are_eagers(n_fft, hop, wide, options, shape, frames, length):
    center, normalized, batched = options
    window = shape(wide or n_fft) if shape else None
    spectra = torch.complex(drawn(2, n_fft // 2 + 1, frames), drawn(2, n_fft // 2 + 1, frames).flip(0))
    x = spectra if batched else spectra[0]
    args = (x, n_fft, hop, wide, window, center, normalized, None, length)
    assert alike(lambda: istft(*args), lambda: torch.istft(*args))


def denoised(x):
    window = torch.hann_window(16)
    spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
    return torch.istft(spectrum, 16, 4, window=window, length=x.shape[-1])


MODELS = {
    "a signal as long as it was": (denoised, range(16, 70, 9)),
    "its method": (lambda x: torch.stft(x, 8, return_complex=True).istft(8, length=x.shape[0]), range(8, 30, 5)),
    "covariance": (torch.cov, range(6)),
    "its method, of rows": (lambda x: torch.stack([x, x * x]).cov(), range(6)),
    "correlation": (lambda x: torch.stack([x, x * x]).corrcoef(), range(6)),
    "combinations": (torch.combinations, range(6)),
    "combinations of three": (lambda x: torch.combinations(x, 3, with_replacement=True), range(5)),
    "powers": (torch.vander, range(6)),
    "a window as wide as another tensor": (lambda x: torch.ones(30).unfold(0, x.shape[0], 2) * x, range(6)),
}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_any_size_is_one_program(name):
    """The fault: the size was fixed to the example's, or the model could not be traced."""
    function, sizes = MODELS[name]
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x: function(x)})()
    dims = Dim("n", min=sizes[0], max=sizes[-1])
    report = check(mod, (drawn(sizes[len(sizes) // 2]),), dynamic_shapes={"x": {0: dims}})
    assert report.status == "proved", str(report)
    run = report.program.module()
    assert all(agree(mod, run, (drawn(n),)) for n in itertools.chain(sizes, sizes))
