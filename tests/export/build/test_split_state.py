"""The programs of a split model share the model's state: as they are, saved and loaded, copied and converted."""

from __future__ import annotations

import collections
import copy
import pickle
import random
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.export import Dim, register_dataclass

from shapeproof.constraints.errors import UsageError
from shapeproof.export import OutsideDomain, export, load_regions
from tests.thoroughness import examples

SHAPES = ({0: Dim("n", min=1, max=6)},)


def split(mod, args=None, shapes=SHAPES):
    return export(mod, args or (torch.ones(3, 1),), dynamic_shapes=shapes, branches="split")


def saved(regions, folder):
    regions.save(folder / "regions.pt2")
    return load_regions(folder / "regions.pt2")


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        if x.shape[0] > 2:
            self.count.add_(1)
        return x + self.count


class Held(torch.nn.Module):
    """Holds state in each way that a module can; large inputs write it, small ones read it."""

    def __init__(self):
        super().__init__()
        self.whole = torch.nn.Buffer(torch.zeros(4))
        self.start = torch.nn.Buffer(self.whole[:2])
        self.rest = torch.nn.Buffer(self.whole[2:], persistent=False)
        self.unsaved = torch.nn.Buffer(torch.zeros(1), persistent=False)
        self.one, self.other = torch.nn.Buffer(torch.zeros(2)), None
        self.register_buffer("again", self.one)
        self.columns = torch.nn.Buffer(torch.zeros(2, 3).t())
        self.empty = torch.nn.Buffer(torch.zeros(0, 3))
        self.attribute, self.listed = torch.zeros(1), [torch.zeros(2)]
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.weight.note = lambda: None  # as libraries put onto their parameters
        self.tied = self.weight

    def forward(self, x):
        if x.shape[0] > 2:
            self.start.add_(1)
            self.rest.add_(2)
            self.unsaved.mul_(2).add_(1)
            self.one.add_(3)
            self.columns[0].add_(1)
            self.attribute.add_(1)
            self.listed[0].add_(x.sum().detach())
            return x * self.weight
        read = (self.whole, self.unsaved, self.again, self.columns, self.empty, self.attribute, self.listed[0])
        return x * self.tied * 2 + sum(each.sum() * 10**place for place, each in enumerate(read))


CALLS = (1, 3, 2, 4, 5, 2, 1, 6, 1)


def answers(run, sizes=CALLS):
    return [run(torch.arange(n, dtype=torch.float32)[:, None]).tolist() for n in sizes]


