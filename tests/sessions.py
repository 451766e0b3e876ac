"""The shell sessions in Markdown pages: making the files that a page shows, running its commands, comparing the output.

A block after the comment <!-- file: NAME --> is that file, from there on. A ```console block has commands, `$ ...`,
each followed by what it prints, on stdout or stderr; seconds are compared as 0.0, progress not at all. The commands
are those of shapeproof.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

STEP = re.compile(
    r"(?ms)^<!-- file: (?P<name>\S+) -->\n```\w*\n(?P<content>.*?)^```$|^```console\n(?P<session>.*?)^```$"
)
SECONDS = re.compile(r" +\d+\.\d$", re.MULTILINE)
PROGRESS = re.compile(r" \(\d+\.\d s\)$")
PROGRAM = "from shapeproof.ci.cli import main; main()"


def replay(page, folder):
    """The page with each session as it goes in a folder."""

    def step(found):
        if found["name"]:
            path = folder / found["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found["content"], encoding="utf-8")
            return found[0]
        commands = [line for line in found["session"].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{command}\n{run(command, folder)}" for command in commands) + "```"

    return STEP.sub(step, page)


def run(command, folder):
    """What a command prints; what it found, or, if it found nothing, what it says about that."""
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "shapeproof"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    said = "".join(line for line in done.stderr.splitlines(keepends=True) if not PROGRESS.search(line))
    return SECONDS.sub(lambda found: "0.0".rjust(len(found[0])), done.stdout or said)
