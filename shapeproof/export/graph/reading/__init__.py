"""What nodes and graphs do, read off them.

nodes.py      operators, operands, what is written
aliasing.py   views, and who shares storage
rows.py       what varies with some sizes, and how
rounding.py   where a small difference becomes a large one
readback.py   what a graph asserts
"""
