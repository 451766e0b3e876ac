"""Operators that keep rows apart: padding of an operand reaches only the padding of the result.

Enlarge the varying sizes, and run an operator on operands whose first rows are unchanged and whose other rows hold any
values: NaN, infinities, any integers. *Law*: the result's first rows (the rows of the smaller run) are unchanged, and
no row makes the operator raise. A dim varies if its size contains a varying symbol.

A rule examines one call and tells whether the law holds; an operator without a rule is unknown. By induction over the
nodes, the law holds for a program if it holds for each node. The law ignores rounding: a larger matmul may add in
another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from shapeproof.constraints.nodes import Node
from shapeproof.constraints.polynomials import Monomial
from shapeproof.constraints.terms import ONE, FloorDiv, Max, Min, Symbol, Term
from shapeproof.export.ops.call import Call, Shape, product
from shapeproof.export.ops.table import family_of, kind_of


@dataclass(frozen=True, slots=True)
class Varying:
    """The varying symbols, which are at least 0, and other symbols that are at least 0."""

    symbols: frozenset[str]
    nonnegative: frozenset[str] = frozenset()

    def term(self, size: Term) -> bool:
        """True if a size varies."""
        return not size.symbols.isdisjoint(self.symbols)

    def dims(self, shape: Shape) -> set[int]:
        """Return the varying dims of a tensor."""
        return {index for index, size in enumerate(shape.sizes) if self.term(size)}

    def free(self, shape: Shape | None, *dims: int) -> bool:
        """True if these dims do not vary (negative dims count from the end); without dims, if no dim varies."""
        if shape is None:
            return True
        rank = len(shape.sizes)
        return self.dims(shape).isdisjoint({dim % rank for dim in dims if rank} if dims else range(rank))


Rule = Callable[[Call, Varying], bool]
_KindT = TypeVar("_KindT")


def row_by_row(call: Call, varying: Varying) -> bool:
    """True if the law is known to hold for a call.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> x = Shape((parse_term("n"), parse_term("4")), "torch.float32")
    >>> n = Varying(frozenset({"n"}))
    >>> row_by_row(Call("aten.relu.default", {"self": x}, (x,)), n)
    True
    >>> row_by_row(Call("aten.sum.default", {"self": x}, (Shape(()),)), n)
    False
    """
    rule = _rule(call.name)
    numbers = () if kind_of(call.name) in SIZED else _of_kind(call.arguments.values(), Term)
    return rule is not None and not any(map(varying.term, numbers)) and rule(call, varying)


def _rule(name: str) -> Rule | None:
    """Return an operator's rule; None for one that writes in place and is not computed element by element."""
    rule, (packet, _, overload) = _RULES.get(kind_of(name)) or _RULES.get(family_of(name)), name[5:].partition(".")
    in_place = packet.endswith("_") and rule not in _ELEMENTWISE
    return None if in_place or "out" in overload else rule


def tensors(values: Any) -> Iterator[Shape]:
    """Yield the tensors among arguments."""
    return _of_kind(values, Shape)


def _of_kind(values: Any, kind: type[_KindT]) -> Iterator[_KindT]:
    for value in values:
        if isinstance(value, kind):
            yield value
        elif isinstance(value, tuple):
            yield from _of_kind(value, kind)


def rises(term: Term, varying: Varying) -> bool:
    """True if a size never falls as the varying sizes rise.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> n = Varying(frozenset({"n"}))
    >>> rises(parse_term("2*n + 1"), n), rises(parse_term("n//2 - 3"), n), rises(parse_term("8 - n"), n)
    (True, True, False)
    """
    return not term.checks and all(_addend_rises(monomial, factor, varying) for monomial, factor in term.poly.items())


