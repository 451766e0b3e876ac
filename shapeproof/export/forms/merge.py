"""Merges the programs of a split model into one program that dispatches between them with torch.cond.

Each program becomes a branch, traced again over the whole domain: torch traces all branches of a torch.cond at the same
sizes, and so does a compiler of the merged program. If one program fails at the sizes of another region, every branch
gets its inputs at sizes moved into its own region. The condition and the sizes of the results are computed from the
sizes of the inputs. The merged program is proved like any model, and replayed against the model at the points of every
region. A failure raises UsageError, which says why.

A result that is an input or a view of one becomes a copy: a branch of torch.cond must return neither.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.records.domain import Declaration, Origin
from shapeproof.constraints.terms import Term, constant, symbol
from shapeproof.contract.sizes import plainly, readings
from shapeproof.export.build.closing_audit import lost
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.corners import disagreement
from shapeproof.export.explore.beside_eager.forms import forms_of
from shapeproof.export.explore.regions import Split
from shapeproof.export.forms.branches import Branch, is_number, unlike
from shapeproof.export.forms.predicates import chosen, compared, kept_inside
from shapeproof.export.graph.constants import same_constant
from shapeproof.export.graph.emit import Computation, has_graph_form
from shapeproof.export.report.explain import disagreeing
from shapeproof.export.shim import trees
from shapeproof.export.shim.modules import module_around
from shapeproof.export.shim.trees import leaves
from shapeproof.export.trace.rebinding import Left
from shapeproof.export.trace.traced import left_in
from shapeproof.export.verify import verify_module
from shapeproof.solver.answers.witness import find, generic
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import equal
from shapeproof.wording import said_by


@dataclass(frozen=True)
class _Sizes:
    """The sizes of a result in terms of the inputs' sizes.

    Attributes:
        terms: computable everywhere; in each region, equal to the result's sizes.
        uniform: true if the same terms are the traced sizes in every region.
    """

    terms: tuple[Term, ...]
    uniform: bool


@dataclass(frozen=True)
class Merging:
    """The regions to merge.

    Attributes:
        mod: the model.
        inputs: its declared inputs.
        done: the explored regions.
    """

    mod: torch.nn.Module
    inputs: Inputs
    done: Split

    def merged(self, programs: Sequence[ReportedProgram]) -> ReportedProgram:
        """Merge the programs of the regions into one.

        Raises:
            UsageError: they cannot be branches of one torch.cond, or the merged program could not be proved.
        """
        if len(programs) == 1:
            return programs[0]
        holds = [compared(region.holds) for region in self.done.regions]
        branches = [Branch(f"region {number}", each) for number, each in enumerate(programs, 1)]
        _refuse_if(unlike(branches))
        _refuse_if(
            next((f"`{each}` cannot be computed in a graph" for each in holds if not has_graph_form(each)), None)
        )
        inputs = self._enforced()
        dispatch = functools.partial(_Dispatch, branches, holds, inputs, self._common(branches, inputs))
        program = self._either(dispatch, inputs)
        program.rely_on(each.contract for each in programs)
        notes = dict.fromkeys(note for region in self.done.regions for note in region.found.notes)
        program.report = replace(program.report, notes=tuple(dict.fromkeys([*program.report.notes, *notes])))
        return program

    def _either(self, dispatch: Callable[..., _Dispatch], inputs: Inputs) -> ReportedProgram:
        """Return the program whose branches are traced at common sizes, or else at sizes of their own regions."""
        try:
            return self._proved(dispatch(), inputs)
        except UsageError:
            kept = self._kept_inside(inputs)
            if kept is not None:
                with contextlib.suppress(UsageError):
                    return self._proved(dispatch(kept), inputs)
            raise

    def _proved(self, run: _Dispatch, inputs: Inputs) -> ReportedProgram:
        """Return the dispatching program if it is proved to do the same as the model."""
        taken = inspect.signature(self.mod.forward).parameters.values()
        merged = module_around(lambda tensors, *given: run(tensors, leaves(given)), run.state, taken)
        try:
            report = verify_module(merged, inputs)
        except Exception as error:  # noqa: BLE001 - torch refuses by many kinds of error
            raise _refusal(said_by(error)) from None
        program = report.program
        if report.status != "proved" or not isinstance(program, ReportedProgram):
            raise _refusal(report.diagnostics[0].message if report.diagnostics else "it could not be proved")
        _refuse_if(self._disagreement(program))
        for message in lost(run.checks(), program):
            raise _refusal(f"torch drops a check in a branch: {message}")
        return program

    def _kept_inside(self, inputs: Inputs) -> list[Mapping[str, Term]] | None:
        """Return, for each region, terms for the sizes that never leave it; None if there are no such terms."""
        if not all(leaf.example.is_contiguous() for leaf in inputs.leaves if isinstance(leaf.example, torch.Tensor)):
            return None
        domain = inputs.facts()
        kept: list[Mapping[str, Term]] = []
        for region in self.done.regions:
            point = generic(self.done.within(region), sorted(region.holds.symbols))
            if not isinstance(point, dict):
                return None
            kept.append(kept_inside(region.holds, point, domain))
        return kept

    def _enforced(self) -> Inputs:
        """Return the inputs with the inferred requirements, which hold for every served input, as declarations."""
        inferred = tuple(Declaration(formula, Origin("inferred")) for formula in self.done.inferred)
        domain = self.inputs.domain.claimed()
        return replace(self.inputs, domain=replace(domain, declarations=(*domain.declarations, *inferred)))

    def _common(self, branches: Sequence[Branch], inputs: Inputs) -> list[_Sizes | None]:
        """Return the sizes of each result (a number: its value) in terms of the inputs' sizes; None if impossible."""
        known = readings([leaf.terms for leaf in inputs.leaves])
        facts = [self.done.within(region) for region in self.done.regions]
        found: list[_Sizes | None] = []
        for number, alternatives in enumerate(zip(*(branch.sizes for branch in branches), strict=True), 1):
            each = list(zip(*alternatives, strict=True))
            agreed = [_agreed(terms, facts, known) for terms in each]
            sizes = [size or self._chosen(terms, known) for size, terms in zip(agreed, each, strict=True)]
            found.append(None if None in sizes else _Sizes(tuple(filter(None, sizes)), None not in agreed))
            if found[-1] is None and is_number(branches[0].results[number - 1]):
                raise _refusal(f"result {number} is a number that cannot be computed everywhere")
        return found

    def _chosen(self, terms: Sequence[Term | None], known: Container[str]) -> Term | None:
        """Return a term that equals each term in its region; None if some term cannot be computed everywhere."""
        total = [term for term in terms if term is not None and _computable(term, known)]
        return chosen([region.holds for region in self.done.regions], total) if len(total) == len(terms) else None

    def _disagreement(self, program: torch.export.ExportedProgram) -> str | None:
        """Describe a point in some region at which the program differs from the model; None if there is none."""
        forms = forms_of(program)
        for region in self.done.regions:
            traced = region.found.main.program
            left = Left() if traced is None else left_in(traced)
            here = [replace(form, left=left, relaid=True) for form in forms]
            found = replace(region.found, main=replace(region.found.main, program=program), forms=here)
            wrong = disagreement(replay.Eager(self.mod, self.inputs), found, self.done.within(region))
            if wrong is not None:
                told = disagreeing(wrong, self.inputs)
                return f"{told.message}: {told.notes[0].text}"
        return None


