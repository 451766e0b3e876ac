"""The pytest plugin: `pytest --shapeproof` runs each model of a spec as a test; two fixtures serve other tests.

pytest loads this file in every run, so the file imports the rest of the package only on demand.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from shapeproof.export import VerifiedProgram
    from shapeproof.operators import OperatorReport

_Report = TypeVar("_Report")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--shapeproof`."""
    parser.getgroup("shapeproof").addoption(
        "--shapeproof", action="store_true", help="each model of a shapeproof.toml, or of [tool.shapeproof], is a test"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the spec beside the configuration when `testpaths` says where pytest looks."""
    if config.getoption("--shapeproof") and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        from shapeproof.ci.specs.spec import find_spec

        found = find_spec(config.rootpath)
        config.args += [str(found)] if found else []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a spec as a file of tests."""
    if not parent.config.getoption("--shapeproof") or file_path.suffix != ".toml":
        return None
    from shapeproof.ci.pytest_items import SpecTests
    from shapeproof.ci.specs.spec import find_spec
    from shapeproof.constraints.errors import UsageError

    try:
        found = find_spec(file_path.parent)
    except UsageError:  # an invalid pyproject.toml is reported by other tools
        return None
    return SpecTests.from_parent(parent, path=file_path) if found == file_path else None


@pytest.fixture
def verify_export() -> Callable[..., VerifiedProgram]:
    """`shapeproof.export.export` as a fixture: fails the test with the report unless everything is proved."""

    def verify(*args: Any, **kwargs: Any) -> VerifiedProgram:
        from shapeproof.export import check

        report = _passing(functools.partial(check, *args, **kwargs), lambda report: report.status == "proved")
        return report.program  # type: ignore[return-value] # of one program, unless it is split

    return verify


@pytest.fixture
def verify_operator() -> Callable[..., OperatorReport]:
    """`shapeproof.operators.check_operator` as a fixture: fails the test with the report unless the operator passes."""

    def verify(*args: Any, **kwargs: Any) -> OperatorReport:
        from shapeproof.operators import check_operator

        return _passing(functools.partial(check_operator, *args, **kwargs), lambda report: report.passed)

    return verify


def _passing(check: Callable[[], _Report], passes: Callable[[_Report], bool]) -> _Report:
    """Return the report of a check that passes; fail the test with any other, or with the sentence of a refusal."""
    from shapeproof.constraints.errors import UsageError

    log = logging.getLogger("torch.__trace")  # what torch logs there for tlparse, pytest would show
    heard = log.handlers
    log.handlers = [each for each in heard if type(each).__module__.startswith("torch.")]
    try:
        report = check()
    except UsageError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        log.handlers = heard
    if not passes(report):
        pytest.fail(str(report), pytrace=False)
    return report
