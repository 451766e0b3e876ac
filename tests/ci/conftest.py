"""What tests of the command line share."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def fresh_folder(tmp_path, monkeypatch):
    """An empty working directory; no other test sees what a test has imported from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
