"""Models of transformers with random weights and two layers, each with inputs of given sizes.

`TRANSFORMERS` has them by name: what makes the model, and what makes its keyword inputs of a batch and a length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

VOCABULARY, LONGEST, PIXELS = 64, 48, 32


class TinyTransformer(NamedTuple):
    """A model, and its inputs of a batch and a length; `lengths` is False if it has no length."""

    model: Callable[[], torch.nn.Module]
    inputs: Callable[[int, int], dict[str, torch.Tensor]]
    lengths: bool = True


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.arange(batch * length).reshape(batch, length) * 7 % VOCABULARY


def _text(batch: int, length: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[: batch // 2, length // 2 + 1 :] = 0
    return {"input_ids": _ids(batch, length), "attention_mask": mask}


def _both(batch: int, length: int) -> dict[str, torch.Tensor]:
    return _text(batch, length) | {"decoder_input_ids": _ids(batch, length // 2 + 1)}


def _image(batch: int, _: int) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.arange(batch * 3 * PIXELS**2).reshape(batch, 3, PIXELS, PIXELS).sin()}


_SIZES: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_DECODER = {**_SIZES, "num_key_value_heads": 2, "use_cache": False}


def _of(name: str, **config: Any) -> Callable[[], torch.nn.Module]:
    """Return what makes a model of the class of this name."""

    def make() -> torch.nn.Module:
        import transformers

        torch.manual_seed(0)
        model = getattr(transformers, name)
        return model(model.config_class(**config)).eval()

    return make


_WORDS = {"vocab_size": VOCABULARY, "max_position_embeddings": LONGEST}
TRANSFORMERS: Mapping[str, TinyTransformer] = {
    "bert": TinyTransformer(_of("BertModel", **_WORDS, **_SIZES), _text),
    "llama": TinyTransformer(_of("LlamaForCausalLM", **_WORDS, **_DECODER), _text),
    "qwen2": TinyTransformer(_of("Qwen2ForCausalLM", **_WORDS, **_DECODER), _text),
    "gpt2": TinyTransformer(
        _of(
            "GPT2LMHeadModel",
            vocab_size=VOCABULARY,
            n_positions=LONGEST,
            n_embd=32,
            n_layer=2,
            n_head=4,
            use_cache=False,
        ),
        _text,
    ),
    "t5": TinyTransformer(
        _of(
            "T5ForConditionalGeneration",
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            use_cache=False,
        ),
        _both,
    ),
    "vit": TinyTransformer(_of("ViTModel", image_size=PIXELS, patch_size=8, **_SIZES), _image, lengths=False),
}