def _agreed(terms: Sequence[Term | None], facts: Sequence[Facts], known: Container[str]) -> Term | None:
    """Return one term, computable everywhere, that equals each of the terms in its region."""
    for candidate in [*terms, *(_constant(*pair) for pair in zip(terms, facts, strict=True))]:
        if candidate is None or not _computable(candidate, known):
            continue
        pairs = zip(terms, facts, strict=True)
        if all(term is not None and equal(candidate, term, here) for term, here in pairs):
            return candidate
    return None


def _computable(term: Term, known: Container[str]) -> bool:
    return term.total and all(name in known for name in term.symbols)


def _constant(term: Term | None, here: Facts) -> Term | None:
    """Return the value of a term at some point of a region: torch records `n//(n//2)` for a size that is 2 there."""
    point = None if term is None else find(f.ge(term, 0), here)
    return constant(evaluate(term, point)) if term is not None and isinstance(point, dict) else None


def _refuse_if(reason: str | None) -> None:
    if reason is not None:
        raise _refusal(reason)


def _refusal(reason: str) -> UsageError:
    return UsageError(f"the regions cannot be merged into one program: {reason}")


def _shared_state(branches: Sequence[Branch]) -> tuple[list[list[str]], dict[str, torch.Tensor]]:
    """Return the names of each branch's tensors, and all tensors by name; differing constants get separate names."""
    state: dict[str, torch.Tensor] = {}
    names: list[list[str]] = []
    for index, branch in enumerate(branches):
        names.append([])
        for target, tensor in branch.state().items():
            same = same_constant(state.get(target, tensor), tensor)
            name = target if same else f"{target}_{index}"
            state.setdefault(name, tensor)
            names[-1].append(name)
    return names, state


