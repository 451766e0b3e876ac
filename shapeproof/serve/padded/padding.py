"""Decides whether a program's inputs may be padded: by a rule per operator, or else by a trial with NaN in the padding.

A program with padded inputs must return the rows that it returns without padding, and may raise only where it raises
without. Rules prove that node by node (row_by_row.py). If a node has no rule, the program is run at some sizes with NaN
in the padding. That is a trial and never a proof; the status says so. A leak is an error that names the node.

A leak may show only at some sizes, for some amounts of padding and for some values: `x.clamp(max=x.shape[0])` returns
the same until a value is larger than the size. So a trial varies all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from shapeproof.constraints.errors import ShapeproofError, UsageError
from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.terms import Term, constant
from shapeproof.contract.sizes import SizeGuard
from shapeproof.export.declare.materialize import like_example
from shapeproof.export.explore.beside_eager.runner import unequal
from shapeproof.export.forms.programs import VerifiedProgram
from shapeproof.export.forms.static.rows import Rows
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import writes_said
from shapeproof.export.ops import schemas
from shapeproof.export.ops.row_by_row import Varying
from shapeproof.export.ops.table import family_of, kind_of, known_of
from shapeproof.export.shim.trees import leaves, map_all, map_tensors
from shapeproof.serve.padded.plans import Point, dominates
from shapeproof.wording import values_text

Locate = Callable[[Point], Point]
_LARGEST = 2**22
"""Inputs with more elements are not made up for a trial."""


@dataclass(frozen=True)
class Padding:
    """Whether a program may be padded along some dims, and how that is known.

    Attributes:
        status: "proved": each operator keeps rows apart, by a rule; "tried": some has no rule, and what the program
            gives was the same wherever it was run with NaN in the padding.
        node: what of the program has no rule, with its line; empty where it is proved.
        tried: the sizes at which it was run, in words.
    """

    status: Literal["proved", "tried"]
    node: str
    tried: tuple[str, ...]
    _names: tuple[str, ...] = field(repr=False)
    _guard: SizeGuard = field(repr=False)
    _sizes: tuple[tuple[Term, ...], ...] = field(repr=False)
    _results: tuple[tuple[Term, ...] | None, ...] = field(repr=False)
    _module: torch.nn.Module = field(repr=False)
    _keywords: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        if self.status == "proved":
            return "padding is proved to change no row"
        return f"padding is not proved: {self.node} has no rule; it changed no row at {'; '.join(self.tried)}"

    def pad(
        self, locate: Locate, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the inputs at the sizes of their bucket, padded with zeros."""
        padded, _ = self._padded(locate, args, kwargs, fill=0)
        return padded  # type: ignore[no-any-return]

    def call(self, locate: Locate, args: Sequence[Any], kwargs: Mapping[str, Any], *, fill: float = 0) -> Any:
        """Return the program's result for padded inputs, cut back."""
        (padded, keywords), point = self._padded(locate, args, kwargs, fill=fill)
        results = iter(self._results)
        return map_all(self._module(*padded, **keywords), lambda each: _cut(each, next(results), point))

    def _padded(self, locate: Locate, args: Sequence[Any], kwargs: Mapping[str, Any], *, fill: float) -> Any:
        """Return the padded inputs and the original sizes by symbol."""
        given = (tuple(args), {name: kwargs[name] for name in self._keywords if name in kwargs} | dict(kwargs))
        flat = leaves(given)
        if len(flat) != len(self._sizes):
            raise UsageError(f"expected {len(self._sizes)} inputs, got {len(flat)}")
        self._guard.check(flat)
        point = self._guard.point(flat)
        to = {**point, **dict(zip(self._names, locate(tuple(point[name] for name in self._names)), strict=True))}
        sizes = iter(self._sizes)
        return map_all(given, lambda each: _grown(each, next(sizes), to, fill)), point


def _grown(value: Any, terms: Sequence[Term], to: Mapping[str, int], fill: float) -> Any:
    """Return an input at other sizes; an int input that equals a size changes with it."""
    sizes = [evaluate(term, to) for term in terms]
    if not isinstance(value, torch.Tensor):
        return sizes[0] if isinstance(value, int) and not isinstance(value, bool) and sizes else value
    if list(value.shape) == sizes:
        return value
    grown = like_example(value.detach(), sizes, filled=False, seed=None)
    grown.fill_(fill if value.is_floating_point() or value.is_complex() else 0)
    grown[tuple(slice(size) for size in value.shape)] = value
    return grown


