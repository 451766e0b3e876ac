"""Names and messages come from anywhere: in each form they do nothing to the terminal, the runner or the parser."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shapeproof.ci.jobs import JOB, Check, Job, Outcome, Result, checks_of, to_json
from shapeproof.ci.plain import no_command, plain, plain_line
from shapeproof.ci.render import Format, render
from shapeproof.ci.specs.spec import load_spec
from shapeproof.ci.terminal import fail, show
from shapeproof.constraints.records.diagnostics import Diagnostic, Note
from tests.thoroughness import examples

HOSTILE = [
    "\x1b[31m", "\x1b]0;title\x07", "\n::error::no", "\r::error::no", " \t::error::no", "##[error]no", "\u2028::a::",
    "\x85", "\ufffe", "\x00", "\udce9", "\u202e", "]]>", "<a>", "&#27;", "%0A::error::", "\x9b31m", "\u3000::a::",
    "\n##[group]",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5), max_size=5).map("".join)


def outcomes(name, message):
    check = Check(name, Path("shapeproof.toml"), 3, "proved", accept_undecided=False, job=Job(root="/", target="a:b"))
    found = Diagnostic(name, message, file=message, line=1, notes=(Note("label", message),))
    return [Outcome(check, Result("refuted", message, (found,))), Outcome(check, Result(None, message))]


def acts(text):
    return [each for each in text if unicodedata.category(each) in {"Cc", "Cs", "Zl", "Zp"} and each not in "\n\t"]


@given(TEXTS)
def test_plain_text_does_nothing(text):
    assert not acts(plain(text))
    assert plain(plain(text)) == plain(text)
    assert not set(plain_line(text)) & {"\n", "\t"}


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20).map(lambda text: f"a {text}\nb"))
def test_what_does_nothing_stays_as_it_is(text):
    expected = "".join(each for each in text if each not in "\u061c\u200e\u200f")
    assert plain(text) == expected or "\\u" in plain(text)
    if "::" not in text and "##[" not in text:
        assert no_command(text) == text


def commands(text):
    """The lines in which GitHub's runner finds a command: it trims a line, and looks for the older form anywhere."""
    lines = re.split(r"\r\n|\r|\n", text)
    return [line for line in lines if line.strip().startswith("::") or "##[" in line]


@settings(max_examples=examples(60), deadline=None)
@given(TEXTS, TEXTS)
@example("a\n::error::b", " ::error::no ##[error]")
def test_every_form_holds_whatever_is_said(name, message):
    found = outcomes(name, message)
    for form in Format:
        shown = render(found, form)
        if form in {Format.JSON, Format.SARIF}:
            assert json.loads(shown)
        assert not acts(shown) or form is Format.JUNIT
    assert len(ET.fromstring(render(found, Format.JUNIT)).findall(".//testcase")) == 2  # noqa: S314 - our own
    shown = render(found, Format.GITHUB).encode(errors="strict").decode()
    annotations = [line for line in commands(shown) if line.startswith("::error file=")]
    assert len(annotations) == 2
    assert commands(shown) == annotations


def test_what_is_said_on_the_way_is_no_command(capsys, monkeypatch):
    with pytest.raises(Exception, match="2"):
        fail("no \x1b[31m\n::error::x ##[error]y")
    assert capsys.readouterr().err == "shapeproof: no \\x1b[31m\n: :error::x # #[error]y\n"
    show("::error::x \x1b[31m")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    show("::error::x")
    show("::error::x", commands=True)
    assert capsys.readouterr().out == "::error::x \\x1b[31m\n: :error::x\n::error::x\n"


def test_the_jobs_of_a_spec_grow_with_its_models(tmp_path):
    """A job holds what it is about: twice as many models, with dims of their own, are twice as much to say."""
    sizes = []
    for count in (50, 100):
        models = "".join(
            f"[dims.d{index:03}]\nmin = 1\n[models.m{index:03}]\ntarget = 'a:b'\n"
            f"inputs.x = {{ dtype = 'int64', dims = ['2*d{index:03}'] }}\n"
            for index in range(count)
        )
        (tmp_path / "shapeproof.toml").write_text(models, encoding="utf-8")
        checks = list(checks_of(load_spec(tmp_path / "shapeproof.toml")))
        sizes.append(sum(len(to_json(JOB, check.job)) for check in checks))
    assert sizes[1] <= 2.1 * sizes[0]
