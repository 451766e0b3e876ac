"""Are two programs the same on a region? No data are run.

equivalence.py   the comparison
operations.py    one operation of each
bodies.py        branches and other graphs inside a graph
metadata.py      what the nodes are said to be
taken.py         what a program takes
rerun.py         a program run again on symbolic sizes of another trace
"""
