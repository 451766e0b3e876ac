"""Reads the entries of dynamic_shapes, in every form that torch.export takes, and the relations of `constraints=`.

An invalid entry raises one sentence that names it, before any trace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.domain import Declaration, Origin, Role, Variable
from shapeproof.constraints.syntax.text import parse_relation
from shapeproof.constraints.terms import Term, constant, symbol
from shapeproof.export.shim.inputs import dims
from shapeproof.export.shim.inputs.dims import Expression, Hint, Mark, NamedDim
from shapeproof.export.source.declared_at import Where

DimEntry = Any
"""An entry of dynamic_shapes: None, an int, a Dim, a derived dim or a Dim hint; or the mark that replaces it."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor input without an example.

    Attributes:
        dtype: its dtype.
        dims: its sizes: ints, Dims, or Dim hints.

    >>> import torch
    >>> TensorSpec(torch.float32, (torch.export.Dim("batch", max=64), 128)).dtype
    torch.float32
    """

    dtype: torch.dtype
    dims: tuple[DimEntry, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, torch.dtype):
            raise UsageError(f"the dtype of a TensorSpec must be a torch.dtype, not {self.dtype!r}")
        if not isinstance(self.dims, tuple | list):
            raise UsageError(f"the dims of a TensorSpec must be a tuple, not {self.dims!r}")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One flat input: its source, its example, and the term of each of its sizes (of its value, for an int)."""

    source: str
    name: str
    example: Any
    terms: tuple[Term, ...] = ()
    marks: tuple[Mark | None, ...] = ()
    """The mark of each dimension, if marks are in effect."""
    device: torch.device | None = None
    """Where a tensor without an example is made; None for torch's default device."""

    @property
    def is_tensor(self) -> bool:
        """True if the input is a tensor (given by example or by TensorSpec)."""
        return isinstance(self.example, torch.Tensor | TensorSpec)

    def size_name(self, index: int) -> str:
        """Return the user's name for a size: `x.shape[0]`, or `n` for an int input."""
        return f"{self.name}.shape[{index}]" if self.is_tensor else self.name


def _check_layout(name: str, example: Any) -> None:
    """Refuse a nested tensor, and a sparse one that is not COO, before its sizes are read: it may have none to read."""
    if not isinstance(example, torch.Tensor):
        return
    if example.is_nested:
        raise UsageError(f"`{name}` is a nested tensor, which cannot be exported: pass a padded tensor and lengths")
    if example.layout not in {torch.strided, torch.sparse_coo}:
        raise UsageError(f"`{name}` is a tensor of layout {example.layout}, which cannot be exported: pass a COO one")


def _inferred(*, stays: bool) -> Role:
    """Return the role of a size under a hint without bounds; `stays`: it must stay dynamic."""
    return Role.INFERRED | Role.DYNAMIC if stays else Role.INFERRED


