"""Runs a job in a separate process, so that a model that crashes, hangs or prints a lot harms nothing else."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import IO, Self, cast

from shapeproof.ci.jobs import ANSWER, JOB, Answer, Job, Result
from shapeproof.ci.process.frames import Frames, GarbledError, frame
from shapeproof.ci.process.processes import TOKEN, end_all
from shapeproof.ci.process.tracebacks import crashed

_TICK = 0.2
"""Seconds until the end of a process is noticed although one of its children still holds the channel open."""
_MOMENT = 10.0
"""Maximum seconds that a process takes to end: one that has loaded torch may take several on a busy machine."""
_LAST_WORDS = 2**16
"""Number of printed bytes that are kept."""
_SHOWN = 400
"""Number of characters of the last printed line that are shown."""

Progress = Callable[[str], None]


def answer(job: Job, progress: Progress, begun: Callable[[Worker], None] = lambda _: None) -> Answer:
    """Return the answer to a job, or the reason why its process gave none. `begun` receives the worker."""
    try:
        with Worker(job) as worker:
            begun(worker)
            return worker.answer(progress)
    except OSError as error:
        return Answer(Result(None, f"no process can be started in {job.root}: {error.strerror}"))


class Worker:
    """The process of a job. When the context ends, the process and all its descendants are gone."""

    def __init__(self, job: Job) -> None:
        self._begin = time.monotonic()
        self._job = job
        self._token = uuid.uuid4().hex
        self._frames = Frames()
        self._words = b""
        self._doing = ""
        self._channel, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as opened:
            opened.enter_context(self._channel)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shapeproof.ci.process.worker", str(time.time_ns()), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=job.root,
                env=os.environ | {TOKEN: self._token},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # we handle the interrupt at the terminal
            )
            self._open = opened.pop_all()
        self._printed = cast("IO[bytes]", self._process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        self._open.close()
        self._printed.close()

    def kill(self) -> None:
        """Kill the process and its descendants at once, from any thread; an exit status that it already has is kept."""
        if self._process.returncode is None:  # a reaped process may have lost its number to another
            end_all(self._process.pid, self._token)

    def answer(self, progress: Progress) -> Answer:
        """Wait for the answer. If the process ends, times out or garbles the answer, return that as the reason."""
        with contextlib.suppress(ConnectionError):
            self._channel.sendall(frame(JOB.dump_python(self._job)))
        try:
            found = self._heard(progress)
        except (GarbledError, ValueError, KeyError, TypeError):  # pydantic's ValidationError is a ValueError
            return self._failed(f"the process garbled its answer{self._last_words()}")
        if found is not None:
            return found
        if self._is_late():
            doing = f", while {self._doing}" if self._doing else ""
            return self._failed(f"the process was ended: there was no verdict within {self._job.timeout:g} s{doing}")
        if not self._ends():
            return self._failed("the process closed the channel of its answer before there was a verdict")
        self.kill()  # its children may still live
        return self._failed(self._ending(self._process.wait()))

    def _heard(self, progress: Progress) -> Answer | None:
        """Return the answer; None if the process has ended, has closed the channel, or is late."""
        with selectors.DefaultSelector() as selector:
            for file in (self._channel, self._printed):
                selector.register(file, selectors.EVENT_READ)
            while not self._is_late():
                ended = self._has_ended()
                ready = {key.fileobj: _received(key.fd) for key, _ in selector.select(_TICK)}
                for ended_stream in (each for each, data in ready.items() if not data):
                    selector.unregister(ended_stream)
                self._words = (self._words + ready.get(self._printed, b""))[-_LAST_WORDS:]
                for message in self._frames.feed(ready.get(self._channel, b"")):
                    if "answer" in message:
                        return ANSWER.validate_python(message["answer"])
                    self._doing = str(message["progress"])
                    progress(self._doing)
                if (ended and not ready.get(self._channel)) or self._channel not in selector.get_map():
                    return None
        return None

    def _is_late(self) -> bool:
        limit = self._job.timeout
        return limit is not None and time.monotonic() - self._begin > limit

    def _has_ended(self) -> bool:
        """True if the process has ended. Does not reap the process, so that its number is not reused."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _ends(self) -> bool:
        """True if the process ends within a moment: its descriptors close shortly before its end."""
        until = time.monotonic() + _MOMENT
        while not (ended := self._has_ended()) and time.monotonic() < until:
            time.sleep(_TICK / 10)
        return ended

    def _failed(self, why: str) -> Answer:
        self.kill()
        return Answer(Result(None, why, seconds=time.monotonic() - self._begin))

    def _ending(self, code: int) -> str:
        """The reason why there is no answer."""
        if code == -signal.SIGKILL:
            return "the process was killed (SIGKILL), as happens where memory runs out"
        how = f"by {_signal(-code)}" if code < 0 else f"with status {code}"
        return f"the process ended {how} before there was a verdict{self._last_words()}"

    def _last_words(self) -> str:
        """The last line that the process printed, without unprintable characters, and the place of a crash."""
        words, where = crashed(self._words.decode(errors="replace"), self._job.root, whole=self._job.traceback)
        last = next((line.strip() for line in reversed(words.split("\n")) if line.strip()), "")
        return (f": {''.join(filter(str.isprintable, last))[:_SHOWN]}" if last else "") + where


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _received(descriptor: int) -> bytes:
    """Return what has arrived; nothing if the other end is closed, before or after it has read the job."""
    with contextlib.suppress(ConnectionResetError):
        return os.read(descriptor, 2**16)
    return b""
