"""The C++ header of a contract answers as the contract does, by the same sentence.

It is compiled by g++, and asked about thousands of inputs.
"""

from __future__ import annotations

import ast
import importlib.util
import keyword
import random
import re
import shutil
import subprocess
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shapeproof import __version__
from shapeproof.ci.cli import app
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import has_meaning, value_at
from shapeproof.constraints.syntax.text import parse_term
from shapeproof.contract.header import _CHECKS, _WORDS, DTYPES, _expression
from shapeproof.contract.inputs import ConstantInput, IntInput, ObjectInput, TensorInput
from tests.contract.test_contract import PAIR, Array, contract, tensor

NUMBERS = {name: int(re.search(rf"\b{word} = (\d+),", _CHECKS)[1]) for name, word in DTYPES.items()}
NONE = ConstantInput("bias", "bias", None)
FLAGS = [ConstantInput("flag", "flag", value=True), ConstantInput("s", "s", 4, (parse_term("s"),))]


def number(name, text=None):
    return IntInput(name, name, (parse_term(text or name),))


def three(*formulas, names=None):
    """A contract on x, y and z: two sizes and an int, which may be negative."""
    return contract([tensor("a", "x", "y"), number("i", "z")], formulas, names=names)


LARGE = contract([tensor("q", "n")], ["n <= 9223372036854775807", "`cost`(n) == 0", "unseen >= 2"])
SHIFTED = three("z >> y >= 1 or z >> y == -1")
BY_KIND = [
    PAIR,
    three("x // y >= 2", "x % y == 0", "z // 3 >= -2"),
    three("-z // 4 + x >= 0", "z % -3 == -1 or z % 4 == 3", "(-z) % y < 3"),
    three("min(x, y, z + 2) >= 2", "max(x, y) - min(x, z) <= 7", "max(x, y, 5) != 6"),
    three("x == y + 1 or x * y == 12 and z > 0", "x**2 <= 50 + z"),
    three("(x if z > 3 else y) >= 4", "(x // y if y > 0 else 0) <= 3", "x & 6 != 2", "(x | z) ^ y >= 0"),
    three("y == 0 or x // y > 1", "x // (y - z) >= 0 or z == 1", "0*(x // z) == 0"),
    three("x << z <= 64", "x >> z <= 4", "z ** 3 < 100"),
    three("(y - 4) ** x <= 99", "z ** y != 4", "(x * y + z) ** 3 != 1"),
    contract([tensor("v", "2*n + 1", "n - 2", "3*m"), tensor("w", "n*m", "n"), NONE, *FLAGS], ["n + s <= 9", "m != 2"]),
    contract([tensor("d['k']", "n", dtype="bool"), tensor("int", "n", "7", dtype="float64")], ["n < 5"]),
    contract([tensor("p", dtype="bfloat16"), number("long"), ObjectInput("it", "it")], ["long != 3"]),
    LARGE,
    contract([], []),
    SHIFTED,
]
BY_KIND[9] = replace(BY_KIND[9], names={"n": 'é"\\ and \n more'}, declared=frozenset(), unchecked=("strides\n\\",))


def text_of(rng, depth):
    """The text of an integer expression in x, y and z."""
    if depth == 0:
        return rng.choice(["x", "y", "z", "x", "y", "z", f"({rng.randint(-9, 9)})"])
    one, two = text_of(rng, depth - 1), text_of(rng, rng.randrange(depth))
    forms = [
        "({} + {})",
        "({} - {})",
        "({} * {})",
        "({} // {})",
        "({} % {})",
        "min({}, {})",
        "max({}, {})",
        "({} // 4 + {})",
    ]
    return rng.choice([*forms, "({0} % 3 - {1})", "(-{} - {})", "({0} if {1} > {0} else {1})"]).format(one, two)


def formula_of(rng):
    compared = [
        f"{text_of(rng, rng.randint(1, 3))} {rng.choice(['<', '<=', '==', '!=', '>', '>='])} {text_of(rng, 1)}"
        for _ in range(rng.choice([1, 1, 2, 3]))
    ]
    return rng.choice([" or ", " and "]).join(f"({each})" for each in compared)


def at_random(count):
    rng = random.Random(5)
    while count:
        made = three(*(formula_of(rng) for _ in range(rng.randint(1, 3))))
        if made.formulas and all(map(has_meaning, made.formulas)):
            count -= 1
            yield made


def asked(made):
    return [each for each in made.inputs if isinstance(each, TensorInput | IntInput)]


def inputs_near(made, rng, reach=12):
    """Flat inputs that fit each other at a small point, and often differ from that at one place."""
    symbols = {name for each in made.inputs for term in each.sizes for name in term.symbols}
    point = {name: rng.randint(-2, reach) for name in sorted(symbols)} | {"s": 4}
    values = []
    for each in asked(made):
        sizes = [value_at(term, point) + (rng.randrange(-1, 2) if rng.random() < 0.08 else 0) for term in each.sizes]
        if isinstance(each, IntInput):
            values.append(sizes[0] - rng.choice([0, 0, 9]))
            continue
        sizes = sizes[:-1] if rng.random() < 0.03 else sizes
        dtype = each.dtype if rng.random() < 0.97 else rng.choice([*DTYPES, "another"])
        values.append(Array(tuple(sizes), dtype))
    return values