def _addend_rises(monomial: Monomial, factor: int, varying: Varying) -> bool:
    atoms = [atom for atom, _ in monomial]
    if all(varying.symbols.isdisjoint(atom.symbols) for atom in atoms):
        return True
    if len(monomial) == 1 and monomial[0][1] == 1:
        return _atom_rises(atoms[0], varying, up=factor > 0)
    known = varying.symbols | varying.nonnegative
    return factor > 0 and all(isinstance(atom, Symbol) and atom.symbols <= known for atom in atoms)


def _atom_rises(atom: Node, varying: Varying, *, up: bool) -> bool:
    """True if an atom never falls, or, with `up` False, never rises."""
    match atom:
        case Symbol():
            return up
        case FloorDiv(dividend, divisor) if divisor.is_constant and divisor.constant_value > 0:
            return rises(dividend if up else -dividend, varying)
        case Min(args) | Max(args):
            return all(rises(each if up else -each, varying) for each in args)
    return False


# ---------------------------------------------------------------------- element by element


def aligned(shape: Shape, result: Shape, varying: Varying) -> bool:
    """True if a tensor is broadcast with its rows aligned to the result's: from the end, sizes are equal or 1."""
    lead = len(result.sizes) - len(shape.sizes)
    if lead < 0:
        return False
    pairs = zip(shape.sizes, result.sizes[lead:], strict=True)
    return all(size is other or size is ONE or not (varying.term(size) or varying.term(other)) for size, other in pairs)


def _pointwise(call: Call, varying: Varying) -> bool:
    """Each element of each result depends only on the elements at its place."""
    results = list(tensors(call.results))
    return all(aligned(each, result, varying) for each in tensors(call.arguments.values()) for result in results)


def _of_floats(call: Call, varying: Varying) -> bool:
    """Division with rounding: on integers it raises if a divisor in any row is 0."""
    result = call.result()
    return result is not None and "float" in result.dtype and _pointwise(call, varying)


_ELEMENTWISE = frozenset({_pointwise, _of_floats})


def _identity_in_eval(call: Call, varying: Varying) -> bool:
    """`dropout` in eval mode, where it drops nothing."""
    return call.arguments.get("train") is False and _pointwise(call, varying)


# ---------------------------------------------------------------------- along dims


def _dims(value: Any, rank: int) -> set[int] | None:
    """Return the dims that an argument names; all dims if it names none; None if it is not understood."""
    if value is None or value == ():
        return set(range(rank))
    listed = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(each, Term) and each.is_constant for each in listed):
        return None
    return {each.constant_value % rank for each in listed} if rank else set()


def _apart(operand: str, mixed: Callable[[Call, int], Iterable[int] | None]) -> Rule:
    """Return a rule: rows are independent but along the mixed dims of an operand, and no other operand varies.

    `mixed` gets the call and the rank of the operand, and returns None for a call on which this does not hold.
    """

    def rule(call: Call, varying: Varying) -> bool:
        shape = call.tensor(operand)
        dims = None if shape is None else mixed(call, len(shape.sizes))
        if shape is None or dims is None or not all(map(varying.free, _others(call, shape))):
            return False
        return varying.dims(shape).isdisjoint({dim % len(shape.sizes) for dim in dims})

    return rule


def _along(dim: str = "dim") -> Rule:
    """Return the rule of operators along some dims: rows along the other dims are independent."""
    return _apart("self", lambda call, rank: _dims(call.arguments.get(dim), rank))


def _others(call: Call, *shapes: Shape | None) -> list[Shape]:
    return [each for each in tensors(call.arguments.values()) if not any(each is shape for shape in shapes)]


def _soft_gradient(call: Call, varying: Varying) -> bool:
    """`_softmax_backward_data`: rows of the result and of its gradient are independent along the other dims."""
    shape = call.tensor("output")
    dims = None if shape is None else _dims(call.arguments.get("dim"), len(shape.sizes))
    return dims is not None and varying.free(shape, *dims) and _pointwise(call, varying)


