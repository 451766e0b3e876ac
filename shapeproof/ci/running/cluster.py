"""Runs jobs on a Dask cluster: each job is a task, which runs it in a separate process on its machine.

The machines of the cluster need the same packages, and the project in the same folder. Loads `distributed` (an extra).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Generator, Sequence

import distributed

from shapeproof.ci.jobs import ANSWER, JOB, Answer, Job, Result, from_json, to_json
from shapeproof.ci.process.isolation import Worker, answer
from shapeproof.ci.running.executors import Hear
from shapeproof.constraints.errors import UsageError

SCHEME = "dask://"
PATIENCE = 10
"""Seconds that the scheduler has to answer."""


class Dask:
    """Runs jobs on the cluster at an address, `dask://HOST:PORT`."""

    def __init__(self, address: str) -> None:
        try:
            self._client = distributed.Client(f"tcp://{address.removeprefix(SCHEME)}", timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise UsageError(f"there is no Dask scheduler at {address}: {error}") from None

    def run(self, jobs: Sequence[Job], hear: Hear) -> Generator[tuple[int, Answer], None, None]:  # noqa: ARG002 - tasks are silent
        """Yield the answers, by index, as they arrive. Closing the iterator kills all processes."""
        stop = distributed.Event(f"shapeproof-{uuid.uuid4()}", client=self._client)
        with self._client:
            futures = {
                self._client.submit(_answer, to_json(JOB, job), stop.name, pure=False): index
                for index, job in enumerate(jobs)
            }
            try:
                for future in distributed.as_completed(futures):
                    yield futures[future], _result(future)
            finally:
                stop.set()
                self._client.cancel(list(futures))


def _result(future: distributed.Future) -> Answer:
    error = future.exception()
    if error is not None:  # the task's machine was lost or is set up differently
        return Answer(Result(None, f"the cluster did not answer: {type(error).__name__}: {error}"))
    return from_json(ANSWER, future.result())


def _answer(job: str, stop: str) -> str:
    """Run a job as a task on a machine of the cluster."""
    stopped = distributed.Event(stop, client=distributed.get_client())
    done = threading.Event()

    def watch(worker: Worker) -> None:
        try:
            while not (done.is_set() or stopped.wait(timeout=1)):
                pass
        finally:  # also if the scheduler is gone
            worker.kill()

    def begun(worker: Worker) -> None:
        threading.Thread(target=watch, args=[worker], daemon=True).start()

    try:
        return to_json(ANSWER, answer(from_json(JOB, job), lambda _: None, begun))
    finally:
        done.set()
