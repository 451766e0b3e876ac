"""The contract that ships with a program: the checks of its inputs that need no torch.

Law: for sizes, dtypes, ranks and constants, the contract accepts the inputs that the program's own guards accept. The
program's other requirements, and its checks on data, are listed in the contract as unchecked.

Also recognizes the computation of a number in another program: a digest of the operators that lead to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import has_meaning
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.contract.contract import Contract
from shapeproof.contract.inputs import (
    ConstantInput,
    Entries,
    Input,
    IntInput,
    Items,
    ObjectInput,
    Opaque,
    Structure,
    TensorInput,
    Tree,
    dtype_name,
    leaves_of,
)
from shapeproof.export.build.accepted.contract import Requirements
from shapeproof.export.build.accepted.guards import ConstantGuard, Guard, IntGuard, Memory, TensorGuard
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.reading import Leaf
from shapeproof.export.graph import nodes
from shapeproof.export.ops.properties import GRADIENT, STRIDES
from shapeproof.export.shim.numbers.symbols import ASSERTIONS_OF_TENSORS
from shapeproof.export.shim.trees import container_kind, keyed_children
from shapeproof.export.trace.records import DataCheck
from shapeproof.files import sha256


def shipped(
    inputs: Inputs, contract: Requirements, program: torch.export.ExportedProgram, checks: Iterable[DataCheck]
) -> Contract:
    """Return the contract of a program, which makes these checks on data."""
    structure, guards = _structure(inputs), contract.guards(program)
    flat = [_input(leaf, name, guard) for leaf, (name, guard) in zip(inputs.leaves, guards.items(), strict=True)]
    known = frozenset[str]().union(*(term.symbols for each in flat for term in each.sizes))
    held = [each for each in contract.formulas if each.symbols <= known and has_meaning(each)]
    return Contract(
        tuple(flat),
        structure,
        tuple(held),
        contract.declared.intersection(held),
        contract.names,
        tuple(
            dict.fromkeys(
                [
                    *_in_opaque(structure),
                    *_unchecked(inputs, contract, flat, held),
                    *_on_data(inputs, program, checks),
                    *of_memory(contract.memory),
                ]
            )
        ),
    )


def of_regions(inputs: Inputs, domain: Sequence[Formula], regions: Sequence[Contract]) -> Contract:
    """Return the contract of several programs: an input must lie in the domain and in one program's region."""
    own = [[each for each in region.formulas if each not in domain] for region in regions]
    some = f.disjunction(*(f.conjunction(*each) for each in own))
    held = [each for each in domain if has_meaning(each)]
    whole = replace(
        regions[0],
        formulas=tuple(held if some is f.TRUE else [*held, some]),
        declared=frozenset(inputs.domain.formulas).intersection(held),
    )
    parts = [format_formula(f.conjunction(*each), rename=whole.names) for each in own]
    everywhere = frozenset.intersection(*(frozenset(region.unchecked) for region in regions))
    told = ((text, part) for region, part in zip(regions, parts, strict=True) for text in region.unchecked)
    texts = (text if text in everywhere else f"{text}, where {part}" for text, part in told)
    return replace(whole, unchecked=tuple(dict.fromkeys(texts)))


def _input(leaf: Leaf, name: str, guard: Guard) -> Input:
    match guard:
        case TensorGuard(dtype=dtype, device=device, layout=layout):
            return TensorInput(leaf.name, name, dtype_name(dtype), dtype_name(device), dtype_name(layout), leaf.terms)
        case IntGuard():
            return IntInput(leaf.name, name, leaf.terms)
        case ConstantGuard(expected=value):
            return ConstantInput(leaf.name, name, value, leaf.terms)
        case _:
            return ObjectInput(leaf.name, name)


def _unchecked(inputs: Inputs, contract: Requirements, flat: Sequence[Input], held: Sequence[Formula]) -> Iterator[str]:
    """Yield the requirements on sizes and objects that the contract does not check, in words."""
    for formula in contract.formulas:
        if formula not in held:
            yield f"{format_formula(formula, rename=inputs.user_names)}, which the program checks"
    for each in flat:
        if isinstance(each, ObjectInput):
            yield f"what {each.name} is"
    for leaf in inputs.leaves:
        if getattr(leaf.example, "layout", None) == torch.sparse_coo:
            yield f"{leaf.name}.dense_dim() == {leaf.example.dense_dim()}"


def _on_data(inputs: Inputs, program: torch.export.ExportedProgram, checks: Iterable[DataCheck]) -> Iterator[str]:
    """Yield the program's checks on data, each with a digest of how the data is computed.

    Law: two checks with one text refuse the same inputs, whatever names their numbers have.
    """
    graph, sizes = program.graph, inputs.user_names
    bindings = ((node, node.meta.get("unbacked_bindings") or {}) for node in graph.nodes)
    made = {str(number): (node, str(path)) for node, numbers in bindings for number, path in numbers.items()}
    for check in checks:
        data = [name for name in made if name in check.formula.symbols]
        names = sizes | {name: f"data_{index}" for index, name in enumerate(data, 1)}
        is_made = not check.inside and names.keys() >= check.formula.symbols
        of = [made[name][0] for name in data] if is_made else [node for node in graph.nodes if node.users]
        own = f"{format_formula(check.formula, rename=names)} {[made[name][1] for name in data]}"
        shown = format_formula(check.formula, rename=names | dict(check.place.names))
        yield f"{shown}, which the program checks on its data ({computation(program, of, own)})"
    for node in nodes.calls_of(graph, *ASSERTIONS_OF_TENSORS):
        yield f"that all of a tensor is true, which the program checks ({computation(program, node.all_input_nodes)})"


