"""Where supported releases of torch differ: what is relied on in each, and that a user is served alike in all.

The suite runs with one of them at a time: `make test TORCH=2.15.0`.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import re
import tomllib
from pathlib import Path

import pytest
import torch
from torch.export import Dim, _trace
from torch.fx.experimental import sym_node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from shapeproof.export import check, export
from shapeproof.export.shim.versions import SUPPORTED_TORCH, check_version
from shapeproof.export.trace.traced import env_of
from tests.agreement import agree

ROOT = Path(__file__).parents[3]
AT_LEAST_2_14 = torch.__version__ >= "2.14"
AT_LEAST_2_15 = torch.__version__ >= "2.15"


class Joined(torch.nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y]).reshape(-1, 2)


class Named(torch.nn.Module):
    def forward(self, x, **more):
        return x + more["y"]


def joined():
    rows = Dim("rows", min=0, max=9)
    return export(Joined(), (torch.ones(3, 2), torch.ones(3, 2)), dynamic_shapes=({0: rows}, {0: rows}))


# ---------------------------------------------------------------------- what is supported


def test_the_requirement_of_the_package_and_the_refusal_name_the_same_releases():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (requirement,) = [each for each in project["dependencies"] if re.match(r"torch\b", each)]
    lowest, above = re.fullmatch(r"torch>=2\.(\d+),<2\.(\d+)", requirement).groups()
    assert tuple(f"2.{minor}" for minor in range(int(lowest), int(above))) == SUPPORTED_TORCH
    check_version()


def test_the_pinned_release_is_the_first_that_is_supported():
    assert f"\ntorch=={SUPPORTED_TORCH[0]}." in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_the_table_of_the_readme_has_a_column_for_each_release():
    rows = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = {name: said for name, *said in ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows)}
    assert cells[""] == [f"torch {series}" for series in SUPPORTED_TORCH]


# ---------------------------------------------------------------------- what torch remembers


def test_torch_remembers_operations_by_their_expressions_alone_from_2_15_on():
    """sym_nodes.forget_operations relies on it."""
    env = ShapeEnv()
    n = env.create_unbacked_symint()
    first, second = n + 1, n + 1
    assert (first.node is not second.node, first.node.expr) == (True, second.node.expr)
    assert hasattr(env, "_symop_cache") == AT_LEAST_2_15
    if AT_LEAST_2_15:
        (key,) = env._symop_cache
        assert key == ("add", n.node._expr, (n + 1).node.expr - n.node.expr, env._replacements_version_counter)


def test_a_remembered_operation_is_a_new_number_with_the_hint_of_its_operands():
    """The tracer tells numbers apart by their nodes, and a trial in another part of the domain has other hints."""
    env = env_of(joined())
    n = env.create_symintnode(next(iter(env.source_to_var.values())), hint=3)
    other = env.create_symintnode(n.node._expr, hint=5)
    first, second, moved = 2 * n, 2 * n, 2 * other
    assert len({id(each.node) for each in (first, second, moved)}) == 3
    assert first.node._expr is second.node._expr is moved.node._expr
    assert [each.node.hint for each in (first, second, moved)] == [6, 6, 10]
    env.forget_operations()
    assert not env.operations


def test_a_division_that_torch_remembers_is_checked_again():
    """The divisor may be zero in one region and not in the other: the check is on the operation, not on its result."""

    class Divided(torch.nn.Module):
        def forward(self, x, y):
            first = x.shape[0] // y.shape[0] if x.shape[0] > 4 else 1
            return x * first + x.shape[0] // y.shape[0]

    rows, others = Dim("rows", min=0, max=9), Dim("others", min=0, max=3)
    report = check(Divided(), (torch.ones(6), torch.ones(2)), dynamic_shapes=({0: rows}, {0: others}))
    assert report.status == "refuted"
    assert any(diagnostic.witness.get("y.shape[0]") == 0 for diagnostic in report.diagnostics)


def test_torch_finds_every_symbol_of_a_program_by_its_name():
    """What Inductor has written down is read back so; from 2.15 on by a table that whoever makes a symbol fills."""
    env = env_of(joined())
    assert hasattr(env, "name_to_symbol") == AT_LEAST_2_15
    assert env.source_to_var
    for symbol in env.source_to_var.values():
        assert env.deserialize_symexpr(f"{symbol} + 1").node.expr == symbol + 1


# ---------------------------------------------------------------------- conditions


def test_conditions_have_an_exclusive_or_from_2_14_on():
    """protocols.py gives them one before."""
    assert ("xor" in sym_node.magic_methods) == AT_LEAST_2_14


@pytest.mark.parametrize("differ", [operator.xor, operator.ne])
def test_two_conditions_that_differ(differ):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return x * 2 if differ(x.shape[0] > 2, y.shape[0] > 2) else x + 1

    args, few = (torch.ones(4), torch.ones(2)), {0: Dim("few", min=0, max=2)}
    report = check(Model(), args, dynamic_shapes=({0: Dim("n", min=0, max=6)}, few))
    assert (report.status, report.diagnostics[0].id) == ("refuted", "other-program")
    program = export(Model(), args, dynamic_shapes=({0: Dim("n", min=3, max=6)}, few))
    for sizes in ((3, 0), (6, 2)):
        assert agree(Model(), program.module(), tuple(map(torch.ones, sizes)))


# ---------------------------------------------------------------------- declarations


def test_what_goes_into_kwargs_is_declared_by_its_own_name_or_under_its_parameter():
    n, args, more = Dim("n", min=2, max=9), (torch.ones(3, 4),), {"y": torch.ones(3, 4)}
    for shapes in ({"x": {0: n}, "y": {0: n}}, {"x": {0: n}, "more": {"y": {0: n}}}):
        if AT_LEAST_2_14:  # until then torch takes no dynamic sizes in **kwargs
            torch.export.export(Named(), args, more, dynamic_shapes=shapes)
        report = check(Named(), args, more, dynamic_shapes=shapes)
        assert (report.status, report.domain) == ("proved", ("x.shape[0] >= 2", "x.shape[0] <= 9"))
        assert report.program.module()(torch.ones(5, 4), y=torch.ones(5, 4)).shape == (5, 4)


class Mixed(torch.nn.Module):
    def forward(self, a, *, x, **more):
        return a + 2 * x + 3 * more["y"].sum(0) + more["z"].sum()


@pytest.mark.parametrize("order", list(itertools.permutations("xyz")))
def test_keywords_in_any_order_are_told_apart(order):
    """The fault: sizes of a named keyword and of one in `**more` were swapped, and the program refused valid inputs."""
    n, rows = Dim("n", min=1, max=9), Dim("rows", min=1, max=9)
    shapes = {"a": {0: n}, "x": {0: n}, "y": {0: rows, 1: n}, "z": {0: Dim("k", min=1)}}
    given = {"x": torch.ones(3), "y": torch.ones(4, 3), "z": torch.ones(2)}
    for declared in (shapes, None):
        report = check(Mixed(), (torch.ones(3),), {name: given[name] for name in order}, dynamic_shapes=declared)
        assert report.status == "proved", str(report)
        for again in itertools.permutations("xyz"):
            kwargs = {name: torch.randn_like(given[name]) for name in again}
            assert torch.equal(report.program.module()(torch.ones(3), **kwargs), Mixed()(torch.ones(3), **kwargs))


@pytest.mark.skipif(AT_LEAST_2_14, reason="torch takes dynamic sizes in **kwargs")
def test_what_goes_into_kwargs_is_counted_twice():
    """binding.keywords_ranged relies on it: torch counts them twice in this function, which it calls by its name."""
    parameters = ["mod", "export_artifact", "args", "kwargs", "dynamic_shapes"]
    assert list(inspect.signature(_trace._get_range_constraints).parameters) == parameters
    ones, shapes = torch.ones(3, 4), {"x": None, "more": {"y": {0: Dim.AUTO}}}
    with pytest.raises(AssertionError, match="mismatch"):
        torch.export.export(Named(), (ones,), {"y": ones}, dynamic_shapes=shapes)
