"""Serves a model by several programs, one for each region of sizes.

dispatch.py     selects the program for an input
merge.py        one program, with torch.cond
branches.py     a program as a branch
predicates.py   the condition of a region, as arithmetic
"""
