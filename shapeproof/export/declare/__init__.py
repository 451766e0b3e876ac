"""From the call to `Inputs` (leaves, domain, example), and back from a repair to declarations.

inputs.py      what was declared, read
anchors.py     the points of the inputs that were given
redeclare.py   what to declare instead, written
"""
