"""What was found when a file was run: the verdict, and how far it reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shapeproof.constraints.errors import ShapeproofError
from shapeproof.export.report.render import sized
from shapeproof.wording import values_text


@dataclass(frozen=True)
class Verdict:
    """The outcome of `ship` or `verify`; `str()` is a text of a few lines, `dataclasses.asdict` gives data for JSON.

    Attributes:
        status: "same": the file does what eager does at every compared point. "differs": it does not at `sizes`.
            "refuses": it raises at `sizes`, which are in the domain. "undecided": nothing was compared with eager.
            From the command line also the status of a model that is not proved, with its report as the text.
        file: the file.
        made_by: the tool that made the file, with its release; empty for a file that exists.
        run_by: the package that ran the file, with its release.
        ran: the number of points of the domain (a size for each dim) at which the file was run.
        compared: at how many of them results were compared.
        raised: at how many of them eager raised on the data that were made, so that nothing was compared.
        refused: at how many points outside of the domain the file raised.
        computed: at how many points outside of the domain it gave results.
        sizes: the smallest sizes that were run and at which it differs or refuses, by the user's names.
        text: how it differs, or what it raised.
        beside: what the file was compared with.
    """

    status: str
    file: str
    made_by: str = ""
    run_by: str = ""
    ran: int = 0
    compared: int = 0
    raised: int = 0
    refused: int = 0
    computed: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    beside: str = "eager"

    def __str__(self) -> str:
        if not self.run_by:
            return self.text
        lines = [f"made by {self.made_by}"] if self.made_by else []
        lines.append(f"run by {self.run_by} at {sized(self.ran, 'points')} of the domain")
        if self.refused or self.computed:
            lines[-1] += f"; of others it refused {self.refused} and computed {self.computed}"
        if self.raised:
            lines.append(f"at {sized(self.raised, 'points')} {self.beside} raised on the data that were made")
        return "\n".join([*lines, f"{self.status}: {self._sentence}"])

    @property
    def _sentence(self) -> str:
        at = f"at {values_text(self.sizes) or 'the sizes of the example'}"
        match self.status:
            case "same":
                return f"{self.file} does what {self.beside} does at {sized(self.compared, 'points')}"
            case "differs":
                return f"{self.file} does something else than {self.beside} {at}: {self.text}"
            case "refuses":
                return f"{self.file} raises {at}, which is in the domain: {self.text}"
            case _:
                given = sized(self.ran - self.raised, "points")
                return f"nothing was compared with eager; {self.file} gives results at {given} of the domain"


class FileDiffers(ShapeproofError):
    """The consumer's file does not do what eager does, and was not kept; `verdict` says where."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.verdict = verdict
