"""The DynamicCache of transformers: prefill and decode of a tiny Llama, with dynamic past and sequence."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import export

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def llama():
    pytest.importorskip("transformers.integrations.executorch").register_dynamic_cache_export_support()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=32,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config).eval()


def cache_of(llama, columns):
    cache = transformers.DynamicCache(config=llama.config)
    if columns:
        with torch.no_grad():
            llama(input_ids=torch.arange(2 * columns).reshape(2, columns) % 32, past_key_values=cache)
    return cache


def inputs_of(llama, past, step):
    ids = torch.arange(2 * step).reshape(2, step) % 32
    return {"input_ids": ids, "past_key_values": cache_of(llama, past), "use_cache": True}


def agrees(llama, program, past, step):
    mine, theirs = inputs_of(llama, past, step), inputs_of(llama, past, step)
    with torch.no_grad():
        want, got = llama(**mine), program.module()(**theirs)
    torch.testing.assert_close(got.logits, want.logits)
    for used, grown in zip(got.past_key_values.layers, mine["past_key_values"].layers, strict=True):
        torch.testing.assert_close((used.keys, used.values), (grown.keys, grown.values))
        assert used.keys.shape[2] == past + step
    assert theirs["past_key_values"].get_seq_length() == past  # the program leaves its input as it is


NOTE = "the program leaves `past_key_values` as it is: use `output['past_key_values']`"


@pytest.mark.thorough
def test_a_decode_step_is_proved(llama):
    grown = {2: Dim("past", min=1, max=32)}
    shapes = {"input_ids": {1: Dim("step", min=1, max=8)}, "past_key_values": [[grown], [grown]], "use_cache": None}
    with torch.no_grad():
        program = export(llama, (), inputs_of(llama, 5, 3), dynamic_shapes=shapes)
    assert program.report.status == "proved"
    assert [note.endswith(NOTE) for note in program.report.notes] == [True]
    for past, step in ((1, 1), (4, 1), (7, 3), (32, 8)):
        agrees(llama, program, past, step)


@pytest.mark.thorough
def test_prefill_fills_an_empty_cache(llama):
    shapes = {"input_ids": {1: Dim("sequence", min=1, max=16)}, "past_key_values": [[], []], "use_cache": None}
    with torch.no_grad():
        program = export(llama, (), inputs_of(llama, 0, 4), dynamic_shapes=shapes)
    assert program.report.status == "proved"
    assert [note.endswith(NOTE) for note in program.report.notes] == [True]
    for step in (1, 2, 9):
        agrees(llama, program, 0, step)
