"""Code that is rewritten does what it did: on whatever Python runs the tests, for all that Python can compile."""

from __future__ import annotations

import asyncio
import dis
import pathlib
import sysconfig
import types
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.source import handlers, instructions, raised
from shapeproof.export.source.instructions import READ, anew, assembled, briefly, codes_within, in_place
from shapeproof.export.trace.python import rewriting
from shapeproof.export.trace.python.plain_numbers import CALLED, NAMES

OTHERS = [{**CALLED, rewriting.EXCEPT: None}, NAMES]
WIDE = "\n".join(f" x.append({number + 0.5})" for number in range(300))
"""Over 256 constants: the arguments of the instructions that load them are extended."""
SOURCES = {
    "identity": "def f(n):\n return [n is True, n is not True, n is 1, n is None, (n > 2) is True]",
    "calls": "def f(n):\n return [int(n / 2), float(n), len([n]), min(n, 2), max([n, 3]), divmod(n, 2), type(n)]",
    "patterns": "def f(n):\n match n:\n  case bool(): return 'bool'\n  case int(k) if k > 2: return k\n"
    "  case int(): return 'int'\n  case float(k): return k\n return 'none'",
    "handlers": "def f(n):\n found = []\n for k in (0, n):\n  try: found.append(6 // k)\n"
    "  except ZeroDivisionError as error: found.append(str(error))\n  except (TypeError, ValueError): found.append(0)\n"
    "  finally: found.append(len(found) is 1)\n return found",
    "with": "import contextlib\ndef f(n):\n with contextlib.suppress(ZeroDivisionError) as s:\n"
    "  return int(1 // n), s is None\n return 'suppressed'",
    "closure": "def f(n):\n def inner(k):\n  'doc'\n  nonlocal n\n  n = n + int(k)\n  return n is True\n"
    " return [inner(2), n, inner.__doc__, (lambda: len('ab') * n)()]",
    "generator": "def f(n):\n def g():\n  got = yield float(n)\n  try: yield got is True\n  finally: yield int(n)\n"
    " made = g()\n return [next(made), made.send(True), next(made)]",
    "comprehension": "def f(n):\n found = [int(k) for k in range(int(n)) if (k > 1) is True]\n"
    " return [found, {len(str(n)): n for _ in '1'}]",
    "class": "def f(n):\n class A:\n  size = int(n)\n  def __init__(self): self.own = float(n)\n"
    " return [A().size, A().own, A().__class__ is A, A().__class__.__name__]",
    "async": "def f(n):\n async def wait(): return int(n)\n"
    " async def g():\n  found = [await wait() async for _ in all()]\n"
    "  return found, (n is True)\n async def all():\n  for k in range(2): yield k\n return run(g())",
    "many constants": f"def f(n):\n x = []\n{WIDE}\n"
    " for k in x:\n  if k > 299: x.append(int(n))\n  if len(x) > 302: break"
    "\n return [sum(x), n is True, n is 77, x[0] is True]",
    "chained": "def f(n):\n return [0 < n < 5, n and float(n), n or len('a'), not n, n if (n is True) else int(n)]",
    "unpacking": "def f(n):\n a, (b, *c) = n, (int(n), len('ab'), max(n, 1))\n del a\n"
    " return [b, *c, {**{'k': float(n)}}]",
}


def function(source: str, **scope: object) -> Callable[[object], object]:
    """The function that a source defines."""
    held = {"run": asyncio.run, **scope}
    exec(compile(source, "<laws>", "exec"), held)  # noqa: S102 - it is written above
    return held["f"]


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and those inside it."""
    yield from codes_within(code)


def result(made: Callable[[object], object], value: object) -> object:
    try:
        return made(value)
    except (TypeError, ValueError) as error:
        return str(error), error.__traceback__.tb_next.tb_lineno


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("others", OTHERS, ids=["functions", "names"])
@pytest.mark.parametrize("name", SOURCES)
def test_rewritten_code_gives_plain_values_what_the_code_gives(name, others):
    assert READ
    symbolic = {f"symbolic {each}": made for each, made in CALLED.items()}
    original, again = function(SOURCES[name]), function(SOURCES[name], **symbolic)
    code = again.__code__
    again.__code__ = rewriting.rewritten(code, code.co_filename, frozenset(others.items()))
    assert again.__code__ is not code
    for value in (0, 1, 3, True, 2.5, "a"):
        assert result(again, value) == result(original, value), value


def standing(code: types.CodeType) -> list[tuple[object, ...]]:
    """Each instruction, where a jump leads, its handler and its position: offsets by the instruction that is there."""
    own = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    starts = [0, *(_end(code, step) for step in own)]
    numbers = {offset: index for index, offset in enumerate(starts)}
    table = [(numbers[e.start], numbers[e.end], numbers[e.target], e.depth, e.lasti) for e in _handlers(code)]
    jumps = (numbers[step.argval] if step.opcode in dis.hasjrel else step.arg for step in own)
    return [*((step.opname, to, step.positions) for step, to in zip(own, jumps, strict=True)), *table]


def _end(code: types.CodeType, step: dis.Instruction) -> int:
    caches = 0
    while code.co_code[step.offset + 2 + 2 * caches : step.offset + 3 + 2 * caches] == bytes((dis.opmap["CACHE"],)):
        caches += 1
    return step.offset + 2 + 2 * caches


def _handlers(code: types.CodeType) -> list[object]:
    return list(dis._parse_exception_table(code))


LIBRARY = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("[a-d]*.py"))
TESTS = sorted((pathlib.Path(sysconfig.get_paths()["stdlib"]) / "asyncio").glob("*.py"))
of_python = pytest.mark.parametrize(
    "files", [TESTS[:4], pytest.param(LIBRARY + TESTS, marks=pytest.mark.thorough)], ids=["some", "many"]
)


def codes_in(files: list[pathlib.Path]) -> Iterator[types.CodeType]:
    """The code objects of some files of Python's own."""
    for file in files:
        yield from codes(compile(file.read_text(), file.name, "exec", dont_inherit=True))


