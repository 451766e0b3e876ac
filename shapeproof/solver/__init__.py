"""Decides: proved, refuted with a witness, undecided, or vacuous. The only door to Z3.

Names are resolved when they are asked for, so that importing the package does not load Z3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.lazily import imported

if TYPE_CHECKING:
    from shapeproof.solver.audit import auditing as auditing
    from shapeproof.solver.blame import reasons as reasons
    from shapeproof.solver.budget import Budget as Budget
    from shapeproof.solver.facts import Facts as Facts
    from shapeproof.solver.optimum import greatest_lower_bound as greatest_lower_bound
    from shapeproof.solver.optimum import least_upper_bound as least_upper_bound
    from shapeproof.solver.prove import Truth as Truth
    from shapeproof.solver.prove import decide as decide
    from shapeproof.solver.prove import prove as prove
    from shapeproof.solver.prove import truth as truth
    from shapeproof.solver.repair import repaired as repaired
    from shapeproof.solver.repair import repairs as repairs
    from shapeproof.solver.simplify import simplified as simplified
    from shapeproof.solver.witness import find as find
    from shapeproof.solver.witness import generic as generic
    from shapeproof.solver.witness import smallest as smallest

_HOMES = {
    "Budget": ".budget",
    "Facts": ".facts",
    "Truth": ".prove",
    "auditing": ".audit",
    "decide": ".prove",
    "find": ".witness",
    "generic": ".witness",
    "greatest_lower_bound": ".optimum",
    "least_upper_bound": ".optimum",
    "prove": ".prove",
    "reasons": ".blame",
    "repaired": ".repair",
    "repairs": ".repair",
    "simplified": ".simplify",
    "smallest": ".witness",
    "truth": ".prove",
}

__all__ = list(_HOMES)

__getattr__ = imported(__name__, _HOMES)
