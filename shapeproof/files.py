"""Writes files that are never seen half written, whenever the process is killed."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file, or leave what was there.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.parent / f".{path.name}.{os.getpid()}"
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
