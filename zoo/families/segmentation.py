"""Segmentation and restoration: segmentation-models-pytorch and MONAI."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from zoo.entry import Entry, Range, Sized, floats

BLOCKS = {"rows": Range(1, 8, 2), "columns": Range(1, 8, 3)}


def of_smp(name: str, **sizes: Any) -> Entry:
    """A model of segmentation-models-pytorch; heights and widths are multiples of 32."""

    def build(_: bool) -> nn.Module:  # noqa: FBT001 - small at its published size
        import segmentation_models_pytorch as smp

        return getattr(smp, name)("resnet18", encoder_weights=None, classes=2, **sizes)

    return Entry(build, {"x": floats("batch 3 32*rows 32*columns")}, BLOCKS, needs="segmentation_models_pytorch")


def of_monai(name: str, x: Sized, argument: str = "x", /, **sizes: Any) -> Entry:
    """A network of MONAI."""

    def build(_: bool) -> nn.Module:  # noqa: FBT001 - as above
        from monai.networks import nets

        return getattr(nets, name)(**sizes)

    dims = {"rows": Range(1, 8, 2), "columns": Range(1, 8, 3), "depth": Range(1, 4, 2)}
    return Entry(build, {argument: x}, dims, needs="monai")


ONE = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
LEVELS = {"channels": (4, 8, 16), "strides": (2, 2)}
FLAT = floats("batch 1 32*rows 32*columns")
ENTRIES: dict[str, Entry] = {
    "monai_attention_unet": of_monai("AttentionUnet", FLAT, **ONE, **LEVELS),
    "monai_basic_unet": of_monai("BasicUNet", FLAT, **ONE, features=(4, 4, 8, 8, 8, 4)),
    "monai_dynunet": of_monai(
        "DynUNet",
        FLAT,
        **ONE,
        kernel_size=[3, 3, 3],
        strides=[1, 2, 2],
        upsample_kernel_size=[2, 2],
        filters=[4, 8, 16],
    ),
    "monai_segresnet": of_monai("SegResNet", FLAT, **ONE, init_filters=8),
    "monai_swin_unetr_batches": of_monai(
        "SwinUNETR", floats("batch 1 64 64"), "x_in", **ONE, feature_size=12, depths=(1, 1, 1, 1)
    ),
    "monai_unet": of_monai("UNet", FLAT, **ONE, **LEVELS, num_res_units=1),
    "monai_unet_3d": of_monai(
        "UNet", floats("batch 1 16*depth 16*rows 16*columns"), **(ONE | {"spatial_dims": 3}), **LEVELS
    ),
    "monai_unetr": of_monai(
        "UNETR",
        floats("batch 1 32 32"),
        "x_in",
        **ONE,
        img_size=32,
        feature_size=4,
        hidden_size=24,
        mlp_dim=32,
        num_heads=2,
    ),
    "monai_vnet": of_monai("VNet", FLAT, **ONE),
    "smp_deeplab_v3": of_smp("DeepLabV3"),
    "smp_deeplab_v3_plus": of_smp("DeepLabV3Plus"),
    "smp_fpn": of_smp("FPN"),
    "smp_linknet": of_smp("Linknet"),
    "smp_manet": of_smp("MAnet"),
    "smp_pan": replace(of_smp("PAN"), dims={"rows": Range(4, 8, 4), "columns": Range(4, 8, 5)}),
    "smp_pspnet": of_smp("PSPNet"),
    "smp_segformer": of_smp("Segformer"),
    "smp_unet": of_smp("Unet"),
    "smp_unet_plus_plus": of_smp("UnetPlusPlus"),
    "smp_upernet": of_smp("UPerNet"),
}
