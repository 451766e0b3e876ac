"""Shows progress on stderr: a live list on a terminal, else a line now and then and one per finished model.

Quiet: no output. Verbose: a line for each step, with its time. No line shown here is a verdict to rely on.
"""

from __future__ import annotations

import threading
import time
from enum import Enum
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from shapeproof.ci.plain import plain_line
from shapeproof.ci.terminal import say
from shapeproof.constraints.errors import UsageError

PATIENCE = 1.0
"""Seconds before the first output."""
_PAUSE, _GROWTH = 5.0, 1.25
"""Minimum seconds between two lines about a task, and growth of its age between them: an hour gives 30 lines."""
_TICK = 0.5
"""Seconds between checks for lines that are due."""


class Verbosity(Enum):
    """How much is shown."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"

    @classmethod
    def of(cls, *, quiet: bool, verbose: bool) -> Verbosity:
        """Return the verbosity that two options select.

        Raises:
            UsageError: both options are set.
        """
        if quiet and verbose:
            raise UsageError("expected --quiet or --verbose, got both")
        return cls.QUIET if quiet else cls.VERBOSE if verbose else cls.NORMAL


class _Task:
    def __init__(self, name: str, now: float) -> None:
        self._name, self._begin = name, now
        self._due = now + PATIENCE
        self.text = ""
        self.shown: TaskID | None = None

    def line(self, now: float) -> str:
        """The current step, with the time since the task began."""
        return f"{self.label} ({now - self._begin:.1f} s)"

    @property
    def label(self) -> str:
        """The current step."""
        return f"{self._name}: {self.text}" if self._name else self.text

    def is_due(self, now: float) -> bool:
        """True if a line is due; the next one is due after the task's age has grown by a quarter."""
        if now < self._due:
            return False
        self._due = max(now + _PAUSE, self._begin + (now - self._begin) * _GROWTH)
        return True


class Display:
    """Follows tasks by name. Several threads may report to it."""

    def __init__(self, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._live = console.is_interactive and verbosity is Verbosity.NORMAL
        self._verbosity = verbosity
        self._begin = time.monotonic()
        self._tasks: dict[str, _Task] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        if self._verbosity is Verbosity.NORMAL:
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._ticker.ident is not None:
            self._ticker.join()
        if self._live:
            self._progress.stop()

    def tell(self, name: str, text: str) -> None:
        """Report the current step of a task."""
        now = time.monotonic()
        with self._lock:
            task = self._tasks.setdefault(name, _Task(name, now))
            task.text = plain_line(text)
            if self._live:
                self._show(task)
        if self._verbosity is Verbosity.VERBOSE:
            say(plain_line(task.line(now)))

    def done(self, name: str, line: str) -> None:
        """Report the end of a task; each end gets a line."""
        with self._lock:
            task = self._tasks.pop(name, None)
            if task is not None and task.shown is not None:
                self._progress.remove_task(task.shown)
        if self._live:
            self._progress.console.print(Text(plain_line(line)))
        elif self._verbosity is not Verbosity.QUIET:
            say(plain_line(line))

    def beat(self, now: float) -> None:
        """Show the lines that are due at this time."""
        if self._live:
            if now >= self._begin + PATIENCE:
                self._progress.start()
            return
        with self._lock:
            due = [task.line(now) for task in self._tasks.values() if task.is_due(now)]
        for line in due:
            say(plain_line(line))

    def _show(self, task: _Task) -> None:
        if task.shown is None:
            task.shown = self._progress.add_task("", text="", total=None)
        self._progress.update(task.shown, text=plain_line(task.label))

    def _tick(self) -> None:
        while not self._stop.wait(_TICK):
            self.beat(time.monotonic())
