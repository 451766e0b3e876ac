"""Facts about torch that are relied on when a program is taken apart or saved. A new torch release starts here."""

from __future__ import annotations

from pathlib import Path

import torch
from torch._inductor.decomposition import select_decomp_table
from torch.export import Dim
from torch.overrides import TorchFunctionMode

from shapeproof.export import export

ROWS = ({0: Dim("n", min=2, max=9)},)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


def test_an_example_that_a_size_carries_is_saved_with_it(tmp_path: Path) -> None:
    """shape_env.note_example relies on it."""
    program = export(Model(), (torch.ones(5),), dynamic_shapes=ROWS)
    for node in program.graph.nodes:
        for size in getattr(node.meta.get("val"), "shape", ()):
            size.node._hint = 8
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2")
    (size,) = loaded.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default)[0].meta["val"].shape
    assert size.node.hint == 8


def test_what_inductor_takes_apart_is_a_table_of_operators() -> None:
    """consumers.as_compiled relies on it: what torch takes apart is in it, less what the compiler keeps whole."""
    table = select_decomp_table()
    assert torch.ops.aten.native_batch_norm.default in table
    assert torch.ops.aten.linear.default in table
    assert torch.ops.aten.clamp.default in table  # into `clamp_min`, which torch's own table takes apart into `clamp`
    assert torch.ops.aten.clamp_min.default not in table
    assert all(callable(decomposition) for decomposition in table.values())


def test_sequences_are_padded_by_one_function() -> None:
    """shape_env.PAD_SEQUENCE relies on it: a mode of torch sees no other."""
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(3)])
    assert torch._C._nn.pad_sequence in seen


def test_the_operator_that_is_run_again_is_noted() -> None:
    """places.run_again relies on it."""
    noted = []

    def seeing(x: torch.Tensor) -> torch.Tensor:
        noted.append(torch.fx.traceback.get_current_meta()["torch_fn"][1])
        return torch.clamp(x, min=0)

    program = torch.export.export(Model(), (torch.ones(5),), dynamic_shapes=ROWS)
    program.run_decompositions(torch.export.default_decompositions() | {torch.ops.aten.relu.default: seeing})
    assert noted
    assert noted[0].endswith("relu")