def pointwise(call: Call, varying: Varying) -> bool:
    """True if a call works element by element.

    >>> pointwise(Call("aten.relu.default", {"self": Shape(())}, (Shape(()),)), Varying(frozenset()))
    True
    """
    rule = _rule(call.name)
    return rule in _ELEMENTWISE and rule is not None and rule(call, varying)


def _running(call: Call, varying: Varying) -> bool:
    """`cumsum` and similar operators: a row depends on the rows up to it, also along a varying dim."""
    return all(map(varying.free, _others(call, call.tensor("self"))))


def _joined(call: Call, varying: Varying) -> bool:
    """`cat`: along a dim that does not vary, of tensors with equal varying sizes in the other dims."""
    given, result = call.arguments.get("tensors"), call.result()
    if not isinstance(given, tuple) or result is None or not all(isinstance(each, Shape) for each in given):
        return False
    dims = _dims(call.arguments.get("dim"), len(result.sizes))
    if dims is None or any(len(each.sizes) != len(result.sizes) for each in given):
        return False
    return all(varying.free(each, *dims) for each in (*given, result)) and all(
        size is other or not (varying.term(size) or varying.term(other))
        for each in given
        for index, (size, other) in enumerate(zip(each.sizes, result.sizes, strict=True))
        if index not in dims
    )


def _stacked(call: Call, _varying: Varying) -> bool:
    """`stack`: tensors of equal sizes, along a new dim."""
    given = call.arguments.get("tensors")
    return isinstance(given, tuple) and len({each.sizes for each in given if isinstance(each, Shape)}) == 1


def _indexed(call: Call, varying: Varying) -> bool:
    """`index` by tensors: rows along dims that are not indexed are independent, if the indices do not vary."""
    shape, indices = call.tensor("self"), call.arguments.get("indices")
    if shape is None or not isinstance(indices, tuple) or not all(map(varying.free, tensors(indices))):
        return False
    if any("bool" in each.dtype or "uint8" in each.dtype for each in tensors(indices)):
        return False
    return all(index not in varying.dims(shape) for index, each in enumerate(indices) if each is not None)


# ---------------------------------------------------------------------- views


def _as_many(call: Call, varying: Varying) -> bool:
    """Permuted dims, or dims of size 1 added or removed: the number of varying dims is unchanged."""
    shape, result = call.tensor("self"), call.result()
    return shape is not None and result is not None and len(varying.dims(shape)) == len(varying.dims(result))


def _sliced(call: Call, varying: Varying) -> bool:
    """`slice` from a constant start, with any end: the result's first rows come from the operand's first rows."""
    shape = call.tensor("self")
    start, end, step = (call.arguments.get(name) for name in ("start", "end", "step"))
    dims = None if shape is None else _dims(call.arguments.get("dim"), len(shape.sizes))
    if shape is None or dims is None or not isinstance(step, Term) or not step.is_constant:
        return False
    if start is None or (isinstance(start, Term) and start.is_constant and start.constant_value >= 0):
        return True
    still = not any(isinstance(each, Term) and varying.term(each) for each in (start, end))
    return still and varying.dims(shape).isdisjoint(dims)


def regrouped(shape: Shape, result: Shape, varying: Varying) -> bool:
    """True if a tensor viewed in other sizes keeps its rows first.

    Each varying dim, with the dims after it up to the next varying dim, is split the same way on both sides: equally
    many elements before it, and equally many from it on.
    """
    one, other = sorted(varying.dims(shape)), sorted(varying.dims(result))
    if len(one) != len(other):
        return False
    for each, its in zip(one, other, strict=True):
        if product(shape.sizes[:each]) is not product(result.sizes[:its]):
            return False
        if shape.sizes[each] is not result.sizes[its] and not (len(one) == 1 or each == one[-1]):
            return False
    return product(shape.sizes) is product(result.sizes)


def _viewed(call: Call, varying: Varying) -> bool:
    shape, result = call.tensor("self"), call.result()
    return shape is not None and result is not None and regrouped(shape, result, varying)