class Reader:
    """Collects symbols and declarations while the entries are read in order."""

    def __init__(self, where: Where, roots: Collection[str], *, by_marks: bool) -> None:
        self._where, self._roots, self._by_marks = where, roots, by_marks
        self.variables: dict[str, Variable] = {}
        self.declarations: list[Declaration] = []
        self.example: dict[str, int] = {}
        self._expressions: list[tuple[str, str]] = []
        """The relations of the sizes that equal an expression, and how each is shown."""
        self._dims: dict[str, NamedDim] = {}
        self._groups: dict[str, str] = {}

    def leaf(self, leaf: Leaf, entry: Any) -> Leaf:
        """Return the leaf with the terms that its entry declares, or else its marks."""
        _check_layout(leaf.name, leaf.example)
        marked: list[Mark | None] = []
        if isinstance(leaf.example, TensorSpec):
            sizes: Sequence[int | None] = [None] * len(leaf.example.dims)
            listed = listed_dims(leaf, entry)
        elif isinstance(leaf.example, torch.Tensor):
            sizes = list(leaf.example.shape)
            listed = listed_dims(leaf, entry)
            if self._by_marks:
                listed = marked = [dims.mark_of(leaf.example, index) for index in range(len(sizes))]
        elif isinstance(leaf.example, int) and not isinstance(leaf.example, bool):
            sizes, listed = [leaf.example], [entry]
        elif entry is None:
            return leaf
        else:
            kind = type(leaf.example).__name__
            raise UsageError(f"dynamic_shapes gives {entry!r} for `{leaf.name}`, which has no sizes ({kind})")
        read = zip(sizes, map(dims.read, listed), strict=True)
        terms = [self._term(leaf, index, size, dim) for index, (size, dim) in enumerate(read)]
        return replace(leaf, terms=tuple(terms), marks=tuple(marked))

    def _term(self, leaf: Leaf, index: int, size: int | None, entry: Any) -> Term:
        name = leaf.size_name(index)
        if isinstance(entry, Mark):
            return self._marked(leaf, index, entry)
        if entry is None:
            if size is None:
                raise UsageError(f"`{name}` has neither an example nor a dim")
            return constant(size)
        if isinstance(entry, int):
            return _fixed_size(name, size, entry, signed=not leaf.is_tensor)
        if isinstance(entry, NamedDim):
            return self._named(name, size, entry, signed=not leaf.is_tensor)
        if isinstance(entry, Expression):
            self._expressions.append((f"{self._own_name(name)} == {entry.text}", f"{name} = {entry.text}"))
            return self._sized(leaf, name, size, (None, None), entry.text, Role.CLAIMED)
        if isinstance(entry, Hint):
            role = _inferred(stays=entry.stays_dynamic) if entry.bounds == (None, None) else Role.CLAIMED
            return self._sized(leaf, name, size, entry.bounds, entry.text, role)
        raise UsageError(f"dynamic_shapes gives {entry!r} for `{name}`: expected None, an int, a Dim, or a Dim hint")

    def _named(self, name: str, size: int | None, dim: NamedDim, *, signed: bool) -> Term:
        """Return the term of a Dim; `signed`: it is the value of an int."""
        root, (lower, upper) = dim.root, dim.bounds
        term = dim.step * symbol(root) + dim.offset
        if root in self._groups.values():
            raise UsageError(f"`{root}` is declared twice, as {dim.root_text} and as a shape_id")
        known = self._dims.setdefault(root, dim)
        if known.bounds != dim.bounds:
            raise UsageError(f"`{root}` is declared twice, as {known.root_text} and as {dim.root_text}")
        if root not in self.variables:
            user_name = name if term is symbol(root) else root
            role = Role.LIFTABLE if dim.liftable else Role.CLAIMED
            self._declare(Variable(root, user_name, "dim", role), lower, upper, f"{user_name} = {dim.root_text}")
        elif term is symbol(root) and self.variables[root].user_name == root:
            self.variables[root] = replace(self.variables[root], user_name=name)
        if not signed and term is symbol(root) and lower is not None and lower < 0:
            raise UsageError(f"`{root}` has min={lower}, but a size is never negative")
        if not signed and (lower is None or term is not symbol(root)):
            self._add(f.ge(term, 0), f"{name} = {dim.text}", name)
        if size is not None:
            self._solve_example(name, size, dim)
        return term

    def _solve_example(self, name: str, size: int, dim: NamedDim) -> None:
        """Record the root's value in the example; raise if no value gives this size (`2*b + 1` is never 6)."""
        value, beyond = divmod(size - dim.offset, dim.step)
        if beyond:
            raise UsageError(f"the example has {name} = {size}, which is not of the declared form {dim.shown}")
        if self.example.setdefault(dim.root, value) != value:
            raise UsageError(f"the example has {name} = {size}, but elsewhere `{dim.root}` is {self.example[dim.root]}")

    def _sized(  # noqa: PLR0913, PLR0917 - a size, and all that is said of it
        self, leaf: Leaf, name: str, size: int | None, bounds: tuple[int | None, int | None], text: str, role: Role
    ) -> Term:
        """Declare a size, or an int, of its own."""
        floor = 0 if leaf.is_tensor and bounds[0] is None else bounds[0]
        own = self._own_name(name)
        variable = Variable(own, name, "size" if leaf.is_tensor else "int", role)
        self._declare(variable, floor, bounds[1], f"{name} = {text}")
        if size is not None:
            self.example[own] = size
        return symbol(own)

    def _own_name(self, name: str) -> str:
        """Return the symbol of a size: an int input may have the name of a dim."""
        while name in self._roots:
            name += "_"
        return name

    def _marked(self, leaf: Leaf, index: int, mark: Mark) -> Term:
        """Declare a marked dimension like the equivalent hint, with one symbol for all sizes of a shape_id."""
        name, size = leaf.size_name(index), leaf.example.shape[index]
        known = name if mark.shape_id is None else self._groups.get(mark.shape_id) or self._group(mark.shape_id)
        variable = self.variables.get(known, Variable(known, name, "size"))
        if mark.floor is None and mark.upper is None:
            variable = replace(variable, role=variable.role | _inferred(stays=dims.must_stay_dynamic(mark.hint)))
        self._declare(variable, mark.floor or 0, mark.upper, mark.text(leaf.name, index))
        if self.example.setdefault(known, size) != size:
            raise UsageError(f"the example has {name} = {size}, but elsewhere `{known}` is {self.example[known]}")
        return symbol(known)

    def _group(self, shape_id: str) -> str:
        """Name all sizes marked with a shape_id; a constraint may use the name."""
        name = re.sub(r"\W|^(?=\d)", "_", str(shape_id)) or "_"
        while name in self.variables:
            name += "_"
        self._groups[shape_id] = name
        return name

    def _declare(self, variable: Variable, lower: int | None, upper: int | None, text: str) -> None:
        name, user_name = variable.name, variable.user_name
        if lower is not None and upper is not None and lower > upper:
            raise UsageError(f"`{user_name}` has min={lower} greater than max={upper}")
        self.variables[name] = variable
        if lower is not None:
            self._add(f.ge(symbol(name), lower), text, name)
        if upper is not None:
            self._add(f.le(symbol(name), upper), text, name)

    def _add(self, formula: Formula, text: str, name: str) -> None:
        """Add a declaration with its text; `name` finds its line."""
        self.declarations.append(Declaration(formula, Origin(text, name, self._where)))

    def relations(self, texts: Iterable[str]) -> None:
        """Add relations over dim names or `x.shape[0]`, after those of the entries."""
        for text, shown in (*self._expressions, *((each, each) for each in texts)):
            self._add(_relation(text, self.variables), shown, shown)


