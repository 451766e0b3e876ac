"""Limits on the work of one export; what lies beyond them is undecided, or a note says so.

docs/limits.md lists them. What one question to the solver may cost is its Budget.
"""

from __future__ import annotations

TRACE_LIMIT = 32
"""The most traces that one export may take; cells left over are undecided. The square of it in the plain way
(shapeproof/plain.py), where each question of an operator needs a trace."""

RUNS = 16
"""The most runs of one kind: corners, points for a layout that is read, reruns of an operator for a decision, attempts
at a better hint, traces that show how much of an inferred domain can be kept, programs that a model is split into."""

TRIES = 8
"""The most tries that seldom tell more: small points where two programs differ, random inputs on which failures are
sought, relations of seen inputs, looks at inferred sizes of 1; after so many traces a refuted branch of the model is
not looked into."""

COSTLY_TRIES = 4
"""The most tries that cost much each: checks on data tried as help, whose data side is explored again; small points at
which a decomposed program is run for a flipped answer; traces at a line of the model that leave its question undecided,
as for each length of a list of chunks."""

RETRIES = 2
"""How often a domain is explored again on torch's general path, or from another point without equal sizes by chance,
and how often a program is compared by dataflow in vain."""

CHEAP_ELEMENTS = 2**20
"""The most elements of the inputs, and of the model, of a run that counts as cheap."""

LARGE_ELEMENTS = 2**27
"""The most elements of inputs that are made (but for the example's), and that runs of a custom operator read
together."""

THREADS_WORK = 2**32
"""The most multiplications of a run whose kernels all run on one thread."""

LARGE_PROGRAM = 256
"""The graph nodes of a large program. For an inferred domain, programs of so many together are traced, or one; all runs
that seek the extent of failures may have so many for each of EXTENT_POINTS."""

KERNEL_POINTS = 192
"""The most points at which a custom operator is compared with its fake kernel."""

EXTENT_POINTS = 32
"""The points at which eager must raise before a condition is reported; a fourth for a check made on every path. A trace
costs as much as two such sets of runs."""

EXTENT_BOX = 2**12
"""A box of at most this many points is sampled evenly; of a larger box, the smallest points are run."""

TIED_SIZES = 24
"""The most equalities of the example that may be kept; if more are not known to hold, none is kept."""

COMPARISONS = 8
"""The most comparisons in a requirement that inferred sizes are narrowed to: more are not readable at a glance."""

NODE_ELEMENTS = 2**13
"""The elements that cost a run as much as one node of its graph: inputs of so many are built for any replay."""

REPLAY_GROWTH = 4
"""The largest ratio of a replay's inputs to the example's; half of it at a size in place of the end of a range that is
too large to be run."""

CORNER_WORK = 2**29
"""The most multiplications that runs at corners may need, together; a corner that would need more is not run."""

ROUNDS = 256
"""The most branches on one question about data: if the answer does not change, the loop has no end."""
HELD = 10_000
"""The most entries of a container in which functions and state of the model are sought: a larger one is data."""
