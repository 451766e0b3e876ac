"""Every Python example in the documentation runs and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from shapeproof.constraints.records.diagnostics import OfModel
from tests.documents import examples, run

ROOT = Path(__file__).parents[1]
PAGES = [path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
ERRORS = ROOT / "docs" / "errors"
IDS = sorted(path.stem for path in ERRORS.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page, monkeypatch, request):
    """To renew what is shown: `pytest --update-golden`."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / page).read_text(encoding="utf-8")
    as_run = run(text, page)
    if request.config.getoption("--update-golden"):
        (ROOT / page).write_text(as_run, encoding="utf-8")
    else:
        assert as_run == text


@pytest.mark.parametrize("page", PAGES)
def test_no_result_has_a_line_of_its_page(page):
    """The fault: a sentence more on a page changed what its programs printed."""
    shown = [each.expected or "" for each in examples((ROOT / page).read_text(encoding="utf-8"))]
    assert [text for text in shown if f"{Path(page).name}:" in text] == []


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "changelog.d/README.md"])
def test_links_lead_somewhere(page):
    path = ROOT / page
    broken = [link for link in LINK.findall(path.read_text(encoding="utf-8")) if not (path.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_no_placeholder_is_left(page):
    assert "<!-- fill -->" not in (ROOT / page).read_text(encoding="utf-8")


def test_every_diagnostic_has_a_page_and_every_page_a_row():
    # mypy holds every place that makes a diagnostic to the listed ids.
    rows = re.findall(r"(?m)^\| \[([\w-]+)\]\(\1\.md\) \|", (ERRORS / "README.md").read_text(encoding="utf-8"))
    assert sorted(rows) == IDS == sorted(get_args(OfModel))


@pytest.mark.parametrize("name", IDS)
def test_the_program_of_a_diagnostic_triggers_it(name):
    # That the text is what the program prints, test_examples_run holds.
    shown = [example.expected or "" for example in examples((ERRORS / f"{name}.md").read_text(encoding="utf-8"))]
    assert any(text.startswith((f"error[{name}]: ", f"warning[{name}]: ")) for text in shown)


def test_an_example_that_prints_something_else_is_caught():
    page = "```python\nprint(2)\n```\n```text\n1\n3\n```\nend\n"
    assert run(page, "page.md") == page.replace("1\n3\n", "2\n")


def test_an_example_that_raises_names_its_block_and_its_line_of_the_program():
    with pytest.raises(ZeroDivisionError) as caught:
        run("Text.\n\n```python\n\n```\n```python\n1 / 0\n```\n", "page.md")
    assert (caught.traceback[-1].lineno + 1, caught.value.__notes__) == (2, ["in the block at page.md:7"])


def test_blocks_share_a_module_and_may_be_left_out():
    page = "```python\nx = 1\n```\n<!-- no-run -->\n```python\nx = 2\n```\n```python\nprint(x)\n```\n```text\n1\n```\n"
    assert [example.line for example in examples(page)] == [2, 9]
    assert run(page, "page.md") == page


def test_a_text_block_further_down_is_not_expected_output():
    assert examples("```python\n1\n```\nSome words.\n```text\nanything\n```\n")[0].expected is None
