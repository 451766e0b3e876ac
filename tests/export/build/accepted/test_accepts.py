"""The contract that leaves with a program accepts what the program accepts: from the report, its file, its archive.

Held against the program's own module by brute force over small boxes, and against the real consumers' ways of calling.
"""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
import zipfile
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

import shapeproof
from shapeproof import contract
from shapeproof.constraints.errors import UsageError
from shapeproof.contract.archives import PROPERTY
from shapeproof.contract.contract import contract_text
from shapeproof.export import OutsideDomain, TensorSpec, check, export, load_regions, load_report
from tests.export.random_programs import few, programs
from tests.thoroughness import examples

ROOT = Path(__file__).parents[4]


def everywhere(report, folder):
    """The contract of a report, and what is read of it from each kind of file."""
    report.save(folder / "report.json")
    report.contract.save(folder / "contract.json")
    archive = folder / "program.pt2"
    if hasattr(report.program, "programs"):
        report.program.save(archive)
    else:
        torch.export.save(report.program, archive)
    return [
        report.contract,
        *(contract.load(folder / name) for name in ("report.json", "contract.json", "program.pt2")),
    ]


def serves(run, args, kwargs=None):
    """Whether a module takes inputs."""
    try:
        run(*args, **(kwargs or {}))
    except OutsideDomain:
        return False
    except RuntimeError:  # eager raises, too, or what is undecided is refused
        return True
    return True


# ---------------------------------------------------------------------- against programs, by brute force


class Sums(torch.nn.Module):
    """Takes whatever is declared; sizes are independent."""

    def forward(self, x, y, n):
        return x.sum(), y.sum(), n


bounds = st.integers(0, 3).flatmap(lambda low: st.tuples(st.just(low), st.integers(low + 1, 5)))

BOXES = st.tuples(bounds, bounds, bounds)


@st.composite
def declarations(draw):
    """Dims of every form for x: [2, 2], y: [3] and n, over boxes that hold some of 0 to 6."""
    dims = [Dim(name, min=low, max=high) for name, (low, high) in zip("abc", draw(BOXES), strict=True)]
    entries = [None, dims[0], dims[1], 2 * dims[0], 2 * dims[0] + 1, dims[2], Dim.AUTO, Dim.DYNAMIC(min=0, max=4)]
    x, y = [draw(st.sampled_from(entries)) for _ in range(2)], [draw(st.sampled_from(entries))]
    n = draw(st.sampled_from([None, Dim.DYNAMIC, Dim.DYNAMIC(min=1, max=3)]))
    named = {each.__name__ for each in (*x, *y) if isinstance(each, type(dims[0]))}
    relations = ["a + b <= 6", "a % 2 == 0", "a*b != 4", "c >= a or c == 1", "int(a*0.5) <= b"]
    known = [text for text in relations if all(name not in text or name in named for name in "abc")]
    return {"x": tuple(x), "y": tuple(y), "n": n}, tuple(
        draw(st.lists(st.sampled_from(known), max_size=1))
    ) if known else ()


@pytest.mark.thorough
@settings(max_examples=examples(15))
@given(declarations())
def test_a_contract_accepts_what_the_program_accepts_at_every_point_of_a_box(tmp_path_factory, declared):
    shapes, relations = declared
    try:
        report = check(Sums(), (torch.ones(2, 2), torch.ones(3), 2), dynamic_shapes=shapes, constraints=relations)
    except UsageError:
        return  # the example is outside
    assert report.program is not None
    run = report.program.module()
    made = everywhere(report, tmp_path_factory.mktemp("declared"))
    assert made == [made[0]] * 4
    for a, b, c, n in itertools.product((0, 1, 2, 3, 5), (0, 2, 4), range(5), (-2, 2, 4)):
        args = (torch.ones(a, b), torch.ones(c), n)
        inside = serves(run, args)
        for each in (made[0], made[-1]):
            assert bool(each.accepts(*args)) == inside
            assert bool(each.accepts({"x": (a, b), "y": (c,), "n": n})) == inside


@few(20)
@given(programs(), st.booleans())
def test_a_contract_accepts_what_random_programs_accept(program, split):
    report = program.check(branches="split" if split else "error", narrow=True)
    if report.program is None:
        assert not report.accepts(program.inputs(program.example)[0])
        return
    run = report.program.module()
    for sizes in program.box:
        inside = serves(run, program.inputs(sizes))
        assert bool(report.accepts(sizes)) == inside
        assert bool(report.accepts(*program.inputs(sizes))) == inside


