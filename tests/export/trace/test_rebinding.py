"""What a model rebinds in its inputs: exported where it is returned, else refuted with its line."""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace

import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from tests.calling import Calls
from tests.thoroughness import examples


@dataclasses.dataclass
class Cache:
    k: torch.Tensor
    v: torch.Tensor | None = None


torch.export.register_dataclass(Cache, serialized_type_name="tests.rebinding.Cache")


class Counting:
    """A cache that counts, and remembers what torch does not flatten."""

    def __init__(self, k):
        self.k, self.count, self.seen = k, 0, SimpleNamespace(rows=0)


pytree.register_pytree_node(
    Counting,
    lambda cache: ([cache.k], None),
    lambda leaves, _: Counting(*leaves),
    serialized_type_name="tests.rebinding.Counting",
    flatten_with_keys_fn=lambda cache: ([(pytree.GetAttrKey("k"), cache.k)], None),
)


def rows():
    return torch.arange(12.0).reshape(3, 4)


def pair():
    return {"k": rows(), "v": rows() + 1}


def verdict(function, container, **options):
    n = Dim("n", min=1)
    sizes = pytree.tree_map(lambda leaf: {0: n} if isinstance(leaf, torch.Tensor) else None, container)
    if not isinstance(container, dict | list):
        sizes = [{0: n} for _ in pytree.tree_leaves(container)]
    return check(Calls(function), (container, torch.randn(3, 4)), dynamic_shapes=(sizes, {0: n}), **options)


# ---------------------------------------------------------------------- what is not returned is refuted


def sets_attribute(c, x):
    setattr(c, "k", x * 2)  # noqa: B010
    return x


def sets_in_dict_of_object(c, x):
    c.__dict__["k"] = x * 2
    return x


def updates(c, x):
    c.update(k=x * 2)
    return x


def assigns_deeply(c, x):
    c["a"]["b"][0] = x * 2
    return x


def appends(c, x):
    c.append(x * 2)
    return x


def pops(c, x):
    return c.pop() + x


def clears(c, x):
    y = c[0] + x
    c.clear()
    return y


def reverses(c, x):
    c.reverse()
    return x * 2


def extends_in_place(c, x):
    c += [x]
    return x * 2


def assigns_a_slice(c, x):
    c[:] = [x, x]
    return x * 2


def swaps(c, x):
    c["k"], c["v"] = c["v"], c["k"]
    return x * 2


def takes_out_and_returns_the_value(c, x):
    return c.pop("k"), c["v"], x * 2


def fills_an_empty_list(c, x):
    c["e"].append(x * 2)
    return x


def replaces_none(c, x):
    c["m"] = x * 2
    return x


def counts(c, x):
    c["n"] = c["n"] + 1
    return x * 2


def rebinds_to_a_view(c, x):
    c["k"] = c["k"][:2]
    return x * 2


def copies_and_writes_into_the_copy(c, x):
    c["k"] = c["k"].clone()
    c["k"].add_(1)
    return x * 2


def copies_and_writes_into_what_was_copied(c, x):
    given = c["k"]
    c["k"] = given.clone()
    given.add_(1)
    return x * 2


def computes_what_was_there(c, x):
    c["k"] = c["k"] * 1.0
    return x * 2


MISSED = [
    (sets_attribute, lambda: Cache(rows(), rows()), "rebinds `c.k`"),
    (sets_in_dict_of_object, lambda: Cache(rows(), rows()), "rebinds `c.k`"),
    (updates, pair, "rebinds `c['k']`"),
    (assigns_deeply, lambda: {"a": {"b": [rows()]}}, "rebinds `c['a']['b'][0]`"),
    (appends, lambda: [rows(), rows()], "adds `c[2]`"),
    (pops, lambda: [rows(), rows()], "takes `c[1]` out"),
    (clears, lambda: [rows(), rows()], "takes `c[0]` and 1 more out"),
    (reverses, lambda: [rows(), rows()], "rebinds `c[0]` and 1 more"),
    (extends_in_place, lambda: [rows(), rows()], "adds `c[2]`"),
    (assigns_a_slice, lambda: [rows(), rows()], "rebinds `c[0]` and 1 more"),
    (swaps, pair, "rebinds `c['k']` and 1 more"),
    (takes_out_and_returns_the_value, pair, "takes `c['k']` out"),
    (fills_an_empty_list, lambda: {"k": rows(), "e": []}, "adds `c['e'][0]`"),
    (replaces_none, lambda: {"k": rows(), "m": None}, "rebinds `c['m']`"),
    (counts, lambda: {"k": rows(), "n": 3}, "rebinds `c['n']`"),
    (rebinds_to_a_view, pair, "rebinds `c['k']`"),
    (copies_and_writes_into_the_copy, pair, "rebinds `c['k']`"),
    (copies_and_writes_into_what_was_copied, pair, "rebinds `c['k']`"),
    (computes_what_was_there, pair, "rebinds `c['k']`"),
]


