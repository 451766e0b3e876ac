"""A branch whose sides rejoin in the same state needs no trace, and no other branch is taken for one."""

from __future__ import annotations

import builtins
import itertools
import sys
import types
import weakref

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.formulas import FALSE
from shapeproof.constraints.terms import as_term, symbol
from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.source.abstract import locals_of
from shapeproof.export.trace.python.rejoining import where_apart
from shapeproof.export.verify import verified
from tests.agreement import agree
from tests.thoroughness import examples

ROWS = Dim("n", min=0, max=6)
OFF = None


class Loud:
    """Its attributes: one that is plain, and one that runs code."""

    plain = None

    def __init__(self, heard):
        self.heard, self.quiet = heard, False

    @property
    def loud(self):
        self.heard.append("loud")


class Noting(list):
    """A list that notes what is read of it."""

    def __init__(self, heard):
        super().__init__([None])
        self.heard = heard

    def __getitem__(self, index):
        self.heard.append("item")
        return super().__getitem__(index)


def read(number):
    """The term of a number; a symbolic one is known by its identity."""
    return symbol(f"s{id(number)}") if isinstance(number, torch.SymInt) else as_term(number)


class Node:
    """torch's node of a symbolic bool, which takes one side and keeps what is said of each branch."""

    def __init__(self, outcome):
        self.outcome, self.found = outcome, []

    def bool_(self):
        self.found.append(where_apart(self, read, self.outcome) is FALSE)
        return self.outcome


def off():
    return False


def is_compiling():
    try:
        import torch

        return torch.compiler.is_compiling()
    except Exception:  # noqa: BLE001
        return False


def function(body, heard):
    """A function of `t` and plain values."""

    def say(word):
        heard.append(word)
        return word

    scope = {"say": say, "off": off, "loud": Loud(heard), "noting": Noting(heard), "OFF": None}
    exec(f"def f(t, none=None, yes=True, two=2, pair=(0, None)):\n r = s = 0\n{body}\n return r, s", scope)  # noqa: S102
    return scope["f"]


def run(body, given):
    """What a function returns, what it was heard to do, and what it raised."""
    heard: list[str] = []
    try:
        return function(body, heard)(given), heard, None
    except (TypeError, NameError, AttributeError, AssertionError, IndexError) as error:
        return None, heard, type(error)


def as_plain(ran, sym, value):
    """What was returned, with a plain value in place of the symbolic bool."""
    returned, heard, raised = ran
    return returned and tuple(value if each is sym else each for each in returned), heard, raised


IDLE = (
    "r = t and none is not None",
    "r = t and off()",
    "no = off\n r = t and no()",
    "while t: break",
    "r = 1 if t or yes else 2",
    "r = two if t and two == 3 else none",
    "if t and none is not None and say('a'): r = 1",
    "if t: pass",
    "if t: r = 5\n else: r = 5",
    "if t and loud.quiet: r = say('a')",
    "if t and OFF: r = say('a')",
    "if t and (pair[0] or pair[-1] is not None): r = say('a')",
)
ACTING = (
    "r = t and none is None",
    "r = t or False",
    "r = not t",
    "if t: r = 5\n else: r = 6",
    "if t: r = 5",
    "if t: r = 5\n else: s = 5",
    "if t: say('a')",
    "if t: say('a')\n else: say('a')",
    "if t and loud.loud: r = 1",
    "if t and missing: r = 1",
    "if t and pair[2]: r = 1",
    "if t and pair[yes] is not None: r = 1",
    "if t and noting[0] is not None: r = 1",
    "if t and two < 'a': r = 1",
    "if t: del r",
    "r = [1 for _ in range(two) if t]",
    "if t: r = [1]\n else: r = [1]",
    "assert t",
)


@pytest.mark.parametrize("outcome", [True, False])
@pytest.mark.parametrize(("body", "expected"), [*((b, True) for b in IDLE), *((b, False) for b in ACTING)])
def test_which_branches_have_no_effect(body, expected, outcome):
    node = Node(outcome)
    ran = run(f" {body}", torch.SymBool(node))
    kept = ran[0] is not None and any(isinstance(each, torch.SymBool) for each in ran[0])
    assert set(node.found) == {expected and not kept}


def conditions():
    """Expressions of a test and plain values; some of them do something."""
    values = "none is None; none is not None; yes; not yes; two == 2; two > 2; 0; None; off(); OFF; loud.quiet"
    acting = "loud.plain; loud.loud; say('a'); missing; two < 'a'; pair[2]; noting[0]"
    plain = st.sampled_from(f"{values}; pair[0]; pair[-1]; 2 + two == 4; {acting}; t; t; t; t".split("; "))
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {})".format, inner, inner),
            st.builds("(not {})".format, inner),
            st.builds("({} if {} else {})".format, inner, inner, inner),
        ),
        max_leaves=6,
    )


