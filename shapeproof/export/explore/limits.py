"""Limits on the work of one exploration; what lies beyond them is undecided."""

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

SMALL_POINTS = 8
"""The number of points, smallest first, run where two programs differ: empty tensors are often equal anyway."""

OBLIVIOUS_ROUNDS = 2
"""How often a domain is explored again on torch's general path, where the path of the traced point did not serve it."""

EXTENT_POINTS = 32
"""The number of points at which eager must raise before a condition is reported as the cause."""

EXTENT_BOX = 2**12
"""A box of at most this many points is sampled evenly; of a larger box, the smallest points are run."""
