"""Traces a kernel in Python like a model, and proves that it does what the fake kernel and the schema say.

The kernel must return results of the fake's sizes, dtypes and strides, with the same shared storage, and write only
into the operands that the schema names.

Fake and kernel are both programs over the declared sizes, with regions. A size that the fake takes from data may be any
number that its facts allow (a range, a promise); the size that the kernel returns is proved to meet these facts.

Law: `proved` covers every declared size at which the fake returns a result. A claim that the solver refutes becomes a
fault only once a run shows it. Every other claim without a proof is listed as a reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import Term, name_of
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.kernels import Fault, Runs, fault_diagnostic
from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes.layouts import sharing
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves
from shapeproof.export.trace.traced import env_of, translator_of
from shapeproof.operators.calling import shown_names
from shapeproof.solver.answers.witness import smallest
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import substitute
from shapeproof.solver.prove import decide, implied


@dataclass(slots=True)
class Comparison:
    """The outcome of the claims. It is a proof if there is no fault and no open claim."""

    faults: list[Diagnostic] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its inputs, its results, and the facts of its region."""

    exported: torch.export.ExportedProgram
    given: Sequence[Any]
    results: Sequence[Any]
    facts: tuple[Formula, ...]

    @classmethod
    def of(cls, exported: torch.export.ExportedProgram, holds: Formula) -> Program:
        """Return the program of a region."""
        (returned,) = exported.graph.output_node().args
        env = env_of(exported)
        facts = () if env is None else env.trial.facts.formulas
        taken = set(exported.graph_signature.user_inputs)
        given = [node.meta.get("val") for node in exported.graph.nodes if node.name in taken]
        results = list(map(nodes.metadata, leaves(returned)))
        return cls(exported, given, results, (*facts, holds))

    def term(self, size: Any) -> Term:
        """Return the term of a size in the program's metadata."""
        return translator_of(self.exported).size(size)


def writes_unsaid(kernel: Program, operator: Any) -> bool:
    """True if a kernel may write into an operand that the operator's schema does not mark as written."""
    arguments = schemas.schema_of(operator).arguments
    shown = shown_names(operator)
    said = {shown[each.name]: each.alias_info is not None and each.alias_info.is_write for each in arguments}
    taken = set(kernel.exported.graph_signature.user_inputs)
    graph = kernel.exported.graph
    kept = [node.meta.get("val") for node in graph.nodes if node.name in taken and not said[_argument(node.name, said)]]
    written = {
        storage
        for node in graph.nodes
        if node.op == "call_function"
        for operand in nodes.changed_operands(node)
        for storage in storages(operand.meta.get("val"))
    }
    return not written.isdisjoint(storages(kept))


def _argument(placeholder: str, names: Iterable[str]) -> str:
    """Return the argument that contains a program's input: `xs_0` belongs to `xs`."""
    return max((each for each in names if f"{placeholder}_".startswith(f"{each}_")), key=len)


def compare(fakes: Sequence[Program], kernels: Sequence[Program], inputs: Inputs, operator: Any) -> Comparison:
    """Compare fake and kernel wherever a region of one overlaps a region of the other."""
    found = Comparison()
    names = frozenset(inputs.domain.symbols)
    for fake in fakes:
        covered = Facts([*inputs.domain.formulas, *_of_sizes(fake, names)])
        served = f.disjunction(*(f.conjunction(*_of_sizes(each, names)) for each in kernels))
        if not implied(served, covered):
            found.open.append("the kernel is not known to give a result at every declared size")
        for kernel in kernels:
            facts = Facts([*covered.formulas, *kernel.facts])
            if not facts.contradictory:
                claims: list[tuple[Formula, str]] = [(f.FALSE, _WRITES)] if writes_unsaid(kernel, operator) else []
                claims += _claims(fake, kernel, names)
                _compare(fake, claims, facts, inputs, found)
    return found


def _of_sizes(program: Program, names: frozenset[str]) -> list[Formula]:
    return [each for each in program.facts if each.symbols <= names]


