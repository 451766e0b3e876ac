"""Writes a repaired domain as declarations: new dynamic_shapes and constraints to export with, and code to paste.

Torch's forms are used where they suffice: bounds in a Dim, a constant, a dim that increases linearly with another one.
The rest (a constant sum, a finite set, a product) becomes a text for `constraints=`. Dims that a constraint names keep
their names. A mark is written as a mark with new bounds, for pasting, and as an entry, since an entry for one input
overrides the marks of all inputs. The declarations state exactly the given formulas.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.export import Dim

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.domain import ranges, residue
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula
from shapeproof.constraints.terms import Symbol, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.reading import Leaf, listed_dims
from shapeproof.export.shim.inputs import dims
from shapeproof.export.shim.inputs.binding import is_spec
from shapeproof.export.shim.inputs.dims import Hint, Mark, NamedDim, declaration_text, hint_within
from shapeproof.solver.learned.reduction import substitute
from shapeproof.wording import listed


@dataclass(frozen=True, slots=True)
class Declarations:
    """The new arguments of `export(..., dynamic_shapes=..., constraints=...)`.

    `code` holds the lines that change, one for each dim, to paste where the dims are made.
    """

    dynamic_shapes: Any
    constraints: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


class Deferred:
    """Declarations that `find` gives, once, when they are first asked for. A copy shares them; pickling works them out.

    >>> told = []
    >>> later = Deferred(lambda: told.append("asked"))
    >>> later.declarations(), later.declarations(), told
    (None, None, ['asked'])
    """

    def __init__(self, find: Callable[[], Declarations | None]) -> None:
        self._find: Callable[[], Declarations | None] | None = find
        self._found: Declarations | None = None

    def declarations(self) -> Declarations | None:
        """What was found; None if nothing was."""
        if self._find is not None:
            self._found, self._find = self._find(), None
        return self._found

    def __deepcopy__(self, memo: dict[int, Any]) -> Deferred:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"_find": None, "_found": self.declarations()}


@dataclass(frozen=True, slots=True)
class _Form:
    """The declaration of a symbol: `step*root + offset`, with the bounds of the root; a constant has no root."""

    root: str | None
    step: int
    offset: int
    bounds: Interval = field(default_factory=Interval)

    def dim(self) -> Any:
        return Dim(str(self.root), min=self.bounds.lower, max=self.bounds.upper)

    def entry(self) -> Any:
        """Return the form as an entry of dynamic_shapes."""
        if self.root is None:
            return self.offset
        scaled = self.dim() if self.step == 1 else self.step * self.dim()
        return scaled if self.offset == 0 else scaled + self.offset if self.offset > 0 else scaled - -self.offset

    def after(self, step: int, offset: int) -> _Form:
        """Return the form of `step*s + offset`, where this is the form of s."""
        return _Form(self.root, step * self.step, step * self.offset + offset, self.bounds)


def redeclared(inputs: Inputs, formulas: Sequence[Formula]) -> Declarations:
    """Return the declared domain with these formulas added, as declarations."""
    if not formulas:
        return Declarations(inputs.dynamic_shapes, inputs.constraints)
    if is_spec(inputs.dynamic_shapes):
        return _assuming(inputs, formulas)
    writer = _Writer(inputs)
    parts = [part for formula in formulas for part in formula.conjuncts]
    parts = writer.derive(parts)
    joint = [part for part in parts if len(part.symbols) != 1]
    for name in sorted({name for part in parts if part not in joint for name in part.symbols}):
        tied = any(name in part.symbols for part in joint)
        writer.declare(name, [part for part in parts if part.symbols == {name}], tied=tied)
    writer.relate(joint)
    return writer.declarations()


def _assuming(inputs: Inputs, formulas: Sequence[Formula]) -> Declarations:
    """Return the declarations of a `ShapesSpec`: it stays, and each formula is one more assumption.

    What Python cannot compute of variables (`max(a, b)`, `and`), or names a size that is no variable, is a text.
    """
    parts = [part for formula in formulas for part in formula.conjuncts]
    relations = (*inputs.constraints, *map(format_formula, parts))
    variables = {name for name, each in inputs.domain.symbols.items() if each.kind == "dim"}
    if all(_is_computed(text, variables) for text in relations):
        code = listed("assumptions=", relations)
    else:
        code = listed("constraints=", [f'"{text}"' for text in relations])
    return Declarations(inputs.dynamic_shapes, relations, tuple(code))


def _is_computed(text: str, variables: Container[str]) -> bool:
    """True if a text is Python that gives a bool of variables, of which torch refuses `and`, `not` and `max`."""
    nodes = list(ast.walk(ast.parse(text)))
    chained = any(isinstance(each, ast.Compare) and len(each.ops) > 1 for each in nodes)
    refused = ast.BoolOp | ast.Call | ast.Attribute | ast.Subscript | ast.Not
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    return not chained and all(map(variables.__contains__, names)) and not any(isinstance(x, refused) for x in nodes)


class _Writer:
    """Finds a form for each symbol, and a text for each condition that no form expresses."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._leaves = {leaf.source: leaf for leaf in inputs.leaves}
        entries = inputs.domain.formulas[: len(inputs.domain.formulas) - len(inputs.constraints)]
        self._declared = ranges(entries)
        self._named = {name for name, variable in inputs.domain.symbols.items() if variable.kind == "dim"}
        self._tied = {name for text in inputs.constraints for name in parse_formula(text).symbols}
        self._taken = set(inputs.domain.symbols)
        self._lines: dict[str, tuple[str, int, int]] = {}
        self._forms: dict[str, _Form] = {}
        self._code: list[str] = []
        self._texts: list[str] = []

    def derive(self, parts: Sequence[Formula]) -> list[Formula]:
        """Derive dims from others where a part is `y == step*x + offset`; return the rest, over the dims left."""
        left = list(parts)
        while (found := next(((part, line) for part in left if (line := self._line(part))), None)) is not None:
            part, (name, root, step, offset) = found
            self._lines[name] = (root, step, offset)
            ends = [formula for formula in self._inputs.domain.formulas if formula.symbols == {name}]
            term = step * symbol(root) + offset
            others = [substitute(each, {name: term}) for each in (*left, *ends) if each is not part]
            left = [each for each in others if each is not f.TRUE]
        return left

    def _line(self, part: Formula) -> tuple[str, str, int, int] | None:
        """Return `(y, x, step, offset)` if the part is `y == step*x + offset` and y can be declared that way."""
        free = self._named - self._lines.keys() - {root for root, _, _ in self._lines.values()}
        for name in sorted(part.symbols & free - self._tied, reverse=True):
            (root,) = part.symbols - {name} if len(part.symbols) == 2 else (name,)
            line = _solved(part, name, root)
            if line is not None and root in self._named - self._lines.keys():
                return name, root, *line
        return None

    def declare(self, name: str, parts: Sequence[Formula], *, tied: bool) -> None:
        """Declare a symbol by a constant, bounds or a residue; other parts become text. A `tied` one keeps its name."""
        tied = tied or name in self._tied
        declared = self._declared.get(name, Interval())
        value = _one_value(parts, declared)
        if value is not None:
            self.relate([f.eq(symbol(name), value)]) if tied else self._set(name, _Form(None, 0, value))
            return
        bounds, left = declared, list[Formula]()
        for part in parts:
            interval = ranges([part]).get(name)
            said = interval is not None and (name in self._named or _is_natural(interval))
            bounds, left = (bounds & interval, left) if said and interval is not None else (bounds, [*left, part])
        rest = residue(name, left[0]) if len(left) == 1 else None
        if rest is not None and name in self._named and not tied:
            self._set(name, _within(self._fresh(name), *rest, bounds))
        else:
            self.relate(left)
            if bounds != declared:
                self._set(name, _Form(name, 1, 0, bounds))

    def _fresh(self, name: str) -> str:
        """Return an unused name for the root of a dim."""
        while name in self._taken:
            name = f"_{name}"
        self._taken.add(name)
        return name

    def _set(self, name: str, form: _Form) -> None:
        """Declare a symbol by its form, and write the code."""
        self._forms[name] = form
        if form.root not in {None, name}:
            self._code.append(f"{form.root} = {declaration_text(form.dim())}")
        if name in self._named:
            self._code.append(f"{name} = {declaration_text(form.entry())}")

    def relate(self, parts: Sequence[Formula]) -> None:
        """Write the parts as constraints."""
        self._texts += [format_formula(part) for part in parts]

    def declarations(self) -> Declarations:
        for name, (root, step, offset) in self._lines.items():
            known = self._forms.get(root, _Form(root, 1, 0, self._declared.get(root, Interval())))
            self._forms[name] = known.after(step, offset)
            self._code.append(f"{name} = {format_term(step * symbol(root) + offset)}")
        shapes = self._inputs.remade(lambda source, entry: self._changed(self._leaves[source], entry))
        constraints = (*self._inputs.constraints, *self._texts)
        if self._texts:
            self._code += listed("constraints=", [f'"{text}"' for text in constraints])
        return Declarations(shapes, constraints, tuple(self._code))

    def _changed(self, leaf: Leaf, entry: Any) -> Any:
        """Return the entry of an input, with the new declarations in place of the old."""
        if not leaf.is_tensor:
            return self._dim(leaf.name, entry)
        marks = leaf.marks or (None,) * len(leaf.terms)
        listed = listed_dims(leaf, entry)
        changed = [
            self._dim(leaf.size_name(i), dim) if mark is None else self._mark(leaf, i, mark)
            for i, (mark, dim) in enumerate(zip(marks, listed, strict=True))
        ]
        if isinstance(entry, Mapping):
            return {key: changed[key % len(changed)] for key in entry}
        return None if all(dim is None for dim in changed) else tuple(changed)

    def _mark(self, leaf: Leaf, index: int, mark: Mark) -> Any:
        (name,) = leaf.terms[index].symbols
        form = self._forms.get(name)
        bounds = self._declared.get(name, Interval()) if form is None else form.bounds
        if form is not None:
            lower, upper = (form.offset,) * 2 if form.root is None else (bounds.lower, bounds.upper)
            mark = mark.within(lower, upper)
            self._code.append(mark.text(leaf.name, index))
        if form is not None and form.root is None:
            return form.offset
        if mark.shape_id is None:
            return mark.hint
        return bounds.lower if bounds.lower == bounds.upper else Dim(name, min=bounds.lower, max=bounds.upper)

    def _dim(self, name: str, entry: Any) -> Any:
        dim = dims.read(entry)
        if isinstance(dim, NamedDim):
            form = self._forms.get(dim.root)
            return entry if form is None else form.after(dim.step, dim.offset).entry()
        form = self._forms.get(name) if isinstance(dim, Hint) else None
        if form is None:
            return entry
        new = form.offset if form.root is None else hint_within(entry, form.bounds.lower, form.bounds.upper)
        self._code.append(f"{name}: {declaration_text(new)}")
        return new