def _cut(value: Any, terms: tuple[Term, ...] | None, point: Mapping[str, int]) -> Any:
    """Return a result cut to its sizes without padding."""
    for dim, term in enumerate(terms or ()):
        value = value.narrow(dim, 0, evaluate(term, point)) if term.symbols & point.keys() else value
    return value


def padding_of(program: VerifiedProgram, names: Sequence[str], corners: Sequence[Point], least: Point) -> Padding:
    """What is known of padding a program along these dims up to these corners.

    Raises:
        UsageError: the program has no such dim, does not take a corner, or padding changes what it gives.
    """
    if program.report.status != "proved":
        raise UsageError(f"expected a proved program, but this one is {program.report.status}")
    contract = program.contract
    own = {contract.names[each]: each for terms in contract.sizes for term in terms for each in term.symbols}
    for name in names:
        if name not in own:
            raise UsageError(f"unknown dim {name!r}: the program's dims are {', '.join(sorted(own)) or 'all static'}")
    padded = tuple(own[name] for name in names)
    _refuse_corners(program, padded, names, corners)
    varying = Varying(frozenset(padded))
    rows = Rows(program, varying, own.values())
    results = tuple(_result_sizes(rows, node, varying, set(own.values())) for node in _results(program))
    writes = writes_said(program.graph)
    if writes is not None:
        raise UsageError(f"inputs of a program that {writes} cannot be padded")
    leak = _leak(program, rows)
    found = Padding(
        "proved" if leak is None else "tried",
        "" if leak is None else nodes.said(leak),
        (),
        padded,
        contract.size_guard(program),
        contract.sizes,
        results,
        program.module(),
        tuple(program.example_inputs[1]) if program.example_inputs else (),
    )
    return found if leak is None else _tried(found, program, names, corners, least)


def _leak(program: VerifiedProgram, rows: Rows) -> torch.fx.Node | None:
    """Return the first node that may mix rows, or a result whose rows are not at its start."""
    mixing = (node for node in program.graph.nodes if not rows.apart(node) and not _reads_zero(rows, node))
    results = (node for node in _results(program) if isinstance(node, torch.fx.Node))
    return next(mixing, None) or next((node for node in results if not rows.first(node)), None)


def _refuse_corners(
    program: VerifiedProgram, padded: Sequence[str], names: Sequence[str], corners: Sequence[Point]
) -> None:
    """What of the domain can be asked of the padded dims alone must hold at each corner; a call is asked the rest."""
    asked = [each for each in program.contract.formulas if each.symbols and each.symbols <= set(padded)]
    test = compiled(asked, padded)
    for corner in corners:
        if not test(*corner):
            raise UsageError(
                f"the program does not take the bucket {_at(names, corner)}; plan buckets of the program itself"
            )


def _results(program: VerifiedProgram) -> list[Any]:
    return leaves(program.graph.output_node().args[0])


