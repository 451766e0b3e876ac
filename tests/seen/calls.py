"""Calls without torch: what Seen reads of a tensor, and strategies for streams of calls."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st


class Tensor:
    """Sizes, a dtype, and row-major strides."""

    def __init__(self, *shape, dtype="torch.float32"):
        self.shape = shape
        self.dtype = dtype

    def stride(self):
        return tuple(itertools.accumulate(reversed(self.shape[1:]), int.__mul__, initial=1))[::-1][: len(self.shape)]


_SIZES = st.integers(0, 9)
TENSORS = st.builds(
    lambda shape, dtype: Tensor(*shape, dtype=dtype),
    st.lists(_SIZES, max_size=3),
    st.sampled_from(["torch.float32", "torch.int64"]),
)
_SAME_KIND = st.fixed_dictionaries(
    {"x": st.builds(Tensor, _SIZES, _SIZES), "n": st.integers(-5, 40), "flag": st.sampled_from([True, False, "a", "b"])}
)
_ANY_KIND = st.fixed_dictionaries({"x": TENSORS, "more": st.lists(st.one_of(_SIZES, st.none(), TENSORS), max_size=2)})
STREAMS = st.one_of(st.lists(_SAME_KIND, min_size=1, max_size=6), st.lists(_ANY_KIND, min_size=1, max_size=6))


def random_stream(chance):
    """A stream like those of STREAMS: of one kind of calls, or of any kinds."""
    number = chance.randint(1, 6)
    if chance.random() < 0.5:
        return [
            {
                "x": Tensor(chance.randint(0, 9), chance.randint(0, 9)),
                "n": chance.randint(-5, 40),
                "flag": chance.choice([True, False, "a", "b"]),
            }
            for _ in range(number)
        ]
    return [{"x": _tensor(chance), "more": _more(chance)} for _ in range(number)]


def _more(chance):
    return [chance.choice([chance.randint(0, 9), None, _tensor(chance)]) for _ in range(chance.randint(0, 2))]


def _tensor(chance):
    sizes = [chance.randint(0, 9) for _ in range(chance.randint(0, 3))]
    return Tensor(*sizes, dtype=chance.choice(["torch.float32", "torch.int64"]))
