"""The joint program of a proved program: its results and the gradients of its parameters and inputs, in one graph.

The program is run under autograd by a module, which is exported as any model is: what autograd asks about sizes is
answered over the whole domain, each region is traced, and gradients are replayed beside eager's at the corners. What
eager has of gradients beside the operators of the program (an autograd.Function, hooks) is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.domain import Declaration, Domain, Origin
from shapeproof.constraints.terms import Term
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.reading import Leaf
from shapeproof.export.explore.beside_eager import runner
from shapeproof.export.explore.beside_eager.forms import module_of
from shapeproof.export.graph import nodes
from shapeproof.export.report.report import Report
from shapeproof.export.shim.autograd import has_hooks, noting_lines, recorded
from shapeproof.export.shim.modules import module_around
from shapeproof.export.shim.numbers.sym_nodes import BY_ZERO
from shapeproof.export.shim.numbers.symbols import ASSERTION
from shapeproof.export.shim.trees import leaves, map_all, map_tensors
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.verify import verified

TANGENTS = "tangents"
"""What the gradients of the results are called among the inputs."""


@dataclass(frozen=True)
class Wanted:
    """Of what gradients are wanted, and by which results.

    Attributes:
        results: the flat results that autograd follows.
        parameters: the names of the parameters.
        inputs: the flat inputs, by place, with what the user calls each.
    """

    results: tuple[int, ...]
    parameters: tuple[str, ...]
    inputs: Mapping[int, str]


def joint_report(program: ReportedProgram) -> Report:
    """The report on the joint program.

    Raises:
        UsageError: the program has other gradients than eager, or gives no result that has any.
    """
    _refuse(program)
    inputs = program.taken_apart.inputs
    wanted, tangents = _wanted(program, inputs)
    run = _Differentiated(module_of(program), wanted)

    def joint(state: dict[str, torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tangents = kwargs.pop(TANGENTS)
        return recorded(run, state, args, kwargs, tangents)

    return verified(module_around(joint, run.state, _taken(inputs)), _with(inputs, program, tangents))


def refuse_divisions(program: ReportedProgram, joint: ReportedProgram) -> None:
    """Refuse a joint program that divides by more numbers from data: autograd divides in C++, where nothing raises.

    Raises:
        UsageError: autograd's formula divides by a number that may be 0: `2/(n - 1)`, of the variance of n rows.
    """
    of_program, of_joint = map(_divisions, (program, joint))
    if len(of_joint) > len(of_program):
        where = nodes.said(of_joint[-1])
        raise UsageError(f"autograd divides by a number from data that may be 0, where the program raises: {where}")


def _divisions(program: ReportedProgram) -> list[torch.fx.Node]:
    checks = nodes.calls_in(program.graph_module, ASSERTION)
    return [node for node in checks if node.args[1] == BY_ZERO]


def _refuse(program: ReportedProgram) -> None:
    if program.report.status != "proved":
        raise UsageError(f"expected a proved program, but this one is {program.report.status}")
    for lost in sorted(program.contract.own_backward):
        raise UsageError(f"its gradients are not those of the model: the program lacks {lost}")
    if program.contract.memory.writes:
        raise UsageError("a program that writes into its inputs has no gradients for them")
    for name, parameter in program.named_parameters():
        if has_hooks(parameter):
            raise UsageError(f"the parameter `{name}` has a hook on its gradient, which a program does not run")
    if not program.taken_apart.inputs.anchors:
        raise UsageError("a program without example inputs has no gradients to be compared")


def _wanted(program: ReportedProgram, inputs: Inputs) -> tuple[Wanted, list[Leaf]]:
    """What there are gradients of, and for each result that has one the input that is given its gradient."""
    args, kwargs = inputs.at(inputs.anchors[0], filled=True)
    parameters = _parameters(program)
    places = {
        place: leaf.name
        for place, leaf in enumerate(inputs.leaves)
        if isinstance(leaf.example, torch.Tensor) and leaf.example.requires_grad
    }
    if not (parameters or places):
        raise UsageError("no parameter and no input requires gradients, where the program was exported")
    with torch.enable_grad():
        found, raised = runner.outcome(module_of(program), args, kwargs)
    if raised is not None:
        raise UsageError(f"the program gives no result for its example: {raised}")
    followed = {
        place: each for place, each in enumerate(leaves(found)) if isinstance(each, torch.Tensor) and each.requires_grad
    }
    if not followed:
        raise UsageError("no result of the program depends on what requires gradients")
    generator = torch.Generator(device="cpu").manual_seed(0)
    sizes = _result_sizes(program)
    given = [
        Leaf(f"L[{TANGENTS!r}][{index}]", f"{TANGENTS}[{index}]", _like(each, generator), sizes[place])
        for index, (place, each) in enumerate(followed.items())
    ]
    _refuse_data(given, inputs)
    return Wanted(tuple(followed), parameters, places), given


def _parameters(program: ReportedProgram) -> tuple[str, ...]:
    """The parameters that required gradients where the program was traced, and do now; of several names the first."""
    placed = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    then = {
        str(spec.target): placed[spec.arg.name].meta["val"].requires_grad
        for spec in program.graph_signature.input_specs
        if spec.target in program.graph_signature.parameters
    }
    now = {name: parameter.requires_grad for name, parameter in program.named_parameters()}
    for name, wanted in then.items():
        if wanted != now[name]:
            raise UsageError(f"`{name}`.requires_grad is {now[name]} and was {wanted}: export the model again")
    first = {id(parameter): name for name, parameter in reversed([*program.named_parameters()])}
    return tuple(name for name in now if now[name] and name in first.values())


def _result_sizes(program: ReportedProgram) -> list[tuple[Term, ...]]:
    translator = translator_of(program)
    noted = list(map(nodes.metadata, leaves(program.graph.output_node().args[0])))
    return [
        tuple(translator.size(size) for size in each.shape) if isinstance(each, torch.Tensor) else ()
        for each in noted[len(noted) - len(program.graph_signature.user_outputs) :]
    ]


def _like(result: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(result.shape, generator=generator, dtype=result.dtype, device=generator.device).to(result.device)


def _refuse_data(tangents: Sequence[Leaf], inputs: Inputs) -> None:
    for leaf in tangents:
        if not all(term.symbols <= inputs.domain.symbols.keys() for term in leaf.terms):
            raise UsageError(
                f"the gradient of a result whose size comes from data has no sizes to declare: {leaf.name}"
            )


def _with(inputs: Inputs, program: ReportedProgram, tangents: Sequence[Leaf]) -> Inputs:
    """The inputs of the program, its whole domain declared, and the gradients of its results."""
    declared = tuple(Declaration(each, Origin("the domain of the program")) for each in program.contract.formulas)
    examples = [replace(leaf, example=_detached(leaf.example), marks=()) for leaf in inputs.leaves]
    given = {TANGENTS: [leaf.example for leaf in tangents]}
    return Inputs(
        args=map_tensors(inputs.args, _detached),
        kwargs={**map_tensors(inputs.kwargs, _detached), **given},
        leaves=(*examples, *tangents),
        domain=Domain(inputs.domain.symbols, declared).claimed(),
        anchors=inputs.anchors,
        bound={**inputs.bound, **given},
        hints=inputs.hints,
        demands=inputs.demands,
    )


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


# ---------------------------------------------------------------------- the module that is exported


class _Differentiated:
    """Runs a module, whose parameters and buffers are given, for its results and the gradients that are wanted."""

    def __init__(self, module: torch.nn.Module, wanted: Wanted) -> None:
        self.module, self.wanted = module, wanted
        module.forward = noting_lines(module)
        self.state: dict[str, torch.Tensor] = dict(module.named_parameters()) | dict(module.named_buffers())

    def __call__(
        self, state: dict[str, torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any], tangents: Any
    ) -> Any:
        with torch.enable_grad():
            of = {name: _fresh_leaf(state[name]) for name in self.wanted.parameters}
            places = iter(range(len(leaves((args, kwargs)))))
            args, kwargs = map_all((args, kwargs), lambda value: self._followed(value, next(places), of))
            result = torch.func.functional_call(self.module, state | of, args, kwargs)
            flat = leaves(result)
            results = [flat[place] for place in self.wanted.results]
            found = torch.autograd.grad(results, list(of.values()), tangents, allow_unused=True)
        return map_tensors(result, torch.Tensor.detach), dict(zip(of, found, strict=True))

    def _followed(self, value: Any, place: int, of: dict[str, torch.Tensor]) -> Any:
        """An input; one whose gradient is wanted is noted among them."""
        if place not in self.wanted.inputs:
            return value
        of[self.wanted.inputs[place]] = fresh = _fresh_leaf(value)
        return fresh


def _fresh_leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_()


def _taken(inputs: Inputs) -> Iterator[inspect.Parameter]:
    """The parameters under which the model was given its inputs."""
    names = [name for name in inputs.bound if name not in inputs.kwargs]
    for index, name in enumerate(names):
        rest = index == len(inputs.args) or inputs.bound[name] is not inputs.args[index]
        yield inspect.Parameter(
            name, inspect.Parameter.VAR_POSITIONAL if rest else inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
    for name in (*inputs.kwargs, TANGENTS):
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
