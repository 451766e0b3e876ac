"""The exporters of transformers, which call torch.export.export, export by a proof inside `proving`."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.utils._pytree as pytree
from torch.export import Dim

from shapeproof.export import ConstraintViolation
from shapeproof.ship import proving
from tests.tiny_transformers import LONGEST, TRANSFORMERS


@pytest.fixture(autouse=True, scope="module")
def registered_here():
    """The exporters register caches in their own form; other tests take the form of transformers' integrations."""
    before = set(pytree.SUPPORTED_NODES)
    yield
    for kind in set(pytree.SUPPORTED_NODES) - before:
        if kind.__name__.endswith("Cache"):
            pytree._deregister_pytree_node(kind)


SHAPES = [(1, 1), (1, LONGEST), (2, 7), (5, 2), (64, 3)]


def exported(format_, model, example, **config):
    """What the exporter of a format gives, all of it imported here: transformers loads for seconds."""
    from transformers import exporters

    exporter, settings = getattr(exporters, f"{format_}Exporter")(), getattr(exporters, f"{format_}Config")
    return exporter.export(model, example, config=settings(**config or {"dynamic": True}))


def assert_as_eager(program, name, model, atol):
    make, lengths = TRANSFORMERS[name].inputs, TRANSFORMERS[name].lengths
    for batch, length in SHAPES if lengths else [(batch, 0) for batch, _ in SHAPES]:
        want, got = model(**make(batch, length)), program(**make(batch, length))
        for key, value in want.items():
            torch.testing.assert_close(got[key], value, rtol=1e-3, atol=atol)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_dynamic_export_is_proved_in_one_trace_and_equals_eager(name):
    model, example = TRANSFORMERS[name].model(), TRANSFORMERS[name].inputs(2, 7)
    with proving():
        program = exported("Dynamo", model, example)
    report = program.program.report
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    assert sorted(program.program.state_dict) == sorted(model.state_dict())
    assert_as_eager(program, name, model, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("format_", "atol"), [("Onnx", 1e-4), ("OpenVINO", 5e-3), ("Executorch", 1e-4)])
def test_the_formats_that_begin_with_it_do_too(format_, atol):
    """The faults: names noted in each run of a proof; and an export of ExecuTorch's own was refused."""
    model, example = TRANSFORMERS["bert"].model(), TRANSFORMERS["bert"].inputs(2, 7)
    with proving():
        program = exported(format_, model, example)
    for batch, length in [(1, 3), (5, 9)]:
        given = TRANSFORMERS["bert"].inputs(batch, length)
        want, got = model(**given), program(**given)
        torch.testing.assert_close(got["last_hidden_state"], want["last_hidden_state"], rtol=1e-3, atol=atol)


@pytest.mark.thorough
def test_a_claim_is_refuted_there_too_and_outside_of_the_block_torch_exports():
    model, example = TRANSFORMERS["bert"].model(), TRANSFORMERS["bert"].inputs(2, 7)
    length = Dim("length", min=1, max=2 * LONGEST)
    shapes = {name: {1: length} for name in example}
    with proving(), pytest.raises(ConstraintViolation) as refuted:
        exported("Dynamo", model, example, dynamic_shapes=shapes)
    assert f"max={LONGEST}" in str(refuted.value.report)
    with proving():
        program = torch.export.export(torch.nn.Linear(4, 2), (torch.randn(3, 4),))
    assert not hasattr(program, "report")


@pytest.mark.thorough
def test_a_decode_step_with_a_cache_is_proved():
    """The fault: the exporter's own attention is given `is_causal` as a condition on sizes, and raised TypeError."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=50, num_hidden_layers=1, max_position_embeddings=64, **sizes)
    ).eval()

    def step(past, batch=3):
        cache = model(torch.randint(0, 50, (batch, past)), use_cache=True).past_key_values
        mask = torch.ones(batch, past + 1, dtype=torch.long)
        return {"input_ids": torch.randint(0, 50, (batch, 1)), "attention_mask": mask, "past_key_values": cache}

    with torch.no_grad(), proving():
        program = exported("Dynamo", model, step(10))
    assert program.program.report.status == "proved"
    with torch.no_grad():
        for past, batch in [(4, 2), (20, 5)]:
            given = step(past, batch)
            want = model(**copy.deepcopy(given)).logits
            torch.testing.assert_close(program(**given)["logits"], want)
