"""Forecasts of time series, and models of tables."""

from __future__ import annotations

from typing import Any

from zoo.entry import Entry, floats, ones, shares
from zoo.of_transformers import small

SERIES: dict[str, Any] = {
    "prediction_length": 4,
    "context_length": 8,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "lags_sequence": [1, 2],
    "num_time_features": 2,
    "use_cache": False,
}
PAST = {
    "past_values": floats("batch 10"),
    "past_time_features": shares("batch 10 2"),
    "past_observed_mask": ones("batch 10"),
    "future_values": floats("batch 4"),
    "future_time_features": shares("batch 4 2"),
}
PATCHES = {"context_length": 32, "patch_length": 8, "patch_stride": 8, "num_input_channels": 3, "d_model": 16}
ENTRIES: dict[str, Entry] = {
    "autoformer": Entry(
        small("AutoformerModel", **SERIES, label_length=4, moving_average=3, autocorrelation_factor=1), PAST
    ),
    "informer": Entry(small("InformerModel", **SERIES), PAST),
    "patchtsmixer": Entry(
        small("PatchTSMixerForPrediction", **PATCHES, num_layers=1, prediction_length=4),
        {"past_values": floats("batch 32 3")},
    ),
    "patchtst": Entry(
        small(
            "PatchTSTForPrediction",
            **PATCHES,
            num_hidden_layers=1,
            num_attention_heads=2,
            ffn_dim=16,
            prediction_length=4,
        ),
        {"past_values": floats("batch 32 3")},
    ),
    "time_series_transformer": Entry(small("TimeSeriesTransformerModel", **SERIES), PAST),
}
