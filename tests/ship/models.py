"""Small models of the kinds that users ship, each as `shapeproof ship` takes it: with its example and its dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

Subject = tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]
BATCH = Dim("batch", min=1, max=4)


class Forecaster(nn.Module):
    """Series are padded to whole patches of 8 from the left; attention mixes the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.pad(x, (-x.shape[1] % 8, 0))
        patches = self.embed(x.unfold(1, 8, 8))
        return self.head((patches + self.mix(patches, patches, patches, need_weights=False)[0]).mean(1))


def forecaster() -> Subject:
    return Forecaster().eval(), (torch.randn(2, 21),), {}, {"x": {0: BATCH, 1: Dim("t", min=1, max=64)}}


class Joint(nn.Module):
    """An LSTM reads frames, another one reads labels; each pair of a frame and a label gets scores."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.predictor = nn.LSTM(6, 8, batch_first=True), nn.LSTM(5, 8, batch_first=True)
        self.embed, self.head = nn.Embedding(10, 5), nn.Linear(8, 10)

    def forward(self, frames: Tensor, labels: Tensor) -> Tensor:
        heard, said = self.encoder(frames)[0], self.predictor(self.embed(labels))[0]
        return self.head((heard[:, :, None] + said[:, None]).tanh()).log_softmax(-1)


def joint() -> Subject:
    shapes = {"frames": {0: BATCH, 1: Dim("t", min=1, max=12)}, "labels": {0: BATCH, 1: Dim("u", min=1, max=6)}}
    return Joint().eval(), (torch.randn(2, 7, 6), torch.randint(0, 10, (2, 3))), {}, shapes


class Vit(nn.Module):
    """Positions are learned for an image of 6 by 6 patches, and resized to those of the image that is given."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.positions, self.first = nn.Parameter(torch.randn(1, 16, 6, 6)), nn.Parameter(torch.randn(1, 1, 16))
        self.layer, self.head = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch(image)
        sizes = (x.shape[2], x.shape[3])
        x = x + nn.functional.interpolate(self.positions, size=sizes, mode="bilinear", align_corners=False)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], 1)
        return self.head(self.layer(x)[:, 0])


def vit() -> Subject:
    sides = {0: BATCH, 2: 4 * Dim("h", min=1, max=8), 3: 4 * Dim("w", min=1, max=8)}
    return Vit().eval(), (torch.randn(2, 3, 12, 20),), {}, {"image": sides}


def bert() -> Subject:
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=40, max_position_embeddings=32, **sizes)).eval()
    example = {"input_ids": torch.randint(0, 40, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    return model, (), example, {name: {0: BATCH, 1: Dim("t", min=1, max=32)} for name in example}


class Decoder(nn.Module):
    """A decoder of transformers whose StaticCache lies in buffers, so that what it writes stays for the next call."""

    def __init__(self) -> None:
        import transformers

        super().__init__()
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        config = transformers.LlamaConfig(vocab_size=40, max_position_embeddings=16, **sizes)
        self.model = transformers.LlamaForCausalLM(config)
        self.cache = transformers.StaticCache(config=config, max_cache_len=16)
        self.cache.early_initialization(1, 2, 8, torch.float32, torch.device("cpu"))
        (layer,) = self.cache.layers
        self.register_buffer("keys", layer.keys)
        self.register_buffer("values", layer.values)
        self.register_buffer("written", layer.cumulative_length)

    def forward(self, tokens: Tensor) -> Tensor:
        (layer,) = self.cache.layers
        layer.keys, layer.values, layer.cumulative_length = self.keys, self.values, self.written
        return self.model(tokens, past_key_values=self.cache).logits


def decoder() -> Subject:
    return Decoder().eval(), (torch.tensor([[3, 8, 1]]),), {}, {"tokens": {1: Dim("length", min=1, max=8)}}


class Detector(nn.Module):
    """Boxes, the best first, less those that overlap one that is better."""

    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        order = scores.argsort(descending=True)
        boxes, scores = boxes[order], scores[order]
        low, high = boxes[:, None, :2].maximum(boxes[None, :, :2]), boxes[:, None, 2:].minimum(boxes[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        overlap = (shared / (area[:, None] + area[None] - shared)).triu(diagonal=1).amax(0)
        kept = ((overlap < 0.5) & (scores > 0.1)).nonzero().squeeze(1)
        return boxes[kept], scores[kept]


def detector() -> Subject:
    corner = torch.rand(9, 2) * 8
    boxes, n = torch.cat([corner, corner + 4], 1), Dim("n", min=1, max=30)
    return Detector(), (boxes, torch.rand(9)), {}, {"boxes": {0: n}, "scores": {0: n}}


class Recommender(nn.Module):
    """Sets of items in one list, with where each user's begin; a score for each user and item."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.items = nn.EmbeddingBag(50, 8, mode="mean"), nn.Embedding(50, 8)

    def forward(self, seen: Tensor, offsets: Tensor, wanted: Tensor) -> Tensor:
        return self.bag(seen, offsets) @ self.items(wanted).t()


def recommender() -> Subject:
    example = torch.randint(0, 50, (11,)), torch.tensor([0, 2, 6]), torch.randint(0, 50, (4,))
    shapes = ({0: Dim("entries", min=8, max=40)}, {0: Dim("users", min=1, max=8)}, {0: Dim("items", min=1, max=9)})
    return Recommender().eval(), example, {}, shapes


def speech() -> Subject:
    """The front end of wav2vec: convolutions over samples."""
    import transformers
    from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2FeatureEncoder

    layers = {"conv_dim": (8, 8, 8), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2)}
    front = Wav2Vec2FeatureEncoder(transformers.Wav2Vec2Config(**layers, num_feat_extract_layers=3)).eval()
    return front, (torch.randn(2, 200),), {}, {"input_values": {0: BATCH, 1: Dim("samples", min=40, max=400)}}


MODELS: dict[str, Callable[[], Subject]] = {
    each.__name__: each for each in (forecaster, joint, vit, bert, decoder, detector, recommender, speech)
}
