"""From the call to `Inputs` (leaves, domain, example), and back from a repair to declarations.

inputs.py      what was declared, read                followable.py  examples that are refused
redeclare.py   what to declare instead, written
"""
