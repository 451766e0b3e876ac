"""The ShapeEnv that asks the solver and records decisions.

torch asks its ShapeEnv about sizes in four ways: what is statically known, which side of a branch to take, whether a
check may be assumed, and what a fresh symbol may be. Each question is translated into a formula and put to the trial.
Torch's own sympy rules answer no question, no guard is produced, and no symbol is replaced by its hint.
size_symbols.py makes the symbols, and knows their meanings; this file sees the expressions over them.

Which side of a branch to take is told by the first of these that applies (`_side`):

torch's fallback   where torch only describes a tensor to itself                     shim/callers.py
the check          where one side of a question about data raises                    checks/raising.py
either answer      where an operator views a tensor, whose sizes mean the same        ops/table.py
the trial          everywhere else: by its facts, torch's fallback or its point       trial.py
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.intervals import Bounds
from shapeproof.constraints.reals import RealConstant
from shapeproof.constraints.records.decisions import Kind
from shapeproof.constraints.terms import Term, symbol
from shapeproof.constraints.work import unmetered
from shapeproof.export.ops import schemas
from shapeproof.export.ops.output_sizes import ranged
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim import callers
from shapeproof.export.shim.numbers.doubles import literal
from shapeproof.export.shim.numbers.sym_nodes import exact, powers
from shapeproof.export.shim.numbers.symbols import ASSERTION, PROMISED, is_unbacked, value_range
from shapeproof.export.source import frames
from shapeproof.export.source.abstract import is_a, locals_of
from shapeproof.export.source.frames import Place
from shapeproof.export.source.handlers import Handlers
from shapeproof.export.trace.checks import failures
from shapeproof.export.trace.checks.raising import CheckWriter, message_at, side_that_raises
from shapeproof.export.trace.python.plain_numbers import place_of
from shapeproof.export.trace.python.rejoining import where_apart
from shapeproof.export.trace.rebinding import Left
from shapeproof.export.trace.size_symbols import SizeSymbols
from shapeproof.export.trace.translate import Untranslatable, simpler
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import QUESTIONS
from shapeproof.wording import line_text

if TYPE_CHECKING:
    from shapeproof.export.trace.calls.operators import Operators


class ProofShapeEnv(SizeSymbols):
    """A ShapeEnv whose questions go to a trial.

    Law: once the trace is over, no mode, tensor or program can be reached from here. A fake tensor holds its sizes, and
    so this object, in C++, where the collector of Python sees no circle: what could be reached would never be freed.
    """

    mode: Callable[[], Any]  # a weak reference, set by `recording_mode`, which makes the mode
    operators: Operators  # set by `recording_mode`, too
    left = Left()
    row: Callable[[torch.Tensor, Any], torch.Tensor | None] | None = None
    """While the body of a loop is recorded: the row of a tensor at an index, None for an index without the step."""

    def __init__(self, trial: Trial, sizes: Mapping[str, tuple[Term, ...]]) -> None:
        super().__init__(trial, sizes)
        lower = [f.ge(symbol(name), b.lower) for name, b in trial.known.ranges.items() if b.lower is not None]
        self._form = functools.cache(functools.partial(simpler, self.translator, self.writer, Facts(lower)))
        self.handlers = Handlers(lambda: self._place().user)
        self.checks = CheckWriter(lambda: get_proxy_mode() is not None)
        self.rounded: set[Any] = set()
        """The storages of results that equal torch's only up to rounding."""
        self.perhaps_the_same: list[tuple[torch.Tensor, torch.Tensor]] = []
        """What a loop begins with, and what it returns, where it may have no step."""
        self._open: set[Formula] = set()
        self._body: callers.Body | None = None
        self._asked: object = None  # torch's node for the number in the present question

    @contextlib.contextmanager
    def running(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Iterator[None]:
        """Inside this block, an operator runs: it asks the questions, and the symbols are made for its results."""
        self._keep_apart()
        with super().running(func, args, kwargs):
            yield

    def replace(self, expr: Any) -> Any:  # type: ignore[override]
        """Return the form of an expression that torch computes with; sympy need not simplify it, and could not.

        torch.cond wants strides to be products of sizes: torch's `Max(1, s)` for a fresh tensor is `s` where no size is
        0. Torch and this class cache the form: it depends on the expression alone.
        """
        expr = super().replace(expr) if self.replacements else expr
        return self._form(expr) if isinstance(expr, sympy.Expr) else expr

    def keep_written(self, is_known: Callable[[Any], bool]) -> None:
        """Keep the known sizes as they are written from now on, with their bounds."""
        form = self._form
        self._form = lambda expr: expr if is_known(expr) else form(expr)  # type: ignore[assignment]
        self.forget_operations()

    def simplify(self, expr: Any, size_oblivious: bool = False) -> Any:  # type: ignore[override]
        """Return `replace(expr)`: expressions are simplified as terms where it matters; torch keeps its form."""
        return self.replace(expr)

    def about_data(self, expr: sympy.Basic) -> bool:
        """True if an expression contains a data symbol."""
        return any(map(is_unbacked, expr.free_symbols))

    def constrain_symbol_range(self, s: sympy.Symbol, compiler_min: int, compiler_max: int) -> None:  # type: ignore[override]
        """Take an operator's bounds for a fresh symbol; bounds that torch's own operators keep are facts."""
        _constrain(self, s, compiler_min, compiler_max)
        if self._running and not schemas.is_trusted(self._running[-1].func):
            self._check_range(s, compiler_min, compiler_max)
            return
        for promise in (*ranged(self._term(s), compiler_min, compiler_max), *callers.merged(self._term(s), self.read)):
            self.trial.learn(promise)

    def _check_range(self, s: sympy.Symbol, low: int, high: int) -> None:
        """Have the program check bounds that a user's operator states for its result, or the user for a number."""
        value = torch.SymInt(SymNode(s, self, int, None))
        for bound in ranged(self._term(s), low, int_oo):
            self.must_hold(bound, lambda: value >= int(low))
        for bound in ranged(self._term(s), -int_oo, high):
            self.must_hold(bound, lambda: value <= int(high))

    @contextlib.contextmanager
    def asking(self, trial: Trial) -> Iterator[None]:
        """Inside this block, all questions go to another trial; afterwards the state is as before."""
        mine, values, ranges = self.trial, dict(self.backed_var_to_val), dict(self.var_to_range)
        self.trial = trial
        self.move(trial.point)
        try:
            with self.ignore_fresh_unbacked_symbols(), self.checks.apart():
                yield
        finally:
            self.trial = mine
            self.backed_var_to_val.update(values)
            self.var_to_range = ranges

    def evaluate_expr(  # noqa: PLR0913 - torch's signature
        self,
        orig_expr: sympy.Basic,
        hint: float | None = None,
        fx_node: object = None,
        size_oblivious: bool = False,
        fallback_value: bool | None = None,
        *,
        forcing_spec: bool = False,
    ) -> sympy.Basic:
        """Answer a question that decides which program is traced."""
        if orig_expr.is_number or orig_expr in (sympy.true, sympy.false):
            return orig_expr
        self._keep_apart()
        try:
            return self._evaluate(orig_expr, fallback=fallback_value, size_oblivious=size_oblivious)
        except Untranslatable as error:
            self.handlers.must_not_catch(None, "torch's question")
            if self.about_data(orig_expr):
                raise self._make_data_dependent_error(orig_expr, orig_expr) from None
            raise NotImplementedError(f"what {orig_expr} is cannot be told: {error}") from None

    def evaluate_sym_node(
        self,
        sym_node: SymNode,
        size_oblivious: bool = False,
        fallback_value: bool | None = None,
    ) -> sympy.Basic:
        """Answer a question about a symbolic number, and remember the number's node."""
        self._asked = sym_node
        return super().evaluate_sym_node(sym_node, size_oblivious, fallback_value)

    def _evaluate(self, expr: sympy.Basic, *, fallback: bool | None, size_oblivious: bool) -> sympy.Basic:
        if not _is_condition(expr):
            _must_know(lambda: False)
            return literal(self.trial.value(self.translator.number(expr), self._place))
        return sympy.true if self._side(expr, fallback=fallback, size_oblivious=size_oblivious) else sympy.false

    def _side(self, expr: sympy.Basic, *, fallback: bool | None, size_oblivious: bool) -> bool:
        """Return the side of a branch; the top of this file lists what tells it."""
        formula = self.translator.formula(expr)
        _must_know(lambda: self.trial.settled(formula) is not None)
        if fallback is not None and self.innermost is None and callers.noting():
            return fallback
        checked = self._checked(formula, expr) if fallback is None and self.about_data(expr) else None
        if checked is not None:
            return checked
        if fallback is not None and known_of(self.innermost).view is not None:
            return self._viewed(formula, fallback=fallback)
        kind = Kind.BRANCH if fallback is None and not size_oblivious else Kind.ASSUMED
        apart = self._apart if self.innermost is None else None
        ask = functools.partial(self.trial.choose, formula, kind, self._place, fallback=fallback, apart=apart)
        return _logged(self.trial, formula, ask, self._place)

    def _apart(self, outcome: bool) -> Formula | None:
        """Return where a branch has an effect on its other side, and note it if both sides could be computed."""
        where = where_apart(self._asked, self.read, outcome)
        for frame in frames.model_frames()[:1] if where is not f.FALSE else ():
            from shapeproof.export.trace.python.loops import numbers_at

            numbers, local = numbers_at(frame.f_code, frame.f_lineno), locals_of(frame)
            if numbers is not None and not any(is_a(local.get(name), torch.Tensor) for name in numbers):
                self.trial.branches.add(place_of(frame.f_code))
        return where

    def note_walk(self, tensor: torch.Tensor) -> None:
        """Note a function that walks over the rows of a tensor, if its loop could be recorded by one step."""
        symbolic = tensor.dim() and isinstance(tensor.shape[0], torch.SymInt)
        for frame in frames.model_frames()[:1] if symbolic and self.row is None else ():
            from shapeproof.export.trace.python.loops import has_rolled

            if has_rolled(frame.f_code):
                self.trial.loops.add(place_of(frame.f_code))

    def _viewed(self, formula: Formula, *, fallback: bool) -> bool:
        """Answer a question of an operator that views a tensor: its sizes mean the same under either answer.

        An open question stays open even when more is known: torch runs a graph again, and must find the same symbols.
        """
        known = None if formula in self._open else self.trial.settled(formula, self.trial.shared.views)
        if known is None:
            self._open.add(formula)
        return fallback if known is None else known

    def _checked(self, formula: Formula, expr: sympy.Basic) -> bool | None:
        """Return the answer to a question about data that is a check, since one of its sides raises; else None."""
        condition = self._condition(expr)
        side, text = side_that_raises(self.trial, formula, self._place, failing=frames.side_that_fails())
        if side is False:
            return self.must_hold(formula, condition, text)
        return not self.must_hold(f.negate(formula), lambda: torch.sym_not(condition()), text) if side else None

    def guard_or_defer_runtime_assert(  # type: ignore[override]
        self,
        orig_expr: sympy.Basic,
        msg: str,
        fx_node: object = None,
    ) -> bool:
        """Answer a check that eager makes, too; a check on data becomes an assertion of the program."""
        if orig_expr in (sympy.true, sympy.false):
            return bool(orig_expr)
        power = powers()
        if self.checks.writing or (power is not None and self._is_real(*power)):
            return True
        self._asked = sys._getframe(1).f_locals.get("self")
        return self.must_hold(self.translator.formula(orig_expr), self._condition(orig_expr))

    def _is_real(self, base: torch.SymFloat, whole: bool) -> bool:
        """True if a power is known to be real; an unknown one is refused if its base comes from data."""
        expr = base.node.expr
        positive = f.real_compare("<=", RealConstant(0.0), self.translator.number(expr))
        known = whole or self.trial.settled(positive) is True
        if not known and self.about_data(expr):
            raise NotImplementedError(failures.COMPLEX)
        return known

    def _condition(self, expr: sympy.Basic) -> Callable[[], torch.SymBool]:
        """Return the symbolic bool in question: the caller's node, which the graph computes as Python wrote it."""
        asked = self._asked
        if not isinstance(asked, SymNode) or asked.expr is not expr:
            asked = exact(SymNode(expr, self, bool, None))
        return lambda: torch.SymBool(asked)

    def must_hold(self, formula: Formula, condition: Callable[[], Any], message: str | None = None) -> bool:
        """Answer a check; a check on data that is not known to hold becomes an assertion of the program."""
        _must_know(lambda: self.trial.settled(formula) is True)
        before, on_data = len(self.trial.learned.checks), self.trial.about_data(formula)
        made = condition() if on_data else None  # made before the fact is learned, which would turn it into True
        self._keep_apart(entering=on_data)
        ask = functools.partial(self.trial.check, formula, self._place, lambda: message or self._message(formula))
        passed = _logged(self.trial, formula, ask, self._place)
        if len(self.trial.learned.checks) > before and self._is_run_again():
            self.trial.learned.checks.pop()
        elif len(self.trial.learned.checks) > before and made is not None:
            kinds = failures.of_check(message, self.innermost, is_assert=lambda: frames.side_that_fails() is not None)
            self.handlers.must_not_catch(kinds, "the check")
            self.checks.add(made, self.trial.learned.checks[-1].message)
            self._refine(made.node.expr)
            self.write_checks()
        return passed

    def _message(self, formula: Formula) -> str:
        """Return the message of a check: that of the assertion which asks, where a graph is traced again, else ours."""
        running = self._running[-1] if self._running else None
        own = str(running.args[1]) if running is not None and running.func is ASSERTION else PROMISED
        return message_at(self._place().user, formula) if own.startswith(PROMISED) else own

    def _is_run_again(self) -> bool:
        """True if an assertion asks that a traced body has: torch runs the body again for the metadata of its results.

        The numbers of that run are in no graph; the check was recorded with the numbers of the body.
        """
        asserting = bool(self._running) and self._running[-1].func is ASSERTION
        return asserting and self._body is not None and self._ignore_fresh_unbacked_symbols_tls()

    def write_checks(self) -> None:
        """Record the checks on data that are not in the graph yet, unless an operator is being run."""
        if not self._running:
            self.checks.write()

    def _keep_apart(self, *, entering: bool = False) -> None:
        """Keep the checks of a body that may not run (a branch of torch.cond) as facts of that body alone."""
        if self._body is None and not entering:
            return
        here = callers.body()
        if self._body is not None and here != self._body:
            self.trial.leave()
            self.checks.drop()
            self._body = None
        if self._body is None and here is not None and entering:
            self.trial.enter()
            self._body = here

    def _refine(self, expr: sympy.Basic) -> None:
        """Tell torch the bounds of the data in a check: compilers plan memory by them."""
        for name in expr.free_symbols if self._body is None else ():
            if symbol_is_type(name, SymT.UNBACKED_INT):
                self.var_to_range[name] &= value_range(Bounds(self.trial.facts.ranges).of(self._term(name)))

    def _maybe_evaluate_static(  # type: ignore[override]
        self, expr: sympy.Basic, *, unbacked_only: bool = False, compute_hint: bool = False, **_: object
    ) -> sympy.Basic | None:
        """Return a value that is known without a decision; None if there is none."""
        if expr.is_number or expr in (sympy.true, sympy.false):
            return expr
        if compute_hint:
            value = expr.xreplace(self.backed_var_to_val)
            return value if value.is_number or value in (sympy.true, sympy.false) else None
        if unbacked_only:
            return expr
        self._keep_apart()
        try:
            if not _is_condition(expr):
                term = self.translator.term(expr)
                return sympy.Integer(term.constant_value) if term.is_constant else None
            known = self.trial.settled(self.translator.formula(expr))
        except Untranslatable:
            return None
        return None if known is None else (sympy.true if known else sympy.false)

    def end_trace(self) -> None:
        """Let go of the inputs, and of the code that made them."""
        self.tracked_fakes, self.var_to_stack = [], {}

    def produce_guards(self, *_: object, **__: object) -> list[str]:
        """Return no guards: the graph itself asserts the declared domain."""
        self.dim_constraints = _NoConstraints()  # type: ignore[assignment]
        return []

    def before(self, function: Any, node: Any) -> None:  # noqa: D102
        if function in failures.OF_NUMBERS and self.about_data(node.expr):
            self.handlers.must_not_catch(failures.OF_NUMBERS[function], "this")

    def demand(self, condition: torch.SymBool, message: str) -> None:  # noqa: D102
        formula = self.translator.formula(condition.node.expr)
        if self.trial.is_taken_apart:  # the program has its checks already: torch's own decomposition asks
            self.trial.choose(formula, Kind.BRANCH, self._place)
        elif not self.trial.is_over:  # a consumer that runs the graph's numbers again meets what the trace proved
            self.must_hold(formula, lambda: condition, message)

    def _place(self) -> Place:
        operator = self.innermost or (frames.run_again() if self.trial.is_taken_apart else None)
        return frames.place(operator, self.read if self.trial.data_point.origins else None)


COMPUTING_BOTH: ContextVar[bool] = ContextVar("computing both", default=False)
"""True while both sides of a branch are computed: no question may be open, for one side is not taken."""


class NotMerged(Exception):
    """The sides of a branch are no one program; the branch is taken as it was."""


def _must_know(known: Callable[[], bool]) -> None:
    if COMPUTING_BOTH.get() and not known():
        raise NotMerged


_constrain = inspect.unwrap(ShapeEnv.constrain_symbol_range)
"""Torch's method without its cache, which holds each ShapeEnv for ever."""


def _is_condition(expr: sympy.Basic) -> bool:
    return isinstance(expr, sympy.logic.boolalg.Boolean) and not isinstance(expr, sympy.Symbol)


def _logged(trial: Trial, formula: Formula, ask: Callable[[], bool], place: Callable[[], Place]) -> bool:
    """Ask a question of torch, and log it where somebody listens: logging changes no answer."""
    if not QUESTIONS.isEnabledFor(logging.DEBUG) or not formula.symbols:
        return ask()
    taken = len(trial.steps)
    answer = ask()
    with unmetered():
        here, step = place(), "a decision" if len(trial.steps) > taken else _step(trial, formula)
        operator = f" in {here.operator}" if here.operator else ""
        line = f" at {line_text(here.user)}   {here.user.text.strip()}" if here.user else ""
        QUESTIONS.debug("torch asks %s: %s by %s%s%s", formula, answer, step, operator, line)
    return answer


def _step(trial: Trial, formula: Formula) -> str:
    """The step of the solver that last answered the question, or its opposite."""
    known = [trial.known, trial.shared.declared or trial.known]
    entries = (each for facts in known for each in reversed(facts.ledger.entries))
    found = (each.verdict.evidence for each in entries if each.formula in {formula, formula.negation})
    evidence = next(found, None)
    return evidence.step if evidence else "what it knows"


class _NoConstraints:
    """The object that torch's exporter consults after tracing in place of its DimConstraints; it has no constraints."""

    def solve(self) -> None:
        """Do nothing: shapeproof's solver handles constraints."""

    def forced_specializations(self) -> dict[str, sympy.Expr]:
        """Return no specializations: in shapeproof, a specialization is a decision."""
        return {}

    def prettify_results(self, *_: object) -> str:
        """Return no text: shapeproof builds its diagnostics elsewhere."""
        return ""