_WRITES = "that it writes into no operand but those that its schema names"


def _compare(
    fake: Program, claims: Iterable[tuple[Formula, str]], facts: Facts, inputs: Inputs, found: Comparison
) -> None:
    """Prove each claim, which may come in words, or show its fault at a run."""
    names = sorted(inputs.domain.symbols)
    for claim, words in claims:
        verdict = decide(claim, facts)
        if verdict.status == "proved":
            continue
        point = smallest(f.negate(claim), facts, names) if verdict.status == "refuted" else None
        whole = {name: point.get(name, 0) for name in names} if isinstance(point, dict) else None
        seen = (
            Runs(fake.exported, inputs).at(whole) if whole is not None and inputs.elements(whole) <= _ELEMENTS else None
        )
        if isinstance(seen, Fault):
            found.faults.append(fault_diagnostic(seen, whole or {}, inputs))
            return
        said = words or format_formula(claim, rename=inputs.user_names)
        found.open.append(f"not proved of the kernel: {said}")


_ELEMENTS = 2**24
"""Inputs with more elements are not created to show a witness of the solver."""


def _unlike(mine: Any, other: Any) -> bool:
    if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
        return any(getattr(mine, name) != getattr(other, name) for name in ("dtype", "device", "layout", "ndim"))
    numbers = isinstance(mine, int | torch.SymInt) and isinstance(other, int | torch.SymInt)
    return not numbers and not (mine is None and other is None)


def _claims(fake: Program, kernel: Program, names: frozenset[str]) -> Iterator[tuple[Formula, str]]:
    """Yield what the fake says, as claims about the kernel; FALSE, in words, for a difference other than of sizes."""
    if len(fake.results) != len(kernel.results) or any(map(_unlike, fake.results, kernel.results)):
        yield f.FALSE, "that it gives as many results as its fake, of the same dtypes and ranks"
        return
    if sharing([*fake.given, *fake.results]) != sharing([*kernel.given, *kernel.results]):
        yield f.FALSE, "that its results share no storage but as its fake says"
    yield from ((each, "") for each in _of_sizes_and_strides(fake, kernel, names))


def _of_sizes_and_strides(fake: Program, kernel: Program, names: frozenset[str]) -> Iterator[Formula]:
    known: dict[str, Term] = {}
    """The sizes that the kernel returns for those that the fake takes from data; FALSE is claimed of any other."""

    def equal(said: Any, had: Any) -> Formula:
        term = fake.term(said)  # the kernel's term stays as it is: its sizes from data may have the fake's names
        return f.eq(substitute(term, known), kernel.term(had)) if term.symbols <= names | known.keys() else f.FALSE

    for said, had in itertools.chain.from_iterable(map(_numbers, fake.results, kernel.results)):
        name = name_of(fake.term(said))
        if name is not None and name not in names and name not in known:
            known[name] = kernel.term(had)
        else:
            yield equal(said, had)
    for fact in fake.facts:
        if not fact.symbols <= names:
            yield substitute(fact, known) if fact.symbols <= names | known.keys() else f.FALSE
    for mine, other in zip(fake.results, kernel.results, strict=True):
        if isinstance(mine, torch.Tensor) and mine.layout == torch.strided:
            yield from _strides(kernel, mine, other, equal)


def _numbers(mine: Any, other: Any) -> list[tuple[Any, Any]]:
    if isinstance(mine, torch.Tensor):
        return list(zip(mine.shape, other.shape, strict=True))
    return [] if mine is None else [(mine, other)]


def _strides(kernel: Program, mine: Any, other: Any, equal: Callable[[Any, Any], Formula]) -> Iterator[Formula]:
    """Yield for each stride: it is the fake's, or reaches no element."""
    empty = [f.eq(kernel.term(size), 0) for size in other.shape]
    for size, said, had in zip(other.shape, mine.stride(), other.stride(), strict=True):
        yield f.disjunction(equal(said, had), f.le(kernel.term(size), 1), *empty)
