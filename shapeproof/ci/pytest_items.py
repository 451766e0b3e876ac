"""The pytest items of a spec: one test for each model and operator, run in a separate process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from shapeproof.ci.jobs import Check, Outcome, Result, checks_of
from shapeproof.ci.plain import plain
from shapeproof.ci.process.isolation import answer
from shapeproof.ci.running.cache import remember
from shapeproof.ci.running.run import still_holding
from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from shapeproof.export.report.render import pointers


class SpecTests(pytest.File):
    """A spec as a file of tests."""

    def collect(self) -> Iterator[ModelTest]:
        """Return a test for each model and operator."""
        try:
            file = load_spec(self.path)
        except UsageError as error:
            raise self.CollectError(str(error)) from None
        for check in checks_of(file):
            yield ModelTest.from_parent(self, name=check.name, check=check)


class Rejected(Exception):
    """A verdict that the spec does not accept."""


class ModelTest(pytest.Item):
    """A model of a spec as a test: passes if the spec accepts the verdict."""

    def __init__(self, check: Check, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._check = check

    def runtest(self) -> None:
        """Check the model, unless its last verdict still holds.

        Raises:
            Rejected: the spec does not accept the verdict; the message is the report.
        """
        outcome = Outcome(self._check, still_holding([self._check], None).get(0) or self._checked())
        if not outcome.passed:
            raise Rejected(
                f"expected is {self._check.expected}\n{outcome.result.text}{pointers(outcome.result.diagnostics)}"
            )

    def _checked(self) -> Result:
        answered = answer(self._check.job, lambda _: None)
        remember(self._check.job, answered)
        return answered.result

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:
        """Return the report alone, without a traceback of the plugin."""
        if isinstance(excinfo.value, Rejected):
            return plain(str(excinfo.value))
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Return the line of the model in the spec, counted from 0."""
        return self.path, self._check.line - 1, self.name
