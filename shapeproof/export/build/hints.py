"""Chooses the hints of a program: example sizes that avoid special values.

A compiler may ask more than the trace did, mainly of a loaded program. It answers by the program's hints, and it nearly
always asks whether a size is 0 or 1, or equal to another. At the point of the trace a slice may be empty. At the point
chosen here, if the domain allows, all sizes are at least 2 and no two are equal by chance. Only hints change; no proof
relies on them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.build.assertions import asserted
from shapeproof.export.limits import RUNS
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace.known.known_sizes import proved_bounds
from shapeproof.export.trace.traced import env_of, translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.solver.answers.witness import grant
from shapeproof.solver.facts import Facts


def exemplify(program: torch.export.ExportedProgram, hints: Mapping[str, int]) -> None:
    """Set the hints of a traced program to unremarkable sizes, and those of marked sizes to the marks' hints."""
    env = env_of(program)
    if env is None:
        return
    wanted = {symbol(name): size for name, size in hints.items()}
    for free in env.backed_var_to_val if wanted else ():
        term = env.translator.term(free)
        env.var_to_hint_override |= {free: wanted[term]} if term in wanted else {}
    point = unremarkable(_sizes(program), env.trial.facts, env.trial.point)
    if point != env.trial.point:
        env.trial.data_point.values = point
        env.move(point)
        for number in _numbers(program):
            env.note_example(number)


def make_loadable(program: torch.export.ExportedProgram) -> None:
    """Have a file keep the sizes that are 0 or 1: torch.export.load makes a constant of one whose hint is 0 or 1.

    From here on no number has a hint that depends on such a size. Of a number that a check in a body leaves one value,
    the file says the value: a load that learns it from the check no longer finds where the number is taken.
    """
    env, ranges = env_of(program), program.range_constraints
    if env is None:
        return
    of_data = [free for free in ranges.keys() & env.terms.keys() if env.about_data(free)]
    held = Facts([formula for _, formula, _ in asserted(program)] if of_data else [])
    for free in of_data:
        bounds = proved_bounds(env.terms[free], held)
        if bounds.lower is not None and bounds.lower == bounds.upper:
            ranges[free] = symbols.value_range(bounds)
    small = [free for free in ranges if ranges[free].lower < ranges[free].upper == 1]
    for number in _numbers(program) if small else ():
        symbols.forget_hint(number, small)


def unremarkable(sizes: Sequence[Term], facts: Facts, point: dict[str, int]) -> dict[str, int]:
    """Find a point of the facts with as few sizes as possible that are 0, 1 or equal by chance.

    The given point is returned if it is good enough.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> from shapeproof.solver.facts import Facts
    >>> unremarkable([parse_term("max(n - 5, 0)")], Facts([parse_formula("n >= 0")]), {"n": 5})
    {'n': 7}
    """
    here, refused = facts.fork(), set[Formula]()
    here.learn(f.conjunction(*(wish for wish in _large(sizes) if holds(wish, point))))
    for _ in range(RUNS):
        wish = next((wish for wish in _wishes(sizes, point) if wish not in refused), None)
        if wish is None:
            break
        found = grant(wish, here)
        if found is None:
            refused.add(wish)
        else:
            point = point | found
    return point


def _large(sizes: Sequence[Term]) -> list[Formula]:
    return [f.ge(size, 2) for size in sizes if not size.is_constant]


def _wishes(sizes: Sequence[Term], point: Mapping[str, int]) -> Iterator[Formula]:
    """Yield the wishes that the point does not satisfy, the most important first."""
    values = [evaluate(size, point) for size in sizes]
    small = [wish for wish in _large(sizes) if not holds(wish, point)]
    yield from [f.conjunction(*small), *small] if small else ()
    first = dict(zip(reversed(values), reversed(sizes), strict=True))
    yield from (f.ne(size, first[value]) for size, value in zip(sizes, values, strict=True) if first[value] is not size)


def _sizes(program: torch.export.ExportedProgram) -> list[Term]:
    """Return the distinct sizes in a program that do not come from data."""
    translator, found = translator_of(program), list[Term]()
    sizes = (size for value in symbols.values(program) if isinstance(value, torch.Tensor) for size in value.shape)
    for size in sizes:
        with contextlib.suppress(Untranslatable):
            found += [] if symbols.about_data(size) else [translator.size(size)]
    return list(dict.fromkeys(found))


def _numbers(program: torch.export.ExportedProgram) -> Iterator[object]:
    for value in symbols.values(program):
        yield from (
            (*value.shape, *value.stride(), value.storage_offset()) if isinstance(value, torch.Tensor) else (value,)
        )