def bodies():
    act = st.sampled_from(["r = 1", "s = 1", "r = none", "pass", "r = t", "say('b')", "r = yes", "del s"])
    assign = st.builds("r = {}".format, conditions())
    choose = st.builds(" if {}: {}\n else: {}".format, conditions(), act, act)
    return st.lists(st.one_of(assign.map(" {}".format), choose), min_size=1, max_size=3).map("\n".join)


@given(body=bodies(), outcome=st.booleans())
@settings(max_examples=examples(400))
def test_a_function_whose_branches_have_no_effect_does_the_same_for_either_truth(body, outcome):
    """Law: if no branch on `t` has an effect, the side that was traced is what the function does for both values."""
    note(body)
    node = Node(outcome)
    sym = torch.SymBool(node)
    ran = run(body, sym)
    if all(node.found):
        assert all(as_plain(ran, sym, value) == run(body, value) for value in (True, False))


def one(x, mask=None):
    return x * 2 if x.shape[0] > 1 and mask is not None else x + 1


def flag(x):
    return x.clone() if x.shape[0] == 1 and not is_compiling() else x.cumsum(0)


def kept(x):
    flag = x.shape[0] > 3 and x is None
    return x + float(flag)


def twice(x):
    for _ in range(3):
        x = x.exp() if OFF and x.shape[0] == 2 else (x.sin() if x.shape[0] != 2 or OFF is None else x)
    return x


class Layers(torch.nn.Module):
    """Asks in each layer, and by a name of the module."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
        self.causal = False

    def forward(self, x):
        for layer in self.layers:
            is_causal = x.shape[0] > 1 and self.causal
            x = layer(x).cumsum(0) if is_causal else layer(x)
        return x


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


@pytest.mark.parametrize("mod", [*map(model, (one, flag, kept, twice)), Layers()])
def test_a_branch_without_effect_needs_no_trace(mod):
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert (report.status, report.statistics["traces"]) == ("proved", 1)
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


class Shown(types.ModuleType):
    """A module whose class has a property."""

    mask = property(lambda _: None)


class OwnDict:
    """Says itself what its dict is."""

    flag = 1
    __dict__ = property(lambda _: {"flag": None})


class Slotted:
    __slots__ = ("names",)


class OddlyNamed(Slotted):
    """Calls a slot `__dict__`: Python reads attributes from another dict."""

    __dict__ = Slotted.__dict__["names"]


oddly_named = OddlyNamed()
oddly_named.flag, oddly_named.names = None, {"flag": 1}

shown, own_dict = Shown("shown"), OwnDict()
shown.__dict__["mask"] = 1
sys.modules["blocked_library"] = None
BUILTINS = {"__builtins__": {**vars(builtins), "FLAG": None}}


def has_blocked_library():
    try:
        import blocked_library  # noqa: F401
    except ImportError:
        return False
    return True


_PROPERTIES = sys.version_info < (3, 14)
"""Python 3.14 stops reading a property of a module's class once the code has run often."""


def by_torchs_property(x):
    return x * 2 if x.shape[0] < 5 and torch.backends.mkldnn.allow_tf32 is None and x.shape[0] == 4 else x + 1


def by_a_modules_property(x):
    return x * 2 if x.shape[0] < 5 and shown.mask is None and x.shape[0] == 4 else x + 1


def by_a_blocked_import(x):
    return x * 2 if x.shape[0] < 5 and not has_blocked_library() and x.shape[0] == 4 else x + 1


def by_an_own_dict(x):
    return x * 2 if x.shape[0] < 5 and own_dict.flag is None and x.shape[0] == 4 else x + 1


def by_a_slot_named_dict(x):
    return x * 2 if x.shape[0] < 5 and oddly_named.flag is None and x.shape[0] == 4 else x + 1


def by_a_weak_reference(x):
    held = OwnDict()
    reference = weakref.ref(held)
    if x.shape[0] > 3 and held is None:
        return x
    held = None
    dead = reference() is None
    return x * 2 if x.shape[0] < 5 and dead and x.shape[0] == 4 else x + 1


class Switch:
    def __init__(self):
        self.on = None


switch = Switch()


class Finalized:
    """Changes what is read next, when the last reference to it is dropped."""

    def __init__(self):
        switch.on = 1

    def __del__(self):
        switch.on = None


class NothingHeld(dict):
    def __getitem__(self, _):
        return None


