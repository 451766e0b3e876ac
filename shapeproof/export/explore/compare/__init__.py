"""Prove that two programs are the same on a region, without running data.

equivalence.py   the comparison
operations.py    the operations of each program
                 the metadata of nodes
idle.py          calls without effect on a region
uniform.py       tensors whose elements have one value on a region: masks without effect
moved.py         tables of the state that are moved, or resized to their own size
literals.py      integers written into tensors: constants where a size has one value
bodies.py        branches and blocks, graphs inside a graph; branches that a region decides
rerun.py         a program run again on symbolic sizes of another trace
"""
