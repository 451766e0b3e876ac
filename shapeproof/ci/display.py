"""Shows on stderr what is being checked: a live list on a terminal, else a line for each model that is done."""

from __future__ import annotations

import threading
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from shapeproof.ci.jobs import Check, Result
from shapeproof.ci.plain import plain_line
from shapeproof.ci.terminal import say


class Display:
    """Follows the checks of a run. May be told of them from several threads."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._live = console.is_terminal
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def tell(self, check: Check, text: str) -> None:
        """What is being done about a check now."""
        with self._lock:
            key = _key(check)
            if key not in self._tasks:
                self._tasks[key] = self._progress.add_task("", text="", total=None)
            self._progress.update(self._tasks[key], text=plain_line(f"{check.name}: {text}"))

    def done(self, check: Check, result: Result) -> None:
        """The verdict on a check."""
        with self._lock:
            if (task := self._tasks.pop(_key(check), None)) is not None:
                self._progress.remove_task(task)
        line = f"{plain_line(check.name)}: {result.status or 'no verdict'} ({result.seconds:.1f} s)"
        if self._live:
            self._progress.console.print(Text(line))
        else:
            say(line)


def _key(check: Check) -> str:
    return f"{check.file}:{check.name}"