class Sides(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] <= 4 else x[:, :1] - 1 if x.shape[1] > 2 else x


@pytest.mark.thorough
def test_the_contract_of_regions_is_their_union(tmp_path):
    shapes = ({0: Dim("n", max=8), 1: Dim("m", max=5)},)
    regions = export(Sides(), (torch.ones(3, 4),), dynamic_shapes=shapes, branches="split", constraints=("n != 6",))
    run = regions.module()
    for made in everywhere(regions.report, tmp_path):
        for n, m in itertools.product(range(10), range(7)):
            assert bool(made.accepts((n, m))) == serves(run, (torch.ones(n, m),)), (n, m)
    loaded = load_regions(tmp_path / "program.pt2")
    assert loaded.report == regions.report
    alone = [each.report.contract for each in regions.programs]
    assert all(sum(bool(each.accepts((n, 3))) for each in alone) == (n != 6) for n in range(9))


# ---------------------------------------------------------------------- kinds of inputs


@dataclass
class Box:
    k: torch.Tensor
    v: torch.Tensor


torch.export.register_dataclass(Box, serialized_type_name="tests.export.build.accepted.test_accepts.Box")
Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - torch registers these
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="tests.export.build.accepted.test_accepts.Pair")


class Everything(torch.nn.Module):
    def forward(self, d, box, pair, flag=True, mode=None, *, scale=1.0, n=3):
        total = d["a"] + d["b"][0] + d["b"][1] + box.k + box.v + pair.left + pair.right
        return total if flag and mode else -total, n * scale


def everything(rows, /, **changed):
    x = torch.ones(rows)
    given = {"d": {"a": x, "b": [x, x]}, "box": Box(x, x), "pair": Pair(x, x), "flag": True, "mode": "m"}
    given |= {name: changed.pop(name) for name in list(changed) if name in given}
    return tuple(given.values()), {"scale": 2.0, "n": 4} | changed


@pytest.fixture(scope="module")
def of_everything():
    args, kwargs = everything(3)
    row = {0: Dim("n", min=1, max=5)}
    shapes = {
        "d": {"a": row, "b": [row, row]}, "box": [row, row], "pair": Pair(row, row),
        "flag": None, "mode": None, "scale": None, "n": Dim.DYNAMIC(min=2, max=9),
    }  # fmt: skip
    return export(Everything(), args, kwargs, dynamic_shapes=shapes)


@pytest.mark.parametrize(
    "given",
    [
        everything(3),
        everything(1, n=9),
        everything(6),
        everything(0),
        everything(3, n=10),
        everything(3, n=True),
        everything(3, scale=2),
        everything(3, flag=False),
        everything(3, flag=1),
        everything(3, mode=None),
        everything(3, box=Box(torch.ones(3), torch.ones(4))),
        everything(3, box=Box(torch.ones(3), torch.ones(3, dtype=torch.float64))),
        everything(3, box=Box(torch.ones(3), torch.ones(3, 1))),
        everything(3, box=Box(torch.ones(3), torch.ones(3, device="meta"))),
        everything(3, box=Box(torch.ones(3), torch.ones(3).to_sparse())),
        everything(3, box=Box(torch.ones(3), None)),
        everything(3, box=(torch.ones(3), torch.ones(3))),
        everything(3, d={"a": torch.ones(3), "b": (torch.ones(3), torch.ones(3))}),
        everything(3, d={"a": torch.ones(3), "b": [torch.ones(3)]}),
        everything(3, d={"a": torch.ones(3)}),
        everything(3, other=1),
    ],
)
def test_inputs_of_every_kind_are_accepted_as_the_program_accepts_them(of_everything, given):
    made = of_everything.report.contract
    assert bool(made.accepts(*given[0], **given[1])) == serves(of_everything.module(), *given)
    assert made.unchecked == ()


def test_the_order_of_keywords_does_not_matter(of_everything):
    args, kwargs = everything(6)
    for names in (["scale", "n"], ["n", "scale"]):
        answer = of_everything.report.accepts(*args, **{name: kwargs[name] for name in names})
        assert str(answer.outside) == "d['a'].shape[0] = 6, but d['a'].shape[0] <= 5 is declared"
    assert of_everything.report.accepts(*everything(2)[0], n=3), "constants may be left out by name"


