"""Limits on the work of one export; what lies beyond them is undecided, or a note says so.

docs/architecture.md lists them. What one question to the solver may cost is its Budget.
"""

from __future__ import annotations

TRACE_LIMIT = 32
"""The most traces that one export may take; cells left over are undecided."""
PLAIN_TRACES = 1024
"""The same in the plain way (shapeproof/plain.py), where each question of an operator needs a trace."""

RUNS = 16
"""The most runs of one kind: corners, points for a layout that is read, reruns of an operator for a decision, attempts
at a better hint, traces that show how much of an inferred domain can be kept."""

TRIES = 8
"""The most tries that seldom tell more: small points where two programs differ, random inputs on which failures are
sought, relations of seen inputs; after so many traces a refuted branch of the model is not looked into."""

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

LOOK_NODES = 256
"""The most graph nodes that programs have together which are traced for an inferred domain. A larger model gets one."""

KERNEL_POINTS = 192
"""The most points at which a custom operator is compared with its fake kernel."""

KERNEL_NODE = 2**13
"""The number of read elements that running a node of the graph counts as."""

CHECKS_TO_STATE = 4
"""The most checks on data that are tried as help: each try explores the data side of the domain again."""

EXTENT_POINTS = 32
"""The points at which eager must raise before a condition is reported; a fourth for a check made on every path."""

EXTENT_NODES = 2**13
"""The most graph nodes that these runs may have together; further conditions are reported as they were found."""

TRACE_RUNS = 2**6
"""The runs of a program that cost as much as one trace of the model."""

EXTENT_BOX = 2**12
"""A box of at most this many points is sampled evenly; of a larger box, the smallest points are run."""

REGIONS = 16
"""The most programs that one model may be split into."""

TIED_SIZES = 24
"""The most equalities of the example that may be kept; if more are not known to hold, none is kept."""

COMPARISONS = 8
"""The most comparisons in a requirement that inferred sizes are narrowed to: more are not readable at a glance."""

REPLAY_ELEMENTS = 2**13
"""The most elements of inputs that are built for a replay, unless the example is larger."""

REPLAY_GROWTH = 4
"""The largest ratio of a replay's inputs to the example's."""

STAND_IN_GROWTH = 2
"""The same, of a replay at a size that stands for the end of a range which is too large to be run."""

CORNER_WORK = 2**29
"""The most multiplications that runs at corners may need, together; a corner that would need more is not run."""

ROUNDS = 256
"""The most branches on one question about data: if the answer does not change, the loop has no end."""

DECOMPOSED_POINTS = 4
"""The points at which a decomposed program is run for each flipped answer: the smallest, and a generic one more."""

HELD = 10_000
"""The most entries of a container in which functions and state of the model are sought: a larger one is data."""
