"""Help in the words of a spec. Laws: what is pasted says what was required, no more and no less, and is then proved."""

from __future__ import annotations

import itertools
import time
import tomllib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.ci.jobs import Job, Result, checks_of
from shapeproof.ci.process import worker
from shapeproof.ci.process.spec_help import in_spec
from shapeproof.ci.specs.dims import conditions
from shapeproof.ci.specs.spec import Dim, Input, load_spec
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.records.diagnostics import Diagnostic, Help
from shapeproof.constraints.syntax.text import parse_formula


class Rows(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 16)


class Branch(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 1 else x + 1


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = torch.nn.Parameter(torch.ones(12))

    def forward(self, x, past):
        return self.positions[: x.shape[0] + past.shape[0]] + torch.cat([x, past])


class Same(torch.nn.Module):
    def forward(self, x, past):
        return x + past


class Odd(torch.nn.Module):
    def forward(self, x):
        torch._check(x.shape[0] % 4 == 3)
        return x + 1


class Two(torch.nn.Module):
    def forward(self, x):
        torch._check((x.shape[0] - 4) * (x.shape[0] - 8) == 0)
        return x + 1


class Window(torch.nn.Module):
    def forward(self, x):
        return x.unfold(0, 7, 1)


DIMS = """
[{0}dims]
b = {{ min = 1 }}
h = {{ max = 1024 }}
step = {{ min = 1, max = 4096 }}
past = {{ max = 4096 }}
small = {{ max = 12 }}
listed = {{ one_of = [3, 8, 16, 24, 32] }}
even = {{ max = 64, multiple_of = 6 }}
"""
X = '{{ dtype = "float32", dims = [{}] }}'
MODELS = {
    ("Rows", '"b", "h"'): ["[dims.h]", "multiple_of = 16"],
    ("Rows", '"listed"'): ["[dims.listed]", "one_of = [16, 32]"],
    ("Rows", '"2*h"'): ["[dims.h]", "multiple_of = 8"],
    ("Rows", '"even"'): ["[dims.even]", "multiple_of = 48"],
    ("Branch", '"step"'): ["[dims.step]", "min = 2"],
    ("Decoder", '"step"'): ['[models."the model"]', 'relations = ["past + step <= 12"]'],
    ("Same", '"step"'): ['[models."the model"]', 'relations = ["step + past != 5", "past == step"]'],
    ("Odd", '"step"'): ['[models."the model"]', 'relations = ["step % 4 == 3"]'],
    ("Two", '"small"'): ["[dims.small]", "one_of = [4, 8]"],
    ("Window", '"h"'): ["[dims.h]", "min = 7"],
}
"""The model and the dims of x; what its help is to say, in the order of a spec."""


def spec_of(name: str, dims: str, prefix: str = "") -> str:
    two = name in ("Decoder", "Same")
    relations = 'relations = ["step + past != 5"]' if name == "Same" else ""
    past = f"past = {X.format(chr(34) + 'past' + chr(34))}" if two else ""
    table = f'{prefix}models."the model"'
    return (
        f'{DIMS.format(prefix)}\n[{table}]\ntarget = "{__name__}:{name}"\n{relations}\n'
        f"[{table}.inputs]\nx = {X.format(dims)}\n{past}\n"
    )


def verdict(tmp_path, text: str, file: str = "shapeproof.toml") -> Result:
    (tmp_path / file).write_text(text, encoding="utf-8")
    (check,) = checks_of(load_spec(tmp_path / file))
    return worker._verdict(check.job, lambda _: None, time.monotonic())


def pasted(document: dict, help_: dict) -> dict:
    """The document with the tables of a help written into it."""
    for key, value in help_.items():
        document[key] = pasted(document.get(key, {}), value) if isinstance(value, dict) else value
    return document


def as_toml(document: dict, path: str = "") -> str:
    """A document as TOML: each table by its whole name, its keys inline."""
    lines = [f"[{path}]"] if path else []
    tables = {key: value for key, value in document.items() if isinstance(value, dict)}
    lines += [f"{key} = {value!r}" for key, value in document.items() if key not in tables]
    return "\n".join([*lines, *(as_toml(each, f"{path}.'{key}'".lstrip(".")) for key, each in tables.items())])


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "lines"), MODELS.items(), ids=lambda each: str(each[0]))
def test_what_is_pasted_into_the_spec_is_proved(tmp_path, model, lines):
    text = spec_of(*model)
    result = verdict(tmp_path, text)
    assert result.status == "refuted"
    helps = [help_.text for diagnostic in result.diagnostics for help_ in diagnostic.help]
    assert "\n".join(helps).splitlines() == lines
    document = tomllib.loads(text)
    for help_ in helps:
        document = pasted(document, tomllib.loads(help_))
    assert verdict(tmp_path, as_toml(document)).status == "proved"


