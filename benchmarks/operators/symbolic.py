"""Holds torch's own operators against their fakes where sizes are symbols, as `check_operator` does for a user's.

    python -m benchmarks.operators.symbolic MOST CALL...

Each operator is called by one of a namespace of its own, whose kernel and whose fake are the operator's. One call of
each: its sizes are dynamic from 0 on. One line of JSON for each thing that is found.
"""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import Dim

from benchmarks.operators.batch import SECONDS, Late, late, mark, say
from benchmarks.operators.calls import Call, make_tensor, resolve
from shapeproof.export.ops.schemas import schema_of
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.operators import check_operator

_BEYOND = 1
"""How far above its value in the call a size may go."""

_library = torch.library.Library("sweep", "DEF")


def twin(operator: Any) -> Any:
    """An operator that is not torch's own, with kernel and fake of one that is."""
    name = operator.name().replace("::", "_").replace(".", "_")
    _, _, arguments = str(schema_of(operator)).partition("(")
    _library.define(f"{name}({arguments}")
    _library.impl(name, _calling(operator), "CPU")
    torch.library.register_fake(f"sweep::{name}", _calling(operator), lib=_library)
    return getattr(torch.ops.sweep, name).default


def _calling(operator: Any) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    return called


def declared(call: Call, chosen: Sequence[int]) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """The arguments of a call, and which of their sizes are dynamic, by the names that the operator gives them."""
    dims = {size: Dim(f"d{size}", min=0, max=size + _BEYOND) for size in chosen}
    args, kwargs = call.make(make_tensor)

    def entry(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return {index: dims[size] for index, size in enumerate(value.shape) if size in dims} or None
        return [entry(each) for each in value] if isinstance(value, list) else None

    names = [each.name for each in schema_of(resolve(call.op)).arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    shapes = {name: entry(value) for name, value in given.items()}
    other = "self_" if "input" in names else "input"
    return args, kwargs, {other if name == "self" else name: each for name, each in shapes.items()}


def verdict(call: Call) -> dict[str, Any]:
    """What is found of the operator of a call: all its sizes are dynamic, or else one after the other."""
    sizes = sorted({size for text in call.tensors for size in text["sizes"]})
    operator, found = twin(resolve(call.op)), {"status": "no size to declare", "compared": 0, "said": ""}
    for chosen in dict.fromkeys([tuple(sizes), *((each,) for each in sizes)]) if sizes else ():
        try:
            args, kwargs, shapes = declared(call, chosen)
            report = check_operator(operator, tuple(args), kwargs, dynamic_shapes=shapes)
        except Exception as error:  # noqa: BLE001 - what cannot be followed is said
            found = {"status": "not followed", "compared": 0, "said": f"{type(error).__name__}: {error}"[:200]}
            continue
        said = "; ".join(" ".join((each.message, *(note.text for note in each.notes))) for each in report.diagnostics)
        found = {"status": report.status, "compared": report.compared, "said": said[:400]}
        if any(each.id == "operator" for each in report.diagnostics):
            return found | {"status": "fault"}
        if report.compared:
            return found
    return found


def sweep(text: str) -> None:
    """Check the operator of a call, which is given as JSON."""
    call = Call(**json.loads(text))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with warnings.catch_warnings(), quiet():
            warnings.simplefilter("ignore")
            found = verdict(call)
    except Late:
        found = {"status": "late", "compared": 0, "said": ""}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    say("symbolic", call=vars(call), **found)


def main(calls: list[str]) -> None:
    """Check the operators of the calls that are given."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGVTALRM, late)
    for text in calls[1:]:
        say("begin", name=text)
        mark(str(Call(**json.loads(text))))
        sweep(text)


if __name__ == "__main__":
    main(sys.argv[1:])
