"""Lets one thread of the process export at a time. It changes no answer.

Torch's tracer is not thread-safe: while it traces it patches `torch.nn.Module.__call__`, and keeps its current tracer,
its flags and the metadata of the current node in module globals. An export also puts functions into the model's
classes, silences loggers and freezes what the garbage collector knows. So whatever traces, replays or takes apart
holds this lock; the same thread may take it again.
"""

from __future__ import annotations

import threading

one_thread = threading.RLock()
"""Held while a model is traced, run beside its program, or taken apart."""


def exporting() -> bool:
    """Whether this thread is tracing, replaying or taking apart a model just now."""
    return bool(one_thread._is_owned())  # type: ignore[attr-defined]  # as threading.Condition asks it
