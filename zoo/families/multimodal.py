"""Models of images and text together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo.entry import Entry, Range, Sized, floats, mask, tokens
from zoo.of_transformers import DECODER, ENCODER, TEXT, WIDTH, small

VISION: dict[str, Any] = WIDTH | {"image_size": 32, "patch_size": 8, "projection_dim": 16}
WORDS: dict[str, Any] = ENCODER | {"projection_dim": 16, "bos_token_id": 1, "eos_token_id": 2}
PAIRS = {
    "input_ids": tokens("texts length"),
    "attention_mask": mask("texts length"),
    "pixel_values": floats("images 3 32 32"),
}
COUNTS = {"texts": Range(1, 64, 3), "images": Range(1, 64, 2)}


def pairs(name: str, **sizes: Any) -> Entry:
    """A tower for texts and one for images, each with a batch of its own."""
    return Entry(small(name, text_config=WORDS, vision_config=VISION, projection_dim=16, **sizes), PAIRS, COUNTS)


def answers(name: str, text: str, vision: str, image_tokens: int, **sizes: Any) -> Entry:
    """A language model that reads images: as many tokens of each text stand for its image."""
    return Entry(_joined(name, text, vision, **sizes), _with_image(image_tokens))


def _joined(name: str, text: str, vision: str, **sizes: Any) -> Callable[[bool], nn.Module]:
    def build(published: bool) -> nn.Module:  # noqa: FBT001 - as of `small`
        import transformers

        parts = {
            "text_config": getattr(transformers, text)(**({} if published else DECODER)),
            "vision_config": getattr(transformers, vision)(**({} if published else VISION)),
        }
        model = getattr(transformers, name)
        return model(model.config_class(**parts, **sizes))

    return build


def _with_image(count: int) -> dict[str, Any]:
    def filled(given: Any) -> torch.Tensor:
        ids = torch.randint(3, 60, tuple(given))
        ids[:, :count] = IMAGE_TOKEN
        return ids

    ids = Sized(f"batch length+{count}", filled)
    return {"input_ids": ids, "attention_mask": mask(f"batch length+{count}"), "pixel_values": floats("batch 3 32 32")}


IMAGE_TOKEN = 61
ENTRIES: dict[str, Entry] = {
    "align_text": Entry(small("AlignTextModel", **ENCODER), TEXT),
    "altclip": Entry(
        small(
            "AltCLIPModel",
            text_config=WORDS | {"max_position_embeddings": 514},
            vision_config=VISION,
            projection_dim=16,
        ),
        PAIRS,
        COUNTS,
    ),
    "blip_text_image": pairs("BlipModel"),
    "chinese_clip": pairs("ChineseCLIPModel"),
    "clip": pairs("CLIPModel"),
    "clip_text": Entry(small("CLIPTextModel", **WORDS), TEXT),
    "clipseg": pairs("CLIPSegModel"),
    "flava_text": Entry(small("FlavaTextModel", **ENCODER), TEXT),
    "git": Entry(
        small("GitModel", **(ENCODER | {"use_cache": False}), vision_config=VISION),
        {**TEXT, "pixel_values": floats("batch 3 32 32")},
    ),
    "groupvit_text": Entry(small("GroupViTTextModel", **WORDS), TEXT),
    "llava": answers(
        "LlavaForConditionalGeneration",
        "LlamaConfig",
        "CLIPVisionConfig",
        16,
        image_token_index=IMAGE_TOKEN,
        image_token_id=IMAGE_TOKEN,
        image_seq_length=16,
    ),
    "owlvit_text": Entry(small("OwlViTTextModel", **WORDS), TEXT),
    "paligemma": answers(
        "PaliGemmaForConditionalGeneration",
        "GemmaConfig",
        "SiglipVisionConfig",
        16,
        image_token_index=IMAGE_TOKEN,
        image_token_id=IMAGE_TOKEN,
        projection_dim=32,
        hidden_size=32,
    ),
    "siglip": pairs("SiglipModel"),
    "vilt": Entry(
        small("ViltModel", **(ENCODER | VISION)),
        {**TEXT, "pixel_values": floats("batch 3 32 32")},
    ),
    "vipllava": answers(
        "VipLlavaForConditionalGeneration",
        "LlamaConfig",
        "CLIPVisionConfig",
        16,
        image_token_index=IMAGE_TOKEN,
        image_token_id=IMAGE_TOKEN,
        vision_feature_layers=[-1, -2],
    ),
    "x_clip_text": Entry(small("XCLIPTextModel", **WORDS), TEXT),
}
