"""The programs of a split model as one.

dispatch.py     which of them an input goes to
merge.py        one program, with torch.cond
branches.py     a program as a branch
predicates.py   the condition of a region, as arithmetic
"""
