"""`check_operator`: does an operator do what its fake kernel says?

1. Explore the fake alone over the declared sizes. Run the operator and the fake at every point of a small box, and
   beside each border that the fake asks about. Compare the user's statements (`promise`, `contents`) with these runs.
2. torch.library.opcheck compares the schema with runs: aliases and writes.
3. Every size that the fake takes from data must have an upper bound.
4. Trace a kernel in Python and prove it equal to the fake (proof.py). Any other kernel is only run, never proved.

Trusted: inputs are contiguous, as they are here. Only the declared dtypes are checked.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.diagnostics import Diagnostic, Help
from shapeproof.constraints.syntax.text import format_term
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.build.regions import ReportedRegions
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.explore.beside_eager import runner
from shapeproof.export.explore.beside_eager.checked import remember_proof, unproved
from shapeproof.export.explore.beside_eager.corners import DATA
from shapeproof.export.explore.beside_eager.kernels import operator_diagnostic
from shapeproof.export.ops import schemas
from shapeproof.export.report.report import Report
from shapeproof.export.shim.custom_operators import overload_of, python_kernel
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.export.shim.trees import map_tensors
from shapeproof.export.verify import verified
from shapeproof.operators.calling import Calling, by_schema, renamed, shown_names
from shapeproof.operators.proof import Program, compare
from shapeproof.operators.report import OperatorReport
from shapeproof.solver.answers.optimum import least_upper_bound
from shapeproof.solver.answers.witness import smallest
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.wording import first_line, with_kind


def check_operator(  # noqa: PLR0913 - as export
    operator: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    constraints: Sequence[str] = (),
    budget: Budget | None = None,
) -> OperatorReport:
    """Compare an operator with its fake kernel over declared sizes.

    Args:
        operator: the result of `torch.library.custom_op`, an operator of `torch.ops`, or its name.
        args: the operator's arguments: a TensorSpec or an example for each tensor; other values unchanged.
        kwargs: the keyword arguments.
        dynamic_shapes: the dynamic sizes of examples and the dynamic ints, in any form that `export` takes.
        constraints: relations over the sizes.
        budget: the work that one solver question may cost.

    Returns:
        A report whose status is "proved", "agrees", "refuted", "undecided" or "vacuous".

    Raises:
        UsageError: `operator` is no operator, it has no fake kernel, or the declarations are invalid.

    >>> import torch
    >>> from shapeproof.operators import TensorSpec, check_operator
    >>> @torch.library.custom_op("shapeproof_doc::half", mutates_args=())
    ... def half(x: torch.Tensor) -> torch.Tensor:
    ...     return x[: (x.shape[0] + 1) // 2].clone()
    >>> @half.register_fake
    ... def _(x):
    ...     return x.new_empty((x.shape[0] + 1) // 2, *x.shape[1:])
    >>> rows = torch.export.Dim("rows", min=0, max=64)
    >>> check_operator(half, (TensorSpec(torch.float32, (rows, 3)),)).status
    'proved'
    """
    found = _foreign(operator, args)

    def declared(function: Callable[..., Any]) -> tuple[torch.nn.Module, Inputs]:
        mod = Calling(function, found)
        return mod, declare(mod, tuple(args), renamed(found, kwargs), dynamic_shapes, tuple(constraints))

    with one_thread:
        return _remembered(found, declared, budget or Budget())


def _foreign(operator: Any, args: object) -> Any:
    """Return the operator that a user names, if these can be arguments of it.

    Raises:
        UsageError: they cannot; or there is no operator with one overload, or it is torch's own.
    """
    found = overload_of(operator)
    if found is None:
        raise UsageError(f"expected an operator with one overload, such as torch.ops.sp.half.default, got {operator!r}")
    if not schemas.is_foreign(found):
        raise UsageError(f"{found.name()} is torch's own operator, which torch tests")
    if not isinstance(args, tuple | list):
        raise UsageError(f"args must be a tuple of arguments, not {type(args).__name__}")
    return found


def _remembered(found: Any, declared: Declared, budget: Budget) -> OperatorReport:
    with unproved(found):
        report = _checked(found, declared, budget)
    if report.status == "proved":
        remember_proof(found, declared(found)[1], shown_names(found))
    return report


Declared = Callable[[Callable[..., Any]], tuple[torch.nn.Module, Inputs]]
"""Return a model that only calls a function, and its declared inputs."""


_SHOWN = 300
"""The maximal number of characters of a message of torch that a report shows."""


def _checked(operator: Any, declared: Declared, budget: Budget) -> OperatorReport:
    mod, inputs = declared(operator)
    try:
        alone = verified(mod, inputs, splitting=True, budget=budget)
    except UsageError as error:
        if error.__cause__ is None:
            raise
        raise UsageError(
            f"the fake kernel of {operator.name()} cannot be run: {with_kind(error.__cause__)}"
        ) from error.__cause__
    report = functools.partial(OperatorReport, operator.name(), compared=sum(alone.trusted.values()))
    if alone.status != "proved" or not isinstance(alone.program, ReportedRegions):
        wrong = _refused(operator, inputs, alone)
        ours = inspect.getfile(Calling)  # no line of the user's
        told = tuple(replace(each, file=None, line=None) if each.file == ours else each for each in alone.diagnostics)
        return report(alone.status, told) if wrong is None else report("refuted", (wrong,))
    fakes = _programs(alone)
    results = tuple(dict.fromkeys(_results(each, inputs) for each in fakes))
    wrong = _against_schema(operator, inputs, fakes)
    if wrong is not None:
        return report("refuted", (wrong,), results)
    unbounded = {each.message: each for program in fakes for each in _unbounded(program, operator, inputs)}
    if unbounded:
        return report("undecided", tuple(unbounded.values()), results)
    if not sum(alone.trusted.values()):
        return report("undecided", results=results, notes=("the operator raises wherever it was run",))
    kernel = _traced_kernel(operator, declared, budget)
    if isinstance(kernel, str):
        return report("agrees", results=results, notes=(kernel,))
    compared = compare(fakes, kernel, inputs, operator)
    if compared.faults:
        return report("refuted", tuple(compared.faults), results)
    notes = tuple(dict.fromkeys(compared.open))
    return report("agrees" if notes else "proved", results=results, notes=notes)


def _traced_kernel(operator: Any, declared: Declared, budget: Budget) -> list[Program] | str:
    """Return the programs of an operator's kernel, traced as a model, or the reason why there are none."""
    kernel = python_kernel(operator)
    if kernel is None:
        return "its kernel is no function in Python that torch knows of: it was run, and not read"
    try:
        report = verified(*declared(kernel), splitting=True, budget=budget)
    except Exception as error:  # noqa: BLE001 - whatever it raises, it cannot be followed
        return f"the kernel cannot be traced: {first_line(error)}"
    if report.status != "proved" or not isinstance(report.program, ReportedRegions):
        return "the kernel, traced as a model, is not proved itself"
    if report.trusted:
        return f"the kernel calls {', '.join(report.trusted)}, whose fake is not proved here"
    return _programs(report)


def _programs(report: Report) -> list[Program]:
    regions = report.program
    return [Program.of(*each) for each in zip(regions.programs, regions.holds, strict=True)]  # type: ignore[union-attr]


def _refused(operator: Any, inputs: Inputs, alone: Report) -> Diagnostic | None:
    """Report the smallest sizes that the fake rejects and the operator accepts; None if there are none to compare."""
    if alone.status != "undecided" or not isinstance(alone.program, ReportedRegions):
        return None
    names, domain = sorted(inputs.domain.symbols), inputs.facts()
    served = f.disjunction(*alone.program.holds)
    points = [smallest(each, domain, names) for each in (served, f.negate(served))]
    inside, beyond = ({name: p[name] for name in names} if isinstance(p, dict) else None for p in points)
    if inside is None or beyond is None or _raised(operator, inputs, inside, "meta") is not None:
        return None
    said = _raised(operator, inputs, beyond, "meta")
    if said is None or _raised(operator, inputs, beyond, "cpu") is not None:
        return None
    return operator_diagnostic(operator, f"runs where its fake raises: {first_line(said)[:_SHOWN]}", beyond, inputs)


def _raised(operator: Any, inputs: Inputs, point: dict[str, int], device: str) -> Exception | None:
    """Return the exception that an operator raises at a point; device `meta` runs its fake."""
    args, kwargs = map_tensors(inputs.at(point, filled=True), lambda tensor: tensor.to(device))
    return runner.outcome(operator, args, by_schema(operator, kwargs))[1]


def _results(program: Program, inputs: Inputs) -> str:
    """Return dtype and sizes of a program's results as text."""
    names = inputs.user_names

    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            sizes = ", ".join(format_term(program.term(size), rename=names) for size in value.shape)
            return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
        return format_term(program.term(value), rename=names) if isinstance(value, torch.SymInt) else str(value)

    return ", ".join(map(text, program.results)) or "nothing"


def _against_schema(operator: Any, inputs: Inputs, fakes: Sequence[Program]) -> Diagnostic | None:
    """Report what torch.library.opcheck finds at the smallest sizes of each region."""
    for point in _smallest(inputs, fakes):
        args, named = _accepted(operator, inputs, point)
        with quiet():
            (found,) = torch.library.opcheck(
                operator, args, named, test_utils="test_schema", raise_exception=False
            ).values()
        if isinstance(found, Exception):
            text = f"does not keep to its schema (torch.library.opcheck): {first_line(found)[:_SHOWN]}"
            return operator_diagnostic(operator, text, point, inputs)
    return None


def _accepted(operator: Any, inputs: Inputs, point: dict[str, int]) -> tuple[Any, dict[str, Any]]:
    """Return inputs at a point that the operator accepts, if some do: opcheck takes an error on data for a finding."""
    given = inputs.at(point, filled=True)
    for fill in DATA:
        args, kwargs = map_tensors(given, fill)
        named = by_schema(operator, kwargs)
        if runner.outcome(operator, *copy.deepcopy((args, named)))[1] is None:
            return args, named
    return given[0], by_schema(operator, given[1])


def _smallest(inputs: Inputs, fakes: Sequence[Program]) -> Iterator[dict[str, int]]:
    names = sorted(inputs.domain.symbols)
    filled = [f.ge(symbol(name), 2) for name in names]
    for program in fakes:
        known = [each for each in program.facts if each.symbols <= set(names)]
        for more in ([], filled):
            point = smallest(f.TRUE, Facts([*known, *more]), names)
            if isinstance(point, dict):
                yield {name: point[name] for name in names}


def _unbounded(program: Program, operator: Any, inputs: Inputs) -> Iterator[Diagnostic]:
    """Report sizes from data that have no upper bound although all declared sizes are known."""
    point = next(iter(reversed(list(_smallest(inputs, [program])))), {})
    facts = Facts([*program.facts, *(f.eq(symbol(name), value) for name, value in point.items())])
    for number, result in enumerate(program.results):
        for dim, size in enumerate(result.shape if isinstance(result, torch.Tensor) else ()):
            term: Term = program.term(size)
            if not term.symbols <= point.keys() and not isinstance(least_upper_bound(term, facts), int):
                text = f"takes the size {dim} of result {number} from data, and nothing bounds it"
                found = operator_diagnostic(operator, text, point, inputs)
                yield replace(found, help=(Help(f'promise("{operator.name()}") states a bound', ""),))
