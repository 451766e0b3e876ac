"""docs/explanation/what-a-trace-exchanges.md lists what a trace exchanges in torch, and all of it is put back."""

from __future__ import annotations

import re
import sys
import types
import warnings

import pytest
import torch
from torch.export import Dim

from shapeproof.export import export
from shapeproof.export.trace.shape_env import ProofShapeEnv
from tests.rooms import ROOT

PAGE = ROOT / "docs" / "explanation" / "what-a-trace-exchanges.md"
ROW = re.compile(r"^\| (`torch\.[^|]*) \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)


def owners():
    """Each module of torch that is loaded, and each class that is a global name of one, by name."""
    modules = {name: module for name, module in sorted(sys.modules.items()) if re.match(r"torch(\.|$)", name)}
    yield from modules.items()
    for module in filter(None, modules.values()):
        for value in list(vars(module).values()):
            if isinstance(value, type) and str(value.__module__).startswith("torch"):
                yield f"{value.__module__}.{value.__qualname__}", value


def attributes():
    """The value of each attribute of torch, by the name of its owner and its own."""
    with warnings.catch_warnings(action="ignore"):  # names that torch deprecates
        return {
            (name, each): value
            for name, owner in owners()
            for each, value in (list(vars(owner).items()) if isinstance(owner, types.ModuleType | type) else ())
        }


def differing(before, after):
    known = {name for name, _ in before}  # a module that is loaded meanwhile is nobody's exchange
    return {key for key in before.keys() | after.keys() if key[0] in known and before.get(key) is not after.get(key)}


class Halved(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.relu(x[: x.shape[0] // 2])


class Added(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x, **more):
        return x + more["y"] * float(x.shape[0])


X, SIZES = torch.ones(3, 2), {0: Dim("n", min=2, max=8)}
CALLS = [
    pytest.param(Halved(), {}, {"x": SIZES}, id="a slice"),
    pytest.param(Added(), {"y": X}, {"x": SIZES, "more": {"y": SIZES}}, id="keywords"),
]


def listed():
    """The attributes on the page, by owner and name; without those of torch 2.13 alone, where it is another."""
    for owned, names, words in ROW.findall(PAGE.read_text(encoding="utf-8")):
        if torch.__version__ < "2.14" or "Torch 2.13 alone" not in words:
            yield from (
                (owner, name) for owner in re.findall(r"`(.+?)`", owned) for name in re.findall(r"`(\w+)`", names)
            )


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "more", "shapes"), CALLS)
def test_the_page_lists_what_a_trace_exchanges_and_torch_does_not(model, more, shapes, monkeypatch):
    """Looked at where the model has just run, and compared with the same moment of torch's own export."""
    inside, torchs_own, write_checks = [], [], ProofShapeEnv.write_checks

    def look(env):
        inside.append(None if inside else attributes())
        write_checks(env)

    export(model, (X,), more, dynamic_shapes=shapes)  # what torch loads at its first export
    before = attributes()
    monkeypatch.setattr(ProofShapeEnv, "write_checks", look)
    export(model, (X,), more, dynamic_shapes=shapes)
    after = attributes()
    model.register_forward_hook(lambda *_: torchs_own.append(attributes()))
    torch.export.export(model, (X,), more)
    exchanged = differing(before, inside[0]) - differing(before, torchs_own[-1])
    assert exchanged == set(listed())
    assert not differing(before, after) & exchanged


def test_the_page_counts_them():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    counted = sum(len(re.findall(r"`.+?`", owned)) * len(re.findall(r"`\w+`", names)) for owned, names, _ in rows)
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{counted} attributes of torch's classes" in text
    assert f"with torch 2.14 and 2.15, {counted - 1}." in text


def test_an_exchange_that_the_page_lacks_is_seen(monkeypatch):
    before = attributes()
    monkeypatch.setattr(torch.SymInt, "__add__", None)
    monkeypatch.setattr(torch.fx.graph, "_new", 1, raising=False)
    assert differing(before, attributes()) == {("torch.SymInt", "__add__"), ("torch.fx.graph", "_new")}
