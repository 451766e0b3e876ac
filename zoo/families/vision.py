"""Models of images in transformers: classification, dense prediction, and what other models begin with."""

from __future__ import annotations

from typing import Any

from zoo.entry import Entry, floats
from zoo.of_transformers import FIXED_IMAGE, WIDTH, image

PATCHES = {"pixel_values": floats("batch 3 8*rows 8*columns")}
VIT: dict[str, Any] = WIDTH | {"image_size": 64, "patch_size": 8}
RESIZED: dict[str, Any] = {**PATCHES, "interpolate_pos_encoding": True}
STAGES: dict[str, Any] = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32]}
SWIN: dict[str, Any] = {"image_size": 64, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}


def of_patches(name: str, inputs: Any = None, **sizes: Any) -> Entry:
    """A vision transformer; heights and widths are multiples of a patch."""
    return image(name, inputs or RESIZED, **(VIT | sizes))


def of_one_size(name: str, **sizes: Any) -> Entry:
    """A model whose table of positions has one size of images."""
    return image(name, FIXED_IMAGE, **(VIT | sizes))


ENTRIES: dict[str, Entry] = {
    "audio_spectrogram": Entry(
        of_one_size("ASTModel", num_mel_bins=32, max_length=64).model, {"input_values": floats("batch 64 32")}
    ),
    "beit": of_one_size("BeitModel"),
    "bit": image("BitModel", embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_groups=4),
    "convnext": image("ConvNextModel", **STAGES),
    "convnext_v2": image("ConvNextV2Model", **STAGES),
    "data2vec_vision": of_one_size("Data2VecVisionModel"),
    "deit": of_patches("DeiTModel"),
    "dinov2": of_patches("Dinov2Model", PATCHES),
    "dinov2_registers": of_patches("Dinov2WithRegistersModel", PATCHES),
    "dinov3_convnext": image("DINOv3ConvNextModel", **STAGES),
    "dinov3_vit": of_patches("DINOv3ViTModel", PATCHES),
    "dpt": image(
        "DPTForDepthEstimation",
        FIXED_IMAGE,
        **(VIT | {"num_hidden_layers": 4}),
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
    ),
    "efficientnet": image("EfficientNetModel", width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320),
    "focalnet": image("FocalNetModel", embed_dim=8, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3]),
    "hgnet": image(
        "HGNetV2Backbone",
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, 16, 32, 64],
        stage_mid_channels=[8, 8, 16, 16],
        stage_out_channels=[16, 32, 64, 64],
        hidden_sizes=[16, 32, 64, 64],
    ),
    "hiera": image(
        "HieraModel",
        FIXED_IMAGE,
        image_size=[64, 64],
        embed_dim=16,
        depths=[1, 1, 1],
        num_query_pool=2,
        num_heads=[1, 2, 4],
        query_stride=[2, 2],
        masked_unit_size=[4, 4],
    ),
    "ijepa": of_patches("IJepaModel"),
    "levit": image(
        "LevitModel",
        FIXED_IMAGE,
        image_size=64,
        hidden_sizes=[16, 32, 48],
        depths=[1, 1, 1],
        num_attention_heads=[2, 2, 2],
        key_dim=[8, 8, 8],
    ),
    "mobilenet_v1": image("MobileNetV1Model", depth_multiplier=0.25),
    "mobilenet_v2": image("MobileNetV2Model", depth_multiplier=0.25),
    "mobilevit": image("MobileViTModel", hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64]),
    "mobilevit_v2": image("MobileViTV2Model", width_multiplier=0.25),
    "poolformer": image("PoolFormerModel", **STAGES),
    "pvt": image("PvtModel", FIXED_IMAGE, image_size=64, **STAGES, num_attention_heads=[1, 2, 2, 4]),
    "pvt_v2": image("PvtV2Model", **STAGES, num_attention_heads=[1, 2, 2, 4]),
    "regnet": image("RegNetModel", embedding_size=8, groups_width=4, **STAGES),
    "resnet": image("ResNetModel", embedding_size=8, **STAGES),
    "segformer": image(
        "SegformerForSemanticSegmentation",
        **STAGES,
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16,
        num_labels=5,
    ),
    "siglip_vision": of_patches("SiglipVisionModel"),
    "superpoint": image(
        "SuperPointForKeypointDetection",
        {"pixel_values": floats("batch 3 8*rows 8*columns")},
        encoder_hidden_sizes=[8, 8, 16, 16],
        decoder_hidden_size=16,
        descriptor_decoder_dim=16,
    ),
    "swiftformer": image("SwiftFormerModel", depths=[1, 1, 1, 1], embed_dims=[8, 16, 24, 32]),
    "swin": image("SwinModel", **SWIN),
    "swin_batches": image("SwinModel", FIXED_IMAGE, **SWIN),
    "swin2sr": image(
        "Swin2SRForImageSuperResolution",
        image_size=64,
        embed_dim=16,
        depths=[2],
        num_heads=[2],
        window_size=4,
        mlp_ratio=2.0,
    ),
    "swin_v2": image("Swinv2Model", **SWIN),
    "timesformer": Entry(
        of_one_size("TimesformerModel", num_frames=4).model, {"pixel_values": floats("batch 4 3 64 64")}
    ),
    "upernet": image(
        "UperNetForSemanticSegmentation", use_auxiliary_head=False, hidden_size=8, num_labels=5, pool_scales=[1, 2]
    ),
    "videomae": Entry(of_one_size("VideoMAEModel", num_frames=4).model, {"pixel_values": floats("batch 4 3 64 64")}),
    "vit": of_patches("ViTModel"),
    "vit_mae": of_patches("ViTMAEModel", {"pixel_values": floats("batch 3 64 64"), "noise": floats("batch 64")}),
    "vit_msn": of_patches("ViTMSNModel"),
    "vivit": Entry(
        of_one_size("VivitModel", num_frames=4, tubelet_size=[2, 8, 8]).model,
        {"pixel_values": floats("batch 4 3 64 64")},
    ),
    "yolos": of_one_size("YolosForObjectDetection", image_size=[64, 64], num_detection_tokens=5),
}