def answer(made, values):
    """The refusal by Python, with the constants as declared."""
    names = [each.name for each in asked(made)]
    outside = made.accepts(dict(zip(names, values, strict=True))).outside if names else made.accepts().outside
    return "accepted" if outside is None else str(outside)


def written(values):
    """The inputs as numbers on a line."""
    tensors = (
        [len(each.shape), *each.shape, NUMBERS.get(each.dtype, 99)] if isinstance(each, Array) else [each]
        for each in values
    )
    return " ".join(str(number) for each in tensors for number in each)


READ = """
static std::int64_t number() { std::int64_t value; std::cin >> value; return value; }
template <class Tensor, class DType> struct Owned {
    std::vector<std::int64_t> sizes;
    Tensor tensor;
    Owned() : sizes(number()), tensor{} {
        for (auto& size : sizes) size = number();
        tensor = Tensor{static_cast<std::int64_t>(sizes.size()), sizes.data(), static_cast<DType>(number())};
    }
};
"""


def program(made):
    """The source of a program that answers each line of its input: the number of a contract, and the inputs."""
    cases = []
    for index, each in enumerate(made):
        owned = f"Owned<c{index}::Tensor, c{index}::DType>()"
        read = [owned if isinstance(one, TensorInput) else "number()" for one in asked(each)]
        kinds = [f"auto p{at} = {source};" for at, source in enumerate(read)]
        given = ", ".join(f"p{at}{'.tensor' * (source != 'number()')}" for at, source in enumerate(read))
        cases.append(f"case {index}: {{ {' '.join(kinds)} said = c{index}::outside({given}); break; }}")
    headers = "".join(each.header(f"c{index}") for index, each in enumerate(made))
    return (
        f"#include <iostream>\n#include <vector>\n{headers.replace('#pragma once', '')}\n{READ}int main() {{\n"
        "int which;\nwhile (std::cin >> which) {\nstd::optional<std::string> said;\nswitch (which) {\n"
        + "\n".join(cases)
        + "\n}\nstd::cout << said.value_or(\"accepted\") << '\\0';\n}\n}\n"
    )


