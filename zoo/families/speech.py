"""Speech and sound: recognition, synthesis, codecs."""

from __future__ import annotations

from typing import Any

from zoo.entry import Entry, Range, floats, integers, mask, tokens
from zoo.of_transformers import IDS, SEQ2SEQ, WIDTH, WORDS, small

WAV: dict[str, Any] = WIDTH | {
    "conv_dim": [8, 8, 8],
    "conv_kernel": [10, 3, 2],
    "conv_stride": [5, 2, 2],
    "vocab_size": 64,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 3,
}
MUSICGEN: dict[str, Any] = {
    "vocab_size": 64,
    "max_position_embeddings": 512,
    "num_hidden_layers": 2,
    "ffn_dim": 64,
    "num_attention_heads": 4,
    "hidden_size": 32,
    "num_codebooks": 2,
    "use_cache": False,
    "pad_token_id": 63,
}
SOUND = {"input_values": floats("batch samples")}
SAMPLES = {"samples": Range(400, 160_000, 1000)}
FEATURES = {"input_features": floats("batch frames 32")}
FRAMES = {"frames": Range(16, 3000, 100)}
WHISPER = SEQ2SEQ | {"num_mel_bins": 16, "max_source_positions": 50, "max_target_positions": 512}


def of_sound(name: str, **sizes: Any) -> Entry:
    """A model of the samples of a sound."""
    return Entry(small(name, **(WAV | sizes)), SOUND, SAMPLES)


