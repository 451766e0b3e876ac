"""The contract by itself: what it accepts, why not, in which forms of call, and from which files. There is no torch."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import json
import pickle
import zipfile
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import has_meaning, holds_at
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.constraints.terms import constant, symbol
from shapeproof.contract import Contract, OutsideDomain, load
from shapeproof.contract.contract import contract_text, from_data, read_contract, to_data
from shapeproof.contract.holder import accepting
from shapeproof.contract.inputs import (
    ConstantInput,
    Entries,
    IntInput,
    Items,
    ObjectInput,
    Opaque,
    Structure,
    TensorInput,
)
from tests import strategies as s


@dataclass(frozen=True)
class Array:
    """A tensor of no library."""

    shape: tuple[int, ...]
    dtype: str = "float32"


def tensor(name, *sizes, dtype="float32"):
    return TensorInput(name, name, dtype, "cpu", "strided", tuple(map(parse_term, sizes)))


def flat(*inputs):
    """A structure without containers."""
    names = [each.name for each in inputs]
    return Structure(tuple(range(len(inputs))), {}, tuple(names), {name: i for i, name in enumerate(names)})


def contract(inputs, formulas, structure=None, names=None):
    formulas = tuple(map(parse_formula, formulas))
    return Contract(tuple(inputs), structure or flat(*inputs), formulas, frozenset(formulas), names or {})


PAIR = contract(
    [tensor("x", "n", "4"), tensor("y", "2*k + 1", "n")],
    ["n >= 1", "n <= 64", "n % 4 == 0", "k >= 0", "n + k <= 66"],
    names={"n": "x.shape[0]"},
)


# ---------------------------------------------------------------------- what is accepted, and why not


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (((37, 4), (3, 37)), "x.shape[0] = 37, but x.shape[0] % 4 == 0 is declared; the nearest "),
        (
            ((4, 4), (3, 8)),
            "y.shape[1] = 8, x.shape[0] = 4, but y.shape[1] == x.shape[0] is declared; the nearest accepted: y.shape",
        ),
        (
            ((4, 4), (4, 4)),
            "y.shape[0] = 4, k = 1, but y.shape[0] == 2*k + 1 is declared; the nearest accepted: y.shape[0] = 3",
        ),
        (((64, 4), (9, 64)), "y.shape[0] = 9, k = 4, x.shape[0] = 64, but k + x.shape[0] <= 66 is declared"),
        (((4, 5), (3, 4)), "x.shape[1] = 5, but x.shape[1] == 4 is declared"),
        (((4,), (3, 4)), "x.ndim = 1, but x.ndim == 2 is declared"),
        (((-4, 4), (3, 4)), "x.shape[0] = -4, but x.shape[0] >= 0 is declared"),
        ((Array((4, 4), "float64"), Array((3, 4))), "x.dtype = float64, but x.dtype == float32 is declared"),
        ((None, (3, 4)), "x = None, but a tensor is declared"),
        ((3, (3, 4)), "x = 3, but a tensor is declared"),
        (((4, 4),), "y is not given"),
        (((4, 4), (3, 4), 1), "3 positional arguments are given, but 2 are declared"),
        (({"x": (4, 4), "z": (3, 4)},), "`z` is no input; there are x, y"),
        (((4, 4), {"y": 1}), "x is not given"),
        (((4, 4), {"z": 1}), "the arguments are structured in another way"),
    ],
)
def test_a_refusal_says_which_requirement_and_which_value(given, why):
    answer = PAIR.accepts(*given)
    assert not answer
    assert str(answer).startswith(why)
    with pytest.raises(OutsideDomain) as raised:
        PAIR.check(*given)
    assert str(answer).startswith(str(raised.value))


def test_what_lies_inside_is_accepted_without_a_word():
    answer = PAIR.accepts((4, 4), (3, 4))
    assert answer
    assert (answer.why, str(answer), answer.outside, answer.nearest) == ("", "accepted", None, {})


@pytest.mark.parametrize(
    ("sizes", "nearest"),
    [
        (((37, 4), (3, 37)), {"x.shape[0]": 36, "y.shape[1]": 36}),
        (((1000, 4), (3, 1000)), {"x.shape[0]": 64, "y.shape[1]": 64}),
        (((8, 4), (3, 4)), {"y.shape[1]": 8}),
        (((4, 4), (4, 4)), {"y.shape[0]": 3}),
        (((64, 4), (99, 64)), {"y.shape[0]": 5}),
        (((4, 4), (10**9, 4)), {}),  # too far to be looked for
    ],
)
def test_the_nearest_accepted_sizes_differ_in_one_symbol(sizes, nearest):
    assert PAIR.accepts(*sizes).nearest == nearest


@pytest.mark.thorough
@given(st.integers(-3, 40), st.lists(s.formula_texts.map(parse_formula), min_size=1, max_size=3))
def test_the_nearest_accepted_size_is_the_nearest_by_brute_force(size, formulas):
    one = contract([IntInput("x", "x", (symbol("x"),))], ["x >= -30", "x <= 60"])
    one = replace(one, formulas=(*one.formulas, *(each for each in formulas if each.symbols <= {"x"})))
    if answer := one.accepts(size):
        return
    accepted = [n for n in range(-30, 61) if one.accepts(n)]
    assert answer.nearest == ({"x": min(accepted, key=lambda n: (abs(n - size), n))} if accepted else {})


# ---------------------------------------------------------------------- laws


@st.composite
def contracts(draw):
    """Contracts over x, y, z: each is read plainly or out of a derived size, and some sizes are relations."""
    plain = [draw(st.sampled_from([f"{name}", f"2*{name} + 1", f"3*{name}"])) for name in s.NAMES]
    more = draw(st.lists(st.sampled_from(["x", "y", "z", "2*x", "y + 1", "4"]), max_size=3))
    inputs = [tensor("a", *plain[:2]), IntInput("n", "n", (parse_term(plain[2]),)), tensor("b", *more)]
    formulas = draw(st.lists(s.formula_texts, max_size=3))
    return contract(inputs, formulas)


_SIZES = st.lists(st.integers(0, 9), min_size=3, max_size=6)


@given(contracts(), _SIZES)
def test_a_contract_accepts_the_points_of_its_domain_and_no_others(made, sizes):
    a, n, b = (sizes[0], sizes[1]), sizes[2], tuple(sizes[3:])
    given = [*zip(made.inputs[0].sizes, a, strict=True), (made.inputs[1].sizes[0], n)]
    inside = False
    if len(b) == len(made.inputs[2].sizes):
        given += zip(made.inputs[2].sizes, b, strict=True)
        inside = any(
            all(holds_at(parse_formula(f"{term} == {size}"), point) for term, size in given)
            and all(holds_at(formula, point) for formula in made.formulas if has_meaning(formula))
            for values in itertools.product(range(-1, 10), repeat=3)
            for point in [dict(zip(s.NAMES, values, strict=True))]
        )
    for call in ((a, n, b), (Array(a), n, Array(b)), ({"a": a, "n": n, "b": b},), ([Array(a), n, Array(b)],)):
        assert bool(made.accepts(*call)) == inside
    assert bool(accepting(made.inputs, made.guard.domain)(Array(a), n, Array(b))) == inside


@given(contracts())
def test_a_contract_is_the_same_after_a_round_trip(made):
    assert from_data(json.loads(json.dumps(to_data(made))), "it") == made
    assert read_contract(contract_text(made), "it") == made


@pytest.mark.parametrize("value", [None, True, 0, 1, -0.0, float("inf"), float("nan"), "a'b", ""])
def test_constants_are_held_and_read_again(value):
    made = contract([tensor("x", "n"), ConstantInput("c", "c", value)], ["n <= 3"])
    made = read_contract(contract_text(made), "it")
    assert made.accepts((3,), value)
    assert made.accepts({"x": (3,)})
    for other in (None, True, 0, 1, 1.0, 0.0, "b"):
        if (type(other), repr(other)) != (type(value), repr(value)):
            assert not made.accepts((3,), other), other
            assert not made.accepts({"x": (3,), "c": other}), other


def test_an_int_is_no_bool_and_no_float():
    made = contract([IntInput("n", "n", (symbol("n"),))], ["n >= 0"])
    assert made.accepts(3)
    for other in (True, 3.0, "3", None):
        assert str(made.accepts(other)).endswith("but an int is declared")
    assert made.accepts({"n": Int64(3)}), "a feed has arrays alone"
    assert not made.accepts({"n": Int64(-3)})


@dataclass(frozen=True)
class Int64:
    value: int
    shape = ()
    dtype = "int64"

    def __index__(self):
        return self.value


# ---------------------------------------------------------------------- forms of a call


NESTED = Contract(
    (tensor("d['a']", "n"), tensor("d['b'][0]", "n"), tensor("box.k", "n"), ConstantInput("flag", "flag", value=True)),
    Structure(
        (Entries(("a", "b"), (0, Items(list, (1,)))), Entries(("k",), (2,), is_object=True)),
        {"flag": 3},
        ("d", "box"),
        {"d": Entries(("a", "b"), (0, Items(list, (1,)))), "box": Entries(("k",), (2,), is_object=True), "flag": 3},
    ),
    (parse_formula("n <= 8"),),
    frozenset(),
    {"n": "d['a'].shape[0]"},
)


@dataclass
class Box:
    k: object


@pytest.mark.parametrize(
    "call",
    [
        lambda c, n: c.accepts({"a": (n,), "b": [(n,)]}, Box((n,)), flag=True),
        lambda c, n: c.accepts({"a": Array((n,)), "b": [Array((n,))]}, Box(Array((n,))), flag=True),
        lambda c, n: c.accepts(d={"a": (n,), "b": [(n,)]}, box=Box((n,)), flag=True),
        lambda c, n: c.accepts({"d": {"a": (n,), "b": [(n,)]}, "box": {"k": (n,)}}),
        lambda c, n: c.accepts({"d['a']": (n,), "d['b'][0]": [n], "box.k": (n,)}),
        lambda c, n: c.accepts(None, {"d['a']": (n,), "d['b'][0]": [n], "box.k": (n,)}),
        lambda c, n: c.accepts([(n,), (n,), (n,), True]),
        lambda c, n: c.accepts([Array((n,)), Array((n,)), Array((n,))]),
    ],
)
def test_inputs_in_containers_are_read_in_every_form(call):
    for made in (NESTED, read_contract(contract_text(NESTED), "it")):
        assert call(made, 8)
        answer = call(made, 9)
        assert str(answer.outside) == "d['a'].shape[0] = 9, but d['a'].shape[0] <= 8 is required"


@pytest.mark.parametrize(
    "args",
    [
        ({"a": (3,), "b": []}, Box((3,))),
        ({"a": (3,), "b": ((3,),)}, Box((3,))),
        ({"a": (3,)}, Box((3,))),
        ({"a": (3,), "b": [(3,)], "c": (3,)}, Box((3,))),
        ({"a": (3,), "b": [(3,)]}, None),
        ((3,), Box((3,))),
    ],
)
def test_another_structure_is_refused(args):
    assert "structured in another way" in str(NESTED.accepts(*args, flag=True))


def test_what_cannot_be_looked_into_is_held_by_name():
    inputs = [tensor("cache[0]", "n", "4"), tensor("cache[1]", "m"), tensor("x", "n")]
    parts = {"cache": Opaque((0, 1)), "x": 2}
    structure = Structure((Opaque((0, 1)), 2), {}, ("cache", "x"), parts)
    whole = contract(inputs, ["n <= 3", "n != m"], structure)
    for made in (whole, read_contract(contract_text(whole), "it")):
        assert made.accepts(object(), (3,))
        assert made.accepts(cache={"any": 1}, x=(3,))
        assert not made.accepts(object(), (4,))
        assert made.accepts({"cache[0]": (3, 4), "cache[1]": (4,), "x": (3,)})
        assert not made.accepts({"cache[0]": (3, 4), "cache[1]": (3,), "x": (3,)})
        assert not made.accepts({"cache[0]": (2, 4), "cache[1]": (4,), "x": (3,)})
        assert not made.accepts([(3, 5), (4,), (3,)])


def test_an_object_may_be_anything():
    made = contract([ObjectInput("o", "o"), tensor("x", "n")], ["n <= 3"])
    assert made.accepts({"any": 1}, (3,))
    assert not made.accepts(None, (4,))


# ---------------------------------------------------------------------- wrapping


def test_what_is_wrapped_is_called_inside_the_domain_alone():
    calls = []

    def run(output_names, input_feed):
        """Run it."""
        calls.append((output_names, input_feed))
        return 7

    wrapped = PAIR.wrap(run)
    inside = {"x": Array((4, 4)), "y": Array((3, 4))}
    assert (
        wrapped(None, inside) == wrapped(None, input_feed=inside) == wrapped(output_names=["y"], input_feed=inside) == 7
    )
    with pytest.raises(OutsideDomain, match=r"x.shape\[0\] = 5, but x.shape\[0\] % 4 == 0 is declared"):
        wrapped(None, {"x": Array((5, 4)), "y": Array((3, 5))})
    assert len(calls) == 3
    assert (wrapped.__name__, wrapped.__doc__) == ("run", "Run it.")


def test_arguments_are_wrapped_as_the_model_takes_them():
    wrapped = PAIR.wrap(lambda x, y: (x.shape, y.shape))
    x, y = Array((4, 4)), Array((3, 4))
    assert wrapped(x, y) == wrapped(x, y=y) == wrapped(y=y, x=x) == ((4, 4), (3, 4))
    assert PAIR.wrap(len)([x, y]) == 2
    with pytest.raises(OutsideDomain):
        wrapped(y, x)


# ---------------------------------------------------------------------- files


def test_a_contract_is_read_from_a_path_and_from_files(tmp_path):
    PAIR.save(tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text()
    sources = [tmp_path / "c.json", str(tmp_path / "c.json"), io.BytesIO(text.encode()), io.StringIO(text)]
    assert all(load(source) == PAIR for source in sources)
    with (tmp_path / "c.json").open("rb") as file:
        assert load(file) == PAIR


def archive(**parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in parts.items():
            made.writestr(name.replace("__", "/"), content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no JSON"),
        (b"{", "it is no JSON"),
        (b"[" * 10**5, "it is no JSON"),
        (b"\x89PNG", "it is no JSON"),
        (b"[]", "holds no contract"),
        (b"3", "holds no contract"),
        (b"{}", "holds no contract"),
        (b'{"contract": null}', "a report without a contract: it gave out no program"),
        (b'{"contract": 5}', "holds no contract"),
        (b'{"kind": "shapeproof contract"}', "a contract of another format than 1"),
        (b'{"kind": "shapeproof contract", "format": 2}', "a contract of another format than 1"),
        (b'{"kind": "shapeproof contract", "format": true}', "a contract of another format than 1"),
        (b'{"kind": "shapeproof contract", "format": 1}', "a damaged contract"),
        (b"PK\x03\x04", "the archive is damaged"),
        (archive(root__readme="hello"), "an archive without an exported program"),
        (archive(root__models__m="", **{"root__models__model.json": "{}"}), "was not exported by this package"),
        (archive(**{"root__models__a.json": "{}", "root__models__b.json": "{}"}), "an archive of several programs"),
        (
            archive(root__extra__shapeproof_report="").replace(b"extra", b"extrb"),
            "an archive without an exported program",
        ),
    ],
)
def test_a_file_without_a_contract_is_refused_in_a_sentence(content, said):
    with pytest.raises(UsageError, match=said) as raised:
        load(io.BytesIO(content))
    assert raised.value.__cause__ is None


def test_a_file_that_is_absent_is_said(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            load(path)


NOISE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 10**6)
    | st.floats()
    | st.sampled_from(["n", "1/0", "(", "n <= 2", "tensor"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["list", "kind", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.data(), NOISE)
def test_a_damaged_contract_is_one_error(data, noise):
    content = json.loads(contract_text(data.draw(st.sampled_from([PAIR, NESTED]))))
    place = content
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            place[key] = noise
            break
        place = place[key]
    with contextlib.suppress(UsageError):
        made = from_data(content, "it")
        made.accepts((4, 4), (3, 4))
        str(made)


@given(st.integers(0, 10**4), st.binary(max_size=4))
def test_a_damaged_archive_is_one_error(at, noise):
    content = bytearray(archive(root__extra__shapeproof_report=json.dumps({"contract": to_data(PAIR)})))
    at %= len(content)
    content[at : at + len(noise)] = noise
    with contextlib.suppress(UsageError):
        assert isinstance(load(io.BytesIO(bytes(content))), Contract)


def test_a_contract_says_what_it_holds_and_what_it_does_not():
    made = replace(PAIR, inputs=(*PAIR.inputs[:1], replace(PAIR.inputs[1], sizes=(symbol("k"), constant(3)))))
    assert str(made.with_unchecked("the data", "the data")).splitlines() == [
        "inputs (x, y)",
        "  x: float32[n, 4]",
        "  y: float32[k, 3]",
        "where",
        "  x.shape[0] >= 1",
        "  x.shape[0] <= 64",
        "  x.shape[0] % 4 == 0",
        "  k >= 0",
        "  k + x.shape[0] <= 66",
        "not checked: the data",
    ]


def test_a_contract_can_be_copied_and_pickled_after_use():
    assert PAIR.accepts((4, 4), (3, 4))
    for again in (copy.deepcopy(PAIR), pickle.loads(pickle.dumps(PAIR))):  # noqa: S301 - ours
        assert again == PAIR
        assert again.accepts((4, 4), (3, 4))
        assert not again.accepts((5, 4), (3, 5))


def test_a_name_of_the_graph_may_be_another_argument():
    inputs = [replace(tensor("d['a']", "3"), graph_name="d_a"), replace(tensor("d_a", "4"), graph_name="d_a_1")]
    parts = {"d": Entries(("a",), (0,)), "d_a": 1}
    made = contract(inputs, [], Structure(tuple(parts.values()), {}, ("d", "d_a"), parts))
    assert made.accepts({"d_a": (3,), "d_a_1": (4,)})
    assert made.accepts({"d['a']": (3,), "d_a": (4,)})
    assert made.accepts(d={"a": (3,)}, d_a=(4,))
    assert not made.accepts({"d_a": (4,), "d_a_1": (3,)})
