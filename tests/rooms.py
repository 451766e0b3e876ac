"""Which room imports which, read off the source; docs/architecture.md shows it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.layering import ROOMS, at_run_time, imported_names, module_name

ROOT = Path(__file__).parents[1]
EXPORT_ROOMS = ("shim", "source", "declare", "ops", "graph", "trace", "explore", "report", "build", "verify", "forms")
"""From the bottom up; `verify` is the file of the main path, and above all stand the files that users call."""


def picture() -> str:
    """The rooms as a diagram for Mermaid: an arrow where a room imports another and no longer way leads there."""
    imports = _imports(_room)
    direct = [(a, b) for a in ROOMS for b in imports[a] if not any(b in _below(c, imports) for c in imports[a] - {b})]
    return "\n".join(["graph TD", *(f"    {a} --> {b}" for a, b in sorted(direct, key=_place))])


def matrix() -> str:
    """How many modules of a room of `export`, the row, import something of another, the column, when they run.

    What stands above the diagonal would go against the order.
    """
    counts = {a: dict.fromkeys(EXPORT_ROOMS, 0) for a in EXPORT_ROOMS}
    for path in (ROOT / "shapeproof" / "export").rglob("*.py"):
        here = _export_room(_dotted(path))
        for there in _reached(path, _export_room) - {here, None}:
            if here is not None and there is not None:
                counts[here][there] += 1
    width = max(map(len, EXPORT_ROOMS))
    head = " ".join(["imports".ljust(width), *(room.rjust(len(room)) for room in EXPORT_ROOMS)])
    rows = (
        " ".join([a.ljust(width), *(("·" if a == b else str(counts[a][b] or "")).rjust(len(b)) for b in EXPORT_ROOMS)])
        for a in EXPORT_ROOMS
    )
    return "\n".join(line.rstrip() for line in (head, *rows))


def upward(counted=at_run_time):
    """The arrows between rooms of `export` that go against the order."""
    return {
        (here, there)
        for path in (ROOT / "shapeproof" / "export").rglob("*.py")
        if (here := _export_room(_dotted(path))) is not None
        for there in {
            _export_room(name) for name in imported_names(counted(path.read_text(encoding="utf-8")), _dotted(path))
        }
        if there is not None and EXPORT_ROOMS.index(there) > EXPORT_ROOMS.index(here)
    }


def running():
    """Which modules each module of the package imports when it runs, inside functions too.

    What only type checkers import is left out: an annotation names the class of what it is given, and loads nothing.
    """
    paths = {_dotted(path): path for path in (ROOT / "shapeproof").rglob("*.py")}
    texts = {name: at_run_time(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    return {name: (imported_names(text, name) & paths.keys()) - {name} for name, text in texts.items()}


def _place(arrow):
    return tuple(map(ROOMS.index, arrow))


def _below(room, imports):
    """A room and all that it imports, directly or not."""
    return {room} | {other for each in imports[room] for other in _below(each, imports)}


def _imports(room_of):
    found = defaultdict(set)
    for path in (ROOT / "shapeproof").rglob("*.py"):
        here = room_of(_dotted(path))
        found[here] |= _reached(path, room_of) - {here, None}
    return found


def _reached(path, room_of):
    return {room_of(name) for name in imported_names(at_run_time(path.read_text(encoding="utf-8")), _dotted(path))}


def _dotted(path):
    return module_name(path, ROOT)


def _room(name):
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "shapeproof" and parts[1] in ROOMS else None


def _export_room(name):
    parts = name.split(".")
    return parts[2] if len(parts) > 2 and parts[:2] == ["shapeproof", "export"] and parts[2] in EXPORT_ROOMS else None
