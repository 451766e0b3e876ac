"""The programs of a split model as one program that dispatches between them with torch.cond.

Each program becomes a branch, traced again over the whole domain: torch reads the branches of a torch.cond on the same
sizes, and so does whoever compiles the result. Which branch is taken is computed from the sizes of the inputs. The
outcome is proved as any model is, and run beside the model at the points of every region. What cannot be merged is
refused, with a sentence that says why.

A result that is an input, or a view of one, is a copy here: a branch of torch.cond returns neither.
"""

from __future__ import annotations

import copy
import functools
import inspect
import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.domain import Declaration, Origin
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.evaluate import evaluate
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term, constant, maximum, minimum
from shapeproof.export import replay, tracing
from shapeproof.export.computed import Computation, NoGraphForm, has_graph_form, plainly, readings
from shapeproof.export.corners import disagreements
from shapeproof.export.inputs import Inputs
from shapeproof.export.regions import Split
from shapeproof.export.replay import decomposed
from shapeproof.export.report import Report
from shapeproof.export.shape_env import leaves
from shapeproof.export.storages import storages
from shapeproof.export.translate import Untranslatable
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide
from shapeproof.solver.witness import find


@dataclass(frozen=True)
class Merging:
    """What is to be merged, and how the outcome is proved.

    Attributes:
        mod: the model.
        inputs: what was declared of its inputs.
        done: the regions, as they were explored.
        prove: explores, replays and builds one program for a module.
    """

    mod: torch.nn.Module
    inputs: Inputs
    done: Split
    prove: Callable[[torch.nn.Module, Inputs], Report]

    def merged(self, programs: Sequence[torch.export.ExportedProgram]) -> torch.export.ExportedProgram:
        """One program out of those of the regions.

        Raises:
            UsageError: they cannot be the branches of a torch.cond, or that could not be proved.
        """
        if len(programs) == 1:
            return programs[0]
        holds = [_compared(region.holds) for region in self.done.regions]
        branches = [_Branch(f"region {number}", each) for number, each in enumerate(programs, 1)]
        _refuse_if(_unlike(branches))
        _refuse_if(
            next((f"`{each}` cannot be computed in a graph" for each in holds if not has_graph_form(each)), None)
        )
        inputs = self._enforced()
        common = self._common(branches, inputs)
        try:
            report = self.prove(_conditional(self.mod, _Dispatch(branches, holds, inputs, common)), inputs)
        except Exception as error:  # noqa: BLE001 - torch refuses by many kinds of error
            raise _refusal(_first_line(error)) from None
        if report.status != "proved":
            _refuse_if(report.diagnostics[0].message if report.diagnostics else "it could not be proved")
        _refuse_if(self._disagreement(report.program))
        return report.program  # type: ignore[no-any-return]

    def _enforced(self) -> Inputs:
        """What holds of the inputs that some region serves, as a declaration that is no longer to be inferred."""
        found = (narrowing for region in self.done.regions for narrowing in region.found.narrowings)
        inferred = tuple(Declaration(narrowing.requirement, Origin("inferred")) for narrowing in found)
        domain = replace(self.inputs.domain, declarations=(*self.inputs.domain.declarations, *inferred))
        return replace(self.inputs, domain=domain, inferred=frozenset(), liftable=frozenset())

    def _common(self, branches: Sequence[_Branch], inputs: Inputs) -> list[tuple[Term, ...] | None]:
        """The sizes of each result (of a number: itself), where the same terms say them in every region."""
        known = readings([leaf.terms for leaf in inputs.leaves])
        facts = [self.done.within(region) for region in self.done.regions]
        found: list[tuple[Term, ...] | None] = []
        for number, alternatives in enumerate(zip(*(branch.sizes for branch in branches), strict=True), 1):
            sizes = [_agreed(terms, facts, known) for terms in zip(*alternatives, strict=True)]
            found.append(None if None in sizes else tuple(size for size in sizes if size is not None))
            if found[-1] is None:
                kind = "number of the sizes" if _is_number(branches[0].results[number - 1]) else "size"
                _refuse_if(
                    f"result {number} is of another {kind} in each region, which Inductor compiles for one of them"
                )
        return found

    def _disagreement(self, program: torch.export.ExportedProgram) -> str | None:
        """Where the program does not do what the model does, at the points of all regions."""
        forms = replay.forms(program)
        for region in self.done.regions:
            found = replace(region.found, main=replace(region.found.main, program=program), forms=forms)
            here = self.done.within(region)
            for wrong in disagreements(self.mod, self.inputs, found, here):
                return f"{wrong.message}: {wrong.notes[0].text}"
        return None


def _agreed(terms: Sequence[Term | None], facts: Sequence[Facts], known: Container[str]) -> Term | None:
    """A term that can be computed everywhere and is what each of the terms is in its region."""
    for candidate in [*terms, *(_constant(*pair) for pair in zip(terms, facts, strict=True))]:
        if candidate is None or not candidate.total or not all(name in known for name in candidate.symbols):
            continue
        pairs = zip(terms, facts, strict=True)
        if all(term is not None and decide(f.eq(candidate, term), here).status == "proved" for term, here in pairs):
            return candidate
    return None