def _relation(text: str, known: Collection[str]) -> Formula:
    """Parse a constraint over the names of dims (`x.shape[0]` if a dim has no name)."""
    try:
        return parse_relation(text, known)
    except UsageError as error:
        raise UsageError(f"constraint {error}") from None


def listed_dims(leaf: Leaf, entry: Any) -> list[DimEntry]:
    """Return the entry of each dimension of a tensor."""
    rank = len(leaf.example.dims if isinstance(leaf.example, TensorSpec) else leaf.example.shape)
    if entry is None:
        return list(leaf.example.dims) if isinstance(leaf.example, TensorSpec) else [None] * rank
    if isinstance(entry, Mapping):
        for index in entry:
            if not isinstance(index, int) or not -rank <= index < rank:
                raise UsageError(f"dynamic_shapes names dimension {index!r} of `{leaf.name}`, which has {rank}")
        at = {index % rank: dim for index, dim in entry.items()}
        if len(at) < len(entry):
            raise UsageError(f"dynamic_shapes names a dimension of `{leaf.name}` twice: {sorted(entry)}")
        return [at.get(i) for i in range(rank)]
    if isinstance(entry, tuple | list):
        if len(entry) != rank:
            raise UsageError(
                f"dynamic_shapes gives {len(entry)} entries for `{leaf.name}`, which has {rank} dimensions"
            )
        return list(entry)
    raise UsageError(
        f"dynamic_shapes gives {entry!r} for `{leaf.name}`: expected a dict, a tuple or a list of dims, or None"
    )


def _fixed_size(name: str, size: int | None, declared: int, *, signed: bool) -> Term:
    if declared < 0 and not signed:
        raise UsageError(f"`{name}` is declared to be {declared}, but a size is never negative")
    if size is not None and size != declared:
        raise UsageError(f"`{name}` is declared to be {declared}, but the example has {size}")
    return constant(declared)
