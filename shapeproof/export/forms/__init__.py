"""Other forms of a program, and of declarations, made on demand by the main path, which knows of none of them.

programs.py     the programs that users get, with a method for each form
comparison.py   where two programs are the same, and the smallest input on which they differ
gradients.py    results and gradients in one program
merge.py        the programs of a split model in one, by torch.cond
branches.py     a program as a branch of it
predicates.py   the condition of a region, as arithmetic
seen/           declarations by a profile of seen inputs
static/         a program at the bounds of its sizes
"""