def _constant(term: Term | None, here: Facts) -> Term | None:
    """The number that a term is at some point of a region: torch notes `n//(n//2)` for what is 2 there."""
    point = None if term is None else find(f.ge(term, 0), here)
    return constant(evaluate(term, point)) if term is not None and isinstance(point, dict) else None


def _compared(formula: Formula) -> Formula:
    """A formula as one comparison: Inductor writes no code for a predicate that joins several."""
    return f.le(_excess(formula), 0) if isinstance(formula, f.And | f.Or) else formula


def _excess(formula: Formula) -> Term:
    """A term that is at most 0 just where the formula holds."""
    match formula:
        case f.Compare("<=", term):
            return term
        case f.Compare("==", term):
            return maximum(term, -term)
        case f.Compare(_, term):
            return 1 - maximum(term, -term)
        case f.And(parts):
            return maximum(*map(_excess, parts))
        case f.Or(parts):
            return minimum(*map(_excess, parts))
        case _:
            raise NoGraphForm(str(formula))


def _refuse_if(reason: str | None) -> None:
    if reason is not None:
        raise _refusal(reason)


def _refusal(reason: str) -> UsageError:
    return UsageError(f"the regions cannot be merged into one program: {reason}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


class _Branch:
    """A program as a branch: a function of tensors that it uses and the flat inputs, without checks of the domain.

    Attributes:
        name: what the user calls it.
        program: the program.
        results: what it returns: a fake tensor, a symbolic number, or a constant.
        sizes: the terms of the sizes of each (a number: its own); None for one that is taken from data.
    """

    def __init__(self, name: str, program: torch.export.ExportedProgram) -> None:
        self.name = name
        self.program = program
        self._graph = _unchecked(program)
        (output,) = next(node for node in program.graph.nodes if node.op == "output").args
        self.results = [node.meta["val"] if isinstance(node, torch.fx.Node) else node for node in output]
        self.sizes = [_sizes(program, value) for value in self.results]
        self._copied = _views(program, output)

    def state(self) -> dict[str, torch.Tensor]:
        """The parameters, buffers and constants that it uses, by name and in order."""
        tensors = self.program.state_dict | self.program.constants
        kept = torch.export.graph_signature.InputKind.USER_INPUT
        specs = (spec for spec in self.program.graph_signature.input_specs if spec.kind != kept)
        return {str(spec.target): tensors[str(spec.target)] for spec in specs}

    def changed(self) -> str | None:
        """A buffer or an input that it changes, if there is one."""
        signature = decomposed(self.program).graph_signature
        return next(iter([*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]), None)

    def __call__(
        self, state: Sequence[torch.Tensor], flat: Sequence[Any], lengths: Sequence[Any]
    ) -> tuple[torch.Tensor, ...]:
        """The tensors among the results, as vectors where their length is known."""
        try:
            results = self._graph(*state, *flat)
            return tuple(
                self._result(index, value, lengths[index])
                for index, value in enumerate(results)
                if isinstance(self.results[index], torch.Tensor)
            )
        except Exception as error:
            text = f"{self.name} cannot be traced at the sizes of the others, where torch.cond reads it too"
            raise RuntimeError(f"{text}: {_first_line(error)}") from error

    def _result(self, index: int, value: torch.Tensor, length: Any) -> torch.Tensor:
        if value.dim() != self.results[index].dim():
            raise ValueError(f"result {index + 1} has {value.dim()} dimensions")
        own = value.clone(memory_format=torch.contiguous_format) if index in self._copied else value
        return own if length is None else own.reshape((length,))


def _sizes(program: torch.export.ExportedProgram, value: Any) -> list[Term | None]:
    translator = tracing.translator_of(program)
    found: list[Term | None] = []
    for size in value.shape if isinstance(value, torch.Tensor) else [value] if _is_number(value) else []:
        try:
            found.append(translator.term(tracing.size_expression(size)))
        except Untranslatable:
            found.append(None)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.SymInt)


def _unchecked(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """The graph without its assertions on sizes: where a branch is taken, they hold."""
    module: torch.fx.GraphModule = copy.deepcopy(program.graph_module)
    for node in list(module.graph.nodes):
        if node.target is tracing.ASSERTION and not tracing.about_data(node.args[0].meta["val"]):
            module.graph.erase_node(node)
    module.recompile()
    return module


def _views(program: torch.export.ExportedProgram, output: Sequence[Any]) -> set[int]:
    """The results that lie in the storage of something else in the graph: an input, an earlier result."""
    seen: set[Any] = set()
    for node in program.graph.nodes:
        if node not in output:
            seen.update(storages(node.meta.get("val")))
    found = set()
    for index, node in enumerate(output):
        own = set(storages(node.meta.get("val"))) if isinstance(node, torch.fx.Node) else set()
        if own & seen or (own and node.op == "placeholder"):
            found.add(index)
        seen |= own
    return found


def _unlike(branches: Sequence[_Branch]) -> str | None:
    """Why the programs cannot be branches of one torch.cond, as far as that shows before they are traced."""
    first = branches[0]
    for branch in branches:
        changed = branch.changed()
        if changed is not None:
            return f"{branch.name} changes `{changed}` in place, and a branch of torch.cond must not"
        if branch.program.call_spec.out_spec != first.program.call_spec.out_spec:
            return f"{branch.name} returns another structure than {first.name}"
        for number, (mine, other) in enumerate(zip(first.results, branch.results, strict=True), 1):
            kinds = [_kind(value) for value in (mine, other)]
            if kinds[0] != kinds[1]:
                return f"result {number} is {kinds[0]} in {first.name} and {kinds[1]} in {branch.name}"
            if isinstance(other, torch.SymFloat | torch.SymBool):
                return f"result {number} is a number that is computed from sizes, and torch.cond returns tensors"
    return None


def _kind(value: Any) -> str:
    """What the results of two branches must have in common."""
    if isinstance(value, torch.Tensor):
        return f"a {value.dtype} tensor of {value.dim()} dimensions on {value.device}"
    return type(value).__name__ if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) else repr(value)


