"""Fixtures and settings of the whole suite."""

from __future__ import annotations

import logging
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"

# All runs but `make fuzz`, which explores, try the same examples each time, so that neither chance nor a slow machine
# can fail them. `make test` tries a fifth of those that `make test-slow` tries, and `make test-thorough` half of them.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("ordinary", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=20_000, print_blob=True)
settings.load_profile("ordinary")

# A process that was started in the background ignores SIGINT, and so would those that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_TRIED = 1
_DEAR = (
    "tests/test_docs.py",
    "tests/test_sessions.py",
    "tests/serve",
    "tests/export/",
    "tests/ci/",
    "tests/consumers/",
    "tests/benchmarks/",
    "tests/solver/",
)
"""Where a test traces a model, starts a process or asks Z3."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test with many parameters that is not `quick`, `make test` tries the first; the others are `thorough`."""
    met = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        met[test] += 1
        if met[test] > _TRIED and test.startswith(_DEAR) and not item.get_closest_marker("quick"):
            item.add_marker(pytest.mark.thorough)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files under tests/golden/ with what the tests got"
    )


@pytest.fixture(autouse=True)
def nobody_listens():
    """Fail a test that leaves the log of questions open: every later test would pay for its lines."""
    yield
    assert logging.getLogger("shapeproof.questions").level == logging.NOTSET


class Golden:
    """Texts under tests/golden/, one file each; the diff of an update is the review."""

    def __init__(self, folder, *, update):
        self.folder = folder
        self.update = update

    def check(self, name, text):
        """Fail unless the file `name` holds `text`; a newline at the end is added where it is missing."""
        path = self.folder / name
        got = text if text.endswith("\n") else text + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(got, encoding="utf-8")
            return
        assert path.exists(), f"no golden file {name}; run pytest with --update-golden and read what it writes"
        assert got == path.read_text(encoding="utf-8"), f"{name} differs; if the new text is right: --update-golden"


@pytest.fixture
def golden(request):
    """Compare a text with a file: `golden.check("export/branch.txt", str(report))`."""
    return Golden(GOLDEN, update=request.config.getoption("--update-golden"))
