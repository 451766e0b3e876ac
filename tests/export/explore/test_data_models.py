"""Models whose sizes come out of data: exported, bounded, and equal to eager on two hundred random inputs each."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export
from tests.agreement import agree

PROBES = 200


def served(model, args, shapes, probe, **options):
    """The report of a proved export whose program does what eager does on every probe."""
    program = export(model, args, dynamic_shapes=shapes, **options)
    assert program.report.status == "proved", str(program.report)
    run = program.module()
    torch.manual_seed(0)
    for seed in range(PROBES):
        assert agree(model, run, probe(seed)), seed
    return program.report


def draw(low, high):
    return int(torch.randint(low, high + 1, ()))


# ---------------------------------------------------------------------- mixture of experts


class Experts(torch.nn.Module):
    """Tokens sorted by expert, each expert on its own part, results put back."""

    def __init__(self, width=6, experts=3):
        super().__init__()
        self.gate = torch.nn.Linear(width, experts)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mine = (chosen == index).nonzero().squeeze(-1)
            out = out.index_add(0, mine, expert(x[mine]) * weight[mine, None])
        return out


@pytest.mark.slow
def test_mixture_of_experts():
    model = Experts()
    tokens = Dim("tokens", min=1, max=64)
    report = served(model, (torch.randn(7, 6),), ({0: tokens},), lambda _: (torch.randn(draw(1, 64), 6),))
    assert {bound.limits[0] for bound in report.bounds} == {64}
    assert report.peak_bytes_bound is not None


# ---------------------------------------------------------------------- a detector's filter


class Filter(torch.nn.Module):
    """Boxes above a threshold, the best first, at most `cap`; one that overlaps a better one too much is dropped."""

    def __init__(self, cap=10):
        super().__init__()
        self.cap = cap

    def forward(self, boxes, scores):
        kept = (scores > 0.3).nonzero().squeeze(-1)
        order = scores[kept].argsort(descending=True)[: self.cap]
        boxes, scores = boxes[kept][order], scores[kept][order]
        low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        area = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(-1)
        shared = (high - low).clamp(min=0).prod(-1)
        overlap = shared / (area[:, None] + area[None] - shared + 1e-6)
        alone = (overlap.triu(1) > 0.5).sum(0) == 0
        return boxes[alone], scores[alone]


def boxes(count):
    corners = torch.rand(count, 2, 2).sort(1).values
    return corners.reshape(count, 4), torch.rand(count)


@pytest.mark.thorough
def test_a_filter_of_boxes_with_a_cap():
    n = Dim("n", min=1, max=100)
    report = served(Filter(), boxes(20), ({0: n}, {0: n}), lambda _: boxes(draw(1, 100)))
    assert report.bounds[-1].limits == (10,)
    assert report.bounds[-2].limits == (10, 4)


# ---------------------------------------------------------------------- a paged cache


class PagedWrite(torch.nn.Module):
    """New keys go to slots of a paged cache; a slot of -1 is padding. Then the pages in use are read."""

    def forward(self, cache, keys, slots, length):
        pages, page, width = cache.shape
        used = slots >= 0
        flat = cache.reshape(pages * page, width).index_copy(0, slots[used], keys[used])
        end = length.clamp(0, pages * page).item()
        return flat.reshape(pages, page, width), flat[:end].sum(0), flat[:end]


def paged(count):
    slots = torch.where(torch.rand(count) < 0.7, torch.randperm(32)[:count], -1)
    return torch.randn(8, 4, 3), torch.randn(count, 3), slots, torch.tensor(draw(-2, 40))


def test_a_write_into_a_paged_cache():
    new = Dim("new", min=1, max=16)
    report = served(PagedWrite(), paged(5), (None, {0: new}, {0: new}, None), lambda _: paged(draw(1, 16)))
    assert report.bounds[-1].limits == (32, 3)


# ---------------------------------------------------------------------- a jagged batch


class Jagged(torch.nn.Module):
    """Rows of different lengths, packed; padded for a layer, and packed again."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, values, lengths):
        longest = lengths.clamp(0, values.shape[0]).max().item()
        mask = torch.arange(longest) < lengths[:, None]
        torch._check(longest >= 0)
        padded = values.new_zeros(lengths.shape[0], longest, values.shape[1])
        padded = padded.masked_scatter(mask[:, :, None].expand_as(padded), values)
        return self.layer(padded)[mask], padded.sum(1)


