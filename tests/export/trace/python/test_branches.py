"""A branch whose sides only compute numbers is one term, and never a wrong one where a side does more."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints import formulas as f
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.terms import constant, modulo, symbol
from shapeproof.export import check
from shapeproof.export.trace.python import loops, merging
from shapeproof.solver.facts import Facts
from tests.agreement import agree

pad, nn = torch.nn.functional.pad, torch.nn


class Model(torch.nn.Module):
    """What the models below share."""

    def __init__(self):
        super().__init__()
        self.unit, self.calls, self.sizes = 3, 0, {"unit": 4}

    @property
    def counted(self):
        self.calls += 1
        return self.calls


class Number:
    def __init__(self):
        self.added = 0

    def __add__(self, other):
        self.added += 1
        return self.added + other


class AsTensorflow(Model):
    def forward(self, x):
        n = x.shape[0]
        if n % 2 == 0:  # noqa: SIM108 - a statement
            more = max(self.unit - 2, 0)
        else:
            more = max(self.unit - (n % 2), 0)
        before = more // 2
        return pad(x, (0, 0, before, more - before))


class ByAnExpression(Model):
    def forward(self, x):
        n, m = x.shape
        return pad(x, (m % 2, 0, 0, 1 if n % 3 == 0 else 3 - n % 3))


class ToAMultiple(Model):
    def forward(self, x):
        n = x.shape[0]
        if n % self.sizes["unit"] != 0:
            pads = (0, 0, 0, 4 - n % 4)
            x = nn.functional.pad(x, pads)
        return x.unfold(0, 4, 4).sum(-1)


class ToWindowsAndBack(Model):
    def forward(self, x):
        n, m = x.shape
        rows, columns = (4 - n % 4) % 4, (2 - m % 2) % 2
        if rows > 0 or columns > 0:
            x = pad(x, (0, columns, 0, rows))
        high, wide = x.shape
        x = x.reshape(high // 4, 4, wide // 2, 2).flip(1).reshape(high, wide)
        if rows > 0 or columns > 0:
            x = x[:n, :m].contiguous()
        return x + 1


class ByAConditionWithAName(Model):
    def forward(self, x):
        n, m = x.shape
        uneven = n % 2 == 1 or m % 2 == 1
        if uneven:
            x = pad(x, (0, m % 2, 0, n % 2))
        y = x.unfold(0, 2, 2).unfold(1, 2, 2).flatten(2).sum(-1)
        if uneven:
            y = y[: n // 2, : m // 2]
        return y


class ByAFlag(Model):
    def forward(self, x):
        n, odd = x.shape[0], False
        if n % 2 != 0:
            x = pad(x, (0, 0, 0, 1))
            odd = True
        y = x.unfold(0, 2, 2).sum(-1).repeat_interleave(2, 0)
        if odd:
            y = y[:n]
        return y


class InPlace(Model):
    def forward(self, x):
        n = added = x.shape[0]
        if n % 3:
            added += 3 - n % 3
        return pad(x, (0, 0, 0, added - n)).reshape(-1, 3)


class OfTwoConstants(Model):
    def forward(self, x):
        n, m = x.shape
        more = 1 if (n % 2 == 0 and not m > 2) or 2 < n < 6 else -1
        return pad(x, (0, 0, more, 2))


class TheGreater(Model):
    def forward(self, x):
        n = x.shape[0]
        most, least = max(6, n), n
        if n > 4:
            least = 4
        return pad(x, (0, 0, 0, most - n))[:least]


class Rounded(Model):
    def forward(self, x):
        n = x.shape[0]
        return pad(x, (0, 0, 0, 2 - n % 2 if n % 2 else int(n / 2 + 0.5) * 2 - n))


class Inside(Model):
    def forward(self, x):
        n = x.shape[0]
        if n % 2 == 0:
            if n % 4 == 0:  # noqa: SIM108 - a statement
                more = 0
            else:
                more = 4 - n % 4
        else:
            more = 4 - n % 4
        return pad(x, (0, 0, 0, more))


class TwoSwapped(Model):
    def forward(self, x):
        n, m = x.shape
        if n > m:
            n, m = m, n
        return x.reshape(-1)[:n] + n * 10 + m


class WrittenIntoAView(Model):
    def forward(self, x):
        y = z = x * 2
        if x.shape[0] > 5:
            y = y[:5]
        y.add_(1)
        return z, y * 2


ONE = [
    *(AsTensorflow, ByAnExpression, InPlace, OfTwoConstants, TheGreater, Rounded, Inside, TwoSwapped),
]


class Divides(Model):
    def forward(self, x):
        n = x.shape[0]
        return pad(x, (0, 0, 0, 12 // (n - 4) if n > 4 else 0))


class Raises(Model):
    def forward(self, x):
        n = x.shape[0]
        return pad(x, (0, 0, 0, (1, 2, 3)[self.unit] if n > 9 else 0))


class Unbound(Model):
    def forward(self, x):
        n = x.shape[0]
        if n % 2 == 0:
            more = n
        return pad(x, (0, 0, 0, more))


class Appends(Model):
    def forward(self, x):
        n, seen = x.shape[0], []
        if n % 2 == 0:
            more = 1
            seen.append(1)
        else:
            more = 2
        return pad(x, (0, 0, 0, more + len(seen)))


class Counts(Model):
    def forward(self, x):
        return pad(x, (0, 0, 0, self.counted if x.shape[0] % 2 == 0 else 2)) + self.calls


class Calls(Model):
    def forward(self, x):
        def more(n):
            self.calls += 1
            return n + 1

        n = x.shape[0]
        return pad(x, (0, 0, 0, more(n) if n % 2 == 0 else 2)) + self.calls


class Overloads(Model):
    def forward(self, x):
        number, n = Number(), x.shape[0]
        more = number + 1 if n % 2 == 0 else 2
        return pad(x, (0, 0, 0, more)) + number.added


class Stores(Model):
    def forward(self, x):
        if x.shape[0] % 2 == 0:
            self.calls = 1
        else:
            self.calls = 2
        return x * self.calls


class AddsToATensor(Model):
    def forward(self, x):
        y = x * 1
        if x.shape[0] % 2 == 0:
            y += 1
        else:
            y += 0
        return y * 2


class ReadsData(Model):
    def forward(self, x):
        more = 1 if x.shape[0] % 2 == 0 else int(x.sum().item() * 0)
        return pad(x, (0, 0, 0, more))


class OfFloats(Model):
    def forward(self, x):
        return x * (0.5 if x.shape[0] % 2 == 0 else 0.25)


class OfTexts(Model):
    def forward(self, x):
        return pad(x[None], (1, 1), "constant" if x.shape[0] % 2 == 0 else "replicate")


class GuardedByOr(Model):
    def forward(self, x):
        n = x.shape[0]
        return pad(x, (0, 0, 0, 1 if n == 4 or 12 // (n - 4) > 2 else 3))


class OfABoolAsANumber(Model):
    """A crash of ours: torch has no bounds for a condition in a condition."""

    def forward(self, x):
        n = x.shape[0]
        return pad(x, (0, 0, 0, 3 if int(n > 3) and n < 9 else 1))


class DroppedAndPadded(Model):
    """A wrong proof: of a dropout in evaluation eager returns the operand itself."""

    def forward(self, x):
        x = nn.functional.dropout(x, 0.5, training=False)
        if x.shape[0] % 4 != 0:
            x = pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
        return x


class PaddedWithoutGradient(Model):
    """A wrong proof: what is not padded keeps its gradient."""

    def forward(self, x):
        x = x * 2
        with torch.no_grad():
            if x.shape[0] % 4 != 0:
                x = pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
        return x * 2


class PaddedAndWritten(Model):
    def forward(self, x):
        if x.shape[0] % 4 != 0:
            x = pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
        x.add_(1)
        return x * 1


class PaddedAndReturned(Model):
    def forward(self, x):
        if x.shape[0] % 4 != 0:
            x = pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
        return x


class PaddedBesideItself(Model):
    def forward(self, x):
        y = x = x * 2
        if x.shape[0] % 4 != 0:
            x = pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
        y.mul_(3)
        return x + 1, y


class PaddedInColumns(Model):
    def forward(self, x):
        x = (x * 2).t()
        if x.shape[1] % 4 != 0:
            x = pad(x, (0, 4 - x.shape[1] % 4))
        return x.t().view(-1)


class PaddedAndAskedFor(Model):
    def forward(self, x):
        x = y = x * 2
        if x.shape[0] % 4 != 0:
            x = pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
        return x + 1 if x is y else x + 2


class CroppedFromTheEnd(Model):
    def forward(self, x):
        n, x = x.shape[0], x * 2
        if n > 5:
            x = x[: 5 - n]
        return x + 1


class CopiedAndWritten(Model):
    def forward(self, x):
        y = z = x * 2
        if x.shape[0] > 5:
            y = y[:5].contiguous()
        y.add_(1)
        return z * 1, y * 2


class FarApart(Model):
    def forward(self, x):
        n = x.shape[0]
        return x.sum() + torch.ones(n * n if n > 6 else n + 1).sum()


OTHERS = [
    *(Divides, Raises, Unbound, Appends, Counts, Calls, Overloads, Stores, AddsToATensor, ReadsData, OfFloats, OfTexts),
    *(GuardedByOr, PaddedAndWritten, PaddedAndReturned, PaddedBesideItself, PaddedInColumns, PaddedAndAskedFor),
    *(CroppedFromTheEnd, CopiedAndWritten, FarApart, OfABoolAsANumber, DroppedAndPadded, PaddedWithoutGradient),
    *(ToAMultiple, ToWindowsAndBack, ByAConditionWithAName, ByAFlag, WrittenIntoAView),
]


def checked(kind):
    shapes = {"x": {0: Dim("n", min=1, max=12), 1: Dim("m", min=1, max=4)}}
    return check(kind(), (torch.rand(5, 3),), dynamic_shapes=shapes)


def agrees(kind, program):
    sizes = itertools.product(range(1, 13), range(1, 5))
    return all(agree(kind(), program.module(), (torch.rand(n, m),)) for n, m in sizes)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ONE)
def test_a_branch_whose_sides_compute_numbers_is_one_program(kind):
    report = checked(kind)
    assert (report.status, report.statistics["regions"]) == ("proved", 1), str(report)
    assert agrees(kind, report.program)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", OTHERS)
def test_a_branch_whose_sides_do_more_is_not_merged_wrongly(kind):
    report = checked(kind)
    assert report.status != "proved" or agrees(kind, report.program)


def test_padding_as_tensorflow_asks_nothing_of_the_sizes():
    report = checked(AsTensorflow)
    assert (report.status, report.statistics["traces"]) == ("proved", 2), str(report)
    assert agrees(AsTensorflow, report.program)


def test_a_side_that_writes_a_name_of_the_model_is_no_number():
    assert all(loops.numbers_at(Stores.forward.__code__, line) is None for line in range(600))
    assert {"n"} in [loops.numbers_at(AsTensorflow.forward.__code__, line) for line in range(600)]


class SetsAFlag(Model):
    """As attention of one query does without its causal mask."""

    def forward(self, x):
        masked = True
        if x.shape[0] == 1:
            masked = False
        return x.cumsum(0) if masked else x + 0


def test_a_branch_that_sets_a_flag_is_not_traced_for_a_number():
    """The fault: each decoder of x-transformers was traced twice at the first point, and the second thrown away."""
    report = checked(SetsAFlag)
    assert report.statistics["traces"] == 2, str(report)
    assert report.status != "proved" or agrees(SetsAFlag, report.program)


@pytest.mark.parametrize("unit", range(2, 6))
def test_a_number_modulo_what_it_is_elsewhere_is_each_sides_own(unit):
    n = symbol("n")
    here = f.ne(modulo(n, unit), 0)
    facts = Facts([f.ge(n, 0), f.le(n, 40)])
    for more in (unit - modulo(n, unit), modulo(n, unit) + unit, constant(unit), n):
        cycle = merging._cycle(more, facts.assuming(here), facts.assuming(here.negation))
        for value in range(41) if cycle is not None else ():
            own = evaluate(more, {"n": value})
            assert own % cycle == (own if holds(here, {"n": value}) else 0)
