"""Every shell session in the documentation goes as the page says, and every spec in it is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from tests.sessions import STEP, replay

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path for path in sorted((ROOT / "docs").rglob("*.md")) if STEP.search(path.read_text("utf-8"))}


@pytest.mark.parametrize("page", PAGES)
def test_sessions_go_as_shown(page, tmp_path, request):
    """To renew what is shown: `pytest --update-golden`."""
    text = PAGES[page].read_text(encoding="utf-8")
    replayed = replay(text, tmp_path)
    if request.config.getoption("--update-golden"):
        PAGES[page].write_text(replayed, encoding="utf-8")
    else:
        assert replayed == text


@pytest.mark.parametrize("page", PAGES)
def test_every_spec_that_is_shown_is_one(page, tmp_path):
    for found in STEP.finditer(PAGES[page].read_text(encoding="utf-8")):
        if (found["name"] or "").endswith(".toml"):
            (tmp_path / found["name"]).write_text(found["content"], encoding="utf-8")
            if "misspelt" in found["name"]:
                with pytest.raises(UsageError):
                    load_spec(tmp_path / found["name"])
            else:
                load_spec(tmp_path / found["name"])


def test_a_session_that_goes_otherwise_is_seen(tmp_path):
    page = "<!-- file: a.toml -->\n```toml\n[models]\n```\n```console\n$ shapeproof check a.toml\nfine\n```\n"
    assert replay(page, tmp_path) == page.replace("fine", "shapeproof: a.toml:1: `models` is empty")
