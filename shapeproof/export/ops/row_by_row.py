"""Operators that keep rows apart: padding of an operand reaches only the padding of the result.

Enlarge the varying sizes, and run an operator on operands whose first rows are unchanged and whose other rows hold any
values: NaN, infinities, any integers. *Law*: the result's first rows (the rows of the smaller run) are unchanged, and
no row makes the operator raise. A dim varies if its size contains a varying symbol.

A rule examines one call and tells whether the law holds; an operator without a rule is unknown. By induction over the
nodes, the law holds for a program if it holds for each node. The law ignores rounding: a larger matmul may add in
another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from shapeproof.constraints.nodes import Node
from shapeproof.constraints.polynomials import Monomial
from shapeproof.constraints.terms import ONE, FloorDiv, Max, Min, Symbol, Term
from shapeproof.export.ops.call import Call, Shape, product


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
    namespace, packet, overload = call.name.split(".") if call.name.count(".") == 2 else ("", "", "")
    if namespace != "aten" or "out" in overload:
        return False
    rule = _rule(packet, overload)
    numbers = () if packet in SIZED else _of_kind(call.arguments.values(), Term)
    return rule is not None and not any(map(varying.term, numbers)) and rule(call, varying)


def _rule(packet: str, overload: str) -> Rule | None:
    """Return an operator's rule. An in-place one has its out-of-place namesake's, but None if it changes sizes."""
    own = _RULES.get(f"{packet}.{overload}") or _RULES.get(packet)
    if own is not None:
        return own
    name = packet.removesuffix("_")
    namesake = _RULES.get(f"{name}.{overload}") or _RULES.get(name)
    return namesake if namesake in {_pointwise, _of_floats} else None


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


def _identity_in_eval(call: Call, varying: Varying) -> bool:
    """`dropout` in eval mode, where it drops nothing."""
    return call.arguments.get("train") is False and _pointwise(call, varying)


def _always(_call: Call, _varying: Varying) -> bool:
    return True


# ---------------------------------------------------------------------- along dims


def _dims(value: Any, rank: int) -> set[int] | None:
    """Return the dims that an argument names; all dims if it names none; None if it is not understood."""
    if value is None or value == ():
        return set(range(rank))
    listed = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(each, Term) and each.is_constant for each in listed):
        return None
    return {each.constant_value % rank for each in listed} if rank else set()


def _along(dim: str = "dim") -> Rule:
    """Return the rule of operators along some dims: rows along the other dims are independent."""

    def rule(call: Call, varying: Varying) -> bool:
        shape = call.tensor("self")
        dims = None if shape is None else _dims(call.arguments.get(dim), len(shape.sizes))
        return dims is not None and _keeps_apart(call, varying, "self", *dims)

    return rule


def _keeps_apart(call: Call, varying: Varying, operand: str, *dims: int) -> bool:
    """True if these dims of an operand do not vary, nor any dim of the other operands."""
    shape = call.tensor(operand)
    return shape is not None and varying.free(shape, *dims) and all(map(varying.free, _others(call, shape)))


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
    _, packet, overload = call.name.split(".")
    rule = _rule(packet, overload)
    return rule in {_pointwise, _of_floats} and rule is not None and rule(call, varying)


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


def _matmul(one: str, other: str) -> Rule:
    """Matrix product: rows of the left and columns of the right are independent; the summed dim does not vary."""

    def rule(call: Call, varying: Varying) -> bool:
        left, right, result = call.tensor(one), call.tensor(other), call.result()
        if left is None or right is None or result is None or not (left.sizes and right.sizes):
            return False
        if not varying.free(left, -1) or not varying.free(right, -min(2, len(right.sizes))):
            return False
        kept = [Shape((*each.sizes[:-2], ONE, ONE)) for each in (left, right) if len(each.sizes) > 2]
        batch = Shape((*_batch(left, right, result), ONE, ONE))
        bias = _others(call, left, right)
        return all(aligned(each, batch, varying) for each in kept) and all(aligned(b, result, varying) for b in bias)

    return rule


def _batch(left: Shape, right: Shape, result: Shape) -> tuple[Term, ...]:
    matrix = (len(left.sizes) > 1) + (len(right.sizes) > 1)
    return result.sizes[: len(result.sizes) - matrix]


def _einsum(call: Call, varying: Varying) -> bool:
    """`einsum`: each letter of a varying dim appears in the result, and stands for one size everywhere, or for 1."""
    equation, operands = call.arguments.get("equation"), call.arguments.get("tensors")
    if not isinstance(equation, str) or "." in equation or "->" not in equation or not isinstance(operands, tuple):
        return False
    given, _, kept = equation.replace(" ", "").partition("->")
    letters = given.split(",")
    pairs = [pair for text, each in zip(letters, operands, strict=True) for pair in zip(text, each.sizes, strict=True)]
    named = {letter: size for letter, size in pairs if varying.term(size)}
    return all(letter in kept for letter in named) and all(size in {named.get(x, size), ONE} for x, size in pairs)


def _attention(call: Call, varying: Varying) -> bool:
    """`scaled_dot_product_attention`: batch entries and queries are independent; keys and features do not vary."""
    parts = [call.tensor(name) for name in ("query", "key", "value")]
    result, mask = call.result(), call.tensor("attn_mask")
    if result is None or any(part is None or len(part.sizes) < 3 for part in parts):
        return False
    query, key, value = (part for part in parts if part is not None)
    if not all(varying.free(part, *dims) for part, dims in ((query, (-1,)), (key, (-1, -2)), (value, (-1, -2)))):
        return False
    heads = [Shape((*part.sizes[:-2], ONE, ONE)) for part in (query, key, value)]
    apart = call.arguments.get("is_causal") is False or varying.free(query, -2)
    masked = mask is None or (aligned(mask, Shape((*result.sizes[:-1], key.sizes[-2])), varying))
    still = call.arguments.get("dropout_p") == 0 and call.arguments.get("enable_gqa") in {False, None}
    return apart and masked and still and all(aligned(each, result, varying) for each in heads)


# ---------------------------------------------------------------------- norms, convolutions, pictures


def _layer_norm(call: Call, varying: Varying) -> bool:
    """Norm over the last dims: rows along the dims before are independent."""
    over = call.arguments.get("normalized_shape")
    last = range(-len(over), 0) if isinstance(over, tuple) else ()
    return len(last) > 0 and _keeps_apart(call, varying, "input", *last)


def _of_a_batch(operand: str, spatial: int | None = None) -> Rule:
    """Return a rule: only entries of a batch are independent; `spatial` is the number of an image's dims."""

    def rule(call: Call, varying: Varying) -> bool:
        shape = call.tensor(operand)
        if shape is None or not all(map(varying.free, _others(call, shape))):
            return False
        batched = len(shape.sizes) == spatial + 2 if spatial is not None else len(shape.sizes) > 1
        return batched and varying.dims(shape) <= {0}

    return rule


