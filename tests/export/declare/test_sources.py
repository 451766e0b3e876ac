"""torch.compile's list of dynamic sources: read as torch reads it, learned from torch, and given to torch."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import pgo
from torch._dynamo.variables import builder
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import Sources, check, export
from shapeproof.seen import Seen
from tests.export.random_programs import built

MATRIX = built("class Model(torch.nn.Module):\n    def forward(self, x, n, y=None):\n        return x * n\n")

LISTS = ["L['x']", "L['x']:1", "L['x']:0, L['n']", "L\\['x'\\]:1", "L.*", "", "L['x']:7", "L['x'],L['x']:1", ".*n.*"]


@pytest.mark.parametrize("text", LISTS)
def test_a_list_names_what_torch_takes_it_to_name(text):
    args = (torch.ones(3, 4), 5, torch.ones(2))
    with torch.compiler.config.patch(dynamic_sources=text):
        want = {
            "x": [
                f"x.shape[{i}]" if builder.is_dynamic_source("L['x']", i) else str(size) for i, size in ((0, 3), (1, 4))
            ],
            "n": ["n" if builder.is_dynamic_source("L['n']") else "5"],
            "y": ["y.shape[0]" if builder.is_dynamic_source("L['y']", 0) else "2"],
        }  # fmt: skip
    report = check(MATRIX, args, dynamic_shapes=Sources(text))
    assert (report.status, report.inputs) == ("proved", want)


@pytest.mark.thorough
def test_what_the_model_makes_constant_is_not_an_error_and_what_names_nothing_is_a_note():
    mod = built("class Model(torch.nn.Module):\n    def forward(self, x):\n        return x.view(3, 4)\n")
    report = check(mod, (torch.ones(3, 4),), dynamic_shapes=Sources("L['x'],L['z'],L['x']:5"))
    assert report.status == "proved"
    assert {"`L['z']` names no size of an input", "`L['x']:5` names no size of an input"} <= set(report.notes)


def test_what_is_no_list_is_refused():
    with pytest.raises(UsageError, match=r"'\(' is neither a source nor a regular expression: missing \)"):
        Sources("(")
    with pytest.raises(UsageError, match=r"expected texts such as"):
        Sources(3)


def test_the_environment_counts_when_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DYNAMIC_SOURCES", "L['x']:0")
    assert str(Sources.from_environment()) == "L['x']:0"
    assert check(MATRIX, (torch.ones(3, 4), 5)).inputs == {"x": ["3", "4"], "n": ["5"]}


def test_what_torch_has_learned_is_one_program():
    """Canary: torch._dynamo.pgo keeps a state for the code of forward, in which what varied is `auto_dynamic`."""
    torch._dynamo.reset()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x, n):
            return self.layer(x) * n

    mod = Model()
    assert str(Sources.of_torch(mod)) == ""
    compiled = torch.compile(mod, backend="eager")
    compiled(torch.ones(10, 4), 3), compiled(torch.ones(20, 4), 3), compiled(torch.ones(20, 4), 7)
    learned = Sources.of_torch(mod)
    assert set(str(learned).split(",")) == {"L['x']:0", "L['n']"}
    state = pgo.get_code_state()[pgo.CodeId.make(Model.forward.__code__, Model.forward.__closure__)]
    assert state.automatic_dynamic["L['x']"].size == (pgo.auto_dynamic, 4)
    report = check(mod, (torch.ones(10, 4), 3), dynamic_shapes=learned)
    assert (report.status, report.inputs["x"]) == ("proved", ["x.shape[0]", "4"])
    torch._dynamo.reset()


@pytest.mark.thorough
def test_what_is_proved_is_a_list_with_which_torch_compiles_once():
    mod = built(
        "class Model(torch.nn.Module):\n    def forward(self, x, k, d):\n        return x.view(4, -1) * k + d['a'][0]\n"
    )
    auto = {0: Dim.AUTO, 1: Dim.AUTO}
    args = (torch.ones(4, 6), 3, {"a": [torch.ones(1)]})
    shapes = {"x": auto, "k": Dim.AUTO, "d": {"a": [None]}}
    program = export(mod, args, dynamic_shapes=shapes)
    assert set(str(Sources.of_program(program)).split(",")) == {"L['x']:0", "L['x']:1", "L['k']"}
    with pytest.raises(UsageError, match="expected one program that is proved"):
        Sources.of_program(torch.export.export(mod, args))

    torch._dynamo.reset()
    compiled, counter = [], built("class Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n")

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    program = export(counter, (torch.ones(3, 2),), dynamic_shapes=({0: Dim.AUTO},))
    with torch.compiler.config.patch(dynamic_sources=str(Sources.of_program(program))):
        run = torch.compile(counter, backend=backend)
        for rows in (10, 20, 30):
            run(torch.ones(rows, 2))
    assert len(compiled) == 1
    torch._dynamo.reset()

    x = torch.ones(10, 2)
    assert Sources.of_program(program).marks() == "mark_dynamic(x, 0)"
    torch._dynamo.mark_dynamic(x, 0)
    run = torch.compile(counter, backend=backend)
    run(x), run(torch.ones(20, 2)), run(torch.ones(30, 2))
    assert len(compiled) == 2
    torch._dynamo.reset()


def test_what_was_seen_and_proved_is_named_to_torch_and_nothing_else():
    """`y` is served at every size and was seen at one; `k` is an int, which takes no mark."""
    mod = built("class Model(torch.nn.Module):\n    def forward(self, x, y, k):\n        return x * k + y.sum()\n")
    seen = Seen()
    for rows, k in ((3, 2), (5, 7), (4, 1)):
        seen.add((torch.ones(rows, 2), torch.ones(6)), {"k": k})
    args = (torch.ones(3, 2), torch.ones(6), 2)
    program = export(mod, args, dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}, Dim.AUTO))
    assert str(Sources.of_program(program)) == "L['x']:0,L['y']:0,L['k']"
    assert seen.sources(program) == "L['x']:0,L['k']"
    assert seen.marks(program) == "mark_dynamic(x, 0)"
    static = export(mod, args)
    assert (seen.sources(static), seen.marks(static)) == ("", "")
    for other in (torch.export.export(mod, args), seen):
        with pytest.raises(UsageError, match="expected one program that is proved"):
            seen.sources(other)
    regions = export(
        built("class Model(torch.nn.Module):\n    def forward(self, x):\n        return x if x.shape[0] > 4 else -x\n"),
        (torch.ones(3),),
        dynamic_shapes=({0: Dim("n", min=0)},),
        branches="split",
    )
    with pytest.raises(UsageError, match="expected one program that is proved"):
        seen.sources(regions)