ENTRIES: dict[str, Entry] = {
    "clap_audio": Entry(
        small(
            "ClapAudioModel",
            spec_size=64,
            patch_size=4,
            patch_stride=[4, 4],
            num_mel_bins=16,
            hidden_size=32,
            patch_embeds_hidden_size=8,
            depths=[1, 1],
            num_attention_heads=[1, 2],
            window_size=4,
            projection_dim=16,
        ),
        {"input_features": floats("batch 1 frames 16")},
        {"frames": Range(1, 256, 200)},
    ),
    "dac": Entry(
        small(
            "DacModel",
            encoder_hidden_size=8,
            downsampling_ratios=[2, 4],
            decoder_hidden_size=16,
            n_codebooks=2,
            codebook_size=16,
            codebook_dim=4,
            upsampling_ratios=[4, 2],
            hidden_size=32,
        ),
        {"input_values": floats("batch 1 samples")},
        SAMPLES,
    ),
    "encodec": Entry(
        small(
            "EncodecModel",
            num_filters=4,
            hidden_size=16,
            codebook_size=16,
            codebook_dim=16,
            upsampling_ratios=[4, 2],
            target_bandwidths=[48.0],
        ),
        {"input_values": floats("batch 1 samples")},
        SAMPLES,
    ),
    "fastspeech2_conformer": Entry(
        small(
            "FastSpeech2ConformerModel",
            hidden_size=32,
            vocab_size=64,
            num_mel_bins=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_num_attention_heads=2,
            decoder_num_attention_heads=2,
            encoder_linear_units=32,
            decoder_linear_units=32,
            speech_decoder_postnet_units=16,
            speech_decoder_postnet_layers=2,
            pitch_predictor_channels=16,
            energy_predictor_channels=16,
            duration_predictor_channels=16,
        ),
        {"input_ids": tokens()},
        {"length": Range(1, 128, 9)},
    ),
    "hubert": of_sound("HubertModel"),
    "mimi": Entry(
        small(
            "MimiModel",
            num_filters=4,
            hidden_size=32,
            codebook_size=16,
            codebook_dim=8,
            num_quantizers=2,
            num_semantic_quantizers=1,
            upsampling_ratios=[4, 2],
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            intermediate_size=32,
            upsample_groups=32,
            vector_quantization_hidden_dimension=8,
        ),
        {"input_values": floats("batch 1 samples")},
        SAMPLES,
    ),
    "moonshine": Entry(
        small(
            "MoonshineModel",
            **(WORDS | IDS),
            hidden_size=32,
            intermediate_size=32,
            encoder_num_hidden_layers=1,
            decoder_num_hidden_layers=1,
            encoder_num_attention_heads=2,
            decoder_num_attention_heads=2,
            use_cache=False,
        ),
        {"input_values": floats("batch samples"), "decoder_input_ids": tokens("batch target")},
        {"samples": Range(1000, 160_000, 4000)},
    ),
    "musicgen_decoder": Entry(
        small("MusicgenForCausalLM", **MUSICGEN),
        {"input_ids": tokens("batch 2 length")},
    ),
    "seamless_m4t_text": Entry(
        small(
            "SeamlessM4TForTextToText",
            **(WORDS | IDS),
            hidden_size=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            speech_encoder_layers=1,
            speech_encoder_attention_heads=2,
            speech_encoder_intermediate_size=32,
            use_cache=False,
            decoder_start_token_id=1,
        ),
        {"input_ids": tokens(), "attention_mask": mask(), "decoder_input_ids": tokens("batch target")},
    ),
    "sew": of_sound("SEWModel", squeeze_factor=2),
    "speech_to_text": Entry(
        small(
            "Speech2TextForConditionalGeneration",
            **SEQ2SEQ,
            input_feat_per_channel=32,
            input_channels=1,
            conv_channels=32,
            max_source_positions=1000,
            max_target_positions=512,
            num_conv_layers=2,
        ),
        {**FEATURES, "decoder_input_ids": tokens("batch target")},
        FRAMES,
    ),
    "speecht5_vocoder": Entry(
        small(
            "SpeechT5HifiGan",
            model_in_dim=16,
            upsample_initial_channel=16,
            upsample_rates=[4, 4],
            upsample_kernel_sizes=[8, 8],
            resblock_kernel_sizes=[3],
            resblock_dilation_sizes=[[1, 3]],
        ),
        {"spectrogram": floats("batch frames 16")},
        {"frames": Range(1, 1000, 20)},
    ),
    "unispeech": of_sound("UniSpeechModel"),
    "univnet": Entry(
        small(
            "UnivNetModel",
            num_mel_bins=16,
            model_in_channels=8,
            model_hidden_channels=8,
            kernel_predictor_hidden_channels=8,
            resblock_stride_sizes=[4, 4],
            resblock_kernel_sizes=[3, 3],
            resblock_dilation_sizes=[[1, 3], [1, 3]],
        ),
        {"input_features": floats("batch frames 16"), "noise_sequence": floats("batch frames 8")},
        {"frames": Range(1, 1000, 20)},
    ),
    "vits": Entry(
        small(
            "VitsModel",
            vocab_size=64,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            ffn_dim=32,
            flow_size=16,
            spectrogram_bins=16,
            duration_predictor_filter_channels=16,
            upsample_rates=[4, 4],
            upsample_kernel_sizes=[8, 8],
            upsample_initial_channel=16,
            resblock_kernel_sizes=[3],
            resblock_dilation_sizes=[[1, 3]],
            prior_encoder_num_wavenet_layers=1,
            prior_encoder_num_flows=2,
            posterior_encoder_num_wavenet_layers=1,
            depth_separable_num_layers=1,
            noise_scale=0.0,
            noise_scale_duration=0.0,
        ),
        {"input_ids": tokens(), "attention_mask": mask()},
        {"length": Range(1, 128, 9)},
    ),
    "wav2vec2": of_sound("Wav2Vec2Model"),
    "wav2vec2_bert": Entry(
        small(
            "Wav2Vec2BertModel", **WIDTH, feature_projection_input_dim=32, vocab_size=64, conv_depthwise_kernel_size=7
        ),
        FEATURES,
        {"frames": Range(1, 3000, 50)},
    ),
    "wav2vec2_conformer": of_sound("Wav2Vec2ConformerModel", conv_depthwise_kernel_size=7),
    "wav2vec2_ctc": of_sound("Wav2Vec2ForCTC"),
    "wavlm": of_sound("WavLMModel"),
    "whisper": Entry(
        small("WhisperForConditionalGeneration", **WHISPER),
        {"input_features": floats("batch 16 100"), "decoder_input_ids": tokens("batch target")},
    ),
    "musicgen_melody_decoder": Entry(
        small("MusicgenMelodyForCausalLM", **MUSICGEN),
        {"input_ids": integers("batch 2 length", 60)},
    ),
}