class Plain:
    pass


odd_names = Plain()
odd_names.__dict__ = NothingHeld(mask=1)


def by_a_finalizer(x):
    held = Finalized()
    if x.shape[0] < 5:
        held = None
        kind = 1 if switch.on is None else 2
    else:
        held = None
        kind = 2
    return x * 2 if kind == 1 and x.shape[0] == 4 and held is None else x + 1


def by_a_dict_of_another_class(x):
    return x * 2 if x.shape[0] < 5 and odd_names.mask is not None and x.shape[0] == 4 else x + 1


def other_builtins():
    source = "def f(x):\n return x * 2 if x.shape[0] < 5 and FLAG is None and x.shape[0] == 4 else x + 1"
    scope = dict(BUILTINS)
    exec(source, scope)  # noqa: S102
    return scope["f"]


HIDING = (
    by_torchs_property,
    by_a_modules_property,
    by_a_blocked_import,
    by_an_own_dict,
    by_a_slot_named_dict,
    by_a_weak_reference,
    by_a_finalizer,
    by_a_dict_of_another_class,
    other_builtins(),
)


@pytest.mark.parametrize("forward", [each for each in HIDING if each is not by_a_modules_property or _PROPERTIES])
def test_what_python_reads_by_running_code_ends_a_side(forward, monkeypatch):
    """The fault: another value was read than Python reads, so the branch that hides the last test seemed idle."""
    monkeypatch.setattr(builtins, "FLAG", 1, raising=False)
    own_dict.flag = None
    mod = model(forward)
    domain = {"x": {0: Dim("n", min=0, max=11)}}
    assert torch.equal(mod(torch.zeros(4, 4)), torch.zeros(4, 4))
    report = check(mod, (torch.randn(9, 4),), dynamic_shapes=domain)
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[0]": 4})


def test_a_frame_keeps_nothing_of_what_is_read_of_it():
    def reads():
        value = OwnDict()
        reference = weakref.ref(value)
        read = locals_of(sys._getframe())
        assert read.pop("value") is value
        value = None
        return reference() is None

    def holds():
        value = 1
        held = locals()
        locals_of(sys._getframe())
        return held["value"] == value

    assert reads()
    assert holds()


def test_the_line_of_a_side_that_asks_whether_it_is_traced_is_noted():
    report = check(model(flag), (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert [note.partition(": ")[0].partition(" ")[2] for note in report.notes] == [
        "asks whether it is traced (`is_compiling`)"
    ]


def left(x):
    flag = x.shape[0] > 1 and OFF
    return x + 1 if flag is None else x - 1


def as_number(x):
    return x * (x.shape[0] == 3 or OFF is not None)


def by_mutation(x):
    seen = []
    flag = x.shape[0] > 2 and seen.append(1)
    return x + len(seen) + (flag is None)


def property_read(x):
    return x + 1 if x.shape[0] > 2 and x.T.is_contiguous() else x


@pytest.mark.parametrize("forward", [left, as_number, by_mutation, property_read])
def test_a_branch_with_an_effect_is_traced(forward):
    mod, shapes = model(forward), {"x": {0: ROWS}}
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes=shapes)
    slow = verified(mod, declare(mod, (torch.randn(3, 4),), None, shapes), in_place=False)
    assert report.status == slow.status
    if report.status == "proved":
        assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


def by_the_trace(x):
    return x * 2 if x.shape[0] == 2 and not is_compiling() else x + 1


def test_code_that_asks_whether_it_is_traced_is_compared_with_eager_where_the_branch_goes_the_other_way():
    """The branch has no effect in a trace, and has one in eager at n = 2."""
    report = check(model(by_the_trace), (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[0]": 2}


def test_the_node_must_be_the_one_that_is_tested():
    """A question about another number than the tested one says nothing of the branch."""

    class Other(Node):
        def bool_(self):
            self.found.append(where_apart(Node(self.outcome), read, self.outcome) is FALSE)
            return self.outcome

    nodes = [Other(outcome) for outcome in (True, False)]
    assert all(run(" if t: pass", torch.SymBool(node))[0] for node in nodes)
    assert not any(itertools.chain.from_iterable(node.found for node in nodes))


def test_a_branch_that_rejoins_is_not_named_as_the_cause_of_another_difference():
    """The fault: the report named the first branch, at whose line no size makes a difference."""

    class Rejoins(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            k = 1 if n > 3 and OFF else 0
            m = n > 2 and n < 5
            return x + k, m

    report = check(Rejoins(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    (diagnostic,) = report.diagnostics
    assert diagnostic.line == Rejoins.forward.__code__.co_firstlineno + 3
