"""The report on an operator: the verdict, how it was reached, and one diagnostic per fault."""

from __future__ import annotations

from dataclasses import dataclass

from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.export.report.render import diagnostic_text, sized


@dataclass(frozen=True)
class OperatorReport:
    """The outcome of `check_operator`; `str()` is the rendered text.

    Attributes:
        operator: the operator's name, `namespace::name.overload`.
        status: "proved": the kernel, which is Python over torch's operators, returns what the fake says at every
            declared size. "agrees": no run differs, and nothing is proved. "refuted": a run differs. "undecided": a
            size from data has no stated bound, or the budget ran out. "vacuous": no input satisfies the declarations.
        diagnostics: the faults, each with the sizes of a run that shows it.
        results: dtype and sizes of each result according to the fake, over the declared sizes; one text per region.
        compared: the number of inputs at which the operator was run and compared with its fake.
        notes: why a verdict is not stronger.
    """

    operator: str
    status: str
    diagnostics: tuple[Diagnostic, ...] = ()
    results: tuple[str, ...] = ()
    compared: int = 0
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True for "proved" and "agrees"."""
        return self.status in {"proved", "agrees"}

    def __str__(self) -> str:
        lines = [diagnostic_text(each) for each in self.diagnostics]
        lines += [f"note: {each}" for each in self.notes]
        lines += [f"{self.operator} gives {each}" for each in self.results]
        return "\n".join([*lines, f"{self.status}: {self.operator} {self._reached}"])

    @property
    def _reached(self) -> str:
        runs = f"run at {sized(self.compared, 'inputs')}"
        if self.status == "proved":
            return f"is what its fake says at every declared size; {runs}"
        if self.status == "agrees":
            return f"is what its fake says where it was {runs}; not proved"
        return runs
