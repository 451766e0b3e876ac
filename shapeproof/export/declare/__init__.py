"""From the call to `Inputs` (leaves, domain, anchors), and back from a repair to declarations.

inputs.py       what was declared, read
anchors.py      the points of the inputs that were given
followable.py   examples that no trace can follow, refused
redeclare.py    what to declare instead, written
"""
