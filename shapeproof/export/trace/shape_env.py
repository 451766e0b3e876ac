"""The ShapeEnv that asks the solver and records decisions.

torch asks its ShapeEnv about sizes in four ways: what is statically known, which side of a branch to take, whether a
check may be assumed, and what a fresh symbol may be. Each question is translated into a formula and put to the trial.
Torch's own sympy rules answer no question, no guard is produced, and no symbol is replaced by its hint.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch._guards import Source
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.sym_node import SymNode
from torch.utils._sympy.functions import FloorDiv, Max, Min
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, make_symbol, symbol_is_type

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning import intervals
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.reals import Real, RealConstant
from shapeproof.constraints.records.decisions import Kind
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import Running
from shapeproof.export.ops.output_sizes import ranged
from shapeproof.export.ops.reading import Operands
from shapeproof.export.ops.table import contents, counted, known_of, meanings, promises
from shapeproof.export.ops.value_ranges import INTEGRAL
from shapeproof.export.shim import callers
from shapeproof.export.shim.numbers.doubles import literal, value_of
from shapeproof.export.shim.numbers.sym_nodes import ExactShapeEnv, exact, powers
from shapeproof.export.shim.numbers.symbols import INT64, OPAQUE, is_condition, value_range
from shapeproof.export.shim.storages import storages
from shapeproof.export.source import frames
from shapeproof.export.source.handlers import Handlers
from shapeproof.export.source.places import Place
from shapeproof.export.trace.checks import failures
from shapeproof.export.trace.checks.check_writer import CheckWriter, message_at
from shapeproof.export.trace.checks.raising import side_that_raises
from shapeproof.export.trace.known.value_numbering import Numbering
from shapeproof.export.trace.known.values import Contents
from shapeproof.export.trace.no_constraints import NoConstraints
from shapeproof.export.trace.python.rejoining import where_apart
from shapeproof.export.trace.rebinding import Left
from shapeproof.export.trace.translate import Translator, Untranslatable, Writer, simpler
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from shapeproof.solver.functions.doubles import range_of

if TYPE_CHECKING:
    from shapeproof.export.trace.calls.operators import Operators


class ProofShapeEnv(ExactShapeEnv):
    """A ShapeEnv whose questions go to a trial.

    Args:
        trial: holds the facts, and records the decisions.
        sizes: for each input of the program, by torch's source name, the term of each of its sizes (a tensor) or of
            itself (an int).
    """

    operators: Operators  # set by `recording_mode`, which makes the mode
    left = Left()

    def __init__(self, trial: Trial, sizes: Mapping[str, tuple[Term, ...]]) -> None:
        super().__init__(
            tracked_fakes=[],
            specialize_zero_one=False,
            duck_shape=False,
            prefer_deferred_runtime_asserts_over_guards=True,
            trace_asserts=True,
        )
        self.trial, self._sizes = trial, sizes
        self.handlers = Handlers(lambda: self._place().user)
        self._running: list[Running] = []
        self.terms: dict[sympy.Symbol, Term] = {}
        self._expected: list[sympy.Expr] = []
        self._roots: dict[str, sympy.Expr] = {}
        self._equal: dict[Term, Term] = {}  # equal sizes -> the term that stands for them all
        self.translator = Translator(self._term)
        self.read = self.translator.read
        self._contents, self.numbering = Contents(), Numbering(self.read)
        self.span = self._contents.of
        self._operands = Operands(self.read, self.span)
        self._open: set[Formula] = set()
        self.rounded: dict[Any, str] = {}
        self._body: callers.Body | None = None
        self._asked: object = None  # torch's node for the number in the present question
        self.checks = CheckWriter(lambda: get_proxy_mode() is not None)
        declared = {name for terms in sizes.values() for term in terms for name in term.symbols}
        self._names = (name for name in map("u{}".format, itertools.count()) if name not in declared)
        self.writer = Writer(self._roots, FloorDiv, Min, Max)
        lower = [f.ge(symbol(name), b.lower) for name, b in trial.known.ranges.items() if b.lower is not None]
        self._form = functools.cache(functools.partial(simpler, self.translator, self.writer, Facts(lower), OPAQUE))
        self._replacements_version_counter = 1  # makes SymNode.expr go through `replace`

    def _term(self, sympy_symbol: sympy.Symbol) -> Term:
        """Return the term of a symbol of torch: a declared term for an input's size, or the meaning of a view's size.

        Data symbols are numbered here: torch's numbers may differ in the next trace, the meaning of a fact may not.
        """
        if sympy_symbol not in self.terms:
            self.terms[sympy_symbol] = symbol(next(self._names) if self._is_data(sympy_symbol) else sympy_symbol.name)
        return self.terms[sympy_symbol]

    def create_symbol(self, val: Any, source: Source, *_: object, **__: object) -> sympy.Expr:
        """Create a separate symbol for each declared size of an input. Other strides and offsets are the example's.

        Equal sizes stay two symbols for torch, with one term here: else an assertion of their equality would fold away.
        """
        term = self._declared(source)
        if term is None or term.is_constant:
            return sympy.Integer(val)
        created = self._create(term, source)
        self.source_to_var[source.name] = created
        self.var_to_sources[created] = [source]
        return created

    def _declared(self, source: Source) -> Term | None:
        """Return the term of an input's size or of an int input; None for any other property."""
        base = getattr(source, "base", None)
        if base is None or source.name in self._sizes:
            return self._sizes[source.name][0] if source.name in self._sizes else None
        if getattr(getattr(source, "prop", None), "name", "") != "SIZE" or base.name not in self._sizes:
            return None
        return self._sizes[base.name][source.idx]  # type: ignore[attr-defined]

    def _create(self, term: Term, source: Source) -> sympy.Symbol:
        """Create a symbol; sympy learns at most that it is not negative, since with more `1 <= s0` would fold away."""
        bounds = intervals.bounds(term, self.trial.facts.ranges)
        sign = {"nonnegative": True} if bounds.lower is not None and bounds.lower >= 0 else {}
        created = self.named(make_symbol(SymT.SIZE, self._generate_unique_id(source.name), integer=True, **sign))
        known = self.trial.known.reduce(term)
        self.terms[created] = term if known.is_constant else self._equal.setdefault(known, term)
        if term in map(symbol, term.symbols):
            self._roots.setdefault(next(iter(term.symbols)), created)
        self.backed_var_to_val[created] = sympy.Integer(evaluate(term, self.trial.point))
        self.var_to_range[created] = value_range(bounds if sign else Interval())  # torch wants room at 0
        self.symbol_guard_counter[created] = 0
        return created

    def _is_data(self, sympy_symbol: sympy.Symbol) -> bool:
        return symbol_is_type(sympy_symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))

    def constrain_symbol_range(self, s: sympy.Symbol, compiler_min: int, compiler_max: int) -> None:  # type: ignore[override]
        """Take an operator's bounds for a fresh symbol; bounds that torch's own operators keep are facts."""
        super().constrain_symbol_range(s, compiler_min, compiler_max)
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

    @property
    def innermost(self) -> str | None:
        """The name of the operator that is being run, if any."""
        return self._running[-1].name if self._running else None

    @property
    def brought(self) -> tuple[int, int]:
        """The number of unbacked symbols so far, and the number of checks on data in the trial."""
        return self.unbacked_symint_counter + self.unbacked_symfloat_counter, len(self.trial.checks)

    @contextlib.contextmanager
    def running(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Iterator[None]:
        """Inside this block, an operator runs: it asks the questions, and the symbols are made for its results."""
        self._keep_apart()
        self._running.append(Running(func, args, kwargs))
        try:
            yield
        finally:
            self._running.pop()

    def called(self, func: Any, args: Any, kwargs: Mapping[str, Any], results: Any) -> None:
        """Take an operator's promises as facts, and note the bounds of the integers in its results."""
        if not isinstance(func, torch._ops.OpOverload):
            return
        known, listed = known_of(func), results if isinstance(results, tuple | list) else (results,)
        self._contents.forget(schemas.written(func, args, kwargs))
        self.numbering.note(func, args, kwargs, listed)
        whole = any(isinstance(each, torch.Tensor) and str(each.dtype) in INTEGRAL for each in listed)
        if known.sizes is None and not (known.values and whole):
            return
        call = self._operands.call(func, args, kwargs, listed)
        for promise in promises(call):
            self.trial.learn(promise)
        aliased = set(storages([*args, *kwargs.values()]))
        for result, found in zip(listed, contents(call, self.bounds), strict=False):
            if isinstance(result, torch.Tensor) and aliased.isdisjoint(storages(result)):
                self._contents.note(result, found)

    def bounds(self, term: Term) -> Interval:
        """Return bounds of a term; every size and every number taken from data is an int64."""
        known = self.trial.facts.ranges
        return intervals.bounds(term, {name: INT64 & known.get(name, INT64) for name in term.symbols})

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

    def move(self, point: Mapping[str, int]) -> None:
        """Set the hints of the size symbols to the values at a point."""
        for backed in self.backed_var_to_val:
            self.backed_var_to_val[backed] = sympy.Integer(evaluate(self.terms[backed], point))

    def note_example(self, number: object) -> None:
        """Set the hint of a symbolic number to its value at the hints of its symbols."""
        if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
            value = number.node.expr.xreplace(self.backed_var_to_val)
            known = value_of(value) if isinstance(value, sympy.Expr) else bool(value) if value.is_Atom else None
            number.node._hint = None if known is None else number.node.pytype(known)

    @contextlib.contextmanager
    def expecting(self, known: list[sympy.Expr]) -> Iterator[None]:
        """Inside this block, an operator runs again: its new symbols equal the known expressions, in order."""
        self._expected = list(known)
        try:
            yield
        finally:
            self._expected = []

    def create_unbacked_symint(self, source: Source | None = None) -> torch.SymInt:
        """Create a symbol for a size that is taken from data, or for a size of a view whose bounds are."""
        fresh = super().create_unbacked_symint(source)
        running = self._running[-1] if self._running else None
        if running is not None and known_of(running.func).view is not None:
            if running.meanings is None:
                running.meanings = meanings(self._operands.call(running.func, running.args, running.kwargs, ()))
            if running.meanings:
                self.terms[fresh.node.expr] = running.meanings.pop(0)
                return fresh
        self._take_from_data(fresh.node.expr, running)
        return fresh

    def _take_from_data(self, fresh: sympy.Symbol, running: Running | None) -> None:
        promising = running if running is not None and known_of(running.func).sizes is not None else None
        if promising:
            self.terms[fresh] = self.numbering.taken(promising, lambda: self._term(fresh))
        value = self._term(fresh)
        for name in value.symbols - self.trial.origins.keys():
            self.trial.origins[name] = frames.origin(self.innermost)
        if self._expected:
            self.trial.learn(f.eq(value, self.translator.term(self._expected.pop(0))))
        if promising:
            call = self._operands.call(promising.func, promising.args, promising.kwargs, ())
            for promise in promises(counted(call, value)):
                self.trial.learn(promise)

    def create_unbacked_symbool(self) -> torch.SymBool:
        """Create a symbol for a bool that is taken from data: 0 or 1."""
        fresh = super().create_unbacked_symbool()
        for drawn in fresh.node.expr.free_symbols:
            self._take_from_data(drawn, self._running[-1] if self._running else None)
            self.trial.flags |= self._term(drawn).symbols
            for bound in ranged(self._term(drawn), 0, 1):
                self.trial.learn(bound)
        return fresh

    def set_real_tensor_prop_unbacked_vals(self, k: sympy.Symbol, v: Any) -> None:
        """Take the value of a symbol in the example's data; torch calls this only if operators also run on data."""
        super().set_real_tensor_prop_unbacked_vals(k, v)
        if isinstance(v, float):
            self.trial.observe(str(k), v)
            return
        term = self._term(k.lhs if isinstance(k, sympy.Eq) else k)  # a bool is the question whether its symbol is 1
        for name in term.symbols:
            if term is symbol(name):
                self.trial.observe(name, int(v))

    def evaluate_expr(  # noqa: PLR0913 - torch's signature
        self,
        orig_expr: sympy.Basic,
        hint: float | None = None,  # noqa: ARG002 - the trial's point is the hint
        fx_node: object = None,  # noqa: ARG002
        size_oblivious: bool = False,  # noqa: FBT001, FBT002
        fallback_value: bool | None = None,  # noqa: FBT001
        *,
        forcing_spec: bool = False,  # noqa: ARG002
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
        size_oblivious: bool = False,  # noqa: FBT001, FBT002 - torch's signature
        fallback_value: bool | None = None,  # noqa: FBT001
    ) -> sympy.Basic:
        """Answer a question about a symbolic number, and remember the number's node."""
        self._asked = sym_node
        return super().evaluate_sym_node(sym_node, size_oblivious, fallback_value)

    def _evaluate(self, expr: sympy.Basic, *, fallback: bool | None, size_oblivious: bool) -> sympy.Basic:
        if not is_condition(expr):
            return literal(self.trial.value(self.translator.number(expr), self._place))
        formula = self.translator.formula(expr)
        if fallback is not None and self.innermost is None and callers.noting():
            return sympy.true if fallback else sympy.false
        if fallback is None and self.about_data(expr):
            checked = self._checked(formula, expr)
            if checked is not None:
                return sympy.true if checked else sympy.false
        if fallback is not None and known_of(self.innermost).view is not None:
            # A viewing operator returns what its symbols mean under either answer: nothing is assumed. An open question
            # stays open even when more is known: torch runs a graph again, and must find the same symbols.
            known = None if formula in self._open else self.trial.settled(formula, self.trial.views)
            if known is None:
                self._open.add(formula)
            return sympy.true if (fallback if known is None else known) else sympy.false
        kind = Kind.BRANCH if fallback is None and not size_oblivious else Kind.ASSUMED
        apart = functools.partial(where_apart, self._asked, self.read) if self.innermost is None else None
        chosen = self.trial.choose(formula, kind, self._place, fallback=fallback, apart=apart)
        return sympy.true if chosen else sympy.false

    def _checked(self, formula: Formula, expr: sympy.Basic) -> bool | None:
        """Return the answer to a question about data that is a check, since one of its sides raises; else None."""
        condition = self._condition(expr)
        side, text = side_that_raises(self.trial, formula, self._place, failing=frames.side_that_fails())
        if side is False:
            return self.must_hold(formula, condition, text)
        return not self.must_hold(f.negate(formula), lambda: torch.sym_not(condition()), text) if side else None

    def about_data(self, expr: sympy.Basic) -> bool:
        """True if an expression contains a data symbol."""
        return any(map(self._is_data, expr.free_symbols))

    def guard_or_defer_runtime_assert(  # type: ignore[override]
        self,
        orig_expr: sympy.Basic,
        msg: str,  # noqa: ARG002 - a file and a line
        fx_node: object = None,  # noqa: ARG002
    ) -> bool:
        """Answer a check that eager makes, too; a check on data becomes an assertion of the program."""
        if orig_expr in (sympy.true, sympy.false):
            return bool(orig_expr)
        power = powers()
        if self.checks.writing or (power is not None and self._is_real(*power)):
            return True
        self._asked = sys._getframe(1).f_locals.get("self")
        return self.must_hold(self.translator.formula(orig_expr), self._condition(orig_expr))

    def _is_real(self, base: torch.SymFloat, whole: bool) -> bool:  # noqa: FBT001 - as `powers` gives it
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
        before, on_data = len(self.trial.checks), self.trial.about_data(formula)
        made = condition() if on_data else None  # made before the fact is learned, which would turn it into True
        self._keep_apart(entering=on_data)
        passed = self.trial.check(formula, self._place, lambda: message or message_at(self._place().user, formula))
        if len(self.trial.checks) > before and made is not None:
            kinds = failures.of_check(message, self.innermost, is_assert=lambda: frames.side_that_fails() is not None)
            self.handlers.must_not_catch(kinds, "the check")
            self.checks.add(made, self.trial.checks[-1].message)
            self._refine(made.node.expr)
            self.write_checks()
        return passed

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
                self.var_to_range[name] &= value_range(intervals.bounds(self._term(name), self.trial.facts.ranges))

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
            if not is_condition(expr):
                term = self.translator.term(expr)
                return sympy.Integer(term.constant_value) if term.is_constant else None
            known = self.trial.settled(self.translator.formula(expr))
        except Untranslatable:
            return None
        return None if known is None else (sympy.true if known else sympy.false)

    def replace(self, expr: Any) -> Any:  # type: ignore[override]
        """Return the form of an expression that torch computes with; sympy need not simplify it, and could not.

        torch.cond wants strides to be products of sizes: torch's `Max(1, s)` for a fresh tensor is `s` where no size is
        0. Torch and this class cache the form: it depends on the expression alone.
        """
        expr = super().replace(expr) if self.replacements else expr
        return self._form(expr) if isinstance(expr, sympy.Expr) else expr

    def simplify(self, expr: Any, size_oblivious: bool = False) -> Any:  # type: ignore[override]  # noqa: ARG002, FBT001, FBT002
        """Return `replace(expr)`: expressions are simplified as terms where it matters; torch keeps its form."""
        return self.replace(expr)

    def produce_guards(self, *_: object, **__: object) -> list[str]:
        """Return no guards: the graph itself asserts the declared domain."""
        self.dim_constraints = NoConstraints()  # type: ignore[assignment]
        return []

    def before(self, function: Any, node: Any) -> None:  # noqa: D102
        if function in failures.OF_NUMBERS and self.about_data(node.expr):
            self.handlers.must_not_catch(failures.OF_NUMBERS[function], "this")

    def demand(self, condition: torch.SymBool, message: str) -> None:  # noqa: D102
        formula = self.translator.formula(condition.node.expr)
        if self.trial.is_taken_apart:  # the program has its checks already: torch's own decomposition asks
            self.trial.choose(formula, Kind.BRANCH, self._place)
        else:
            self.must_hold(formula, lambda: condition, message)

    def may_be_infinite(self, expr: sympy.Expr) -> bool:  # noqa: D102
        value = self.translator.number(expr)
        return isinstance(value, Real) and not range_of(value, self.bounds).is_finite

    def range_of(self, expr: sympy.Expr) -> Any:  # noqa: D102
        return value_range(self.bounds(self.translator.term(expr)))

    def _place(self) -> Place:
        operator = self.innermost or (frames.run_again() if self.trial.is_taken_apart else None)
        return frames.place(operator, self.read if self.trial.origins else None)
