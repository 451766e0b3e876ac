"""Checks flat inputs against their declarations, and explains a refusal and the nearest accepted sizes.

For the calls of a server, the whole check is also generated as one function of the flat inputs.

Law: where the function returns True, every guard of inputs.py and sizes.py is satisfied. Where it returns False, the
guards decide and give the reason; so the function may return False for anything unusual. Its source consists of
numbers and names generated here. Sizes are taken to be ints, or torch's SymInts while it traces; a shape or size that
equals a checked one is not checked again.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import Formula, ge
from shapeproof.constraints.meaning.compiled import compiled, eager_predicate
from shapeproof.constraints.meaning.evaluate import evaluate, true_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.domain import ranges
from shapeproof.constraints.terms import ZERO, Term
from shapeproof.contract.inputs import (
    ConstantInput,
    Input,
    IntInput,
    TensorInput,
    dtype_name,
    is_torchs,
    same_constant,
)
from shapeproof.contract.outside import OutsideDomain
from shapeproof.contract.sizes import SizeGuard, further_sizes, readings, size_of
from shapeproof.wording import values_text


@dataclass(frozen=True)
class Answer:
    """The answer to "are these inputs accepted?"; false in an `if` if they are not.

    Attributes:
        outside: the error that `check` raises; None if the inputs are accepted.
    """

    outside: OutsideDomain | None = None
    _search: Callable[[], Mapping[str, int]] = field(default=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.outside is None

    def __str__(self) -> str:
        return self.why or "accepted"

    @functools.cached_property
    def nearest(self) -> Mapping[str, int]:
        """The sizes to change for the nearest accepted inputs, by one symbol; empty if none was found."""
        return self._search()

    @property
    def why(self) -> str:
        """The given and the declared value in one sentence; empty if the inputs are accepted."""
        if self.outside is None:
            return ""
        near = values_text(self.nearest)
        return f"{self.outside}; the nearest accepted: {near}" if near else str(self.outside)


class Holder:
    """The requirements on flat inputs: each input by its kind, and all sizes together.

    Attributes:
        guard: the guard of all sizes together.
        accepts: a generated function that returns True for accepted inputs; if it returns False, ask `judged`.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        formulas: Sequence[Formula],
        declared: frozenset[Formula],
        names: Mapping[str, str],
    ) -> None:
        self._inputs = inputs
        self.guard = SizeGuard([each.sizes for each in inputs], formulas, declared, names, self._size_name)
        self.accepts = accepting(inputs, self.guard.domain)

    def _size_name(self, leaf: int, index: int) -> str:
        declared = self._inputs[leaf]
        return f"{declared.name}.shape[{index}]" if isinstance(declared, TensorInput) else declared.name

    def judged(self, values: list[Any]) -> Answer:
        """Return the answer of the guards, one guard after the other."""
        try:
            for declared, value in zip(self._inputs, values, strict=True):
                declared.check(value)
        except OutsideDomain as outside:
            return Answer(outside)
        try:
            self.guard.check(values)
        except OutsideDomain as outside:
            return Answer(outside, functools.partial(self._nearest, values))
        return Answer()

    def _nearest(self, values: list[Any]) -> dict[str, int]:
        """Return the changed sizes at the nearest accepted point; one symbol of the failing formula is moved."""
        point = self.guard.point(values)
        failing = next(each for each in self.guard.formulas if true_at(each, point) is not True)
        symbols = {name: point[name] for name in self._symbols}
        within = ranges(self.guard.domain)
        found = []
        for name in sorted(failing.symbols.intersection(self._symbols) - self._constant):
            serves = functools.partial(self._serves, symbols, name)
            near = nearest_value(symbols[name], within.get(name, Interval()), serves)
            if near is not None:
                found.append((abs(near - symbols[name]), name, self._sizes_at({**symbols, name: near}, values)))
        return min(found)[-1] if found else {}

    @functools.cached_property
    def _symbols(self) -> tuple[str, ...]:
        return tuple(sorted(frozenset[str]().union(*(term.symbols for each in self._inputs for term in each.sizes))))

    @functools.cached_property
    def _constant(self) -> frozenset[str]:
        """The symbols whose values the trace specialized."""
        constants = (each for each in self._inputs if isinstance(each, ConstantInput))
        return frozenset[str]().union(*(term.symbols for each in constants for term in each.sizes))

    @functools.cached_property
    def _inside(self) -> Callable[..., bool]:
        """The test on the symbols: no size is negative, and all formulas hold."""
        sizes = [ge(term, 0) for each in self._inputs if isinstance(each, TensorInput) for term in each.sizes]
        return compiled([*dict.fromkeys(sizes), *self.guard.domain], self._symbols)

    def _serves(self, symbols: Mapping[str, int], name: str, value: int) -> bool:
        try:
            return self._inside(*({**symbols, name: value}).values())
        except Unevaluable:
            return False

    def _sizes_at(self, symbols: Mapping[str, int], values: list[Any]) -> dict[str, int]:
        """Return the sizes at a point that differ from the given sizes, by name."""
        return {
            self._size_name(leaf, index): size
            for leaf, declared in enumerate(self._inputs)
            for index, term in enumerate(declared.sizes)
            if (size := evaluate(term, symbols)) != size_of(values[leaf], index)
        }


