"""A served model as HTML: its programs, their regions and the sizes seen drawn, misses with reasons, what to declare.

The same tables and plots as a report's (export/report/region_map.py, seen/plots.py): no script or address.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.intervals import hull
from shapeproof.constraints.terms import symbol
from shapeproof.export.report.region_map import RegionMap
from shapeproof.seen import Seen
from shapeproof.seen.joint import seen_sizes
from shapeproof.seen.plots import SeenSize, plot_html, steps_html
from shapeproof.serve.misses import Miss
from shapeproof.serve.programs import Program, by_key
from shapeproof.solver.facts import Facts
from shapeproof.tables import table
from shapeproof.wording import values_text

if TYPE_CHECKING:
    from shapeproof.serve.on_demand import Served


def served_html(run: Served, profiles: Mapping[Hashable, Seen]) -> str:
    """Return the report on what was served so far; `profiles`: the profile of the calls of each form and modes."""
    misses = run.misses
    name = type(run.model).__name__
    counts = f"{run.calls} calls, {run.missed} missed, {run.traced} traced, {len(run.programs)} programs kept"
    parts = [f"<div><b>{escape(name)}</b> {counts}</div>"]
    parts += [table(("program", "serves"), ((str(each.number), ", ".join(each.domain)) for each in run.programs))]
    parts += [drawn for group in by_key(run.programs).values() if (drawn := _regions(group)._repr_svg_())]
    parts += [plot_html(_beside(seen, key, run.programs)) for key, seen in profiles.items()]
    rows = ((str(each.call), values_text(each.sizes), each.outcome, str(each)) for each in misses)
    parts += [table(("call", "missed", "came to", "why"), rows)]
    parts += [steps_html([each.call for each in misses], run.calls) if misses else ""]
    parts += [f"<div>{escape(each)}</div>" for each in savings(misses)]
    return "\n".join(part for part in parts if part)


def served_page(run: Served, profiles: Mapping[Hashable, Seen]) -> str:
    """Return the report as a complete page."""
    head = f'<meta charset="utf-8"><title>{escape(type(run.model).__name__)}</title>'
    return f"<!doctype html>\n<html><head>{head}</head><body>\n{served_html(run, profiles)}\n</body></html>\n"


def _beside(seen: Seen, key: Hashable, programs: Sequence[Program]) -> list[SeenSize]:
    """The sizes that varied in calls of a form, each with the range that the programs of the form serve together."""
    own = [each for each in programs if each.key == key]
    names = {name: own_name for own_name, name in own[0].flat.names.items()} if own else {}
    sizes = seen_sizes(seen.joints)
    known = [Facts(each.flat.formulas) for each in own]
    return [
        replace(each, served=hull(facts.range_of(names[each.name]) for facts in known)) if each.name in names else each
        for each in sizes
    ]


def _regions(programs: Sequence[Program]) -> RegionMap:
    """The domains of programs as regions; what holds in all of them is the domain of the map."""
    names = programs[0].flat.names
    shared = frozenset[Formula].intersection(*(frozenset(each.flat.formulas) for each in programs))
    own = [tuple(each for each in program.flat.formulas if each not in shared) for program in programs]
    equal = {name for each in shared if isinstance(each, f.Compare) and each.op == "==" for name in each.symbols}
    varying = {name for name in names if name not in equal}  # the others have the same value in all programs
    varying = varying.union(*(each.symbols for formulas in own for each in formulas))
    domain = [each for each in shared if each.symbols and each.symbols <= varying]
    domain += [f.ge(symbol(each), 0) for each in sorted(varying)]
    return RegionMap(tuple(f.conjunction(*formulas) for formulas in own), tuple(dict.fromkeys(domain)), (), names)


def savings(misses: Sequence[Miss]) -> Iterator[str]:
    """Say in a sentence how many traces one declaration would have saved; the misses are in order."""
    traced = [miss for miss in misses if miss.outcome == "traced" and miss.about_sizes]
    declared = next((miss.declare for miss in reversed(traced) if miss.declare), None)
    if declared:
        number = f"{len(traced)} trace{'s' if len(traced) > 1 else ''}"
        yield f"declared ahead, {declared} would have saved {number}: the first call has all programs made"
