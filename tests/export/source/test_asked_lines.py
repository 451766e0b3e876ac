"""The line in a note about an inferred requirement is that of the question that fixed the size."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check

SIZE = 6
QUESTIONS = ["== 6", "!= 6", "!= 4", "> 3", "< 9", "% 3 == 0", "% 4 == 2"]

_NOTED = re.compile(r"run time: (.*), asked for at .*?:(\d+)$")


def lines_of(report):
    """The noted requirements, each with the number of its line."""
    found = (_NOTED.search(note) for note in report.notes)
    return {each[1]: int(each[2]) for each in found if each}


def noted(forward, count=2, size=33):
    """Check a function of vectors whose sizes are inferred; return its notes' lines, counted from its first."""
    module = torch.nn.Module()
    module.forward = forward
    report = check(module, (torch.ones(size),) * count, dynamic_shapes=({0: Dim.AUTO},) * count)
    assert report.status == "proved"
    first = forward.__code__.co_firstlineno
    return {required: line - first for required, line in lines_of(report).items()}


def test_each_of_two_dims_has_the_line_of_its_own_branch():
    def forward(x, y):
        if x.shape[0] == 33:
            x = x * 2
        if y.shape[0] == 33:
            y = y * 2
        return x.sum() + y.sum()

    assert noted(forward) == {"x.shape[0] == 33": 1, "y.shape[0] == 33": 3}


def test_a_dim_has_the_line_of_the_first_branch_that_fixes_it():
    def forward(x):
        if x.shape[0] == 33:
            x = x * 2
        if x.shape[0] > 10:
            x = x + 1
        return x

    assert noted(forward, 1) == {"x.shape[0] == 33": 1}


def test_a_dim_that_is_fixed_by_another_has_the_line_that_ties_them():
    def tied_after(x, y):
        if x.shape[0] == 33:
            x = x * 2
        return x + y

    def tied_before(x, y):
        z = x + y
        if x.shape[0] == 33:
            z = z * 2
        return z

    assert noted(tied_after) == {"x.shape[0] == 33": 1, "y.shape[0] == 33": 3}
    assert noted(tied_before) == {"x.shape[0] == 33": 2, "y.shape[0] == 33": 1}


def test_a_dim_that_a_sum_fixes_has_the_line_of_the_sum():
    def forward(x, y):
        if x.shape[0] == 33:
            x = x + 1
        if x.shape[0] + y.shape[0] == 66:
            x = x * 2
        return x.sum() + y.sum()

    assert noted(forward) == {"x.shape[0] == 33": 1, "y.shape[0] == 33": 3}


@st.composite
def programs(draw):
    """A model with a branch for each input, some of them in helpers, and the line of each branch."""
    questions = draw(st.lists(st.sampled_from(QUESTIONS), min_size=2, max_size=5))
    order = draw(st.permutations(range(len(questions))))
    names = [f"x{number}" for number in range(len(questions))]
    text = ["import torch", "", "class Model(torch.nn.Module):"]
    body = [f"    def forward(self, {', '.join(names)}):"]
    asked = {}
    for number in order:
        name, branch = names[number], f"if {{}}.shape[0] {questions[number]}:"
        if draw(st.booleans()):
            text += [f"    def helper{number}(self, x):", f"        {branch.format('x')}", "            return x * 2"]
            text += ["        return x"]
            asked[name] = text.index(f"        {branch.format('x')}", len(text) - 4) + 1
            body.append(f"        {name} = self.helper{number}({name})")
        else:
            body += [f"        {branch.format(name)}", f"            {name} = {name} * 2"]
    text += body
    asked |= {name: text.index(line) + 1 for name in names for line in body if line.startswith(f"        if {name}.")}
    return "\n".join([*text, f"        return {' + '.join(f'{name}.sum()' for name in names)}", ""]), names, asked


@pytest.mark.thorough
@settings(max_examples=8)
@given(program=programs())
def test_a_noted_line_is_the_line_that_asked_about_the_size(program, tmp_path_factory):
    text, names, asked = program
    path = tmp_path_factory.mktemp("asked") / "model.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shapes = {name: {0: Dim.AUTO} for name in names}
    report = check(module.Model(), (torch.ones(SIZE),) * len(names), dynamic_shapes=shapes)
    assert report.status == "proved"
    lines = lines_of(report)
    assert lines
    for required, line in lines.items():
        (name,) = re.findall(r"x\d", required)[:1]
        assert line == asked[name], f"{required}\n{text}"