MOST_CANDIDATES = 4096
"""How many values are tried: more than any multiple that users declare."""


def nearest_value(given: int, bounds: Interval, accepted: Callable[[int], bool]) -> int | None:
    """Return the accepted value nearest to the given one, the smaller of two equally near; None if none was found.

    The contract tests each candidate. Candidates start at the bounds, so that a value far outside takes no longer.

    >>> nearest_value(37, Interval(2, 64), lambda size: size % 8 == 0)
    40
    >>> nearest_value(1000, Interval(2, 64), lambda size: size % 8 == 0)
    64
    """
    candidates = itertools.islice(_outwards(given, bounds), MOST_CANDIDATES)
    return next((size for size in candidates if accepted(size)), None)


def _outwards(given: int, bounds: Interval) -> Iterator[int]:
    """The values within bounds, the nearest first."""
    below = 0 if bounds.lower is None else bounds.lower - given
    above = 0 if bounds.upper is None else given - bounds.upper
    for distance in itertools.count(max(0, below, above)):
        near = [value for value in dict.fromkeys((given - distance, given + distance)) if value in bounds]
        if not near:
            return
        yield from near


MOST_KNOWN = 256


class _Known(dict[Any, bool]):
    """Remembers the answers of a test, for the classes and dtypes that calls give."""

    def __init__(self, test: Callable[[Any], bool]) -> None:
        self._test = test

    def __missing__(self, asked: Any) -> bool:
        answer = self._test(asked)
        if len(self) < MOST_KNOWN:
            self[asked] = answer
        return answer


_TORCHS = _Known(is_torchs)


def accepting(inputs: Sequence[Input], domain: Sequence[Formula]) -> Callable[..., bool]:
    """Return the generated function of the flat inputs, one argument each; `domain` is what their symbols satisfy."""
    writer = _Writer()
    for leaf, declared in enumerate(inputs):
        writer.check(leaf, declared)
    further = further_sizes(writer.sizes)
    places = [*readings(writer.sizes).items(), *((name, place) for name, (place, _) in further.items())]
    formulas = [*(formula for _, formula in further.values()), *domain]
    names = writer.names | {"holds": eager_predicate(formulas, [name for name, _ in places])}
    values = (place.value(_size_text(inputs[place.leaf], place.leaf, place.index), _operation) for _, place in places)
    body = "\n".join(f"        {line}" for line in [*writer.lines, f"return holds({', '.join(values)})"])
    arguments = ", ".join(f"a{leaf}" for leaf in range(len(inputs)))
    unusual = "    except Exception:\n        return False"
    exec(f"def accepts({arguments}):\n    try:\n{body}\n{unusual}", names)  # noqa: S102 - the text is made above, of names made above
    found: Callable[..., bool] = names["accepts"]
    return found


