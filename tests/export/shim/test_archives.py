"""Archives of programs: what is loaded is data, whatever somebody has put into the file."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.export import Dim
from torch.export.pt2_archive._package import package_pt2

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export, load_regions
from shapeproof.export.shim import archives
from tests.thoroughness import examples


class Sides(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.arange(4.0))

    def forward(self, x):
        return x * self.weight if x.shape[0] <= 3 else x


class Evil:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "sides.pt2"
    export(Sides(), (torch.ones(2, 4),), dynamic_shapes=({0: Dim("n", max=9)},), branches="split").save(path)
    return path


def rewritten(source, target, change):
    """The archive with other parts; `change` takes the parts and changes them."""
    with zipfile.ZipFile(source) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    (root,) = {name.partition("/")[0] for name in parts}
    change(parts, root)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def pickled(value):
    """The pickle in a file of torch.save."""
    file = io.BytesIO()
    torch.save(value, file)
    with zipfile.ZipFile(file) as archive:
        return archive.read("archive/data.pkl")


def attacks(made):
    """Each puts something into the parts that makes the file when it is run."""
    code = f"__import__('pathlib').Path({str(made)!r}).touch()"

    def added(name, content):
        return lambda parts, root: parts.update({f"{root}/{name}": content})

    def expression(parts, root):
        name = f"{root}/models/region0.json"
        parts[name] = parts[name].replace(b"Symbol('s", code.replace("\\", "\\\\").encode() + b" or Symbol('s", 1)

    def guard(parts, root):
        program = json.loads(parts[f"{root}/models/region0.json"])
        program["guards_code"] = [code]
        parts[f"{root}/models/region0.json"] = json.dumps(program).encode()

    yield from (expression, guard)
    yield added("data.pkl", pickled({"region0": Evil(made)}))
    yield added("data.pkl", pickle.dumps(Evil(made)))
    yield added("constants.pkl", pickle.dumps(Evil(made)))  # torch takes the file for one of TorchScript
    yield added("data/weights/region0.pt", pickle.dumps(Evil(made)))
    yield added("data/constants/custom_obj_0", pickle.dumps(Evil(made)))
    yield added("data/aotinductor/region0/model.so", b"\x7fELF")


@pytest.mark.parametrize("index", range(8))
def test_nothing_that_a_file_holds_is_run(saved, tmp_path, index):
    made = tmp_path / "made"
    change = list(attacks(made))[index]
    rewritten(saved, tmp_path / "evil.pt2", change)
    with pytest.raises(UsageError, match=r"evil\.pt2 holds no regions: ") as caught:
        load_regions(tmp_path / "evil.pt2")
    assert "\n" not in str(caught.value)
    assert not made.exists()


class Large:
    """Pickled, it is a tensor of 2**50 elements over a storage without any."""

    def __reduce__(self):
        storage = torch.empty(0)._typed_storage()
        return torch._utils._rebuild_tensor_v2, (storage, 0, (2**50,), (1,), False, {})


def test_a_tensor_larger_than_its_record_does_not_ask_for_memory(saved, tmp_path):
    def change(parts, root):
        parts[f"{root}/data.pkl"] = pickled({"region0": Large()})
        parts[f"{root}/data/0"] = b""

    rewritten(saved, tmp_path / "large.pt2", change)
    with pytest.raises(UsageError, match="its pickle is not data alone: RuntimeError"):
        load_regions(tmp_path / "large.pt2")


@pytest.mark.parametrize("name", ["data.pkl", "models/region1.json", "data/0"])
def test_a_file_without_one_of_its_parts_is_one_sentence(saved, tmp_path, name):
    rewritten(saved, tmp_path / "part.pt2", lambda parts, root: parts.pop(f"{root}/{name}"))
    with pytest.raises(UsageError, match=r"part\.pt2 holds (no|damaged) regions: ") as caught:
        load_regions(tmp_path / "part.pt2")
    assert "\n" not in str(caught.value)


def test_an_archive_of_the_layout_before_is_one_sentence(saved, tmp_path):
    """Format 1 was an archive of torch.export's, with a copy of the tensors for each program."""
    path, texts = tmp_path / "before.pt2", {"shapeproof_regions": json.dumps({"format": 1})}
    with path.open("w+b") as file:
        package_pt2(file, exported_programs=load_regions(saved).programs[0], extra_files=texts)
    with pytest.raises(UsageError, match=r"before\.pt2 holds regions of format 1; this release reads format 2$"):
        load_regions(path)


def test_a_file_of_torchs_is_one_sentence(saved, tmp_path):
    torch.save({"state": 1}, tmp_path / "state.pt2")
    torch.export.save(load_regions(saved).programs[0], tmp_path / "one.pt2")
    for name in ("state", "one"):
        with pytest.raises(UsageError, match=f"{name}.pt2 holds no regions: it was not written by Regions.save$"):
            load_regions(tmp_path / f"{name}.pt2")


def test_what_was_rewritten_and_not_changed_is_loaded(saved, tmp_path):
    """So the attacks above are refused for what they are."""
    rewritten(saved, tmp_path / "same.pt2", lambda *_: None)
    assert load_regions(tmp_path / "same.pt2").domains == load_regions(saved).domains


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_one_sentence_or_the_same_program(saved, tmp_path, data):
    content = bytearray(saved.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[place] = data.draw(st.integers(0, 255))
        else:
            del content[place : place + data.draw(st.integers(1, 2**14))]
        if not content:
            break
    path = tmp_path / "damaged.pt2"
    path.write_bytes(bytes(content))
    with contextlib.suppress(UsageError):
        loaded = load_regions(path)
        assert loaded.domains == load_regions(saved).domains
        x = torch.ones(2, 4)
        assert torch.equal(loaded.module()(x), Sides()(x))


def test_regions_of_a_model_that_takes_a_number_are_loaded(tmp_path):
    class Counted(torch.nn.Module):
        def forward(self, x, n: int, flag: bool):
            return x + n if n > 3 and flag else x * n

    shapes = {"x": None, "n": Dim.DYNAMIC(min=0, max=9), "flag": None}
    regions = export(Counted(), (torch.ones(2), 5, True), dynamic_shapes=shapes, branches="split")
    regions.save(tmp_path / "counted.pt2")
    run = load_regions(tmp_path / "counted.pt2").module()
    assert torch.equal(run(torch.ones(2), 2, True), torch.ones(2) * 2)


def test_regions_that_check_a_bool_from_data_are_loaded(tmp_path):
    class Checked(torch.nn.Module):
        def forward(self, x):
            if x.shape[0] <= 1:
                return x[:1] * 2
            torch._check((x[0] < 1).item())
            return x[1:]

    regions = export(Checked(), (torch.zeros(3),), dynamic_shapes={"x": {0: Dim("n", min=0, max=5)}}, branches="split")
    regions.save(tmp_path / "checked.pt2")
    run = load_regions(tmp_path / "checked.pt2").module()
    assert torch.equal(run(torch.zeros(3)), torch.zeros(2))
    with pytest.raises(RuntimeError):
        run(torch.ones(3))


@pytest.mark.parametrize("text", ["type(x, y, z)", "type(*x)(1)", "type(x)()", "type(x, **y)"])
def test_to_ask_for_a_type_makes_none(text):
    with pytest.raises(archives.UnsafeArchiveError):
        archives._check_expression(text)
