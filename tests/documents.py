"""The Python examples in Markdown pages: finding them, running them, comparing what they print.

A ```python block is run; the blocks of a page share one module, in order, as if a reader had pasted them into one file,
`model.py`: its lines, not those of the page, are in what is printed. A ```text block directly after a block (blank
lines between do not count) is what it must print. The comment <!-- no-run --> before a block leaves it out.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import linecache
import re
import sys
import types
from dataclasses import dataclass

import shapeproof
from shapeproof.ci.pages import pages

NO_RUN = "<!-- no-run -->"
FILE = "model.py"
FENCE = re.compile(r"^```(\w*)\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line of the page where the text begins."""

    language: str
    text: str
    line: int
    skipped: bool
    follows_block: bool


@dataclass(frozen=True, slots=True)
class Example:
    """A Python block, with what it must print (None: anything), and the line of the page where that begins."""

    code: str
    line: int
    expected: str | None
    printed_at: int = 0


def blocks(page: str) -> list[Block]:
    r"""The fenced blocks of a page.

    >>> [(block.language, block.line) for block in blocks("Hello:\n```python\n1\n```\n")]
    [('python', 3)]
    """
    found: list[Block] = []
    before, start, language, skipped, follows = "", 0, "", False, False
    lines = page.splitlines()
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence and not start:
            start, language, skipped, follows = number + 1, fence[1], before == NO_RUN, before == "```"
        elif fence:
            text = "".join(f"{each}\n" for each in lines[start - 1 : number - 1])
            found.append(Block(language, text, start, skipped, follows))
            start = 0
        before = line.strip() or before
    return found


def examples(page: str) -> list[Example]:
    r"""The Python blocks of a page that are to be run, each with the text that must follow from it.

    >>> examples("```python\nprint(1)\n```\n\n```text\n1\n```\n")
    [Example(code='print(1)\n', line=2, expected='1\n', printed_at=6)]
    """
    found = blocks(page)
    return [
        Example(block.text, block.line, _expected(after), after.line if after else 0)
        for block, after in itertools.zip_longest(found, found[1:])
        if block.language == "python" and not block.skipped
    ]


def _expected(after: Block | None) -> str | None:
    return after.text if after and after.language == "text" and after.follows_block else None


def run(page: str, filename: str) -> str:
    """Run the examples of a page, and return the page with what they print; an exception names the block at fault.

    The page is a module while it runs, so that its classes can be copied and pickled.
    """
    module, lines, program = types.ModuleType("page"), page.splitlines(keepends=True), ""
    as_run, done = "", 0
    sys.modules["page"] = module
    try:
        for example in examples(page):
            code = compile("\n" * program.count("\n") + example.code, FILE, "exec")
            program += example.code
            linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, module.__dict__)  # noqa: S102  (running the page is the point)
            if example.expected is not None:
                as_run += "".join(lines[done : example.printed_at - 1]) + printed.getvalue()
                done = example.printed_at - 1 + example.expected.count("\n")
    except BaseException as error:
        error.add_note(f"in the block at {filename}:{example.line}")
        raise
    finally:
        del sys.modules["page"]
    return as_run + "".join(lines[done:])


def without_pages_and_version(text):
    """A log with the pages of diagnostics and the version left out: each is written in one place."""
    for name, page in pages().items():
        text = text.replace(json.dumps(page), f'"the page of {name}"')
    return text.replace(f'"{shapeproof.__version__}"', '"the version"')
