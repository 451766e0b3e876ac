"""The supported releases of torch; checked before torch is imported, since private names move between releases."""

from __future__ import annotations

import importlib.metadata

from shapeproof.constraints.errors import UsageError

SUPPORTED_TORCH = ("2.13", "2.14", "2.15")
"""The minor series whose internals tracer.py, shape_env.py and the shim rely on."""


def check_version(version: str | None = None) -> None:
    """Refuse an unsupported release of torch.

    Raises:
        UsageError: the release is not supported; the message names those that are.

    >>> check_version("2.13.1+cpu")
    >>> check_version("2.12.0")
    Traceback (most recent call last):
    shapeproof.constraints.errors.UsageError: torch 2.12.0 is not supported; supported: 2.13.x, 2.14.x, 2.15.x
    """
    version = version or importlib.metadata.version("torch")
    if not version.startswith(tuple(f"{series}." for series in SUPPORTED_TORCH)):
        supported = ", ".join(f"{series}.x" for series in SUPPORTED_TORCH)
        raise UsageError(f"torch {version} is not supported; supported: {supported}")
