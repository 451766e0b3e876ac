"""The models that are recorded beside those of models.py: more of the questions that real shapes raise, still tiny.

Every entry of MORE is a `build()` as in models.py: it takes nothing and returns (model, args, kwargs, dynamic_shapes).
The transformers models need the extra `models`. This file never exports.

>>> _, args, _, dynamic_shapes = MORE["floor_chain"]()
>>> args[0].shape, dynamic_shapes["x"].keys()
(torch.Size([2, 4099]), dict_keys([0, 1]))
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from benchmarks.models import VOCABULARY, Built, swin

CHAIN = (2, 3, 2, 5, 2, 7, 2, 3)
"""The divisors of the deep chain, outermost last."""


class FloorChain(nn.Module):
    """Eight average poolings with odd windows; each length is a floor division of the one before."""

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length] -> [batch, 1 + length after all poolings]."""
        for window in CHAIN:
            pooled = functional.avg_pool1d(functional.pad(x, (0, window - 1)), window)
            x = pooled[:, : x.shape[1] // window + 1]
        return torch.cat([x, x.flip(1)[:, :1]], dim=1)


class ConformerSubsampling(nn.Module):
    """The convolutional front of a Conformer: time and frequency are halved twice, with the mask that goes along."""

    def __init__(self, features: int = 80, channels: int = 8, width: int = 16) -> None:
        super().__init__()
        self.convolve = nn.Sequential(
            nn.Conv2d(1, channels, 3, stride=2), nn.ReLU(), nn.Conv2d(channels, channels, 3, stride=2), nn.ReLU()
        )
        self.project = nn.Linear(channels * (((features - 1) // 2 - 1) // 2), width)

    def forward(self, frames: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [batch, time, features] and mask [batch, time] -> the same at a quarter of the rate."""
        hidden = self.convolve(frames.unsqueeze(1))
        batch, channels, time, features = hidden.shape
        hidden = self.project(hidden.transpose(1, 2).reshape(batch, time, channels * features))
        mask = mask[:, :-2:2][:, :-2:2]
        return hidden * mask.unsqueeze(-1), mask


class UNet(nn.Module):
    """Three levels with skip connections; what the pooling lost is padded on again before it is joined to the skip."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        widths = [channels, 2 * channels, 4 * channels, 8 * channels]
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in itertools.pairwise(widths))
        self.join = nn.ModuleList(nn.Conv2d(2 * a, a, 3, padding=1) for a in widths[:-1])

    def forward(self, images: Tensor) -> Tensor:
        """[batch, 3, height, width] -> [batch, channels, height, width]."""
        x, skips = self.first(images), []
        for down in self.down:
            skips.append(x)
            x = functional.relu(down(functional.max_pool2d(x, 2)))
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            x, skip = up(x), skips.pop()
            rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = functional.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
            x = functional.relu(join(torch.cat([skip, x], dim=1)))
        return x


class Detector(nn.Module):
    """As DETR: a strided backbone, positions made from the sizes, an encoder over all pixels, learned queries."""

    def __init__(self, channels: int = 16, queries: int = 10) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, channels, 7, stride=4, padding=3),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
        )
        self.encoder = nn.TransformerEncoderLayer(channels, 2, 32, batch_first=True)
        self.attention = nn.MultiheadAttention(channels, 2, batch_first=True)
        self.queries = nn.Parameter(torch.zeros(queries, channels))
        self.boxes = nn.Linear(channels, 4)

    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        """Images [batch, 3, height, width] and mask [batch, height, width] -> boxes [batch, queries, 4]."""
        features = self.backbone(images)
        batch, channels, rows, columns = features.shape
        mask = functional.interpolate(mask[:, None].float(), size=(rows, columns))[:, 0]
        features = features + self._positions(mask, channels)
        memory = self.encoder(features.flatten(2).transpose(1, 2))
        queries = self.queries.expand(batch, -1, -1)
        found, _ = self.attention(queries, memory, memory, key_padding_mask=mask.flatten(1) == 0)
        return self.boxes(found)

    def _positions(self, mask: Tensor, channels: int) -> Tensor:
        """Sines of the row and the column of every pixel, each normalised by the last."""
        waves = torch.arange(1, channels // 2 + 1)
        axes = []
        for dim in (1, 2):
            places = mask.cumsum(dim)
            last = places.narrow(dim, places.shape[dim] - 1, 1)
            axes.append(torch.sin((places / (last + 1e-6)).unsqueeze(1) * waves[:, None, None]))
        return torch.cat(axes, dim=1)


def floor_chain() -> Built:
    """A deep chain of floor divisions."""
    dims = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=1, max=100_000)}
    return FloorChain().eval(), (torch.randn(2, 4099),), {}, {"x": dims}


def conformer_subsampling() -> Built:
    """The front of a Conformer over 80 features."""
    batch, time = Dim("batch", min=1, max=32), Dim("time", min=7, max=3000)
    shapes = {"frames": {0: batch, 1: time}, "mask": {0: batch, 1: time}}
    return ConformerSubsampling().eval(), (torch.randn(2, 101, 80), torch.ones(2, 101)), {}, shapes


def _images(low: int, high: int) -> dict[int, Any]:
    """Batch, height and width of images."""
    return {0: Dim("batch", min=1, max=16), 2: Dim("height", min=low, max=high), 3: Dim("width", min=low, max=high)}


def unet() -> Built:
    """A U-Net over images of any size from 8 by 8."""
    return UNet().eval(), (torch.randn(2, 3, 50, 77),), {}, {"images": _images(8, 512)}


def detr() -> Built:
    """A detector over padded images."""
    dims = _images(32, 800)
    shapes = {"images": dims, "mask": {0: dims[0], 1: dims[2], 2: dims[3]}}
    return Detector().eval(), (torch.randn(2, 3, 70, 101), torch.ones(2, 70, 101)), {}, shapes


def resnet() -> Built:
    """A ResNet with bottlenecks, pooled to one vector an image."""
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32], depths=[1, 1, 1], layer_type="bottleneck")
    return (
        ResNetModel(config).eval(),
        (),
        {"pixel_values": torch.randn(2, 3, 50, 77)},
        {"pixel_values": _images(32, 512)},
    )