@pytest.mark.parametrize(("function", "make", "said"), MISSED, ids=[function.__name__ for function, _, _ in MISSED])
def test_what_is_rebound_and_not_returned_is_refuted_with_its_line(function, make, said):
    report = verdict(function, make())
    assert report.status == "refuted"
    (found,) = report.diagnostics
    code = function.__code__
    assert found.id == "rebinding"
    assert found.message.startswith(f"the model {said}")
    assert (found.file, found.line) == (__file__, found.line)
    assert code.co_firstlineno < (found.line or 0) <= max(line or 0 for _, _, line in code.co_lines())
    assert [each.text for each in found.help] == ["return ..., c"]


def test_the_line_is_that_of_the_users_call_into_a_helper():
    def helper(c, value):
        c["k"] = value

    def model(c, x):
        y = x * 2
        helper(c, y)
        return x

    (found,) = verdict(model, pair()).diagnostics
    assert found.line == helper.__code__.co_firstlineno + 1


# ---------------------------------------------------------------------- what is returned is exported


def grown(c, x):
    c.k = torch.cat([c.k, x])
    return c.k.sum(), c


def grown_value(c, x):
    c.k = torch.cat([c.k, x])
    return {"sum": c.k.sum(), "k": [c.k]}


@pytest.mark.parametrize(("function", "use"), [(grown, "output[1]"), (grown_value, "output['k'][0]")])
def test_what_is_returned_is_exported_with_a_note_on_what_to_use(function, use):
    n, m = Dim("n"), Dim("m")
    model, args = Calls(function), (Cache(rows(), rows()), rows())
    program = export(model, args, dynamic_shapes=([{0: n}, {0: n}], {0: m}))
    assert program.report.status == "proved"
    (note,) = program.report.notes
    assert note.startswith("the model rebinds `c.k` in the input `c` (")
    assert note.endswith(f"the program leaves `c` as it is: use `{use}`")
    for past, step in ((0, 0), (0, 2), (5, 1), (1, 0)):
        mine, theirs = (Cache(torch.ones(past, 4), torch.ones(past, 4)) for _ in range(2))
        want, got = model(mine, torch.ones(step, 4)), program.module()(theirs, torch.ones(step, 4))
        for a, b in zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True):
            torch.testing.assert_close(a, b)
        assert mine.k.shape[0] == past + step
        assert theirs.k.shape[0] == past


def test_a_container_that_is_returned_has_what_was_taken_out_of_it():
    def model(c, x):
        del c["k"]
        c["z"] = x * 2
        return c

    report = verdict(model, pair())
    assert report.status == "proved"
    assert pytree.tree_leaves(report.program.module()(pair(), torch.ones(3, 4)))[1].sum() == 24


@pytest.mark.parametrize(
    "same",
    [
        lambda k: k.contiguous(),
        lambda k: k.to(torch.float32),
        lambda k: k.float(),
        lambda k: k.view(k.shape),
        lambda k: k.clone(),
        lambda k: k.detach(),
        lambda k: k,
    ],
)
def test_an_equal_tensor_in_the_place_of_another_is_no_difference(same):
    def model(c, x):
        c["k"] = same(c["k"])
        return x * 2

    assert verdict(model, pair()).status == "proved"


def test_a_container_of_the_models_own_is_no_input():
    def model(c, x):
        c = dict(c)
        c["k"] = x * 2
        c.pop("v")
        return c["k"]

    report = verdict(model, pair())
    assert (report.status, report.notes) == ("proved", ())


def test_what_is_written_in_place_is_no_rebinding():
    def model(c, x):
        c["k"].add_(x)
        return x * 2

    report = verdict(model, pair())
    assert (report.status, report.notes) == ("proved", ())


