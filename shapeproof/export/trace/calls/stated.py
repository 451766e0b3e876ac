"""Carry users' statements about their own operators (ops/stated.py) through a trace, and have the program check them.

A statement about sizes is checked right after the operator. A statement about the integers in a result is carried along
by torch's own rules, and is checked where a number is taken from the tensor. The elements themselves are not examined.

Law: a user's statement is no fact before the program checks it. So the consequences of statements are kept apart from
the consequences of torch's own rules, and a promise about a size that follows only from a statement becomes a check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import linear
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.graph.emit import Computation, NoGraphForm
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import Span
from shapeproof.export.ops.schemas import Operands, contents, promises
from shapeproof.export.ops.stated import is_stated, stated_contents, stated_promises
from shapeproof.export.shim.trees import tensors_in
from shapeproof.export.trace.known.value_numbering import Contents

if TYPE_CHECKING:
    from shapeproof.export.trace.shape_env import ProofShapeEnv


class Stated:
    """The users' statements in one trace.

    Args:
        env: the ShapeEnv of the trace.
    """

    def __init__(self, env: ProofShapeEnv) -> None:
        self._env = env
        self._contents = Contents()
        self._stated = Operands(env.read, self._span)
        self._known = Operands(env.read, env.span)

    def _span(self, tensor: torch.Tensor) -> Span:
        found = self._contents.noted(tensor)
        return found if found.known else self._env.span(tensor)

    def called(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """Take the statements about an operator that was run, or about its operands."""
        own = schemas.is_foreign(func) and is_stated(str(func))
        if schemas.schema_of(func) is None or not (own or self._contents):
            return
        results = result if isinstance(result, tuple | list) else (result,)
        self._contents.forget(schemas.written(func, args, kwargs))
        if not own and not self._is_spoken_of(args, kwargs):
            return
        call = self._stated.call(func, args, kwargs, results)
        known = () if own else promises(self._known.call(func, args, kwargs, results))
        for formula in stated_promises(call) if own else promises(call):
            if formula not in known:
                what = f"what is stated of {func.name()}" if own else "what is stated of the integers in a tensor"
                self._require(formula, f"{what} does not hold")
        spans = stated_contents(call, self._env.bounds) if own else contents(call, self._env.bounds)
        self._contents.note([*args, *kwargs.values()], results, spans)

    def _is_spoken_of(self, args: Any, kwargs: Mapping[str, Any]) -> bool:
        return any(self._contents.noted(tensor).known for tensor in tensors_in((args, kwargs)))

    def _require(self, formula: Formula, text: str) -> None:
        """Have the program check a formula if it can compute it; otherwise nothing is learned."""
        if not self._env.trial.about_data(formula):
            if self._env.trial.settled(formula) is not True:
                raise UsageError(f"{text}: {formula} does not hold for all sizes that its fake kernel returns")
            return
        condition = self._condition(formula)
        if condition is not None and not self._env.must_hold(formula, lambda: condition, text):
            raise UsageError(f"{text}: {formula} holds for no possible data")

    def _condition(self, formula: Formula) -> Any:
        values: dict[str, Any] = {}
        for free, term in self._env.terms.items():
            if len(term.symbols) == 1 and term.symbols <= formula.symbols - values.keys():
                values |= _solved(self._env.create_symintnode(free, hint=None), term)
        if not formula.symbols <= values.keys():
            return None
        try:
            return Computation(values).formula(formula)
        except NoGraphForm:
            return None


def _solved(number: Any, term: Term) -> dict[str, Any]:
    """Return the value of the symbol in a term `offset + step*name`, computed from the value of the term."""
    form = linear(term)
    if form is None or form.step < 1:
        return {}
    return {form.name: number if term is symbol(form.name) else (number - form.offset) // form.step}
