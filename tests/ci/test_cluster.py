"""The same checks on a Dask cluster: a real one, of processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import distributed
import pytest

from shapeproof.ci.jobs import Job
from shapeproof.ci.running.cluster import Dask
from shapeproof.ci.running.executors import Local
from shapeproof.constraints.errors import UsageError

NETS = """
import os, signal

def crash(): os.abort()
def raises(): raise OSError("no weights")
def build():
    import torch
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),), {}, ({0: torch.export.Dim("b")},)
def endless():
    hold = os.open("fifo", os.O_WRONLY)
    os.write(hold, b"started")
    signal.pause()
"""


@pytest.fixture(scope="module")
def cluster():
    settings = {"processes": True, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as made:
        yield made.scheduler_address.replace("tcp://", "dask://")


def job(folder, name):
    (folder / "nets.py").write_text(NETS, encoding="utf-8")
    return Job(root=str(folder), target=f"nets:{name}")


def silent(*_):
    pass


@pytest.mark.thorough
def test_the_answers_are_those_of_this_machine(cluster, tmp_path):
    jobs = [job(tmp_path, name) for name in ("crash", "raises", "build")]
    here = dict(Local(2).run(jobs[:2], silent))
    there = dict(Dask(cluster).run(jobs, silent))
    assert [there[index].result.text for index in (0, 1)] == [here[index].result.text for index in (0, 1)]
    assert there[1].sources == here[1].sources
    assert there[2].result.status == "proved"


@pytest.mark.thorough
def test_a_machine_without_the_project_gives_no_verdict(cluster, tmp_path):
    ((_, answer),) = Dask(cluster).run([Job(root=str(tmp_path / "absent"), target="nets:build")], silent)
    assert answer.result.status is None
    assert answer.result.text == f"no process can be started in {tmp_path / 'absent'}: No such file or directory"


@pytest.mark.thorough
def test_an_interrupt_ends_the_tasks(cluster, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    job(tmp_path, "endless")
    (tmp_path / "shapeproof.toml").write_text('[models.net]\ntarget = "nets:endless"\n', encoding="utf-8")
    program = "from shapeproof.ci.cli import main; main()"
    run = [sys.executable, "-c", program, "check", "--executor", cluster]
    with subprocess.Popen(run, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with (tmp_path / "fifo").open("rb") as held:
            assert held.read(7) == b"started"
            process.send_signal(signal.SIGINT)
            assert held.read() == b""  # returns when nobody is left who holds it
        process.communicate()
    assert process.returncode == 130


@pytest.mark.thorough
def test_no_cluster_is_a_wrong_call(monkeypatch):
    monkeypatch.setattr("shapeproof.ci.running.cluster.PATIENCE", 0.5)
    with pytest.raises(UsageError, match=r"^there is no Dask scheduler at dask://127\.0\.0\.1:9: "):
        Dask("dask://127.0.0.1:9")
