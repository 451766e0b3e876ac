"""The fragments in changelog.d/ make a page of the changelog, and a wrong one is refused."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.repository.project import HOME, PYPROJECT, ROOT

FOLDER = ROOT / "changelog.d"
TYPES = PYPROJECT["tool"]["towncrier"]["type"]
TITLE = "## 9.8.7 (2026-01-02)\n"


def draft(folder):
    """Run towncrier on the fragments under a folder, with the configuration of this project."""
    command = [
        "build",
        "--draft",
        "--version",
        "9.8.7",
        "--date",
        "2026-01-02",
        "--config",
        str(ROOT / "pyproject.toml"),
    ]
    run = [sys.executable, "-m", "towncrier", *command, "--dir", str(folder)]
    return subprocess.run(run, capture_output=True, text=True, check=False, cwd=folder)


@pytest.fixture
def page(tmp_path):
    """What towncrier makes of one fragment."""

    def made(name, text):
        (tmp_path / "changelog.d").mkdir()
        (tmp_path / "changelog.d" / name).write_text(text, encoding="utf-8")
        return draft(tmp_path)

    return made


def test_the_fragments_make_a_page_that_has_each_of_them():
    done = draft(ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(TITLE)
    fragments = [path.read_text(encoding="utf-8").split() for path in FOLDER.iterdir() if path.name != "README.md"]
    assert [words for words in fragments if " ".join(words) not in " ".join(done.stdout.split())] == []


def test_no_fragment_is_empty_long_or_a_list():
    for path in FOLDER.iterdir():
        if path.name != "README.md":
            lines = path.read_text(encoding="utf-8").splitlines()
            assert 1 <= len(lines) <= 3, f"{path.name}: expected one to three lines, got {len(lines)}"
            assert all(0 < len(line) <= 140 and not line.startswith(("- ", "* ", "#")) for line in lines), path.name


@pytest.mark.parametrize("of", TYPES, ids=lambda of: of["directory"])
def test_a_type_has_a_heading_and_the_readme_names_it(page, of):
    done = page(f"+some-words.{of['directory']}.md", "A line\nof two.\n")
    assert done.stdout.startswith(f"{TITLE}\n### {of['name']}\n\n- A line\n  of two.\n"), done.stderr
    assert f"`{of['directory']}`" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_a_fragment_of_an_issue_links_to_it(page):
    done = page("12.fixed.md", "A line.\n")
    assert f"- A line. ([#12]({HOME}/issues/12))\n" in done.stdout


@pytest.mark.parametrize("name", ["+words.bugfix.md", "words.fixed.md", "notes.txt"])
def test_a_fragment_of_an_unknown_name_is_refused(page, name):
    done = page(name, "A line.\n")
    assert done.returncode == 1
    assert name.partition(".")[0] in done.stderr


def test_the_changelog_is_a_page_whose_first_release_fits_on_a_screen_or_two():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    start = "<!-- towncrier release notes start -->\n"
    assert text.count(start) == 1
    releases = re.split(r"(?m)^## ", text.partition(start)[2])[1:]
    assert [release.split()[0] for release in releases][-1] == "0.1.0"
    assert all(len(release.splitlines()) <= 90 for release in releases)
