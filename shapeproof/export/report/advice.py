"""Suggests the check that settles a question about data: the weakest one, in the user's words, proved to settle it.

A suggestion appears only under three conditions. The solver has proved that the known facts and the check imply the
answer that the program needs. Some input passes the check. Each number in the check has a name at the line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.records.diagnostics import Help, Note
from shapeproof.constraints.syntax.printing import REAL_INFIX
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export.explore.demands.preconditions import left_by
from shapeproof.export.explore.findings import Finding
from shapeproof.export.source.names import fresh_name, statement_of
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import find, smallest
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from shapeproof.wording import line_text, place_text, values_text

_WRITABLE = f.Compare | f.RealCompare | f.Or | t.Term | t.Symbol | t.FloorDiv | t.Min | t.Max
_FLOATS = t.RealSymbol | t.RealConstant | t.FromInt


def advice(finding: Finding, trial: Trial, names: Mapping[str, str]) -> tuple[Help, ...]:
    """Return the check that settles a finding about data; nothing if no such check can be written and proved.

    `names` are the user's names for the sizes of inputs. The help says so if no data pass the check at some sizes.
    """
    known = trial.facts_before(finding.decision.formula)
    needed = simplified([finding.requirement], known)
    parts = [part for each in needed for part in each.conjuncts]
    there = _there(finding, parts, trial)
    passing = known.assuming(*parts)
    if there is None or not (isinstance(find(f.TRUE, passing), dict) and implied(finding.requirement, passing)):
        return ()
    checks = (f"torch._check({check_text(part, there.names, trial.data_point.flags)})" for part in parts)
    line = f"before {place_text(there.file, there.line)}{there.means}"
    proof = f"{line}; proved to settle the question{_elsewhere(passing, trial, names)}"
    return (Help("; ".join([*there.bindings, *checks]), proof),)


def _elsewhere(passing: Facts, trial: Trial, names: Mapping[str, str]) -> str:
    """Say at which sizes some data pass a check, unless they do at all sizes."""
    sizes = {name for name in trial.point if name not in trial.data_point.origins}
    left = left_by(passing, trial.known, sizes)
    texts = [format_formula(formula, rename=names) for formula in left]
    return f" where {' and '.join(texts)}: no data pass it elsewhere" if texts else ""


@dataclass(frozen=True, slots=True)
class _There:
    """A place for checks, and the names of the numbers there; `bindings` name the numbers that had no name."""

    file: str
    line: int
    names: Mapping[str, str]
    bindings: Sequence[str]
    means: str


def _there(finding: Finding, parts: Sequence[Formula], trial: Trial) -> _There | None:
    """Return where the parts can be written: the question's line, or the line that reads the only number from data.

    A number without a name at the question's line must be read from data in the same statement.
    """
    asked = frozenset[str]().union(*(part.symbols for part in parts))
    names = dict(trial.questions.names.get(finding.decision.formula, {}))
    nameless = sorted(asked - names.keys())
    taken = [(name, trial.data_point.origins[name]) for name in nameless if name in trial.data_point.origins]
    numbers = [(name, each.user, each.number) for name, each in taken if each.user and each.number]
    where = numbers[0][1] if numbers and len(asked) == 1 else finding.decision.where
    if (
        where is None
        or len(numbers) < len(nameless)
        or not all(_is_writable(node) for part in parts for node in postorder(part))
    ):
        return None
    line = statement_of(where.file, where.line)
    bindings, means = [], []
    for name, user, number in numbers:
        if (user.file, statement_of(user.file, user.line)) != (where.file, line):
            return None
        names[name] = fresh_name(number, names.values())
        bindings.append(f"{names[name]} = {number.expression}")
        means.append(f", where `{names[name]}` then stands for `{number.written}`")
    return _There(where.file, line, names, bindings, "".join(means))


def _is_writable(node: Node) -> bool:
    """True if Python code on symbolic numbers means the same as the node; `n * 1.5` rounds n as `float(n)` does."""
    arithmetic = isinstance(node, t.RealCall) and (node.op == "neg" or node.op in REAL_INFIX)
    return arithmetic or isinstance(node, _WRITABLE | _FLOATS)


def check_text(formula: Formula, names: Mapping[str, str], flags: Collection[str] = ()) -> str:
    """Write a condition as an argument of torch._check: `|` for `or`, and torch.sym_min for `min`.

    `flags`: the symbols that stand for bools; these are written without a comparison.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> check_text(parse_formula("u0 <= min(n, 3) or u0 >= 9"), {"u0": "rows", "n": "x.shape[0]"})
    '(rows >= 9) | (rows <= torch.sym_min(x.shape[0], 3))'
    """
    if isinstance(formula, f.Compare) and formula.symbols <= frozenset(flags) and len(formula.symbols) == 1:
        (name,) = formula.symbols
        return names[name] if holds(formula, {name: 1}) else f"torch.sym_not({names[name]})"
    if isinstance(formula, f.Or):
        return " | ".join(f"({check_text(part, names, flags)})" for part in formula.args)
    if isinstance(formula, f.RealCompare) and formula.negated:
        return f"torch.sym_not({check_text(formula.negation, names)})"
    text = re.sub(r"\b(?:real|float)\(([\w.\[\]]+)\)", r"\1", format_formula(formula, rename=names))
    return re.sub(r"\b(min|max)\(", r"torch.sym_\1(", text)


def data_notes(finding: Finding, trial: Trial, names: Mapping[str, str]) -> list[Note]:
    """Return notes on a question about data: the smallest numbers for each answer, and origins of unnamed numbers."""
    known = trial.facts_before(finding.decision.formula)
    both = _both_ways(finding.requirement, known, trial, names)
    return [*both, *_sources(finding.requirement, trial, names)]


def _both_ways(required: Formula, known: Facts, trial: Trial, names: Mapping[str, str]) -> list[Note]:
    shown = sorted(required.symbols | {name for name in trial.point if name not in trial.data_point.origins})
    notes = []
    for label, formula in (("true at", required), ("false at", required.negation)):
        point = smallest(formula, known, shown)
        if isinstance(point, dict):
            values = values_text({name: point[name] for name in shown if name in point}, names)
            notes.append(Note(label, values))
    return notes


def _sources(required: Formula, trial: Trial, names: Mapping[str, str]) -> list[Note]:
    unnamed = sorted(name for name in required.symbols if name in trial.data_point.origins and name not in names)
    places = [(name, trial.data_point.origins[name]) for name in unnamed]
    return [Note(name, _taken_at(each.user, each.framework), each.user) for name, each in places if each.user]


def _taken_at(user: SourceLocation, torchs: SourceLocation | None) -> str:
    """Say where a number is taken from data, and by which line of torch's modules, if any."""
    within = f"; torch asks for it at {line_text(torchs)}   {torchs.text}" if torchs else ""
    return f"is taken from data at {line_text(user)}   {user.text}{within}"
