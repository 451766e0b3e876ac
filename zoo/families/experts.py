"""Mixtures of experts, and decoders with latent attention or a state."""

from __future__ import annotations

from zoo.entry import Entry
from zoo.of_transformers import decoder

EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    "head_dim": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
}
ENTRIES: dict[str, Entry] = {
    "dbrx": decoder(
        "DbrxForCausalLM",
        d_model=32,
        n_heads=4,
        n_layers=2,
        max_seq_len=512,
        attn_config={"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
    ),
    "deepseek_v2": decoder("DeepseekV2ForCausalLM", **EXPERTS, **LATENT, n_routed_experts=4, n_group=1, topk_group=1),
    "deepseek_v3": decoder("DeepseekV3ForCausalLM", **EXPERTS, **LATENT, n_routed_experts=4, n_group=2, topk_group=1),
    "ernie4_5_moe": decoder("Ernie4_5_MoeForCausalLM", moe_num_experts=4, moe_k=2, moe_intermediate_size=16),
    "glm4_moe": decoder("Glm4MoeForCausalLM", **EXPERTS, n_routed_experts=4, n_group=1, topk_group=1),
    "gpt_oss": decoder("GptOssForCausalLM", num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    "granitemoe": decoder("GraniteMoeForCausalLM", num_local_experts=4, num_experts_per_tok=2),
    "jetmoe": decoder("JetMoeForCausalLM", num_local_experts=4, num_experts_per_tok=2, kv_channels=8),
    "mixtral": decoder("MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2),
    "olmoe": decoder("OlmoeForCausalLM", num_experts=4, num_experts_per_tok=2),
    "phimoe": decoder("PhimoeForCausalLM", num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": decoder("Qwen2MoeForCausalLM", **EXPERTS, num_experts=4, shared_expert_intermediate_size=16),
    "qwen3_moe": decoder("Qwen3MoeForCausalLM", **EXPERTS, num_experts=4),
}
