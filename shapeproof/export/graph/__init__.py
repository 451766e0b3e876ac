"""Reads and writes traced graphs, without running them.

nodes.py         operators, operands, mutations
work.py          how much a run multiplies
aliasing.py      views and shared storage
                 whether a program can tell how a result lies in memory
rounding.py      operators that amplify a small difference
readback.py      the assertions of a graph, as formulas
emit.py          sizes and conditions as nodes
                 nodes that torch can save
constants.py     tensors and numbers that a program holds
"""
