"""Stops torch from logging and warning while it traces or runs on our behalf."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

_NOISY = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.fx.experimental.sym_node",
    "torch.export",
    "torch._export.non_strict_utils",
    "torch._subclasses.fake_tensor",
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch inside the block: it logs and warns about guards that this package handles itself."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
