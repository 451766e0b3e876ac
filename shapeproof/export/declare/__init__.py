"""From the call to `Inputs` (leaves, domain, example), and back from a repair to declarations.

inputs.py      what was declared, read
redeclare.py   what to declare instead, written
"""
