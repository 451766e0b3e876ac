"""Runs a job in a process of its own, so that a model that crashes, hangs or babbles takes nothing with it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import IO, Self, cast

from shapeproof.ci.jobs import ANSWER, JOB, Answer, Job, Result
from shapeproof.ci.process.frames import Frames, GarbledError, frame
from shapeproof.ci.process.processes import end_all
from shapeproof.ci.process.tracebacks import crashed
from shapeproof.ci.provenance.identity import TOKEN

_TICK = 0.2
"""Seconds after which a process that has ended is noticed, though something that it has begun holds the channel."""
_MOMENT = 2.0
"""Seconds that a process takes to end, at most."""
_LAST_WORDS = 2**16
"""Bytes of what it prints that are kept."""
_SHOWN = 400
"""Characters of its last line that are shown."""

Progress = Callable[[str], None]


def answer(job: Job, progress: Progress, begun: Callable[[Worker], None] = lambda _: None) -> Answer:
    """The answer to a job. If its process gives none, why not. `begun` is told of the process."""
    try:
        with Worker(job) as worker:
            begun(worker)
            return worker.answer(progress)
    except OSError as error:
        return Answer(Result(None, f"no process can be started in {job.root}: {error.strerror}"))


class Worker:
    """The process of a job. When the context ends, it and all that it has begun are gone."""

    def __init__(self, job: Job) -> None:
        self._begin = time.monotonic()
        self._job = job
        self._token = uuid.uuid4().hex
        self._frames = Frames()
        self._words = b""
        self._doing = ""
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            hear, ask = _pipe(theirs, ours)
            self._answers, say = _pipe(ours, theirs)
            self._questions = ask
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shapeproof.ci.process.worker", str(time.time_ns()), str(hear), str(say)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=job.root,
                env=os.environ | {TOKEN: self._token},
                pass_fds=(hear, say),
                start_new_session=True,  # an interrupt at the terminal is ours to handle
            )
            self._open = ours.pop_all()
        self._printed = cast("IO[bytes]", self._process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        self._open.close()
        self._printed.close()

    def kill(self) -> None:
        """End the process and all that it has begun at once, from any thread; its exit status, if it has one, stays."""
        if self._process.returncode is None:  # afterwards its number may be somebody else's
            end_all(self._process.pid, self._token)

    def answer(self, progress: Progress) -> Answer:
        """Wait for the answer. If the process ends without one, is silent for too long or garbles it, that is said."""
        with contextlib.suppress(BrokenPipeError):
            _write(self._questions, frame(JOB.dump_python(self._job)))
        try:
            found = self._heard(progress)
        except (GarbledError, ValueError, KeyError, TypeError):  # ValidationError is a ValueError
            return self._failed(f"the process garbled its answer{self._last_words()}")
        if found is not None:
            return found
        if self._is_late():
            doing = f", while {self._doing}" if self._doing else ""
            return self._failed(f"the process was ended: there was no verdict within {self._job.timeout:g} s{doing}")
        if not self._ends():
            return self._failed("the process closed the channel of its answer before there was a verdict")
        self.kill()  # what it has begun may live
        return self._failed(self._ending(self._process.wait()))

    def _heard(self, progress: Progress) -> Answer | None:
        """The answer; None if the process has ended, can give none any more, or is late."""
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._answers, self._printed.fileno()):
                selector.register(descriptor, selectors.EVENT_READ)
            while not self._is_late():
                ended = self._has_ended()
                ready = {key.fd: os.read(key.fd, 2**16) for key, _ in selector.select(_TICK)}
                for descriptor in (each for each, data in ready.items() if not data):
                    selector.unregister(descriptor)
                self._words = (self._words + ready.get(self._printed.fileno(), b""))[-_LAST_WORDS:]
                for message in self._frames.feed(ready.get(self._answers, b"")):
                    if "answer" in message:
                        return ANSWER.validate_python(message["answer"])
                    self._doing = str(message["progress"])
                    progress(self._doing)
                if (ended and not ready.get(self._answers)) or self._answers not in selector.get_map():
                    return None
        return None

    def _is_late(self) -> bool:
        limit = self._job.timeout
        return limit is not None and time.monotonic() - self._begin > limit

    def _has_ended(self) -> bool:
        """Without waiting for it, so that its number stays its own."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _ends(self) -> bool:
        """Whether the process has ended, or is about to: its descriptors are closed a moment before."""
        until = time.monotonic() + _MOMENT
        while not (ended := self._has_ended()) and time.monotonic() < until:
            time.sleep(_TICK / 10)
        return ended

    def _failed(self, why: str) -> Answer:
        self.kill()
        return Answer(Result(None, why, seconds=time.monotonic() - self._begin))

    def _ending(self, code: int) -> str:
        """Why there is no answer."""
        if code == -signal.SIGKILL:
            return "the process was killed (SIGKILL), as happens where memory runs out"
        how = f"by {_signal(-code)}" if code < 0 else f"with status {code}"
        return f"the process ended {how} before there was a verdict{self._last_words()}"

    def _last_words(self) -> str:
        """The last line that it printed, without what a terminal would take for a command; and where it crashed."""
        words, where = crashed(self._words.decode(errors="replace"), self._job.root, whole=self._job.traceback)
        last = next((line.strip() for line in reversed(words.split("\n")) if line.strip()), "")
        return (f": {''.join(filter(str.isprintable, last))[:_SHOWN]}" if last else "") + where


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _pipe(read: contextlib.ExitStack, written: contextlib.ExitStack) -> tuple[int, int]:
    """The ends of a pipe, each closed with its stack."""
    out, into = os.pipe()
    read.callback(os.close, out)
    written.callback(os.close, into)
    return out, into


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
