"""The decision procedure: proved, refuted with a witness, undecided, or vacuous. The only room that uses Z3.

the ladder   cheap steps first, then Z3             prove.py, cases.py, search.py
facts        the facts in force; unsat cores        facts.py, history.py, clash.py
work         limits of a question; its cost         budget.py, ledger.py
learned/     consequences of facts, without a solver
sampled/     points at which the facts hold
functions/   doubles, bits, powers
smt/         one question to Z3
answers/     witnesses, bounds, repairs, simpler words
proofs/      certificates, and their recheck

Public names are imported on first use, so that importing the package does not load Z3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.lazily import imported

if TYPE_CHECKING:
    from shapeproof.solver.answers.blame import reasons as reasons
    from shapeproof.solver.answers.optimum import greatest_lower_bound as greatest_lower_bound
    from shapeproof.solver.answers.optimum import least_upper_bound as least_upper_bound
    from shapeproof.solver.answers.repair import repaired as repaired
    from shapeproof.solver.answers.repair import repairs as repairs
    from shapeproof.solver.answers.simplify import simplified as simplified
    from shapeproof.solver.answers.witness import find as find
    from shapeproof.solver.answers.witness import generic as generic
    from shapeproof.solver.answers.witness import smallest as smallest
    from shapeproof.solver.budget import Budget as Budget
    from shapeproof.solver.facts import Facts as Facts
    from shapeproof.solver.learned.audit import auditing as auditing
    from shapeproof.solver.prove import Truth as Truth
    from shapeproof.solver.prove import decide as decide
    from shapeproof.solver.prove import prove as prove
    from shapeproof.solver.prove import truth as truth

__all__, __getattr__ = imported(
    __name__,
    {
        ".answers.blame": "reasons",
        ".answers.optimum": "greatest_lower_bound least_upper_bound",
        ".answers.repair": "repaired repairs",
        ".answers.simplify": "simplified",
        ".answers.witness": "find generic smallest",
        ".budget": "Budget",
        ".facts": "Facts",
        ".learned.audit": "auditing",
        ".prove": "Truth decide prove truth",
    },
)
