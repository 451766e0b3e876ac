"""The models that benchmarks and tests share, each built at random in a tiny size; nothing is downloaded.

Every entry of MODELS is a `build()` like those of examples/: it takes nothing and returns what
torch.export takes, (model, args, kwargs, dynamic_shapes). The transformers models need the extra
`models`. This file never exports.

>>> model, args, kwargs, dynamic_shapes = MODELS["convnet"]()
>>> sorted(dynamic_shapes["images"])
[0, 2, 3]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils._pytree import tree_map

from examples import convnet, detection_head, transformer_encoder, windowed_attention
from examples.first_hour import decoder, detector, diffusion, pyramid, speech, tabular, towers, unet

Built = tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]

VOCABULARY = 128
LONGEST = 512


def of_text(model: nn.Module) -> Built:
    """A model of token ids and a padding mask, batch in [1, 64] and sequence in [1, 512]."""
    batch, sequence = Dim("batch", min=1, max=64), Dim("sequence", min=1, max=LONGEST)
    inputs = {"input_ids": torch.randint(3, VOCABULARY, (2, 9)), "attention_mask": _padding_mask()}
    return model.eval(), (), inputs, {name: {0: batch, 1: sequence} for name in inputs}


def _padding_mask() -> Tensor:
    """Two sentences, nine and six tokens long."""
    return (torch.arange(9) < torch.tensor([[9], [6]])).long()


def of_image(model: nn.Module, size: int, **dims: Any) -> Built:
    """A model of images [batch, 3, height, width]."""
    numbers = {"batch": 0, "height": 2, "width": 3}
    shapes = {"pixel_values": {numbers[name]: dim for name, dim in dims.items()}}
    return model.eval(), (), {"pixel_values": torch.randn(2, 3, size, size)}, shapes


def llama(layers: int = 4) -> Built:
    """A Llama decoder, with grouped heads and rotary positions."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LONGEST,
        use_cache=False,
    )
    return of_text(LlamaForCausalLM(config))


def gpt2() -> Built:
    """A GPT-2 decoder with learned positions."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=LONGEST,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return of_text(GPT2LMHeadModel(config))


def bert() -> Built:
    """A BERT encoder with its pooler."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LONGEST,
    )
    return of_text(BertModel(config))


def t5_encoder() -> Built:
    """A T5 encoder with relative positions in buckets."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    return of_text(T5EncoderModel(config))


def clip_text() -> Built:
    """The text half of CLIP: causal, pooled at the end-of-text token."""
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LONGEST,
        bos_token_id=VOCABULARY - 2,
        eos_token_id=VOCABULARY - 1,
    )
    return of_text(CLIPTextModel(config))


def vit() -> Built:
    """A vision transformer whose position table is interpolated to the image."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    dims = {name: Dim(name, min=32, max=256) for name in ("height", "width")}
    model, args, kwargs, shapes = of_image(ViTModel(config), 48, batch=Dim("batch", min=1, max=64), **dims)
    return model, args, kwargs | {"interpolate_pos_encoding": True}, shapes | {"interpolate_pos_encoding": None}


def swin() -> Built:
    """A two-stage Swin with shifted windows; not every height and width works, which is the point."""
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(image_size=64, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    dims = {name: Dim(name, min=8, max=1024) for name in ("height", "width")}
    return of_image(SwinModel(config), 64, batch=Dim("batch", min=1, max=64), **dims)


def swin_four_stages() -> Built:
    """A Swin of four stages, whose example is not square: 138 x 202."""
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(image_size=224, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8], window_size=4)
    dims = {name: Dim(name, min=64, max=1024) for name in ("height", "width")}
    model, args, _, shapes = of_image(SwinModel(config), 64, batch=Dim("batch", min=1, max=64), **dims)
    return model, args, {"pixel_values": torch.randn(2, 3, 138, 202)}, shapes


class Sixteen(nn.Module):
    """A layer for each of sixteen matrices, whose numbers of rows may all differ."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(16))

    def forward(self, matrices: list[Tensor]) -> list[Tensor]:
        """Return each matrix after its layer."""
        return [torch.softmax(layer(each), 0).relu() * each for layer, each in zip(self.layers, matrices, strict=True)]


def sixteen_matrices(dims: int) -> Built:
    """Sixteen matrices, with this many dynamic numbers of rows."""
    shapes = [{0: Dim(f"rows_{index}", min=1, max=4096)} if index < dims else None for index in range(16)]
    return Sixteen().eval(), ([torch.randn(5 + index, 8) for index in range(16)],), {}, {"matrices": shapes}


EXAMPLES: dict[str, Callable[[], Built]] = {
    "transformer_encoder": transformer_encoder.build,
    "convnet": convnet.build,
    "windowed_attention": windowed_attention.build,
    "detection_head": detection_head.build,
}
TRANSFORMERS: dict[str, Callable[[], Built]] = {
    "llama": llama,
    "gpt2": gpt2,
    "bert": bert,
    "t5_encoder": t5_encoder,
    "vit": vit,
    "clip_text": clip_text,
    "swin": swin,
}
LARGE: dict[str, Callable[[], Built]] = {
    "llama_32_layers": functools.partial(llama, 32),
    "swin_four_stages": swin_four_stages,
    "dims_1": functools.partial(sixteen_matrices, 1),
    "dims_16": functools.partial(sixteen_matrices, 16),
}
"""Models that show how the cost of an export grows."""
FIRST_HOUR: dict[str, Callable[[], Built]] = {
    each.__name__.rpartition(".")[2]: each.build
    for each in (decoder, detector, diffusion, pyramid, speech, tabular, towers, unet)
}
"""Models as new users bring them, declared as they first do it."""


def with_every_size_inferred(build: Callable[[], Built]) -> Callable[[], Built]:
    """The same model, where nothing is declared: each size of its arguments is `Dim.AUTO`."""

    def built() -> Built:
        model, args, kwargs, declared = build()
        shapes = tree_map(lambda each: dict.fromkeys(range(each.dim()), Dim.AUTO), args)
        return model, args, kwargs, dict(zip(declared, shapes, strict=True))

    return built


AUTO = {f"{name}.auto": with_every_size_inferred(build) for name, build in FIRST_HOUR.items()}
MODELS = EXAMPLES | TRANSFORMERS | LARGE | FIRST_HOUR | AUTO
