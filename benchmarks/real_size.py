"""What an export of a real model costs: architectures at their published sizes, with random weights.

    python -m benchmarks.real_size [model ...]

torch.export and shapeproof export the same model, each in a process of its own that has exported a small model before.
Batch and sequence (or height and width) are dynamic. Seconds are processor time, those of all threads. Memory is the
most that the process held during the export beyond what it held before, the model included. A model of a package that
is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch.export import Dim

from benchmarks.export_ratio import EXPORTERS, Attempt, attempt, measure
from benchmarks.models import LONGEST, Built, of_image, of_text

MEGABYTE = 2**20


def llama() -> Built:
    """The sizes of Llama 3.2 1B, in bfloat16."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,
        use_cache=False,
    )
    return of_text(AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16))


def qwen() -> Built:
    """The sizes of Qwen2.5 0.5B, in float32."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        use_cache=False,
    )
    return of_text(Qwen2ForCausalLM(config))


def bert() -> Built:
    """BERT-base."""
    from transformers import BertConfig, BertModel

    return of_text(BertModel(BertConfig()))


def vit() -> Built:
    """ViT-B/16, whose position table is interpolated to the image."""
    from transformers import ViTConfig, ViTModel

    model, args, kwargs, shapes = of_image(ViTModel(ViTConfig()), 224, **_image_dims(64, 512))
    return model, args, kwargs | {"interpolate_pos_encoding": True}, shapes | {"interpolate_pos_encoding": None}


def t5() -> Built:
    """T5-base, encoder and decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, use_cache=False)
    model, args, kwargs, shapes = of_text(T5ForConditionalGeneration(config))
    target = {0: shapes["input_ids"][0], 1: Dim("target", min=1, max=LONGEST)}
    given = kwargs | {"decoder_input_ids": torch.randint(3, 99, (2, 7))}
    return model, args, given, shapes | {"decoder_input_ids": target}


def resnet() -> Built:
    """ResNet-50."""
    from transformers import ResNetConfig, ResNetModel

    return of_image(ResNetModel(ResNetConfig()), 224, **_image_dims(64, 512))


def swin() -> Built:
    """Swin-T, at the sizes of batches alone."""
    from transformers import SwinConfig, SwinModel

    return of_image(SwinModel(SwinConfig()), 224, batch=Dim("batch", min=1, max=64))


def whisper_decoder() -> Built:
    """The decoder of Whisper-small, on states of the encoder."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperDecoder

    config = WhisperConfig(d_model=768, decoder_layers=12, decoder_attention_heads=12, decoder_ffn_dim=3072)
    config.use_cache = False
    batch = Dim("batch", min=1, max=64)
    inputs = {"input_ids": torch.randint(3, 99, (2, 9)), "encoder_hidden_states": torch.randn(2, 50, 768)}
    shapes = {"input_ids": {1: Dim("sequence", min=1, max=448)}, "encoder_hidden_states": {1: Dim("frames", max=1500)}}
    return WhisperDecoder(config).eval(), (), inputs, {name: {0: batch, **dims} for name, dims in shapes.items()}


def mixtral() -> Built:
    """A Mixtral of 16 layers and eight experts, narrow."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=32_000,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=16,
        num_attention_heads=8,
        num_key_value_heads=2,
        use_cache=False,
    )
    return of_text(MixtralForCausalLM(config))


def wav2vec2() -> Built:
    """wav2vec2-base, on samples of sound."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    dims = {0: Dim("batch", min=1, max=64), 1: Dim("samples", min=4000, max=160_000)}
    return Wav2Vec2Model(Wav2Vec2Config()).eval(), (), {"input_values": torch.randn(2, 8000)}, {"input_values": dims}


def mamba() -> Built:
    """Mamba-130M; its scan is a loop over the sequence, which is nine tokens long."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(hidden_size=768, num_hidden_layers=24, use_cache=False)
    tokens = {"input_ids": torch.randint(3, 99, (2, 9))}
    return MambaForCausalLM(config).eval(), (), tokens, {"input_ids": {0: Dim("batch", min=1, max=64)}}


def unet() -> Built:
    """The UNet of Stable Diffusion."""
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(cross_attention_dim=768).eval()
    inputs = {"sample": torch.randn(2, 4, 32, 32), "timestep": 7, "encoder_hidden_states": torch.randn(2, 9, 768)}
    batch, sequence = Dim("batch", min=1, max=64), Dim("sequence", min=1, max=LONGEST)
    shapes = {"sample": {0: batch}, "timestep": None, "encoder_hidden_states": {0: batch, 1: sequence}}
    return model, (), inputs, shapes


def _image_dims(least: int, most: int) -> dict[str, Dim]:
    sizes = {name: Dim(name, min=least, max=most) for name in ("height", "width")}
    return {"batch": Dim("batch", min=1, max=64), **sizes}


BUILDS = (llama, qwen, bert, t5, vit, resnet, swin, whisper_decoder, mixtral, wav2vec2, mamba, unet)
MODELS: dict[str, Callable[[], Built]] = {each.__name__: each for each in BUILDS}
NEEDS = {"unet": "diffusers"}
"""The packages that are not installed with the extras; without one, its model is left out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One export, the bytes that it held beyond the model, and the parameters of the model."""

    attempt: Attempt
    held: int
    parameters: int


def cost(exporter: str, name: str) -> Cost:
    """Export a model in this process."""
    before, parameters = [], []

    def built() -> Built:
        made = MODELS[name]()
        parameters.append(sum(each.numel() for each in made[0].parameters()))
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins again, here
        before.append(_held("VmRSS"))
        return made

    found = attempt(EXPORTERS[exporter], built)
    return Cost(found, _held("VmHWM") - before[0], parameters[0])


def _held(name: str) -> int:
    """The memory of this process in bytes: `VmRSS` now, `VmHWM` at its peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def cost_apart(exporter: str, name: str) -> Cost:
    """Export a model in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.real_size", "--attempt", exporter, name]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return Cost(**found | {"attempt": Attempt(**found["attempt"])})


def main() -> None:
    """Measure the models named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="model", help=", ".join(MODELS))
    parser.add_argument("--attempt", choices=EXPORTERS, help="print what this exporter costs on one model")
    options = parser.parse_args()
    if unknown := set(options.models) - MODELS.keys():
        parser.error(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    if options.attempt:
        measure("convnet", 1)  # the first export of a process pays for imports and caches
        print(json.dumps(asdict(cost(options.attempt, options.models[0]))))
        return
    table, console = Table("model", title="exports at real size"), Console()
    for column in ("params", *EXPORTERS, "ratio", "MB: torch", "shapeproof"):
        table.add_column(column, justify="right")
    table.add_column("outcome")
    for name in options.models:
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            console.print(f"left out: {name}, which needs {NEEDS[name]}")
            continue
        with console.status(f"exporting {name}"):
            table.add_row(name, *_cells(*(cost_apart(each, name) for each in EXPORTERS)))
    console.print(table)


def _cells(theirs: Cost, ours: Cost) -> list[str]:
    """One row of the table, for people."""
    both = theirs, ours
    seconds = [f"{each.attempt.seconds:.2f} s" for each in both]
    held = [f"{each.held / MEGABYTE:.0f}" for each in both]
    outcomes = ", ".join(each.attempt.outcome for each in both)
    ratio = ours.attempt.seconds / theirs.attempt.seconds
    return [f"{ours.parameters / 1e6:.0f} M", *seconds, f"{ratio:.2f}", *held, outcomes]


if __name__ == "__main__":
    main()
