"""Run a file in a process of its own: the runtime of a consumer may end its process where it should raise.

ONNX Runtime aborts where an LSTM is given a batch of 0. Tensors go to the process and come back by its pipes.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, cast

import torch

from shapeproof.export.shim.trees import leaves

_LENGTH = struct.Struct("<q")
"""The number of bytes of a message comes before it."""


class Apart:
    """The callable of a file, on flat inputs; the process is started again after it has ended."""

    def __init__(self, name: str, path: Path) -> None:
        self._command = [sys.executable, "-m", "shapeproof.ship.apart", name, str(path)]
        self._process = self._started()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the file's results; what it writes into the inputs is written into these.

        Raises:
            RuntimeError: what the file raises, by a class of the same name; or the process has ended.
        """
        if self._process.poll() is not None:
            self._process = self._started()
        given = leaves((args, kwargs))
        results, left = self._answer(given)
        for mine, theirs in zip(given, left, strict=True):
            if isinstance(mine, torch.Tensor) and not torch.equal(mine, theirs):
                mine.detach().copy_(theirs)
        return results

    def _started(self) -> subprocess.Popen[bytes]:
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=nowhere)  # noqa: S603 - ourselves
        self._answer()
        return self._process

    def _answer(self, *message: Any) -> Any:
        """Send a message, if there is one, and return the answer."""
        to, back = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        with contextlib.suppress(BrokenPipeError):
            for each in message:
                _send(to, each)
        try:
            error, answer = _received(back)
        except EOFError:
            raise RuntimeError(f"the process that ran the file ended by {_end(self._process.wait())}") from None
        if error is not None:
            raise type(error, (RuntimeError,), {})(answer)
        return answer

    def __del__(self) -> None:
        self._process.kill()
        self._process.communicate()


def _end(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _send(file: IO[bytes], message: Any) -> None:
    content = io.BytesIO()
    torch.save(message, content)
    file.write(_LENGTH.pack(content.tell()) + content.getbuffer())
    file.flush()


def _received(file: IO[bytes]) -> Any:
    """Return the next message.

    Raises:
        EOFError: the other process has ended.
    """
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return torch.load(io.BytesIO(file.read(*_LENGTH.unpack(head))), weights_only=True)


def main() -> None:
    """Load a file, and answer each list of inputs by the results, and by the inputs as they are left."""
    from shapeproof.contract import load
    from shapeproof.ship.targets import TARGETS

    name, path = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a runtime prints is no answer
    run = None
    while True:
        try:
            if run is None:
                run, answer = TARGETS[name].load(Path(path), load(path)), None
            else:
                given = _received(sys.stdin.buffer)
                answer = run(*given), given
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - it is raised in the process that asked
            _send(answers, (type(error).__name__, str(error)))
        else:
            _send(answers, (None, answer))
        if run is None:
            return


if __name__ == "__main__":
    main()
