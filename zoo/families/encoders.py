"""Encoders of text."""

from __future__ import annotations

from zoo.entry import Entry
from zoo.of_transformers import text

OFFSET = {"max_position_embeddings": 514}
"""The first position is after that of padding."""
ENTRIES: dict[str, Entry] = {
    "albert": text("AlbertModel", embedding_size=16),
    "bert": text("BertModel"),
    "camembert": text("CamembertModel", **OFFSET),
    "convbert": text("ConvBertModel", embedding_size=32, conv_kernel_size=3),
    "data2vec_text": text("Data2VecTextModel", **OFFSET),
    "deberta": text("DebertaModel", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "deberta_v2": text("DebertaV2Model", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "distilbert": text("DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "electra": text("ElectraModel", embedding_size=16),
    "ernie": text("ErnieModel"),
    "esm": text("EsmModel", **OFFSET, mask_token_id=3),
    "flaubert": text("FlaubertModel", emb_dim=32, n_layers=2, n_heads=4, n_words=64),
    "fnet": text("FNetModel"),
    "funnel": text(
        "FunnelBaseModel", num_hidden_layers=..., d_model=32, n_head=4, d_head=8, d_inner=64, block_sizes=[1, 1]
    ),
    "ibert": text("IBertModel", **OFFSET),
    "megatron_bert": text("MegatronBertModel"),
    "mobilebert": text("MobileBertModel", embedding_size=32, intra_bottleneck_size=32),
    "modernbert": text("ModernBertModel", local_attention=8),
    "mpnet": text("MPNetModel", **OFFSET),
    "nystromformer": text("NystromformerModel", num_landmarks=8, segment_means_seq_len=8),
    "rembert": text("RemBertModel", input_embedding_size=16),
    "roberta": text("RobertaModel", **OFFSET),
    "roformer": text("RoFormerModel", embedding_size=32),
    "splinter": text("SplinterModel"),
    "squeezebert": text(
        "SqueezeBertModel",
        embedding_size=32,
        q_groups=2,
        k_groups=2,
        v_groups=2,
        post_attention_groups=1,
        intermediate_groups=2,
        output_groups=2,
    ),
    "xlm": text("XLMModel", emb_dim=32, n_layers=2, n_heads=4),
    "xlm_roberta": text("XLMRobertaModel", **OFFSET),
    "xlnet": text("XLNetModel", max_position_embeddings=..., d_model=32, n_layer=2, n_head=4, d_inner=64),
    "yoso": text("YosoModel"),
}
