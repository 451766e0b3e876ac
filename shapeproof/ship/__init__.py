"""Ship a program to a consumer as a file that is run beside eager before it is there.

shipping.py    `ship` writes a file, `verify` runs one that exists
targets.py     the consumers: how each converts a program, and runs its file
recurrence.py  LSTM, GRU and RNN as loops
box.py         the range of each size, for tools that build for ranges
points.py      the sizes at which a file is run, and inputs made from a contract alone
apart.py       runs a file in a process of its own
beside.py      runs the file beside eager, and compares results
verdict.py     what came out

in_transformers.py    has the exporters of transformers export by a proof
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.lazily import imported

if TYPE_CHECKING:
    from shapeproof.ship.box import ranges as ranges
    from shapeproof.ship.in_transformers import proving as proving
    from shapeproof.ship.shipping import ship as ship
    from shapeproof.ship.shipping import verify as verify
    from shapeproof.ship.targets import TARGETS as TARGETS
    from shapeproof.ship.targets import Target as Target
    from shapeproof.ship.verdict import FileDiffers as FileDiffers
    from shapeproof.ship.verdict import Verdict as Verdict

__all__, __getattr__ = imported(
    __name__,
    {
        ".box": "ranges",
        ".in_transformers": "proving",
        ".shipping": "ship verify",
        ".targets": "TARGETS Target",
        ".verdict": "FileDiffers Verdict",
    },
)
