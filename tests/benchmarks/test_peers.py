"""Each peer on small questions, in a process of its own. Those that are not installed here are left out."""

from __future__ import annotations

import pytest

from benchmarks.peers.processes import ENVIRONMENTS, OURS, PEERS, NotInstalledError, Spec, answers, interpreter
from benchmarks.peers.worker import Answer, Session, Step, converse

INSTALLED = [
    spec for spec in PEERS if spec.requirement is None or (ENVIRONMENTS / spec.requirement / "installed").exists()
]


def session(*steps, name="x", seconds=60.0):
    questions = tuple(Step(*step) if isinstance(step, tuple) else Step(step) for step in steps)
    declared = ("2 <= n", "n <= 64", "2 <= m", "m <= 64")
    return Session(name, declared, {"n": (2, 64), "m": (2, 64)}, {"n": 12, "m": 7}, questions, seconds)


def given(spec, *sessions):
    return [[each.answer for each in group] for group in answers(spec, sessions)]


class Parrot:
    """A peer that answers with the last fact, and cannot stand cats."""

    def __init__(self):
        self.known = "unknown"

    def read(self, text):
        if "cat" in text:
            raise ValueError(text)
        return text

    def ask(self, question):
        if question == "raise":
            raise RuntimeError
        return self.known

    def learn(self, fact):
        self.known = fact


def test_facts_are_learned_in_order_and_what_raises_is_unsupported():
    asked = Session("x", ("always",), {}, {}, (Step("a"), Step("b", "never"), Step(None, "cat"), Step("c")), 60.0)
    assert [each.answer for each in converse(asked, Parrot())] == ["always", "always", "never"]
    asked = Session("x", (), {}, {}, (Step("cat"), Step("raise", "always"), Step("a")), 60.0)
    assert [each.answer for each in converse(asked, Parrot())] == ["unsupported", "unsupported", "always"]


def test_nothing_is_asked_when_the_time_is_up():
    assert not list(converse(Session("x", (), {}, {}, (Step("a"),), -1.0), Parrot()))


def test_sessions_and_answers_survive_the_way():
    asked = session("n >= 2", (None, "n == 4"))
    assert Session.from_json(asked.to_json()) == asked


@pytest.fixture(scope="module", params=INSTALLED, ids=lambda spec: spec.name)
def heard(request):
    """The peer, and its answers to all that is asked below: a process takes seconds to start."""
    sessions = [
        session("n + 2 <= 66 and m >= 2", "n >= 65 or m*1 < 2"),
        session(("n >= 9", "n >= 9"), "n >= 9"),
        session("n >= 9"),
        session("n % 4 == 0", "n <= m", "n == 12"),
        session(*FORMS),
        Session("ones", ("1 <= n", "n <= 64"), {"n": (1, 64)}, {"n": 12}, (Step("n != 1"),), 60.0),
    ]
    return request.param.name, given(request.param, *sessions)


FORMS = (
    "(n*m) // m >= 2",
    "min(n, m) <= n",
    "n % 4 < 4",
    "max(n, 65) >= 65",
    "n**2 >= 4",
    "-n <= -2",
    "n < 65 or m > n",
)


def test_what_everyone_knows(heard):
    assert heard[1][0] == ["always", "never"]


def test_a_bound_is_learned_and_forgotten_in_the_next_session(heard):
    first, second = heard[1][1:3]
    assert first[0] in {"unknown", "depends"}
    assert first[1] == "always"
    assert second[0] in {"unknown", "depends"}


def test_whoever_looks_for_both_sides_says_that_it_depends(heard):
    name, every = heard
    if name in {"shapeproof", "Z3, plain"}:
        assert every[3] == ["depends"] * 3
    # JAX answers `==` with False where it does not know.
    assert set(every[3]) <= {"depends", "unknown"} | ({"never"} if name == "jax.export" else set())


def test_no_form_of_a_question_is_beyond_a_peer_or_answered_wrongly(heard):
    # How much a peer proves is its own business; that its operators mean Python's is ours.
    assert set(heard[1][4]) <= {"always", "unknown"}


def test_ours_names_the_step_and_shows_both_sides():
    known, depends = answers(OURS, [session("n//4 >= 0", "n >= 3")])[0]
    assert (known.step, known.witnesses) == ("facts", ())
    assert sorted(point["n"] >= 3 for point in depends.witnesses) == [False, True]


def test_two_take_for_granted_that_no_size_is_1(heard):
    name, every = heard
    assert (every[5] == ["always"]) == (name in {"torch ShapeEnv", "jax.export"})


def test_whoever_dies_has_answered_what_it_had_answered():
    assert given(Spec("nobody", "benchmarks.peers.nobody"), session("n >= 2", "m >= 2"), session("n >= 2")) == [
        ["late", "late"],
        ["late"],
    ]


@pytest.mark.thorough
def test_what_cannot_be_installed_is_named_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.processes.ENVIRONMENTS", tmp_path)
    with pytest.raises(NotInstalledError, match=r"nobody is left out: `pip install ./no such file.whl` failed: "):
        interpreter(Spec("nobody", "benchmarks.peers.nobody", (), "./no such file.whl"))


def test_an_answer_counts_what_it_took():
    every = answers(OURS, [session("n//4 >= 0")])[0]
    assert all(isinstance(each, Answer) and each.deciding > 0 and each.around > 0 for each in every)