FORMS = {
    "split": lambda regions, _: regions.module(),
    "loaded": lambda regions, folder: saved(regions, folder).module(),
    "loaded twice": lambda regions, folder: saved(saved(regions, folder), folder).module(),
    "pickled": lambda regions, _: pickle.loads(pickle.dumps(regions)).module(),  # noqa: S301 - of this test
    "copied": lambda regions, _: copy.deepcopy(regions).module(),
    "a copied module": lambda regions, _: copy.deepcopy(regions.module()),
    "a copied module of loaded": lambda regions, folder: copy.deepcopy(saved(regions, folder).module()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", [Counts, Held])
def test_what_one_region_writes_the_others_see(model, form, tmp_path):
    """The fault: each loaded program had copies of buffers, and each program one of an attribute that it writes."""
    assert answers(FORMS[form](split(model()), tmp_path)) == answers(model())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_step_of_an_optimizer_trains_all_regions(form, optimizer, tmp_path):
    def trained(run):
        steps, seen = optimizer(run.parameters(), lr=0.1), []
        for n in CALLS:
            steps.zero_grad()
            seen.append(run(torch.ones(n, 1)).sum())
            seen[-1].backward()
            steps.step()
        return [each.item() for each in seen]

    run = FORMS[form](split(Held()), tmp_path)
    assert len(list(run.parameters())) == 1
    assert trained(run) == trained(Held())


@pytest.mark.parametrize("form", ["split", "loaded", "a copied module"])
@pytest.mark.parametrize(
    "convert",
    [
        lambda run: run.double(),
        lambda run: run.to(torch.float16).to(torch.float32),
        lambda run: run.to_empty(device="cpu"),
        lambda run: run.load_state_dict({k: v + 1 for k, v in run.state_dict().items()}) and run,
        lambda run: run.load_state_dict(copy.deepcopy(run.state_dict()), assign=True) and run,
    ],
)
def test_a_converted_module_still_shares_its_state(form, convert, tmp_path):
    run = FORMS[form](split(Counts()), tmp_path)
    convert(run)
    for part in run.programs:
        part.count.zero_()
    assert answers(run) == answers(Counts())
    assert run.programs[0].count is run.programs[1].count


def test_a_state_dict_goes_from_one_form_to_another(tmp_path):
    regions = split(Held())
    loaded, other = saved(regions, tmp_path).module(), saved(regions, tmp_path).module()
    answers(loaded, (3, 4, 5))
    other.load_state_dict(loaded.state_dict())
    assert other.state_dict().keys() == regions.module().state_dict().keys()
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in other.state_dict().items())


def test_a_file_holds_the_state_once(tmp_path):
    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(300, 300)

        def forward(self, x):
            return self.layer(x) * (1 if x.shape[0] < 2 else 2 if x.shape[0] < 4 else 3)

    regions = split(Large(), (torch.ones(3, 300),))
    assert len(regions.programs) == 3
    regions.save(tmp_path / "large.pt2")
    assert (tmp_path / "large.pt2").stat().st_size < 2 * 4 * 300 * 300


def test_what_cannot_be_written_is_one_sentence_and_leaves_the_file(tmp_path):
    class Bits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.floats = torch.nn.Buffer(torch.ones(2))
            self.bits = torch.nn.Buffer(self.floats.view(torch.int32))

        def forward(self, x):
            return x + self.floats.sum() if x.shape[0] > 2 else x + self.bits.sum()

    path = tmp_path / "bits.pt2"
    path.write_text("before")
    with pytest.raises(UsageError, match=r"^the programs cannot be saved: Cannot save multiple tensors") as caught:
        split(Bits()).save(path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == "before"


def test_what_torch_could_not_read_again_is_not_written(tmp_path):
    """The fault: the file was written, and `load_regions` said that it holds no regions."""

    class Named(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 2 else x + 1, "name"

    with pytest.raises(UsageError, match=r"^the programs cannot be saved: Unable to deserialize output node"):
        split(Named()).save(tmp_path / "named.pt2")
    assert not (tmp_path / "named.pt2").exists()


def test_a_model_that_writes_into_its_attribute_starts_from_the_models_value():
    """The fault: torch had written into the program's copy while it traced, so the first count was 2."""

    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = torch.zeros(())

        def forward(self, x):
            return x + self.calls.add_(1)

    model = Counted()
    run = export(model, (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=1)},)).module()
    assert [run(torch.zeros(2)).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]
    assert model.calls.item() == 3


# ---------------------------------------------------------------------- random models


@dataclass(frozen=True)
class Step:
    """Reads or writes a tensor of the model: `name op= value`, or adds it to the result."""

    writes: bool
    name: str
    value: int


NAMES = ("weight", "a", "b", "view", "unsaved", "attribute")


class Random(torch.nn.Module):
    """Of each size class, steps of its own over shared state, and results of each kind."""

    def __init__(self, classes):
        super().__init__()
        self.classes = classes
        self.a, self.b = torch.nn.Buffer(torch.zeros(3)), torch.nn.Buffer(torch.ones(3))
        self.view = torch.nn.Buffer(self.a[1:])
        self.unsaved = torch.nn.Buffer(torch.zeros(1), persistent=False)
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.attribute = torch.zeros(1)

    def forward(self, d, *, y):
        n = d["x"].shape[0]
        steps, factor = self.classes[0] if n <= 2 else self.classes[1] if n <= 4 else self.classes[-1]
        result = d["x"] * factor + d["more"]["z"].sum() - y
        for step in steps:
            tensor = getattr(self, step.name)
            if step.writes:
                tensor.mul_(2).add_(step.value)
            else:
                result = result + tensor.sum() * step.value
        return {"sum": result, "rest": (n * factor, None, [factor, self.a + 0])}


WRITES = st.builds(Step, st.just(value=True), st.sampled_from(NAMES[1:]), st.integers(1, 3))
READS = st.builds(Step, st.just(value=False), st.sampled_from(NAMES), st.integers(1, 3))
CLASS = st.tuples(st.lists(st.one_of(WRITES, READS), max_size=4), st.integers(1, 2))
MODELS = st.lists(CLASS, min_size=2, max_size=3)


def call(n, order):
    """The inputs of a call, with the keys in some order; 0 is that of the example."""
    mixed = random.Random(order)

    def shuffled(given):
        return dict(mixed.sample(list(given.items()), len(given)) if order else given)

    d = {"x": torch.arange(float(n)), "more": shuffled({"z": torch.ones(n), "w": torch.zeros(1)})}
    return (shuffled(d),), {"y": torch.tensor(0.5)}


def told(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: told(each) for key, each in sorted(value.items())}
    return [told(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.thorough
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(MODELS, st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=2, max_size=8))
def test_a_sequence_of_calls_is_the_same_in_every_form(tmp_path_factory, classes, calls):
    """Law: eager, split, merged, each of them saved and loaded, and copies give the same results call by call."""
    folder = tmp_path_factory.mktemp("random")
    n = Dim("n", min=1, max=6)
    (d,), kwargs = call(3, 0)
    shapes = {"d": {key: {0: n} if key == "x" else {"z": {0: n}, "w": None} for key in d}, "y": None}

    regions = export(Random(classes), (d,), kwargs, dynamic_shapes=shapes, branches="split")

    def sequence(run, *, in_order=False):
        made = (call(n, 0 if in_order else order) for n, order in calls)
        return [told(run(*args, **kwargs)) for args, kwargs in made]

    expected = sequence(Random(classes))
    for name, form in FORMS.items():
        assert sequence(form(copy.deepcopy(regions), folder)) == expected, name
    try:
        merged = regions.merged()
    except UsageError:
        assert sequence(regions.module()) == expected
        return
    torch.export.save(merged, folder / "merged.pt2")
    assert sequence(copy.deepcopy(merged).module()) == expected
    assert sequence(merged.module()) == expected
    loaded = torch.export.load(folder / "merged.pt2").module()  # torch's module takes the keys of a dict in order
    assert sequence(loaded, in_order=True) == expected


# ---------------------------------------------------------------------- keys in any order


@dataclass
class Pair:
    left: dict[str, torch.Tensor]
    right: torch.Tensor


register_dataclass(Pair, serialized_type_name="tests.export.build.test_split_state.Pair")


class Keyed(torch.nn.Module):
    def forward(self, d, *, k, pair):
        a, pairs = d["a"], d["bc"][0]
        both = a.sum() + 2 * pairs["b"].sum() + 3 * pairs["c"].sum() + 5 * d["e"]["one"].sum() + 7 * k.sum()
        rest = 11 * pair.left["p"].sum() + 13 * pair.left["q"].sum() + 17 * pair.right.sum()
        return (both + rest) * (2 if a.shape[0] > 2 else 1)


def keyed(kind, *, swapped, a=4):
    """Inputs of which each dict has its keys in order, or swapped."""

    def ordered(cls, *items):
        return cls(items[::-1] if swapped else items)

    d = ordered(
        dict,
        ("a", torch.ones(a)),
        ("bc", [ordered(kind, ("b", torch.ones(3) * 2), ("c", torch.ones(2)))]),
        ("e", collections.defaultdict(list, {"one": torch.ones(1)})),
    )
    pair = Pair(ordered(dict, ("p", torch.ones(2)), ("q", torch.ones(3))), torch.ones(1))
    return (d,), ordered(dict, ("k", torch.ones(5)), ("pair", pair))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_a_dict_is_taken_by_its_keys_in_every_form(kind, tmp_path):
    """The fault: the split module read a dict in the order of its insertion, and chose the program by another input."""
    args, kwargs = keyed(kind, swapped=False)
    shapes = {
        "d": {
            "a": {0: Dim("n", min=1, max=6)},
            "bc": [{"b": {0: Dim("m", min=0, max=9)}, "c": None}],
            "e": {"one": None},
        },
        "k": None,
        "pair": [{"p": None, "q": None}, None],
    }
    regions = export(Keyed(), args, kwargs, dynamic_shapes=shapes, branches="split")
    runs = [form(regions, tmp_path) for form in FORMS.values()]
    runs += [regions.merged().module(), next(iter(regions.programs)).module()]
    for size in (1, 4):
        args, kwargs = keyed(kind, swapped=True, a=size)
        expected = Keyed()(*args, **kwargs)
        assert all(torch.equal(run(*args, **kwargs), expected) for run in runs[:-1])
    assert torch.equal(runs[-1](*args, **kwargs), expected)


@pytest.mark.parametrize(
    "given",
    [
        {"x": torch.ones(3)},
        {"x": torch.ones(3), "z": torch.ones(1)},
        collections.OrderedDict(x=torch.ones(3), y=torch.ones(1)),
        {"y": torch.ones(1), "x": [torch.ones(3)]},
        {"y": {"x": torch.ones(1)}, "x": torch.ones(3)},
    ],
)
def test_a_dict_of_another_structure_is_refused(given):
    class Adds(torch.nn.Module):
        def forward(self, d):
            return d["x"] + d["y"] if d["x"].shape[0] > 2 else d["x"]

    d = {"x": torch.ones(3), "y": torch.ones(1)}
    regions = split(Adds(), (d,), {"d": {"x": {0: Dim("n", min=1, max=6)}, "y": None}})
    for run in (regions.module(), regions.merged().module()):
        with pytest.raises(OutsideDomain, match="argument 1 is structured as"):
            run(given)