def swin4() -> Built:
    """A Swin of four stages: padding, shifting and merging at each, over half the size of the one before."""
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(image_size=64, embed_dim=8, depths=[2, 2, 2, 2], num_heads=[1, 2, 4, 8], window_size=4)
    shapes = {"pixel_values": _images(32, 1024)}
    return SwinModel(config).eval(), (), {"pixel_values": torch.randn(2, 3, 128, 256)}, shapes


def swin_padded() -> Built:
    """The Swin of models.py at sizes that nothing divides, so that every stage pads."""
    model, args, _, shapes = swin()
    return model, args, {"pixel_values": torch.randn(2, 3, 62, 90)}, shapes


def segformer() -> Built:
    """A SegFormer: overlapping patches, attention over a reduced sequence, all stages resized to the first."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 16, 16, 16],
        num_attention_heads=[1, 2, 2, 2],
        decoder_hidden_size=16,
        num_labels=5,
    )
    model = SegformerForSemanticSegmentation(config).eval()
    return model, (), {"pixel_values": torch.randn(2, 3, 90, 125)}, {"pixel_values": _images(32, 512)}


def whisper_encoder() -> Built:
    """A Whisper encoder, which takes one length of time only: the batch is dynamic, and time is declared so."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=16,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=32,
        max_source_positions=50,
        num_mel_bins=20,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    dims = {0: Dim("batch", min=1, max=64), 2: Dim("frames", min=1, max=200)}
    return WhisperEncoder(config).eval(), (), {"input_features": torch.randn(2, 20, 100)}, {"input_features": dims}


def t5() -> Built:
    """A T5 encoder and decoder, each with a length of its own."""
    from transformers import T5Config, T5Model

    config = T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    batch, source, target = Dim("batch", min=1, max=64), Dim("source", min=1, max=512), Dim("target", min=1, max=512)
    inputs = {
        "input_ids": torch.randint(3, VOCABULARY, (2, 9)),
        "attention_mask": torch.ones(2, 9, dtype=torch.long),
        "decoder_input_ids": torch.randint(3, VOCABULARY, (2, 7)),
    }
    shapes = {name: {0: batch, 1: target if name == "decoder_input_ids" else source} for name in inputs}
    return T5Model(config).eval(), (), inputs, shapes


OWN: dict[str, Callable[[], Built]] = {
    "floor_chain": floor_chain,
    "conformer_subsampling": conformer_subsampling,
    "unet": unet,
    "detr": detr,
}
MORE = OWN | {
    "resnet": resnet,
    "swin_padded": swin_padded,
    "swin4": swin4,
    "segformer": segformer,
    "whisper_encoder": whisper_encoder,
    "t5": t5,
}
