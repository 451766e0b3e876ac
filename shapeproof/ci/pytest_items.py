"""The tests that pytest makes of a spec: one for each model and operator, which runs in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from shapeproof.ci.jobs import Check, Outcome, checks_of, operator_checks_of
from shapeproof.ci.plain import plain
from shapeproof.ci.process.isolation import answer
from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from shapeproof.export.report.render import pointers


class SpecTests(pytest.File):
    """A spec."""

    def collect(self) -> Iterator[ModelTest]:
        """The models and operators."""
        try:
            file = load_spec(self.path)
        except UsageError as error:
            raise self.CollectError(str(error)) from None
        for check in (*checks_of(file), *operator_checks_of(file)):
            yield ModelTest.from_parent(self, name=check.name, check=check)


class Rejected(Exception):  # noqa: N818 - a verdict, not a mistake
    """A verdict that the spec does not accept."""


class ModelTest(pytest.Item):
    """A model of a spec: passes if the verdict is one that the spec accepts."""

    def __init__(self, check: Check, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._check = check

    def runtest(self) -> None:
        """Check the model.

        Raises:
            Rejected: the verdict is not accepted; the message is the report.
        """
        outcome = Outcome(self._check, answer(self._check.job, lambda _: None).result)
        if not outcome.passed:
            raise Rejected(
                f"expected is {self._check.expected}\n{outcome.result.text}{pointers(outcome.result.diagnostics)}"
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:
        """The report, without the way that it came."""
        if isinstance(excinfo.value, Rejected):
            return plain(str(excinfo.value))
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The line of the model in the spec, counted from 0."""
        return self.path, self._check.line - 1, self.name