def _one_value(parts: Sequence[Formula], declared: Interval) -> int | None:
    """Return the only value that the parts leave a symbol, if there is just one."""
    bounds = declared
    for interval in ranges(parts).values():
        bounds &= interval
    return bounds.single


def _is_natural(bounds: Interval) -> bool:
    """True if no bound is negative; a Dim hint takes no negative bound."""
    return all(end is None or end >= 0 for end in (bounds.lower, bounds.upper))


def _solved(part: Formula, name: str, root: str) -> tuple[int, int] | None:
    """Return `(step, offset)` with a positive step if the part is exactly `name == step*root + offset`."""
    if name == root or not isinstance(part, f.Compare) or not all(isinstance(a, Symbol) for a in part.term.children):
        return None
    start = evaluate(part.term, {name: 0, root: 0})
    own, other = (evaluate(part.term, {name: 0, root: 0} | {each: 1}) - start for each in (name, root))
    if abs(own) != 1 or own * other >= 0:
        return None
    step, offset = -other * own, -start * own
    return (step, offset) if part is f.eq(symbol(name), step * symbol(root) + offset) else None


def _within(root: str, step: int, offset: int, bounds: Interval) -> _Form:
    lower = max(0, -((offset - (bounds.lower or 0)) // step))
    upper = None if bounds.upper is None else (bounds.upper - offset) // step
    return (
        _Form(None, 0, step * lower + offset) if lower == upper else _Form(root, step, offset, Interval(lower, upper))
    )
