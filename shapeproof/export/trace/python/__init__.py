"""Symbolic versions of Python's functions and classes, for models that call them on sizes.

builtins.py          makes a model's functions call the symbolic versions
rewriting.py         rewrites their code
plain_numbers.py     symbolic `int`, `len`, `isinstance` and others
                     symbolic `range` and `set`
remembering.py       restores what code remembers between calls
whether_traced.py    notes where a model asks whether it is traced
rejoining.py         branches whose two sides rejoin in the same state
loops.py             loops written over: the body is a function of the step
branches.py          branches written over: both sides are functions of what they assign
merging.py           computes both sides of such a branch, and chooses by a term
rolled.py            records one step of such a loop for all of them; joins rows
one_body.py          the body that is recorded, and what would show that it is one
plain_objects.py     what an object holds, read without running its code
                     what an instruction reads or compares without running code
                     the user's functions that are held somewhere, and reachable by no name
"""
