"""Help in the words of a spec: lines for its tables, in place of Python.

A narrowed dim is written with the keys of its table where these can express it; the rest becomes relations of the
model. The lines state exactly what the help requires, which was proved to suffice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from shapeproof.ci.jobs import Job
from shapeproof.ci.specs.dims import conditions
from shapeproof.ci.specs.spec import Dim
from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.diagnostics import Diagnostic, Help
from shapeproof.constraints.records.domain import ranges, residue
from shapeproof.constraints.syntax.text import format_formula, parse_formula
from shapeproof.wording import listed

_KEYS = ("min", "max", "multiple_of", "one_of")


def in_spec(diagnostics: Iterable[Diagnostic], job: Job) -> tuple[Diagnostic, ...]:
    """Reword the help of a job's diagnostics for its spec, if the spec declares the inputs.

    The relations of a model are one list, so each help repeats the relations of the previous help.
    """
    if job.inputs is None:
        return tuple(diagnostics)
    relations, found = list(job.relations), []
    for diagnostic in diagnostics:
        helps = [_reworded(help_, job, relations) for help_ in diagnostic.help]
        weakest = diagnostic.weakest and _reworded(diagnostic.weakest, job, list(job.relations))
        found.append(replace(diagnostic, help=tuple(filter(None, helps)), weakest=weakest))
    return tuple(found)


def _reworded(help_: Help, job: Job, relations: list[str]) -> Help | None:
    """Return the help as lines of the spec, or None if no line changes; append its relations to `relations`."""
    if not help_.requires:
        return help_
    parts = [part for text in help_.requires for part in parse_formula(text).conjuncts]
    lines, joint = list[str](), [part for part in parts if len(part.symbols) != 1]
    for name in sorted({name for part in parts if part not in joint for name in part.symbols}):
        after, left = narrowed(name, job.dims[name], [part for part in parts if part.symbols == {name}])
        said = list(_entries(job.dims[name], after))
        lines += [f"[{_table(job)}dims.{name}]", *said] if said else []
        joint += left
    if joint:
        relations += [text for part in joint if (text := format_formula(part)) not in relations]
        lines += [f"[{_table(job)}models.{_key(job.model)}]", *listed("relations = ", map(json.dumps, relations))]
    return replace(help_, text="\n".join(lines)) if lines else None


def narrowed(name: str, dim: Dim, parts: Sequence[Formula]) -> tuple[Dim, list[Formula]]:
    """Narrow a dim to the parts that its keys can express; return the dim and the remaining parts."""
    bounds, step, left = Interval(dim.min, dim.max), dim.multiple_of or 1, list[Formula]()
    for part in parts:
        interval, rest = ranges([part]).get(name), residue(name, part)
        if interval is not None:
            bounds &= interval
        elif rest is not None and rest[1] == 0:
            step = math.lcm(step, rest[0])
        else:
            left.append(part)
    values = _values(name, dim, bounds, left)
    demanded = (*parts, *(parse_formula(text) for _, text in conditions(name, dim)))
    kept = [value for value in values or () if all(holds_at(each, {name: value}) for each in demanded)]
    if kept:
        return dim.model_copy(update={"one_of": kept}), []
    if values is not None:
        return dim, list(parts)
    changed = {"min": bounds.lower, "max": bounds.upper, "multiple_of": step if step > 1 else dim.multiple_of}
    return dim.model_copy(update=changed), left


def _values(name: str, dim: Dim, bounds: Interval, parts: Sequence[Formula]) -> list[int] | None:
    """Return the values that a dim can then have, if they are few and known."""
    if dim.one_of is not None:
        return dim.one_of
    if bounds.single is not None:
        return [bounds.single]
    for part in parts:
        values = [ranges([arg]).get(name, Interval()).single for arg in part.args] if isinstance(part, f.Or) else []
        if values and None not in values:
            return sorted({value for value in values if value is not None})
    return None


def _entries(before: Dim, after: Dim) -> Iterator[str]:
    """The lines of a dim's table that change."""
    for key in _KEYS:
        value = getattr(after, key)
        if value != getattr(before, key):
            yield from listed(f"{key} = ", map(str, value)) if key == "one_of" else [f"{key} = {value}"]


def _table(job: Job) -> str:
    """Return the prefix of each table name in the file."""
    return "tool.shapeproof." if job.spec == "pyproject.toml" else ""


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
