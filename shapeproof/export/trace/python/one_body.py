"""Records the one body of a loop, and refuses a loop if it would show that its steps are one body.

The tracer runs a step twice: to see which tensors and rows it takes, then with these as arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import ShapeproofError
from shapeproof.export.graph.aliasing import may_share, takes_layouts, written_inputs
from shapeproof.export.graph.nodes import changed_operands, metadata, operands
from shapeproof.export.ops.schemas import is_higher_order
from shapeproof.export.shim.bodies import is_recorded, recorded, recorder, scan
from shapeproof.export.shim.process.each_call import unrecorded
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.shim.storages import storages
from shapeproof.export.trace.checks.failures import may_fail

_NUMBER = torch.zeros((), dtype=torch.int64, device="cpu")
"""Like the number of a step, which is the row of a loop that takes no other."""


class NotOneBody(ShapeproofError):
    """The steps of a loop are not all the same body."""


class Index:
    """The step of a loop in its body: it takes rows of tensors, and nothing else."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at
        """What is added to the step."""

    def _refuse(self, *_: object) -> Any:
        raise NotOneBody("the step of the loop is more than an index of tensors")

    __bool__ = __eq__ = __hash__ = __repr__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse

    def __add__(self, more: object) -> Index:
        return Index(self.at + more) if type(more) is int else self._refuse()

    def __sub__(self, less: object) -> Index:
        return Index(self.at - less) if type(less) is int else self._refuse()


def is_recording(number: torch.SymInt) -> bool:
    """True if a program is recorded now, and no body of a loop: a loop in a loop is written out."""
    return recorder() is not None and number.node.shape_env.row is None


_Key = tuple[int, int, int]
"""The tensor, the dim and the first number of rows."""


class _Row(NamedTuple):
    """A row that a body takes: of a tensor, along a dim, from a number on; and a tensor that is like it."""

    of: torch.Tensor
    dim: int
    at: int
    like: torch.Tensor