@of_python
def test_without_changes_each_instruction_stands_where_it_stood(files):
    """Also those whose argument Python has extended without need."""
    seen = 0
    for code in codes_in(files):
        assert standing(anew(code, {})) == standing(code), code
        seen += 1
    assert seen > 100


@of_python
def test_what_is_changed_in_place_is_what_is_assembled_anew(files):
    """Each global that is called becomes a constant that is called; what is left of its place does nothing."""
    seen = 0
    for code in codes_in(files):
        last = len(code.co_consts)
        called = [each.offset for each in briefly(code) if each.does == "global" and each.called]
        changes = {offset: [("const", last), ("null", 0)] for offset in called}
        raw = in_place(code, changes)
        assert raw is not None, code  # a global has more beside it than both need
        parts = {"co_consts": (*code.co_consts, len)}
        assert acting(code.replace(co_code=raw, **parts)) == acting(anew(code, changes, **parts)), code
        seen += len(called)
    assert seen > 100


def acting(code: types.CodeType) -> list[tuple[object, ...]]:
    """Each instruction that does anything: its name, its argument or where it jumps, its position and its handler."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in {"EXTENDED_ARG", "NOP"}]
    numbers = {step.offset: index for index, step in enumerate(steps)}
    return [
        (
            step.opname,
            _index(numbers, step.argval) if step.opcode in dis.hasjrel else step.arg,
            step.positions,
            next((numbers.get(each.target) for each in _handlers(code) if each.start <= step.offset < each.end), None),
        )
        for step in steps
    ]


def _index(numbers: dict[int, int], offset: int) -> int:
    """The instruction to which a jump leads, past what does nothing and what extends its argument."""
    return numbers[min(each for each in numbers if each >= offset)]


@of_python
def test_what_is_read_briefly_is_what_the_steps_say(files):
    seen = 0
    for code in codes_in(files):
        for does in ("global", "attribute", "is", "match class"):
            brief = [(each.value, each.called, each.offset) for each in briefly(code) if each.does == does]
            steps = [step for step in instructions.instructions(code) if step.does == does]
            named = does in {"global", "attribute"}
            assert brief == [(step.value if named else None, step.called, step.offset) for step in steps], code
            seen += len(brief)
        read = {each.offset: each.value for each in briefly(code) if each.does == "const"}
        told = {step.offset: step.value for step in instructions.instructions(code) if step.does == "const"}
        assert told.items() >= {at: read[at] for at in read.keys() & told.keys()}.items()  # a call has its names
    assert seen > 1000


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("name", SOURCES)
def test_code_of_any_other_length_does_the_same(name):
    """Each instruction that loads a constant follows 300 others that do nothing: all jumps are far."""
    original, again = function(SOURCES[name]), function(SOURCES[name])
    again.__code__ = longer(again.__code__)
    for value in (0, 1, 3, True, 2.5, "a"):
        assert result(again, value) == result(original, value), value


def longer(code: types.CodeType) -> types.CodeType:
    """The code, and those inside it, with many instructions more."""
    steps = [step for step in dis.get_instructions(code) if step.opname == "LOAD_CONST"]
    changes = {step.offset: [("pass", 0)] * 300 + [("const", step.arg)] for step in steps}
    inner = tuple(longer(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return assembled(code, changes, co_consts=inner)


def test_on_a_python_whose_instructions_are_unknown_nothing_is_rewritten(monkeypatch):
    """Nothing is read of the code either: each branch counts as having an effect, and the report says so."""

    class Halves(torch.nn.Module):
        def forward(self, x, mask=None):
            if x.shape[0] > 4 and mask is not None:
                x = x + 1
            return x[: int(x.shape[0] / 2)]

    def checked(least):
        return check(Halves(), (torch.ones(5),), dynamic_shapes=({0: Dim("n", min=least, max=5)},))

    known = checked(2)
    for module in (instructions, raised, handlers, rewriting):
        monkeypatch.setattr(module, "READ", False)
    caches = [raised.named_handlers, raised.has_other_handlers, rewriting.rewritten]
    caches += [rewriting.catches, rewriting._compared]
    try:
        for each in caches:
            each.cache_clear()
        unknown = checked(2)
        assert known.status == "proved"
        assert unknown.statistics["traces"] > known.statistics["traces"]
        assert [note for note in unknown.notes if "is not rewritten" in note] != []
        assert not any("is not rewritten" in note for note in known.notes)
        assert instructions.instructions(checked.__code__) == ()
    finally:
        for each in caches:
            each.cache_clear()
