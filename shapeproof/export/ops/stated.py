"""Users' statements about their own operators: the sizes of a result, and the bounds of its integers.

The rules have the form of the rules for torch's own operators (output_sizes.py, value_ranges.py). A rule for torch's
operators gives a fact, since a property test checks it against eager. A user's rule gives a check: the program makes it
(trace/calls/stated.py), and each real run is compared with it (explore/beside_eager/kernels.py). No user's rule is
taken as a fact unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.export.ops import output_sizes, value_ranges
from shapeproof.export.ops.call import Call, Span
from shapeproof.export.ops.value_ranges import Bounds
from shapeproof.export.shim.custom_operators import OWN_NAMESPACES

_PROMISES: dict[str, output_sizes.Rule] = {}
_CONTENTS: dict[str, value_ranges.Rule] = {}
_NAME = re.compile(r"(\w+)::(\w+)(?:\.(\w+))?")
_RuleT = TypeVar("_RuleT", bound=Callable[..., Any])


def promise(operator: str) -> Callable[[output_sizes.Rule], output_sizes.Rule]:
    """State the sizes of an operator's results, where its fake kernel takes them from data.

    The rule receives the operator's `Call` and returns formulas over its sizes. A program that calls the operator
    asserts these formulas after the call, unless they follow from what is known. From there on they are facts.

    Args:
        operator: the operator's name, `namespace::name` or `namespace::name.overload`.

    Raises:
        UsageError: the name has another form, or names an operator of torch.

    >>> from shapeproof.operators import le, promise
    >>> @promise("shapeproof_doc::keep")
    ... def _(call):
    ...     return [le(call.result().sizes[0], call.tensor("x").numel)]
    """
    return _registering(_PROMISES, operator)


def contents(operator: str) -> Callable[[value_ranges.Rule], value_ranges.Rule]:
    """State bounds of the integers in an operator's results.

    The rule receives the operator's `Call` and a function that bounds a term. It returns a `Span` for the first result,
    or a list with one for each result. A number that the model takes from such a result (`item()`) is asserted to lie
    in its span.

    Args:
        operator: the operator's name, `namespace::name` or `namespace::name.overload`.

    Raises:
        UsageError: the name has another form, or names an operator of torch.

    >>> from shapeproof.operators import contents, span
    >>> @contents("shapeproof_doc::bucket")
    ... def _(call, bounds):
    ...     return span(0, call.integer("k") - 1)
    """
    return _registering(_CONTENTS, operator)


def _registering(table: dict[str, Any], operator: str) -> Callable[[_RuleT], _RuleT]:
    found = _NAME.fullmatch(operator) if isinstance(operator, str) else None
    if found is None:
        raise UsageError(f"expected the name of an operator, such as 'sp::keep', got {operator!r}")
    namespace, name, overload = found.groups()
    if namespace in OWN_NAMESPACES:
        raise UsageError(f"`{operator}` is torch's own operator: rules can be stated only for your own operators")

    def register(rule: _RuleT) -> _RuleT:
        table[f"{namespace}.{name}.{overload or 'default'}"] = rule
        return rule

    return register


def is_stated(name: str) -> bool:
    """True if users state something about the operator of this name (`sp.keep.default`)."""
    return name in _PROMISES or name in _CONTENTS


def stated_promises(call: Call) -> list[Formula]:
    """Return the users' promises for this call.

    Raises:
        UsageError: the rule raises, or does not return formulas.
    """
    found = _applied(_PROMISES, call)
    if not isinstance(found, Sequence) or not all(isinstance(each, Formula) for each in found):
        raise UsageError(f"the promise of {call.name} must return a list of formulas, got {found!r}")
    return list(found)


def stated_contents(call: Call, bounds: Bounds) -> list[Span]:
    """Return the users' spans for the results of this call, in order.

    Raises:
        UsageError: the rule raises, or does not return spans.
    """
    found = _applied(_CONTENTS, call, bounds)
    spans = [found] if isinstance(found, Span) else found
    if not isinstance(spans, Sequence) or not all(map(_is_span, spans)):
        raise UsageError(f"the contents of {call.name} must return a Span of terms or a list of them, got {found!r}")
    return list(spans)


def _is_span(value: object) -> bool:
    return isinstance(value, Span) and all(end is None or isinstance(end, Term) for end in (value.low, value.high))


def _applied(table: dict[str, Any], call: Call, *rest: Any) -> Any:
    rule = table.get(call.name)
    if rule is None:
        return []
    try:
        return rule(call, *rest)
    except Exception as error:
        raise UsageError(f"the rule stated for {call.name} raises {type(error).__name__}: {error}") from error
