"""A second opinion on SMT-LIB questions by cvc5. cvc5 is an optional extra, used only here."""

from __future__ import annotations

from importlib.util import find_spec

from shapeproof.solver.smt.session import Answer

_RESOURCES = 500_000
"""The limit on cvc5's resource counter for one script: about half a second on a laptop of 2025."""


def available() -> bool:
    """True if the extra is installed."""
    return find_spec("cvc5") is not None


def solve(script: str) -> Answer:
    """Return cvc5's answer to an SMT-LIB script, within a resource limit and with a fixed seed.

    Raises:
        ValueError: the text is not SMT-LIB.
    """
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("rlimit-per", str(_RESOURCES))
    solver.setOption("seed", "0")
    solver.setLogic("ALL")
    parser = cvc5.InputParser(solver)
    try:
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "claim")
        while not (command := parser.nextCommand()).isNull():
            command.invoke(solver, parser.getSymbolManager())
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    result = solver.checkSat()
    return Answer.SAT if result.isSat() else Answer.UNSAT if result.isUnsat() else Answer.UNKNOWN
