"""The tests of a copy of torch's test/export/test_export.py, and one of them by one exporter.

Torch's files derive their own variants (strict, retraced, serialized) by exchanging `export`; so is ours derived. The
tests that call `torch.export.export` by its full name call the exporter, too. A test that torch expects to fail when it
is not strict is not marked so here: to pass is no fault.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import shapeproof.export

EXPORTERS: dict[str, Callable[..., Any]] = {"torch": torch.export.export, "shapeproof": shapeproof.export.export}
MODULE = "test_export"
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of one test: passes, fails or skipped; the class of the first exception, and its text."""

    outcome: str
    error: str = ""
    said: str = ""


def load(files: Path) -> dict[str, type[unittest.TestCase]]:
    """Import the tests of this folder; return the class of each, by its name."""
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"  # torch's would be in each message
    if not hasattr(torch.export, "export_for_training"):
        vars(torch.export)["export_for_training"] = torch.export.export  # the name it has today
    sys.modules["testing"] = _Marks("testing")
    sys.path.insert(0, str(files))
    module = importlib.import_module(MODULE)
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == MODULE]
    names = unittest.TestLoader().getTestCaseNames  # none of a class that has no tests
    return {f"{each.__name__}.{name}": each for each in classes for name in names(each)}


class _Marks(types.ModuleType):
    """Stands for the tests' own `testing`, which names operators that torch has no more: its marks do nothing."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("expectedFailure"):
            raise AttributeError(name)
        return lambda test: test


def run(name: str, cls: type[unittest.TestCase], exporter: str) -> Found:
    """Run one test with an exporter in place of torch's."""
    module, export = sys.modules[MODULE], EXPORTERS[exporter]
    method = name.partition(".")[2]
    renamed = f"{method}{module.NON_STRICT_SUFFIX}"  # tests look at their own name
    derived = type(f"{exporter.title()}{cls.__name__}", (cls,), {renamed: getattr(cls, method)})
    result = _Result()
    with patch.object(module, "export", export), patch("torch.export.export", export):
        unittest.TestSuite([derived(renamed)]).run(result)  # not alone: the class is set up, too
    return _found(result)


class _Result(unittest.TestResult):
    """Keeps the first exception."""

    raised: BaseException | None = None

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        self.raised = self.raised or err[1]
        super().addError(test, err)

    addFailure = addError  # noqa: N815

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        self.raised = self.raised or (err and err[1])
        super().addSubTest(test, subtest, err)


def _found(result: _Result) -> Found:
    if result.raised is not None:
        folder = Path(sys.modules[MODULE].__file__ or "").parent
        words = " ".join(str(result.raised).replace(f"{folder}/", "").split())
        return Found("fails", type(result.raised).__name__, words[:LONGEST])
    if result.unexpectedSuccesses:
        return Found("fails", "UnexpectedSuccess")
    return Found("skipped" if result.skipped else "passes")
