"""Serve: what runs around programs: made on demand, counted ahead, agreed on by ranks, given padded inputs.

on_demand.py  `compile`: dispatches each call to the program whose domain contains it; a miss exports again
attempts.py   the exports that are tried for a miss, and what was learned of calls
programs.py   one program: its domain, its form, how it is run; the program of a call; all as one archive
domains.py    domains over flat sizes, and which lies within which
misses.py     why no program served a call, as data
page.py       what was served, as HTML
forecasts.py  `forecast`: how many programs a declared domain needs
ranks.py      `agree` on what was seen, `together` with one program, over torch.distributed
calling/      one call: what it gives, the model's state, what runs it
padded/       `buckets`: the sizes to pad to, and whether a program may be padded
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.lazily import imported

if TYPE_CHECKING:
    from shapeproof.serve.forecasts import Border as Border
    from shapeproof.serve.forecasts import Forecast as Forecast
    from shapeproof.serve.forecasts import forecast as forecast
    from shapeproof.serve.misses import Miss as Miss
    from shapeproof.serve.misses import Reason as Reason
    from shapeproof.serve.on_demand import Served as Served
    from shapeproof.serve.on_demand import compile as compile  # noqa: A004
    from shapeproof.serve.padded.bucketing import Buckets as Buckets
    from shapeproof.serve.padded.bucketing import buckets as buckets
    from shapeproof.serve.padded.padding import Padding as Padding
    from shapeproof.serve.programs import Program as Program
    from shapeproof.serve.ranks import agree as agree
    from shapeproof.serve.ranks import together as together

__all__, __getattr__ = imported(
    __name__,
    {
        ".forecasts": "Border Forecast forecast",
        ".misses": "Miss Reason",
        ".on_demand": "Served compile",
        ".padded.bucketing": "Buckets buckets",
        ".padded.padding": "Padding",
        ".programs": "Program",
        ".ranks": "agree together",
    },
)