class Body:
    """The body of a loop over `count` steps from `start` on, with the tensors that it carries, and those it fills."""

    def __init__(self, carried: Sequence[Any], start: int, count: torch.SymInt, filled: Sequence[torch.Tensor]) -> None:
        if not all(isinstance(each, torch.Tensor) for each in carried):
            raise NotOneBody("the loop carries something else than tensors")
        self._carried = carried
        self._start, self._count, self._filled = start, count, filled
        self._env = count.node.shape_env
        trial, steps = self._env.trial, self._env.translator.size(count)
        self._positive = trial.settled(f.ge(steps, 1), trial.facts) is True
        self._outer = recorder()
        self._rows: dict[_Key, _Row] = {}
        """The rows that the body takes."""
        self._written: set[int] = set()
        """The positions of carried tensors into which a step writes."""
        self._given: dict[_Key, torch.Tensor] = {}
        """The arguments that stand for them while the body is recorded."""

    def record(self, step: Callable[..., Any]) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Record the operator; return what is carried on by the last step, and the stacked rows of all steps."""
        with unrecorded(), replaced(self._env, row=self.row):
            carried = [_in_order(each) for each in self._carried]
            first = recorded(self._flat(step, 0), *carried)
            captured, self._written = self._captured(first), _written(first)
            rows = [each.like.clone() for each in self._rows.values()] or [_NUMBER.clone()]
            graph = recorded(self._flat(step, len(rows)), *carried, *rows, *captured)
        _refuse_unlike(graph)
        if not self._positive:
            _refuse_failing(graph)
        captured = _used(graph, captured)
        self._refuse_shared(captured)
        made = scan(graph, [_in_order(each) for each in self._carried], self._all_rows(), captured)
        found, stacked = list(made[: len(carried)]), list(made[len(carried) :])
        if not self._positive:
            pairs = zip(self._carried, found, strict=True)
            found = [torch.stack(pair).select(0, torch.sym_min(self._count, 1)) for pair in pairs]
            stacked = [each.narrow(0, 0, self._count) for each in stacked]
            self._env.perhaps_the_same += zip(self._carried, found, strict=True)
        return self._final(found), tuple(stacked)

    def _refuse_shared(self, captured: Sequence[torch.Tensor]) -> None:
        """Refuse a loop that writes into memory of which it reads more than what it carries."""
        read = [*captured, *(each.of for each in self._rows.values())]
        kept = [each for at, each in enumerate(self._carried) if at not in self._written]
        written = [*self._filled, *(self._carried[at] for at in self._written)]
        apart = [*storages([*read, *kept]), *(key for each in written for key in set(storages(each)))]
        if len(set(apart)) < len(set(storages([*read, *kept]))) + len(written):
            raise NotOneBody("a loop writes into a tensor that it also reads otherwise")

    def _final(self, found: Iterable[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return what a loop carries on at last: the tensor that it began with, if its steps write into that."""
        pairs = enumerate(zip(self._carried, found, strict=True))
        return tuple(first.copy_(last) if at in self._written else last for at, (first, last) in pairs)

    def _all_rows(self) -> list[torch.Tensor]:
        """Return the rows of all steps; where there may be no step, one row of zeros for a step that does not count."""
        rows = [self._rows_of(each) for each in self._rows.values()]
        counted: Any = self._count
        rows = rows or [torch.arange(counted, device=_NUMBER.device)]
        if self._positive:
            return rows
        more = torch.sym_max(self._count, 1) - self._count
        return [torch.cat([each, each.new_zeros(more, *each.shape[1:])]) for each in rows]

    def _rows_of(self, row: _Row) -> torch.Tensor:
        """Return the rows from the first one on; where there is no step, that may be beyond the last row."""
        begin: Any = row.at if self._positive or row.at == 0 else torch.sym_min(row.at, row.of.shape[row.dim])
        return row.of.narrow(row.dim, begin, self._count).movedim(row.dim, 0)

    def row(self, tensor: torch.Tensor, index: Any) -> torch.Tensor | None:
        """Return the row that stands for this step's, or None if the index is without the step."""
        parts = index if isinstance(index, tuple) else (index,)
        places = [at for at, part in enumerate(parts) if type(part) is Index]
        if not places:
            return None
        before, after = parts[: places[0]], parts[places[0] + 1 :]
        if len(places) > 1 or not all(isinstance(part, slice) or part is Ellipsis for part in before):
            raise NotOneBody("a tensor is indexed by the step in more than one dim")
        dim = len(before)
        if Ellipsis in before:
            dim = tensor.dim() - 1 - len([part for part in after if part is not None])
        at = self._start + parts[places[0]].at
        if at < 0 or any(part != slice(None) for part in before if part is not Ellipsis):
            raise NotOneBody("a row before the first one")
        row = self._taken(tensor, dim, at)
        rest = (*(slice(None) for _ in range(dim)), *after)
        return row[rest] if after else row

    def _taken(self, tensor: torch.Tensor, dim: int, at: int) -> torch.Tensor:
        key = (id(tensor), dim, at)
        if self._given:
            if key not in self._given:
                raise NotOneBody("a body takes other rows when it runs again")
            return self._given[key]
        if not is_recorded(tensor, self._outer):
            raise NotOneBody("a row of a tensor that the loop itself makes")
        if key not in self._rows:
            with unrecorded():
                self._rows[key] = _Row(tensor, dim, at, _any_row(tensor, dim))
        return self._rows[key].like

    def _flat(self, step: Callable[..., Any], rows: int) -> Callable[..., Any]:
        """Return the function that torch records: it takes what is carried, rows, and what is captured."""
        count = len(self._carried)

        def body(*args: Any) -> tuple[torch.Tensor, ...]:
            self._given = dict(zip(self._rows, args[count:], strict=False)) if rows else {}
            begun = [each.clone() if rows and at in self._written else each for at, each in enumerate(args[:count])]
            carried, made = step(*begun)
            if not all(isinstance(each, torch.Tensor) for each in (*carried, *made)):
                raise NotOneBody("the loop carries something else than tensors")
            if rows:
                self._refuse_shown(carried, made, begun, args)
            return tuple(_apart([*carried, *made], args))

        return body

    def _refuse_shown(
        self, carried: Sequence[torch.Tensor], made: Sequence[torch.Tensor], begun: Sequence[Any], args: Sequence[Any]
    ) -> None:
        """Refuse a step if it shows afterwards that `scan` gives copies, or that all of its results have gradients."""
        if any(carried[at] is not begun[at] for at in self._written):
            raise NotOneBody("a loop writes into a tensor that it does not carry on")
        memory = [set(storages(each)) for each in carried]
        parted = len(set[Any]().union(*memory)) == sum(map(len, memory)) and all(memory)
        if not parted or any(each & set(storages([*args])) for each in memory):
            raise NotOneBody("what a loop carries on shares memory with what it takes, or with another result")
        if any(memory[at] & set(storages([*made])) for at in self._written):
            raise NotOneBody("a loop writes into a row that it has appended")
        learns = torch.is_grad_enabled() and any(getattr(each, "requires_grad", False) for each in args)
        firsts = () if self._positive else self._carried
        if len({learns, *(each.requires_grad for each in (*carried, *made, *firsts) if each.is_floating_point())}) > 1:
            raise NotOneBody("some results of a loop have gradients, and others have none")

    def _captured(self, graph: torch.fx.GraphModule) -> list[torch.Tensor]:
        """Return the tensors that a body takes beside its arguments, each of which the program knows."""
        names = [node.target for node in graph.graph.nodes if node.op == "get_attr"]
        samples = {id(each.like) for each in self._rows.values()}
        values = (getattr(graph, str(name)) for name in names)
        found = {id(value): value for value in values if id(value) not in samples}
        for value in found.values():
            if not isinstance(value, torch.Tensor) or not is_recorded(value, self._outer):
                raise NotOneBody("a body makes a constant")
        return [*found.values()]


