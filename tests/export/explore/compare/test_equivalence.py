"""The laws of comparing programs (explore/compare/equivalence.py and what it uses), on which every "proved" rests.

A program is the same as itself, and as what is traced a second time. If one thing in it is changed (mutants.py), a
difference is reported, or the two agree: at every size of the region they give the same, leave the same behind in
their inputs, share the same memory and pass on the same gradients. Each hole that was found this way has a test.
"""

from __future__ import annotations

import functools

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, reject
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.explore.compare import equivalence
from shapeproof.export.graph.constants import same_constant
from tests.export.mutants import Unmutated, changes, mutated
from tests.export.random_programs import few, programs, wide_programs
from tests.export.tracing import alike, asking_apart, follows_data, outcome, serves, traced
from tests.tiny_models import TINY

NAMES = sorted(TINY)


@functools.cache
def twice(name):
    """A tiny model, traced two times."""
    tiny = TINY[name]
    model = tiny.model()
    return [traced(model, tiny.inputs(3), tiny.shapes()) for _ in range(2)]


def difference(program, other):
    """How a program differs from another trace's, and the trial whose region they were compared on."""
    with asking_apart(other) as trial:
        return equivalence.difference(program, other.program, trial), trial


def hold(first, second, change, box):
    """Hold the verdicts on a change against what the programs do at the points of a box: sizes, and inputs for them."""
    try:
        mutant = mutated(first, *change)
    except Unmutated:
        return
    forth, trial = difference(mutant.program, second)
    with asking_apart(first) as other:
        back = equivalence.difference(second.program, mutant.program, other)
    as_wide = len(trial.steps) == len(second.trial.steps)  # nothing was asked that makes the region smaller
    assert forth is not None or back is None or not as_wide, f"{mutant.change}: only in one direction {back.text}"
    if (forth is not None and back is not None) or follows_data(trial) or follows_data(other):
        return
    for sizes, args in box:
        if serves(trial, sizes) and serves(other, sizes):
            got, want = outcome(mutant.program, args), outcome(second.program, args)
            assert alike(got, want), f"{mutant.change}: not seen, but at {sizes} {got} for {want}"


def box_of(name):
    tiny = TINY[name]
    return [
        ({"n": size}, tuple(each * factor for each in tiny.inputs(size)))
        for size in tiny.sizes
        for factor in (1, -7, 0)
    ]


# ---------------------------------------------------------------------- the laws


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_the_same_as_itself_and_as_another_trace(name):
    first, second = twice(name)
    for one, other in ((first, first), (first, second), (second, first)):
        assert difference(one.program, other)[0] is None


