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

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export, load_regions
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
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def attacks(made):
    """Each puts something into the parts that makes the file when it is run."""
    evil = pickled(((Evil(made),), {}))
    code = f"__import__('pathlib').Path({str(made)!r}).touch()"

    def inputs(parts, root):
        parts[f"{root}/data/sample_inputs/region0.pt"] = evil

    def plain_pickle(parts, root):
        parts[f"{root}/data/sample_inputs/region0.pt"] = pickle.dumps(Evil(made))

    def old_weights(parts, root):
        parts[f"{root}/data/weights/region0.pt"] = evil

    def weight(parts, root):
        config = json.loads(parts[f"{root}/data/weights/region0_weights_config.json"])
        config["config"]["weight"] |= {"use_pickle": True}
        parts[f"{root}/data/weights/region0_weights_config.json"] = json.dumps(config).encode()
        parts[f"{root}/data/weights/{config['config']['weight']['path_name']}"] = evil

    def constant(kind):
        def change(parts, root):
            meta = {"path_name": f"{kind}_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
            parts[f"{root}/data/constants/region0_constants_config.json"] = json.dumps({"config": {"c": meta}}).encode()
            parts[f"{root}/data/constants/{kind}_0"] = pickle.dumps(Evil(made))

        return change

    def expression(parts, root):
        name = f"{root}/models/region0.json"
        parts[name] = parts[name].replace(b"Symbol('s", code.replace("\\", "\\\\").encode() + b" or Symbol('s", 1)

    def guard(parts, root):
        program = json.loads(parts[f"{root}/models/region0.json"])
        program["guards_code"] = [code]
        parts[f"{root}/models/region0.json"] = json.dumps(program).encode()

    def compiled(parts, root):
        parts[f"{root}/data/aotinductor/region0/model.so"] = b"\x7fELF"

    yield from (inputs, plain_pickle, old_weights, weight, expression, guard, compiled)
    yield from map(constant, ("tensor", "custom_obj", "opaque_obj"))


@pytest.mark.parametrize("index", range(10))
def test_nothing_that_a_file_holds_is_run(saved, tmp_path, index):
    made = tmp_path / "made"
    change = list(attacks(made))[index]
    rewritten(saved, tmp_path / "evil.pt2", change)
    with pytest.raises(UsageError, match=r"evil\.pt2 holds no regions: ") as caught:
        load_regions(tmp_path / "evil.pt2")
    assert "\n" not in str(caught.value)
    assert not made.exists()


def test_an_empty_record_does_not_ask_for_memory(saved, tmp_path):
    def change(parts, root):
        name = f"{root}/data/weights/region0_weights_config.json"
        config = json.loads(parts[name])
        config["config"]["weight"]["tensor_meta"]["sizes"] = [{"as_int": 2**50}]
        parts[name] = json.dumps(config).encode()
        parts[f"{root}/data/weights/{config['config']['weight']['path_name']}"] = b""

    rewritten(saved, tmp_path / "large.pt2", change)
    with pytest.raises(UsageError, match="is empty, and says that it is not"):
        load_regions(tmp_path / "large.pt2")


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
