"""Starts peers and talks to them: each a process, those from PyPI in a virtual environment of their own.

A peer that cannot be installed is left out with a sentence; one that hangs or dies has answered what it had answered.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.worker import END, Answer, Session, Step

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "build" / "peers"
_PATIENCE = 60.0
"""Seconds beyond a session's own for starting up and for the last question."""
_ELSEWHERE = 8
"""How many seconds may pass for one that the processor spends on the peer: the machine may have other work."""
_WARM_UP = Session("warm-up", ("1 <= n",), {"n": (1, None)}, {"n": 7}, (Step("n//2 >= 0"),), 60.0)


@dataclass(frozen=True, slots=True)
class Spec:
    """A peer: what it is called, its module, its arguments, and what to install for it (the project itself if None)."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    requirement: str | None = None


OURS = Spec("shapeproof", "benchmarks.peers.ours")
PEERS = (
    OURS,
    Spec("Z3, plain", "benchmarks.peers.plain_z3"),
    Spec("torch ShapeEnv", "benchmarks.peers.torch_env"),
    Spec("TVM analyzer", "benchmarks.peers.tvm_analyzer", (), "apache-tvm==0.27.0.post1"),
    Spec("TVM with Z3", "benchmarks.peers.tvm_analyzer", ("--z3",), "apache-tvm==0.27.0.post1"),
    Spec("jax.export", "benchmarks.peers.jax_shapes", (), "jax==0.10.2"),
)


class NotInstalledError(RuntimeError):
    """A peer's package could not be installed; the sentence says why."""


def interpreter(spec: Spec) -> Path:
    """The Python that can run the peer, its package installed if need be.

    Raises:
        NotInstalledError: it cannot be installed.
    """
    if spec.requirement is None:
        return Path(sys.executable)
    home = ENVIRONMENTS / spec.requirement
    python, stamp = home / "bin" / "python", home / "installed"
    if not stamp.exists():
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            spec.requirement,
        ]
        make: list[str | Path] = [sys.executable, "-m", "venv", "--clear", home]
        for command in (make, install):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                message = f"{spec.name} is left out: `pip install {spec.requirement}` failed: {reason}"
                raise NotInstalledError(message)
        stamp.touch()
    return python


def answers(spec: Spec, sessions: Sequence[Session]) -> list[list[Answer]]:
    """What the peer answers, by session: an answer for every question, "late" for those that it did not come to."""
    everything = "".join(f"{session.to_json()}\n" for session in (_WARM_UP, *sessions))
    command: list[str | Path] = [interpreter(spec), "-m", spec.module, *spec.arguments]
    try:
        patience = _PATIENCE + _ELSEWHERE * sum(session.seconds for session in sessions)
        text = subprocess.run(
            command,
            input=everything,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience,
            env=_surroundings(),
        ).stdout
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    return _by_session(text, sessions)


def _surroundings() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}


def _by_session(text: str, sessions: Sequence[Session]) -> list[list[Answer]]:
    """What a peer wrote, by session. The first was for warming up; of one that was ended the last line is cut off."""
    blocks: list[list[Answer]] = [[]]
    for line in text.split("\n")[:-1]:
        if line == END:
            blocks.append([])
        else:
            blocks[-1].append(Answer.from_json(line))
    given = blocks[1:] + [[] for _ in sessions]
    questions = [sum(step.ask is not None for step in session.steps) for session in sessions]
    return [(block + [Answer("late")] * asked)[:asked] for block, asked in zip(given, questions, strict=False)]
