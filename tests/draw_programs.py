"""Draws the random programs of the ledger: `python -m tests.draw_programs COUNT` writes them anew.

They are kept as text, so that another release of Hypothesis does not change which ones they are.
"""

from __future__ import annotations

import json
import lzma
import sys

from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.ledger.sources import PROGRAMS
from tests.export.random_programs import MATRIX, probing_programs, programs, wide_programs


def drawn(strategy, count):
    """So many programs of a strategy, each once."""
    found = {}

    @settings(max_examples=count, phases=[Phase.generate], derandomize=True, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(program):
        inputs = "one" if program.interface is MATRIX else "two"
        ranges = [[box[0], box[-1]] for box in program.ranges]
        found[str(program)] = {
            "inputs": inputs,
            "body": list(program.body),
            "ranges": ranges,
            "example": list(program.example),
        }

    draw()
    return list(found.values())


if __name__ == "__main__":
    count = int(sys.argv[1])
    texts = [each for made in (programs(), wide_programs(), probing_programs()) for each in drawn(made, count // 3)]
    PROGRAMS.write_bytes(lzma.compress(json.dumps(texts).encode(), preset=9))
