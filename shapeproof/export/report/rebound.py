"""Words what a model rebinds in its inputs: an error if a caller would miss it, else a note on the output to use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Note
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.rebound import Seen
from shapeproof.export.report.explain import in_user_terms
from shapeproof.export.report.report import Report
from shapeproof.export.trace.rebinding import Left, Rebinding
from shapeproof.wording import line_text, values_text

SHOWN = 4
"""The maximal number of outputs that a note names."""


def lost(left: Left, seen: Seen, inputs: Inputs, point: Point) -> list[Diagnostic]:
    """Return a diagnostic for each input in which the model rebinds something that it does not return."""
    groups = _by_argument(each for each in left.rebound if each.is_lost)
    return [_diagnostic(argument, group, seen, inputs, point) for argument, group in groups]


def _by_argument(rebound: Iterable[Rebinding]) -> list[tuple[str, list[Rebinding]]]:
    groups: dict[str, list[Rebinding]] = {}
    for each in rebound:
        groups.setdefault(each.argument, []).append(each)
    return list(groups.items())


def _diagnostic(argument: str, group: Sequence[Rebinding], seen: Seen, inputs: Inputs, point: Point) -> Diagnostic:
    first = group[0]
    named = in_user_terms(point, inputs.user_names)
    sizes = values_text(named) or "the example"
    missing = "returns it as another output elsewhere, or not at all" if first.sometimes else "does not return it"
    eager, program = (_described(held.leaves, first.leaf) for held in (seen.after, seen.before))
    leaves = f"{eager} there, the program {program}" if eager != program else f"another {eager} there"
    return Diagnostic(
        id="rebinding",
        message=f"the model {_does(group, seen)} and {missing}",
        severity="error",
        notes=(
            Note(
                "required",
                f"return `{argument}`: a program is given the values in it, and leaves `{argument}` as it is",
            ),
            Note("fails at", f"{sizes}   replayed; eager leaves {leaves}"),
        ),
        witness=named,
    ).at(seen.lines.get(first.leaf))


def _does(group: Sequence[Rebinding], seen: Seen) -> str:
    """Say which places are rebound: `rebinds `c.k` and 2 more in the input `c``."""
    first = group[0]
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    if first.leaf not in seen.after.leaves:
        return f"takes `{first.place}`{more} out of the input `{first.argument}`"
    if first.leaf not in seen.before.leaves:
        return f"adds `{first.place}`{more} to the input `{first.argument}`"
    return f"rebinds `{first.place}`{more} in the input `{first.argument}`"


def _described(leaves: Mapping[str, Any], name: str) -> str:
    if name not in leaves:
        return "nothing"
    value = leaves[name]
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def rebinding_notes(left: Left, seen: Seen) -> Iterator[str]:
    """Yield notes on the places that eager changes and the program does not, and the output to use instead."""
    for argument, group in _by_argument(each for each in left.rebound if each.output is not None):
        what = f"the model {_does(group, seen)}{_at(seen, group[0].leaf)}"
        yield f"{what}; the program leaves `{argument}` as it is: use {_instead(group)}"
    for each in left.rebound:
        if each.output is None and each.copied and each.leaf in seen.lines:
            yield f"the model puts a copy in the place of `{each.place}`{_at(seen, each.leaf)}; the program does not"
    places = [place for place in left.unseen if place in seen.lines]
    if places:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        what = f"the model changes `{places[0]}`{more}{_at(seen, places[0])}"
        yield f"{what}, which torch does not take for a part of the input; the program does not"


def _instead(group: Sequence[Rebinding]) -> str:
    """Name the outputs that hold the values that eager leaves in an input."""
    outputs = list(dict.fromkeys(each.output for each in group))
    if len(outputs) == 1:
        return f"`{outputs[0]}`"
    named = ", ".join(f"`{each.output}` for `{each.place}`" for each in group[:SHOWN])
    return named if len(group) <= SHOWN else f"{named}, ..."


def _at(seen: Seen, name: Hashable) -> str:
    where = seen.lines.get(name)
    return f" ({line_text(where)})" if where else ""


def offering_return(report: Report, missed: Sequence[str], returning: Callable[[Sequence[str]], Report]) -> Report:
    """Return the report, with the help to return the changed inputs if that is proved to suffice."""
    if not missed or any(each.id != "rebinding" for each in report.diagnostics):
        return report
    if returning(missed).status != "proved":
        return report
    names = ", ".join(missed)
    help_ = Help(f"return ..., {names}", "proved: these outputs are then what eager leaves there")
    return replace(report, diagnostics=tuple(replace(each, help=(help_,)) for each in report.diagnostics))
