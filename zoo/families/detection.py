"""Detection: boxes and masks of images."""

from __future__ import annotations

from typing import Any

from zoo.entry import Entry, Range, floats, ones
from zoo.of_transformers import FIXED_IMAGE, IMAGE, small

BACKBONE = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 16, 16, 32],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
}
LAST: dict[str, Any] = BACKBONE | {"out_features": ["stage4"]}
DETR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_queries": 5,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "num_labels": 5,
    "backbone": None,
}
PADDED = {**IMAGE, "pixel_mask": ones("batch height width")}
RT_DETR: dict[str, Any] = {
    "backbone_config": {
        "model_type": "rt_detr_resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16, 16, 32],
        "depths": [1, 1, 1, 1],
        "out_features": ["stage2", "stage3", "stage4"],
        "layer_type": "basic",
    },
    "encoder_hidden_dim": 32,
    "encoder_in_channels": [16, 16, 32],
    "feat_strides": [8, 16, 32],
    "encoder_layers": 1,
    "encoder_ffn_dim": 32,
    "encoder_attention_heads": 2,
    "d_model": 32,
    "num_queries": 5,
    "decoder_layers": 1,
    "decoder_in_channels": [32, 32, 32],
    "decoder_ffn_dim": 32,
    "decoder_attention_heads": 2,
    "num_denoising": 0,
    "decoder_n_points": 2,
    "anchor_image_size": None,
    "num_labels": 5,
    "eval_size": None,
    "encode_proj_layers": [2],
}
SWIN: dict[str, Any] = {
    "model_type": "swin",
    "image_size": 64,
    "embed_dim": 8,
    "depths": [1, 1, 1, 1],
    "num_heads": [1, 1, 2, 2],
    "window_size": 4,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}
SIZES = {"height": Range(64, 512, 64), "width": Range(64, 512, 96)}
BLOCKS = {"rows": Range(1, 16, 2), "columns": Range(1, 16, 3)}
ENTRIES: dict[str, Entry] = {
    "conditional_detr": Entry(small("ConditionalDetrForObjectDetection", **DETR, backbone_config=LAST), PADDED, SIZES),
    "dab_detr": Entry(small("DabDetrForObjectDetection", **DETR, hidden_size=32, backbone_config=LAST), PADDED, SIZES),
    "deformable_detr": Entry(
        small(
            "DeformableDetrForObjectDetection",
            **(DETR | {"decoder_layers": 2}),
            backbone_config=BACKBONE,
            num_feature_levels=3,
        ),
        PADDED,
        SIZES,
    ),
    "detr": Entry(small("DetrForObjectDetection", **DETR, backbone_config=LAST), PADDED, SIZES),
    "detr_batches": Entry(small("DetrForObjectDetection", **DETR, backbone_config=LAST), FIXED_IMAGE),
    "rt_detr": Entry(
        small("RTDetrForObjectDetection", **RT_DETR), {"pixel_values": floats("batch 3 32*rows 32*columns")}, BLOCKS
    ),
    "rt_detr_batches": Entry(small("RTDetrForObjectDetection", **RT_DETR), FIXED_IMAGE),
    "rt_detr_v2_batches": Entry(small("RTDetrV2ForObjectDetection", **(RT_DETR | {"decoder_layers": 2})), FIXED_IMAGE),
    "table_transformer": Entry(
        small("TableTransformerForObjectDetection", **DETR, backbone_config=LAST), PADDED, SIZES
    ),
    "mask2former_batches": Entry(
        small(
            "Mask2FormerForUniversalSegmentation",
            backbone_config=SWIN,
            feature_size=32,
            mask_feature_size=32,
            hidden_dim=32,
            encoder_layers=1,
            decoder_layers=2,
            num_attention_heads=2,
            dim_feedforward=16,
            encoder_feedforward_dim=16,
            num_queries=5,
        ),
        FIXED_IMAGE,
    ),
    "maskformer_batches": Entry(
        small(
            "MaskFormerForInstanceSegmentation",
            backbone_config=SWIN,
            fpn_feature_size=32,
            mask_feature_size=32,
            decoder_config={"model_type": "detr", **DETR, "d_model": 16, "backbone_config": LAST},
        ),
        {"pixel_values": floats("batch 3 64 64")},
    ),
}