WORDS = sorted({*keyword.kwlist, *_WORDS.split(), *re.findall(r"[a-zA-Z]\w*", _CHECKS)})
"""Whatever an input could be called to clash with the header."""
NAMED = contract(
    [tensor("tensor0", "m"), *(number(word, f"v{index}") for index, word in enumerate(WORDS))],
    [
        *(f"v{index} >= -9" for index in range(len(WORDS))),
        "min(v0, v1) // 2 + max(v2, m) % 3 >= -9",
        "(v3 & v4) + (v5 | v6) + (v7 ^ v8) + v1**v9 + (v1 << v9) + (v1 >> v9) != 5",
        "(v0 if v1 > 0 or v2 > 0 and v3 > 0 else v4) != 3",
    ],
)
MADE = [*BY_KIND, NAMED, *at_random(40)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Compile the headers of all contracts, and return a function from inputs by contract to the answers."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("header")
    (folder / "all.cpp").write_text(program(MADE), encoding="utf-8")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsanitize=undefined", "-fno-sanitize-recover"]
    done = subprocess.run(["g++", *flags, "all.cpp", "-o", "all"], cwd=folder, capture_output=True, text=True)  # noqa: S607, PLW1510
    assert done.returncode == 0, done.stderr[:3000]

    def run(calls):
        lines = "\n".join(f"{index} {written(values)}" for index, values in calls)
        done = subprocess.run([folder / "all"], input=lines, capture_output=True, text=True, check=True)
        return done.stdout.split("\0")[:-1]

    return run


@pytest.mark.slow
def test_the_header_answers_as_the_contract_does(answers):
    rng = random.Random(3)
    calls = [(index, inputs_near(made, rng)) for index, made in enumerate(MADE) for _ in range(400)]
    expected = [answer(MADE[index], values) for index, values in calls]
    different = [
        (*call, one, two) for call, one, two in zip(calls, expected, answers(calls), strict=True) if one != two
    ]
    assert different[:3] == []
    assert 0.1 < expected.count("accepted") / len(expected) < 0.9


@pytest.mark.slow
def test_numbers_that_64_bits_do_not_hold_are_refused_and_others_are_not(answers):
    rng = random.Random(4)
    ends = [0, 1, 2, 3, 2**31, 2**32, 2**62, 2**63 - 1]
    calls = []
    for index, made in enumerate(MADE):
        for _ in range(200 if len(asked(made)) < 9 else 0):
            near = inputs_near(made, rng)
            values = [
                replace(each, shape=tuple(rng.choice(ends) for _ in each.shape))
                for each in near
                if isinstance(each, Array)
            ]
            ints = [rng.choice([*ends, -1, -(2**62), -(2**63)]) for each in near if not isinstance(each, Array)]
            calls.append((index, [(values if isinstance(each, Array) else ints).pop(0) for each in near]))
    expected, got = [answer(MADE[index], values) for index, values in calls], answers(calls)
    assert not [call for call, one, two in zip(calls, expected, got, strict=True) if two == "accepted" != one]
    assert got[calls.index(next(call for call in calls if call[0] == BY_KIND.index(LARGE)))] == "accepted"
    same = sum(one == two for one, two in zip(expected, got, strict=True))
    assert same > 0.8 * len(calls)


@pytest.mark.slow
def test_a_shift_by_more_than_a_number_has_bits_leaves_its_sign(answers):
    numbers = [0, 1, 2**62 - 1, 2**62, 2**63 - 1, -1, -(2**62), -(2**63)]
    which = MADE.index(SHIFTED)
    calls = [(which, [Array((2, count), "float32"), z]) for count in (0, 1, 61, 62, 63, 64, 2**62) for z in numbers]
    assert answers(calls) == [answer(SHIFTED, values) for _, values in calls]


def test_the_text_of_a_header_reads_well(golden):
    tensors = [tensor("tokens", "batch", "length", dtype="int64"), tensor("mask", "batch", "length + 1")]
    formulas = ["batch >= 1", "length <= 512", "length % 8 == 0", "(length - k) // 4 >= -3", "batch*length <= 8192"]
    names = {"batch": "tokens.shape[0]"}
    made = contract([*tensors, number("k"), NONE, *FLAGS], [*formulas, "k < 0 or k == min(batch, 7)"], names=names)
    text = made.with_unchecked("strides of tokens").header("tokens")
    golden.check("contract/tokens.h", text.replace(__version__, "0"))


def nested(depth):
    return reduce(lambda text, _: f"min({text} * n, 7)", range(depth), "n")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (contract([tensor("x", "n", dtype="float4")], []), "x: C++ has no number for the dtype float4"),
        (contract([tensor("x", "n")], ["int(n * 0.29) >= 3"]), "int(float(n) * 0.29) >= 3: it has floats"),
        (contract([tensor("x", "n")], [f"n <= {2**63}"]), "a number of more than 64 bits: 9223372036854775808"),
        (contract([tensor("x", "n")], [f"{nested(400)} >= 3"]), "it has floats, or is nested too deeply"),
    ],
)
def test_what_a_header_cannot_check_is_refused_in_a_sentence(made, said):
    with pytest.raises(UsageError, match=r"^a header cannot check ") as raised:
        made.header("it")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a - (b - c)", "a - (b - c)"),
        ("a - b - c * (d * a)", "a - b - c * (d * a)"),
        ("(a + b) * -c", "(a + b) * (-c)"),
        ("-(a + b) // 2 == 0", "floor_div(-(a + b), 2) == 0"),
        ("2 - 3 == -1", "Int(2) - 3 == -1"),
        ("0*(1 // 0) == 0", "0 * floor_div(1, 0) == 0"),
        ("a < b and (b < c or c < a)", "a < b && (b < c || c < a)"),
        ("min(a, b, 3) if a == 1 else 2", "where(a == 1, least(least(a, b), 3), 2)"),
    ],
)
def test_an_expression_is_written_with_the_parentheses_that_cpp_needs(text, expected):
    assert _expression(ast.parse(text, mode="eval").body)[0] == expected


@pytest.mark.parametrize("name", ["", "a b", "1", "class", "é", "std", "a::b"])
def test_a_namespace_has_a_name_of_cpp(name):
    with pytest.raises(UsageError, match="cannot name a namespace of C\\+\\+"):
        PAIR.header(name)


def test_the_numbers_of_dtypes_are_those_of_torch():
    """A canary: the list in torch's own header."""
    folder = Path(importlib.util.find_spec("torch").origin).parent / "include"
    listed = (folder / "torch" / "headeronly" / "core" / "ScalarType.h").read_text(encoding="utf-8")
    numbers = {name.lower(): int(number) for name, number in re.findall(r"_\(.*, (\w+)\) */\* (\d+) \*/", listed)}
    ours = {"uint8": "byte", "int8": "char", "int16": "short", "int32": "int", "int64": "long", "float16": "half",
            "float32": "float", "float64": "double", "complex32": "complexhalf", "complex64": "complexfloat",
            "complex128": "complexdouble"}  # fmt: skip
    assert {name: numbers[ours.get(name, name)] for name in DTYPES} == NUMBERS


def test_the_command_writes_the_header(tmp_path):
    PAIR.save(tmp_path / "pair.contract.json")
    done = CliRunner().invoke(app, ["header", str(tmp_path / "pair.contract.json"), "-o", str(tmp_path / "pair.h")])
    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / "pair.h").read_text(encoding="utf-8") == PAIR.header("pair")
    assert CliRunner().invoke(app, ["header", str(tmp_path / "pair.contract.json")]).stdout == PAIR.header("pair")
    for arguments, said in {
        ("nothing.json",): "nothing.json cannot be read",
        ("pair.contract.json", "-o", "a/b.h"): "a/b.h cannot be written",
    }.items():
        done = CliRunner().invoke(
            app, ["header", *(str(tmp_path / each) if "." in each else each for each in arguments)]
        )
        assert done.exit_code == 2
        assert said in done.stderr
