"""Recommenders and models of tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from zoo.entry import Entry, Range, floats, integers, shares

ROWS = {"batch": Range(1, 8192, 3)}


def of_deepctr(name: str, *, deep: bool = True, **sizes: Any) -> Entry:
    """A predictor of clicks of deepctr-torch: three fields and two numbers, side by side."""

    def build(_: bool) -> nn.Module:  # noqa: FBT001 - it has no published size
        from deepctr_torch import models
        from deepctr_torch.inputs import DenseFeat, SparseFeat

        fields: list[Any] = [SparseFeat(f"c{index}", 10, embedding_dim=4) for index in range(3)]
        fields += [DenseFeat(f"d{index}", 1) for index in range(2)]
        model = getattr(models, name)
        return model(fields, fields, **sizes) if deep else model(fields, **sizes)

    return Entry(build, {"X": shares("batch 5")}, ROWS, needs="deepctr_torch")


def _tabnet(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from pytorch_tabnet.tab_network import TabNet

    return TabNet(8, 3, n_d=8, n_a=8, n_steps=2, group_attention_matrix=torch.eye(8))


def _tab_transformer(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from tab_transformer_pytorch import TabTransformer

    return TabTransformer(
        categories=(5, 6, 7), num_continuous=4, dim=16, dim_out=1, depth=2, heads=2, mlp_act=nn.ReLU()
    )


def _ft_transformer(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from tab_transformer_pytorch import FTTransformer

    return FTTransformer(categories=(5, 6, 7), num_continuous=4, dim=16, dim_out=1, depth=2, heads=2)


def _tabm(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from tabm import TabM

    return TabM.make(n_num_features=4, cat_cardinalities=[5, 6], d_out=1, k=4, n_blocks=2, d_block=16)


TABLE = {"x_categ": integers("batch 3", 5), "x_numer": floats("batch 4")}
ENTRIES: dict[str, Entry] = {
    "ctr_autoint": of_deepctr("AutoInt", att_head_num=2, dnn_hidden_units=(8,)),
    "ctr_dcn": of_deepctr("DCN", dnn_hidden_units=(8,)),
    "ctr_dcn_mix": of_deepctr("DCNMix", dnn_hidden_units=(8,)),
    "ctr_deepfm": of_deepctr("DeepFM", dnn_hidden_units=(8,)),
    "ctr_fibinet": of_deepctr("FiBiNET", dnn_hidden_units=(8,)),
    "ctr_nfm": of_deepctr("NFM", dnn_hidden_units=(8,)),
    "ctr_onn": of_deepctr("ONN", dnn_hidden_units=(8,)),
    "ctr_pnn": of_deepctr("PNN", deep=False, dnn_hidden_units=(8,)),
    "ctr_wide_deep": of_deepctr("WDL", dnn_hidden_units=(8,)),
    "ctr_xdeepfm": of_deepctr("xDeepFM", dnn_hidden_units=(8,), cin_layer_size=(8,)),
    "ft_transformer": Entry(_ft_transformer, TABLE, ROWS, needs="tab_transformer_pytorch"),
    "tab_transformer": Entry(
        _tab_transformer,
        {"x_categ": integers("batch 3", 5), "x_cont": floats("batch 4")},
        ROWS,
        needs="tab_transformer_pytorch",
    ),
    "tabm": Entry(_tabm, {"x_num": floats("batch 4"), "x_cat": integers("batch 2", 5)}, ROWS, needs="tabm"),
    "tabnet": Entry(_tabnet, {"x": floats("batch 8")}, ROWS, needs="pytorch_tabnet"),
}