def _conditional(mod: torch.nn.Module, run: _Dispatch) -> torch.nn.Module:
    """A module that takes what the model takes, and gives what the first branch gives whose condition holds.

    Its tensors have the names that they have in the model. All else is kept out of it, so that a copy is cheap.
    """

    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        tensors: dict[str, Any] = {name: functools.reduce(getattr, name.split("."), self) for name in run.state}
        return run(tensors, leaves((args, kwargs)))

    taken = inspect.signature(mod.forward)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = taken.replace(parameters=[own, *taken.parameters.values()])  # type: ignore[attr-defined]
    module: torch.nn.Module = type("Merged", (torch.nn.Module,), {"forward": forward})()
    for name, tensor in run.state.items():
        _put(module, name, tensor)
    return module


def _shared_state(branches: Sequence[_Branch]) -> tuple[list[list[str]], dict[str, torch.Tensor]]:
    """The names of the tensors that each branch uses, and all of them; constants of one name may differ."""
    state: dict[str, torch.Tensor] = {}
    names: list[list[str]] = []
    for index, branch in enumerate(branches):
        names.append([])
        for target, tensor in branch.state().items():
            known = state.get(target, tensor)
            same = known is tensor or (known.shape == tensor.shape and torch.equal(known, tensor))
            name = target if same else f"{target}_{index}"
            state.setdefault(name, tensor)
            names[-1].append(name)
    return names, state


def _put(module: torch.nn.Module, path: str, tensor: torch.Tensor) -> None:
    """Register a tensor under its dotted name."""
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(module, parent):
            module.add_module(parent, torch.nn.Module())
        module = getattr(module, parent)
    if isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class _Dispatch:
    """Chooses among branches by the sizes of the inputs: in Python where they are numbers, else by torch.cond.

    Attributes:
        state: the tensors that the branches use, by name.
    """

    def __init__(
        self,
        branches: Sequence[_Branch],
        holds: Sequence[Formula],
        inputs: Inputs,
        common: Sequence[tuple[Term, ...] | None],
    ) -> None:
        self._branches = branches
        self._holds = holds
        self._places = readings([leaf.terms for leaf in inputs.leaves])
        self._common = common
        self._names, self.state = _shared_state(branches)

    def __call__(self, state: Mapping[str, torch.Tensor], flat: Sequence[Any]) -> Any:
        """What the model returns."""
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

        return self._restored(take(0, *state.values(), *(flat[index] for index in varying)), self._reader(flat))

    def _run(self, number: int, state: Mapping[str, torch.Tensor], flat: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The results of one branch."""
        reader = self._reader(flat)
        lengths = [
            None if sizes is None else functools.reduce(operator.mul, map(reader.term, sizes), 1)
            for sizes in self._common
        ]
        return self._branches[number]([state[name] for name in self._names[number]], flat, lengths)

    def _reader(self, flat: Sequence[Any]) -> Computation:
        """Computes from the sizes of the inputs."""
        sizes = [leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in flat]
        return Computation({name: at.value(sizes[at.leaf][at.index], plainly) for name, at in self._places.items()})

    def _restored(self, given: Sequence[torch.Tensor], reader: Computation) -> Any:
        """The results in the shapes and the structure that the model gives them."""
        tensors = iter(given)
        first = self._branches[0]
        results = []
        for noted, sizes in zip(first.results, self._common, strict=True):
            shape = None if sizes is None else [reader.term(size) for size in sizes]
            if isinstance(noted, torch.Tensor):
                tensor = next(tensors)
                results.append(tensor if shape is None else tensor.view(shape))
            else:
                results.append(shape[0] if shape else noted)
        return tracing.unflattened(results, first.program)


def _cond(
    condition: bool | torch.SymBool,  # noqa: FBT001 - it is what is asked
    then: Callable[..., Any],
    other: Callable[..., Any],
    operands: Sequence[Any],
) -> Any:
    """torch.cond; its operator where a graph is traced, since torch.cond itself would have dynamo read the branches."""
    if isinstance(condition, torch.SymBool):
        return torch.ops.higher_order.cond(condition, then, other, tuple(operands))
    return then(*operands) if condition else other(*operands)
