"""What an export of a real model costs: architectures at their published sizes, with random weights.

    python -m benchmarks.real_size [model ...]

torch.export and shapeproof export the same model, each in a process of its own that has exported a small model before.
Batch and sequence (or height and width) are dynamic. Seconds are processor time, those of all threads. Memory is the
most that the process held during the export beyond what it held before, the model included. A model of a package that
is not installed is left out.
"""

from __future__ import annotations

import argparse
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
from benchmarks.models import Built, of_image, of_text

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


def _image_dims(least: int, most: int) -> dict[str, Dim]:
    sizes = {name: Dim(name, min=least, max=most) for name in ("height", "width")}
    return {"batch": Dim("batch", min=1, max=64), **sizes}


MODELS: dict[str, Callable[[], Built]] = {"llama": llama, "qwen": qwen, "bert": bert, "vit": vit}


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
