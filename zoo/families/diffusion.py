"""Diffusion: the networks of diffusers that remove noise, and its autoencoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from zoo.entry import Entry, Range, Sized, floats, integers, places, shares

LATENT = {"rows": Range(1, 8, 2), "columns": Range(1, 8, 3), "length": Range(1, 256, 9), "seconds": Range(1, 4, 2)}
NOISY = floats("batch 4 8*rows 8*columns")
STEP = integers("batch", 1000)
WORDS = floats("batch length 16")
BLOCKS: dict[str, Any] = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}


def of_diffusers(name: str, inputs: Mapping[str, Any], **sizes: Any) -> Entry:
    """A model of diffusers; its published size is that of its configuration."""

    def build(published: bool) -> nn.Module:  # noqa: FBT001 - the one question
        import diffusers

        return getattr(diffusers, name)(**({} if published else sizes))

    return Entry(build, inputs, LATENT, needs="diffusers")


def vae(name: str, sample: Sized, **sizes: Any) -> Entry:
    """An autoencoder, there and back."""
    return of_diffusers(name, {"sample": sample}, **sizes)


IMAGES = floats("batch 3 16*rows 16*columns")
DOWN_UP = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
ATTEND = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}
TEXT_STEP = {"encoder_hidden_states": WORDS, "timestep": STEP}
SMALL: dict[str, Any] = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 1}
ENTRIES: dict[str, Entry] = {
    "asymmetric_vae": vae(
        "AsymmetricAutoencoderKL",
        IMAGES,
        **DOWN_UP,
        down_block_out_channels=(8, 16),
        up_block_out_channels=(8, 16),
        layers_per_down_block=1,
        layers_per_up_block=1,
        norm_num_groups=4,
        latent_channels=4,
    ),
    "auraflow": of_diffusers(
        "AuraFlowTransformer2DModel",
        {"hidden_states": floats("batch 4 16 16"), **TEXT_STEP},
        sample_size=16,
        patch_size=2,
        num_mmdit_layers=1,
        num_single_dit_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pos_embed_max_size=64,
    ),
    "autoencoder_dc": vae(
        "AutoencoderDC",
        IMAGES,
        latent_channels=4,
        encoder_block_out_channels=(8, 16),
        decoder_block_out_channels=(8, 16),
        encoder_layers_per_block=(1, 1),
        decoder_layers_per_block=(1, 1),
        encoder_block_types="ResBlock",
        decoder_block_types="ResBlock",
        encoder_qkv_multiscales=((), ()),
        decoder_qkv_multiscales=((), ()),
        attention_head_dim=8,
    ),
    "autoencoder_kl": vae("AutoencoderKL", IMAGES, **DOWN_UP, **BLOCKS),
    "autoencoder_tiny": vae(
        "AutoencoderTiny",
        IMAGES,
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    ),
    "cogvideox": of_diffusers(
        "CogVideoXTransformer3DModel",
        {"hidden_states": floats("batch 3 4 16 16"), "timestep": STEP, "encoder_hidden_states": floats("batch 9 16")},
        **SMALL,
        in_channels=4,
        out_channels=4,
        time_embed_dim=8,
        text_embed_dim=16,
        sample_width=16,
        sample_height=16,
        sample_frames=9,
        max_text_seq_length=9,
    ),
    "controlnet": of_diffusers(
        "ControlNetModel",
        {"sample": NOISY, **TEXT_STEP, "controlnet_cond": floats("batch 3 64*rows 64*columns")},
        **(BLOCKS | {"down_block_types": ATTEND["down_block_types"]}),
        cross_attention_dim=16,
        attention_head_dim=2,
        conditioning_embedding_out_channels=(8, 8, 8, 16),
    ),
    "dit": of_diffusers(
        "DiTTransformer2DModel",
        {"hidden_states": floats("batch 4 16 16"), "timestep": STEP, "class_labels": integers("batch", 10)},
        **SMALL,
        sample_size=16,
        in_channels=4,
        out_channels=8,
        num_embeds_ada_norm=10,
        norm_num_groups=4,
    ),
    "flux": of_diffusers(
        "FluxTransformer2DModel",
        {
            "hidden_states": floats("batch length2 16"),
            "encoder_hidden_states": WORDS,
            "pooled_projections": floats("batch 16"),
            "timestep": shares("batch"),
            "img_ids": places("length2 3"),
            "txt_ids": places("length 3"),
        },
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        guidance_embeds=False,
        axes_dims_rope=(4, 4, 8),
    ),
    "latte": of_diffusers(
        "LatteTransformer3DModel",
        {"hidden_states": floats("batch 4 3 16 16"), **TEXT_STEP},
        **SMALL,
        in_channels=4,
        out_channels=8,
        sample_size=16,
        patch_size=2,
        caption_channels=16,
        video_length=3,
        cross_attention_dim=16,
        norm_type="ada_norm_single",
        activation_fn="gelu-approximate",
        norm_elementwise_affine=False,
        norm_eps=1e-6,
    ),
    "pixart": of_diffusers(
        "PixArtTransformer2DModel",
        {
            "hidden_states": floats("batch 4 16 16"),
            **TEXT_STEP,
            "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        },
        **SMALL,
        sample_size=16,
        in_channels=4,
        out_channels=8,
        cross_attention_dim=16,
        caption_channels=16,
        use_additional_conditions=False,
    ),
    "prior": of_diffusers(
        "PriorTransformer",
        {
            "hidden_states": floats("batch 16"),
            "timestep": STEP,
            "proj_embedding": floats("batch 16"),
            "encoder_hidden_states": floats("batch 7 16"),
        },
        **SMALL,
        embedding_dim=16,
        num_embeddings=7,
        additional_embeddings=4,
    ),
    "sana": of_diffusers(
        "SanaTransformer2DModel",
        {"hidden_states": floats("batch 4 rows columns"), **TEXT_STEP},
        in_channels=4,
        out_channels=4,
        num_layers=1,
        num_attention_heads=2,
        attention_head_dim=8,
        caption_channels=16,
        num_cross_attention_heads=2,
        cross_attention_head_dim=8,
        cross_attention_dim=16,
        sample_size=16,
    ),
    "sd3": of_diffusers(
        "SD3Transformer2DModel",
        {"hidden_states": floats("batch 4 2*rows 2*columns"), **TEXT_STEP, "pooled_projections": floats("batch 16")},
        **SMALL,
        sample_size=16,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pooled_projection_dim=16,
        pos_embed_max_size=32,
    ),
    "stable_audio": of_diffusers(
        "StableAudioDiTModel",
        {
            "hidden_states": floats("batch 4 length2"),
            "timestep": shares("batch"),
            "encoder_hidden_states": WORDS,
            "global_hidden_states": floats("batch 1 16"),
            "rotary_embedding": None,
        },
        sample_size=32,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        num_key_value_attention_heads=1,
        cross_attention_dim=16,
        time_proj_dim=8,
        global_states_input_dim=16,
        cross_attention_input_dim=16,
    ),
    "unet": of_diffusers(
        "UNet2DModel",
        {"sample": NOISY, "timestep": STEP},
        **BLOCKS,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    ),
    "unet_3d": of_diffusers(
        "UNet3DConditionModel",
        {"sample": floats("batch 4 seconds 8*rows 8*columns"), **TEXT_STEP},
        **BLOCKS,
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        cross_attention_dim=16,
        attention_head_dim=4,
    ),
    "unet_condition": of_diffusers(
        "UNet2DConditionModel",
        {"sample": NOISY, **TEXT_STEP},
        **BLOCKS,
        **ATTEND,
        cross_attention_dim=16,
        attention_head_dim=2,
    ),
    "uvit": of_diffusers(
        "UVit2DModel",
        {
            "input_ids": integers("batch 16 16", 16),
            "encoder_hidden_states": WORDS,
            "pooled_text_emb": floats("batch 16"),
            "micro_conds": shares("batch 5"),
        },
        hidden_size=16,
        cond_embed_dim=16,
        micro_cond_encode_dim=4,
        micro_cond_embed_dim=20,
        encoder_hidden_size=16,
        vocab_size=16,
        codebook_size=16,
        in_channels=16,
        block_out_channels=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        block_num_heads=2,
        num_res_blocks=1,
        sample_size=16,
    ),
    "vq_model": vae("VQModel", IMAGES, **DOWN_UP, **BLOCKS, latent_channels=4, num_vq_embeddings=16),
    "wan": of_diffusers(
        "WanTransformer3DModel",
        {"hidden_states": floats("batch 4 seconds 2*rows 2*columns"), **TEXT_STEP},
        in_channels=4,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=12,
        text_dim=16,
        freq_dim=8,
        ffn_dim=16,
        num_layers=1,
        rope_max_seq_len=64,
    ),
}
