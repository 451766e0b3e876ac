"""Limits on the work of one export; what lies beyond them is undecided, or a note says so.

docs/architecture.md lists them. What one question to the solver may cost is its Budget.
"""

from __future__ import annotations

TRACE_LIMIT = 32
"""The most traces that one export may take; cells left over are undecided."""

LOOK_LIMIT = 16
"""The most traces that may be spent on finding how much of an inferred domain can be kept."""

LOOK_NODES = 256
"""The most graph nodes that these traced programs may have together. A larger model gets exactly one such trace."""

LOOK_TRACES = 8
"""After this many traces, a refuted side of the model's own branch is not looked into: unseen cells come first."""

KERNEL_POINTS = 192
"""The most points at which a custom operator is compared with its fake kernel."""

KERNEL_ELEMENTS = 2**27
"""The most input and parameter elements that these runs may read together. At least two runs are made."""

KERNEL_NODE = 2**13
"""The number of these elements that running a node of the graph counts as."""

SMALL_POINTS = 8
"""The number of points, smallest first, run where two programs differ: empty tensors are often equal anyway."""

OBLIVIOUS_ROUNDS = 2
"""How often a domain is explored again on torch's general path, where the path of the traced point did not serve it."""

CHANCE_ROUNDS = 2
"""How often a point at which sizes are equal by chance is given up for another one."""

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

MOVED_ELEMENTS = 2**20
"""The most elements of a parameter that are followed through views and resizing while two programs are compared."""

SCOUT_ELEMENTS = 2**20
"""The most elements of the inputs, and of the model, of a run that counts as cheap."""

TIED_SIZES = 24
"""The most equalities of the example that may be kept; if more are not known to hold, none is kept."""

COMPARISONS = 8
"""The most comparisons in a requirement that inferred sizes are narrowed to: more are not readable at a glance."""

DRAWS = 8
"""The number of random inputs on which failures of both sides are sought, after those filled with one value."""

INPUT_ELEMENTS = 2**27
"""The most elements of inputs that are made, except for the example's: the system kills a process without memory."""

REPLAY_ELEMENTS = 2**13
"""The most elements of inputs that are built for a replay, unless the example is larger."""

REPLAY_GROWTH = 4
"""The largest ratio of a replay's inputs to the example's."""

STAND_IN_GROWTH = 2
"""The same, of a replay at a size that stands for the end of a range which is too large to be run."""

CORNERS = 16
"""The most corners that are run."""

CORNER_WORK = 2**29
"""The most multiplications that runs at corners may need, together; a corner that would need more is not run."""

PRODUCT_WORK = 2**22
"""The fewest multiplications of a call whose result is kept for its next call on the same operands."""

PRODUCT_ELEMENTS = 2**26
"""The most elements of such results and their operands that are kept during a comparison."""

LAYOUT_POINTS = 16
"""The most points with sizes of 1 that are run for each tensor whose layout the model reads."""

RERUNS = 16
"""The most reruns of one operator for one decision."""

ROUNDS = 256
"""The most branches on one question about data: if the answer does not change, the loop has no end."""

HINT_TRIES = 16
"""The most attempts to improve the point of a program's hints."""

DECOMPOSED_POINTS = 4
"""The points at which a decomposed program is run for each flipped answer: the smallest, and a generic one more."""

ATTEMPTS = 8
"""How many times a model is verified again with relations that held for all seen inputs."""

HELD = 10_000
"""The most entries of a container in which functions and state of the model are sought: a larger one is data."""

ONE_THREAD_ELEMENTS = 2**27
"""The most elements of the example and the model's parameters at which its kernels run on one thread."""
