"""Turns the user's call into `Inputs` (leaves, domain, anchors), and a repair into declarations.

No file here traces a model.

inputs.py       the inputs, and the domain of their sizes
reading.py      reads the entries of dynamic_shapes and the relations
anchors.py      the points of the given inputs
materialize.py  tensors of other sizes, like the example's
specialized.py  the conditions for which a mark wants programs of their own
sources.py      torch.compile's list of dynamic sources, as declarations
redeclare.py    writes a repaired domain as declarations, when they are asked for
"""
