"""Tries, for each disagreement that is given as JSON, whether it can give a wrong "proved". One line of JSON for each.

python -m benchmarks.operators.trying MOST DISAGREEMENT...
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict

import torch

from benchmarks.operators.batch import Late, late, mark, say
from benchmarks.operators.probing import Tried, probe
from benchmarks.operators.watching import Disagreement

_SECONDS = 150
"""Processor time that a disagreement may take."""


def sweep(text: str) -> None:
    """Try a disagreement."""
    each = Disagreement.of(json.loads(text))
    mark(str(each.call))
    tried: list[Tried] = []
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        tried.extend(probe(each.call, each.kind))
    except Late:
        tried.append(Tried("", "late"))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    say("tried", found=each.data(), tried=[asdict(one) for one in tried])


def main(given: list[str]) -> None:
    """Try what is given."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGVTALRM, late)
    for text in given[1:]:
        say("begin", name=text)
        sweep(text)


if __name__ == "__main__":
    main(sys.argv[1:])
