"""dynamic_shapes is matched with the inputs as torch.export matches it, whatever the signature and the call."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.exc import UserError
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import OutsideDomain, check, export
from shapeproof.export.shim.inputs.binding import keywords_ranged
from tests.thoroughness import examples

_ANY, _ALONE, _REST, _KEYWORD, _MORE = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)


class Weighted(torch.nn.Module):
    """Sums every number it is given, each with a weight of its own."""

    def forward(self, a, p, q):
        return a.sum() + p.sum() * 2 + q.sum() * 3


def test_a_tuple_is_read_in_the_order_of_the_signature_not_of_the_keywords():
    """The fault: `q` was dynamic where the second of (a, p, q) was declared, and that was called proved."""
    program = export(
        Weighted(),
        (torch.ones(3, 4),),
        {"q": torch.ones(5, 4), "p": torch.ones(6, 4)},
        dynamic_shapes=(None, {0: Dim("n")}, None),
    )
    run = program.module()
    assert float(run(torch.ones(3, 4), q=torch.ones(5, 4), p=torch.ones(9, 4))) == 12 + 2 * 36 + 3 * 20
    with pytest.raises(OutsideDomain, match=r"q\.shape"):
        run(torch.ones(3, 4), q=torch.ones(9, 4), p=torch.ones(6, 4))
    assert program.report.inputs == {"a": ["3", "4"], "q": ["5", "4"], "p": ["n", "4"]}


def test_a_repair_is_written_in_the_order_of_the_signature():
    class Sevens(Weighted):
        def forward(self, a, p, q):
            return super().forward(a, p.view(7, 4), q)

    given = (torch.ones(3, 4),), {"q": torch.ones(5, 4), "p": torch.ones(7, 4)}
    report = check(Sevens(), *given, dynamic_shapes=[None, {0: Dim("n", min=1)}, None])
    assert report.status == "refuted"
    repaired = report.repair()
    assert [entry is None or dict(entry) for entry in repaired.dynamic_shapes] == [True, {0: 7}, True]
    assert check(Sevens(), *given, dynamic_shapes=repaired.dynamic_shapes).status == "proved"


# ---------------------------------------------------------------------- beside torch.export


@dataclass
class Case:
    """A model, a call of it, and what is declared."""

    mod: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: Any

    def __repr__(self) -> str:
        return (
            f"forward{inspect.signature(self.mod.forward)} of {_shown(self.args)} {_shown(self.kwargs)}: {self.shapes}"
        )


def _shown(tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda x: f"<{', '.join(map(str, x.shape))}>", tree)


def model(signature: inspect.Signature) -> torch.nn.Module:
    """A model with this signature that sums the numbers of its inputs, each with a weight."""
    names: dict[str, Any] = {"weighted": weighted}
    given = ", ".join(f"{name!r}: {name}" for name in signature.parameters)
    whole = inspect.Signature([inspect.Parameter("self", _ALONE), *signature.parameters.values()])
    exec(f"def forward{whole}: return weighted({{{given}}})", names)  # noqa: S102 - the text is made here
    return type("Made", (torch.nn.Module,), {"forward": names["forward"]})()


def weighted(given: dict[str, Any]) -> Any:
    """Sum all leaves in the order of their names, so that no two inputs may change places."""
    total = torch.zeros(())
    for weight, (_, leaf) in enumerate(sorted(pytree.tree_leaves_with_path(given), key=lambda each: str(each[0])), 1):
        if leaf is not None:
            total = total + (leaf.sum() if isinstance(leaf, torch.Tensor) else leaf) * weight
    return total


KINDS = st.lists(st.sampled_from((_ALONE, _ANY, _ANY, _REST, _KEYWORD, _KEYWORD, _MORE)), min_size=1, max_size=5)


@st.composite
def signatures(draw):
    """Parameters of all kinds; from some one on, those that may be left out have a default."""
    kinds = sorted(draw(KINDS))
    once = [kind for kind in kinds if kind in {_REST, _MORE}]
    kinds = sorted([kind for kind in kinds if kind not in once] + list(set(once)))
    names = draw(st.permutations(("a", "b", "p", "q", "x")))
    defaults = draw(st.integers(0, 5))
    positional = [kind for kind in kinds if kind in {_ALONE, _ANY}]
    parameters = []
    for index, (kind, name) in enumerate(zip(kinds, names, strict=False)):
        optional = kind not in {_REST, _MORE} and (
            index >= len(positional) - defaults if kind in {_ALONE, _ANY} else draw(st.booleans())
        )
        parameters.append(inspect.Parameter(name, kind, default=None if optional else inspect.Parameter.empty))
    return inspect.Signature(parameters)


@st.composite
def values(draw, sizes):
    """A tensor, now and then a number or a container of tensors."""

    def made():
        return torch.ones(next(sizes), 2)

    match draw(st.integers(0, 7)):
        case 0:
            return next(sizes)
        case 1:
            return [made(), made()]
        case 2:
            return {"k": made(), "j": (made(),)}
    return made()


@st.composite
def calls(draw, signature):
    """Arguments that fit: a prefix by position, the others by keyword in any order; some defaults are left out."""
    sizes = itertools.count(3)
    args, named, by_place = [], {}, True
    for name, each in signature.parameters.items():
        if each.kind is _REST:
            args += [draw(values(sizes)) for _ in range(draw(st.integers(0, 2)) if by_place else 0)]
        elif each.kind is _MORE:
            taken = signature.parameters.keys() - {name}
            more = draw(st.sets(st.sampled_from(("m", "n", "o", name)), max_size=2)) - taken
            named |= {key: draw(values(sizes)) for key in sorted(more)}
        elif each.default is None and draw(st.booleans()):
            by_place = False
        else:
            by_place = by_place and each.kind is not _KEYWORD and (each.kind is _ALONE or draw(st.booleans()))
            if by_place:
                args.append(draw(values(sizes)))
            elif each.kind is not _ALONE:
                named[name] = draw(values(sizes))
    return tuple(args), {key: named[key] for key in draw(st.permutations(list(named)))}


def entries(tree: Any) -> st.SearchStrategy[Any]:
    """What may be declared for an input: an entry for each leaf, in the same containers."""
    leaves, spec = pytree.tree_flatten(tree)
    one = st.sampled_from((None, {0: Dim.DYNAMIC}, (Dim.DYNAMIC, Dim.STATIC), [Dim.AUTO, 2], {1: Dim.AUTO}, {}))
    number = st.sampled_from((None, Dim.DYNAMIC, Dim.AUTO))
    each = [one if isinstance(leaf, torch.Tensor) else number for leaf in leaves]
    return st.tuples(*each).map(lambda found: pytree.tree_unflatten(list(found), spec))


@st.composite
def cases(draw):
    """A signature, a call, and dynamic_shapes in one of its forms; sometimes with a fault."""
    signature = draw(signatures())
    args, kwargs = draw(calls(signature))
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:  # torch refuses it, and so must we
        return Case(model(signature), args, kwargs, None)
    shapes = {name: draw(entries(value)) for name, value in bound.items()}
    match draw(st.integers(0, 7)):
        case 0 | 1 | 2:
            return Case(model(signature), args, kwargs, tuple(shapes.values()))
        case 3 | 4:
            return Case(model(signature), args, kwargs, list(shapes.values()))
        case 5:  # for the inputs in the order of the call
            order = sorted(shapes, key=lambda name: list(kwargs).index(name) if name in kwargs else -1)
            return Case(model(signature), args, kwargs, tuple(shapes[name] for name in order))
        case 6:
            return Case(model(signature), args, kwargs, tuple(shapes.values())[1:])
    return Case(model(signature), args, kwargs, {name: shapes[name] for name in draw(st.permutations(list(shapes)))})


def dynamic(program: torch.export.ExportedProgram) -> dict[str, list[bool]]:
    """Of each input by its name in the graph: which sizes are symbols."""
    given = set(program.graph_signature.user_inputs)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in given]
    found = {}
    for node in placeholders:
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        found[node.name] = [isinstance(size, torch.SymInt) for size in sizes]
    return found


def by_signature(case: Case) -> dict[str, Any]:
    """The keywords in the order of the signature: in another, torch 2.13 mixes up the ranges that it writes down."""
    places = [*inspect.signature(case.mod.forward).parameters, *case.kwargs]
    return {name: case.kwargs[name] for name in sorted(case.kwargs, key=places.index)}


def of_torch(case: Case) -> torch.export.ExportedProgram | None:
    """Torch's program; None if torch refuses what is declared."""
    try:
        with keywords_ranged():  # torch 2.13 counts the sizes in `**kwargs` twice
            return torch.export.export(case.mod, case.args, by_signature(case), dynamic_shapes=case.shapes)
    except (UserError, ValueError, TypeError, AssertionError):
        return None


@pytest.mark.thorough
@settings(max_examples=examples(150))
@given(cases())
def test_the_same_sizes_are_dynamic_as_in_torchs_program(case):
    """Law: each input size is dynamic in our program where it is in torch.export's, or both refuse the declaration."""
    torchs = of_torch(case)
    if torchs is None:
        with pytest.raises(UsageError):
            check(case.mod, case.args, case.kwargs, dynamic_shapes=case.shapes)
        return
    report = check(case.mod, case.args, case.kwargs, dynamic_shapes=case.shapes)
    assert report.status == "proved"
    assert dynamic(report.program) == dynamic(torchs)
