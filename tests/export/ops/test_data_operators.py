"""Every operator whose sizes or numbers come out of data, in a program: no fact that is assumed of it is ever broken.

The program is run node by node on random inputs of the domain. What the trace noted must then be so: each size is what
its term says, each fact holds of the sizes, each integer lies where it is said to, and no bound is exceeded.
"""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.terms import symbol
from shapeproof.export import check
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace.traced import env_of
from tests.agreement import RAISES, agree, outcome
from tests.thoroughness import examples

LONGEST = 12


def exclusive(counts):
    """Where each of the counted begins."""
    return counts.cumsum(0) - counts


def table(x):
    return x[:, None] * torch.ones(3)


def bags(mode):
    def embedding_bag(x, i):
        return F.embedding_bag(i.remainder(x.shape[0]), table(x), exclusive(i.clamp(0, 1)), mode=mode)

    return embedding_bag


def bags_with_the_last_offset(x, i):
    offsets = F.pad(i.clamp(0, 1).cumsum(0), (1, 0))
    return F.embedding_bag(torch.arange(x.shape[0]), table(x), offsets, include_last_offset=True)


def bags_of_weighed_rows(x, i):
    kept = i > 0
    return F.embedding_bag(i[kept] % 3, torch.ones(3, 2), i.new_zeros(1), mode="sum", per_sample_weights=x[kept])


def jagged_rows(x, i):
    offsets = F.pad(i[:2].clamp(0, 2).cumsum(0), (1, 0))
    first, last = offsets[0].item(), offsets[-1].item()
    return x[first:last], x[last:]


def padded_jagged_rows(x, i):
    lengths = (i > 0).long()
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    padded = torch.ops.aten._jagged_to_padded_dense_forward(x[i > 0][:, None], [offsets], [2])
    return padded, torch.ops.aten._padded_dense_to_jagged_forward(padded, [offsets], None)


def split_by_lengths(x, i):
    first, second = i[0].clamp(0, x.shape[0]).item(), i[-1].clamp(0, 3).item()
    torch._check(first + second <= x.shape[0])
    return x.split([first, second, x.shape[0] - first - second])


def limited(x, i):
    return i[0].clamp(0, x.shape[0]).item()


def some_or_others(x, i):
    """How many of the branches' own choosing."""
    return x[: torch.cond(i[0] > 0, lambda i: (i > 0).sum(), lambda i: (i <= 0).sum(), (i,)).item()]


