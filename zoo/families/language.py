"""Causal language models, over whole sequences and with caches; encoders and decoders of text."""

from __future__ import annotations

from zoo.entry import Entry
from zoo.of_transformers import cached, decoder, sequences, static

FALCON = {"head_dim": ..., "multi_query": True, "new_decoder_architecture": False, "alibi": False}
OPT = {"word_embed_proj_dim": 32, "ffn_dim": 64}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
T5 = {"d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}

DECODERS: dict[str, Entry] = {
    "apertus": decoder("ApertusForCausalLM"),
    "arcee": decoder("ArceeForCausalLM"),
    "biogpt": decoder("BioGptForCausalLM"),
    "bloom": decoder("BloomForCausalLM", n_layer=2, n_head=4),
    "codegen": decoder("CodeGenForCausalLM", **GPT2, rotary_dim=4),
    "cohere": decoder("CohereForCausalLM"),
    "cohere2": decoder("Cohere2ForCausalLM", sliding_window=8),
    "ctrl": decoder("CTRLLMHeadModel", n_embd=32, n_layer=2, n_head=4, dff=64),
    "ernie4_5": decoder("Ernie4_5ForCausalLM"),
    "exaone4": decoder("Exaone4ForCausalLM", sliding_window=8),
    "falcon": decoder("FalconForCausalLM", **FALCON),
    "falcon_alibi": decoder("FalconForCausalLM", **(FALCON | {"alibi": True})),
    "gemma": decoder("GemmaForCausalLM"),
    "gemma2": decoder("Gemma2ForCausalLM", sliding_window=8),
    "gemma3": decoder("Gemma3ForCausalLM", sliding_window=8),
    "glm": decoder("GlmForCausalLM", pad_token_id=0),
    "glm4": decoder("Glm4ForCausalLM"),
    "gpt2": decoder("GPT2LMHeadModel", **GPT2),
    "gpt_bigcode": decoder("GPTBigCodeForCausalLM", **GPT2),
    "gpt_neo": decoder(
        "GPTNeoForCausalLM", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8
    ),
    "gpt_neox": decoder("GPTNeoXForCausalLM"),
    "gptj": decoder("GPTJForCausalLM", **GPT2, rotary_dim=4),
    "granite": decoder("GraniteForCausalLM"),
    "helium": decoder("HeliumForCausalLM"),
    "llama": decoder("LlamaForCausalLM"),
    "ministral": decoder("MinistralForCausalLM", sliding_window=8),
    "mistral": decoder("MistralForCausalLM", sliding_window=8),
    "mpt": decoder("MptForCausalLM", d_model=32, n_heads=4, n_layers=2, max_seq_len=512),
    "nemotron": decoder("NemotronForCausalLM"),
    "olmo": decoder("OlmoForCausalLM"),
    "olmo2": decoder("Olmo2ForCausalLM"),
    "olmo3": decoder("Olmo3ForCausalLM", sliding_window=8),
    "opt": decoder("OPTForCausalLM", **OPT),
    "persimmon": decoder("PersimmonForCausalLM"),
    "phi": decoder("PhiForCausalLM"),
    "phi3": decoder("Phi3ForCausalLM", sliding_window=8),
    "qwen2": decoder("Qwen2ForCausalLM"),
    "qwen3": decoder("Qwen3ForCausalLM"),
    "seed_oss": decoder("SeedOssForCausalLM"),
    "smollm3": decoder("SmolLM3ForCausalLM"),
    "stablelm": decoder("StableLmForCausalLM"),
    "starcoder2": decoder("Starcoder2ForCausalLM", sliding_window=8),
    "xglm": decoder("XGLMForCausalLM", d_model=32, num_layers=2, attention_heads=4, ffn_dim=64),
}
CACHED: dict[str, Entry] = {
    "gemma2_cached": cached("Gemma2ForCausalLM", sliding_window=1024),
    "gpt2_cached": cached("GPT2LMHeadModel", heads=4, **GPT2),
    "llama_cached": cached("LlamaForCausalLM"),
    "llama_static": static("LlamaForCausalLM"),
    "phi3_cached": cached("Phi3ForCausalLM", sliding_window=None),
    "qwen2_cached": cached("Qwen2ForCausalLM"),
    "qwen3_cached": cached("Qwen3ForCausalLM"),
    "qwen3_static": static("Qwen3ForCausalLM"),
}
SEQUENCES: dict[str, Entry] = {
    "bart": sequences("BartForConditionalGeneration"),
    "blenderbot": sequences("BlenderbotForConditionalGeneration"),
    "m2m_100": sequences("M2M100ForConditionalGeneration"),
    "marian": sequences("MarianMTModel", pad_token_id=0),
    "mbart": sequences("MBartForConditionalGeneration"),
    "mt5": sequences("MT5ForConditionalGeneration", **T5),
    "pegasus": sequences("PegasusForConditionalGeneration"),
    "t5": sequences("T5ForConditionalGeneration", **T5),
    "umt5": sequences("UMT5ForConditionalGeneration", **T5),
    "prophetnet": sequences(
        "ProphetNetForConditionalGeneration",
        max_position_embeddings=514,
        encoder_layers=...,
        decoder_layers=...,
        hidden_size=32,
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
    ),
}
ENTRIES = DECODERS | CACHED | SEQUENCES
