"""Replaces torch's DimConstraints, which collects constraints for torch's own solver."""

from __future__ import annotations

import sympy


class NoConstraints:
    """The object that torch's exporter consults after tracing in place of DimConstraints; it has no constraints."""

    def solve(self) -> None:
        """Do nothing: shapeproof's solver handles constraints."""

    def forced_specializations(self) -> dict[str, sympy.Expr]:
        """Return no specializations: in shapeproof, a specialization is a decision."""
        return {}

    def prettify_results(self, *_: object) -> str:
        """Return no text: shapeproof builds its diagnostics elsewhere."""
        return ""
