"""Select the nodes of a program that act on a region, and read their operands there.

A view is not an operation: an operand is the storage it lies in, seen through sizes, strides and an offset. So `x[:n]`
is `x` where n is the whole size. Operators that copy or alias depending on sizes (`reshape`, `contiguous`) do count. A
copy that adds nothing (`pad` by 0) does not count if neither the copy nor its source is mutated and the copy is not
returned.

Also check that the metadata in `node.meta["val"]` is correct on another region. Compilers rely on the metadata.

Ranks, sizes and shared storage are checked. The caller passes the nodes' values on the region; an equality without a
proof counts as a difference.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.terms import Real, RealConstant, Term, constant
from shapeproof.export.explore.compare.idle import has_none, idle
from shapeproof.export.explore.compare.moved import Moved
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import observes_aliasing, told_layouts
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes.layouts import Sizes, is_empty, same_where_any
from shapeproof.export.ops.table import DETACH, family_of, kind_of, known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.storages import kind, storages
from shapeproof.export.shim.trees import graph_modules, leaves
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import equal, implied


@dataclass(frozen=True, slots=True)
class Root:
    """The origin of a storage: the node that made it, and its place among the storages of that node's value."""

    node: torch.fx.Node
    place: int


@dataclass
class Side:
    """One program, the fake value of each node on the region, and the translator of the sizes in these values."""

    program: torch.export.ExportedProgram
    values: Mapping[torch.fx.Node, Any]
    translator: Translator
    region: Facts
    checks: list[Formula] = field(default_factory=list)
    roots: dict[Any, Root] = field(default_factory=dict)
    cuts: dict[torch.fx.Node, torch.fx.Node] = field(default_factory=dict)
    """The `detach` that a tensor is seen through: the tensor aliases another's storage and passes on no gradient."""
    changed: set[Any] = field(default_factory=set)
    """The mutated storages."""
    returned: set[Any] = field(default_factory=set)
    """The returned storages."""
    _may_be_returned: set[Any] = field(default_factory=set)
    copies: list[torch.fx.Node] = field(default_factory=list)
    """The calls that copy, here or at other sizes, and do not count."""
    idle: frozenset[torch.fx.Node] = frozenset()
    """The calls without effect on the region, once the operations are selected."""
    moved: Moved | None = None
    """The tensors of moved parameters, once the operations are selected."""

    @functools.cached_property
    def _in_bodies(self) -> list[torch.fx.Node]:
        return [node for body in graph_modules(self.program.graph_module)[1:] for node in body.graph.nodes]

    @functools.cached_property
    def restrided(self) -> bool:
        """True if an operator may read a tensor's neighbours in its storage, which a copy of the tensor lacks."""
        return any(known_of(node.target).reads_beyond for node in (*self.graph.nodes, *self._in_bodies))

    @functools.cached_property
    def lays_bare(self) -> bool:
        """True if an operator may act on how a tensor without elements lies, or on what lies behind it."""
        acting = filter(_may_read_layout, self.graph.nodes)
        return any(map(_may_read_layout, self._in_bodies)) or any(map(self._is_given_none, acting))

    def _is_given_none(self, node: torch.fx.Node) -> bool:
        return any(has_none(each, self) for operand in node.all_input_nodes for each in leaves(self.value(operand)))

    @property
    def graph(self) -> torch.fx.Graph:
        """The graph of the program."""
        graph: torch.fx.Graph = self.program.graph
        return graph

    def argument(self, given: Any) -> Any:
        """Return an argument or result of a submodule: the node of that name, or a constant."""
        named = next((node for node in self.graph.nodes if node.name == given.name), None)
        return getattr(given, "value", given.name) if named is None else named

    def operations(self) -> list[torch.fx.Node]:
        """Return the nodes that act; views, and sizes computed from sizes, are read where they are used."""
        kept = []
        self.returned = {s for node in self.graph.output_node().all_input_nodes for s in self.at(node)}
        self._may_be_returned = self._passed_on(self.returned)
        self.changed = self._written(self.graph.nodes)
        if not self.restrided:
            self.idle = idle(self, self._copies())
        self.changed = self._written(node for node in self.graph.nodes if node not in self.idle)
        self.moved, copies = Moved(self), self._copies()
        for node in self.graph.nodes:
            copied = copies.get(node)
            self._cut(node, copied)
            if copied is not None or (known_of(node.target).alias_or_copy and self.is_view(node)):
                self.copies.append(node)
            if copied is not None:
                self.roots |= dict.fromkeys(self.at(node), self.roots[self.at(copied)[0]])
                continue
            if node.target is symbols.ASSERTION:
                self.checks.append(self.condition(node.args[0]))
            elif node.op in {"placeholder", "output", "get_attr"} or not (
                computes_size(node, self.value(node))
                or node in self.idle
                or self.is_view(node)
                or self.states_the_known(node)
                or (node in self.moved.resized and self.is_inner(node))
            ):
                kept.append(node)
            for place, storage in enumerate(self.at(node)):
                self.roots.setdefault(storage, Root(node, place))
        return kept

    def _written(self, calls: Iterable[torch.fx.Node]) -> set[Any]:
        """Return the storages that some calls mutate."""
        return {s for node in calls for operand in nodes.changed_operands(node) for s in self.at(operand)}

    def _copies(self) -> dict[torch.fx.Node, torch.fx.Node]:
        """Return the nodes that are mere copies, each with the operand that it copies.

        A copy that is returned counts, unless the caller cannot tell it from its operand.
        """
        found = {node: source for node in self.graph.nodes if (source := self.copied(node)) is not None}
        inner = self._may_be_returned.isdisjoint
        return {node: source for node, source in found.items() if inner(self.at(node)) or self._is_alone(node, found)}

    def _is_alone(self, node: torch.fx.Node, copies: Mapping[torch.fx.Node, torch.fx.Node]) -> bool:
        """True if a returned copy is of a whole storage that a caller cannot reach otherwise."""
        results = self.graph.output_node().all_input_nodes
        source, value = copies[node], self.value(copies[node])
        whole = self.same(value.untyped_storage().nbytes(), value.numel() * value.itemsize)
        given = {s for each in self.graph.nodes if each.op in {"placeholder", "get_attr"} for s in self.at(each)}
        others = (self._behind(each, copies) for each in results if each is not node)
        reached = self._behind(source, copies)
        return node in results and whole and reached.isdisjoint(given) and all(map(reached.isdisjoint, others))

    def _behind(self, node: torch.fx.Node, copies: Mapping[torch.fx.Node, torch.fx.Node]) -> set[Any]:
        """Return the storages that a tensor may lie in where copies are their operands."""
        found = self._passed_on(set(self.at(node)))
        return found | (self._behind(copies[node], copies) if node in copies else set())

    def _passed_on(self, returned: set[Any]) -> set[Any]:
        """Return the storages that may be returned: at some sizes `contiguous` and the like return their operand."""
        found = set(returned)
        for node in reversed(self.graph.nodes):
            if known_of(node.target).alias_or_copy and not found.isdisjoint(self.at(node)):
                found |= {storage for operand in node.all_input_nodes for storage in self.at(operand)}
        return found

    def is_inner(self, node: torch.fx.Node) -> bool:
        """True if a node's storage is neither mutated nor returned."""
        return self.is_fixed(node) and self.returned.isdisjoint(self.at(node))

    def is_fixed(self, node: torch.fx.Node) -> bool:
        """True if a node's storage is never mutated."""
        return self.changed.isdisjoint(self.at(node))

    def states_the_known(self, node: torch.fx.Node) -> bool:
        """True for an assertion of torch's that a computed tensor has the dtype, device and layout that it has."""
        tensor = node.args[0] if node.target is symbols.KIND_ASSERTION else None
        if not isinstance(tensor, torch.fx.Node) or tensor.op == "placeholder":
            return False
        stated = nodes.arguments(node)
        known = dict(zip(("dtype", "device", "layout"), kind(self.value(tensor)), strict=False))
        return all(stated[name] is None or stated[name] == known.get(name) for name in stated if name != "a")

    def _cut(self, node: torch.fx.Node, copied: torch.fx.Node | None) -> None:
        """Record the `detach` that a node's tensor is seen through."""
        if node.target is DETACH:
            self.cuts[node] = node
            return
        mine = set(self.at(node))
        passed_on = (o for o in node.all_input_nodes if o is copied or not mine.isdisjoint(self.at(o)))
        cut = next((self.cuts[operand] for operand in passed_on if operand in self.cuts), None)
        if cut is not None:
            self.cuts[node] = cut

    def root(self, node: torch.fx.Node) -> Root | None:
        """Return the origin of a tensor's storage."""
        return self.roots.get(next(iter(self.at(node)), None))

    def at(self, node: torch.fx.Node) -> list[Any]:
        """Return the storages of a node's tensors."""
        return storages(self.value(node))

    def copied(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """Return the operand that a node copies unchanged, with the same layout, if neither is mutated."""
        source, numbers, neutral = nodes.copying(node)
        source = source or self._beside_nothing(node)
        mine, other = self.value(node), self.value(source) if source is not None else None
        if (
            source is None
            or self.restrided
            or not isinstance(mine, torch.Tensor)
            or not isinstance(other, torch.Tensor)
        ):
            return None
        if not self.at(source) or not self.changed.isdisjoint([*self.at(node), *self.at(source)]):
            return None
        alike = same_where_any(mine, other, self.sizes) and self._are(numbers, neutral, other)
        return source if alike else None

    def _beside_nothing(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """Return what is joined with constants without elements: `cat([x, zeros(0)])` copies `x` of that dtype.

        It lays the copy out row by row. Where something tells how it lies, an input in another layout would show it.
        """
        if node.op != "call_function" or kind_of(node.target) != "cat":
            return None
        joined = nodes.arguments(node)["tensors"]
        some = [each for each in joined if not has_none(self.value(each), self)]
        made = all(family_of(each.target) == "factory" for each in joined if each not in some)
        if not (made and len(some) == 1 < len(joined)) or told_layouts(self.graph, set(storages(node.meta.get("val")))):
            return None
        return some[0] if kind(self.value(some[0])) == kind(self.value(node)) else None

    def _are(self, numbers: Any, neutral: int | None, source: torch.Tensor) -> bool:
        """True if all numbers, those of a mask or of a list, have one value; by default the operand's last sizes."""
        if isinstance(numbers, torch.fx.Node):
            from shapeproof.export.explore.compare.uniform import Uniform  # few models skip a mask

            return Uniform(self).number(numbers) == neutral
        wanted = [neutral] * len(numbers) if neutral is not None else source.shape[source.dim() - len(numbers) :]
        return all(map(self.same, numbers, wanted))

    @property
    def sizes(self) -> Sizes:
        """Answers to questions about sizes on the region."""
        return Sizes(self.translator.read, lambda formula: implied(formula, self.region))

    def same(self, a: Any, b: Any) -> bool:
        """True if two sizes are proved equal."""
        return equal(self.quantity(a), self.quantity(b), self.region)

    def one_value(self, size: Any) -> int | None:
        """Return the value of a size that has a single value on the region, else None."""
        term = self.quantity(size)
        if not isinstance(term, Term):
            return None
        known = self.region.reduce(term)
        if isinstance(known, Term) and known.is_constant:
            return known.constant_value
        points = self.region.samples() if term.total else []
        values = {evaluate(term, point) for point in points if term.symbols <= point.keys()}
        value = values.pop() if len(values) == 1 else None
        return value if value is not None and self.same(size, value) else None

    def value(self, node: torch.fx.Node) -> Any:
        """Return the node's fake value on the region."""
        return self.values.get(node)

    def is_view(self, node: torch.fx.Node) -> bool:
        """True if the node only views existing storage.

        `reshape` and its like may copy elsewhere; that makes no difference for storage that is not mutated.
        """
        found = storages(self.value(node))
        pure = self.changed.isdisjoint(found)
        if node.op != "call_function" or node.target is DETACH:
            return False
        if not (schemas.is_view_operator(node.target, pure=pure) or node.target is operator.getitem):
            return False
        return bool(found) and all(storage in self.roots for storage in found)

    def rank_written(self, node: torch.fx.Node) -> int:
        """Return the number of dimensions that a broadcasting operator writes over."""
        target, indices = node.args[0], node.args[1] if isinstance(node.args[1], Sequence) else ()
        found = [self.value(index) for index in indices if isinstance(index, torch.fx.Node)]
        masks = [index.dim() for index in found if index.dtype in {torch.bool, torch.uint8}]
        places = [index.dim() for index in found if index.dtype not in {torch.bool, torch.uint8}]
        rank = self.value(target).dim() if isinstance(target, torch.fx.Node) else 0
        return int(rank - sum(masks) - len(places) + max([*places, *(1 for _ in masks)], default=0))

    def condition(self, value: Any) -> Formula:
        """Return the condition of an assertion."""
        value = self.value(value) if isinstance(value, torch.fx.Node) else value
        if isinstance(value, bool):
            return f.TRUE if value else f.FALSE
        return self.translator.formula(value.node.expr)

    def quantity(self, value: Any) -> Term | Real | Formula | None:
        """Return the term of a size, int or float argument; None for any other argument."""
        if isinstance(value, torch.fx.Node):
            value = self.value(value)
        if isinstance(value, float):
            return RealConstant(value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return constant(value) if is_number else self.translator.quantity(value)


def _may_read_layout(node: torch.fx.Node) -> bool:
    """True if a node may act on strides or an offset that reach no element, or on elements outside of its operand."""
    unseen = schemas.is_higher_order(node.target) and all(operand.op != "get_attr" for operand in node.all_input_nodes)
    return unseen or schemas.is_foreign(node.target) or known_of(node.target).reads_layout


def computes_size(node: torch.fx.Node, value: Any) -> bool:
    """True if a node, by its value, only computes a size (or a condition on sizes) from sizes."""
    symbolic = isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)
    return symbolic and node.op == "call_function" and not node.meta.get("unbacked_bindings")


def calls(program: torch.export.ExportedProgram) -> list[tuple[str, Any]]:
    """Return the submodules with preserved signatures, by name; the program's own signature is compared as a whole."""
    kept = ((call.fqn, call.signature) for call in program.module_call_graph if call.fqn)
    return [(name, signature) for name, signature in kept if signature is not None]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first way in which two programs are not known to agree, and the user's line that causes it."""

    text: str
    stack: str | None = None
    certain: bool = False
    """True if the programs are known to differ at every point of the region, for consumers that trust the metadata."""
    unless: Formula = f.FALSE
    """Where this holds, the sizes that the program notes are right; FALSE if no such part of the region is known."""


def at(node: torch.fx.Node, text: str) -> Difference:
    """Return a difference at a node."""
    return Difference(text, node.meta.get("stack_trace"))


def label(node: torch.fx.Node) -> str:
    """Return the name of a node: its operator, or its kind."""
    return str(node.target) if node.op == "call_function" else node.op


def stale_metadata(side: Side) -> Difference | None:
    """Find a used node whose metadata has the wrong rank or sizes on the region (`squeeze` at size 1).

    Unused nodes do not count, since consumers drop them. A wrong rank, of which one is certain, comes first.
    """
    noted_by = translator_of(side.program)
    each = (stale(node, side.value(node), noted_by, side) for node in nodes.used(side.graph))
    found = [difference for difference in each if difference is not None]
    if not found:
        return None
    worst = next((difference for difference in found if difference.certain), found[0])
    return replace(worst, unless=f.conjunction(*(difference.unless for difference in found)))


def stale(node: torch.fx.Node, real: Any, noted_by: Translator, side: Side) -> Difference | None:
    """Describe how a node's metadata, in terms of `noted_by`, is wrong for a value of the node on a side's region."""
    noted = node.meta.get("val")
    if isinstance(noted, list | tuple) and isinstance(real, list | tuple) and len(noted) != len(real):
        return at(node, f"the program notes {len(noted)} results of `{label(node)}`, and there are {len(real)}")
    if not isinstance(noted, torch.Tensor) or not isinstance(real, torch.Tensor):
        return None
    if noted.dim() != real.dim():
        text = f"the program notes {noted.dim()} dimensions for `{label(node)}`, and there are {real.dim()}"
        return Difference(text, node.meta.get("stack_trace"), certain=True)
    wrong = []
    for a, b in zip(noted.shape, real.shape, strict=True):
        if symbols.about_data(a) or symbols.about_data(b):
            continue
        claimed, found = noted_by.size(a), side.translator.size(b)
        if not equal(claimed, found, side.region):
            wrong.append(f.eq(claimed, found))
    return replace(at(node, f"`{label(node)}` gives another shape"), unless=f.conjunction(*wrong)) if wrong else None


def aliasing_changed(side: Side) -> Difference | None:
    """Find a node that shares storage on the region differently from its metadata, if the program can observe it."""
    if not observes_aliasing(side.graph):
        return None
    noted: dict[Any, torch.fx.Node] = {}
    found: dict[Any, torch.fx.Node] = {}
    for node in side.graph.nodes:
        value = side.value(node)
        mine = [noted.setdefault(storage, node) for storage in storages(node.meta.get("val"))]
        other = [found.setdefault(storage, node) for storage in storages(value)]
        if mine != other and not all(_is_empty(each, side) for each in leaves(value)):
            return at(node, f"`{label(node)}` shares memory with other tensors")
    return None


def _is_empty(value: Any, side: Side) -> bool:
    """True if a tensor is proved to have no elements."""
    return (
        isinstance(value, torch.Tensor)
        and not any(map(symbols.about_data, value.shape))
        and is_empty(value, side.sizes)
    )
