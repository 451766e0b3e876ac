"""Where the user's own code was when it raised, or when its process crashed: a sentence, its last frames, or all of it.

Frames of this package, of torch, of what is installed and of the standard library are not the user's.
"""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from traceback import FrameSummary
from types import TracebackType

import shapeproof
from shapeproof.ci.provenance.identity import INSTALLED
from shapeproof.constraints.errors import UsageError
from shapeproof.wording import short

_PACKAGE = f"{Path(shapeproof.__file__).parent}/"
_LIBRARIES = (*INSTALLED, _PACKAGE)
_SHOWN = 5
"""Frames that are shown."""
_WIDTH = 120
_FATAL = "Fatal Python error: "
"""How that begins which `faulthandler` writes when a process crashes."""
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def sentence(what: str, error: BaseException) -> str:
    """What could not be done, and why: the error as the last line of a traceback shows it, and the user's line."""
    frames = _own(traceback.extract_tb(error.__traceback__))
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{what}: {_first_line(error)}{place}"


def told(error: UsageError, *, whole: bool) -> str:
    """The sentence, and by which lines of the user's it came to that; `whole`: the traceback of the user's code."""
    cause = error.__cause__
    if cause is None:
        return str(error)
    if whole:
        found = traceback.format_exception(type(cause), cause, _without_ours(cause.__traceback__))
        return f"{error}\n{''.join(found).rstrip()}"
    return "\n".join([str(error), *_lines(traceback.extract_tb(cause.__traceback__))])


def crashed(printed: str, folder: str, *, whole: bool) -> tuple[str, str]:
    """What a process in a folder printed before it crashed, and where it was then, as lines that follow a sentence."""
    words, fatal, rest = printed.rpartition(_FATAL)
    if not fatal:
        return printed, ""
    if whole:
        return words, f"\n{fatal}{rest.rstrip()}"
    frames = [FrameSummary(file, int(line), name) for file, line, name in reversed(_FRAME.findall(rest))]
    return words, "".join(f"\n{line}" for line in _lines(frames, folder))


def _first_line(error: BaseException) -> str:
    """Of a message of many lines, the first that says something; an error of the user's may fail to say anything."""
    try:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    except Exception:  # noqa: BLE001 - `__str__` is the user's code
        first = ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _lines(frames: Iterable[FrameSummary], folder: str = "") -> list[str]:
    """The last frames of the user's, the innermost last; files as seen from a folder, or else from here."""
    own = _own(frames)
    hidden = [f"  ... {len(own) - _SHOWN} more"] if len(own) > _SHOWN else []
    return [*hidden, *(_line(frame, folder) for frame in own[-_SHOWN:])]


def _line(frame: FrameSummary, folder: str) -> str:
    source = linecache.getline(frame.filename, frame.lineno or 0).strip()
    file = short(frame.filename.removeprefix(f"{folder}/" if folder else ""))
    text = f"  --> {file}:{frame.lineno} in {frame.name}   {source}".rstrip()
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."


def _own(frames: Iterable[FrameSummary]) -> Sequence[FrameSummary]:
    """The frames in the user's files; where there are none, the innermost in an installed package but torch."""
    real = [frame for frame in frames if Path(frame.filename).exists()]
    own = [frame for frame in real if not frame.filename.startswith(_LIBRARIES)]
    return own or [frame for frame in real if _is_of_a_package(frame.filename)][-1:]


def _is_of_a_package(file: str) -> bool:
    _, _, inside = file.rpartition("/site-packages/")
    return inside != file and not inside.startswith("torch/")


def _without_ours(found: TracebackType | None) -> TracebackType | None:
    """The traceback from where this package called something else; as it is, where it did not."""
    theirs = found
    while theirs is not None and theirs.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        theirs = theirs.tb_next
    return theirs or found
