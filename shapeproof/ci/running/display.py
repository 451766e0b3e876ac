"""Shows progress on stderr: a live list on a terminal, else a line now and then and one per finished model.

Quiet: no output. Verbose: a line for each step, with its time. No line shown here is a verdict to rely on.
"""

from __future__ import annotations

import threading
import time
from enum import Enum
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, Task, TaskID, TextColumn, TimeElapsedColumn
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


class Display:
    """Follows tasks by name. Several threads may report to it."""

    def __init__(self, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._live = console.is_interactive and verbosity is Verbosity.NORMAL
        self._verbosity = verbosity
        self._begin = time.monotonic()
        self._tasks: dict[str, TaskID] = {}
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
        step = plain_line(f"{name}: {text}" if name else text)
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(step, total=None, due=PATIENCE)
        self._progress.update(self._tasks[name], description=step)
        if self._verbosity is Verbosity.VERBOSE:
            say(next(_line(task, task.elapsed) for task in self._progress.tasks if task.id == self._tasks[name]))

    def done(self, name: str, line: str) -> None:
        """Report the end of a task; each end gets a line."""
        if name in self._tasks:
            self._progress.remove_task(self._tasks.pop(name))
        if self._live:
            self._progress.console.print(Text(plain_line(line)))
        elif self._verbosity is not Verbosity.QUIET:
            say(plain_line(line))

    def beat(self, now: float) -> None:
        """Show the lines that are due at this time: the next of a task when its age has grown by a quarter."""
        if self._live:
            if now >= self._begin + PATIENCE:
                self._progress.start()
            return
        for task in self._progress.tasks:
            age = now - (task.start_time or now)
            if age >= task.fields["due"]:
                task.fields["due"] = max(age + _PAUSE, age * _GROWTH)
                say(_line(task, age))

    def _tick(self) -> None:
        while not self._stop.wait(_TICK):
            self.beat(time.monotonic())


def _line(task: Task, age: float | None) -> str:
    """The current step of a task, with the time since the task began."""
    return f"{task.description} ({age:.1f} s)"
