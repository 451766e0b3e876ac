"""Prove that two programs are the same on a region, without running data.

equivalence.py   the comparison
operations.py    the operations of each program
idle.py          calls without effect on a region
moved.py         tables of the state that are moved, or resized to their own size
bodies.py        branches and other graphs inside a graph; those that a region decides
metadata.py      the metadata of nodes
rerun.py         a program run again on symbolic sizes of another trace
"""