def _batch_norm(call: Call, varying: Varying) -> bool:
    """Batch norm by running statistics: everything but channels is independent."""
    running = call.arguments.get("training") is False and call.tensor("running_mean") is not None
    return running and _keeps_apart(call, varying, "input", 1)


def _padded(call: Call, varying: Varying) -> bool:
    """`pad` with a constant: the padded dims do not vary."""
    shape, by = call.tensor("self"), call.arguments.get("pad")
    if shape is None or not isinstance(by, tuple) or call.arguments.get("mode", "constant") != "constant":
        return False
    return not by or varying.free(shape, *range(-(len(by) // 2), 0))


def _named(rule: Rule, names: str) -> Mapping[str, Rule]:
    return dict.fromkeys(names.split(), rule)


PLACED = frozenset({"tril", "triu", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "slice"})
"""Operators that depend on a row's position: they require that the rows are the first rows."""
VIEWS = frozenset({"view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as"})
"""Operators that return the elements in order, in other sizes."""
_RULES: Mapping[str, Rule] = {
    **_named(
        _pointwise,
        "abs acos acosh add addcdiv addcmul alias asin asinh atan atan2 atanh bitwise_and bitwise_not "
        "bitwise_or bitwise_xor broadcast_tensors ceil celu clamp clamp_max clamp_min clip clone contiguous copy copy_ "
        "copysign cos cosh deg2rad detach div.Scalar div.Tensor divide.Tensor elu eq erf erfc erfinv exp "
        "exp2 expand_as expm1 fill floor frac ge gelu gt hardshrink hardsigmoid hardswish hardtanh hypot "
        "isfinite isinf isnan le leaky_relu lerp log log10 log1p log2 log_sigmoid logaddexp logical_and "
        "logical_not logical_or logical_xor lt lift_fresh_copy masked_fill maximum max.other minimum "
        "min.other mish mul multiply nan_to_num ne neg negative ones_like positive reciprocal relu relu6 "
        "round rsqrt rsub selu sgn sigmoid sign silu sin sinc sinh softplus sqrt square sub subtract tan "
        "tanh tanhshrink softshrink threshold _to_copy to trunc true_divide.Tensor type_as where.self "
        "where.ScalarOther where.ScalarSelf where.Scalar xlogy zero zeros_like "
        "elu_backward gelu_backward hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward "
        "mish_backward native_dropout_backward sigmoid_backward silu_backward softplus_backward softshrink_backward "
        "tanh_backward threshold_backward",
    ),
    **_named(_of_floats, "div.Tensor_mode div.Scalar_mode floor_divide fmod remainder pow"),
    **_named(_identity_in_eval, "dropout feature_dropout alpha_dropout"),
    **_named(_where_steady("fill_value"), "full full_like new_full"),
    **_named(_always, "zeros ones new_zeros new_ones"),
    "arange": _where_steady("start", "step"),
    **_named(
        _along(),
        "sum.dim_IntList mean.dim amax amin max.dim min.dim argmax argmin prod.dim_int any.dim any.dims "
        "all.dim all.dims var.dim var.correction std.dim std.correction logsumexp norm.ScalarOpt_dim "
        "linalg_vector_norm softmax _softmax log_softmax _log_softmax sort argsort topk median.dim unbind "
        "glu count_nonzero.dim_IntList select chunk tensor_split.sections index_select split split_with_sizes",
    ),
    **_named(_along("dims"), "roll flip"),
    **_named(_soft_gradient, "_softmax_backward_data _log_softmax_backward_data"),
    "cat": _joined,
    "stack": _stacked,
    "index": _indexed,
    **_named(_as_many, "transpose permute t unsqueeze squeeze.dim squeeze.dims movedim swapaxes numpy_T mT matrix_H"),
    "slice": _sliced,
    **dict.fromkeys(VIEWS, _viewed),
    "expand": _pointwise,
    "repeat": _repeated,
    **_named(_always, "_assert_tensor_metadata tril triu"),
    **_named(_running, "cumsum cumprod logcumsumexp cummax cummin"),
    "linear": lambda call, varying: _keeps_apart(call, varying, "input", -1),
    "matmul": _matmul("self", "other"),
    **_named(_matmul("self", "mat2"), "mm bmm"),
    "addmm": _matmul("mat1", "mat2"),
    "baddbmm": _matmul("batch1", "batch2"),
    "mv": _matmul("self", "vec"),
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    **_named(_layer_norm, "layer_norm rms_norm native_layer_norm"),
    "batch_norm": _batch_norm,
    "group_norm": _of_a_batch("input"),
    **{f"conv{dims}d.default": _of_a_batch("input", dims) for dims in (1, 2, 3)},
    **{f"{kind}_pool{dims}d": _of_a_batch("self", dims) for kind in ("max", "avg") for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": _of_a_batch("self", dims) for dims in (1, 2, 3)},
    **_named(_of_a_batch("self", 2), "pixel_shuffle"),
    **_named(_padded, "pad constant_pad_nd"),
}
"""The rule of each operator, by packet, or with the overload where overloads differ; in place as out of place."""
SIZED = frozenset({
    *("arange", "expand", "full", "full_like", "new_full", "zeros", "ones", "new_zeros", "new_ones", "reshape"),
    *("repeat", "slice", "unflatten", "view", "_unsafe_view"),
})  # fmt: skip
"""Operators that take sizes: the varying numbers among their arguments are varying sizes of the result."""
