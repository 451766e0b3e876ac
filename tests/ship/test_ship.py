"""Law: `ship` leaves a file at the path only if the file did what eager does; whatever is wrong in it is found."""

from __future__ import annotations

import functools
import json
import operator
import os
import stat
import sys
from dataclasses import asdict, replace

import pytest
import torch
from torch.export import Dim

import shapeproof
from shapeproof import contract as contracts
from shapeproof.constraints.errors import UsageError
from shapeproof.contract import OutsideDomain
from shapeproof.export import export
from shapeproof.ship import TARGETS, FileDiffers, Target, ship, verify
from tests.calling import Calls

T = Dim("t", min=1, max=20)


def padded(x):
    """Three operators on sizes, and one on the padded tensor."""
    return torch.nn.functional.pad(x, (-x.shape[1] % 8, x.shape[1] // 3)).cumsum(1)


@functools.cache
def of_padding():
    return export(Calls(padded), (torch.randn(2, 5),), dynamic_shapes=({1: T},))


def exported(function, *args, **dims):
    return export(Calls(function), args, dynamic_shapes=dims or None)


def test_a_file_is_there_once_it_was_run_at_each_point_of_a_small_domain(tmp_path):
    verdict = of_padding().ship(tmp_path / "padded.pt2", to="pt2")
    assert (verdict.status, verdict.ran, verdict.compared) == ("same", 20, 20)
    assert (verdict.refused, verdict.computed) == (2, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["padded.pt2"]
    assert str(verdict).endswith("padded.pt2 does what the proved program does at 20 points")
    assert json.loads(json.dumps(asdict(verdict)))["status"] == "same"


def test_the_model_itself_is_compared_where_it_is_given(tmp_path):
    verdict = ship(of_padding(), tmp_path / "m.pt2", to="pt2", model=Calls(padded))
    assert verdict.beside == "eager"
    with pytest.raises(FileDiffers) as caught:
        ship(of_padding(), tmp_path / "other.pt2", to="pt2", model=Calls(lambda x: padded(x) + 1))
    assert caught.value.verdict.sizes == {"x.shape[1]": 1}
    assert not (tmp_path / "other.pt2").exists()


def wrong(change):
    """A consumer that converts wrongly: what it saves is torch's program, whose graph was changed."""

    def convert(_, __, path):
        plain = torch.export.export(Calls(padded), (torch.randn(2, 5),), dynamic_shapes=({1: T},)).run_decompositions()
        change(plain.graph)
        plain.graph_module.recompile()
        torch.export.save(plain, path)

    return replace(TARGETS["pt2"], convert=convert)


def _truncated(a, b):
    return int(a / b)


def numeric_nodes():
    plain = torch.export.export(Calls(padded), (torch.randn(2, 5),), dynamic_shapes=({1: T},)).run_decompositions()
    ours = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg)
    return [node.name for node in plain.graph.nodes if node.target in ours]


@pytest.mark.parametrize("name", numeric_nodes())
def test_each_operator_on_sizes_that_is_converted_wrongly_is_found(name, tmp_path):
    """Law: an operator whose result is another at some size of the domain is found. All of them are at most 20."""

    def change(graph):
        (node,) = (each for each in graph.nodes if each.name == name)
        with graph.inserting_after(node):
            more = graph.call_function(operator.add, (node, 1))
        more.meta = dict(node.meta)
        node.replace_all_uses_with(more, delete_user_cb=lambda user: user is not more)

    with pytest.raises((FileDiffers, UsageError)):
        ship(of_padding(), tmp_path / "wrong.pt2", to=wrong(change))
    assert list(tmp_path.iterdir()) == []


def test_a_converter_that_changes_nothing_passes(tmp_path):
    assert ship(of_padding(), tmp_path / "right.pt2", to=wrong(lambda _: None)).status == "same"


def test_a_file_that_was_there_stays_where_the_new_one_differs(tmp_path):
    path = tmp_path / "model.pt2"
    path.write_text("the old one")
    with pytest.raises(FileDiffers):
        ship(of_padding(), path, to="pt2", model=Calls(lambda x: padded(x) * 2))
    assert path.read_text() == "the old one"


def test_one_size_that_is_wrong_is_found_and_named(tmp_path):
    class Wrong(torch.nn.Module):
        def forward(self, x):
            return padded(x) + (x.shape[1] == 13)

    with pytest.raises(FileDiffers) as caught:
        ship(of_padding(), tmp_path / "m.pt2", to="pt2", model=Wrong())
    verdict = caught.value.verdict
    assert (verdict.status, dict(verdict.sizes)) == ("differs", {"x.shape[1]": 13})
    assert "result 0[0, 0]: expected" in str(verdict)


def test_a_file_that_refuses_sizes_of_the_domain_is_told(tmp_path):
    def load(path, contract):
        run = TARGETS["pt2"].load(path, contract)

        def refusing(x):
            if x.shape[1] > 17:
                raise RuntimeError("too long")
            return run(x)

        return refusing

    with pytest.raises(FileDiffers, match=r"refuses: .* raises at x.shape\[1\] = 18, .*: RuntimeError: too long"):
        ship(of_padding(), tmp_path / "m.pt2", to=replace(TARGETS["pt2"], load=load))


def test_what_a_consumer_cannot_convert_is_one_sentence_and_no_file(tmp_path):
    def convert(*_):
        raise RuntimeError("failed") from NotImplementedError("no operator\nfft")

    with pytest.raises(UsageError, match=r"^fast.py cannot convert the program: NotImplementedError: no operator$"):
        ship(of_padding(), tmp_path / "m", to=Target("fast.py", convert, TARGETS["pt2"].load))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_and_an_unknown_target_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"^torch.export.save needs nowhere_to_be_found: pip install"):
        ship(of_padding(), tmp_path / "m", to=replace(TARGETS["pt2"], run_by="nowhere_to_be_found"))
    with pytest.raises(UsageError, match="did you mean `onnx`"):
        ship(of_padding(), tmp_path / "m", to="onxx")
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        ship(of_padding(), tmp_path / "no" / "m", to="pt2")


def test_only_a_proved_program_of_ours_is_shipped(tmp_path):
    with pytest.raises(UsageError, match=r"expected a program of shapeproof.export, got ExportedProgram"):
        ship(torch.export.export(Calls(padded), (torch.randn(2, 5),)), tmp_path / "m", to="pt2")
    drawn = exported(lambda x: x + torch.rand_like(x), torch.ones(3))
    with pytest.raises(UsageError, match="draws random numbers"):
        ship(drawn, tmp_path / "m", to="pt2")


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(x.shape[0])
        return x + self.seen


@pytest.mark.thorough
def test_state_is_compared_in_a_second_call(tmp_path):
    program = export(Counting(), (torch.ones(3),), dynamic_shapes=({0: T},))
    assert ship(program, tmp_path / "m.pt2", to="pt2", model=Counting()).status == "same"

    class Forgetting(torch.nn.Module):
        def forward(self, x):
            return x + x.shape[0]

    def convert(_, __, path):
        torch.export.save(torch.export.export(Forgetting(), (torch.ones(3),), dynamic_shapes=({0: T},)), path)

    with pytest.raises(FileDiffers, match=r"expected 3\.\d+, got 2\.\d+, in the second call"):
        ship(program, tmp_path / "m.pt2", to=replace(TARGETS["pt2"], convert=convert))


def test_what_is_written_into_an_input_is_compared(tmp_path):
    program = exported(lambda x: x.add_(1) * 2, torch.ones(3), x={0: T})
    assert ship(program, tmp_path / "m.pt2", to="pt2").status == "same"

    def convert(_, __, path):
        pure = torch.export.export(Calls(lambda x: (x + 1) * 2), (torch.ones(3),), dynamic_shapes=({0: T},))
        torch.export.save(pure, path)

    with pytest.raises(FileDiffers, match=r"x after the call\[0\]: expected"):
        ship(program, tmp_path / "m.pt2", to=replace(TARGETS["pt2"], convert=convert))


@pytest.mark.thorough
def test_containers_keywords_constants_and_numbers_are_handed_on(tmp_path):
    def model(x, *, pair, scale=2, flag=True, nothing=None):
        return {"a": x * scale, "b": [pair["one"] + pair["two"], x.shape[0]], "c": nothing, "d": flag}

    args, kwargs = (torch.ones(3),), {"pair": {"one": torch.ones(4), "two": torch.ones(4)}, "scale": 2}
    shapes = {"x": {0: T}, "pair": {"one": {0: Dim("n", min=0, max=4)}, "two": {0: Dim("n", min=0, max=4)}}}
    program = export(Calls(model), args, kwargs, dynamic_shapes=shapes | {"scale": None})
    verdict = ship(program, tmp_path / "m.pt2", to="pt2")
    assert verdict.status == "same"
    assert verify(tmp_path / "m.pt2").ran > 8
    beside = verify(tmp_path / "m.pt2", Calls(model), args, kwargs, dynamic_shapes=shapes | {"scale": None})
    assert (beside.status, beside.ran) == ("same", verdict.ran)


def test_an_unbounded_dim_of_large_rows_is_run_at_what_fits(tmp_path):
    program = exported(lambda x: x * 2, torch.ones(3, 8192), x={0: Dim("n", min=1)})
    assert 4 <= ship(program, tmp_path / "m.pt2", to="pt2").ran <= 12


def test_a_model_without_dynamic_sizes_is_run_once(tmp_path):
    assert exported(lambda x: x * 2, torch.ones(3)).ship(tmp_path / "m.pt2", to="pt2").ran == 1


def test_a_point_at_which_eager_raises_on_its_data_is_not_compared(tmp_path):
    def model(x, i):
        return x[i[0]]  # the index is made from the example's, whatever the size

    program = exported(model, torch.ones(5, 2), torch.tensor([4]), x={0: Dim("n", min=1, max=9)}, i={})
    verdict = ship(program, tmp_path / "m.pt2", to="pt2")
    assert verdict.raised > 0
    assert verdict.compared + verdict.raised == verdict.ran


def test_the_file_has_the_contract_of_the_program(tmp_path):
    of_padding().ship(tmp_path / "m.pt2", to="pt2")
    assert contracts.load(tmp_path / "m.pt2") == of_padding().report.contract


@pytest.mark.thorough
def test_a_shipped_file_is_guarded_by_the_contract_in_it(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = tmp_path / "pairs.onnx"
    pairs = ({0: 2 * Dim("pairs", min=1, max=8)},)
    proved = export(Calls(lambda x: x.view(-1, 2, 4) * 2), (torch.randn(6, 4),), dynamic_shapes=pairs)
    proved.ship(path, to="onnx")
    session = shapeproof.guard(runtime.InferenceSession(str(path)))
    assert session.run(None, {session.get_inputs()[0].name: torch.ones(4, 4).numpy()})[0].shape == (2, 2, 4)
    for rows in (5, 18):
        with pytest.raises(OutsideDomain):
            session.run(None, {session.get_inputs()[0].name: torch.ones(rows, 4).numpy()})


@pytest.mark.skipif(sys.platform == "win32", reason="it has no FIFO")
def test_only_a_regular_file_is_replaced_through_links_and_with_its_permissions(tmp_path):
    program = exported(lambda x: x * 2, torch.ones(3))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="fifo cannot be written: it is no regular file"):
        program.ship(tmp_path / "fifo", to="pt2")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    for path in ("", "..", tmp_path):
        with pytest.raises(UsageError, match="cannot be written: Is a directory"):
            program.ship(path, to="pt2")
    kept, link = tmp_path / "kept.pt2", tmp_path / "link.pt2"
    kept.write_bytes(b"old")
    kept.chmod(0o640)
    link.symlink_to(kept)
    program.ship(link, to="pt2")
    assert link.is_symlink()
    assert contracts.load(kept) == program.report.contract
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_a_model_that_is_no_module_is_a_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"the model must be a torch.nn.Module, not int"):
        exported(lambda x: x * 2, torch.ones(3)).ship(tmp_path / "m.pt2", to="pt2", model=3)


def test_state_that_the_file_alone_has_is_found_where_the_domain_is_one_point(tmp_path):
    ship(export(Counting(), (torch.ones(3),)), tmp_path / "m.pt2", to="pt2", model=Counting())
    verdict = verify(tmp_path / "m.pt2", Calls(lambda x: x + 3), (torch.ones(3),))
    assert (verdict.status, verdict.ran, "in the second call" in verdict.text) == ("differs", 1, True)
