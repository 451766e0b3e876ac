"""The pytest plugin: `pytest --shapeproof` runs each model of a spec as a test; two fixtures serve other tests.

pytest loads this file in every run, so the file imports the rest of the package only on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shapeproof.export import VerifiedProgram
    from shapeproof.operators import OperatorReport


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
        from shapeproof.constraints.errors import UsageError
        from shapeproof.export import check

        try:
            report = check(*args, **kwargs)
        except UsageError as error:
            pytest.fail(str(error), pytrace=False)
        if report.status != "proved":
            pytest.fail(str(report), pytrace=False)
        program: VerifiedProgram = report.program  # type: ignore[assignment] # of one program, unless it is split
        return program

    return verify


@pytest.fixture
def verify_operator() -> Callable[..., OperatorReport]:
    """`shapeproof.operators.check_operator` as a fixture: fails the test with the report unless the operator passes."""

    def verify(*args: Any, **kwargs: Any) -> OperatorReport:
        from shapeproof.constraints.errors import UsageError
        from shapeproof.operators import check_operator

        try:
            report = check_operator(*args, **kwargs)
        except UsageError as error:
            pytest.fail(str(error), pytrace=False)
        if not report.passed:
            pytest.fail(str(report), pytrace=False)
        return report

    return verify