@pytest.mark.thorough
@pytest.mark.parametrize("model", [("Rows", '"b", "h"')])
def test_what_asks_for_less_is_in_the_words_of_the_spec_and_proved(tmp_path, model):
    (found,) = verdict(tmp_path, spec_of(*model)).diagnostics
    assert found.weakest is not None
    assert found.weakest.text == '[models."the model"]\nrelations = ["b*h % 16 == 0"]'
    document = pasted(tomllib.loads(spec_of(*model)), tomllib.loads(found.weakest.text))
    assert verdict(tmp_path, as_toml(document)).status == "proved"


def test_in_a_pyproject_the_tables_are_those_of_the_tool(tmp_path):
    result = verdict(tmp_path, spec_of("Rows", '"2*h"', "tool.shapeproof."), "pyproject.toml")
    assert [help_.text for help_ in result.diagnostics[0].help] == ["[tool.shapeproof.dims.h]\nmultiple_of = 8"]
    assert "help: [tool.shapeproof.dims.h]\n      multiple_of = 8   (proved" in result.text


def test_of_a_target_that_returns_its_declarations_the_help_stays_pythons():
    found = Diagnostic("divides", "a", help=(Help("n = 4*_n", "proved", ("n % 4 == 0",)),))
    assert in_spec([found], Job(root="/", target="a:b")) == (found,)


def test_a_change_of_the_model_stays_as_it_is():
    found = Diagnostic("data-dependent", "a", help=(Help("torch._check(u0 >= 2)", "proved"),))
    assert in_spec([found], job({"n": Dim()}, ())) == (found,)


# ---------------------------------------------------------------------- what a help says, over a box


def job(dims: dict[str, Dim], relations: tuple[str, ...]) -> Job:
    inputs = {"x": Input(dtype="float32", dims=list(dims))}
    return Job(root="/", target="a:b", inputs=inputs, dims=dims, relations=relations, model="net")


def said(dims: dict[str, Dim], relations: tuple[str, ...]) -> set[tuple[int, ...]]:
    """The points of a box that a spec declares."""
    texts = [*relations, *(text for name, dim in dims.items() for _, text in conditions(name, dim))]
    return served([parse_formula(text) for text in texts], dims)


def served(formulas, names) -> set[tuple[int, ...]]:
    points = itertools.product(range(10), repeat=len(names))
    return {point for point in points if all(holds_at(each, dict(zip(names, point, strict=True))) for each in formulas)}


TABLES = st.builds(
    lambda ends, step, values: Dim(
        min=min(ends, default=None), max=max(ends, default=None) if len(ends) > 1 else None,
        multiple_of=step, one_of=values,
    ),
    st.lists(st.integers(0, 9), max_size=2),
    st.none() | st.integers(1, 6),
    st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
)  # fmt: skip
NAMES = st.sampled_from(["n", "m"])
REQUIRED = st.one_of(
    st.builds("{} >= {}".format, NAMES, st.integers(0, 9)),
    st.builds("{} <= {}".format, NAMES, st.integers(0, 9)),
    st.builds("{} == {}".format, NAMES, st.integers(0, 9)),
    st.builds("{} != {}".format, NAMES, st.integers(0, 9)),
    st.builds("{} % {} == {}".format, NAMES, st.integers(2, 6), st.integers(0, 1)),
    st.builds("{0} == {1} or {0} == {2} or {0} == {3}".format, NAMES, *[st.integers(0, 9)] * 3),
    st.builds("{} >= {} and n % {} == 0".format, NAMES, st.integers(0, 9), st.integers(2, 6)),
    st.builds("n + m <= {}".format, st.integers(0, 16)),
    st.builds("n == {}*m + {}".format, st.integers(1, 3), st.integers(0, 3)),
)


@settings(max_examples=60)
@given(TABLES, TABLES, st.lists(REQUIRED, min_size=1, max_size=4), st.lists(REQUIRED, max_size=2), st.booleans())
def test_the_lines_say_what_was_required_no_more_and_no_less(n, m, required, relations, two):
    dims = {"n": n, "m": m}
    helps = (Help("-", "proved", tuple(required[:2])), Help("-", "proved", tuple(required[2:] or required[:1])))
    found = Diagnostic("divides", "a", help=helps[:1] if len(required) < 3 and not two else helps)
    (told,) = in_spec([found], job(dims, tuple(relations)))
    wanted = said(dims, tuple(relations)) & served([parse_formula(each) for each in required], dims)
    document: dict = {"dims": {}, "models": {"net": {"relations": relations}}}
    for help_ in told.help:
        if help_.text:
            document = pasted(document, tomllib.loads(help_.text))
    changed = {name: dim.model_copy(update=document["dims"].get(name, {})) for name, dim in dims.items()}
    assert said(changed, tuple(document["models"]["net"]["relations"])) == wanted
