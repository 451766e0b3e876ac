"""How much one exploration may do before the rest is undecided."""

from __future__ import annotations

TRACE_LIMIT = 32
"""How many traces one export may take before the rest is called undecided."""

LOOK_LIMIT = 16
"""How many of them may go into finding out how much of an inferred domain can be kept."""

LOOK_NODES = 256
"""How many nodes all those programs may have together: of a large model one more is traced, and no more."""

LOOK_TRACES = 8
"""After so many, a refuted side of the model's own branch is not looked into: what nobody has looked at comes first."""

KERNEL_POINTS = 192
"""At how many points at most an operator that is not torch's own is held against its fake kernel."""

KERNEL_ELEMENTS = 2**27
"""How many elements of inputs and parameters may be read for it, all runs together; two runs are always made."""

SMALL_POINTS = 8
"""How many points, the smallest first, are run where two programs differ: empty tensors are often equal anyway."""

OBLIVIOUS_ROUNDS = 2
"""How often a domain is explored anew with torch's general path where the point's own path did not serve it."""

EXTENT_POINTS = 32
"""At how many sizes eager is run before it is said to raise wherever a condition holds."""

EXTENT_BOX = 2**12
"""Those are spread over a box of so many points, and the smallest of a larger one."""
