"""The spec file: what it means, what is wrong with one that means nothing, and that its JSON Schema says the same."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from shapeproof.ci.specs.dims import parse_size
from shapeproof.ci.specs.spec import DEFAULTS, Dim, Dtype, Input, Spec, load_spec, load_specs, parse_spec, schema
from shapeproof.ci.specs.spec_errors import SpecError
from shapeproof.ci.specs.toml_lines import line_of
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.syntax.text import parse_term
from tests.thoroughness import examples

SPEC = """\
[dims.batch]
max = 8

[dims.seq]
min = 2
multiple_of = 2
one_of = [2, 4]

[models.net]
target = "package.module:Net"
relations = ["batch*seq <= 16"]

[models.net.inputs]
x = { dtype = "float32", dims = ["batch", "2*seq + 1", 4] }
y = { dtype = "int64", dims = [] }

[models."by example"]
target = "package.module:build"
expect = "refuted"
narrow = true
accept_undecided = true
"""


def changed(old, new):
    assert SPEC.count(old) == 1
    return SPEC.replace(old, new)


def refusal(tmp_path, text, name="shapeproof.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_spec(path)
    return str(caught.value).removeprefix(f"{tmp_path}/")


# ---------------------------------------------------------------------- what is meant


def test_every_key_is_read():
    spec = parse_spec(tomllib.loads(SPEC))
    assert (spec.dims["seq"].min, spec.dims["seq"].multiple_of, spec.dims["seq"].one_of) == (2, 2, [2, 4])
    assert spec.models["net"].inputs["x"].dims == ["batch", "2*seq + 1", 4]
    assert spec.models["net"].expect == "proved"
    assert spec.models["by example"].accept_undecided
    assert spec.models["by example"].narrow


def test_a_pyproject_holds_the_spec_in_its_own_table(tmp_path, monkeypatch):
    text = SPEC.replace("[dims", "[tool.shapeproof.dims").replace("[models", "[tool.shapeproof.models")
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\n{text}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (found,) = load_specs([])
    assert found.spec == parse_spec(tomllib.loads(SPEC))
    assert found.line("models", "net", "relations", 0) == 13


def test_a_file_of_its_own_comes_before_the_pyproject(tmp_path, monkeypatch):
    for name in DEFAULTS:
        (tmp_path / name).write_text(SPEC if name == DEFAULTS[0] else "[tool.shapeproof]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert [found.path.name for found in load_specs([])] == ["shapeproof.toml"]


@pytest.mark.quick
@pytest.mark.parametrize("text", ["n", "2*n", "n + 3", "3*n - 2", "1 + n*2"])
def test_a_derived_size_is_what_its_text_is(text):
    size = parse_size(text)
    assert size.name == "n"
    for n in range(5):
        assert size.step * n + size.offset == evaluate(parse_term(text), {"n": n})


@pytest.mark.quick
@pytest.mark.parametrize("text", ["n*n", "n + m", "3", "-n", "8 - n", "n//2", "n <", "", "n < 3", "0*n"])
def test_what_is_no_derived_size(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the caller words it
        parse_size(text)


# ---------------------------------------------------------------------- invalid specs

SHAPES = {  # of a document: wrong by the schema, too
    "": "1: the spec has no `models`, which it needs",
    "models = {}": "1: `models` is empty",
    "models = 3": "1: `models` must be a table, but it is 3",
    changed("[dims.seq]", "[dimz.seq]"): "4: `dimz` is not a key of a spec; did you mean `dims`?",
    changed("multiple_of", "multiple"): "6: `dims.seq.multiple` is not a key of a spec; did you mean `multiple_of`?",
    changed('expect = "', 'expct = "'): "19: `models.by example.expct` is not a key of a spec; did you mean `expect`?",
    changed("y = { dtype", "y = { dtyp"): "15: `models.net.inputs.y.dtyp` is not a key of a spec; "
    "did you mean `dtype`?",
    changed("max = 8", "zzz = 8"): "2: `dims.batch.zzz` is not a key of a spec; "
    "there are min, max, multiple_of, one_of",
    changed("max = 8", "max = true"): "2: `dims.batch.max` must be an integer, but it is True",
    changed("max = 8", "max = -8"): "2: `dims.batch.max` must be an integer of at least 0, but it is -8",
    changed("max = 8", f"max = {2**63}"): "2: `dims.batch.max` must be an integer of at most 9223372036854775807, "
    "but it is 9223372036854775808",
    changed("multiple_of = 2", "multiple_of = 0"): "6: `dims.seq.multiple_of` must be an integer of at least 1, "
    "but it is 0",
    changed("[2, 4]", "[]"): "7: `dims.seq.one_of` is empty",
    changed("[2, 4]", "[\n  2,\n  '4']"): "7: `dims.seq.one_of.1` must be an integer, but it is '4'",
    changed("dims.batch", 'dims."a b"'): "1: `dims.a b` is not a name: letters, digits and underscores make one",
    changed("net:Net".replace("net", "module"), "Net"): "10: `models.net.target` is not of the form "
    "module.path:callable or path/to/file.py:callable: 'package.Net'",
    changed('target = "package.module:Net"\n', ""): "9: `models.net` has no `target`, which it needs",
    changed('"int64"', '"int46"'): "15: `models.net.inputs.y.dtype` cannot be 'int46'; did you mean `int64`?",
    changed('1", 4]', '1", 4.5]'): "14: `models.net.inputs.x.dims.2` must be an integer or a string, but it is 4.5",
    changed("undecided = true", "undecided = 1"): "21: `models.by example.accept_undecided` must be true or false, "
    "but it is 1",
    changed('["batch*seq <= 16"]', '"b <= 16"'): "11: `models.net.relations` must be an array, but it is 'b <= 16'",
}  # fmt: skip
MEANINGS = {  # beyond what a schema can say
    changed("min = 2", "min = 2\nmax = 1"): "5: `dims.seq` has min = 2, above max = 1",
    changed('["batch", "2', '["batc", "2'): "14: 'batc' names `batc`, which is not among the dims; "
    "did you mean `batch`?",
    changed("2*seq + 1", "seq*seq"): "14: 'seq*seq' is not a size: a dim makes one, or a dim with a factor and an "
    "offset (2*batch + 1)",
    changed("batch*seq <= 16", "batch*seq <="): "11: relation 'batch*seq <=' cannot be read: The formula ends where "
    "a value should follow. (column 13)",
    changed("batch*seq <= 16", "batch"): "11: relation 'batch' is a number; a relation such as 'batch == 0' was "
    "expected",
    changed("batch*seq <= 16", "batch*sec <= 16"): "11: relation 'batch*sec <= 16' names `sec`, but no dim "
    "has that name; did you mean `seq`?",
    changed("2*seq + 1", "10**10**10*seq"): "14: '10**10**10*seq' is not a size: a dim makes one, or a dim with a "
    "factor and an offset (2*batch + 1)",
}  # fmt: skip
TEXTS = {
    "[models.net]\ntarget =\n": "2: this is not TOML: Invalid value",
    "[models.net]\n\n\nx = [1,\n": "4: this is not TOML: Invalid value",
    f"x = {'[' * 5000}{']' * 5000}": "1: this is nested too deeply to be read",
}


@pytest.mark.quick
@pytest.mark.parametrize(("text", "sentence"), [*SHAPES.items(), *MEANINGS.items(), *TEXTS.items()])
def test_a_malformed_spec_is_one_sentence_with_its_line(tmp_path, text, sentence):
    assert refusal(tmp_path, text) == f"shapeproof.toml:{sentence}"


def test_the_line_of_a_pyproject_is_counted_in_the_whole_file(tmp_path):
    text = "[project]\nname = 'x'\n[tool.shapeproof.models.net]\ntarget = 'a:b'\n\nexpct = 1\n"
    assert refusal(tmp_path, text, "pyproject.toml").startswith("pyproject.toml:6: `models.net.expct` is not a key")


def test_a_file_that_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^absent.toml cannot be read: No such file or directory$"):
        load_specs([Path("absent.toml")])
    with pytest.raises(UsageError, match=r"^there is no shapeproof.toml here, and no pyproject.toml with"):
        load_specs([])
    assert refusal(tmp_path, "", "pyproject.toml") == "pyproject.toml has no table [tool.shapeproof]"


def test_a_spec_that_is_named_twice_is_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("shapeproof.toml").write_text(SPEC, encoding="utf-8")
    assert len(load_specs([Path("shapeproof.toml"), tmp_path / "shapeproof.toml"])) == 1


# ---------------------------------------------------------------------- the schema


def shipped():
    return json.loads(resources.files("shapeproof.ci").joinpath("spec.schema.json").read_text(encoding="utf-8"))


def test_the_shipped_schema_is_the_grammar(request):
    """To renew it: `pytest --update-golden`."""
    if request.config.getoption("--update-golden"):
        path = Path(__file__).parents[2] / "shapeproof" / "ci" / "spec.schema.json"
        path.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
    assert shipped() == schema()


def test_a_spec_is_valid_by_the_schema():
    jsonschema.validate(tomllib.loads(SPEC), shipped())


@pytest.mark.parametrize("text", SHAPES)
def test_what_the_parser_refuses_for_its_form_the_schema_refuses(text):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), shipped())


KEYS = ("dims", "models", "batch", "x", "1x", *Spec.model_fields, *Dim.model_fields, *Input.model_fields)
LEAVES = st.sampled_from([0, 1, -1, 2**70, 1.5, True, False, "", "batch", "a:b", "a", "float32", "proved", "batch < 2"])
VALUES = st.recursive(LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(KEYS), part))


@st.composite
def documents(draw):
    """The spec with some of its values replaced, taken out or put in: most are malformed."""
    document = tomllib.loads(SPEC)
    for _ in range(draw(st.integers(0, 3))):
        table = document
        while tables := [value for value in table.values() if isinstance(value, dict)]:
            if not draw(st.booleans()):
                break
            table = draw(st.sampled_from(tables))
        key = draw(st.sampled_from([*table, *KEYS]))
        if draw(st.booleans()):
            table[key] = draw(VALUES)
        else:
            table.pop(key, None)
    return document


@settings(max_examples=examples(200))
@given(documents())
def test_schema_and_parser_agree_and_whatever_is_wrong_is_a_sentence(document):
    assert "\n" not in said_of(document)
    assert VALIDATOR.is_valid(document) == has_the_form(document)


def said_of(document):
    try:
        parse_spec(document)
    except SpecError as error:
        return str(error)
    return ""


def has_the_form(document):
    try:
        Spec.model_validate(document)
    except ValidationError:
        return False
    return True


VALIDATOR = jsonschema.Draft202012Validator(schema())


def test_every_dtype_is_one_of_torch():
    assert all(isinstance(getattr(torch, name), torch.dtype) for name in Dtype.__args__)


# ---------------------------------------------------------------------- lines


@given(st.lists(st.sampled_from(["", "# note", "[other]", 'z{} = """\n\n"""', "z{} = [\n1,\n]"]), max_size=6))
def test_the_line_of_a_key_does_not_depend_on_what_stands_before_it(before):
    text = "\n".join(line.format(index) if line != "[other]" else f"[t{index}]" for index, line in enumerate(before))
    text += "\n[models.net]\nkey = [\n 1]\n"
    assert text.splitlines()[line_of(text, ["models", "net", "key"]) - 1] == "key = ["
    assert text.splitlines()[line_of(text, ["models"]) - 1] == "[models.net]"


DOCUMENT = """
a.b = { c = [1, { d = 2 }] }
[[tool.one]]
names = [
    "x",  # a comment
    "[y]",
]
[[tool.one]]
[tool.one.inner]
text = '''
[z]
'''
"""


def paths(value, before=()):
    """The way to everything that is in a value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*before, key)
        yield from paths(inner, (*before, key))


def test_every_path_of_a_document_has_its_line():
    found = {path: line_of(DOCUMENT, path) for path in paths(tomllib.loads(DOCUMENT))}
    assert {path[-1]: line for path, line in found.items() if isinstance(path[-1], str)} == {
        "a": 2,
        "b": 2,
        "c": 2,
        "d": 2,
        "tool": 3,
        "one": 3,
        "names": 4,
        "inner": 9,
        "text": 10,
    }
    one = ("tool", "one")
    assert [found[*one, 0], found[*one, 0, "names", 1], found[*one, 1]] == [3, 4, 8]
