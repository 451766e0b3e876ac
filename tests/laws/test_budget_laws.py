"""Whatever is asked ends within its budget, counted: on formulas made to be too large for every step.

Three counters are held: Z3's, the points tried, and the work that the loops charge. As a loop might forget to charge,
Python's own function calls are counted, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.constraints.work import Meter, metered
from shapeproof.solver import prove
from shapeproof.solver.budget import Budget
from shapeproof.solver.ledger import one_ledger
from shapeproof.solver.sampled.points import true_at
from tests.thoroughness import examples

BUDGET = Budget(rlimit=300_000, exhaustion_points=5000, work=1_000_000)
LATE = 2.0
"""Z3 looks at its counter now and then."""
CALLS = 40
"""So many function calls are made for a step of work, at most."""
READING = 20_000
"""So many are made to read a text or to begin, whatever the budget."""

some = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))

NAMES = tuple("abcdefg")
_CONSTANTS = ("0", "1", "2", "-3", "7", "30000", "2**64", "2**9000", "10**3000", "-10**3000", "(a - a)")
_LEAVES = st.sampled_from([*NAMES, *NAMES, *_CONSTANTS])


def _chain(start, links):
    for link in links:
        start = link.format(start)
    return start


def _grow(operands):
    tower = st.lists(st.sampled_from([f"({{}})**{power}" for power in ("2", "3", "16", "64", "4096", "a")]), max_size=4)
    step = st.one_of(
        st.builds("({{}} + {})//{}".format, st.integers(0, 9), _LEAVES),
        st.builds("({{}}*{} - 1) % {}".format, _LEAVES, _LEAVES),
        st.builds("max({{}}//{}, 1)".format, _LEAVES),
    )
    chain = st.builds(lambda links, times: links * times, st.lists(step, min_size=1, max_size=3), st.integers(1, 12))
    sums = st.lists(operands, min_size=2, max_size=6).map(lambda parts: f"({' + '.join(parts)})")
    return st.one_of(
        st.builds(_chain, operands, tower.map(lambda links: [f"({link})" for link in links])),
        st.builds(_chain, operands, chain.map(lambda links: [f"({link})" for link in links])),
        st.lists(sums, min_size=2, max_size=14).map("*".join),
        st.builds(_euclid, operands, operands, st.integers(1, 16)),
        st.builds("(({}) << ({}))".format, operands, operands),
        st.builds("(({}) & ({}))".format, operands, operands),
        st.builds("int(({}) * 0.1)".format, operands),
        st.builds("(({}) if {} > 3 else ({}))".format, operands, _LEAVES, operands),
    )


def _euclid(left, right, turns):
    """What is left after so many turns of the Euclidean algorithm, short enough to be written down."""
    for _ in range(turns):
        left, right = right, f"({left}) % ({right})"
        if len(right) > 2_000:
            break
    return f"({right})"


integers = st.recursive(_LEAVES, _grow, max_leaves=6)
formulas = st.builds("({}) {} ({})".format, integers, st.sampled_from(["<=", "<", "==", "!="]), integers)
given_texts = st.one_of(
    formulas,
    st.builds("{} {} {}".format, st.sampled_from(NAMES), st.sampled_from([">=", "<="]), st.sampled_from(_CONSTANTS)),
    st.sampled_from(["a >= 1 and a <= 0", "a*a*a == 5 and 0 <= a <= 9", "a < b and b < c and c < a", "b // 0 == 1"]),
)


class _TooManyCalls(Exception):
    pass


@contextmanager
def at_most_calls(limit):
    """End what makes more function calls than this."""
    count = 0

    def profile(_frame, event, _arg):
        nonlocal count
        count += event in ("call", "c_call")
        if count > limit:
            sys.setprofile(None)
            raise _TooManyCalls(count)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


def spent_within(budget: Budget, times: float, act: Callable[[], object]) -> object:
    """What `act` returns, with what it may spend: so many budgets."""
    meter = Meter(10**12)
    with one_ledger() as ledger, metered(meter), at_most_calls(CALLS * budget.work * times + READING):
        result = act()
    assert 10**12 - meter.left <= times * budget.work + 10_000
    assert ledger.rlimit <= times * budget.rlimit * LATE
    assert ledger.points <= times * budget.exhaustion_points
    return result


def readable(text):
    """The formula; None where it is too large to be read, which is said in one sentence."""
    said = ""
    try:
        return parse_formula(text)
    except UsageError as error:
        said = str(error)
    assert said
    assert "\n" not in said
    return None


@pytest.mark.thorough
@some
@given(formulas, st.lists(given_texts, max_size=4))
def test_every_question_ends_within_its_budget(text, facts):
    if None in [readable(each) for each in (text, *facts)]:
        return
    # learning and searching for a point take a half each, at most, and the question a whole
    verdict = spent_within(BUDGET, 2.5, lambda: prove(text, given=facts, budget=BUDGET))
    assert str(verdict)
    if verdict.status == "refuted":
        assert true_at(parse_formula(text), verdict.witness) is False
        assert all(holds(parse_formula(fact), verdict.witness) for fact in facts)