def _result_sizes(rows: Rows, node: Any, varying: Varying, known: set[str]) -> tuple[Term, ...] | None:
    """Return the sizes to which a result is cut; None if it is no tensor."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if isinstance(value, torch.Tensor):
        sizes = rows.sizes(value)
        if all(not varying.term(size) or size.symbols <= known for size in sizes):
            return tuple(size if varying.term(size) else constant(0) for size in sizes)  # 0: nothing is cut
    elif not isinstance(node, torch.fx.Node) or not rows.varies(node):
        return None
    raise UsageError(f"the result `{node}` is a size that padding changes")


def _gives_elements(target: Any) -> bool:
    """True if the elements of an operator's result are its operand's."""
    return family_of(target) == "view" or known_of(target).in_order


def _reads_zero(rows: Rows, node: torch.fx.Node) -> bool:
    """Whether a node looks up rows of a fixed table by an input, so that padding looks up row 0, which is there."""
    if kind_of(node.target) != "embedding":
        return False
    given = schemas.by_name(node.target, node.args, node.kwargs)
    table, index = given["weight"], given["indices"]
    if rows.varies(table) or not rows.first(index):
        return False
    size = rows.sizes(table.meta["val"])[0]
    while _gives_elements(index.target) and rows.apart(index):
        index = index.args[0]
    if index.op != "placeholder" or index.meta["val"].dtype.to_real().is_floating_point:
        return False  # an input of floats may be padded with NaN
    return size.is_constant and size.constant_value >= 1


# ---------------------------------------------------------------------- trials


def _tried(
    found: Padding, program: VerifiedProgram, names: Sequence[str], corners: Sequence[Point], least: Point
) -> Padding:
    """The padding, once it has changed nothing wherever that was tried.

    Raises:
        UsageError: it has, or nothing could be tried.
    """
    tried: list[str] = []
    for point, corner in pairs(corners, least):
        said = f"{_at(names, point)} padded to {_at(names, corner)}"
        reasons = [_changed(found, program, point, corner, change) for change in VALUES]
        reason = next(filter(None, reasons), None)
        if reason:
            raise UsageError(f"padding changes what the program gives: {found.node} mixes rows: {said}, {reason}")
        tried += [said] if None in reasons else []
    if not tried:
        raise UsageError(f"padding could be neither proved nor tested: {found.node} has no rule")
    return replace(found, tried=tuple(tried))


def _at(names: Sequence[str], point: Point) -> str:
    return values_text(dict(zip(names, point, strict=True)))


def _changed(found: Padding, program: VerifiedProgram, point: Point, corner: Point, change: Change) -> str | None:
    """How what a program gives changes by padding: empty if it could not be run, None if it does not."""
    inputs = _made(found, program, point)
    if inputs is None:
        return ""
    generator = torch.Generator().manual_seed(sum(point))
    args, kwargs = map_tensors(inputs, lambda tensor: change(tensor.detach(), generator))
    try:
        want = found._module(*args, **kwargs)  # noqa: SLF001 - this module's own
    except (RuntimeError, ValueError, IndexError, ShapeproofError):
        return ""
    try:
        for fill in (float("nan"), 0.0):
            got = found.call(lambda _: corner, args, kwargs, fill=fill)
            if unequal(want, got):
                return f"with {'NaN' if fill != fill else 'zeros'} in the padding its results differ"  # noqa: PLR0124
    except (RuntimeError, ValueError, IndexError, ShapeproofError) as error:
        return f"it raises {type(error).__name__}: {str(error).splitlines()[0]}"
    return None


def _made(found: Padding, program: VerifiedProgram, point: Point) -> Any:
    """Inputs of these sizes, with data like the example's; None where they are too large to be made."""
    inputs = program.taken_apart.inputs
    at = {**(inputs.example or {}), **dict(zip(found._names, point, strict=True))}  # noqa: SLF001 - this module's own
    if at.keys() < inputs.domain.symbols.keys() or inputs.elements(at) > _LARGEST:
        return None
    return inputs.at(at, filled=True)


PAIRS = 16
"""At how many pairs of sizes a program is tried, the first of each bucket first."""
Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def pairs(corners: Sequence[Point], least: Point) -> Iterator[tuple[Point, Point]]:
    """Yield sizes with a bucket above: one below it, the least, one between; then those with the largest bucket.

    >>> list(pairs([(4,), (8,)], (2,)))[:4]
    [((3,), (4,)), ((7,), (8,)), ((2,), (4,)), ((2,), (8,))]
    """
    rounds: list[list[tuple[Point, Point]]] = [[], [], [], []]
    for corner in corners:
        ends = list(zip(least, corner, strict=True))
        below = tuple(max(low, size - 1) for low, size in ends)
        between = tuple((low + size) // 2 for low, size in ends)
        for number, point in enumerate((below, least, between)):
            rounds[number].append((point, corner))
        rounds[3] += [(point, other) for point in (below, between) for other in corners[-1:]]
    found = dict.fromkeys(pair for each in rounds for pair in each)
    fitting = ((point, corner) for point, corner in found if point != corner and dominates(corner, point))
    yield from list(fitting)[:PAIRS]


def _times(factor: int) -> Change:
    """Return large values, more of one sign than of the other; integers larger by one or two, or all equal."""

    def change(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
        if tensor.dtype == torch.bool:
            return torch.full_like(tensor, factor > 0)
        if tensor.is_floating_point() or tensor.is_complex():
            return (tensor + 1) * factor
        return tensor + 1 if factor > 0 else torch.full_like(tensor, int(tensor.max()) if tensor.numel() else 0)

    return change


def _drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return values of all magnitudes; integers from 0 to one above the maximum."""
    if tensor.is_floating_point() or tensor.is_complex():
        scale = torch.rand(tensor.shape, generator=generator).mul(6).exp2()
        return tensor * scale.to(tensor.device, tensor.dtype) + 1
    high = 2 if tensor.dtype == torch.bool else 2 + int(tensor.max() if tensor.numel() else 0)
    drawn = torch.randint(max(2, high), tensor.shape, generator=generator)
    return drawn.to(tensor.device, tensor.dtype)


VALUES: Sequence[Change] = (lambda tensor, _: tensor, _times(1000), _times(-1000), _drawn, _drawn)
"""What becomes of the values that are made up like the example's."""
