"""Fills the templates of the page with reports."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from shapeproof.constraints.errors import UsageError
from shapeproof.contract.contract import INPUTS, input_rows
from shapeproof.export.report.page.sources import counted, place_of, sources_of
from shapeproof.export.report.render import SERVED, page_command, sized
from shapeproof.files import sha256
from shapeproof.seen.plots import svg
from shapeproof.wording import line_text

if TYPE_CHECKING:
    from shapeproof.export.report.report import Report

WAYS = {
    "refuted": "at some declared sizes the answer differs, and eager raises or the program does something else",
    "undecided": "the solver's budget ran out: this is not a pass",
    "from data": "a check on data, made at run time as eager makes it",
    "traced": "declared sizes have both answers; the other one was looked at apart",
    "in place": "the operator that asks gives the same result with either answer",
    "follows": "from what is known of the part of the domain that is traced; elsewhere the answer may differ",
    "proved": "for all sizes of the domain that come here",
}
"""How questions are settled, in the words of the legend."""


@dataclass(frozen=True)
class Section:
    """A report on a page: its title, or without a report what is said instead.

    `beside` has the lines of a text and of what became of it.
    """

    title: str
    report: Report | None
    status: str
    text: str = ""
    beside: tuple[tuple[str, str], ...] = ()


def page(title: str, sections: Sequence[Section], dims: Sequence[str] = ()) -> str:
    """Return sections as one complete page; `dims` are those that are drawn.

    Raises:
        UsageError: there are no such dims.
    """
    shown = [_view(each, f"m{number}", dims) for number, each in enumerate(sections, 1)]
    text = _templates().get_template("page.html").render(title=title, sections=shown, style=_style())
    return text.encode("utf-8", "backslashreplace").decode()


def fragment(report: Report) -> str:
    """Return a report for a notebook: what the page has, without its head."""
    key = f"r{sha256(str(report))[:8]}"  # a notebook shows several
    view = _view(Section(title_of(report), report, report.status), key)
    return _templates().get_template("notebook.html").render(section=view, style=_style())


def title_of(report: Report) -> str:
    """Return the name of the model, where the report knows it."""
    about = () if report.answers is None else report.answers.about
    return next((line.removeprefix("model: ") for line in about if line.startswith("model: ")), "report")


@functools.cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters["marked"] = _marked
    made.globals |= {"ways": WAYS, "command": page_command, "place_text": line_text}
    return made


@functools.cache
def _style() -> Markup:
    """Return the style sheet, with the colours of code on a light and on a dark ground."""
    from pygments.formatters import HtmlFormatter

    own = Environment(loader=PackageLoader(__package__), autoescape=False).get_template("style.css")  # noqa: S701 - no HTML
    light, dark = (HtmlFormatter(style=name).get_style_defs(".shapeproof code") for name in ("xcode", "github-dark"))
    return Markup(own.render(light=_of_tokens(light), dark=_of_tokens(dark)))  # noqa: S704 - it is ours


def _of_tokens(rules: str) -> str:
    """Return the rules of single kinds of words, without those of the whole block."""
    return "\n".join(line for line in rules.splitlines() if re.match(r"\.shapeproof code \.\w+ {", line))


def _view(section: Section, key: str, dims: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return what the template of a report shows; `key` begins each id in it."""
    report = section.report
    if report is None:
        return {"section": section, "key": key, "report": None}
    files = sources_of(report)
    return {
        "section": section,
        "key": key,
        "report": report,
        "served": report.status in SERVED,
        "counts": [sized(count, name) for name, count in report.statistics.items() if count],
        "sources": files,
        "numbers": {source.file: at for at, source in enumerate(files, 1)},
        "places": [place_of(each) for each in report.diagnostics],
        "unplaced": [each for each in report.questions if each.where is None],
        "unplaced_counts": counted(each for each in report.questions if each.where is None),
        "findings": sized(len(report.diagnostics), "findings"),
        "ways_met": [how for how in WAYS if any(each.settled == how for each in report.questions)],
        "before": list(dict.fromkeys(_declarations(report))),
        "after": list(dict.fromkeys(help_.text for each in report.diagnostics for help_ in each.help)),
        "inputs": _inputs(report),
        "regions": [(number, text) for number, text in enumerate(report.regions, 1)],
        "bounds": [(each.name, each.dtype, ", ".join(each.sizes), each.missing) for each in report.bounds],
        "spent": [(name.replace("_", " "), f"{number:,}") for name, number in report.spent.items()],
        "pictures": list(_pictures(report, dims)),
    }


def _inputs(report: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the titles and rows of the inputs: the sizes, and the dtype where the contract has it."""
    if report.contract is None:
        return ("input", "sizes"), [(name, ", ".join(sizes)) for name, sizes in report.inputs.items()]
    return INPUTS, input_rows(report.contract)


def _declarations(report: Report) -> Iterator[str]:
    """Yield what the findings name as declared, without its line."""
    for each in (note for diagnostic in report.diagnostics for note in diagnostic.notes if note.label == "declared"):
        yield each.text.rpartition("   at ")[0] or each.text


def _pictures(report: Report, dims: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each drawing as the address of an image that holds it, or the sentence that says why there is none."""
    witnesses = [each.witness for each in report.diagnostics if each.witness]
    if report.regions.domain:
        named = "the domain" if not report.regions else "the domain and its regions"
        yield f"{named}, over sizes", _image(lambda: report.regions.svg(dims, witnesses), required=bool(dims))
    if report.seen:
        yield "sizes seen beside sizes served", _image(lambda: svg(report.seen))


def _image(drawn: Any, *, required: bool = False) -> str:
    """Return an SVG as the address of an image, or the reason why there is none.

    Raises:
        UsageError: there is none, and it is required.
    """
    from base64 import b64encode

    try:
        return f"data:image/svg+xml;base64,{b64encode(drawn().encode()).decode()}"
    except UsageError as error:
        if required:
            raise
        return str(error)


def _marked(text: str) -> Markup:
    """Return a text with the parts between backticks as code.

    >>> _marked("`n < 1` holds")
    Markup('<code>n &lt; 1</code> holds')
    """
    return Markup("").join(_parts(text.split("`")))


def _parts(texts: Iterable[str]) -> Iterator[Markup]:
    for index, text in enumerate(texts):
        yield Markup("<code>{}</code>").format(text) if index % 2 else escape(text)
