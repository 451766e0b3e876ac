"""Facts of torch that containers among the inputs, and data made up for them, rely on."""

from __future__ import annotations

import copy

import torch


class Step(torch.nn.Module):
    def forward(self, cache, x):
        cache["k"] = torch.cat([cache["k"], x])
        return cache["k"].sum(), cache


def test_an_exported_program_gives_what_is_rebound_and_rebinds_nothing():
    args = {"k": torch.ones(2, 3)}, torch.ones(1, 3)
    program = torch.export.export(Step(), copy.deepcopy(args))
    total, grown = program.module()(*args)
    assert (total.item(), list(grown["k"].shape)) == (9, [3, 3])
    assert list(args[0]["k"].shape) == [2, 3]
    assert [spec.target for spec in program.graph_signature.output_specs] == [None, None]


def test_hooks_see_the_containers_of_a_trace_and_the_objects_in_them():
    seen = []
    model = Step()
    model.register_forward_pre_hook(lambda _, args, __: seen.append((args[0], args[0]["k"])), with_kwargs=True)
    model.register_forward_hook(lambda _, args, result: seen.append((args[0], args[0]["k"], result[1])))
    torch.export.export(model, ({"k": torch.ones(2, 3)}, torch.ones(1, 3)))
    before, after = seen
    assert before[0] is after[0] is after[2]
    assert before[1] is not after[1]
    assert after[2]["k"] is after[1]


def test_of_nan_no_comparison_holds_whatever_is_made_of_it():
    made = torch.nn.Linear(4, 2)(torch.full((3, 4), float("nan"))).sigmoid().softmax(-1)
    assert not (made > 0.5).any()
    assert not (made <= 0.5).any()
