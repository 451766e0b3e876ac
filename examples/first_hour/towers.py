"""Two towers, as in retrieval: questions and answers, each embedded, and how well they fit within the batch.

Declared: a batch for each tower, as people first write it. A question is scored against its own answer, so that the
two are equal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

VOCABULARY, WIDTH = 500, 16


class Tower(nn.Module):
    """Token ids [batch, length], 0 for padding, to unit vectors [batch, width]."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.mix = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        """The mean over what is not padding, mixed and normalised."""
        kept = (tokens != 0).unsqueeze(-1)
        mean = (self.tokens(tokens) * kept).sum(1) / kept.sum(1).clamp(min=1)
        return functional.normalize(self.mix(mean), dim=-1)


class TwoTowers(nn.Module):
    """Questions and answers to their scores: of each question with its answer, and with all answers."""

    def __init__(self) -> None:
        super().__init__()
        self.question, self.answer = Tower(), Tower()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, questions: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """Own scores [batch] and all scores [batch, batch]."""
        left, right = self.question(questions), self.answer(answers)
        every = self.scale * left @ right.T
        return (left * right).sum(-1) * self.scale, every.log_softmax(-1)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    questions = {0: Dim("questions", min=2, max=64), 1: Dim("length", min=1, max=128)}
    answers = {0: Dim("answers", min=2, max=64), 1: Dim("answer_length", min=1, max=256)}
    arguments = (torch.randint(1, VOCABULARY, (4, 7)), torch.randint(1, VOCABULARY, (4, 11)))
    return TwoTowers().eval(), arguments, {}, {"questions": questions, "answers": answers}
