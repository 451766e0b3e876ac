"""Measures entries: here one by one, or as tasks of a Dask cluster; `--processes` starts a cluster of this machine.

A worker that is lost in the middle loses nothing: Dask gives its entry to another one. Workers start processes, which
Dask forbids by default: `DASK_DISTRIBUTED__WORKER__DAEMON=False dask worker ...`, in the folder of the project.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Any

from zoo.attempt import apart
from zoo.families import ENTRIES

EXPORTERS = ("torch", "shapeproof")
PYPI = {"x_transformers": "x-transformers", "vit_pytorch": "vit-pytorch"}
SCHEME = "dask://"
Measure = Callable[[str, str, float], dict[str, Any]]
Run = Callable[[Measure, Iterable[str], str, float], Iterator[dict[str, Any]]]
"""Measures entries, by their names, and yields the results as they arrive."""


def versions(name: str) -> dict[str, str]:
    """The releases that a result depends on."""
    needs = ENTRIES[name].needs
    packages = dict.fromkeys(("torch", needs))
    return {each: version(PYPI.get(each, each)).partition("+")[0] for each in packages}


def measured(name: str, form: str, limit: float) -> dict[str, Any]:
    """Both exporters on one entry, each in a process of its own."""
    found = {each: apart(each, name, form, limit) for each in EXPORTERS}
    return {"name": name, "versions": versions(name), **found}


def _lost(name: str, error: BaseException) -> dict[str, Any]:
    said = {"status": "fails", "seconds": 0.0, "said": f"{type(error).__name__}: {error}"}
    return {"name": name, "versions": versions(name), **dict.fromkeys(EXPORTERS, said)}


def line(found: dict[str, Any]) -> str:
    """One result, for people who wait."""
    cells = [f"{found[each]['seconds']:6.1f} s  {found[each]['status']:<10}" for each in EXPORTERS]
    differ = [f"{each}: {found[each]['at']}" for each in EXPORTERS if found[each].get("at")]
    return f"{found['name']:<28} {'  '.join(cells)} {'; '.join(differ)}"


@contextlib.contextmanager
def executor(address: str | None, processes: int) -> Iterator[Run]:
    """What runs the measurements: this process, processes of this machine, or the cluster at an address."""
    if address is None and processes == 1:
        yield lambda measure, names, form, limit: (measure(each, form, limit) for each in names)
        return
    import dask
    import distributed

    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.worker.daemon": False}))
        cluster: Any = f"tcp://{address.removeprefix(SCHEME)}" if address else None
        if cluster is None:
            made = distributed.LocalCluster(n_workers=processes, threads_per_worker=1, dashboard_address=None)
            cluster = stack.enter_context(made)
        client = stack.enter_context(distributed.Client(cluster))

        def run(measure: Measure, names: Iterable[str], form: str, limit: float) -> Iterator[dict[str, Any]]:
            futures = [client.submit(measure, each, form, limit, key=f"{form}-{each}", pure=False) for each in names]
            for future in distributed.as_completed(futures):
                lost = future.exception()  # three workers were lost with it
                yield _lost(future.key.partition("-")[2], lost) if lost else future.result()

        yield run