class _Dispatch:
    """Selects a branch by the sizes of the inputs: in Python if the sizes are numbers, else by torch.cond.

    `kept` has, for each branch, terms for the sizes at which the branch gets its inputs; these sizes never leave its
    region. Where the branch is taken, they are the actual sizes. Elsewhere the branch is traced only, at valid sizes.

    Attributes:
        state: the tensors that the branches use, by name.
    """

    def __init__(
        self,
        branches: Sequence[Branch],
        holds: Sequence[Formula],
        inputs: Inputs,
        common: Sequence[_Sizes | None],
        kept: Sequence[Mapping[str, Term]] | None = None,
    ) -> None:
        self._branches = branches
        self._holds = holds
        self._sizes = [leaf.terms for leaf in inputs.leaves]
        self._kept = kept
        self._places = readings([leaf.terms for leaf in inputs.leaves])
        self._common = common
        self._names, self.state = _shared_state(branches)

    def checks(self) -> Counter[str]:
        """Return the checks of all branches."""
        return sum((branch.checks() for branch in self._branches), Counter[str]())

    def __call__(self, state: Mapping[str, torch.Tensor], flat: Sequence[Any]) -> Any:
        """Return the model's results."""
        varying = [index for index, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor | torch.SymInt)]

        def unpacked(operands: Sequence[Any]) -> tuple[dict[str, torch.Tensor], list[Any]]:
            filled = list(flat)
            for index, value in zip(varying, operands[len(state) :], strict=True):
                filled[index] = value
            return dict(zip(state, operands, strict=False)), filled

        def take(number: int, *operands: Any) -> Any:
            tensors, values = unpacked(operands)
            if number == len(self._branches) - 1:
                return self._run(number, tensors, values)
            return _cond(
                self._reader(values).formula(self._holds[number]),
                lambda *given: self._run(number, *unpacked(given)),
                lambda *given: take(number + 1, *given),
                operands,
            )

        acting = any(branch.acts() for branch in self._branches)
        given = take(0, *state.values(), *(flat[index] for index in varying)) if acting else ()
        return self._restored(given, self._reader(flat))

    def _run(self, number: int, state: Mapping[str, torch.Tensor], flat: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Return the results of one branch."""
        reader = self._reader(flat)
        tensors = [state[name] for name in self._names[number]]
        seen = flat if self._kept is None else self._seen(self._kept[number], flat, reader)
        lengths = [
            math.prod(map(reader.term, sizes.terms)) if self._as_noted(sizes) else sizes and -1
            for sizes in self._common
        ]
        return self._branches[number](tensors, seen, lengths)

    def _as_noted(self, sizes: _Sizes | None) -> TypeGuard[_Sizes]:
        """True if every branch is traced with exactly these result sizes."""
        return sizes is not None and sizes.uniform and self._kept is None

    def _seen(self, kept: Mapping[str, Term], flat: Sequence[Any], reader: Computation) -> list[Any]:
        """Return the inputs, resized to the region of a branch."""
        own = Computation({name: reader.term(kept.get(name, symbol(name))) for name in self._places})
        seen = list(flat)
        for index, terms in enumerate(self._sizes):
            if any(name in kept for term in terms for name in term.symbols):
                sizes = list(map(own.term, terms))
                seen[index] = _laid_out(flat[index], sizes) if isinstance(flat[index], torch.Tensor) else sizes[0]
        return seen

    def _reader(self, flat: Sequence[Any]) -> Computation:
        """Return a Computation over the sizes of the inputs."""
        sizes = [leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in flat]
        return Computation({name: at.value(sizes[at.leaf][at.index], plainly) for name, at in self._places.items()})

    def _restored(self, given: Sequence[torch.Tensor], reader: Computation) -> Any:
        """Return the results in the model's shapes and structure."""
        tensors = iter(given)
        first = self._branches[0]
        results = []
        for noted, sizes in zip(first.results, self._common, strict=True):
            shape = None if sizes is None else list(map(reader.term, sizes.terms))
            if isinstance(noted, torch.Tensor):
                tensor = next(tensors)
                shaped = torch.Tensor.view if self._as_noted(sizes) else _laid_out
                results.append(tensor if shape is None else shaped(tensor, shape))
            else:
                results.append(shape[0] if shape else noted)
        return trees.unflattened(results, first.program)


def _laid_out(tensor: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """View a contiguous tensor at these sizes; at run time they are its actual sizes wherever the result is used."""
    return tensor.as_strided(sizes, [math.prod(sizes[index + 1 :]) for index in range(len(sizes))])


def _cond(
    condition: bool | torch.SymBool,  # noqa: FBT001 - it is what is asked
    then: Callable[..., Any],
    other: Callable[..., Any],
    operands: Sequence[Any],
) -> Any:
    """Call torch.cond; in a trace call its operator, since torch.cond itself would run dynamo on the branches."""
    if isinstance(condition, torch.SymBool):
        return torch.ops.higher_order.cond(condition, then, other, tuple(operands))
    return then(*operands) if condition else other(*operands)