def _repeated(call: Call, varying: Varying) -> bool:
    """`repeat`: a varying dim is repeated once."""
    shape, times = call.tensor("self"), call.arguments.get("repeats")
    if shape is None or not isinstance(times, tuple):
        return False
    lead = len(times) - len(shape.sizes)
    return all(times[lead + index] is ONE for index in varying.dims(shape))


# ---------------------------------------------------------------------- made of sizes


def _where_steady(*names: str) -> Rule:
    """Return the rule of operators that make a tensor of sizes: these arguments do not vary."""

    def rule(call: Call, varying: Varying) -> bool:
        given = [call.arguments.get(name) for name in names]
        varies = any(isinstance(each, Term) and varying.term(each) for each in given)
        return not varies and all(map(varying.free, tensors(given)))

    return rule


# ---------------------------------------------------------------------- products


def _contracted(call: Call, varying: Varying) -> bool:
    """Sums of products: a dim that varies is in the result, and has one size, or 1, in every operand.

    Each dim has a letter, as in `torch.einsum`; those that `*` stands for are broadcast, from the last one on.
    """
    given, _, kept = _dims_of(call).partition(" -> ")
    named: dict[str, set[Term]] = {}
    for name, _, letters in (each.partition("=") for each in given.split()):
        operand = call.tensor(name)
        if operand is not None and not _name_dims(named, letters, operand.sizes):
            return False
    others = _others(call, *map(call.tensor, (each.partition("=")[0] for each in given.split())))
    return bool(named) and all(map(varying.free, others)) and _are_apart(named, kept, varying)


def _name_dims(named: dict[str, set[Term]], letters: str, sizes: tuple[Term, ...]) -> bool:
    """Note the size of each dim; a missing one counts as 1. False if there are more dims than letters."""
    own = letters.removeprefix("*")
    if len(sizes) > len(own) and own == letters:
        return False
    before = [f"-{place}" for place in range(len(sizes) - len(own), 0, -1)]
    last = own[len(own) - min(len(own), len(sizes)) :]
    for letter, size in zip([*before, *last], sizes, strict=True):
        named.setdefault(letter, set()).add(size)
    return True


_DIMS = {
    "linear": "input=*k weight=mk bias=m -> m",
    "mm": "self=*mk mat2=*kn -> mn",
    "addmm": "self=mn mat1=mk mat2=kn -> mn",
    "baddbmm": "self=*mn batch1=*mk batch2=*kn -> mn",
    "mv": "self=mk vec=k -> m",
    "attention": "query=*le key=*se value=*sv attn_mask=*ls -> lv",
}
"""The dims of operands and result, by kind."""


def _dims_of(call: Call) -> str:
    if kind_of(call.name) == "matmul":
        other = call.tensor("other")
        return f"self=*mk other={'k' if other is not None and len(other.sizes) == 1 else '*kn'} -> mn"
    return _DIMS[kind_of(call.name)]


def _einsum(call: Call, varying: Varying) -> bool:
    """`einsum`: each letter of a varying dim appears in the result, and stands for one size everywhere, or for 1."""
    equation, operands = call.arguments.get("equation"), call.arguments.get("tensors")
    if not isinstance(equation, str) or "." in equation or "->" not in equation or not isinstance(operands, tuple):
        return False
    given, _, kept = equation.replace(" ", "").partition("->")
    named: dict[str, set[Term]] = {}
    for letters, each in zip(given.split(","), operands, strict=True):
        _name_dims(named, letters, each.sizes)
    return _are_apart(named, kept, varying)


def _are_apart(named: Mapping[str, set[Term]], kept: str, varying: Varying) -> bool:
    """True if each dim that varies is in the result, and has one size, or 1, in every operand."""
    varies = {letter: sizes for letter, sizes in named.items() if any(map(varying.term, sizes))}
    return all(len(sizes - {ONE}) == 1 and (letter in kept or letter[0] == "-") for letter, sizes in varies.items())