@pytest.mark.thorough
@given(st.sampled_from(NAMES), st.randoms(use_true_random=False))
@few(3)
def test_what_one_change_does_is_seen_or_nothing(name, random):
    first, second = twice(name)
    hold(first, second, random.choice(list(changes(first.program))), box_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_any_single_change_does_is_seen_or_nothing(name):
    first, second = twice(name)
    for change in changes(first.program):
        hold(first, second, change, box_of(name))


@pytest.mark.thorough
@given(programs() | wide_programs(), st.randoms(use_true_random=False))
@few(16)
def test_what_one_change_does_to_a_random_program_is_seen_or_nothing(program, random):
    shapes = program.interface.shapes(*program.ranges)
    try:
        first, second = (traced(program.model, program.inputs(program.example), shapes) for _ in range(2))
    except Exception:  # noqa: BLE001 - eager raises at the generic point
        reject()
    assert difference(first.program, second)[0] is None
    names = {called: name for name, called in first.inputs.user_names.items()}
    box = [
        ({names[called]: size for called, size in zip(program.interface.names, sizes, strict=True)}, sizes)
        for sizes in program.box
    ]
    possible = list(changes(first.program))
    for change in random.sample(possible, min(4, len(possible))):
        hold(first, second, change, [(point, program.inputs(sizes)) for point, sizes in box])


@pytest.mark.parametrize("name", NAMES)
def test_a_note_that_is_wrong_is_seen(name):
    """Whoever compiles a program goes by the ranks and sizes that are noted in it."""
    first, second = twice(name)
    sizes = {str(size) for node in first.program.graph.find_nodes(op="placeholder") for size in node.meta["val"].shape}
    sizes = {size for size in sizes if not size.isdigit()}
    for node in first.program.graph.nodes:
        noted = node.meta.get("val")
        used = node.users and node.op == "call_function"
        sized = isinstance(noted, torch.Tensor) and noted.dim() and str(noted.shape[0]) in sizes
        if not used or not sized:
            continue
        for wrong in (noted.new_empty((7, *noted.shape[1:])), noted.new_empty((*noted.shape, 1))):
            node.meta["val"] = wrong
            found, _ = difference(first.program, second)
            node.meta["val"] = noted
            assert found is not None, (node, wrong)
            assert found.certain == (wrong.dim() != noted.dim())


# ---------------------------------------------------------------------- what was not seen


def model(forward, **state):
    made = type("Model", (torch.nn.Module,), {"forward": forward})()
    for name, value in state.items():
        made.register_buffer(name, value)
    return made


def at_seven(one, other):
    """One function where there are 7 rows, and another where not; the data of the example do not show which."""
    return lambda mod, x: torch.where(x > 9, (one if x.shape[0] == 7 else other)(mod, x), x)


def extreme(place):
    return lambda _, x: torch.aminmax(x, dim=1, keepdim=True)[place]


def branch(place):
    ways = (lambda x: (x + 1, x - 1), lambda x: (x + 2, x - 2))
    return lambda _, x: torch.cond(x.sum() > 0, *ways, (x,))[place]


def turned(x):
    return x.to(torch.complex64) * 1j


SEEN_ALIKE = {
    "another result of one operator": at_seven(extreme(0), extreme(1)),
    "another result of torch.cond": at_seven(branch(0), branch(1)),
    "a conjugate": at_seven(lambda _, x: turned(x).conj().imag, lambda _, x: turned(x).imag),
    "a negative view": at_seven(lambda _, x: torch._neg_view(x) * 2, lambda _, x: x * 2),
}


@pytest.mark.parametrize("forward", SEEN_ALIKE.values(), ids=SEEN_ALIKE.keys())
def test_tensors_that_lie_alike_are_not_the_same(forward):
    report = check(model(forward), (torch.ones(5, 4),), dynamic_shapes=({0: Dim("n", min=2, max=12)},))
    assert report.status != "proved", str(report)


def test_running_statistics_are_written_into():
    """Their operator's schema does not say so. Where they are copied first, the model's own stay as they were."""

    def forward(mod, x):
        mean = mod.mean.clone() if x.shape[0] == 7 else mod.mean
        return F.batch_norm(x - x, mean, mod.var, training=True)

    mod = model(forward, mean=torch.zeros(4), var=torch.ones(4))
    report = check(mod, (torch.ones(5, 4),), dynamic_shapes=({0: Dim("n", min=2, max=12)},))
    assert report.status != "proved", str(report)


def kept(changed):
    def forward(_, x):
        twice = x * 2
        flat = twice.view(-1)
        flat = flat.clone() if changed(x) else flat
        with torch.no_grad():
            flat.mul_(3)
        return twice.sum(), flat.sum()

    return forward


def same_where(one, other):
    shapes = ({0: Dim("n", min=2, max=12)},)
    first, second = (traced(model(each), (torch.ones(5, 4),), shapes) for each in (one, other))
    return difference(first.program, second)[0] is None


@pytest.mark.thorough
def test_a_body_writes_into_what_it_is_given():
    """`torch.no_grad` around an operator in place becomes a body, and the copy that it writes into counts."""
    assert same_where(kept(lambda _: True), kept(lambda _: True))
    assert not same_where(kept(lambda _: True), kept(lambda _: False))


@pytest.mark.thorough
def test_no_gradient_goes_through_a_detached_tensor():
    def forward(*, detached):
        return lambda _, x: (x.detach() if detached else x) * 2 + x

    assert same_where(forward(detached=True), forward(detached=True))
    assert not same_where(forward(detached=True), forward(detached=False))


def test_a_wrong_note_in_a_body_is_seen():
    first, second = twice("branch")
    seen = 0
    for body in (first.program.graph_module.true_graph_0, first.program.graph_module.false_graph_0):
        for node in body.graph.nodes:
            noted = node.meta.get("val")
            if node.op == "call_function" and isinstance(noted, torch.Tensor):
                node.meta["val"] = noted.new_empty((*noted.shape, 1))
                assert difference(first.program, second)[0] is not None, node
                node.meta["val"] = noted
                seen += 1
    assert seen


@pytest.mark.thorough
def test_a_body_that_drops_a_dimension_at_one_size_is_not_compiled_for_it():
    """AOTInductor goes by the two dimensions that are noted, and took the largest of one number each."""

    def forward(_, x):
        return torch.cond(x.sum() > 0, lambda x: x.squeeze(0).amax(0).sum(), lambda x: x.sum(), (x,))

    report = check(model(forward), (torch.ones(5, 4),), dynamic_shapes=({0: Dim("n", min=1, max=12)},))
    assert report.status == "undecided", str(report)
    assert report.program.module()(torch.ones(2, 4)) == 4
    with pytest.raises(RuntimeError, match=">= 2 is required"):
        report.program.module()(torch.ones(1, 4))


def test_a_copy_has_nothing_beside_it_in_its_storage():
    """An input may lie at an offset, from which `as_strided` does not count."""

    def forward(*, copied):
        return lambda _, x: (x.clone() if copied else x).as_strided((2,), (1,), 1) * 2

    assert same_where(forward(copied=True), forward(copied=True))
    assert not same_where(forward(copied=True), forward(copied=False))


def test_a_constant_is_read_as_it_lies():
    square = torch.ones(2, 2)
    assert not same_constant(square, square.t())
    assert not same_constant(torch.zeros(1).expand(4), torch.zeros(4))
    assert not same_constant(torch.zeros(2, dtype=torch.complex64), torch.zeros(2, dtype=torch.complex64).conj())
    assert same_constant(torch.ones(1, 4), torch.ones(4, 1).t())


def test_a_view_of_a_constant_is_the_same_in_another_trace():
    """Torch notes a constant and the copy that a program makes of it as one storage, and they are two."""

    def forward(_, x):
        y = x.reshape(-1, 4) if x.shape[0] != 7 else x
        return y @ torch.tensor([[1.0, 2.0, 3.0, 4.0]]).t()

    report = check(model(forward), (torch.ones(5, 4),), dynamic_shapes=({0: Dim("n", min=0, max=12)},))
    assert report.status == "proved", str(report)


SUBMODULES = {
    "another structure": (lambda x: (x, (x * 2,)), lambda x: (x, [x * 2])),
    "another place": (lambda x: (x, (x * 2,)), lambda x: (x * 2, (x,))),
    "another number of results": (lambda x: (x, (x * 2,)), lambda x: (x, (x * 2, x))),
}


@pytest.mark.parametrize("ways", SUBMODULES.values(), ids=SUBMODULES.keys())
@pytest.mark.parametrize("kept", [(), ("part",)])
def test_a_preserved_submodule_returns_what_it_does_in_eager(ways, kept):
    """It does not show in the program, and in the submodule when the program is unflattened."""

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = model(lambda _, x: ways[x.shape[0] == 7](x + 1))

        def forward(self, x):
            first, rest = self.part(x)
            return first + rest[0]

    shapes = ({0: Dim("n", min=2, max=12)},)
    report = check(Whole(), (torch.ones(5, 4),), dynamic_shapes=shapes, preserve_module_call_signature=kept)
    if not kept and ways is not SUBMODULES["another place"]:
        assert report.status == "proved", str(report)
    assert not kept or report.status != "proved"
