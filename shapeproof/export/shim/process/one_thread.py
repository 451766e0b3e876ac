"""Lets one thread of the process export at a time.

Torch's tracer is not thread-safe: while it traces, it patches `torch.nn.Module.__call__`, and keeps its current tracer,
its flags and the metadata of the current node in module globals. An export also puts functions into the model's
classes, silences loggers and freezes the garbage collector's objects. So code that traces, replays or decomposes holds
this lock. The lock is reentrant.
"""

from __future__ import annotations

import threading

one_thread = threading.RLock()
"""Held while a model is traced, run beside its program, or decomposed."""


def exporting() -> bool:
    """True if this thread is tracing, replaying or decomposing a model now."""
    return bool(one_thread._is_owned())  # type: ignore[attr-defined]  # as threading.Condition asks it
