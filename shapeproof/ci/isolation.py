"""Runs a job in a process of its own, so that a model that crashes takes nothing with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO, Self, cast

from shapeproof.ci.jobs import ANSWER, Answer, Job, Result


class Worker:
    """The process of a job. When the context ends, it and all that it has begun are gone."""

    def __init__(self, job: Job) -> None:
        self._begin = time.monotonic()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the context
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shapeproof.ci.worker", str(time.time_ns())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=job.root,
            start_new_session=True,  # an interrupt at the terminal is ours to handle
        )
        self._questions = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)
        self._job = job

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        for stream in (self._questions, self._answers, self._errors):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def kill(self) -> None:
        """End the process and all that it has begun at once, from any thread; its exit status, if it has one, stays."""
        if self._process.returncode is None:  # afterwards its number may be somebody else's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def answer(self, progress: Callable[[str], None]) -> Answer:
        """Wait for the answer. If the process ends without one, that is the answer."""
        with contextlib.suppress(BrokenPipeError):
            self._questions.write(self._job.model_dump_json().encode() + b"\n")
            self._questions.flush()
        for line in self._answers:
            message = json.loads(line)
            if "answer" in message:
                return ANSWER.validate_python(message["answer"])
            progress(message["progress"])
        self.kill()  # it has ended, for nothing else closes the pipe; what it has begun may not have
        return Answer(Result(None, self._ending(self._process.wait()), seconds=time.monotonic() - self._begin))

    def _ending(self, code: int) -> str:
        """Why there is no answer."""
        if code == -signal.SIGKILL:
            return "the process was killed (SIGKILL), as happens where memory runs out"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        return f"the process ended {how} before there was a verdict{self._last_words()}"

    def _last_words(self) -> str:
        """The last line on stderr, without what a terminal would take for a command."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {''.join(filter(str.isprintable, last))}" if last else ""
