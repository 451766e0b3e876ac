"""Compare custom operators with their fake kernels, wherever a program is run.

A trace believes an operator's fake kernel. Torch tests the fake kernels of its own operators. For custom operators, the
real results are compared with the program's metadata: dtype, device, layout, sizes, strides, shared storage, and
mutations beyond the schema. A difference refutes; without a difference the operator stays trusted, and the report says
so.

A size that comes from data (`new_dynamic_size`) is taken from the run, so that only its consequences are compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, evaluate, holds_at, linear, value_at
from shapeproof.constraints.meaning.intervals import Bounds
from shapeproof.constraints.records.diagnostics import Diagnostic, Note
from shapeproof.constraints.terms import Term, constant
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.checked import is_checked
from shapeproof.export.explore.beside_eager.corners import DATA, claimed, raises_whatever_the_data, unchanged
from shapeproof.export.explore.beside_eager.forms import fresh_modules
from shapeproof.export.explore.beside_eager.laid_out import has_elements
from shapeproof.export.explore.findings import Exploration
from shapeproof.export.explore.points import kernel_points, smaller_points
from shapeproof.export.graph import nodes
from shapeproof.export.limits import NODE_ELEMENTS
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import ANYTHING, Span, span
from shapeproof.export.ops.schemas import Operands
from shapeproof.export.ops.shapes.layouts import sharing
from shapeproof.export.ops.stated import is_stated, stated_contents, stated_promises
from shapeproof.export.ops.value_ranges import INTEGRAL
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.trees import graph_modules, leaves, map_tensors
from shapeproof.export.trace.traced import translator_of
from shapeproof.solver.facts import Facts
from shapeproof.wording import first_line, values_text


@dataclass(frozen=True, slots=True)
class Fault:
    """An operator that does not do what its fake kernel says."""

    node: torch.fx.Node
    text: str


def operator_faults(eager: replay.Eager, found: Exploration, domain: Facts) -> list[Diagnostic]:
    """Return a diagnostic for the first point at which an operator differs from its fake kernel.

    `found.trusted` counts the inputs at which each operator was compared.
    """
    inputs, program = eager.inputs, found.main.exported
    names = nodes.foreign_operators(program.graph_module)
    if not names:
        return []
    found.trusted = dict.fromkeys(names, 0)
    run = Runs(program, inputs)
    raising: list[Point] = []
    passing: list[tuple[Point, list[str]]] = []
    for point in () if eager.missing else kernel_points(inputs, found, domain, run.weight):
        seen = run.at(point)
        if isinstance(seen, Fault):
            smaller = ((run.at(each), each) for each in smaller_points(point, inputs, domain))
            faults = ((fault, each) for fault, each in smaller if isinstance(fault, Fault))
            return [fault_diagnostic(*next(faults, (seen, point)), inputs)]
        passing.append((point, seen))
        raising += [point] if run.raised is not None else []
    for name in itertools.chain.from_iterable(names for _, names in passing):
        found.trusted[name] += 1
    smallest_first = sorted(raising, key=lambda point: sum(point.values()))
    for point in () if found.findings else claimed(smallest_first, inputs, found, domain):
        fault = run.raises_at(point)
        if (
            fault is not None
            and _passes_beyond(point, fault, passing)
            and raises_whatever_the_data(eager, found, point)
        ):
            return [fault_diagnostic(fault, point, inputs)]
    known = domain.assuming(*found.main.trial.facts.formulas)
    found.checked = tuple(name for name in names if is_checked(name, program, known))
    return []


def _passes_beyond(point: Point, fault: Fault, passing: Sequence[tuple[Point, list[str]]]) -> bool:
    """True if the operator that raises at a point was compared where no size is smaller: so it is not the data."""
    name = fault.node.target.name()  # type: ignore[union-attr]
    return any(name in names and all(other[key] >= point[key] for key in point) for other, names in passing)


# ---------------------------------------------------------------------- runs


class Runs:
    """Runs a program node by node."""

    def __init__(self, program: torch.export.ExportedProgram, inputs: Inputs) -> None:
        self._inputs = inputs
        self._fresh = fresh_modules(program, stated=True)
        self._read = translator_of(program).size
        bodies = graph_modules(program.graph_module)
        self._branches = nodes.is_run_by_data(program.graph_module)
        interpreted = sum(len(each.graph.nodes) for each in bodies)
        self.weight = sum(each.numel() for each in program.state_dict.values()) + interpreted * NODE_ELEMENTS
        self.raised: Fault | None = None
        """The custom operator that raised in the last run, if one did."""

    def at(self, point: Mapping[str, int]) -> Fault | list[str]:
        """Return the first fault at a point, or the operators that were compared before any error."""
        compared: list[str] = []
        self.raised = None
        for change in (unchanged, _opposite) if self._branches else (unchanged,):
            fault = self._walk(point, change, compared)
            if fault is not None:
                return fault
        return list(dict.fromkeys(compared))

    def raises_at(self, point: Mapping[str, int]) -> Fault | None:
        """Return the operator that raises at a point, whatever the data are of a few; None if none does."""
        for change in DATA:
            self.raised = None
            self._walk(point, change, [])
            if self.raised is None:
                break
        return self.raised

    def _walk(self, point: Mapping[str, int], change: Callable[..., Any], compared: list[str]) -> Fault | None:
        values = map_tensors(leaves(self._inputs.at(point, filled=True)), change)
        interpreter = _Interpreter(self._fresh(), Known(self._read, dict(point)), compared)
        try:
            interpreter.walk(values)
        except _Found as found:
            return found.fault
        self.raised = self.raised or interpreter.raised
        return None


def _opposite(tensor: torch.Tensor) -> torch.Tensor:
    """Return data for the other side of a branch: negated floats and bools."""
    if tensor.dtype == torch.bool:
        return ~tensor
    return -tensor if tensor.is_floating_point() else tensor


class _Found(BaseException):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Known:
    """The values of symbols in one run."""

    def __init__(self, read: Callable[[Any], Term], point: Point) -> None:
        self.read = read
        self._point = point

    def within(self) -> Known:
        """Copy the known values for a body, which may run again on other data."""
        return Known(self.read, dict(self._point))

    def denies(self, formula: Formula) -> bool:
        """True if a formula is known to be false in this run."""
        return formula.symbols <= self._point.keys() and not holds_at(formula, self._point)

    def take(self, node: torch.fx.Node, real: Any) -> None:
        """Set each symbol of a size from data to the run's value, where the size tells it, as `n` and `2*n` do."""
        noted = [
            self.read(size) if isinstance(size, torch.SymInt) else None for size in symbols.sizes(nodes.metadata(node))
        ]
        if all(term is None or term.symbols <= self._point.keys() for term in noted):
            return
        for term, size in zip(noted, symbols.sizes(real), strict=False):
            form = linear(term) if term is not None else None
            if form is not None and isinstance(size, int):
                self._point.setdefault(form.name, (int(size) - form.offset) // form.step)

    def value(self, size: Any) -> Any:
        """Return the value of a size from the metadata in this run; None if unknown."""
        if not isinstance(size, torch.SymInt):
            return size
        return value_at(self.read(size), self._point)


class Walk(torch.fx.Interpreter):
    """Runs a graph node by node, and learns the values of its symbols."""

    def __init__(self, module: torch.nn.Module, known: Known) -> None:
        super().__init__(module)
        self._known = known

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node, and learn the sizes of its result."""
        result = self.step(n)
        self._known.take(n, result)
        return result

    def step(self, n: torch.fx.Node) -> Any:
        """Run one node."""
        return super().run_node(n)

    def walk(self, values: Sequence[Any]) -> None:
        """Run the graph on flat inputs, up to the node that raises."""
        runner.outcome(lambda *flat: self.run(*flat, enable_io_processing=False), tuple(values), {})


class _Interpreter(Walk):
    """Compares the results of custom operators with their metadata."""

    def __init__(self, module: torch.nn.Module, known: Known, compared: list[str]) -> None:
        super().__init__(module, known)
        self._compared = compared
        self.raised: Fault | None = None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Wrap the bodies of torch.cond, so that their operators are compared too."""
        found = super().get_attr(target, args, kwargs)
        return _Body(found, self._known, self._compared) if isinstance(found, torch.fx.GraphModule) else found

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node.

        Raises:
            _Found: a result or mutation of the node differs from its metadata.
        """
        if not schemas.is_foreign(n.target):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        before = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves((args, kwargs))]
        try:
            result = super().run_node(n)
        except Exception as error:
            self.raised = Fault(n, f"raises where its fake does not: {first_line(error)}")
            raise
        text = _written(n.target, args, kwargs, before) or _unlike(n, (args, kwargs), result, self._known.value)
        text = text or _broken_statement(n.target, args, kwargs, result)
        if text is not None:
            raise _Found(Fault(n, text))
        self._compared.append(n.target.name())  # type: ignore[union-attr]
        return result


class _Body(torch.nn.Module):
    def __init__(self, module: torch.fx.GraphModule, known: Known, compared: list[str]) -> None:
        super().__init__()
        self._module, self._known, self._compared = module, known, compared

    def forward(self, *args: Any) -> Any:
        """Return the result of the body."""
        return _Interpreter(self._module, self._known.within(), self._compared).run(*args)


# ---------------------------------------------------------------------- comparisons


def _written(target: Any, args: Any, kwargs: Any, before: Sequence[Any]) -> str | None:
    """Describe a write into an operand that the operator's schema does not declare."""
    stated = {id(leaf) for leaf in leaves(schemas.written(target, args, kwargs))}
    for old, now in zip(before, leaves((args, kwargs)), strict=True):
        if isinstance(now, torch.Tensor) and id(now) not in stated and not _same(old, now):
            named = schemas.by_name(target, args, kwargs).items()
            name = next(name for name, value in named if any(leaf is now for leaf in leaves(value)))
            return f"writes into its operand `{name}`, which its schema does not say"
    return None


def _same(old: torch.Tensor, now: torch.Tensor) -> bool:
    return old.shape == now.shape and bool(((old == now) | ((old != old) & (now != now))).all())  # noqa: PLR0124 - NaN


def _unlike(node: torch.fx.Node, operands: Any, result: Any, value: Callable[[Any], Any]) -> str | None:
    """Describe how the results of an operator differ from its metadata."""
    noted = leaves(node.meta.get("val"))
    had = leaves(result)
    if len(noted) != len(had):
        return f"gives {len(had)} results where its fake says {len(noted)}"
    for mine, other in zip(had, noted, strict=True):
        text = _unlike_each(mine, other, value)
        if text is not None:
            return text
    of_operands = leaves(nodes.operands(node, nodes.metadata))
    pairs = zip([*leaves(operands), *had], [*of_operands, *noted], strict=True)
    shared = [(a, b) for a, b in pairs if has_elements(a) and has_elements(b)]
    if sharing([a for a, _ in shared]) != sharing([b for _, b in shared]):
        return "gives tensors that share storage otherwise than its fake says"
    return None


def _unlike_each(had: Any, noted: Any, value: Callable[[Any], Any]) -> str | None:
    if isinstance(had, torch.Tensor) != isinstance(noted, torch.Tensor):
        return f"gives {type(had).__name__} where its fake says {type(noted).__name__}"
    if not isinstance(had, torch.Tensor):
        said = value(noted)
        alike = said is None or not isinstance(said, int | float | bool | str) or said == had
        return None if alike else f"gives {had} where its fake says {said}"
    for mine, other in ((had.dtype, noted.dtype), (had.device, noted.device), (had.layout, noted.layout)):
        if mine != other:
            return f"gives {mine} where its fake says {other}"
    if had.dim() != noted.dim():
        return f"gives {had.dim()} dimensions where its fake says {noted.dim()}"
    return _unlike_sizes(had, noted, value) if had.layout == torch.strided else None


def _unlike_sizes(had: torch.Tensor, noted: torch.Tensor, value: Callable[[Any], Any]) -> str | None:
    claimed = [value(size) for size in noted.shape]
    said = [size if known is None else known for size, known in zip(had.shape, claimed, strict=True)]
    differ = [index for index, size in enumerate(had.shape) if size != said[index]]
    if differ == [0]:
        return f"gives {had.shape[0]} {'row' if had.shape[0] == 1 else 'rows'} where its fake says {said[0]}"
    if differ:
        return f"gives {list(had.shape)} where its fake says {said}"
    steps = [value(stride) for stride in noted.stride()]
    reached = had.numel() > 0 and any(
        size > 1 and step not in {None, stride}
        for size, stride, step in zip(had.shape, had.stride(), steps, strict=True)
    )
    return f"gives strides {list(had.stride())} where its fake says {steps}" if reached else None


def _broken_statement(func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> str | None:
    """Describe how a real run of an operator breaks what users state of it (ops/stated.py); None if it complies.

    The rules receive the real sizes and integers as constants, so what they return is true or false.
    """
    if not is_stated(str(func)):
        return None
    results = result if isinstance(result, tuple | list) else (result,)
    call = Operands(constant, _span_of).call(func, args, kwargs, results)
    if not all(holds_at(each, {}) for each in stated_promises(call)):
        sizes = ", ".join(str(list(each.shape) if isinstance(each, torch.Tensor) else each) for each in results)
        return f"breaks its promise: it gives {sizes}"
    spans = stated_contents(call, Bounds({}).of)
    pairs = zip(results, spans, strict=False)
    return next((text for each, stated in pairs if (text := _outside(each, stated)) is not None), None)


def _span_of(tensor: torch.Tensor) -> Span:
    """Return the range of a real tensor's integers."""
    if str(tensor.dtype) not in INTEGRAL or tensor.layout != torch.strided or tensor.numel() == 0:
        return ANYTHING
    return span(int(tensor.min()), int(tensor.max()))


def _outside(result: Any, stated: Span) -> str | None:
    if not isinstance(result, torch.Tensor):
        return None
    found = _span_of(result)
    if found.low is not None and stated.low is not None and _value(found.low) < _value(stated.low):
        return f"gives {found.low} where its contents are stated to begin at {stated.low}"
    if found.high is not None and stated.high is not None and _value(found.high) > _value(stated.high):
        return f"gives {found.high} where its contents are stated to end at {stated.high}"
    return None


def _value(end: Term) -> int:
    return evaluate(end, {})


def fault_diagnostic(fault: Fault, point: Point, inputs: Inputs) -> Diagnostic:
    """Make the diagnostic of a fault that a run at a point has shown."""
    return operator_diagnostic(fault.node.target, fault.text, point, inputs).at(nodes.line_of(fault.node))


def operator_diagnostic(operator: Any, text: str, point: Point, inputs: Inputs) -> Diagnostic:
    """Make the diagnostic of an operator that was run at a point."""
    named = {inputs.user_names.get(name, name): value for name, value in point.items()}
    sizes = values_text(named) or "the example"
    return Diagnostic(
        id="operator",
        message=f"{operator.name()} {text}",
        severity="error",
        notes=(Note("fails at", f"{sizes}   replayed"),),
        witness=named,
    )