class _Writer:
    """Writes the lines that check inputs. What is declared alike is compared with the first of its kind.

    Attributes:
        lines: the source; each line returns False or lets the next one decide.
        names: the objects that the lines refer to.
        sizes: the terms of the sizes that formulas are to check, by input; 0 in place of a size that a line checks.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"torchs": _TORCHS, "same": same_constant}
        self.sizes: list[list[Term]] = []
        self._first: dict[Any, Any] = {}  # properties or sizes of an input -> its number; a term -> the name of a size

    def check(self, leaf: int, declared: Input) -> None:
        """Write the lines for one flat input."""
        self.sizes.append([*declared.sizes])
        match declared:
            case TensorInput():
                self._check_properties(leaf, declared)
                self.sizes[leaf] = self._check_shape(leaf, declared)
            case IntInput():
                self._refuse(f"type(a{leaf}) is not int")
            case ConstantInput(value=expected):
                self.names[f"constant{leaf}"] = expected
                self._refuse(f"a{leaf} is not constant{leaf} and not same(a{leaf}, constant{leaf})")

    def _check_properties(self, leaf: int, declared: TensorInput) -> None:
        dtype, device, layout = properties = (declared.dtype, declared.device, declared.layout)
        one = self._first.setdefault(properties, leaf)
        if one == leaf:
            known = {f"dtype{leaf}": _called(dtype), f"device{leaf}": _called(device), f"layout{leaf}": _called(layout)}
            self.names |= known
            self._refuse(f"not dtype{leaf}[d{leaf} := a{leaf}.dtype]")
            self.lines.append(f"if torchs[type(a{leaf})]:")
            self.lines.append(f"    if not device{leaf}[e{leaf} := a{leaf}.device]: return False")
            self.lines.append(f"    if not layout{leaf}[y{leaf} := a{leaf}.layout]: return False")
        else:
            self._refuse(f"a{leaf}.dtype is not d{one} and not dtype{one}[a{leaf}.dtype]")
            self._refuse(f"torchs[type(a{leaf})] and (a{leaf}.device != e{one} or a{leaf}.layout is not y{one})")

    def _check_shape(self, leaf: int, declared: TensorInput) -> list[Term]:
        one = self._first.setdefault(declared.sizes, leaf)
        if one != leaf:
            self._refuse(f"a{leaf}.shape != s{one}")
            return []
        sizes = [_size_text(declared, leaf, index) for index in range(len(declared.sizes))]
        self.lines.append(f"{''.join(f'{size}, ' for size in sizes) or '() '}= s{leaf} = a{leaf}.shape")
        return list(map(self._check_size, sizes, declared.sizes))

    def _check_size(self, size: str, term: Term) -> Term:
        """Write the line for one size; return what is left for formulas."""
        one = term.constant_value if term.is_constant else self._first.setdefault(term, size)
        if one == size:
            self._refuse(f"{size} < 0")
            return term
        self._refuse(f"{size} != {one}")
        return ZERO

    def _refuse(self, condition: str) -> None:
        self.lines.append(f"if {condition}: return False")


@functools.lru_cache(maxsize=MOST_KNOWN)
def _called(name: str) -> _Known:
    """Return the test for a dtype, device or layout of this name."""
    return _Known(lambda value: dtype_name(value) == name)


def _size_text(declared: Input, leaf: int, index: int) -> str:
    return f"s{leaf}_{index}" if isinstance(declared, TensorInput) else f"a{leaf}"


def _operation(op: Callable[..., Any], size: str, number: int) -> str:
    return f"({size} - {number})" if op is operator.sub else f"{size} // {number}"
