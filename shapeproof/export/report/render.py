"""Renders a report as text: plain, and of bounded width. The caller may add colour."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shapeproof.constraints.records.diagnostics import Diagnostic, Help
from shapeproof.wording import place_text

if TYPE_CHECKING:
    from shapeproof.export.report.report import Report

WIDTH = 100
BOUNDS = 8
"""The maximal number of tensors shown with sizes from data."""
SHOWN = 10
"""The most findings that are all told whole, if no other number is asked for."""
WHOLE = "whole in report.html() and by `shapeproof explain --show {}`"
FEW = 3
"""The most sizes or errors that a reader counts at a glance."""
SERVED = {"proved", "undecided"}
"""The verdicts with a program, whose accepted inputs are shown."""


def render(report: Report, width: int = WIDTH, show: int = SHOWN) -> str:
    """Return the whole report; of more than `show` findings, some are told in short."""
    parts = findings_text(report.diagnostics, width, show)
    parts += [_wrap(f"note: {note}", width, "      ") for note in report.notes]
    parts.append(summary(report, width))
    return "\n".join(parts)


def summary(report: Report, width: int = WIDTH) -> str:
    """Return the last lines: the verdict with its counts, the domain, the regions and the bounds."""
    counts = ", ".join(sized(count, name) for name, count in report.statistics.items() if count)
    if len(report.diagnostics) > FEW:
        counts = f"{sized(len(report.diagnostics), 'findings')}; {counts}"
    lines = [_wrap(f"{report.status}: {counts}" if counts else report.status, width, "  ")]
    if report.domain and report.status in SERVED:
        lines += [_wrap(f"  for every input with {', '.join(report.domain)}", width, "    ")]
        erased = "asserted in the graph; torch.onnx and ExecuTorch erase assertions: ship report.save() with them"
        lines += [_wrap(f"  {erased}", width, "    ")]
    if report.status in SERVED:
        lines += [_wrap(f"  region {number}   {text}", width, "    ") for number, text in enumerate(report.regions, 1)]
    return "\n".join([*lines, *_bounds_text(report, width)])


def _bounds_text(report: Report, width: int) -> list[str]:
    """Return the lines of the tensors with a size from data, one for each form."""
    forms = {(bound.dtype, bound.sizes, bound.missing): bound for bound in reversed(report.bounds)}
    shown = list(reversed(forms.values()))
    lines = [
        _fitting(f"  {'from data' if not index else '':<11}{bound}", width)
        for index, bound in enumerate(shown[:BOUNDS])
    ]
    if len(shown) > BOUNDS:
        lines.append(f"  {'':<11}and {len(shown) - BOUNDS} more forms in report.bounds")
    return lines


def sized(count: int, name: str) -> str:
    """Return a count with its noun: `1 question about sizes`, `2 traces`, `3 settled in place`."""
    first, space, rest = name.partition(" ")
    return f"{count} {first.removesuffix('s') if count == 1 else first}{space}{rest}"


def findings_text(found: Sequence[Diagnostic], width: int = WIDTH, show: int = SHOWN) -> list[str]:
    """Return the findings as texts: all whole, or if they are more than `show`, those of one id at one line together.

    Then the first of each group is told whole, and of the others what is required, and their help. In the groups after
    the first `show`, no more than that is told of any.
    """
    if len(found) <= show:
        return [diagnostic_text(each, width) for each in found]
    groups: dict[tuple[str | int | None, ...], list[Diagnostic]] = {}
    for each in found:
        groups.setdefault((each.severity, each.id, each.file, each.line), []).append(each)
    texts = [_group_text(group, width, whole=number < show) for number, group in enumerate(groups.values())]
    cut = len(found) - min(len(groups), show)
    return [*texts, _wrap(f"note: {sized(cut, 'findings')} in short; {WHOLE.format(len(found))}", width, "      ")]


def _group_text(group: Sequence[Diagnostic], width: int, *, whole: bool) -> str:
    """Return the findings of one id at one line: the first one whole, or none."""
    first, *rest = group
    if whole and not rest:
        return diagnostic_text(first, width)
    named = rest if whole else group
    required = "; ".join(map(_required, named))
    more = sized(len(named), "findings")
    head = replace(first, help=()) if whole else Diagnostic(first.id, more, first.severity, first.file, first.line)
    label = f"{more} more at this line: " if whole else ""
    lines = [diagnostic_text(head, width), _wrap(f"   = {'required':<9} {label}{required}", width, " " * 16)]
    return "\n".join([*lines, *(line for each in group for help_ in each.help for line in _help_lines(help_, width))])


def _required(diagnostic: Diagnostic) -> str:
    """Return what a finding requires, in one formula; its title, if no requirement is noted."""
    noted = (note.text.partition("   ")[0] for note in diagnostic.notes if note.label == "required")
    return next(noted, diagnostic.message)


def diagnostic_text(diagnostic: Diagnostic, width: int = WIDTH) -> str:
    """Return one diagnostic: title, place, declarations, requirement, observation, and help if there is any."""
    lines = [_wrap(f"{diagnostic.severity}[{diagnostic.id}]: {diagnostic.message}", width, "  ")]
    if diagnostic.file:
        source = linecache.getline(diagnostic.file, diagnostic.line or 0).strip()
        lines.append(_fitting(f"  --> {place_text(diagnostic.file, diagnostic.line)}   {source}".rstrip(), width))
    notes = [(note.label, note.text) for note in diagnostic.notes]
    if diagnostic.weakest is not None:
        notes.append(("weakest", on_one_line(diagnostic.weakest)))
    lines += [_wrap(f"   = {label:<9} {text}", width, " " * 16) for label, text in notes]
    lines += [line for help_ in diagnostic.help for line in _help_lines(help_, width)]
    return "\n".join(lines)


def page_command(name: str) -> str:
    """Return the command that prints the page of a diagnostic."""
    return f"shapeproof rule {name}"


def pointers(diagnostics: Iterable[Diagnostic]) -> str:
    r"""Return a line for each kind of diagnostic with the command for its page; each begins with a line feed.

    >>> from shapeproof.constraints.records.diagnostics import Diagnostic
    >>> pointers([Diagnostic("divides", "a"), Diagnostic("divides", "b")])
    '\ndivides: what it means, and what to do: shapeproof rule divides'
    """
    names = dict.fromkeys(diagnostic.id for diagnostic in diagnostics)
    return "".join(f"\n{name}: what it means, and what to do: {page_command(name)}" for name in names)


def _help_lines(help_: Help, width: int) -> list[str]:
    """Return the lines of a help: code to paste keeps its lines at any width; the proof follows if it fits."""
    first, *rest = help_.text.splitlines()
    code = [f"help: {first}", *(f"      {line}" for line in rest)]
    proof = f"({help_.proof})"
    if len(code[-1]) + 3 + len(proof) <= width:
        return [*code[:-1], f"{code[-1]}   {proof}"]
    return [*code, _wrap(f"      {proof}", width, "       ")]


def on_one_line(help_: Help) -> str:
    r"""Return a help on one line, where a diagnostic only mentions it.

    >>> from shapeproof.constraints.records.diagnostics import Help
    >>> on_one_line(Help('constraints=[\n    "n <= 8",\n]', "proved, too"))
    'constraints=["n <= 8"]   (proved, too)'
    """
    code = " ".join(line.strip() for line in help_.text.splitlines())
    return f"{code.replace('[ ', '[').replace(', ]', ']')}   ({help_.proof})"


def _fitting(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 4] + " ..."


def _wrap(text: str, width: int, indent: str) -> str:
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