def test_a_contract_of_every_kind_is_read_again(of_everything, tmp_path):
    made = everywhere(of_everything.report, tmp_path)
    assert made == [made[0]] * 4
    assert str(made[-1]).splitlines()[:2] == ["inputs (d, box, pair, flag, mode, scale=, n=)", "  d['a']: float32[n]"]


class Many(torch.nn.Module):
    def forward(self, first, *rest, z):
        return first + sum(rest) + z


def test_arguments_without_names_are_read_by_place():
    x, row = torch.ones(3), {0: Dim("n", max=5)}
    report = export(Many(), (x, x, x), {"z": x}, dynamic_shapes={"first": row, "rest": (row, row), "z": row}).report
    assert report.accepts(x, x, x, z=x)
    assert report.accepts((5,), (5,), (5,), z=(5,))
    assert report.accepts({"first": (5,), "rest": ((5,), (5,)), "z": (5,)})
    assert not report.accepts(x, x, z=x)
    assert not report.accepts((6,), (6,), (6,), z=(6,))


def test_ordered_dicts_and_specs_without_examples():
    class Of(torch.nn.Module):
        def forward(self, d, x):
            return d["p"] + x

    spec = TensorSpec(torch.int64, (Dim("n", max=5),))
    report = check(Of(), (OrderedDict(p=spec), spec))
    assert report.accepts(OrderedDict(p=(5,)), (5,))
    assert not report.accepts(OrderedDict(p=(5,)), (4,))
    assert not report.accepts(OrderedDict(p=torch.ones(5)), torch.ones(5))


# ---------------------------------------------------------------------- what is not checked is said


class Rows(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 2)
        torch._check(k <= x.shape[0])
        return x[:k] * (2 if x.t().is_contiguous() else 1), x.add_(1)


def test_what_a_contract_does_not_look_at_is_said():
    report = check(Rows(), (torch.ones(4, 3), torch.tensor(3)), dynamic_shapes=({0: Dim("rows", min=2, max=9)}, None))
    said = "\n".join(report.contract.unchecked)
    assert "k >= 2, which the program checks on its data" in said
    assert "strides of the inputs, which the model has read" in said
    assert "that x, which the program writes into, shares memory with no other input" in said
    assert "not checked: k >= 2" in str(report.contract)


def test_a_report_without_a_program_accepts_nothing(tmp_path):
    report = check(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=({1: Dim("n")},))
    assert report.status == "refuted"
    assert str(report.accepts((3, 4))) == "no program was given out: the domain is refuted"
    report.save(tmp_path / "report.json")
    assert str(load_report(tmp_path / "report.json").accepts((3, 4))) == str(report.accepts((3, 4)))
    with pytest.raises(UsageError, match="it gave out no program"):
        contract.load(tmp_path / "report.json")


# ---------------------------------------------------------------------- archives


