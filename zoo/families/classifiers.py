"""Classifiers of timm, torchvision and vit-pytorch.

Images are of any size where the architecture has no table of positions.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from torch import nn

from zoo.entry import Entry, Range, floats

ANY = floats("batch 3 height width")


def of_timm(name: str, size: int = 0, **sizes: Any) -> Entry:
    """A model of timm, by its name there; with a size, for images of that size alone."""

    def build(published: bool) -> nn.Module:  # noqa: FBT001 - the one question
        import timm

        given = {"num_classes": 10} | ({"img_size": size} if size and "img_size" not in sizes else {}) | sizes
        return timm.create_model(name, pretrained=False, **({} if published else given))

    return Entry(build, {"x": floats(f"batch 3 {size} {size}") if size else ANY}, needs="timm")


def of_torchvision(name: str, **sizes: Any) -> Entry:
    """A model of torchvision, by its name there; it is small enough at its published size."""

    def build(_: bool) -> nn.Module:  # noqa: FBT001 - as above
        import torchvision

        return torchvision.models.get_model(name, weights=None, **sizes)

    return Entry(build, {"x": ANY}, needs="torchvision")


def of_vit_pytorch(module: str, name: str, argument: str = "img", **sizes: Any) -> Entry:
    """A vision transformer of vit-pytorch, for images of one size."""
    given = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}

    def build(_: bool) -> nn.Module:  # noqa: FBT001 - as above
        made = given | sizes
        model = getattr(importlib.import_module(f"vit_pytorch.{module}"), name)
        return model(**{each: value for each, value in made.items() if value is not ...})

    return Entry(build, {argument: floats("batch 3 32 32")}, needs="vit_pytorch")


TIMM: dict[str, Entry] = {
    "timm_coatnet": of_timm("coatnet_nano_rw_224", 224, depths=[1, 1, 1, 1], embed_dim=[32, 32, 64, 64], stem_width=8),
    "timm_convmixer": of_timm("convmixer_768_32"),
    "timm_convnext": of_timm("convnext_atto", depths=[1, 1, 1, 1], dims=[8, 16, 16, 32]),
    "timm_cspnet": of_timm("cspresnet50"),
    "timm_densenet": of_timm("densenet121", block_config=[1, 1, 1, 1], growth_rate=8),
    "timm_dla": of_timm("dla46_c"),
    "timm_dpn": of_timm("dpn48b"),
    "timm_edgenext": of_timm("edgenext_xx_small", depths=[1, 1, 2, 1], dims=[8, 16, 24, 32]),
    "timm_efficientformer": of_timm("efficientformer_l1", 224, embed_dims=[8, 16, 24, 32], depths=[1, 1, 1, 2]),
    "timm_efficientnet": of_timm("efficientnet_b0"),
    "timm_efficientvit": of_timm("efficientvit_b0"),
    "timm_eva": of_timm("eva02_tiny_patch14_224", 28, depth=2, embed_dim=32, num_heads=2, ref_feat_shape=(2, 2)),
    "timm_fastvit": of_timm("fastvit_t8"),
    "timm_gcvit": of_timm("gcvit_xxtiny", 224),
    "timm_ghostnet": of_timm("ghostnet_100"),
    "timm_hrnet": of_timm("hrnet_w18_small"),
    "timm_inception_v3": replace(
        of_timm("inception_v3"), dims={"height": Range(75, 512, 80), "width": Range(75, 512, 96)}
    ),
    "timm_maxvit": of_timm("maxvit_pico_rw_256", 256, embed_dim=[32, 32, 64, 64], depths=[1, 1, 1, 1], stem_width=8),
    "timm_mixer": of_timm("mixer_s32_224", 224),
    "timm_mobilenet_v3": of_timm("mobilenetv3_small_050"),
    "timm_mobilenet_v4": of_timm("mobilenetv4_conv_small_035"),
    "timm_mvit": of_timm("mvitv2_tiny", 224),
    "timm_nfnet": of_timm("nf_regnet_b0"),
    "timm_pit": of_timm("pit_ti_224", 224, base_dims=[8, 8, 8], depth=[1, 1, 1]),
    "timm_poolformer": of_timm("poolformer_s12"),
    "timm_regnet": of_timm("regnety_002"),
    "timm_repvgg": of_timm("repvgg_a0"),
    "timm_repvit": of_timm("repvit_m0_9", embed_dim=[8, 16, 24, 32], depth=[1, 1, 1, 1]),
    "timm_res2net": of_timm("res2net50_14w_8s"),
    "timm_resmlp": of_timm("resmlp_12_224", 224),
    "timm_resnest": of_timm("resnest14d"),
    "timm_resnet": of_timm("resnet18"),
    "timm_resnext": of_timm("resnext26ts"),
    "timm_rexnet": of_timm("rexnet_100", width_mult=0.5),
    "timm_seresnet": of_timm("seresnet18"),
    "timm_swin_v2": of_timm(
        "swinv2_tiny_window8_256", 64, depths=[1, 1], embed_dim=16, num_heads=[1, 2], window_size=4
    ),
    "timm_tnt": of_timm(
        "tnt_s_patch16_224", 64, depth=2, embed_dim=32, inner_dim=8, num_heads_inner=2, num_heads_outer=2
    ),
    "timm_twins": of_timm(
        "twins_svt_small", 64, depths=[1, 1, 1, 1], embed_dims=[8, 16, 16, 32], num_heads=[1, 2, 2, 4]
    ),
    "timm_vgg": of_timm("vgg11"),
    "timm_visformer": of_timm("visformer_tiny", 64, embed_dim=32, init_channels=8, depth=[1, 1, 1], num_heads=2),
    "timm_vit_any": Entry(
        of_timm(
            "vit_tiny_patch16_224", 64, dynamic_img_size=True, dynamic_img_pad=True, depth=2, embed_dim=32, num_heads=2
        ).model,
        {"x": ANY},
        needs="timm",
    ),
    "timm_volo": of_timm("volo_d1_224", 224),
    "timm_xception": of_timm("xception41"),
    "timm_xcit": of_timm("xcit_nano_12_p16_224", depth=2, embed_dim=32, num_heads=2),
}
TORCHVISION: dict[str, Entry] = {
    "tv_alexnet": of_torchvision("alexnet"),
    "tv_googlenet": of_torchvision("googlenet", init_weights=False),
    "tv_mnasnet": of_torchvision("mnasnet0_5"),
    "tv_mobilenet_v3": of_torchvision("mobilenet_v3_small"),
    "tv_resnet18": of_torchvision("resnet18"),
    "tv_shufflenet": of_torchvision("shufflenet_v2_x0_5"),
    "tv_squeezenet": of_torchvision("squeezenet1_1"),
    "tv_lraspp": of_torchvision("lraspp_mobilenet_v3_large", weights_backbone=None),
}
TORCHVISION["tv_lraspp"] = Entry(TORCHVISION["tv_lraspp"].model, {"input": ANY}, needs="torchvision")
VIT_PYTORCH: dict[str, Entry] = {
    "vit_pytorch_cait": of_vit_pytorch("cait", "CaiT", cls_depth=1),
    "vit_pytorch_cct": of_vit_pytorch(
        "cct",
        "CCT",
        "x",
        image_size=...,
        patch_size=...,
        dim=...,
        depth=...,
        heads=...,
        mlp_dim=...,
        img_size=32,
        embedding_dim=32,
        n_conv_layers=1,
        num_layers=2,
        num_heads=2,
        mlp_ratio=2.0,
        positional_embedding="learnable",
        kernel_size=7,
    ),
    "vit_pytorch_cross": of_vit_pytorch(
        "cross_vit",
        "CrossViT",
        patch_size=...,
        dim=...,
        depth=1,
        heads=...,
        mlp_dim=...,
        sm_dim=16,
        lg_dim=32,
        sm_patch_size=8,
        lg_patch_size=16,
    ),
    "vit_pytorch_deep": of_vit_pytorch("deepvit", "DeepViT"),
    "vit_pytorch_parallel": of_vit_pytorch("parallel_vit", "ViT", num_parallel_branches=2),
    "vit_pytorch_pit": of_vit_pytorch("pit", "PiT", depth=(1, 1)),
    "vit_pytorch_simple": of_vit_pytorch("simple_vit", "SimpleViT"),
    "vit_pytorch_small_data": of_vit_pytorch("vit_for_small_dataset", "ViT"),
    "vit_pytorch_t2t": of_vit_pytorch("t2t", "T2TViT", patch_size=..., t2t_layers=((7, 4), (3, 2))),
    "vit_pytorch_vit": of_vit_pytorch("vit", "ViT"),
    "vit_pytorch_xcit": of_vit_pytorch("xcit", "XCiT", cls_depth=1),
}
ENTRIES = TIMM | TORCHVISION | VIT_PYTORCH
