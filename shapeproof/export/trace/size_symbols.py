"""The symbols of sizes: what each stands for, and what the operator that makes it promises about it.

Torch computes sizes with sympy symbols. The symbol of an input's size stands for a declared term; equal sizes share one
term. A symbol that an operator makes stands for a number taken from data, or for a size of a view, whose meaning is
known. The promises of operators become facts of the trial.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import sympy
import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.meaning.intervals import Bounds, Interval
from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Term, name_of, symbol
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import Running, Span, span
from shapeproof.export.ops.output_sizes import ranged
from shapeproof.export.ops.schemas import Operands, contents, counted, meanings, promises
from shapeproof.export.ops.table import known_of
from shapeproof.export.ops.value_ranges import INTEGRAL
from shapeproof.export.shim import callers
from shapeproof.export.shim.numbers.sym_nodes import ExactShapeEnv
from shapeproof.export.shim.numbers.symbols import INT64, is_unbacked, value_range
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.source import frames
from shapeproof.export.trace.known.exact_numbers import ExactNumbers
from shapeproof.export.trace.known.value_numbering import Contents, Numbering
from shapeproof.export.trace.translate import Translator, Writer
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.functions.doubles import range_of
from shapeproof.solver.ledger import QUESTIONS


class SizeSymbols(ExactShapeEnv):
    """The part of the ShapeEnv that makes symbols and knows their meanings.

    Args:
        trial: holds the facts.
        sizes: for each input of the program, by torch's source name, the term of each of its sizes (a tensor) or of
            itself (an int).
    """

    def __init__(self, trial: Trial, sizes: Mapping[str, tuple[Term, ...]]) -> None:
        super().__init__(
            tracked_fakes=[],
            specialize_zero_one=False,
            duck_shape=False,
            prefer_deferred_runtime_asserts_over_guards=True,
            trace_asserts=True,
        )
        self.trial, self._sizes = trial, sizes
        self.terms: dict[sympy.Symbol, Term] = {}
        self._equal: dict[Term, Term] = {}  # equal sizes -> the term that stands for them all
        self._roots: dict[str, sympy.Expr] = {}
        declared = {name for terms in sizes.values() for term in terms for name in term.symbols}
        self._names = (name for name in map("u{}".format, itertools.count()) if name not in declared)
        self.translator = Translator(self._term)
        self.read = self.translator.read
        self.writer = Writer(self._roots)
        self._replacements_version_counter = 1  # makes SymNode.expr go through `replace`
        self._running: list[Running] = []
        self._expected: list[sympy.Expr] = []
        self.held: Mapping[str, int] = {}
        """The integers that the model's buffers of one element hold."""
        self.rests: dict[str, int] = {}
        """The buffers on whose elements sizes rest, and these."""
        self._operands = Operands(self.read, self.span)
        self._know_nothing()
        self._round: callers.Body | None = None

    def create_symbol(self, val: Any, source: Any, *_: object, **__: object) -> sympy.Expr:
        """Create a separate symbol for each declared size of an input. Other strides and offsets are the example's.

        Equal sizes stay two symbols for torch, with one term here: else an assertion of their equality would fold away.
        """
        if isinstance(val, torch.SymInt):
            where = frames.at_users_line()
            raise UsageError(f"torch cannot trace nested tensors{where}: use padded tensors and lengths")
        term = self._declared(source)
        if term is None or term.is_constant:
            return sympy.Integer(val)
        created = self.size_symbol(source, evaluate(term, self.trial.point), Bounds(self._ranges).of(term))
        QUESTIONS.debug("create_symbol %s = %s for %s, %s here", created, term, source.name, val)
        known = self.trial.known.reduce(term)
        self.terms[created] = term if known.is_constant else self._equal.setdefault(known, term)
        if term in map(symbol, term.symbols):
            self._roots.setdefault(next(iter(term.symbols)), created)
        return created

    def _declared(self, source: Any) -> Term | None:
        """Return the term of an input's size or of an int input; None for any other property."""
        base = getattr(source, "base", None)
        if base is None or source.name in self._sizes:
            return self._sizes[source.name][0] if source.name in self._sizes else None
        if getattr(getattr(source, "prop", None), "name", "") != "SIZE" or base.name not in self._sizes:
            return None
        return self._sizes[base.name][int(source.idx)]

    def _term(self, sympy_symbol: sympy.Symbol) -> Term:
        """Return the term of a symbol of torch: a declared term for an input's size, or the meaning of a view's size.

        Data symbols are numbered here: torch's numbers may differ in the next trace, the meaning of a fact may not.
        """
        if sympy_symbol not in self.terms:
            self.terms[sympy_symbol] = symbol(next(self._names) if is_unbacked(sympy_symbol) else sympy_symbol.name)
        return self.terms[sympy_symbol]

    @property
    def _ranges(self) -> Mapping[str, Interval]:
        return self.trial.facts.ranges

    def span(self, tensor: torch.Tensor) -> Span:
        """Return the bounds of a tensor's integers; both are its only element, if that number is known."""
        value = self.numbering.number_in(tensor)
        return self._contents.of(tensor) if value is None else span(value, value)

    def bounds(self, term: Term) -> Interval:
        """Return bounds of a term; every size and every number taken from data is an int64."""
        return Bounds({name: INT64 & self._ranges.get(name, INT64) for name in term.symbols}).of(term)

    def may_be_infinite(self, expr: sympy.Expr) -> bool:  # noqa: D102
        value = self.translator.number(expr)
        return isinstance(value, Real) and not range_of(value, self.bounds).is_finite

    def range_of(self, expr: sympy.Expr) -> Any:  # noqa: D102
        return value_range(self.bounds(self.translator.term(expr)))

    def move(self, point: Mapping[str, int]) -> None:
        """Set the hints of the size symbols to the values at a point."""
        for backed in self.backed_var_to_val:
            self.backed_var_to_val[backed] = sympy.Integer(evaluate(self.terms[backed], point))

    # operators and the symbols that they make

    @property
    def innermost(self) -> str | None:
        """The name of the operator that is being run, if any."""
        return self._running[-1].name if self._running else None

    @property
    def brought(self) -> tuple[int, int]:
        """The number of unbacked symbols so far, and the number of checks on data in the trial."""
        return self.unbacked_symint_counter + self.unbacked_symfloat_counter, len(self.trial.learned.checks)

    @contextlib.contextmanager
    def running(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Iterator[None]:
        """Inside this block, an operator runs: it asks the questions, and the symbols are made for its results."""
        self._running.append(Running(func, args, kwargs))
        try:
            yield
        finally:
            self._running.pop()

    def called(self, func: Any, args: Any, kwargs: Mapping[str, Any], results: Any) -> None:
        """Take an operator's promises as facts, and note the bounds of the integers in its results."""
        if schemas.schema_of(func) is None:
            return
        known, listed = known_of(func), results if isinstance(results, tuple | list) else (results,)
        self._contents.forget(schemas.written(func, args, kwargs))
        self.numbering.note(func, args, kwargs, listed)
        self.exact.note(func, args, kwargs, listed)
        if func is torch.ops.aten.eq.Tensor and self.numbering.are_equal(*args):
            self._contents.note((), listed, [span(1, 1)])
        whole = any(isinstance(each, torch.Tensor) and str(each.dtype) in INTEGRAL for each in listed)
        if known.sizes is None and not (known.values and whole):
            return
        call = self._operands.call(func, args, kwargs, listed)
        for promise in promises(call):
            self.trial.learn(promise)
        self._contents.note([*args, *kwargs.values()], listed, contents(call, self.bounds))

    def expecting(self, known: list[sympy.Expr]) -> AbstractContextManager[None]:
        """Inside this block, an operator runs again: its new symbols equal the known expressions, in order."""
        return replaced(self, _expected=list(known))

    def create_unbacked_symint(self, source: Any = None) -> torch.SymInt:
        """Create a symbol for a size that is taken from data, or for a size of a view whose bounds are."""
        fresh = super().create_unbacked_symint(source)
        self._need_not_be_bound(fresh.node.expr)
        running = self._running[-1] if self._running else None
        if running is not None and known_of(running.func).view is not None:
            if running.meanings is None:
                running.meanings = meanings(self._operands.call(running.func, running.args, running.kwargs, ()))
            if running.meanings:
                self.terms[fresh.node.expr] = running.meanings.pop(0)
                return fresh
        self._take_from_data(fresh.node.expr, running)
        return fresh

    def _need_not_be_bound(self, fresh: sympy.Symbol) -> None:
        """Let a consumer that runs the operators of a finished program make no record of its symbol.

        torch.onnx makes none, and the next consumer would raise at symbols that it has not made.
        """
        if self.trial.is_over:
            self.ignorable_fresh_unbacked_symbols.append(fresh)

    def _take_from_data(self, fresh: sympy.Symbol, running: Running | None) -> None:
        self._forget_other_rounds()
        call = None
        if running is not None and known_of(running.func).sizes is not None:
            call = self._operands.call(running.func, running.args, running.kwargs, ())
            known = self._number_in(running.args[0]) if known_of(running.func).is_number else None
            self.terms[fresh] = self.numbering.taken(running, lambda: known or self._term(fresh))
        value = self._term(fresh)
        for name in filter(self.trial.data_point.is_data, value.symbols - self.trial.data_point.origins.keys()):
            self.trial.data_point.origins[name] = frames.origin(self.innermost)
        for fact in callers.rounds(value):
            self.trial.learn(fact)
        if self._expected:
            self.trial.learn(f.eq(value, self.translator.term(self._expected.pop(0))))
        for promise in promises(counted(call, value)) if call else ():
            self.trial.learn(promise)

    def _number_in(self, tensor: torch.Tensor) -> Term | None:
        """Return the only element of a tensor, if it is known; what it rests on is noted."""
        exact = self.exact.number_in(tensor)
        if exact is None:
            return self.span(tensor).value
        self.rests |= {name: self.held[name] for name in exact.rests}
        return exact.top

    def _forget_other_rounds(self) -> None:
        """In the body of a loop, forget the values known before it: they are those of the first round alone.

        For example, torch.while_loop counts from `torch.zeros([])`, and its body takes the count as a number.
        """
        here = callers.round_of_a_loop()
        if here is not None and here != self._round:
            self._know_nothing()
        self._round = here

    def _know_nothing(self) -> None:
        """Forget what is known of the elements of tensors."""
        self._contents, self.numbering = Contents(), Numbering(self.read)
        self.exact = ExactNumbers(self.numbering.of, self.read, self.span, self.bounds)

    def create_unbacked_symbool(self) -> torch.SymBool:
        """Create a symbol for a bool that is taken from data: 0 or 1."""
        fresh = super().create_unbacked_symbool()
        for drawn in fresh.node.expr.free_symbols:
            self._need_not_be_bound(drawn)
            self._take_from_data(drawn, self._running[-1] if self._running else None)
            self.trial.data_point.flags |= {*filter(self.trial.data_point.is_data, self._term(drawn).symbols)}
            for bound in ranged(self._term(drawn), 0, 1):
                self.trial.learn(bound)
        return fresh

    def create_unbacked_symfloat(self) -> torch.SymFloat:
        """Create a symbol for a float that is taken from data."""
        fresh = super().create_unbacked_symfloat()
        self.trial.data_point.origins.setdefault(str(fresh.node.expr), frames.origin(self.innermost))
        return fresh

    def set_real_tensor_prop_unbacked_vals(self, k: sympy.Symbol, v: Any) -> None:
        """Take the value of a symbol in the example's data; torch calls this only if operators also run on data."""
        super().set_real_tensor_prop_unbacked_vals(k, v)
        whole = k.lhs if isinstance(k, sympy.Eq) else k  # a bool is the question whether its symbol is 1
        name = str(k) if isinstance(v, float) else name_of(self._term(whole))
        if name is not None:
            self.trial.data_point.observe(name, v if isinstance(v, float) else int(v), self.trial.region)