def jagged(rows):
    lengths = torch.randint(0, 5, (rows,))
    lengths[0] += 1
    return torch.randn(int(lengths.sum()), 4), lengths


@pytest.mark.thorough
def test_a_jagged_batch():
    shapes = ({0: Dim("total", min=1, max=64)}, {0: Dim("rows", min=1, max=8)})
    report = served(Jagged(), jagged(3), shapes, lambda _: jagged(draw(1, 8)))
    assert report.bounds[-1].limits[-1] == 4
    assert max(limit for bound in report.bounds for limit in bound.limits) == 64 * 8


# ---------------------------------------------------------------------- a step of beam search


class BeamStep(torch.nn.Module):
    """Extend each beam that has not ended, keep the best, drop those that are far behind."""

    def __init__(self, vocabulary=11, width=4):
        super().__init__()
        self.vocabulary, self.width = vocabulary, width

    def forward(self, tokens, scores, logits):
        extended = (scores[:, None] + logits.log_softmax(-1)).reshape(-1)
        best, place = torch.topk(extended, self.width)
        beam, token = place // self.vocabulary, place % self.vocabulary
        tokens = torch.cat([tokens[beam], token[:, None]], 1)
        near = best > best[0] - 2.0
        ended = (token == 0) & near
        going = ((token != 0) & near).nonzero().squeeze(1)
        return tokens[going], best[going], tokens[ended]


def beams(count, length):
    return torch.randint(1, 11, (count, length)), torch.randn(count), torch.randn(count, 11)


@pytest.mark.thorough
def test_a_step_of_beam_search():
    beam, length = Dim("beam", min=1, max=4), Dim("length", min=1, max=32)
    shapes = ({0: beam, 1: length}, {0: beam}, {0: beam})
    report = served(BeamStep(), beams(3, 5), shapes, lambda _: beams(draw(1, 4), draw(1, 32)))
    limits = [bound.limits for bound in report.bounds]
    assert (4, 33) in limits
    assert max(limit[0] for limit in limits) == 4


class SplitsByData(torch.nn.Module):
    """As many results as the data says: no one program has them, and the question is torch's own."""

    def forward(self, x, k):
        return [part.sum() for part in x.split(k.item())]


def test_a_number_of_results_that_depends_on_data_is_asked_about_with_a_check_that_the_example_passes():
    example = torch.randn(10), torch.tensor(4)
    report = check(SplitsByData(), example, dynamic_shapes=({0: Dim("n", min=1, max=32)}, None))
    assert report.status == "refuted", str(report)
    (found,) = report.diagnostics
    assert (found.id, found.line) == ("data-dependent", SplitsByData.forward.__code__.co_firstlineno + 1)
    assert "torch._check((x.shape[0] - 1)//k_item == 2)" in str(report)


class AsksInEachCell(torch.nn.Module):
    def forward(self, x, flag):
        y = x.relu() if x.shape[0] > 6 else x.clamp(min=0)
        return y * 2 if flag.item() > 0 else y


def test_the_other_side_of_a_branch_on_data_is_looked_into_once():
    """The fault: it was traced again in each cell of the sizes, and Longformer asks on its first line."""
    example = torch.ones(8), torch.tensor(1)
    report = check(AsksInEachCell(), example, dynamic_shapes=({0: Dim("n", min=2, max=9)}, None))
    assert report.status == "refuted", str(report)
    assert [each.id for each in report.diagnostics] == ["data-dependent", "undecided"]
    assert report.statistics["traces"] == 7


class TakesANumberOnOneSide(torch.nn.Module):
    def forward(self, x, flag, other, n):
        x = x + n.item() if flag.any() else x
        return x * 2 if other.any() else x


def test_programs_that_take_other_numbers_from_data_are_told_apart_in_words():
    """The fault: a number took the place of a bool, and an AssertionError of torch's was the reason given."""
    off = torch.tensor([False])
    example = torch.ones(4), off, off, torch.tensor(3)
    report = check(TakesANumberOnOneSide(), example, dynamic_shapes=({0: Dim("n", min=1, max=9)}, None, None, None))
    assert report.status == "refuted", str(report)
    assert "`aten.item.default` in one program takes from data what the other does not" in str(report)
    assert "AssertionError" not in str(report)
