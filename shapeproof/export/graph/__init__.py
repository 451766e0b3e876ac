"""Reads and writes traced graphs. It runs no data.

nodes.py         operators, operands, what is written
aliasing.py      views, and who shares storage
rounding.py      where a small difference becomes a large one
readback.py      what a graph asserts
emit.py          sizes and conditions as nodes
constants.py     tensors and numbers that a program holds
serializable.py  nodes that torch can save
"""
