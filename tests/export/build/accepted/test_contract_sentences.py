"""What a contract does not check is in its sentences: two contracts that say the same belong to programs alike."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
import torch.utils._pytree as pytree
from torch.export import Dim

from shapeproof.ci.locked.contracts import lost
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.export import check


@dataclasses.dataclass
class Box:
    a: torch.Tensor


@dataclasses.dataclass
class Case:
    a: torch.Tensor


class Tagged:
    def __init__(self, a, tag):
        self.a, self.tag = a, tag


class Pair(NamedTuple):
    a: Any


class Point(NamedTuple):
    a: Any


pytree.register_dataclass(Box)
pytree.register_dataclass(Case)
pytree.register_pytree_node(
    Tagged, lambda node: ([node.a], node.tag), lambda parts, tag: Tagged(*parts, tag),
    flatten_with_keys_fn=lambda node: ([(pytree.GetAttrKey("a"), node.a)], node.tag),
)  # fmt: skip


class Model(torch.nn.Module):
    def __init__(self, body, limit=9.0):
        super().__init__()
        self.body = body
        self.register_buffer("limit", torch.full((2,), limit))
        self.weight = torch.nn.Parameter(torch.rand(2))

    def forward(self, x):
        return self.body(self, x)


SHAPES = ({0: Dim("n", min=2, max=8)},)


def contract(body, x=None, shapes=SHAPES, **given):
    report = check(Model(body, **given), (torch.ones(4, 2) if x is None else x,), dynamic_shapes=shapes)
    assert report.contract is not None, report
    return report.contract


def checks(made):
    """A body that checks a number from data."""

    def body(model, x):
        torch._check(made(model, x).item() > -1)
        return x * 2

    return body


def below(_, x):
    first, second = x.long().sum().item(), x.long().max().item()
    torch._check(first < second)
    return x * 2


def above(_, x):
    """The same numbers in the same order under the other names, so that the text of the check is the same."""
    second, first = x.long().sum().item(), x.long().max().item()
    torch._check(first < second)
    return x * 2


def asserts(condition):
    def body(model, x):
        assert condition(model, x).all()
        return x * 2

    return body


def awaited(condition):
    def body(model, x):
        torch._assert_async(condition(model, x).all())
        return x * 2

    return body


def branches(made):
    def body(_, x):
        torch._check(torch.cond(x.sum() > 3, made, lambda x: x * 2, (x,)).sum().item() > -1)
        return x * 2

    return body


BODIES = {
    "another number": (checks(lambda _, x: x.sum()), checks(lambda _, x: x.max())),
    "another operand": (checks(lambda _, x: (x + 1).sum()), checks(lambda _, x: (x + 2).sum())),
    "written before": (checks(lambda _, x: (x + 1).sum()), checks(lambda _, x: (x + 1).mul_(2).sum())),
    "another constant": (
        checks(lambda _, x: (x - torch.tensor([1.0, 2.0])).sum()),
        checks(lambda _, x: (x - torch.tensor([1.0, 3.0])).sum()),
    ),
    "another weight": (checks(lambda m, x: (x * m.weight).sum()), checks(lambda m, x: (x * m.limit).sum())),
    "the other names": (below, above),
    "another result": (
        lambda _, x: (torch._check(torch.unique(x.long(), return_counts=True)[0][0].item() < 5), x)[1],
        lambda _, x: (torch._check(torch.unique(x.long(), return_counts=True)[1][0].item() < 5), x)[1],
    ),
    "an assert": (asserts(lambda _, x: x > 0), asserts(lambda _, x: x > 0.5)),
    "more of an assert": (asserts(lambda _, x: x[:1] > 0), asserts(lambda _, x: x > 0)),
    "an assert on the device": (awaited(lambda _, x: x > 0), awaited(lambda _, x: x > 0.5)),
    "rows": (checks(lambda _, x: x.nonzero()[0, 0]), checks(lambda _, x: (x + 1).nonzero()[0, 0])),
    "in a branch": (branches(lambda x: x * 3), branches(lambda x: x * 4)),
    "its shape": (lambda _, x: x * 2, lambda _, x: x * x.stride(0)),
    "a gradient": (lambda _, x: x * 2, lambda _, x: x * (3 if x.requires_grad else 2)),
    "written into": (lambda _, x: x * 2, lambda _, x: x.mul_(2) + 1),
    "a buffer written into": (lambda _, x: x * 2, lambda m, x: (m.limit.add_(1), x * 2)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", BODIES)
def test_another_requirement_on_data_or_memory_may_refuse(case):
    old, new = BODIES[case]
    before = contract(old)
    assert isinstance(lost(before, contract(new)), Undecided)
    assert lost(before, contract(old)) is None


@pytest.mark.thorough
def test_what_leads_elsewhere_is_no_other_check():
    """The numbers of torch's symbols count all data that a model reads; the texts of assertions name a line."""
    plain = checks(lambda _, x: x.sum())

    def more(_, x):
        torch._check(x.max().item() > -5)
        torch._check(x.sum().item() > -1)
        return x.relu() * 3

    assert lost(contract(more), contract(plain)) is None
    again = checks(lambda _, x: x.sum())
    assert lost(contract(plain), contract(again)) is None
    assert lost(contract(branches(lambda x: x * 3)), contract(branches(lambda x: x * 3))) is None


@pytest.mark.thorough
def test_a_limit_in_a_buffer_counts_by_its_value():
    body = asserts(lambda model, x: x < model.limit)
    assert lost(contract(body, limit=9.0), contract(body, limit=9.0)) is None
    assert isinstance(lost(contract(body, limit=9.0), contract(body, limit=8.0)), Undecided)


@pytest.mark.thorough
def test_another_order_in_memory_may_refuse():
    def body(_, x):
        return x * x.stride(0)

    turned = torch.ones(2, 4).t()
    assert isinstance(lost(contract(body), contract(body, turned)), Undecided)
    assert lost(contract(body, turned), contract(body, turned)) is None


KINDS = [
    {"a": torch.ones(4, 2)}, OrderedDict(a=torch.ones(4, 2)), Box(torch.ones(4, 2)), Case(torch.ones(4, 2)),
    Pair(torch.ones(4, 2)), Point(torch.ones(4, 2)), Tagged(torch.ones(4, 2), "mean"), Tagged(torch.ones(4, 2), "sum"),
]  # fmt: skip


@pytest.mark.thorough
def test_each_kind_of_container_is_another():
    """The program refuses another kind than the example's; its contract says so."""

    def body(_, given):
        return (given["a"] if isinstance(given, dict) else given.a) * 2

    made = [contract(body, kind, shapes=None) for kind in KINDS]
    for old, kind in zip(made, KINDS, strict=True):
        program = check(Model(body), (kind,)).program.module()
        for new, other in zip(made, KINDS, strict=True):
            assert (lost(old, new) is None) is (kind is other)
            if kind is not other:
                with pytest.raises(RuntimeError):
                    program(other)


@pytest.mark.thorough
def test_a_check_of_one_region_is_one_of_its_sizes():
    """The same check, made at more sizes than before."""

    def from_size(size):
        def body(_, x):
            if x.shape[0] > size:
                torch._check(x.sum().item() > -1)
                return x + 1
            return x * 2

        return body

    def split(body):
        found = check(Model(body), (torch.ones(4, 2),), dynamic_shapes=SHAPES, branches="split").contract
        assert found is not None
        return found

    assert isinstance(lost(split(from_size(6)), split(from_size(4))), Undecided)
    assert lost(split(from_size(6)), split(from_size(6))) is None
