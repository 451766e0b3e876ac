"""Runs jobs in processes of this machine, several at a time."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeAlias

from shapeproof.ci.jobs import Answer, Job, Result
from shapeproof.ci.process.isolation import Worker, answer

Hear: TypeAlias = Callable[[int, str], None]
"""Receives the index of a job and its current step."""


Executor: TypeAlias = Callable[[Sequence[Job], Hear], Generator[tuple[int, Answer], None, None]]
"""Runs jobs, each in a separate process: `run` of the classes of executors."""


class Local:
    """Runs jobs on this machine, `processes` at a time."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._running: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._stopped = threading.Event()

    def run(self, jobs: Sequence[Job], hear: Hear) -> Generator[tuple[int, Answer], None, None]:
        """Yield the answers, by index, as they arrive. Closing the iterator kills all processes."""
        pool = ThreadPoolExecutor(self._processes)
        try:
            futures = {pool.submit(self._answer, index, job, hear): index for index, job in enumerate(jobs)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            self._stopped.set()
            for worker in list(self._running):
                worker.kill()
            pool.shutdown(cancel_futures=True)

    def _answer(self, index: int, job: Job, hear: Hear) -> Answer:
        if self._stopped.is_set():
            return Answer(Result(None, "stopped"))
        return answer(job, lambda text: hear(index, text), self._begun)

    def _begun(self, worker: Worker) -> None:
        self._running.add(worker)
        if self._stopped.is_set():  # set since the check above
            worker.kill()