@pytest.mark.parametrize("what", ["count", "seen.rows", "new"])
def test_what_torch_does_not_flatten_is_said(what):
    def model(c, x):
        if what == "count":
            c.count += 1
        elif what == "new":
            c.new = x
        else:
            c.seen.rows = c.seen.rows + x.shape[0]
        return x + c.k

    report = verdict(model, Counting(rows()))
    assert report.status == "proved"
    (note,) = report.notes
    assert note.startswith(f"the model changes `c.{what}` (")


def test_one_container_given_twice_is_refused_where_the_model_rebinds_what_it_holds():
    class Twice(torch.nn.Module):
        def forward(self, c, d):
            c["k"] = c["k"] * 2
            return d["k"] + 1, c

    given = pair()
    with pytest.raises(UsageError, match="`c` and `d` are one container in the example"):
        check(Twice(), (given, given))
    assert check(Twice(), (given, pair())).status == "proved"


# ---------------------------------------------------------------------- regions


def only_large(c, x):
    y = x * 2
    if x.shape[0] > 5:
        c["k"] = y
    return y


def only_large_returned(c, x):
    y = x * 2
    if x.shape[0] > 5:
        c["k"] = y
    return y, c["k"]


def one_or_the_other(c, x):
    y, z = x * 2, x * 3
    c["k"] = y if x.shape[0] > 5 else z
    return y, z


def both_sides(c, x):
    y = x * 2
    if x.shape[0] > 5:
        c["k"] = y
    else:
        c["k"] = y
    return y


@pytest.mark.parametrize("function", [only_large, one_or_the_other])
def test_another_rebinding_elsewhere_is_another_program(function):
    report = verdict(function, pair())
    assert (report.status, report.diagnostics[0].id) == ("refuted", "other-program")
    assert verdict(function, pair(), branches="split").diagnostics[0].id == "rebinding"


@pytest.mark.thorough
def test_regions_that_return_the_same_output_agree():
    assert verdict(both_sides, pair()).status == "proved"
    report = verdict(only_large_returned, pair(), branches="split")
    assert (report.status, len(report.notes)) == ("proved", 1)
    assert report.program.merged().report.notes == report.notes


# ---------------------------------------------------------------------- law

STEPS = {
    "rebind": lambda c, x: c.__setitem__("k", x + len(c)),
    "grow": lambda c, x: c.__setitem__("k", torch.cat([c["k"], x]) if "k" in c else x),
    "swap": lambda c, x: c.update(k=c.get("v", x), v=c.get("k", x)),
    "copy": lambda c, x: c.__setitem__("v", c.get("v", x).clone()),
    "write": lambda c, x: c.get("v", x * 1).add_(1),
    "take": lambda c, x: c.pop("k", x),
    "add": lambda c, x: c.__setitem__(f"new{len(c)}", x * 3),
}
RESULTS = {
    "c": lambda c, x: (c, x)[0],
    "k": lambda c, x: c.get("k", x),
    "x": lambda c, x: x * len(c),
    "values": lambda c, x: [*c.values(), x],
    "fresh": lambda c, x: {"k": c.get("k", x) * 1},
}


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=3), st.lists(st.sampled_from(sorted(RESULTS)), max_size=2))
def test_whatever_eager_leaves_is_there_or_returned_where_it_is_proved(steps, results):
    """Law: proved, a caller has each tensor that eager leaves: in the input, or as an output. Else one is missed."""

    def model(c, x):
        for step in steps:
            STEPS[step](c, x)
        return [x + 1, *(RESULTS[each](c, x) for each in results)]

    report = verdict(model, pair())
    x = torch.randn(4, 4)
    mine, theirs = ({"k": torch.full((4, 4), 1.5), "v": torch.full((4, 4), 2.5)} for _ in range(2))
    given = copy.deepcopy(theirs)
    result = model(mine, x)
    if report.status != "proved":
        whole = any(part is mine for part in result)
        assert not whole
        assert {each.id for each in report.diagnostics} == {"rebinding"}
        return
    outputs = pytree.tree_leaves(report.program.module()(theirs, x))
    torch.testing.assert_close(outputs, pytree.tree_leaves(result))
    assert theirs.keys() == given.keys()
    had = [*theirs.values(), *outputs]
    assert all(any(value.shape == each.shape and torch.equal(value, each) for each in had) for value in mine.values())
