"""What the cheap steps claimed, written down so that Z3 can prove it again.

Inside `with audit() as auditor:` every rewrite by facts, every bound that settled a comparison and every consequence
that was drawn on learning leaves a Claim. `auditor.check()` proves each with Z3 from the facts alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.terms import Term
    from shapeproof.solver.knowledge import Knowledge


def note(rule: str, known: Knowledge, before: Term, after: Term) -> None: ...
def note_truth(rule: str, known: Knowledge, formula: Formula, verdict: bool) -> None: ...
def note_fact(known: Knowledge, formula: Formula) -> None: ...
def note_definition(known: Knowledge, name: str, definition: Term) -> None: ...
def note_solution(known: Knowledge, left: Term, right: Term) -> None: ...
