"""The laws that make the solver's answers worthy of belief: every step agrees with trying all the points of a box."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.constraints.terms import symbol
from shapeproof.solver.answers.blame import reasons
from shapeproof.solver.answers.optimum import greatest_lower_bound, least_upper_bound
from shapeproof.solver.answers.witness import find, generic, smallest
from shapeproof.solver.budget import Budget
from shapeproof.solver.cases import proved_by_cases, refined
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.audit import auditing
from shapeproof.solver.learned.knowledge import within
from shapeproof.solver.learned.learning import split
from shapeproof.solver.learned.reduction import Reducer
from shapeproof.solver.prove import decide, truth
from shapeproof.solver.sampled.points import named, satisfies, true_at
from shapeproof.solver.search import search
from shapeproof.solver.smt import ask
from shapeproof.solver.smt.ask import Answer, Core, Session
from shapeproof.solver.smt.lower import script
from tests import strategies as s
from tests.thoroughness import examples

SIDE = 3
BOX = [parse_formula(f"-{SIDE} <= {name} <= {SIDE}") for name in s.NAMES]
POINTS = [dict(zip(s.NAMES, values, strict=True)) for values in product(range(-SIDE, SIDE + 1), repeat=len(s.NAMES))]

# In `make fuzz` as many as the profile says.
many = settings(max_examples=examples(300))
some = settings(max_examples=examples(100))
few = settings(max_examples=examples(50))

# What exports ask is far more regular than what can be drawn: both kinds are drawn.
_SHAPES = (
    "x % {a} == {b}", "({a}*x + y) % {c} == 0", "x // {a} >= {b}", "min(x // {a}, y) > {b}", "x == {a}*y",
    "x <= y*z", "x + y + z == {b}", "x*y % {a} == 0", "({a}*x*y) % {c} == 0", "x != {b}", "x <= y", "y <= z",
    "x == {b} or y == {b}", "not (x == {b} and y == {a})", "{a}*x + {c}*y == {b}*z", "x*y == x*z", "x % {c} != {b}",
    "x // {a} == y // {a}", "max(x, y) <= {b}", "x*y != 0", "x % y == 0", "y >= 1", "x >= 1", "z == x // {a}",
    "(x + {a} - 1)//{a}*{a} == y", "x*y >= {b}", "x - y < {b}", "(x if y > {b} else z) >= 0", "z*(x - y) == 0",
    "x*x == y", "x*y == z + {b}", "(y - x) % {a} <= {b}",
)  # fmt: skip
usual_texts = st.builds(
    lambda shape, a, b, c: shape.format(a=a, b=b, c=c),
    st.sampled_from(_SHAPES), st.integers(2, 6), st.integers(-3, 4), st.integers(2, 6),
)  # fmt: skip
fact_texts = st.one_of(usual_texts, usual_texts, usual_texts, s.formula_texts)
fact_lists = st.lists(fact_texts.map(parse_formula), max_size=5)
question_texts = st.one_of(usual_texts, s.formula_texts)
questions = question_texts.map(parse_formula)


def where(formulas, points=POINTS):
    """The points at which all the formulas hold; one that raises does not hold."""
    test = compiled(formulas, s.NAMES)
    return [point for point in points if test(*(point[name] for name in s.NAMES))]


def boxed(facts):
    return Facts([*BOX, *facts])


def defined_value(term, point):
    return s.outcome(lambda: evaluate(term, point))


@pytest.mark.thorough
@many
@given(fact_lists, s.integer_texts.map(parse_term))
def test_a_term_reduced_by_facts_keeps_its_value_where_they_hold(facts, term):
    known = boxed(facts)
    reduced = known.reduce(term)
    for point in where(known.formulas):
        value = defined_value(term, point)
        if isinstance(value, int):
            assert evaluate(reduced, named(known.known, point)) == value


@many
@given(fact_lists, questions)
def test_a_formula_reduced_by_facts_keeps_its_truth_where_they_hold(facts, question):
    known = boxed(facts)
    reduced = known.reduce(question)
    for point in where(known.formulas):
        value = s.outcome(lambda: holds(question, point))  # noqa: B023  (called at once)
        if isinstance(value, bool):
            assert holds(reduced, named(known.known, point)) == value


@pytest.mark.thorough
@many
@given(fact_lists, st.booleans(), st.data())
def test_knowledge_says_neither_more_nor_less_than_the_facts(facts, at_once, data):
    known = boxed(facts) if at_once else Facts()
    for fact in () if at_once else data.draw(st.permutations([*BOX, *facts])):
        known.learn(fact)
    holding = where(known.formulas)
    assert not (known.known.contradiction and holding)
    for point in POINTS:
        whole = named(known.known, point)
        inside = not known.known.contradiction and whole is not None and satisfies(known.known, whole)
        inside = inside and all(defined_value(term, whole) == whole[name] for name, term in known.known.solved.items())
        assert inside == (point in holding)


@some
@given(fact_lists, questions, st.sampled_from(s.NAMES), st.integers(2, 5))
def test_splitting_a_symbol_into_quotient_and_rest_says_neither_more_nor_less(facts, question, name, modulus):
    known = boxed(facts)
    assume(name not in known.known.solved and not known.known.contradiction)
    finer = split(known.known, name, modulus)
    reduced = Reducer(finer).reduce(question)
    holding = where(known.formulas)
    assert not (finer.contradiction and holding)
    for point in holding:
        whole = named(finer, point)
        assert satisfies(finer, whole)
        assert all(evaluate(term, whole) == whole[each] for each, term in finer.solved.items())
        value = s.outcome(lambda: holds(question, point))  # noqa: B023  (called at once)
        if isinstance(value, bool):
            assert holds(reduced, whole) == value


@some
@given(fact_lists, questions)
def test_a_symbol_split_before_more_is_learned_says_neither_more_nor_less_after_it(facts, question):
    known = boxed([])
    for fact in facts:
        known.learn(fact)
        finer_question, finer = refined(known.reduce(question), known.known)
        holding = where(known.formulas)
        assert not (finer.contradiction and holding)
        for point in holding:
            whole = named(finer, named(known.known, point))
            assert satisfies(finer, whole)
            value = s.outcome(lambda: holds(question, point))  # noqa: B023  (called at once)
            if isinstance(value, bool):
                assert holds(finer_question, whole) == value
        proved = proved_by_cases(finer_question, finer, 64)
        if proved is not None:
            outcomes = [s.outcome(lambda: holds(question, point)) for point in holding]  # noqa: B023
            assert False not in outcomes


@some
@given(fact_lists, st.lists(s.integer_texts.map(parse_term), max_size=3))
def test_bounds_do_not_depend_on_what_was_asked_before(facts, terms):
    known, states, first = boxed([]), [], []
    for fact in facts:
        known.learn(fact)
        states.append(known.known)
        first.append([known.known.bounds(known.reduce(term)) for term in terms])
    for state, bounds in reversed([*zip(states, first, strict=True)]):
        reducer, again = Reducer(state), state.copy()
        assert [again.bounds(reducer.reduce(term)) for term in terms] == bounds


@pytest.mark.thorough
@few  # Z3 is asked of every step of every example
@given(fact_lists, st.lists(questions, max_size=2))
def test_z3_refutes_nothing_that_the_cheap_steps_claimed(facts, asked):
    with auditing() as auditor:
        known = boxed(facts)
        for question in asked:
            truth(question, known)
    assert auditor.check(Budget(rlimit=200_000))["refuted"] == []


@many
@given(s.wide_integer_texts, s.boxes(), st.data())
def test_sharpened_bounds_hold_every_value(text, ranges, data):
    term = parse_term(text)
    facts = Facts(formula for name, interval in ranges.items() for formula in within(symbol(name), interval))
    value = defined_value(term, data.draw(s.points_in(ranges)))
    if isinstance(value, int):
        assert value in facts.known.bounds(facts.reduce(term))


@many
@given(fact_lists)
def test_ranges_hold_every_point_of_the_facts(facts):
    known = boxed(facts)
    for point in where(known.formulas):
        assert all(point[name] in interval for name, interval in known.ranges.items())


@pytest.mark.thorough
@many
@given(fact_lists, questions)
def test_the_ladder_agrees_with_trying_every_point(facts, question):
    known = boxed(facts)
    holding = where(known.formulas)
    good = where([question], holding)
    failing = [point for point in holding if point not in good]
    verdict = decide(question, known)
    expected = "vacuous" if not holding else "refuted" if failing else "proved"
    assert verdict.status == expected
    if failing:
        assert {name: verdict.witness[name] for name in s.NAMES} in failing


@pytest.mark.thorough
@many
@given(fact_lists, questions)
def test_truth_agrees_with_trying_every_point(facts, question):
    known = boxed(facts)
    holding = where(known.formulas)
    yes, no = where([question], holding), where([question.negation], holding)
    answer = truth(question, known)
    assert answer.vacuous == (not holding)
    if holding:
        assert (answer.always is True) == (len(yes) == len(holding))
        assert (answer.always is False) == (len(no) == len(holding))
        assert answer.undecided == (answer.always is None and not (yes and len(yes) < len(holding)))
        assert answer.witness_true is None or true_at(question, answer.witness_true)
        assert answer.witness_false is None or not true_at(question, answer.witness_false)
        for witness in (answer.witness_true, answer.witness_false):
            assert witness is None or {name: witness[name] for name in s.NAMES} in holding


@many
@given(fact_lists, questions)
def test_without_a_box_nothing_false_is_claimed(facts, question):
    known = Facts(facts, Budget(rlimit=60_000, exhaustion_points=1_000))
    near = where(facts)
    verdict = decide(question, known)
    match verdict.status:
        case "proved":
            assert all(true_at(question, point) for point in near)
        case "refuted":
            assert all(holds(fact, verdict.witness) for fact in facts)
            assert true_at(question, verdict.witness) is False
        case "vacuous":
            assert not near


@some
@given(fact_lists, questions)
def test_each_step_alone_agrees_with_trying_every_point(facts, question):
    known = boxed(facts)
    holding = where(known.formulas)
    assume(holding and all(isinstance(s.outcome(lambda p=point: holds(question, p)), bool) for point in holding))
    valid = all(holds(question, point) for point in holding)
    reduced = known.reduce(question)
    assert reduced.constant in ((True, None) if valid else (None, False))
    assert valid or proved_by_cases(reduced, known.known, 128) is None
    assert not valid or search(reduced.negation, question.negation, known) is None
    cone = known.known.cone(reduced.symbols)
    for attempt in (*ask.QUICK, *ask.THOROUGH):
        found = ask.satisfy([*cone, reduced.negation], known.known.bounds, Budget(300_000), known.ledger, [attempt])
        assert found.answer in ((Answer.UNSAT, Answer.UNKNOWN) if valid else (Answer.SAT, Answer.UNKNOWN))


@pytest.mark.thorough
@many
@given(questions, s.points)
def test_lowering_agrees_with_evaluation(question, point):
    value = s.outcome(lambda: holds(question, point))
    assume(isinstance(value, bool))
    here = [parse_formula(f"{name} == {number}") for name, number in point.items()]
    for quotients in (True, False):
        session = Session(script([*here, question], Facts().known.bounds, quotients=quotients).text, Core.SMT)
        assert session.check(1_000_000) is (Answer.SAT if value else Answer.UNSAT)


@many
@given(st.lists(question_texts.map(parse_formula), min_size=1, max_size=3), s.points)
def test_compiled_formulas_agree_with_evaluation(asked, point):
    test = compiled(asked, s.NAMES)
    assert test(*(point[name] for name in s.NAMES)) == all(bool(true_at(formula, point)) for formula in asked)


def _smallness(point, order):
    sizes = [abs(point[name]) for name in order]
    return max(sizes), sum(sizes), [(abs(point[name]), point[name] < 0) for name in order]


@some
@given(fact_lists, questions, st.permutations(s.NAMES))
def test_a_smallest_witness_is_the_smallest_of_all(facts, question, order):
    known = boxed(facts)
    candidates = where([*known.formulas, question])
    found = smallest(question, known, order)
    if candidates:
        best = min(candidates, key=lambda point: _smallness(point, order))
        assert {name: found[name] for name in s.NAMES} == best
    else:
        assert found is None or isinstance(found, Undecided)


@some
@given(fact_lists, s.integer_texts.map(parse_term))
def test_bounds_over_a_domain_are_attained_and_not_exceeded(facts, term):
    known = boxed(facts)
    holding = where(known.formulas)
    values = [defined_value(term, point) for point in holding]
    assume(values and all(isinstance(value, int) for value in values))
    assert least_upper_bound(term, known) == max(values)
    assert greatest_lower_bound(term, known) == min(values)


@pytest.mark.thorough
@some
@given(fact_lists, st.lists(st.tuples(questions, st.integers(0, 2)), max_size=4))
def test_reasons_imply_the_rest_and_none_of_them_is_spare(facts, decisions):
    known = boxed(facts)
    chosen = [decisions[index][0] for index in reasons(decisions, known)]
    all_of_them = where([*known.formulas, *(formula for formula, _ in decisions)])
    assert where([*known.formulas, *chosen]) == all_of_them
    for index in range(len(chosen)):
        assert where([*known.formulas, *chosen[:index], *chosen[index + 1 :]]) != all_of_them


@some
@given(fact_lists, questions, st.integers(0, 4))
def test_a_conclusion_is_never_claimed_when_a_fact_is_taken_away(facts, question, gone):
    assume(gone < len(facts))
    more = boxed(facts)
    truth(question, more)
    fewer = boxed(facts[:gone] + facts[gone + 1 :])
    holding = where(fewer.formulas)
    answer = truth(question, fewer)
    assert answer.always is not True or all(true_at(question, point) for point in holding)
    assert answer.always is not False or not any(true_at(question, point) for point in holding)


@pytest.mark.thorough
@some
@given(fact_lists, fact_lists, questions)
def test_forks_do_not_hear_of_each_other(facts, others, question):
    trunk = boxed(facts)
    before = decide(question, trunk).status
    branch = trunk.fork()
    for other in others:
        branch.learn(other)
    assert decide(question, branch).status == decide(question, boxed([*facts, *others])).status
    assert decide(question, trunk).status == before == decide(question, boxed(facts)).status


@some
@given(fact_lists)
def test_samples_and_generic_points_satisfy_all_facts(facts):
    known = boxed(facts)
    assert all(holds(fact, point) for fact in known.formulas for point in known.samples())
    point = generic(known, s.NAMES)
    assert (point is None) == (not where(known.formulas))
    assert point is None or all(holds(fact, point) for fact in known.formulas)
    assert known.contradictory == (point is None)


@some
@given(fact_lists, questions)
def test_find_finds_or_proves_that_there_is_nothing(facts, question):
    known = boxed(facts)
    found = find(question, known)
    if where([*known.formulas, question]):
        assert holds(question, found)
    else:
        assert found is None or isinstance(found, Undecided)


@some
@given(fact_lists, st.lists(questions, min_size=1, max_size=6))
def test_what_is_learned_on_the_way_is_used_and_nothing_else(facts, path):
    """A program whose later decisions depend on earlier ones: each is decided where all before it are taken as true."""
    known = boxed(facts)
    for decision in path:
        holding = where(known.formulas)
        answer = truth(decision, known)
        if not holding:
            assert answer.vacuous
            return
        assert (answer.always is True) == all(true_at(decision, point) for point in holding)
        known.learn(decision)
