"""One exporter on one entry, in a process forked for it from one that has exported a small model before (prepared.py).

Seconds are processor time, memory is what the process held beyond the model at most. Then the program runs beside
eager at the entry's points. What is refused is exported again with the repair that the report proves.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import multiprocessing
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from shapeproof.export import check
from zoo.declared import FORMS
from zoo.entry import Entry, Point
from zoo.families import ENTRIES

MEGABYTE = 2**20


def attempt(exporter: str, name: str, form: str = "dims") -> dict[str, Any]:
    """Export the entry, declared in this form, compare, and say what happened."""
    entry = ENTRIES[name]
    torch.manual_seed(0)
    model = entry.model(False).eval()  # noqa: FBT003 - at the small size
    eager = copy.deepcopy(model)  # an export may leave its fakes in the attributes of a model
    kwargs = entry.at(entry.example)
    given = {"args": (), "kwargs": kwargs, **FORMS[form](entry, model, kwargs)}
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins again, here
    before, start = _held("VmRSS"), time.process_time()
    found, program = (_torch if exporter == "torch" else _ours)(model, given)
    found["megabytes"] = round((_held("VmHWM") - before) / MEGABYTE)
    if program is not None:
        found |= compare(entry, eager, program)
    if exporter == "shapeproof" and "repair" in found:
        found["repair"] |= _repaired(entry, eager, given, found.pop("report"))
    found.pop("report", None)
    return {"seconds": round(found.pop("ended") - start, 2)} | found


def _torch(model: torch.nn.Module, given: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    taken = {name: each for name, each in given.items() if name != "constraints"}
    try:
        program = torch.export.export(model, **taken)
    except Exception as error:  # noqa: BLE001 - a refusal is a result, whatever its type
        return {"status": "rejects", "said": _said(error), "ended": time.process_time()}, None
    return {"status": "exported", "ended": time.process_time()}, program


def _ours(model: torch.nn.Module, given: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    try:
        report = check(model, **given)
    except Exception as error:  # noqa: BLE001 - a crash is a result
        return {"status": "raises", "said": _said(error), "ended": time.process_time()}, None
    ended = time.process_time()
    found: dict[str, Any] = {"status": report.status, "ended": ended, "contract": list(report.domain)}
    found |= {name: report.statistics[name] for name in ("regions", "traces") if name in report.statistics}
    if report.status != "proved":
        found["why"] = [_finding(each) for each in report.diagnostics if each.severity != "note"][:3]
        found["repair"] = {}
        found["report"] = report
    return found, report.program


def _finding(each: Any) -> dict[str, Any]:
    line = f"{_short(each.file)}:{each.line}" if each.file else ""
    help_ = [f"{one.text} ({one.proof})" for one in each.help]
    notes = [f"{one.label} {one.text}" for one in each.notes]
    return {"id": each.id, "says": each.message, "line": line, "notes": notes[:4], "help": help_[:2]}


def _short(path: str) -> str:
    return re.sub(r".*/site-packages/", "", path).replace(f"{Path.cwd()}/", "")


def _said(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _short(f"{type(error).__name__}: {' '.join(lines[:3])}"[:400])


def _repaired(entry: Entry, model: torch.nn.Module, given: dict[str, Any], report: Any) -> dict[str, Any]:
    """Export again with the repair, and compare at the points that are left."""
    found = report.repair()
    if found is None:
        return {}
    declared = {"dynamic_shapes": found.dynamic_shapes, "constraints": found.constraints}
    said = {"code": list(found.code), "constraints": list(found.constraints)}
    again = check(model, **(given | declared))
    if again.program is None:
        return said | {"status": again.status}
    compared = compare(entry, model, again.program, accepted=lambda kwargs: bool(again.accepts(**kwargs)))
    return said | {"status": again.status} | compared


def compare(
    entry: Entry, model: torch.nn.Module, program: Any, accepted: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any]:
    """Run the program beside eager, each time on copies; say how often they agree, and where they do not."""
    counts: Counter[str] = Counter()
    examples: dict[str, Point] = {}
    for point in entry.points():
        if accepted(entry.at(point)):
            kind = _beside(model, program.module(), functools.partial(entry.at, point))
            counts[kind] += 1
            examples.setdefault(kind, point)
    return {"beside_eager": dict(counts), "at": {kind: at for kind, at in examples.items() if kind != "agrees"}}


def _beside(model: torch.nn.Module, program: Any, inputs: Callable[[], dict[str, Any]]) -> str:
    want, got = _outcome(copy.deepcopy(model), inputs()), _outcome(program, inputs())
    if isinstance(want, Exception):
        return "both raise" if isinstance(got, Exception) else "returns where eager raises"
    if isinstance(got, Exception):
        return "refuses"
    return "agrees" if len(want) == len(got) and all(map(_alike, want, got)) else "differs"


def _outcome(run: Callable[..., Any], inputs: dict[str, Any]) -> list[Any] | Exception:
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            return [each for each in pytree.tree_leaves(run(**inputs)) if each is not None]
    except Exception as error:  # noqa: BLE001 - whatever it raises, it refuses
        return error


def _alike(want: Any, got: Any) -> bool:
    if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
        return bool(want == got)
    if want.shape != got.shape or want.dtype != got.dtype:
        return False
    return torch.allclose(want, got, rtol=1e-3, atol=1e-4, equal_nan=True)


def _held(what: str) -> int:
    """Bytes that the process holds now (VmRSS), or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


def prepare() -> None:
    """Export a small model: the first export of a process pays for imports and caches."""
    import transformers.modeling_utils  # noqa: F401 - it takes seconds

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dims = ({0: torch.export.Dim("n", min=1, max=9)},)
    for export in (torch.export.export, check):
        export(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=dims)


def apart(exporter: str, name: str, form: str, limit: float) -> dict[str, Any]:
    """Attempt it in a process of its own, which is ended at the limit."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zoo.prepared"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, exporter, name, form), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()  # it has begun: the first one waits until the server is prepared
        if not ours.poll(limit):
            return {"status": "not ended", "seconds": limit}
        found: dict[str, Any] = ours.recv()
    except EOFError:
        return {"status": "fails", "seconds": 0.0, "said": "the process ended without a word"}
    finally:
        process.kill()
        process.join()
    return found


def _send(to: Connection, exporter: str, name: str, form: str) -> None:
    to.send("begun")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere), torch.no_grad():
        try:
            found = attempt(exporter, name, form)
        except Exception as error:  # noqa: BLE001 - the entry is at fault, or this code; the others go on
            found = {"status": "fails", "seconds": 0.0, "said": _said(error)}
    to.send(found)
