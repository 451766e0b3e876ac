"""cvc5 beside Z3: a second opinion on questions written as SMT-LIB. An optional extra; nothing else here needs it."""

from __future__ import annotations

from importlib.util import find_spec

from shapeproof.solver.smt.session import Answer

_RESOURCES = 500_000
"""What cvc5 may spend on one script, by its own counter: about half a second on a laptop of 2025."""


def available() -> bool:
    """Whether the extra is installed."""
    return find_spec("cvc5") is not None


def solve(script: str) -> Answer:
    """cvc5's answer to an SMT-LIB script as it stands, within a resource limit and with a fixed seed.

    Raises:
        ValueError: it is not SMT-LIB.
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
