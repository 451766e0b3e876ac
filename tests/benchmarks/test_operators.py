"""Where torch's fakes and kernels disagree: the committed list, and that none of it gives a wrong "proved"."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks.operators.calls import Call, contiguous, make_tensor, to_data
from benchmarks.operators.listing import BECAUSE, LIST, PAGE, listed, page
from benchmarks.operators.probing import probe
from benchmarks.operators.watching import Watching

LOOKED_AT = [(each.call, each.kind) for each, tried in listed() if tried]
EMPTY = Call("aten.pixel_unshuffle.default", [to_data(torch.ones(1, 1, 0, 0)), 3])


def wrong(call, kind):
    return [each for each in probe(call, kind) if each.wrong]


def test_every_disagreement_of_the_list_was_tried_or_needs_no_trial():
    found = listed()
    assert len(found) > 100
    ways = {(each.call.op, each.source, each.kind) for each, _ in found if each.kind not in BECAUSE}
    assert ways == {(each.call.op, each.source, each.kind) for each, tried in found if tried}
    assert not [one for _, tried in found for one in tried if one["wrong"]]


def test_the_page_shows_the_list():
    saved = json.loads(LIST.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(saved["about"], saved["found"], saved["symbolic"])


@pytest.mark.thorough
@pytest.mark.parametrize(("call", "kind"), [(EMPTY, "sizes")])
def test_sizes_that_were_once_proved_wrongly_are_not(call, kind):
    assert wrong(call, kind) == []


@pytest.mark.slow
@pytest.mark.parametrize(("call", "kind"), LOOKED_AT, ids=lambda value: value.op if isinstance(value, Call) else value)
def test_no_disagreement_gives_a_wrong_proof(call, kind):
    assert wrong(call, kind) == []


def test_a_call_is_read_as_it_was_written():
    tensors = [torch.arange(6).reshape(2, 3).t(), torch.ones(4)[1::2], torch.ones(1, 3).expand(2, 3), torch.ones(0, 2)]
    for tensor in tensors:
        made = make_tensor(json.loads(json.dumps(to_data(tensor)))["tensor"])
        assert (made.shape, made.stride(), made.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
        assert made.is_floating_point() or torch.equal(made, tensor)
        assert contiguous(list(tensor.shape)) == list(torch.ones(tensor.shape).stride())


def test_what_disagrees_is_seen_and_what_agrees_is_not():
    found = []
    with Watching(found.append, {}):
        torch.ones(2, 3).t().relu()
        torch.pixel_unshuffle(torch.ones(0, 1, 4, 4), 2)
    assert {(each.call.op, each.kind) for each in found} == {("aten.pixel_unshuffle.default", "sizes")}
