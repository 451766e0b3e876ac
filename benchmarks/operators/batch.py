"""Sweeps some operators in a process of its own, which a kernel may end. One line of JSON for each thing that is found.

python -m benchmarks.operators.batch MOST NAME...
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from typing import Any

import torch

from benchmarks.operators.calls import Call, NotTextError, quietly
from benchmarks.operators.samples import Sample, forms, function, samples
from benchmarks.operators.watching import Disagreement, Watching, differences, of_fake
from shapeproof.export.shim.trees import map_tensors

SECONDS = 40
"""Processor time that an operator may take; what is left of it is left out, and said."""


class Late(BaseException):
    """An operator has had its time."""


def late(*_: object) -> None:
    """End an operator.

    Raises:
        Late: always.
    """
    raise Late


def say(line: str, **more: Any) -> None:
    """Write a line."""
    print(json.dumps({"line": line, **more}), flush=True)


def sweep(name: str, most: int) -> None:
    """Run one operator on its samples."""
    apart = {op: run for op, run in torch.export.default_decompositions().items() if callable(run)}
    how = ""

    def found(disagreement: Disagreement) -> None:
        say("found", **disagreement.data() | {"how": how, "name": name})

    watching, count = Watching(found, apart), 0
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        for sample in samples(name, most):
            for form in forms(name):
                how, count = sample.how, count + 1
                mark(_text(form, sample))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _run(form, sample, watching, found)
    except Late:
        say("late", name=name, samples=count)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    say("done", name=name, samples=count, calls=watching.calls)
    for call in watching.seen.values():
        say("seen", call=vars(call))


def _run(form: str, sample: Sample, watching: Watching, found: Any) -> None:
    """The calls into operators, then the function as a whole: tracers see some in one piece."""
    run = function(form)
    given = map_tensors((sample.args, sample.kwargs), lambda each: each.detach())
    if form.endswith("!"):
        given = map_tensors(given, torch.clone)
    before = map_tensors(given, torch.clone) if form.endswith("!") else given
    torch.manual_seed(0)
    with watching:
        result, raised = quietly(run, *given)
    try:
        call = Call.of(f"op_db.{form}", *before)
    except NotTextError:
        return
    fake, faked, error = of_fake(run, *before)
    for kind, kernel, said in differences(given, result, raised, faked, fake, error):
        found(Disagreement(call, "fake", kind, kernel, said))


def _text(form: str, sample: Sample) -> str:
    try:
        return str(Call.of(f"op_db.{form}", sample.args, sample.kwargs))
    except NotTextError:
        return f"op_db.{form}: {sample.how}"


def mark(text: str) -> None:
    """Keep what is about to be run, for whoever finds that the process has ended."""
    os.pwrite(_MARK, text[:1999].ljust(2000).encode()[:2000], 0)


_MARK = os.open(os.environ.get("SWEEP_MARK", os.devnull), os.O_RDWR)


def main(arguments: list[str]) -> None:
    """Sweep the operators that are named."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGVTALRM, late)
    most, *chosen = arguments
    for name in chosen:
        say("begin", name=name)
        sweep(name, int(most))


if __name__ == "__main__":
    main(sys.argv[1:])
