"""Models that are put together: x-transformers, local attention, Conformer, Mamba in plain torch, Demucs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from zoo.entry import Entry, Range, floats, mask, tokens


def of_x_transformers(x: Any = None, **attention: Any) -> Entry:
    """A decoder of x-transformers."""

    def build(_: bool) -> nn.Module:  # noqa: FBT001 - it has no published size
        import x_transformers as xt

        layers = xt.Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **attention)
        return xt.TransformerWrapper(num_tokens=64, max_seq_len=512, attn_layers=layers)

    return Entry(build, {"x": x or tokens()}, needs="x_transformers")


def _encoder(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    import x_transformers as xt

    layers = xt.Encoder(dim=32, depth=2, heads=2, attn_dim_head=16)
    return xt.TransformerWrapper(num_tokens=64, max_seq_len=512, attn_layers=layers)


def _continuous(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    import x_transformers as xt

    layers = xt.Encoder(dim=32, depth=2, heads=2, attn_dim_head=16)
    return xt.ContinuousTransformerWrapper(dim_in=8, dim_out=4, max_seq_len=512, attn_layers=layers)


def _conformer(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from conformer import Conformer

    return Conformer(dim=32, depth=2, dim_head=8, heads=4, ff_mult=2, conv_expansion_factor=2, conv_kernel_size=7)


def _mamba(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=16, n_layers=1, pscan=False))


def _local(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from local_attention import LocalTransformer

    return LocalTransformer(
        num_tokens=64, dim=32, depth=2, max_seq_len=512, causal=True, local_attn_window_size=8, dim_head=8
    )


def _linformer(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from linformer import Linformer

    return Linformer(dim=32, seq_len=64, depth=2, heads=2, k=16)


def _hdemucs(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from demucs.hdemucs import HDemucs

    return HDemucs(sources=["a", "b"], audio_channels=1, channels=4)


def _demucs(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from demucs.demucs import Demucs

    return Demucs(sources=["a", "b"], audio_channels=1, channels=4, depth=3, lstm_layers=1, resample=False)


def _tcn(_: bool) -> nn.Module:  # noqa: FBT001 - as above
    from pytorch_tcn import TCN

    return TCN(num_inputs=4, num_channels=[8, 8], kernel_size=3)


SOUND = {"mix": floats("batch 1 samples")}
SAMPLES = {"samples": Range(4000, 160_000, 8000)}
ENTRIES: dict[str, Entry] = {
    "conformer": Entry(_conformer, {"x": floats("batch frames 32")}, {"frames": Range(1, 1000, 20)}, needs="conformer"),
    "demucs": Entry(_demucs, SOUND, SAMPLES, needs="demucs"),
    "hdemucs": Entry(_hdemucs, SOUND, SAMPLES, needs="demucs"),
    "linformer": Entry(_linformer, {"x": floats("batch 64 32")}, needs="linformer"),
    "local_attention": Entry(_local, {"x": tokens()}, needs="local_attention"),
    "mamba_plain": Entry(_mamba, {"x": floats("batch length 16")}, {"length": Range(1, 64, 9)}, needs="mambapy"),
    "tcn": Entry(_tcn, {"x": floats("batch 4 length")}, needs="pytorch_tcn"),
    "xt_alibi": of_x_transformers(alibi_pos_bias=True),
    "xt_decoder": of_x_transformers(),
    "xt_encoder": Entry(_encoder, {"x": tokens(), "mask": mask(dtype=torch.bool)}, needs="x_transformers"),
    "xt_encoder_continuous": Entry(_continuous, {"x": floats("batch length 8")}, needs="x_transformers"),
    "xt_flash": of_x_transformers(attn_flash=True),
    "xt_kv_heads": of_x_transformers(attn_kv_heads=1),
    "xt_relative": of_x_transformers(rel_pos_bias=True),
    "xt_rotary": of_x_transformers(rotary_pos_emb=True),
    "xt_sandwich": of_x_transformers(sandwich_norm=True, use_rmsnorm=True, ff_glu=True),
    "xt_sparse_topk": of_x_transformers(attn_sparse_topk=4),
    "xt_talking_heads": of_x_transformers(attn_pre_talking_heads=True),
    "xt_dynamic_bias": of_x_transformers(dynamic_pos_bias=True, dynamic_pos_bias_log_distance=False),
    "xt_token_shift": of_x_transformers(shift_tokens=1),
}
