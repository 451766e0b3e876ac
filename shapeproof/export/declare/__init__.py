"""From the call to `Inputs` (leaves, domain, anchors), and back from a repair to declarations.

inputs.py       what was declared, read
anchors.py      the points of the inputs that were given
followable.py   examples that no trace can follow, refused
materialize.py  tensors of other sizes, like the example's
redeclare.py    what to declare instead, written
"""
