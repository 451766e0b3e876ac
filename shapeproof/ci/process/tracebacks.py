"""The place in the user's code of an exception or crash: as a sentence, as its last frames, or as a whole traceback.

Frames of this package, torch, installed packages and the standard library are not the user's.
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
from shapeproof.ci.process.digests import INSTALLED
from shapeproof.constraints.errors import UsageError
from shapeproof.wording import short, with_kind

_PACKAGE = f"{Path(shapeproof.__file__).parent}/"
_LIBRARIES = (*INSTALLED, _PACKAGE)
_SHOWN = 5
"""Number of frames that are shown."""
_WIDTH = 120
_FATAL = "Fatal Python error: "
"""The first words that `faulthandler` writes when a process crashes."""
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def sentence(what: str, error: BaseException) -> str:
    """Describe a failure: `what`, the last line of the traceback, and the user's file and line."""
    frames = _own(traceback.extract_tb(error.__traceback__))
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{what}: {with_kind(error)}{place}"


def told(error: UsageError, *, whole: bool) -> str:
    """Return the message followed by the user's frames; `whole`: by the traceback of the user's code."""
    cause = error.__cause__
    if cause is None:
        return str(error)
    if whole:
        found = traceback.format_exception(type(cause), cause, _without_ours(cause.__traceback__))
        return f"{error}\n{''.join(found).rstrip()}"
    return "\n".join([str(error), *_lines(traceback.extract_tb(cause.__traceback__))])


def crashed(printed: str, folder: str, *, whole: bool) -> tuple[str, str]:
    """Split the output of a crashed process into the text before the crash and lines that show where it crashed."""
    words, fatal, rest = printed.rpartition(_FATAL)
    if not fatal:
        return printed, ""
    if whole:
        return words, f"\n{fatal}{rest.rstrip()}"
    frames = [FrameSummary(file, int(line), name) for file, line, name in reversed(_FRAME.findall(rest))]
    return words, "".join(f"\n{line}" for line in _lines(frames, folder))


def _lines(frames: Iterable[FrameSummary], folder: str = "") -> list[str]:
    """Return the last frames of the user's code, the innermost last; paths are relative to `folder` if it is given."""
    own = _own(frames)
    hidden = [f"  ... {len(own) - _SHOWN} more"] if len(own) > _SHOWN else []
    return [*hidden, *(_line(frame, folder) for frame in own[-_SHOWN:])]


def _line(frame: FrameSummary, folder: str) -> str:
    source = linecache.getline(frame.filename, frame.lineno or 0).strip()
    file = short(frame.filename.removeprefix(f"{folder}/" if folder else ""))
    text = f"  --> {file}:{frame.lineno} in {frame.name}   {source}".rstrip()
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."


def _own(frames: Iterable[FrameSummary]) -> Sequence[FrameSummary]:
    """Return the frames in the user's files, or else the innermost frame in an installed package other than torch."""
    real = [frame for frame in frames if Path(frame.filename).exists()]
    own = [frame for frame in real if not frame.filename.startswith(_LIBRARIES)]
    return own or [frame for frame in real if _is_of_a_package(frame.filename)][-1:]


def _is_of_a_package(file: str) -> bool:
    _, _, inside = file.rpartition("/site-packages/")
    return inside != file and not inside.startswith("torch/")


def _without_ours(found: TracebackType | None) -> TracebackType | None:
    """Drop the leading frames of this package from a traceback; keep the traceback if it has only such frames."""
    theirs = found
    while theirs is not None and theirs.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        theirs = theirs.tb_next
    return theirs or found
