from __future__ import annotations

import pytest
import torch

from benchmarks import corpus
from benchmarks.corpus import Question, load, parse
from benchmarks.record import RECORDED, Asked, distinct, record
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula

RECORDINGS = sorted(corpus.CORPORA.glob("*.txt"))


def asked(text, outcome=None, *, answered=False, learned=False):
    kind = "static" if outcome is None else "branch"
    return Asked(Question(parse_formula(text), kind, outcome, text), answered, learned)


def kept(*events):
    return [question.text for question in distinct(events)]


def test_everything_on_the_list_is_recorded_and_nothing_else():
    assert [path.stem for path in RECORDINGS] == sorted(RECORDED)


@pytest.mark.parametrize("path", [*RECORDINGS, corpus.GUARDS], ids=lambda path: path.stem)
def test_the_example_is_declared_and_takes_every_outcome(path):
    recording = load(path)
    learned = [question.learned for question in recording.questions if question.learned is not None]
    assert recording.questions
    assert [str(fact) for fact in (*recording.declared, *learned) if not holds(fact, recording.example)] == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_is_read_as_it_was_written(path):
    assert load(path).text == path.read_text(encoding="utf-8")
    assert path.stat().st_size < 300_000


@pytest.mark.thorough
def test_recording_again_gives_the_same_text():
    texts = {record("unet", RECORDED["unet"]).text for _ in range(2)}
    assert len(texts) == 1


class Asking(torch.nn.Module):
    """All questions are its own: the only size is an int, which no operator sees."""

    def forward(self, x, n):
        torch._check(n // 2 >= 3)
        if n % 4 == 0:
            x = x + 1
        for _ in range(2):
            if n // 4 != 2:
                x = x * 2
        return x if n >= 6 else -x


@pytest.mark.thorough
def test_what_is_recorded_is_what_the_model_asks():
    n = torch.export.Dim.DYNAMIC(min=1, max=64)
    recording = record("asking", lambda: (Asking(), (torch.zeros(3), 12), {}, {"x": None, "n": n}))
    assert (list(map(str, recording.declared)), recording.example) == (["n >= 1", "n <= 64"], {"n": 12})
    assert [question.text for question in recording.questions] == [
        "n >= 6  # asserted True",
        "n % 4 == 0  # branch True",
        "n//4 != 2  # branch True",
    ]
    assert "Left out: 0 that were true or false as they stood; 2 repetitions" in recording.text


def test_what_is_answered_is_not_asked_again():
    assert kept(asked("n >= 2", answered=True), asked("n >= 2", True, answered=True)) == ["n >= 2  # static"]


def test_what_is_open_is_asked_again_once_something_was_learned():
    again = asked("n >= 2")
    news = asked("m == 4", True, answered=True, learned=True)
    assert kept(again, again) == ["n >= 2  # static"]
    assert kept(again, news, again) == ["n >= 2  # static", "m == 4  # branch True", "n >= 2  # static"]


def test_a_decision_about_an_open_question_is_kept_and_what_is_constant_is_not():
    decided = asked("n >= 2", False, answered=True, learned=True)
    assert kept(asked("n >= 2"), decided, asked("n == n")) == ["n >= 2  # static", "n >= 2  # branch False"]


def test_the_file_of_swin_guards_is_a_recording_of_branches_that_were_taken():
    guards = load(corpus.GUARDS)
    assert len(guards.questions) == 437
    assert list(map(str, guards.declared)) == ["b >= 1 and b <= 64", "h >= 8 and h <= 1024", "w >= 8 and w <= 1024"]
    assert {(question.kind, question.outcome) for question in guards.questions} == {("branch", True)}
    assert guards.questions[2].written == "(w % 4) == 0"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("n >= 2  # guessed True", "x:2: after a question stands one of static, branch"),
        ("n >= 2  # assumed", "x:2: after a question stands one of static, branch"),
        ("n >= 2  # static True", "x:2: after a question stands one of static, branch"),
        ("n >=", "x:2: "),
    ],
)
def test_a_line_that_is_no_question_is_named(line, sentence):
    with pytest.raises(UsageError, match=sentence):
        parse(f"# Example: n=2. Declared: 1 <= n <= 9.\n{line}\n", "x")


def test_a_file_without_a_domain_is_no_recording():
    with pytest.raises(UsageError, match="x does not say"):
        parse("n >= 2\n", "x")