def _any_row(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Return a tensor like a row; there may be none."""
    shape = [*tensor.shape]
    del shape[dim]
    return tensor.new_empty(shape)


def _in_order(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy in the order that results have: torch's `scan` takes none in another one."""
    return tensor.clone(memory_format=torch.contiguous_format)


def _refuse_unlike(graph: torch.fx.GraphModule) -> None:
    """Refuse a body that takes yet more, that writes into what it takes, or that takes numbers from data."""
    if any(node.op == "get_attr" for node in graph.graph.nodes) or _written(graph):
        raise NotOneBody("a body writes, or takes other tensors when it runs again")
    if any("unbacked_bindings" in node.meta for node in graph.graph.nodes):
        raise NotOneBody("a body takes numbers from data")


def _refuse_failing(graph: torch.fx.GraphModule) -> None:
    """Refuse a body that may fail on data: where there is no step, it is run on zeros."""
    for node in graph.graph.nodes:
        if node.op == "call_function" and may_fail(node.target, *operands(node, metadata), lambda _: True):
            raise NotOneBody("a body may fail on data, and the loop may have no step")


def refuse_told_apart(graph: torch.fx.Graph, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Refuse a program that tells what a loop without steps returns from what the loop begins with.

    In eager they are one tensor then, of the program's they are two: none of them may be written after the loop, and a
    result that is returned may not have begun as an input, or as another result.
    """
    given = {key for node in graph.nodes if node.op == "placeholder" for key in storages(node.meta.get("val"))}
    outputs = [storages(node.meta.get("val")) for node in graph.output_node().all_input_nodes]
    shared = [
        {key for each in (node, *node.all_input_nodes) for key in storages(each.meta.get("val"))}
        for node in filter(may_share, graph.nodes)
    ]
    for first, last in pairs:
        mine, its = (_perhaps_shared(storages(each), shared) for each in (first, last))
        made = [at for at, node in enumerate(graph.nodes) if its.intersection(storages(node.meta.get("val")))]
        after = itertools.islice(graph.nodes, min(made, default=0) + 1, None)
        returned = any(its.intersection(keys) for keys in outputs)
        shown = returned and (mine & given or any(mine.intersection(keys) for keys in outputs))
        written = {key for node in after for each in changed_operands(node) for key in storages(each.meta.get("val"))}
        if not made or shown or written & (mine | its):
            raise NotOneBody("whether a loop has a step shows in what shares memory")


def takes_a_layout(program: torch.export.ExportedProgram) -> bool:
    """True if a loop takes a tensor that lies as an input does: so does in eager what it carries on, here in order."""
    return any(is_higher_order(node.target) for node in takes_layouts(program))


def _perhaps_shared(keys: Iterable[Any], shared: Sequence[set[Any]]) -> set[Any]:
    """Return storages, and all that may be one with them: of a dropout in evaluation eager returns the operand."""
    found, before = set(keys), -1
    while len(found) > before:
        before = len(found)
        found = found.union(*(each for each in shared if found & each))
    return found


def _written(graph: torch.fx.GraphModule) -> set[int]:
    """Return the positions of the arguments into whose memory a body writes, by its operators' statistics, too."""
    written = written_inputs(graph.graph)
    return {at for at, node in enumerate(graph.graph.find_nodes(op="placeholder")) if node in written}


def _used(graph: torch.fx.GraphModule, captured: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Take from a body the arguments for captured tensors that it does not use, and return the others."""
    taken = [node for node in graph.graph.nodes if node.op == "placeholder"][-len(captured) :] if captured else []
    found = [tensor for node, tensor in zip(taken, captured, strict=True) if node.users]
    for node in taken:
        if not node.users:
            graph.graph.erase_node(node)
    graph.recompile()
    return found


def _apart(results: Sequence[torch.Tensor], args: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield results that share no memory with arguments or one another: torch's `scan` allows none to."""
    seen = {key for each in args for key in storages(each)}
    for each in results:
        own = storages(each)
        yield each.clone() if seen.intersection(own) else each
        seen.update(own)
