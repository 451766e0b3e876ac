"""Saves what a traced model asks about its sizes, for `benchmarks.solver` to ask again.

    python -m benchmarks.record [recording ...]

Recorded at the solver's door, in a trace by shapeproof.export: every question about a size that the domain leaves
open comes by there with its kind, those about 0 and 1 too, which torch's own trace takes for granted and never asks.
The price: the questions are in canonical form already, which is easier for whoever is compared; as torch writes them
they are in swin_guards.txt. One trace is recorded, at the example's sizes; the same code gives the same text. When the
export asks other questions than before, record again.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpus import CORPORA, Question, Recording
from benchmarks.models import MODELS, Built
from benchmarks.recorded_models import MORE
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Kind
from shapeproof.export.declare.inputs import declare
from shapeproof.export.source.frames import Place
from shapeproof.export.trace import tracer
from shapeproof.export.trace.trial import Trial
from shapeproof.solver import Facts

RECORDED: Mapping[str, Callable[[], Built]] = {
    name: (MODELS | MORE)[name]
    for name in (
        "llama", "gpt2", "bert", "t5", "vit", "swin", "swin_padded", "swin4", "segformer", "whisper_encoder",
        "detr", "unet", "resnet", "conformer_subsampling", "floor_chain",
    )
}  # fmt: skip

LONGEST = 2_000
"""Longer questions are left out: a file is to be read, and a few take most of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as it came, whether it was answered then, and whether a fact was learned by it."""

    question: Question
    answered: bool
    learned: bool


class RecordingTrial(Trial):
    """A trial that notes what it is asked, in `asked_in_order`. It answers as any other."""

    def __init__(self, known: Facts, point: Mapping[str, int], data: Callable[[str], bool]) -> None:
        super().__init__(known, point, data=data, in_place=False)
        self.asked_in_order: list[Asked] = []

    def settled(self, formula: Formula, facts: Facts | None = None) -> bool | None:
        """As any trial; noted as static."""
        answer = super().settled(formula, facts)
        self.asked_in_order.append(Asked(_question(formula, "static", None), answer is not None, learned=False))
        return answer

    def choose(self, formula: Formula, kind: Kind, place: Callable[[], Place], **how: Any) -> bool:
        """As any trial; noted with its kind."""
        with self._as_one(formula, kind.value) as outcome:
            outcome.append(super().choose(formula, kind, place, **how))
        return outcome[0]

    def check(self, formula: Formula, place: Callable[[], Place], message: Callable[[], str] = str) -> bool:
        """As any trial; noted as asserted."""
        with self._as_one(formula, Kind.ASSERTED.value) as outcome:
            outcome.append(super().check(formula, place, message))
        return outcome[0]

    def learn(self, formula: Formula) -> None:
        """As any trial; noted as promised."""
        with self._as_one(formula, "promised") as outcome:
            super().learn(formula)
            outcome.append(True)

    @contextlib.contextmanager
    def _as_one(self, formula: Formula, kind: str) -> Iterator[list[bool]]:
        """Note what is asked inside as one question of this kind."""
        start, known = len(self.asked_in_order), len(self.region.formulas)
        outcome: list[bool] = []
        yield outcome
        del self.asked_in_order[start:]
        learned = len(self.region.formulas) > known
        self.asked_in_order.append(Asked(_question(formula, kind, *outcome), answered=True, learned=learned))


def _question(formula: Formula, kind: str, outcome: bool | None) -> Question:  # noqa: FBT001 - an outcome, not a flag
    return Question(formula, kind, outcome, _written(formula))


@cache
def _written(formula: Formula) -> str:
    """The text: most questions are asked again and again, and some are long."""
    return str(formula)


def distinct(asked: Iterable[Asked]) -> list[Question]:
    """The questions without those that are true or false as they stand, and without repetitions.

    A repetition was answered before, or was asked before with nothing learned since.
    """
    kept: list[Question] = []
    answered: set[Formula] = set()
    still_open: set[Formula] = set()
    for each in asked:
        formula, decides = each.question.formula, each.question.outcome is not None
        if formula.constant is None and formula not in answered and (decides or formula not in still_open):
            kept.append(each.question)
        (answered if each.answered else still_open).add(formula)
        if each.learned:
            still_open.clear()
    return kept


def record(name: str, build: Callable[[], Built]) -> Recording:
    """Trace the model at its example and keep what was asked."""
    torch.manual_seed(0)
    model, args, kwargs, dynamic_shapes = build()
    inputs = declare(model, args, kwargs, dynamic_shapes)
    domain = inputs.domain
    trial = RecordingTrial(Facts(domain.formulas), inputs.example or {}, domain.is_data)
    tracer.trace(model, inputs, trial, in_place=False)  # each outcome stays a fact, though it may make no difference
    every = distinct(trial.asked_in_order)
    questions = [question for question in every if len(question.written) <= LONGEST]
    folded = sum(each.question.formula.constant is not None for each in trial.asked_in_order)
    repeated = len(trial.asked_in_order) - folded - len(every)
    versions = (f"{package} {version(package).partition('+')[0]}" for package in ("torch", "transformers"))
    about = (
        f"{name}: {len(questions)} questions asked while tracing {type(model).__name__} ({build.__module__}.{name})",
        "with shapeproof.export at the example's sizes, in program order; Python syntax, one a line.",
        f"Left out: {folded} that were true or false as they stood; {repeated} repetitions (answered before, or",
        f"asked before with nothing learned since); {len(every) - len(questions)} longer than {LONGEST} characters.",
        f"Recorded with {', '.join(versions)}.",
    )
    return Recording(name, domain.formulas, trial.point, tuple(questions), about)


def main() -> None:
    """Record the models named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(RECORDED), metavar="recording", help=", ".join(RECORDED))
    parser.add_argument("--into", type=Path, default=CORPORA)
    options = parser.parse_args()
    if unknown := set(options.names) - RECORDED.keys():
        parser.error(f"unknown recording {', '.join(sorted(unknown))}; there are {', '.join(RECORDED)}")
    options.into.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        recording = record(name, RECORDED[name])
        (options.into / f"{name}.txt").write_text(recording.text, encoding="utf-8")
        print(f"{name}: {len(recording.questions)} questions")


if __name__ == "__main__":
    main()
