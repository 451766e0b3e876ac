"""Stands where torch keeps what its own solver of constraints is to be asked: nothing is solved here, or by torch."""

from __future__ import annotations

import sympy


class NoConstraints:
    """What torch's exporter consults after tracing in place of its own DimConstraints: there is nothing to solve."""

    def solve(self) -> None:
        """Nothing: constraints are the solver's business."""

    def forced_specializations(self) -> dict[str, sympy.Expr]:
        """None: a specialization is a decision."""
        return {}

    def prettify_results(self, *_: object) -> str:
        """No text: diagnostics are built elsewhere."""
        return ""