def _attention(call: Call, varying: Varying) -> bool:
    """`scaled_dot_product_attention`: batch entries and queries are independent; keys and features do not vary."""
    apart = call.arguments.get("is_causal") is False or varying.free(call.tensor("query"), -2)
    still = call.arguments.get("dropout_p") == 0 and call.arguments.get("enable_gqa") in {False, None}
    return apart and still and varying.free(call.tensor("value"), -1) and _contracted(call, varying)


# ---------------------------------------------------------------------- norms, convolutions, pictures


def _last(call: Call, _rank: int) -> Iterable[int] | None:
    """Return the last dims, which a norm is over."""
    over = call.arguments.get("normalized_shape")
    return range(-len(over), 0) if isinstance(over, tuple) and over else None


def _channels(call: Call, _rank: int) -> Iterable[int] | None:
    """Batch norm by running statistics: everything but channels is independent."""
    running = call.arguments.get("training") is False and call.tensor("running_mean") is not None
    return (1,) if running else None


def _of_a_batch(spatial: Callable[[Call], int] | None = None) -> Callable[[Call, int], Iterable[int] | None]:
    """Return a rule's mixed dims: only entries of a batch are independent; `spatial`: the number of an image's dims."""

    def mixed(call: Call, rank: int) -> Iterable[int] | None:
        batched = rank > 1 if spatial is None else rank == spatial(call) + 2
        return range(1, rank) if batched else None

    return mixed


def _spatial(call: Call) -> int:
    """Return the number of dims that a kernel slides along."""
    weight = call.tensor("weight")
    return int(call.name.split(".")[1][-len("2d")]) if weight is None else len(weight.sizes) - 2


def _padded(call: Call, _rank: int) -> Iterable[int] | None:
    """`pad` with a constant: the padded dims do not vary."""
    by = call.arguments.get("pad")
    if not isinstance(by, tuple) or call.arguments.get("mode", "constant") != "constant":
        return None
    return range(-(len(by) // 2), 0)


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("triangle", "constant", "metadata"), lambda *_: True),
    "pointwise": _pointwise,
    "rounded quotient": _of_floats,
    "power": _of_floats,
    "dropout": _identity_in_eval,
    "alias": _pointwise,
    "expand": _pointwise,
    **dict.fromkeys(("regrouped", "reinterpreted"), _viewed),
    "reordered": _as_many,
    "slice": _sliced,
    **dict.fromkeys(("select", "split", "unbind", "reduction", "along a dim", "order", "choice", "rows"), _along()),
    "softmax gradient": _soft_gradient,
    "scan": _running,
    **dict.fromkeys(("flip", "roll"), _along("dims")),
    "repeat": _repeated,
    "padded": _apart("self", _padded),
    "cat": _joined,
    "stack": _stacked,
    "index": _indexed,
    "matmul": _contracted,
    **dict.fromkeys(_DIMS, _contracted),
    "einsum": _einsum,
    "attention": _attention,
    **dict.fromkeys(("layer norm", "rms norm"), _apart("input", _last)),
    "batch norm": _apart("input", _channels),
    "group norm": _apart("input", _of_a_batch()),
    **dict.fromkeys(("convolution", "transposed convolution"), _apart("input", _of_a_batch(_spatial))),
    "pooling": _apart("self", _of_a_batch(_spatial)),
    "pixel shuffle": _apart("self", _of_a_batch(lambda _: 2)),
    "full": _where_steady("fill_value"),
    "arange": _where_steady("start", "step"),
}
"""The rule of each kind of operators, or of each family."""
SIZED = frozenset({"arange", "constant", "expand", "full", "regrouped", "repeat", "slice"})
"""Kinds that take sizes: the varying numbers among their arguments are varying sizes of the result."""
PLACED = frozenset({"triangle", "scan", *SIZED})
"""Kinds that depend on a row's position, or on the sizes given: they require that the rows are the first rows."""