@pytest.fixture(scope="module")
def linear():
    return export(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", max=8)},))


FORMS = {
    "program": lambda program: program,
    "decomposed": lambda program: program.run_decompositions(),
    "decomposed by a table": lambda program: program.run_decompositions({}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_program_has_its_report(linear, form, tmp_path):
    torch.export.save(FORMS[form](linear), tmp_path / "linear.pt2")
    loaded = torch.export.load(tmp_path / "linear.pt2")
    assert load_report(loaded) == load_report(tmp_path / "linear.pt2") == linear.report
    again = io.BytesIO()
    torch.export.save(loaded, again)
    again.seek(0)
    assert contract.load(again) == linear.report.contract


def test_a_program_of_torch_has_no_report(tmp_path):
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
    torch.export.save(program, tmp_path / "relu.pt2")
    for source in (program, tmp_path / "relu.pt2"):
        with pytest.raises(UsageError, match="not exported by this package"):
            load_report(source)
    with pytest.raises(UsageError, match="not exported by this package"):
        contract.load(tmp_path / "relu.pt2")


def test_a_report_in_an_archive_is_read_with_care(linear, tmp_path):
    torch.export.save(linear, tmp_path / "linear.pt2")
    with zipfile.ZipFile(tmp_path / "linear.pt2") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    (model,) = (name for name in parts if name.endswith("models/model.json"))
    saved = json.loads(parts[model])
    for noted in ("", "[]", '{"format": 3}', '{"contract": {}}', "null"):
        saved["graph_module"]["metadata"]["custom"] = json.dumps({"shapeproof_report": noted})
        with zipfile.ZipFile(tmp_path / "other.pt2", "w") as archive:
            for name, content in (parts | {model: json.dumps(saved)}).items():
                archive.writestr(name, content)
        with pytest.raises(UsageError, match="holds no contract"):
            contract.load(tmp_path / "other.pt2")
        with pytest.raises(UsageError, match="is not a saved report"):
            load_report(tmp_path / "other.pt2")


# ---------------------------------------------------------------------- consumers, and a server without torch


def test_numpy_arrays_are_tensors(linear):
    np = pytest.importorskip("numpy")
    run = linear.report.contract.wrap(lambda feed: feed["input"].shape)
    assert run({"input": np.ones((8, 4), np.float32)}) == (8, 4)
    for wrong in (np.ones((9, 4), np.float32), np.ones((8, 4)), np.ones((8, 4), ">f4"), np.ones(4, np.float32), [1.0]):
        with pytest.raises(OutsideDomain):
            run({"input": wrong})


SERVER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "z3", "sympy", "numpy", "pydantic", "rich", "typer"}:
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import shapeproof.contract

class Array:
    dtype = "float32"
    def __init__(self, *shape): self.shape = shape

for path in sys.argv[1:]:
    run = shapeproof.contract.load(path).wrap(lambda outputs, feed: len(feed))
    assert run(None, {"input": Array(8, 4)}) == 1
    try:
        run(None, {"input": Array(9, 4)})
    except shapeproof.contract.OutsideDomain as outside:
        print(outside)
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"torch", "z3", "sympy"}, loaded
"""


def test_a_server_needs_neither_torch_nor_z3(linear, tmp_path):
    everywhere(linear.report, tmp_path)
    files = [str(tmp_path / name) for name in ("report.json", "contract.json", "program.pt2")]
    done = subprocess.run([sys.executable, "-c", SERVER, *files], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["input.shape[0] = 9, but input.shape[0] <= 8 is declared"] * 3


class Nested(torch.nn.Module):
    def forward(self, d, y, flag=True):
        return d["a"] * 2 + y if flag else y


@pytest.fixture(scope="module")
def nested():
    row = {0: Dim("n", max=8)}
    args = ({"a": torch.ones(3, 4)}, torch.ones(3, 4), True)
    return export(Nested(), args, dynamic_shapes={"d": {"a": row}, "y": row, "flag": None})


@pytest.mark.thorough
def test_a_session_of_onnx_runtime_is_guarded(nested):
    runtime = pytest.importorskip("onnxruntime")
    np = pytest.importorskip("numpy")
    pytest.importorskip("onnxscript")
    model = torch.onnx.export(nested, dynamo=True, verbose=False).model_proto
    model.metadata_props.add(key=PROPERTY, value=contract_text(nested.report.contract))
    session = shapeproof.guard(runtime.InferenceSession(model.SerializeToString()))
    run = session.run
    feed = {each.name: np.ones((8, 4), np.float32) for each in session.get_inputs()}
    assert run(None, feed)[0].shape == run(output_names=None, input_feed=feed)[0].shape == (8, 4)
    with pytest.raises(OutsideDomain, match=r"d\['a'\].shape\[0\] = 9, but d\['a'\].shape\[0\] <= 8 is declared"):
        run(None, {name: np.ones((9, 4), np.float32) for name in feed})


@pytest.mark.slow
def test_a_package_of_aot_inductor_is_guarded(nested, tmp_path):
    path = torch._inductor.aoti_compile_and_package(nested, package_path=str(tmp_path / "model.pt2"))
    package = shapeproof.guard(torch._inductor.aoti_load_package(path), nested.report.contract)
    good, bad = torch.ones(8, 4), torch.ones(8, 4, dtype=torch.float64)  # without a guard, bytes of doubles are read
    assert package({"a": good}, good, True).shape == (8, 4)
    for args in (({"a": bad}, good, True), ({"a": good}, bad, True), ({"a": torch.ones(9, 4)}, torch.ones(9, 4), True)):
        with pytest.raises(OutsideDomain):
            package(*args)


@pytest.mark.slow
def test_a_method_of_executorch_is_guarded(nested):
    runtime = pytest.importorskip("executorch.runtime")
    from executorch.exir import to_edge

    loaded = runtime.Runtime.get().load_program(to_edge(nested).to_executorch().buffer)
    run = shapeproof.guard(loaded.load_method("forward"), nested.report.contract).execute
    assert run([torch.ones(8, 4), torch.ones(8, 4), True])[0].shape == (8, 4)
    with pytest.raises(OutsideDomain):
        run([torch.ones(9, 4), torch.ones(9, 4), True])
