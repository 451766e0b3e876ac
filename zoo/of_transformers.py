"""Models of transformers with random weights, and inputs that many of them take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from zoo.entry import VOCABULARY, Entry, Made, Range, Sized, floats, mask, places, tokens

LONGEST = 512
WIDTH = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS = {"vocab_size": VOCABULARY, "max_position_embeddings": LONGEST}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
ENCODER = WIDTH | WORDS | {"pad_token_id": 0}
DECODER = WIDTH | WORDS | IDS | {"num_key_value_heads": 2, "head_dim": 8, "use_cache": False}
SEQ2SEQ: dict[str, Any] = {**WORDS, **IDS,
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "use_cache": False, "decoder_start_token_id": 1,
}  # fmt: skip
TEXT: Mapping[str, Sized] = {"input_ids": tokens(), "attention_mask": mask()}
IMAGE: Mapping[str, Sized] = {"pixel_values": floats("batch 3 height width")}
FIXED_IMAGE: Mapping[str, Sized] = {"pixel_values": floats("batch 3 64 64")}


def small(name: str, **sizes: Any) -> Callable[[bool], nn.Module]:
    """What builds the class of this name: with these sizes, or, at the published size, with the config's own.

    What is no size (`use_cache`) stays in both. `...` leaves a size as the config has it.
    """
    sizes = {each: value for each, value in sizes.items() if value is not ...}

    def build(published: bool) -> nn.Module:  # noqa: FBT001 - the one question
        import transformers

        model = getattr(transformers, name)
        kept = {each: sizes[each] for each in {"use_cache"} & sizes.keys()}
        return model(model.config_class(**(kept if published else sizes)))

    return build


def text(name: str, **sizes: Any) -> Entry:
    """An encoder of words."""
    return Entry(small(name, **(ENCODER | sizes)), TEXT)


def decoder(name: str, **sizes: Any) -> Entry:
    """A causal language model over whole sequences."""
    return Entry(small(name, **(DECODER | sizes)), TEXT)


def sequences(name: str, **sizes: Any) -> Entry:
    """An encoder and a decoder, each with a length of its own."""
    return Entry(small(name, **(SEQ2SEQ | sizes)), {**TEXT, "decoder_input_ids": tokens("batch target")})


def image(name: str, inputs: Mapping[str, Any] = IMAGE, **sizes: Any) -> Entry:
    """A model of images."""
    return Entry(small(name, **sizes), inputs)


def cached(name: str, layers: int = 2, heads: int = 2, **sizes: Any) -> Entry:
    """A causal language model that goes on from a dynamic cache, which it returns longer."""
    made = Made(
        [floats(f"batch {heads} past 8") for _ in range(2 * layers)], _cache, lambda dims: [dims[::2], dims[1::2]]
    )
    inputs = {"input_ids": tokens("batch step"), "past_key_values": made, "use_cache": True}
    return Entry(small(name, **(DECODER | {"use_cache": True} | sizes)), inputs, {"past": Range(1, 400, 5)})


def _cache(parts: Any) -> Any:
    """A cache of keys and values, layer by layer, which torch.export can flatten."""
    from transformers import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    return DynamicCache(list(zip(parts[::2], parts[1::2], strict=True)))


def static(name: str, **sizes: Any) -> Entry:
    """A causal language model that writes into a static cache, at the place that it is given."""

    def build(published: bool) -> nn.Module:  # noqa: FBT001 - as of `small`
        from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

        model: Any = small(name, **(DECODER | {"use_cache": True} | sizes))(published).eval()
        model.generation_config.cache_implementation = "static"
        return TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=LONGEST)

    return Entry(build, {"input_ids": tokens("1 step"), "cache_position": places("step")})
