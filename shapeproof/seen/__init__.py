"""Seen: what was observed of a model's inputs. No torch: an input is anything with sizes and a dtype.

calls.py       one call, read: its kind and the joint point of its sizes
lattice.py     the least affine lattice of points: all linear equalities and multiples
points.py      which points are kept: a sample by hash, and extremes
joint.py       the join of all calls of one kind
relations.py   the relations as formulas, with the witnesses of each
seen.py        `Seen`: the joins of all kinds; merging, saving
sources.py     what torch.compile is to take for dynamic, of what was seen and proved
saved.py       the file
text.py        the text
plots.py       the plot: sizes seen against sizes served
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.lazily import imported

if TYPE_CHECKING:
    from shapeproof.seen.seen import Seen as Seen

__all__, __getattr__ = imported(__name__, {".seen": "Seen"})
