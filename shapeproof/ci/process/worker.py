"""A process that checks one model: reads a job and writes progress and the answer, on one channel.

    python -m shapeproof.ci.process.worker BEGIN CHANNEL

BEGIN is the current time in nanoseconds: a file that changed later may differ from the content that was read. Text that
the user's code prints is not part of the answer. When CHANNEL is closed, the caller is gone, and the process ends at
once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shapeproof.ci.jobs import ANSWER, JOB, Accepted, Answer, Job, Result
from shapeproof.ci.process.frames import Channel
from shapeproof.ci.process.processes import TOKEN, end_all
from shapeproof.ci.process.recorder import Recorder
from shapeproof.ci.process.spec_help import in_spec
from shapeproof.ci.process.subjects import (
    Subject,
    beside,
    call_target,
    check_subject,
    load_subject,
    questions_told,
    refused,
)
from shapeproof.ci.process.tracebacks import told
from shapeproof.ci.specs.dims import conditions, parse_size
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.source.declared_at import Where
from shapeproof.seen import Seen

if TYPE_CHECKING:
    from shapeproof.ci.specs.spec import Found, Status


def main() -> None:
    """Answer one job."""
    faulthandler.enable(all_threads=False)
    begin, descriptor = map(int, sys.argv[1:])
    recorder = Recorder(begin)
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keywords
    channel = Channel(descriptor)
    heard = channel.hear()
    job = JOB.validate_python(next(heard))
    threading.Thread(target=_end_with_the_asker, args=[heard], daemon=True).start()

    started = time.monotonic()
    try:
        with beside():
            result = _verdict(job, lambda text: channel.say({"progress": text}), started)
    except UsageError as error:
        result = Result(None, told(error, whole=job.traceback), seconds=time.monotonic() - started)
    channel.say({"answer": ANSWER.dump_python(Answer(result, recorder.sources()))})


def _verdict(job: Job, progress: Any, begin: float) -> Result:
    progress(f"loading {job.target}")
    if job.operator:
        return _operator_verdict(job, progress, begin)
    subject = _subject(job)
    progress("checking")
    with questions_told(progress) if job.verbose else contextlib.nullcontext():
        report = check_subject(subject, progress)
    from shapeproof.export.report.saved import saved_report  # loads torch, as the model has by now

    report = dataclasses.replace(report, diagnostics=in_spec(report.diagnostics, job))
    return Result(
        status=cast("Status", report.status),
        text=str(report),
        diagnostics=report.diagnostics,
        contract=Accepted(
            inputs={name: list(sizes) for name, sizes in report.inputs.items()},
            domain=report.domain,
            regions=tuple(report.regions),
            bounds=tuple(map(str, report.bounds)),
            peak_bytes_bound=report.peak_bytes_bound,
            shipped=report.contract,
        ),
        notes=report.notes,
        seconds=time.monotonic() - begin,
        report=saved_report(report),
    )


def _operator_verdict(job: Job, progress: Any, begin: float) -> Result:
    operator = call_target(job.target)
    inputs, relations = _inputs(job)
    progress("checking")
    with refused("the operator could not be checked"):
        from shapeproof.operators import check_operator

        report = check_operator(operator, (), inputs | job.values, constraints=relations)
    status = cast("Found", report.status)
    return Result(status, str(report), report.diagnostics, notes=report.notes, seconds=time.monotonic() - begin)


def _subject(job: Job) -> Subject:
    """The model of a job, with inputs from the job or from the target."""
    if job.inputs is None:
        found, relations = load_subject(job.target), job.relations
    else:
        model = call_target(job.target)
        inputs, relations = _inputs(job)
        found = Subject(model, (), inputs, None)
    return dataclasses.replace(
        found,
        constraints=(*found.constraints, *relations),
        narrow=job.narrow,
        splitting=job.splitting,
        where=functools.partial(_where, job, found.where),
        seen=None if job.seen is None else Seen.load(Path(job.root, job.seen)),
    )


def _inputs(job: Job) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The tensors that the job declares, and the relations between their sizes."""
    declared = job.inputs or {}
    with refused("the exporter cannot be loaded"):
        import torch

        from shapeproof.export import TensorSpec
    dims = {name: _torch_dim(name, job) for name in job.dims}
    inputs = {
        name: TensorSpec(getattr(torch, given.dtype), tuple(_torch_size(size, dims) for size in given.dims))
        for name, given in declared.items()
    }
    stated = ((key, text) for name, dim in job.dims.items() for key, text in conditions(name, dim))
    demanded = [text for key, text in stated if key not in {"min", "max"}]  # which torch's Dim has, too
    return inputs, (*demanded, *job.relations)


def _where(job: Job, elsewhere: Where, name: str) -> SourceLocation | None:
    """The line of the spec that declares a dim, relation or size; `elsewhere` finds other declarations."""
    lines = [line for text, line in job.lines.items() if text == name or text.startswith(f"{name} == ")]
    return SourceLocation(str(Path(job.root, job.spec)), lines[0]) if lines else elsewhere(name)


def _torch_dim(name: str, job: Job) -> Any:
    from shapeproof.export import Dim

    bounds = {key: value for key in ("min", "max") if (value := getattr(job.dims[name], key)) is not None}
    with refused(f"dim `{name}` cannot be declared"):
        return Dim(name, **bounds)


def _torch_size(size: int | str, dims: dict[str, Any]) -> Any:
    """Return a size as torch.export declares it."""
    if isinstance(size, int):
        return size
    derived = parse_size(size)
    dim = dims[derived.name]
    scaled = dim if derived.step == 1 else derived.step * dim
    return scaled if derived.offset == 0 else scaled + derived.offset


def _end_with_the_asker(heard: Iterator[Any]) -> None:
    """Wait until the channel is closed, then kill this process and every process that the model has started."""
    for _ in heard:
        pass
    end_all(os.getpid(), os.environ.get(TOKEN, ""))
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
