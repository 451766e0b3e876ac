"""domain.py, decisions.py, verdicts.py, diagnostics.py, evaluate.py, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shapeproof.constraints.meaning.evaluate import defined, holds
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.records.domain import Declaration, Domain, Origin, Variable
from shapeproof.constraints.records.verdicts import Evidence, Proved, Refuted, Undecided, Vacuous, Verdict
from shapeproof.constraints.syntax.text import parse_any, parse_formula


def domain(*texts):
    return Domain({}, tuple(Declaration(parse_formula(text), Origin(text)) for text in texts))


def test_ranges_come_from_bounds_that_are_written_as_such():
    found = domain("1 <= b <= 64", "2*h >= 15", "n == 3", "b < 33", "b + h < 9", "w != 1", "k <= 3 or k >= 5").ranges()
    assert found == {"b": Interval(1, 32), "h": Interval(8, None), "n": Interval(3, 3)}


def test_contradictory_bounds_are_an_empty_range():
    assert domain("b < 1", "b > 1").ranges()["b"].is_empty


def test_a_domain_knows_the_names_of_the_user():
    declared = Domain({"s0": Variable("s0", "x.shape[0]", "size")})
    assert declared.user_names == {"s0": "x.shape[0]"}


def test_a_decision_takes_the_formula_or_its_opposite():
    asked = parse_formula("n < 2")
    where = SourceLocation("model.py", 3, "if n < 2:")
    assert Decision(asked, Kind.BRANCH, outcome=True, where=where).taken is asked
    assert Decision(asked, Kind.BRANCH, outcome=False).taken is parse_formula("n >= 2")
    assert str(where) == "model.py:3"


@pytest.mark.parametrize(
    ("verdict", "status", "witness"),
    [
        (Proved(Evidence("z3")), "proved", None),
        (Refuted({"n": 1}, Evidence("evaluation", "corner")), "refuted", {"n": 1}),
        (Undecided("out of budget", 10), "undecided", None),
        (Vacuous(("n < 1", "n > 1")), "vacuous", None),
    ],
)
def test_verdicts(verdict, status, witness):
    assert isinstance(verdict, Verdict)
    assert verdict.status == status
    assert verdict.witness == witness
    assert (verdict.evidence is None) == (status in {"undecided", "vacuous"})


def test_evidence_reads_as_a_step_and_a_detail():
    assert str(Evidence("z3")) == "z3"
    assert str(Evidence("evaluation", "corner of the box")) == "evaluation: corner of the box"


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("x//y", "y != 0"),
        ("x//4", "True"),
        ("x//y - x//y", "y != 0"),
        ("x//(y//z)", "z != 0 and y//z != 0"),
        ("x//y if y > 0 else 0", "y <= 0 or y != 0"),
        ("y != 0 and x//y > 0", "True"),
        ("x//y > 0 and y != 0", "y != 0"),
        ("x//y > 0 or x//z > 0", "y != 0 and (x//y > 0 or z != 0)"),
        ("x << y", "y >= 0"),
        ("2**y", "y >= 0"),
        ("int(x/y)", "y != 0"),
        ("int(1.0/x)", "x != 0"),
        ("sqrt(x*0.5) < y", "float(x) * 0.5 >= 0.0"),
        ("int(log(x))", "x >= 1"),
    ],
)
def test_defined(text, condition):
    found = defined(parse_any(text))
    assert found is parse_formula(condition)
    assert defined(found).constant is True or holds(defined(found), dict.fromkeys("xyz", 0))


def test_importing_the_room_loads_the_standard_library_only():
    program = (
        "import sys, shapeproof.constraints.syntax.text\n"
        "from shapeproof.constraints.records import domain, verdicts\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )
    result = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.')\n{program}"],
                            capture_output=True, text=True, check=True)  # fmt: skip
    assert result.stdout.strip() == "['__main__', 'shapeproof']"