PROGRAMS = {
    "nonzero": lambda _, i: (i > 0).nonzero(),
    "nonzero as a tuple": lambda x, i: x[torch.where(i > 0)],
    "masked_select": lambda x, i: x.masked_select(i > 1),
    "masked_scatter": lambda x, i: x.masked_scatter(i > 1, torch.arange(16.0)),
    "a mask": lambda x, i: (x[i > 0], x[(i > 0) & (x > 0)].argsort()),
    "unique": lambda _, i: torch.unique(i, return_inverse=True, return_counts=True),
    "unique along a dim": lambda _, i: torch.unique(table(i), dim=0, return_inverse=True),
    "unique_consecutive": lambda _, i: torch.unique_consecutive(i, return_inverse=True, return_counts=True),
    "repeat_interleave": lambda x, i: (x.repeat_interleave(i.clamp(0, 3)), i.clamp(0, 2).repeat_interleave(2)),
    "bincount": lambda _, i: torch.bincount(i.clamp(0, 7), minlength=3),
    "topk": lambda x, i: x.topk(limited(x, i)),
    "kthvalue": lambda x, i: x.kthvalue(i[0].clamp(1, x.shape[0]).item()),
    "sort": lambda x, i: (x[i > 0].sort(), x.sort().values[: (i > 0).sum().item()]),
    "argsort": lambda x, i: i.argsort(descending=True)[: limited(x, i)],
    "split": lambda x, i: x.split([limited(x, i), x.shape[0] - limited(x, i)]),
    "split_with_sizes": split_by_lengths,
    "tensor_split": lambda x, i: torch.tensor_split(x, [limited(x, i)]),
    "chunk": lambda x, i: x.new_zeros(i[0].clamp(4, 9).item()).chunk(2),
    "arange": lambda _, i: torch.arange(i[0].clamp(0, 9).item()),
    "arange from": lambda _, i: torch.arange(i[0].clamp(-5, 0).item(), i[-1].clamp(1, 5).item()),
    "arange in steps": lambda x, i: (torch.arange(0, limited(x, i), 3), torch.arange(limited(x, i), -1, -2)),
    "arange in parts": lambda x, i: torch.arange(0, limited(x, i), 0.5),
    "linspace": lambda _, i: torch.linspace(0, i[0].item(), 5),
    "linspace in steps": lambda x, i: torch.linspace(0, 1, limited(x, i)),
    "narrow": lambda x, i: (x.narrow(0, 0, limited(x, i)), x.narrow(0, limited(x, i), x.shape[0] - limited(x, i))),
    "narrow by any number": lambda x, i: x.narrow(0, i[0].item(), i[-1].item()),
    "a slice": lambda x, i: (x[: i[0].item()], x[i[0].item() :], x[i[0].item() : i[-1].item()], x[-i[0].item() :]),
    "a slice in steps": lambda x, i: (x[i[0].item() :: 3], x[: i[0].item() : 2]),
    "a slice that is written": lambda x, i: torch.slice_scatter(x, x.new_ones(limited(x, i)), 0, 0, limited(x, i)),
    "select": lambda x, i: x[i[0].clamp(0, x.shape[0] - 1).item()],
    "item of a bool": lambda x, i: x[: (i[0] > 0).item()],
    "item of a byte": lambda x, i: x.new_zeros(i[0].to(torch.uint8).item()),
    "item of an index": lambda x, i: (x[i.argmax().item() :], x[: i.argsort()[0].item()]),
    "item of a count": lambda x, i: (x[: (i > 0).sum().item()], x[: torch.count_nonzero(i).item()]),
    "item of arithmetic": lambda x, i: x[: (i[0].clamp(0, 3) * 2 + torch.tensor(x.shape[0]) // 2).item()],
    "where": lambda x, i: x.new_zeros(torch.where(i > 0, 2, 3).max().item()),
    "minimum": lambda x, i: x.new_zeros(torch.minimum(i.abs().clamp(max=99).max(), torch.tensor(7)).item()),
    "maximum": lambda x, i: x.new_zeros(torch.maximum(i[0], torch.tensor(0)).clamp(max=5).item()),
    "a sum": lambda x, i: x.new_zeros(i.clamp(0, 3).sum().item()),
    "lengths summed up": lambda x, i: x.new_zeros(i.clamp(0, 2).cumsum(0)[-1].item()),
    "sym_min and sym_max": lambda x, i: x.narrow(0, 0, torch.sym_min(torch.sym_max(i[0].item(), 0), x.shape[0])),
    "sym_ite": lambda x, i: x[torch.sym_ite(i[0].item() > 0, 1, 0) :],
    "sym_sum": lambda x, i: x.new_zeros(torch.sym_sum([limited(x, i), i[-1].clamp(0, 2).item(), 1])),
    "cond of numbers": some_or_others,
    "cond of masks": lambda x, i: torch.cond(i[0] > 0, lambda x: x[x > 0], lambda x: x[x <= 0], (x,)),
    "embedding_bag, sum": bags("sum"),
    "embedding_bag, mean": bags("mean"),
    "embedding_bag, max": bags("max"),
    "embedding_bag with the last offset": bags_with_the_last_offset,
    "embedding_bag of what a mask keeps": bags_of_weighed_rows,
    "jagged rows": jagged_rows,
    "padded jagged rows": padded_jagged_rows,
    "index_put": lambda x, i: x.new_zeros(22).index_put((i[i >= 0],), x[i >= 0], accumulate=True),
    "pad": lambda x, i: F.pad(x[i > 0], (0, x.shape[0] - x[i > 0].shape[0])),
    "one_hot": lambda _, i: F.one_hot(i[i > 0].clamp(0, 6), 7),
    "searchsorted": lambda x, _: x[: torch.searchsorted(x.sort().values, x[:1]).max().item()],
    "randperm": lambda x, i: torch.randperm(limited(x, i)).sort().values,
    "full": lambda x, i: torch.full((limited(x, i), x.shape[0]), 2.0),
}


class Model(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.function = PROGRAMS[name]

    def forward(self, x, i):
        return self.function(x, i)


def drawn(seed, size):
    """Inputs of a size: few different numbers or many, negative ones or none."""
    torch.manual_seed(seed)
    low, high = ((0, 2), (-9, 20), (0, 20), (-2, 1))[seed % 4]
    return torch.randn(size), torch.randint(low, high, (size,))


@functools.cache
def proved(name):
    n = Dim("n", min=1, max=LONGEST)
    report = check(Model(name), drawn(2, 5), dynamic_shapes=({0: n}, {0: n}))
    assert report.status == "proved", str(report)
    return report


class Run(torch.fx.Interpreter):
    """Runs a program node by node, and keeps by name what each was noted to give, and what it gave."""

    def __init__(self, program):
        super().__init__(program.module(check_guards=False))
        self.seen = {}

    def run_node(self, node):
        value = super().run_node(node)
        if isinstance(node.meta.get("val"), torch.Tensor | torch.SymInt) and node.users and node.op != "output":
            self.seen[node.name] = (node.meta["val"], value)
        return value


def broken(report, run):
    """What was noted of the program and is not so in a run of it."""
    env = env_of(report.program)
    pairs = [pair for seen in run.seen.values() for pair in zip(*map(symbols.sizes, seen), strict=True)]
    sized = [(env.read(noted), value) for noted, value in pairs]
    point = {name: value for term, value in sized for name in term.symbols if term is symbol(name)}
    yield from (
        (term, value) for term, value in sized if term.symbols <= point.keys() and evaluate(term, point) != value
    )
    yield from (fact for fact in env.trial.known.formulas if fact.symbols <= point.keys() and not holds(fact, point))
    limits = {bound.name: bound.limits for bound in report.bounds}
    for name, (noted, value) in run.seen.items():
        if isinstance(value, torch.Tensor) and value.numel():
            span, least, greatest = env.span(noted), value.min().item(), value.max().item()
            if below(least, span.low, point) or below(-greatest, negated(span.high), point):
                yield name, span, value
        sizes = getattr(value, "shape", ())
        if any(most is not None and size > most for size, most in zip(sizes, limits.get(name, ()), strict=False)):
            yield name, limits[name], sizes


def negated(end):
    return None if end is None else -end


def below(value, end, point):
    """Whether a value lies below an end that is known at a point."""
    return end is not None and end.symbols <= point.keys() and value < evaluate(end, point)


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 10**6), size=st.integers(1, LONGEST))
def test_no_fact_that_is_assumed_is_broken(name, seed, size):
    report, inputs = proved(name), drawn(seed, size)
    assert agree(Model(name), report.program.module(), inputs)
    if outcome(Model(name), inputs) != RAISES:
        run = Run(report.program)
        run.run(*inputs)
        assert list(broken(report, run)) == []