def of_memory(memory: Memory) -> Iterator[str]:
    """Yield the program's requirements on the layout of its inputs in memory, in words."""
    layouts = memory.layouts.values()
    example = {
        STRIDES: [f"{each.name}: {each.order}" for each in layouts if list(each.order) != sorted(each.order)],
        GRADIENT: [each.name for each in layouts if each.requires_grad],
    }
    for read in sorted(memory.reads):
        text = f"{read} of the inputs, which the model has read and which must be as in the example"
        yield f"{text} ({', '.join(example[read])})" if example.get(read) else text
    for index in sorted(memory.writes):
        if index in memory.layouts:
            written = f"{memory.layouts[index].name}, which the program writes into,"
            yield f"that {written} shares memory with no other input or tensor of the model"
    if memory.state:
        yield "that no input shares memory with a tensor of the model that the program writes into"


# ---------------------------------------------------------------------- structure


def _structure(inputs: Inputs) -> Structure:
    """Return how the flat inputs are arranged in the arguments."""
    count = itertools.count()
    args = tuple(_tree(value, count) for value in inputs.args)
    kwargs = {name: _tree(value, count) for name, value in inputs.kwargs.items()}
    again = itertools.count()
    arguments = {name: _tree(value, again) for name, value in inputs.bound.items()}
    named = [name for name in inputs.bound if name not in inputs.kwargs]
    plain = itertools.takewhile(lambda pair: inputs.bound[pair[0]] is pair[1], zip(named, inputs.args, strict=False))
    return Structure(args, kwargs, tuple(name for name, _ in plain), arguments)


def _in_opaque(structure: Structure) -> Iterator[str]:
    for name, tree in structure.arguments.items():
        if any(True for _ in leaves_of(tree, hidden=True)):
            yield f"what {name} holds, where it is given as an object; what is given by name is looked at"


def _tree(value: Any, count: Iterator[int]) -> Tree:
    children = keyed_children(value)
    if children is None:
        return next(count)
    parts = tuple(_tree(part, count) for _, part in children)
    keys = tuple(key for key, _ in children)
    if type(value) in {list, tuple}:
        return Items(type(value), parts)
    if all(isinstance(key, str | int | None) for key in keys):
        if isinstance(value, Mapping) and len(keys) == len(value):
            return Entries(keys, parts, kind=container_kind(value))
        if children and all(isinstance(key, str) and getattr(value, key, None) is part for key, part in children):
            return Entries(keys, parts, is_object=True, kind=container_kind(value))
    return Opaque(tuple(leaf for part in parts for leaf in leaves_of(part)), container_kind(value))


_DIGITS = 16


def computation(program: torch.export.ExportedProgram, results: Sequence[torch.fx.Node], use: str = "") -> str:
    """Return a digest of how these nodes are computed, in order, and of their use.

    Buffers and constants count by their values, parameters by their names, since training changes those. Names of other
    nodes, operators that lead elsewhere, and the texts of assertions do not count.

    Law: nodes of two programs with one digest have equal values for equal inputs and parameters.
    """
    needed = set(_leading_to(program.graph, results))
    chosen = [node for node in program.graph.nodes if node in needed]
    held = program.graph_signature.inputs_to_buffers | program.graph_signature.inputs_to_lifted_tensor_constants
    values = program.state_dict | program.constants
    contents = [
        _content(values.get(held[node.name])) for node in chosen if node.op == "placeholder" and node.name in held
    ]
    return sha256("\n".join([_lines(chosen, results), *contents, use]))[:_DIGITS]


def _leading_to(graph: torch.fx.Graph, results: Sequence[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    """Yield the nodes that the results are computed from; whatever mutates a tensor before is one of them."""
    needed = set(results)
    for node in reversed(graph.nodes):
        if node in needed or (needed and nodes.changed_operands(node)):
            needed.update(node.all_input_nodes)
            yield node


def _lines(chosen: Sequence[torch.fx.Node], results: Any) -> str:
    """Return these nodes as text, each by its number, and the results."""
    numbers = {node: f"%{number}" for number, node in enumerate(chosen)}

    def numbered(value: Any) -> Any:
        return torch.fx.map_arg(value, numbers.__getitem__)

    lines = [f"{_text(node)} {numbered(node.args)} {numbered(node.kwargs)}" for node in chosen]
    return "\n".join([*lines, str(numbered(results))])


def _text(node: torch.fx.Node) -> str:
    """Return what a node does, but for its operands."""
    if node.op == "placeholder":
        return str(node.target)
    if node.op != "get_attr":
        return f"{getattr(node.target, '__module__', '')}.{getattr(node.target, '__name__', node.target)}"
    body = getattr(node.graph.owning_module, str(node.target))
    if not isinstance(body, torch.fx.GraphModule):
        return _content(body)
    return _lines([each for each in body.graph.nodes if each.users or each.op == "output"], ())


def _content(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return str(type(value))
    try:
        return f"{value.dtype} {value.tolist()}"
    except (RuntimeError, TypeError):  # a fake or a sparse tensor lists no elements
        return f"{value.dtype} {value.shape}"
